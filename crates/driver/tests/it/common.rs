//! Objects in memory and sessions that are waited for, for tests of drivers on loopback.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wellspring_core::SessionId;
use wellspring_driver::protocols::{Driver, ReceiveObject, Recipients, SendObject};
use wellspring_driver::store::{ObjectSink, ObjectSource};
use wellspring_driver::{DriverConfig, EventSink, Failure, SessionEvent, SessionProgress};
use wellspring_testkit::random_bytes;
use wellspring_testkit::wait::wait_until;
use wellspring_transport::scdp::{ObjectInfo, ReceiveStats, Share};
use wellspring_wire::scdp::Mode;

/// What no transfer here should take: a guard, not a measure.
pub const GUARD: Duration = Duration::from_secs(20);

pub const SYMBOL_SIZE: u16 = 1_400;
pub const SYMBOLS_PER_BLOCK: u32 = 100;
pub const WINDOW: u8 = 12;

/// An object's bytes in memory.
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn random(len: usize, seed: u64) -> Arc<Bytes> {
        Arc::new(Bytes(random_bytes(len, seed)))
    }

    pub fn info(&self) -> ObjectInfo {
        let digest = self.digest();
        let tag = u64::from_be_bytes(digest[..8].try_into().expect("eight bytes"));
        ObjectInfo::new(self.0.len() as u64, SYMBOL_SIZE, SYMBOLS_PER_BLOCK, tag)
    }

    pub fn digest(&self) -> [u8; 32] {
        *blake3::hash(&self.0).as_bytes()
    }
}

impl ObjectSource for Bytes {
    fn read_block(&self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        block.copy_from_slice(&self.0[start..start + block.len()]);
        Ok(())
    }
}

/// Takes an object's bytes into memory.
pub struct Gather {
    bytes: Mutex<Vec<u8>>,
    pub written: AtomicU64,
}

impl Gather {
    pub fn new(len: usize) -> Arc<Gather> {
        Arc::new(Gather { bytes: Mutex::new(vec![0; len]), written: AtomicU64::new(0) })
    }

    pub fn assert_is(&self, object: &Bytes) {
        assert_eq!(self.written.load(Relaxed), object.0.len() as u64, "each block once");
        assert!(*self.bytes.lock().expect("no panic") == object.0, "the bytes differ");
    }
}

impl ObjectSink for Gather {
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        let start = offset as usize;
        self.bytes.lock().expect("no panic")[start..start + block.len()].copy_from_slice(block);
        self.written.fetch_add(block.len() as u64, Relaxed);
        Ok(())
    }
}

/// An object of which the first quarter can be read at once, and the rest when the test says so.
struct Gated {
    object: Arc<Bytes>,
    hold: Mutex<Receiver<Infallible>>,
}

/// The gate, which opens when it is dropped, and the source behind it.
pub fn gated(object: &Arc<Bytes>) -> (Sender<Infallible>, Arc<dyn ObjectSource>) {
    let (begin, hold) = channel();
    (begin, Arc::new(Gated { object: Arc::clone(object), hold: Mutex::new(hold) }))
}

impl ObjectSource for Gated {
    fn read_block(&self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        if offset >= self.object.0.len() as u64 / 4 {
            // Ends with an error when the other end is dropped.
            let _ = self.hold.lock().expect("no panic").recv();
        }
        self.object.read_block(offset, block)
    }
}

/// Waits until each sender is asked for symbols, and so has been heard of.
pub fn wait_until_pulled<'a>(senders: impl Iterator<Item = &'a Driver> + Clone) {
    let pulled =
        |driver: &Driver| driver.handle().statistics().expect("running").received.datagrams > 0;
    wait_until(|| "a sender is not asked", || senders.clone().all(pulled));
}

/// A session's events, to be waited for.
pub struct Watch {
    events: Receiver<SessionEvent>,
    pub progress: Option<SessionProgress>,
    pub seen: Vec<String>,
}

impl Watch {
    pub fn new() -> (Watch, EventSink) {
        let (sender, events) = channel();
        let sink = Box::new(move |event| {
            // A test that has seen enough does not listen any more.
            let _ = sender.send(event);
        });
        (Watch { events, progress: None, seen: Vec::new() }, sink)
    }

    /// The next event.
    pub fn next(&mut self) -> SessionEvent {
        match self.events.recv_timeout(GUARD) {
            Ok(event) => {
                self.seen.push(format!("{event:?}"));
                event
            }
            Err(RecvTimeoutError::Timeout) => {
                panic!("no event for {GUARD:?}; {:?}; before: {:?}", self.progress, self.seen)
            }
            Err(RecvTimeoutError::Disconnected) => panic!("no last event; {:?}", self.seen),
        }
    }

    /// The last event, after which there must be none.
    pub fn last(&mut self) -> SessionEvent {
        loop {
            let event = self.next();
            if event.is_last() {
                let more = self.events.recv_timeout(GUARD);
                assert!(matches!(more, Err(RecvTimeoutError::Disconnected)), "after the last");
                return event;
            }
        }
    }

    pub fn received(&mut self) -> ReceiveStats {
        match self.last() {
            SessionEvent::Received { stats, senders } => {
                assert_eq!(senders.len(), stats.senders.len());
                stats
            }
            other => panic!("{other:?}; before: {:?}", self.seen),
        }
    }

    pub fn sent(&mut self) {
        match self.last() {
            SessionEvent::Sent { .. } => {}
            other => panic!("{other:?}; before: {:?}", self.seen),
        }
    }

    pub fn failed(&mut self) -> Failure {
        match self.last() {
            SessionEvent::Failed(failure) => failure,
            other => panic!("{other:?}; before: {:?}", self.seen),
        }
    }
}

pub fn config() -> DriverConfig {
    let mut config = DriverConfig::new((Ipv4Addr::LOCALHOST, 0).into());
    config.workers = 2;
    config
}

pub fn start(config: DriverConfig) -> Driver {
    Driver::start(config, Box::new(|_| false)).expect("loopback")
}

/// Sends `object` from a driver.
pub fn send(driver: &Driver, session: u32, object: &Arc<Bytes>, to: Recipients) -> Watch {
    send_from(driver, session, object, Arc::clone(object) as Arc<dyn ObjectSource>, to)
}

/// Sends `object` from a driver that reads its bytes from `source`.
pub fn send_from(
    driver: &Driver,
    session: u32,
    object: &Bytes,
    source: Arc<dyn ObjectSource>,
    to: Recipients,
) -> Watch {
    let (mut watch, sink) = Watch::new();
    let request = SendObject {
        session: SessionId(session),
        object: object.info(),
        digest: object.digest(),
        source,
        to,
        initial_window: WINDOW,
        resume: None,
        key: None,
        priority: wellspring_core::Priority::Normal,
    };
    watch.progress = Some(driver.handle().send_object(request, sink).expect("running"));
    watch
}

pub fn to_one(receiver: SocketAddr, index: u8, count: u8) -> Recipients {
    Recipients::One { receiver, share: Share { index, count } }
}

/// Expects `object` at a driver.
pub fn expect(
    driver: &Driver,
    session: u32,
    object: &Bytes,
    mode: Mode,
    senders: &[SocketAddr],
) -> (Watch, Arc<Gather>) {
    let sink = Gather::new(object.0.len());
    let into = Arc::clone(&sink) as Arc<dyn ObjectSink>;
    (expect_into(driver, session, object, mode, senders, into), sink)
}

pub fn expect_into(
    driver: &Driver,
    session: u32,
    object: &Bytes,
    mode: Mode,
    senders: &[SocketAddr],
    sink: Arc<dyn ObjectSink>,
) -> Watch {
    let (mut watch, events) = Watch::new();
    let request = ReceiveObject {
        session: SessionId(session),
        object: object.info(),
        digest: object.digest(),
        mode,
        senders: senders.to_vec(),
        initial_window: WINDOW,
        sink,
        complete: Vec::new(),
        key: None,
        priority: wellspring_core::Priority::Normal,
    };
    watch.progress = Some(driver.handle().receive_object(request, events).expect("running"));
    watch
}
