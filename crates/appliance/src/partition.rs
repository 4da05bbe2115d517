//! Partition of the addresses: a ring, an engine, and a thread for both (§4.6).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wellspring_core::{Duration as Span, Time};
use wellspring_maelstrom::{ReceiveSide, SendSide, SessionId};

use crate::addresses::Addresses;
use crate::cache_service::SharedCache;
use crate::capture::Capture;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::filter::PartitionFilter;
use crate::inject::{LocalSocket, PeerSocket};
use crate::interface::InterfaceName;
use crate::setup::{Config, SetupError};
use crate::status::PartitionStatus;
use crate::sys;

/// Packets looked at before what is to be sent is sent.
const ROUND: usize = 256;
/// Repairs that wait for others at most, so that they leave by one system call.
const REPAIRS: usize = 32;
/// How long the loop sleeps while packets pass: several are then looked at together.
const NAP: Duration = Duration::from_micros(100);
/// How long it waits for a packet when none passes.
const WAIT: Duration = Duration::from_millis(50);
/// How often loss is reported to the other side.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// How often what others may ask is brought up to date.
const STATUS_EVERY: Duration = Duration::from_millis(100);
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// What all partitions have in common.
pub(crate) struct Plan {
    pub config: Config,
    /// Longest packet on the long link \[bytes\].
    pub wan_mtu: usize,
    /// Where the peer's datagrams come.
    pub own: Vec<IpAddr>,
    /// Where packets to local hosts are kept, if they are.
    pub cache: Option<SharedCache>,
}

/// A partition that is ready to run.
pub(crate) struct Partition {
    capture: Capture,
    /// Packets passed unseen behind those that the ring had at the last count of drops.
    unseen: bool,
    engine: Engine,
    /// How long recovered packets wait.
    hold: Span,
    interfaces: [InterfaceName; 2],
}

impl Partition {
    /// Opens what a partition needs; from then on its packets wait in its ring.
    pub(crate) fn open(plan: &Plan, number: u8, session: SessionId) -> Result<Self, SetupError> {
        let Config { partitions, peer, .. } = plan.config;
        let key = plan.config.key.for_partition(number, partitions);
        let code = |error: wellspring_codec::interleave::InterleaveError| {
            SetupError::Code(error.to_string())
        };
        let send = SendSide::new(&key, session, &plan.config.send).map_err(code)?;
        let receive = ReceiveSide::new(&key, session, &plan.config.receive).map_err(code)?;
        let filter = PartitionFilter { partition: number, partitions, peer, own: plan.own.clone() };
        // Who may not watch packets hears that first.
        let longest = plan.wan_mtu + 64;
        let (ring, program) = (plan.config.ring, filter.program());
        // Before the sockets: one that is made anew meanwhile is noticed.
        let interfaces = [&plan.config.wan, &plan.config.lan].map(|name| InterfaceName::new(name));
        let gone = |name: &InterfaceName| SetupError::NoInterface(name.name.clone());
        if let Some(name) = interfaces.iter().find(|name| name.index.is_none()) {
            return Err(gone(name));
        }
        let wan_index = interfaces[0].index.ok_or_else(|| gone(&interfaces[0]))?;
        let capture = Capture::packets(wan_index, longest, ring, &program).map_err(refused)?;
        let port = peer.port() + u16::from(number);
        let at = SocketAddr::new(peer.ip(), port);
        let there = PeerSocket::new(at, &plan.config.wan, plan.config.site)
            .map_err(|error| SetupError::System("the socket towards the peer", error))?;
        let local = LocalSocket::new(&plan.config.lan, there.local()).map_err(refused)?;
        let addresses = Addresses {
            remote: plan.config.remote.clone(),
            peer: peer.ip(),
            own: plan.own.clone(),
            port,
        };
        tracing::debug!("partition {number}: a ring of {} packets", capture.capacity());
        let mut engine =
            Engine::new(send, receive, there, local, addresses, plan.config.needs_address());
        engine.cache = plan.cache.clone();
        Ok(Partition { capture, unseen: false, engine, hold: plan.config.receive.hold, interfaces })
    }

    /// Lets it run in a thread of its own.
    pub(crate) fn start(self, tenure: u64) -> io::Result<Worker> {
        let stop = Arc::new(AtomicBool::new(false));
        let status = Arc::new(Mutex::new(self.engine.status(0)));
        let progress = Arc::new(AtomicBool::new(true));
        let (flag, shared, turns) = (Arc::clone(&stop), Arc::clone(&status), Arc::clone(&progress));
        let work = move || self.run(&flag, &shared, &turns);
        let thread = thread::Builder::new().name("partition".into()).spawn(work)?;
        Ok(Worker { tenure, stop, status, progress, thread })
    }

    fn run(
        mut self,
        stop: &AtomicBool,
        shared: &Mutex<PartitionStatus>,
        progress: &AtomicBool,
    ) -> PartitionStatus {
        sys::wake_exactly();
        let begin = Instant::now();
        let clock = Clock::starting_at(begin);
        // The first report at once: the peer hears of this session, and this end which sessions the peer hears.
        let (mut report_at, mut status_at) = (begin, begin);
        let mut busy = false;
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let time = clock.at(now);
            let seen = self.look(now, time);
            self.engine.handle_timeout(time);
            if now >= report_at || self.engine.receive.report_is_urgent(time) {
                report_at = now + REPORT_EVERY;
                self.engine.report(time);
            }
            self.engine.peer.send(&mut self.engine.repairs);
            if now >= status_at {
                status_at = now + STATUS_EVERY;
                self.engine.diagnose(time);
                if self.interfaces.iter().any(InterfaceName::has_changed) {
                    break;
                }
                self.unseen |= self.capture.count_drops();
                let status = self.engine.status(self.capture.drops());
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = status;
                progress.store(true, Ordering::Relaxed);
            }
            if seen == ROUND {
                continue;
            }
            // After a quiet nap, wait to be woken; while packets pass, look again soon.
            if seen > 0 || busy {
                thread::sleep(NAP);
            } else {
                let next = self.engine.poll_timeout().map(|at| at.since(time));
                let next = next.map_or(WAIT, |span| Duration::from_nanos(span.as_nanos()));
                self.capture.wait(next.clamp(Duration::from_micros(1), WAIT));
            }
            busy = seen > 0;
        }
        // Recovered packets that wait still leave, and so do delayed repairs.
        self.engine.handle_timeout(clock.now() + self.hold);
        self.engine.peer.send(&mut self.engine.repairs);
        self.capture.count_drops();
        self.engine.status(self.capture.drops())
    }

    /// Looks at some packets; returns how many those were.
    fn look(&mut self, now: Instant, time: Time) -> usize {
        let (mut seen, mut marked) = (0, false);
        while seen < ROUND
            && let Some(packet) = self.capture.next()
        {
            seen += 1;
            if packet.after_unseen || self.unseen {
                marked |= packet.after_unseen;
                self.engine.receive.on_unseen(time);
            }
            if matches!(packet.protocol, IPV4 | IPV6) && !packet.is_of_vlan() {
                self.engine.handle(now, time, packet.bytes, packet.way, packet.unlike);
            }
            if self.engine.repairs.len() >= REPAIRS {
                self.engine.peer.send(&mut self.engine.repairs);
            }
        }
        // Where in the ring the drops are is not known, but they are in it.
        self.unseen &= seen == ROUND;
        if marked {
            // Packets are marked until the drops have been counted.
            self.unseen |= self.capture.count_drops();
        }
        seen
    }
}

/// A partition that runs.
pub(crate) struct Worker {
    /// Which claim to the partition it serves.
    pub tenure: u64,
    stop: Arc<AtomicBool>,
    status: Arc<Mutex<PartitionStatus>>,
    /// Set while its thread takes turns.
    progress: Arc<AtomicBool>,
    thread: JoinHandle<PartitionStatus>,
}

impl Worker {
    pub(crate) fn status(&self) -> PartitionStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether its thread has taken a turn since this was asked last.
    pub(crate) fn made_progress(&self) -> bool {
        self.progress.swap(false, Ordering::Relaxed)
    }

    /// Whether it has ended by itself, as only a broken invariant makes it.
    pub(crate) fn failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it; gives back its account.
    ///
    /// # Panics
    /// If it has panicked.
    pub(crate) fn end(self) -> PartitionStatus {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

pub(crate) fn refused(error: io::Error) -> SetupError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => SetupError::NotAllowed(error),
        _ => SetupError::System("watching packets", error),
    }
}
