//! Frames that one thread of a switch hands to another, in order.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use super::egress::Waiting;

/// Frames between threads that wait for one of them, at most.
const MOST_FRAMES: usize = 8_192;

/// A frame for a port of another thread.
pub(super) struct Frame {
    /// When it came in.
    pub at: Instant,
    /// The port by which it leaves.
    pub port: usize,
    pub bytes: Vec<u8>,
    /// How it waits there; its number of a buffer is the other thread's.
    pub waiting: Waiting,
}

/// Frames for one thread, from all others.
pub(super) struct Inbox {
    thread: usize,
    frames: Receiver<Frame>,
    /// A frame that was looked for before falling asleep.
    first: Option<Frame>,
    asleep: Arc<AtomicBool>,
    bell: UnixStream,
    alone: bool,
}

/// The way to a thread's [`Inbox`].
pub(super) struct Outbox {
    frames: SyncSender<Frame>,
    asleep: Arc<AtomicBool>,
    bell: UnixStream,
    /// Something was put in since the other thread was last woken.
    pending: bool,
}

/// For each of so many threads its inbox, and the ways to all of them.
pub(super) fn between(threads: usize) -> io::Result<Vec<(Inbox, Vec<Outbox>)>> {
    let mut inboxes = Vec::new();
    let mut ways = Vec::new();
    for thread in 0..threads {
        let (sender, frames) = sync_channel(MOST_FRAMES);
        let (bell, rings) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rings.set_nonblocking(true)?;
        let asleep = Arc::new(AtomicBool::new(false));
        ways.push((sender, Arc::clone(&asleep), rings));
        inboxes.push(Inbox { thread, frames, first: None, asleep, bell, alone: threads == 1 });
    }
    let outboxes = || -> io::Result<Vec<Outbox>> {
        let each = ways.iter().map(|(sender, asleep, rings)| {
            let (frames, asleep) = (sender.clone(), Arc::clone(asleep));
            Ok(Outbox { frames, asleep, bell: rings.try_clone()?, pending: false })
        });
        each.collect()
    };
    inboxes.into_iter().map(|inbox| Ok((inbox, outboxes()?))).collect()
}

impl Inbox {
    /// The number of its thread.
    pub(super) fn thread(&self) -> usize {
        self.thread
    }

    /// The next frame, if there is one. Those of one thread come in the order in which it put them.
    pub(super) fn take(&mut self) -> Option<Frame> {
        if self.alone {
            return None;
        }
        self.first.take().or_else(|| self.frames.try_recv().ok())
    }

    /// To wait for frames; none if there is no other thread.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.alone).then(|| self.bell.as_fd())
    }

    /// Lets the other threads ring from now on; false if a frame is there already.
    pub(super) fn falls_asleep(&mut self) -> bool {
        if self.alone {
            return true;
        }
        self.asleep.store(true, Ordering::SeqCst);
        self.first = self.first.take().or_else(|| self.frames.try_recv().ok());
        self.first.is_none()
    }

    /// Needs no ringing from now on.
    pub(super) fn wakes_up(&mut self) {
        // What rang stays in the pipe otherwise.
        if !self.alone && !self.asleep.swap(false, Ordering::SeqCst) {
            let _ = self.bell.read(&mut [0; 64]);
        }
    }
}

impl Outbox {
    /// Puts a frame in; false if there is no room.
    pub(super) fn put(&mut self, frame: Frame) -> bool {
        self.pending = true;
        self.frames.try_send(frame).is_ok()
    }

    /// Wakes the thread if it sleeps and there is something for it.
    pub(super) fn wake(&mut self) {
        if core::mem::take(&mut self.pending) && self.asleep.swap(false, Ordering::SeqCst) {
            // Full of rings: it will wake up.
            let _ = self.bell.write(&[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Treatment;
    use super::*;

    fn frame(number: u8) -> Frame {
        let treatment = Treatment { class: 1, cut: None, reads_marks: false };
        let waiting = Waiting::new(0, 60, treatment, None);
        Frame { at: Instant::now(), port: 0, bytes: vec![number], waiting }
    }

    #[test]
    fn frames_come_in_order_and_no_more_than_there_is_room_for() {
        let mut threads = between(2).expect("sockets");
        let (_, mut ways) = threads.pop().expect("two");
        let (mut inbox, _) = threads.pop().expect("two");
        let room = (0..MOST_FRAMES + 10).filter(|n| ways[0].put(frame(*n as u8))).count();
        assert_eq!(room, MOST_FRAMES);
        assert!(!inbox.falls_asleep(), "frames wait");
        inbox.wakes_up();
        for n in 0..MOST_FRAMES {
            assert_eq!(inbox.take().expect("there").bytes, [n as u8]);
        }
        assert!(inbox.take().is_none());
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_once() {
        let mut threads = between(2).expect("sockets");
        let (_, mut ways) = threads.pop().expect("two");
        let (mut inbox, _) = threads.pop().expect("two");
        let rung = |inbox: &Inbox| (&inbox.bell).read(&mut [0; 64]).unwrap_or(0);
        ways[0].put(frame(1));
        ways[0].wake();
        assert_eq!(rung(&inbox), 0, "it does not sleep");
        assert!(inbox.take().is_some() && inbox.falls_asleep());
        for number in 0..3 {
            ways[0].put(frame(number));
            ways[0].wake();
        }
        assert_eq!(rung(&inbox), 1);
        inbox.wakes_up();
        ways[0].put(frame(9));
        ways[0].wake();
        assert_eq!(rung(&inbox), 0);
        assert_eq!(std::iter::from_fn(|| inbox.take()).count(), 4);
    }

    #[test]
    fn one_thread_has_nobody_to_wait_for() {
        let mut threads = between(1).expect("sockets");
        let (mut inbox, _) = threads.pop().expect("one");
        assert!(inbox.as_fd().is_none() && inbox.falls_asleep() && inbox.take().is_none());
    }
}
