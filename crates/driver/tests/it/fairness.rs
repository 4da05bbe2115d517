//! Sessions of one sender that share its disk and its memory.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::common::*;
use wellspring_core::SessionId;
use wellspring_driver::protocols::{Driver, SendObject};
use wellspring_driver::store::ObjectSource;
use wellspring_transport::scdp::ObjectInfo;
use wellspring_wire::scdp::{Mode, Pull, ScdpHeader, emit};

/// What a block takes on the disk.
const READ_TIME: Duration = Duration::from_millis(1);
/// Blocks that the greedy receiver asks for in turn.
const BLOCKS: u32 = 20_000;
/// Pulls between two looks at whether it is to stop.
const PULLS_AT_A_TIME: u32 = 64;

/// A slow disk, which counts the blocks that are read.
struct Disk {
    bytes: Option<Arc<Bytes>>,
    read: Arc<AtomicU64>,
}

impl ObjectSource for Disk {
    fn read_block(&self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        std::thread::sleep(READ_TIME);
        self.read.fetch_add(1, Relaxed);
        match &self.bytes {
            Some(bytes) => bytes.read_block(offset, block),
            None => {
                block.fill(0);
                Ok(())
            }
        }
    }
}

/// Sends a large object to `socket`, which says which symbols it wants: each is of another block.
fn send_scattered(
    driver: &Driver,
    session: u32,
    socket: UdpSocket,
    read: &Arc<AtomicU64>,
) -> Greedy {
    let (watch, sink) = Watch::new();
    let block = u64::from(SYMBOL_SIZE) * u64::from(SYMBOLS_PER_BLOCK);
    let object = ObjectInfo::new(u64::from(BLOCKS) * block, SYMBOL_SIZE, SYMBOLS_PER_BLOCK, 1);
    let request = SendObject {
        session: SessionId(session),
        object,
        digest: [1; 32],
        source: Arc::new(Disk { bytes: None, read: Arc::clone(read) }),
        to: to_one(socket.local_addr().expect("bound"), 0, 1),
        initial_window: WINDOW,
        resume: None,
        key: None,
        priority: wellspring_core::Priority::Normal,
    };
    driver.handle().send_object(request, sink).expect("running");
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, sender) = (Arc::clone(&stop), driver.local_addr());
    let asking = std::thread::spawn(move || {
        let mut granted = u32::from(WINDOW);
        let mut bytes = vec![0; 2_048];
        socket.set_nonblocking(true).expect("a flag");
        while !stopped.load(Relaxed) {
            for _ in 0..PULLS_AT_A_TIME {
                granted += 1;
                let sbn = (granted * 7_919) % BLOCKS;
                let pull =
                    Pull { sbn, granted, floor: 0, run: 1, epoch: 0, fin: false, first: Some(0) };
                let header = ScdpHeader::Pull(pull);
                let len = emit(SessionId(session), &header, &[0; 32], 0, &mut bytes);
                // A full socket loses it, and the next one says more.
                let _ = socket.send_to(&bytes[..len], sender);
            }
            while socket.recv(&mut bytes).is_ok() {}
            std::thread::yield_now();
        }
    });
    Greedy { _watch: watch, stop, asking: Some(asking) }
}

/// A receiver that asks until it is dropped.
struct Greedy {
    _watch: Watch,
    stop: Arc<AtomicBool>,
    asking: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Greedy {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(asking) = self.asking.take() {
            let _ = asking.join();
        }
    }
}

#[test]
fn a_receiver_that_asks_for_scattered_blocks_does_not_hold_up_another() {
    let mut shared = config();
    shared.workers = 1;
    shared.send_memory = 16 << 20;
    let (from, to) = (start(shared), start(config()));
    let greedy = Arc::new(AtomicU64::new(0));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let asking = send_scattered(&from, 6, socket, &greedy);
    wellspring_testkit::wait::wait_until(|| "it is served", || greedy.load(Relaxed) > 200);

    let object = Bytes::random(14_000_000, 20);
    let honest = Arc::new(AtomicU64::new(0));
    let before = greedy.load(Relaxed);
    let (mut receiving, sink) = expect(&to, 5, &object, Mode::Unicast, &[from.local_addr()]);
    let disk = Disk { bytes: Some(Arc::clone(&object)), read: Arc::clone(&honest) };
    let mut sending = send_from(&from, 5, &object, Arc::new(disk), to_one(to.local_addr(), 0, 1));
    receiving.received();
    sink.assert_is(&object);
    sending.sent();
    let (greedy, honest) = (greedy.load(Relaxed) - before, honest.load(Relaxed));
    drop(asking);
    println!("{greedy} blocks read for the greedy receiver, {honest} for the other");
    // Each has as many bytes on their way from the disk as the other, or a few times as many.
    assert!(
        greedy < 10 * honest,
        "{greedy} blocks read for the greedy receiver, {honest} for the other"
    );
}
