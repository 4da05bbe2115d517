//! Receive side: recovery of lost packets from repairs.

mod repairs;

use wellspring_codec::interleave::{Account, InterleaveError, MAX_RATE, PacketName, Recoverer};
use wellspring_core::{Duration, Time};

use crate::accept::{Accept, half};
use crate::arrival::{Arrival, CongestionLoss, ReceiveConfig, ReceiveCounters};
use crate::auth::{PresharedKey, SessionId, Verifier};
use crate::batch::Batch;
use crate::blind_spots::BlindSpots;
use crate::diagnosis::{Cause, Diagnosis, Hearing};
use crate::digest::DigestReader;
use crate::drop_reason::DropReason;
use crate::hold::{Hold, Recovered};
use crate::identity::{Identity, Namer, Unprotected};
use crate::loss_report::LossReport;
use crate::meter::Meter;
use crate::named::NamedPackets;
use crate::queue_delay::{Echo, QueueDelay, Stamp};
use crate::repair_kind::Kind;
use crate::retransmissions::Retransmissions;
use crate::segment::Segment;
use crate::signals::Signals;
use crate::time_stamps;
use crate::wire::{self, Body, Ingredient, Sealed};

/// How soon the next report may follow one, when losses are seen for which there is no code yet.
const URGENT: Duration = Duration::from_millis(20);

/// How soon while the link has only begun to lose, and how long that is.
const SOON: Duration = Duration::from_millis(100);
const BEGINNING: Duration = Duration::from_secs(1);

/// A link that has lost nothing for so long loses nothing.
const CALM: Duration = Duration::from_secs(5);

/// Where a packet stood among those that arrived.
#[derive(Clone, Copy, Debug)]
struct Landmark {
    number: u32,
    /// Packets taken in until then, and itself.
    place: u64,
}

/// Watches packets that arrive, and brings back those that do not.
#[derive(Debug)]
pub struct ReceiveSide {
    namer: Namer,
    verifier: Verifier,
    recoverer: Recoverer,
    meter: Meter,
    queue: QueueDelay,
    /// The stamp of the newest datagram, and when it came.
    newest: Option<(Stamp, Time)>,
    /// The least of late.
    round_trip: Option<Duration>,
    digests: DigestReader,
    digest_meter: Meter,
    /// Whether the newest datagram about packets was a digest.
    by_digests: bool,
    /// Packets that were missing when they were named.
    named: NamedPackets,
    longest: usize,
    /// Packets: how many are remembered.
    packets: u64,
    /// The packet that was last named and found.
    landmark: Option<Landmark>,
    blind: BlindSpots,
    recipe: Vec<PacketName>,
    /// Those of a repair that are not remembered.
    lacking: Vec<Ingredient>,
    hold: Hold,
    /// None if nothing depends on them.
    retransmissions: Option<Retransmissions>,
    renew_stamps: bool,
    latest: Vec<Recovered>,
    counters: ReceiveCounters,
    congestion: CongestionLoss,
    signals: Signals,
    diagnosis: Diagnosis,
    own: SessionId,
    /// Memory of what is decrypted.
    plain: Vec<u8>,
    /// Whether the datagram that is being read has the mark CE.
    marked: bool,
    /// Whether none of the peer's session was sent after the last one that was read.
    in_order: bool,
    /// Probes of the peer's session.
    probes: u32,
    reported: u64,
    reported_at: Time,
    /// Whom the last report said that this end hears.
    reported_peer: Option<SessionId>,
    /// When losses were last reported.
    last_loss: Option<Time>,
    /// When they were first, after a time without.
    loses_since: Option<Time>,
    /// When it was last reported that the path is full.
    last_full: Option<Time>,
}

impl ReceiveSide {
    /// The receive side of an appliance's life; `own` is that life's session.
    ///
    /// # Errors
    /// It would remember nothing, or more than 4 GiB.
    pub fn new(
        key: &PresharedKey,
        own: SessionId,
        config: &ReceiveConfig,
    ) -> Result<Self, InterleaveError> {
        let follows = config.renew_stamps || config.congestion == CongestionLoss::Signal;
        Ok(ReceiveSide {
            namer: Namer::new(key),
            verifier: Verifier::new(key, own),
            recoverer: Recoverer::new(config.packets, config.repairs, config.longest)?,
            meter: Meter::new(),
            queue: QueueDelay::default(),
            newest: None,
            round_trip: None,
            digests: DigestReader::new(),
            digest_meter: Meter::in_order(),
            by_digests: false,
            named: NamedPackets::new(config.packets),
            longest: config.longest,
            packets: config.packets as u64,
            landmark: None,
            blind: BlindSpots::default(),
            recipe: Vec::with_capacity(usize::from(MAX_RATE)),
            lacking: Vec::with_capacity(usize::from(MAX_RATE)),
            hold: Hold::new(config.hold, config.packets),
            retransmissions: follows.then(Retransmissions::new),
            renew_stamps: config.renew_stamps,
            latest: Vec::new(),
            counters: ReceiveCounters::default(),
            congestion: config.congestion,
            signals: Signals::new(),
            diagnosis: Diagnosis::new(own),
            own,
            plain: Vec::new(),
            marked: false,
            in_order: false,
            probes: 0,
            reported: 0,
            reported_at: Time::ZERO,
            reported_peer: None,
            last_loss: None,
            loses_since: None,
            last_full: None,
        })
    }

    /// Whether the last datagram was the peer's, and sent after all others that have come of its session, so that the address
    /// that it came from is the peer's newest.
    pub fn last_was_newest(&self) -> bool {
        self.in_order
    }

    /// What was seen.
    pub fn counters(&self) -> &ReceiveCounters {
        &self.counters
    }

    /// What the code has done.
    pub fn account(&self) -> &Account {
        self.recoverer.account()
    }

    /// Takes a session for the peer's without having been named by it: where one direction is measured or simulated alone.
    #[doc(hidden)]
    #[must_use]
    pub fn believing(mut self, session: SessionId) -> Self {
        self.verifier.believe(session);
        self
    }

    /// The peer's session, once it has named this end's.
    pub fn peer(&self) -> Option<SessionId> {
        self.verifier.peer()
    }

    /// Sees an IP packet that arrives. Packets that it helps to bring back go to `out`, at once or when
    /// they have been held ([`ReceiveSide::handle_timeout`]). What routers change is set to zero in it.
    ///
    /// # Errors
    /// Why the packet is of no use here; it goes its way all the same.
    pub fn observe(
        &mut self,
        now: Time,
        packet: &mut [u8],
        out: &mut Batch,
    ) -> Result<Identity, Unprotected> {
        self.latest.clear();
        self.counters.packets += 1;
        let identity = match self.namer.identify(packet) {
            Ok(identity) => identity,
            Err(why) => {
                self.counters.foreign += 1;
                return Err(why);
            }
        };
        if identity.len > self.longest {
            self.counters.too_long += 1;
            return Err(Unprotected::TooLong { got: identity.len, limit: self.longest });
        }
        if let Some(retransmissions) = &mut self.retransmissions
            && let Some(segment) = Segment::parse(&packet[..identity.len])
        {
            retransmissions.on_arrival(now, &segment, self.round_trip);
        }
        self.digests.on_packet(identity.name);
        // Repairs of the sliding-window code name packets by half.
        let late = self.named.take(identity.name);
        if let Some(late) = late.or_else(|| self.named.take(half(identity.name))) {
            self.counters.overtaken += 1;
            self.counters.withdrawn += u64::from(self.hold.withdraw(identity.name));
            self.hold.learn(now, now.since(late.at));
            self.meter.arrived_late(late.number, now);
        }
        let (recoverer, _, mut accept) = self.recovery(now);
        recoverer
            .on_packet_at(
                identity.name,
                now.as_picos(),
                &packet[..identity.len],
                |name, bytes, layer| accept.packet(name, bytes, layer),
            )
            .expect("the length was compared to the longest");
        self.release(now, out);
        Ok(identity)
    }

    /// Packets may have passed unseen between the one observed last and the next: what repairs and digests name of them is
    /// not lost, and is not brought back.
    pub fn on_unseen(&mut self, now: Time) {
        self.latest.clear();
        self.blind.add(now);
        self.digests.on_unseen(now);
    }

    /// Takes in a datagram of the peer. Packets that it brings back go to `out`, at once or when they have
    /// been held ([`ReceiveSide::handle_timeout`]).
    pub fn handle_datagram(&mut self, now: Time, datagram: &[u8], out: &mut Batch) -> Arrival {
        self.handle_marked_datagram(now, datagram, false, out)
    }

    /// The same of a datagram that came with the mark CE, or without. A mark on a repair is meant for those who fill the
    /// queue: packets that it brings back at once have it too, if their flows use ECN (RFC 3168).
    pub fn handle_marked_datagram(
        &mut self,
        now: Time,
        datagram: &[u8],
        congestion_experienced: bool,
        out: &mut Batch,
    ) -> Arrival {
        self.latest.clear();
        self.marked = congestion_experienced;
        let mut plain = std::mem::take(&mut self.plain);
        let arrival = match self.open(now, datagram, &mut plain) {
            Ok((Body::Repair(repair), long)) => self.repair(now, &repair, Kind::Layer, long),
            Ok((Body::Block(repair), long)) => self.repair(now, &repair, Kind::Block, long),
            Ok((Body::Sliding(repair), long)) => self.sliding(now, &repair, long),
            Ok((Body::Report(report, hearing), _)) => {
                self.counters.reports += 1;
                self.diagnosis.on_hearing(now, &hearing);
                self.measure(now, hearing.echo);
                let round_trip = self.round_trip.unwrap_or_default();
                Arrival::Report(LossReport { round_trip, ..report })
            }
            Ok((Body::Probe, _)) => {
                self.probes = self.probes.wrapping_add(1);
                Arrival::Probe
            }
            Ok((Body::Digest(digest), long)) => {
                self.counters.digests += 1;
                self.meter_by(true);
                let last = digest.first.wrapping_add(digest.packets().len() as u32 - 1);
                self.digest_meter.record_queue(last, long);
                self.digests.on_digest(now, digest.packets());
                self.judge(now);
                Arrival::Digest
            }
            Err(arrival) => arrival,
        };
        self.plain = plain;
        self.marked = false;
        match arrival {
            Arrival::Dropped(reason) => {
                self.counters.dropped[reason as usize] += 1;
                self.diagnosis.on_dropped(now, reason);
            }
            Arrival::Greeting(_) => {}
            _ => self.diagnosis.on_valid(now),
        }
        self.release(now, out);
        arrival
    }

    /// When [`ReceiveSide::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        Time::earliest(self.hold.next().into_iter().chain(self.digests.poll_timeout()))
    }

    /// Packets that have been held long enough go to `out`; named packets that did not come count as
    /// lost.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Batch) {
        self.latest.clear();
        self.forget(now);
        self.judge(now);
        self.release(now, out);
    }

    /// What is past does not stay: instants compare the right way for 106 days.
    fn forget(&mut self, now: Time) {
        let lately = |at: Option<Time>, span| at.filter(|&at| now.is_before(at + span));
        self.blind.forget(now);
        self.last_loss = lately(self.last_loss, CALM);
        self.last_full = lately(self.last_full, CALM);
        self.loses_since = lately(self.loses_since, BEGINNING);
    }

    /// Whether the peer is to hear at once what was measured: it loses packets, and makes no repairs; the link has
    /// only begun to lose, and its code may not be the one that is called for; or this end hears another session than it has
    /// reported, or none any more.
    pub fn report_is_urgent(&self, now: Time) -> bool {
        if self.heard_peer(now) != self.reported_peer {
            return true;
        }
        let after = |span| now.has_reached(self.reported_at + span);
        if self.digest_meter.has_losses() {
            return after(URGENT);
        }
        let first = self.last_full.is_none_or(|last| now.has_reached(last + CALM));
        if first && !self.by_digests && self.path_is_full() {
            return after(URGENT);
        }
        let calm = self.last_loss.is_none_or(|last| now.has_reached(last + CALM));
        let begins = self.loses_since.is_some_and(|since| now.is_before(since + BEGINNING));
        self.meter.has_losses() && (calm && after(URGENT) || begins && after(SOON))
    }

    /// Whom this end hears, for [`SendSide::report`](crate::SendSide::report).
    pub fn hearing(&self, now: Time) -> Hearing {
        let session = self.heard_peer(now);
        let newest = self.newest.map(|(stamp, at)| Echo::new(stamp, at, now));
        Hearing { session, probes: self.probes, echo: newest.unwrap_or_default() }
    }

    fn heard_peer(&self, now: Time) -> Option<SessionId> {
        self.verifier.peer().filter(|_| self.diagnosis.hears(now))
    }

    /// Whether [`SendSide::probe`](crate::SendSide::probe) is to be called now.
    pub fn probe_is_due(&mut self, now: Time) -> bool {
        self.diagnosis.probe(now)
    }

    /// Why the pair does not protect, or not all.
    pub fn causes(&mut self, now: Time) -> Vec<Cause> {
        self.diagnosis.causes(now)
    }

    /// What the newest datagram of the peer waited in queues.
    pub fn queue_delay(&self) -> Duration {
        self.queue.last()
    }

    /// What the last input let go, in the order of the batch.
    pub fn latest(&self) -> &[Recovered] {
        &self.latest
    }

    /// What was measured since the last call, for [`SendSide::report`](crate::SendSide::report).
    pub fn loss_report(&mut self, now: Time) -> LossReport {
        self.reported_at = now;
        self.reported_peer = self.heard_peer(now);
        let recovered = self.recoverer.account().recovered_total()
            - self.counters.withdrawn
            - self.counters.doubtful;
        // What was withdrawn meanwhile may have been reported as recovered before.
        let new = recovered.saturating_sub(self.reported);
        self.reported = recovered;
        let full = self.path_is_full();
        let report = self.meter.report(new.min(u64::from(u32::MAX)) as u32);
        let (queue_delay, queued) = (self.queue.last(), self.queue.take_queued(now));
        let report =
            LossReport { full, queue_delay, queued, ..report.and(&self.digest_meter.report(0)) };
        if full {
            self.last_full = Some(now);
        }
        if report.lost > 0 || report.congested_lost > 0 {
            if self.last_loss.is_none_or(|last| now.has_reached(last + CALM)) {
                self.loses_since = Some(now);
            }
            self.last_loss = Some(now);
        }
        report
    }

    /// Whether hosts fill a path whose queue alone seems to lose anything.
    fn path_is_full(&self) -> bool {
        self.meter.has_queue_drops() || self.queue.lasts() && self.meter.is_clean()
    }

    /// What is known of the link goes on to the meter of the datagrams that come: the code was turned on or off.
    pub(super) fn meter_by(&mut self, digests: bool) {
        if std::mem::replace(&mut self.by_digests, digests) == digests {
            return;
        }
        match digests {
            true => self.digest_meter.learn(&self.meter),
            false => self.meter.learn(&self.digest_meter),
        }
    }

    /// Counts those packets of digests of which it is known whether they came.
    fn judge(&mut self, now: Time) {
        let meter = &mut self.digest_meter;
        self.digests.judge(now, |number, arrived| meter.record(number, arrived.then_some(now)));
    }

    /// Verifies a datagram and reads it; also whether the queue that it comes from is long. What of it is all there is
    /// to say if it is not the peer's.
    fn open<'a>(
        &mut self,
        now: Time,
        datagram: &'a [u8],
        plain: &'a mut Vec<u8>,
    ) -> Result<(Body<'a>, bool), Arrival> {
        self.in_order = false;
        let sealed = Sealed::parse(datagram).map_err(Arrival::Dropped)?;
        let (session, own, before) = (sealed.session, self.own, self.verifier.peer());
        let mut told = None;
        let opened = sealed.opened(&mut self.verifier, plain, |bytes| {
            told = wire::hearing(bytes);
            told.is_some_and(|hearing| hearing.session == Some(own))
        });
        let sealed = match (opened, told) {
            (Err(DropReason::Unconfirmed), Some(hearing)) => {
                self.diagnosis.on_stranger(now, &hearing);
                return Err(Arrival::Greeting(session));
            }
            (opened, _) => opened.map_err(Arrival::Dropped)?,
        };
        if self.verifier.peer() != before {
            self.counters.sessions += 1;
            self.meter.restart();
            self.recoverer.restart_window();
            self.digests.restart();
            self.probes = 0;
            self.diagnosis.on_restart();
            self.digest_meter.restart();
            self.queue = QueueDelay::default();
            self.round_trip = None;
            self.landmark = None;
        }
        self.in_order = self.verifier.is_newest(sealed.number);
        let long = self.queue.on_arrival(now, sealed.stamp);
        self.newest = Some((sealed.stamp, now));
        Ok((sealed.body().map_err(Arrival::Dropped)?, long))
    }

    /// The least round trip holds, and longer ones count for more with every report: routes change.
    fn measure(&mut self, now: Time, echo: Echo) {
        let Some(measured) = echo.round_trip(now) else { return };
        let before = self.round_trip.map_or(measured, |least| least + least / 16);
        self.round_trip = Some(measured.min(before));
    }

    /// Packets that have been held long enough go to `out`.
    fn release(&mut self, now: Time, out: &mut Batch) {
        let (followed, counters) = (&mut self.retransmissions, &mut self.counters);
        let renews = self.renew_stamps;
        self.hold.release(now, out, &mut self.latest, |packet| {
            let Some((followed, segment)) = followed.as_mut().zip(Segment::parse(packet)) else {
                return;
            };
            followed.on_recovered(now, &segment);
            let newest = followed.newest_stamp(now, &segment).filter(|_| renews);
            let renewed = newest.is_some_and(|newest| time_stamps::renew(packet, &segment, newest));
            counters.renewed += u64::from(renewed);
        });
    }

    /// What brings packets back, the names in the repair that is being read, and what looks at the packets.
    fn recovery(&mut self, now: Time) -> (&mut Recoverer, &[PacketName], Accept<'_>) {
        let accept = Accept {
            lately_blind: self.blind.is_of_late(now),
            calm: self.last_loss.is_none_or(|last| now.has_reached(last + CALM)),
            namer: &self.namer,
            named: &self.named,
            meter: &self.meter,
            now,
            congestion: self.congestion,
            signals: &mut self.signals,
            retransmissions: self.retransmissions.as_ref(),
            answered_in: (self.round_trip.unwrap_or_default() + self.queue.last()) * 2,
            marked: self.marked,
            counters: &mut self.counters,
            hold: &mut self.hold,
        };
        (&mut self.recoverer, &self.recipe, accept)
    }
}
