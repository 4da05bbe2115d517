//! Threads of a test in network namespaces.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use wellspring_appliance::link_emulator::{self, LinkConfig};

/// Runs `work` on a thread of its own in a namespace of `ip netns`.
pub fn spawn_inside<T: Send + 'static>(
    namespace: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let space = File::open(Path::new("/run/netns").join(namespace)).expect("the namespace");
    std::thread::spawn(move || {
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may");
        work()
    })
}

/// Switches off the offloads of an interface, so that one packet is one frame.
pub fn make_plain(namespace: &str, interface: &str) {
    let interface = interface.to_owned();
    let done = spawn_inside(namespace, move || link_emulator::make_plain(&interface));
    done.join().expect("no panic").expect("offloads can be switched off");
}

/// A link between the interfaces `near` and `far` of a namespace, until it is dropped.
pub struct LongLink {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LongLink {
    pub fn start(namespace: &str, config: LinkConfig) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = spawn_inside(namespace, move || {
            link_emulator::run("near", "far", &config, &flag).expect("a link");
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for LongLink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the link failed");
    }
}
