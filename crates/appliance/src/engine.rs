//! Packet engine of a partition: send side and receive side between their sockets.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use wellspring_core::Time;
use wellspring_maelstrom::{Arrival, Batch, Cause, LossReport, ReceiveSide, SendSide, SessionId};

use crate::addresses::Addresses;
use crate::cache_service::SharedCache;
use crate::capture::Way;
use crate::inject::{
    LocalSocket, PeerSocket, destination, is_marked, source, udp_payload, udp_source_port,
};
use crate::status::{LateHistogram, Losses, PartitionStatus};

/// The two sides and their sockets.
pub(crate) struct Engine {
    pub send: SendSide,
    pub receive: ReceiveSide,
    pub peer: PeerSocket,
    pub local: LocalSocket,
    pub addresses: Addresses,
    pub repairs: Batch,
    /// Where packets to local hosts are kept, if they are.
    pub cache: Option<SharedCache>,
    recovered: Batch,
    late: LateHistogram,
    heard: Option<Instant>,
    arriving: Losses,
    leaving: Option<LossReport>,
    unlike: u64,
    passed_over: u64,
    /// Whether something else than repairs needs the peer at the address that it was given.
    needs_address: bool,
    /// Where the peer was given to be, and where it was when that was last logged.
    given: Option<SocketAddr>,
    logged: Option<SocketAddr>,
    causes: Vec<Cause>,
}

impl Engine {
    pub(crate) fn new(
        send: SendSide,
        receive: ReceiveSide,
        peer: PeerSocket,
        local: LocalSocket,
        addresses: Addresses,
        needs_address: bool,
    ) -> Self {
        let given = peer.peer();
        Engine {
            send,
            receive,
            peer,
            local,
            addresses,
            repairs: Batch::new(),
            cache: None,
            recovered: Batch::new(),
            late: LateHistogram::default(),
            heard: None,
            arriving: Losses::default(),
            leaving: None,
            unlike: 0,
            passed_over: 0,
            needs_address,
            given,
            logged: given,
            causes: Vec::new(),
        }
    }

    /// A packet passes the long link's interface.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        time: Time,
        bytes: &mut [u8],
        way: Way,
        unlike: bool,
    ) {
        let (Some(from), Some(to)) = (source(bytes), destination(bytes)) else { return };
        if unlike {
            self.unlike += 1;
            return;
        }
        match way {
            Way::Out if self.addresses.is_theirs(to) => {
                // Why a packet is not protected is counted there.
                let _ = self.send.observe(time, bytes, &mut self.repairs);
            }
            Way::In => {
                let ours = self.addresses.own.contains(&to);
                match udp_payload(bytes, self.addresses.port).filter(|_| ours) {
                    Some(datagram) => {
                        let at = udp_source_port(bytes).map(|port| SocketAddr::new(from, port));
                        let arrival = self.receive.handle_marked_datagram(
                            time,
                            datagram,
                            is_marked(bytes),
                            &mut self.recovered,
                        );
                        if !matches!(arrival, Arrival::Dropped(_))
                            && self.receive.last_was_newest()
                            && let Some(at) = at
                        {
                            self.follow(at);
                        }
                        if let Arrival::Greeting(session) = arrival
                            && let Some(at) = at
                        {
                            self.answer(time, session, at);
                        }
                        self.arrived(now, time, arrival);
                    }
                    None if self.addresses.is_theirs(from) => {
                        if let Some(cache) = &self.cache {
                            cache.keep(bytes);
                        }
                        let _ = self.receive.observe(time, bytes, &mut self.recovered);
                    }
                    None => self.passed_over += 1,
                }
                self.deliver();
            }
            _ => self.passed_over += 1,
        }
    }

    /// The peer's newest datagram comes from there: behind NAT, or where addresses change, that is not where it was given to be.
    fn follow(&mut self, peer: SocketAddr) {
        if self.peer.peer() != Some(peer) && self.peer.redirect(peer).is_ok() {
            self.addresses.peer = peer.ip();
        }
    }

    /// Whoever is of that session may be the peer, which began anew, and will know by the answer that it is heard. Until it
    /// shows that, nothing else goes to where it is.
    fn answer(&mut self, time: Time, session: SessionId, at: SocketAddr) {
        let mut answer = Batch::new();
        self.send.answer(time, session, &mut answer);
        self.peer.send_to(&answer, at);
    }

    /// Something of the peer has been understood, or not.
    fn arrived(&mut self, now: Instant, time: Time, arrival: Arrival) {
        match arrival {
            Arrival::Repair | Arrival::Digest | Arrival::Probe => self.heard = Some(now),
            Arrival::Report(report) => {
                self.heard = Some(now);
                self.leaving = Some(report);
                self.send.on_report(time, &report, &mut self.repairs);
            }
            Arrival::Greeting(_) | Arrival::Dropped(_) => {}
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
        if let Some(cache) = &self.cache {
            self.recovered.iter().for_each(|packet| cache.keep(packet));
        }
        self.local.send(&mut self.recovered);
    }

    /// Reports to the peer what was lost since the last time.
    pub(crate) fn report(&mut self, now: Time) {
        let report = self.receive.loss_report(now);
        self.arriving.add(&report);
        let hearing = self.receive.hearing(now);
        self.send.report(now, &report, &hearing, &mut self.repairs);
        if self.receive.probe_is_due(now) {
            self.send.probe(now, &mut self.repairs);
        }
    }

    /// Finds out what is wrong, and logs what has changed.
    pub(crate) fn diagnose(&mut self, now: Time) {
        let mut causes = self.receive.causes(now);
        let peer = self.peer.peer();
        if self.needs_address && peer != self.given {
            causes.push(Cause::Nat);
        }
        if let Some(at) = peer.filter(|_| peer != self.logged) {
            self.logged = peer;
            tracing::info!("the peer is at {at}");
        }
        for cause in causes.iter().filter(|cause| !self.causes.contains(cause)) {
            tracing::warn!("{}: {}", cause.name(), cause.text());
        }
        for cause in self.causes.iter().filter(|cause| !causes.contains(cause)) {
            tracing::info!("{}: no longer", cause.name());
        }
        self.causes = causes;
    }

    /// When [`Engine::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        Time::earliest(self.send.poll_timeout().into_iter().chain(self.receive.poll_timeout()))
    }

    pub(crate) fn handle_timeout(&mut self, time: Time) {
        self.send.handle_timeout(time, &mut self.repairs);
        self.receive.handle_timeout(time, &mut self.recovered);
        self.deliver();
    }

    pub(crate) fn status(&self, unseen: u64) -> PartitionStatus {
        PartitionStatus {
            code: self.send.code().cloned(),
            peer: self.peer.peer(),
            heard: self.heard,
            send: *self.send.counters(),
            receive: *self.receive.counters(),
            account: *self.receive.account(),
            to_peer: self.peer.counters,
            to_local: self.local.counters,
            unseen,
            unlike: self.unlike,
            passed_over: self.passed_over,
            late: self.late,
            arriving: self.arriving,
            leaving: self.leaving,
            causes: self.causes.clone(),
            queue_delay: Duration::from_nanos(self.receive.queue_delay().as_nanos()),
        }
    }
}
