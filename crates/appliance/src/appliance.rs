//! The loop of an appliance: packets past, repairs out, recovered packets in.

use std::io;
use std::net::IpAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wellspring_core::{Duration as Span, Time};
use wellspring_maelstrom::{Arrival, Batch, LossReport, ReceiveSide, SendSide, SessionId};

use crate::capture::{Capture, Way};
use crate::control::{ControlSocket, Controls};
use crate::glue;
use crate::inject::{LocalSocket, PeerSocket, destination, source, udp_payload};
use crate::offload::Offloads;
use crate::prefix::Prefix;
use crate::setup::{Config, SetupError, check};
use crate::status::{LateHistogram, Losses, Status};

/// Packets looked at before what is to be sent is sent.
const ROUND: usize = 256;
/// Repairs that wait for others at most, so that they leave by one system call.
const REPAIRS: usize = 32;
/// How long the loop sleeps while packets pass: several are then looked at together.
const NAP: Duration = Duration::from_micros(100);
/// How long it waits for a packet when none passes.
const WAIT: Duration = Duration::from_millis(50);
/// How often the other side is told what is lost.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// How often what others may ask is brought up to date.
const STATUS_EVERY: Duration = Duration::from_millis(200);
/// A peer that says nothing for so long is not there.
const PEER_SILENT: Duration = Duration::from_secs(4);
/// The beginning of 2024 \[ns since 1970\]: earlier than any session.
const LONG_PAST: u64 = 1_704_067_200_000_000_000;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// A Maelstrom appliance, ready to run.
pub struct Appliance {
    config: Config,
    controls: Controls,
    longest: usize,
    capture: Capture,
    engine: Engine,
    _control: ControlSocket,
    // Last, so that offloads are put back when nothing is watched any more.
    _offloads: Offloads,
}

/// The two sides and their sockets.
struct Engine {
    send: SendSide,
    receive: ReceiveSide,
    peer: PeerSocket,
    local: LocalSocket,
    remote: Vec<Prefix>,
    peer_ip: IpAddr,
    port: u16,
    repairs: Batch,
    recovered: Batch,
    late: LateHistogram,
    heard: Option<Instant>,
    leaving: Option<LossReport>,
    unlike: u64,
    passed_over: u64,
}

impl Appliance {
    /// Checks what must be so, switches off what must be off, and opens what is needed.
    ///
    /// # Errors
    /// Why it does not start; nothing is left changed.
    pub fn new(mut config: Config, controls: Controls) -> Result<Self, SetupError> {
        let ground = check(&config)?;
        config.send.longest = ground.longest;
        config.receive.longest = ground.longest;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = now.as_nanos() as u64;
        if start < LONG_PAST {
            return Err(SetupError::Clock);
        }
        let random = getrandom::u64()
            .map_err(|error| SetupError::System("random numbers", io::Error::other(error)))?;
        let session = SessionId { start, random };
        let code = |error: wellspring_codec::interleave::InterleaveError| {
            SetupError::Code(error.to_string())
        };
        let send = SendSide::new(&config.key, session, &config.send).map_err(code)?;
        let receive = ReceiveSide::new(&config.key, session, &config.receive).map_err(code)?;
        let control = controls.serve(&config.run_dir, &config.name)?;
        // Who may not watch packets hears that first.
        let longest = ground.wan.mtu + 64;
        let capture = Capture::packets(ground.wan.index, longest, config.ring).map_err(refused)?;
        let peer = PeerSocket::new(config.peer, &config.wan)
            .map_err(|error| SetupError::System("the socket towards the peer", error))?;
        if peer.local() == config.peer.ip() {
            return Err(SetupError::PeerIsLocal(config.peer));
        }
        let local = LocalSocket::new(&config.lan).map_err(refused)?;
        let file = config.run_dir.join(format!("{}.offloads", config.name));
        let offloads = Offloads::switch_off(&config.lan, &config.wan, file)
            .map_err(|error| SetupError::System("offloads", error))?;
        let (plan, frames) = (ground.plan, capture.capacity());
        tracing::debug!("{plan:?}, a ring of {frames} packets");
        let engine = Engine {
            send,
            receive,
            peer,
            local,
            remote: config.remote.clone(),
            peer_ip: config.peer.ip(),
            port: config.peer.port(),
            repairs: Batch::new(),
            recovered: Batch::new(),
            late: LateHistogram::default(),
            heard: None,
            leaving: None,
            unlike: 0,
            passed_over: 0,
        };
        let longest = ground.longest;
        let (_control, _offloads) = (control, offloads);
        Ok(Appliance { config, controls, longest, capture, engine, _control, _offloads })
    }

    /// Longest packet that is protected \[bytes\].
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Runs until the controls say stop; gives back the account.
    pub fn run(mut self) -> Status {
        glue::wake_exactly();
        let begin = Instant::now();
        let (mut report_at, mut status_at) = (begin + REPORT_EVERY, begin);
        let mut arriving = Losses::default();
        let mut busy = false;
        while !self.controls.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let time = instant(now - begin);
            let mut seen = 0;
            while seen < ROUND
                && let Some(packet) = self.capture.next()
            {
                seen += 1;
                match packet.protocol {
                    IPV4 | IPV6 => {
                        self.engine.handle(now, time, packet.bytes, packet.way, packet.unlike);
                    }
                    _ => continue,
                }
                if self.engine.repairs.len() >= REPAIRS {
                    self.engine.peer.send(&mut self.engine.repairs);
                }
            }
            self.engine.handle_timeout(time);
            if now >= report_at {
                report_at = now + REPORT_EVERY;
                let report = self.engine.receive.loss_report();
                arriving.add(&report);
                self.engine.send.report(&report, &mut self.engine.repairs);
            }
            self.engine.peer.send(&mut self.engine.repairs);
            if now >= status_at {
                status_at = now + STATUS_EVERY;
                self.publish(now, begin, arriving);
            }
            if seen == ROUND {
                continue;
            }
            // After a quiet nap, wait to be woken; while packets pass, look again soon.
            if seen > 0 || busy {
                thread::sleep(NAP);
            } else {
                let flush = self.engine.send.poll_timeout().map(|at| at.since(time));
                let flush = flush.map_or(WAIT, |span| Duration::from_nanos(span.as_nanos()));
                self.capture.wait(flush.clamp(Duration::from_micros(1), WAIT));
            }
            busy = seen > 0;
        }
        self.publish(Instant::now(), begin, arriving);
        self.controls.status().expect("just published")
    }

    fn publish(&mut self, now: Instant, begin: Instant, arriving: Losses) {
        let engine = &self.engine;
        let alive = engine.heard.is_some_and(|heard| now - heard < PEER_SILENT);
        let status = Status {
            name: self.config.name.clone(),
            uptime: now - begin,
            longest: self.longest,
            code: engine.send.parameters().clone(),
            adaptive: self.config.send.adaptive.is_some(),
            peer_alive: alive,
            send: *engine.send.counters(),
            receive: *engine.receive.counters(),
            account: *engine.receive.account(),
            to_peer: engine.peer.counters,
            to_local: engine.local.counters,
            unseen: self.capture.drops(),
            unlike: engine.unlike,
            passed_over: engine.passed_over,
            late: engine.late,
            arriving,
            leaving: engine.leaving,
        };
        let mut shared = self.controls.status.lock().unwrap_or_else(PoisonError::into_inner);
        *shared = Some(status);
    }
}

impl Engine {
    /// A packet passes the long link's interface.
    fn handle(&mut self, now: Instant, time: Time, bytes: &mut [u8], way: Way, unlike: bool) {
        let (Some(from), Some(to)) = (source(bytes), destination(bytes)) else { return };
        if unlike {
            self.unlike += 1;
            return;
        }
        match way {
            Way::Out if self.is_theirs(to) && from != self.peer.local() => {
                // Why a packet is not protected is counted there.
                let _ = self.send.observe(time, bytes, &mut self.repairs);
            }
            Way::In if from == self.peer_ip => {
                if let Some(datagram) = udp_payload(bytes, self.port) {
                    match self.receive.handle_datagram(time, datagram, &mut self.recovered) {
                        Arrival::Repair => self.heard = Some(now),
                        Arrival::Report(report) => {
                            self.heard = Some(now);
                            self.leaving = Some(report);
                            self.send.on_report(&report, &mut self.repairs);
                        }
                        Arrival::Dropped(_) => {}
                    }
                    self.deliver();
                }
            }
            Way::In if self.is_theirs(from) && to != self.peer.local() => {
                let _ = self.receive.observe(time, bytes, &mut self.recovered);
                self.deliver();
            }
            _ => self.passed_over += 1,
        }
    }

    /// Sends recovered packets on.
    fn deliver(&mut self) {
        if self.recovered.is_empty() {
            return;
        }
        for late in self.receive.latest().iter().filter_map(|recovered| recovered.late) {
            self.late.add(Duration::from_nanos(late.as_nanos()));
        }
        self.local.send(&mut self.recovered);
    }

    fn handle_timeout(&mut self, time: Time) {
        self.send.handle_timeout(time, &mut self.repairs);
    }

    /// Whether an address is behind the other appliance.
    fn is_theirs(&self, address: IpAddr) -> bool {
        let local = match address {
            IpAddr::V4(a) => a.is_multicast() || a.is_broadcast() || a.is_link_local(),
            IpAddr::V6(a) => a.is_multicast() || a.is_unicast_link_local(),
        };
        !local
            && address != self.peer_ip
            && (self.remote.is_empty() || self.remote.iter().any(|p| p.contains(address)))
    }
}

fn instant(since: Duration) -> Time {
    Time::ZERO + Span::from_nanos(since.as_nanos() as u64)
}

fn refused(error: io::Error) -> SetupError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => SetupError::NotAllowed(error),
        _ => SetupError::System("watching packets", error),
    }
}
