//! Diagnosis: why a pair of appliances does not protect.
//!
//! Each report names the session that its sender hears and how many probes have reached it. A probe is as long as the longest
//! repair. From these, and from datagrams that are dropped, follows what is wrong, within five seconds.

use wellspring_core::{Duration, Time};

use crate::auth::SessionId;
use crate::drop_reason::DropReason;
use crate::queue_delay::Echo;

/// After so long without what should come every second, something is wrong.
const PATIENCE: Duration = Duration::from_millis(3_000);
/// A contradiction that lasts so long is no leftover of a restart.
const LASTING: Duration = Duration::from_millis(1_500);
/// A peer is heard for so long after its last datagram: one report may be lost.
const HEARD: Duration = Duration::from_millis(2_200);
/// So long after the first probe of which nothing was heard, a report that still tells of none says that they do not arrive.
const UNHEARD: Duration = Duration::from_millis(2_500);
/// How often a probe leaves until one is heard of, and afterwards.
const PROBE_EVERY: Duration = Duration::from_secs(1);
const PROBE_AGAIN: Duration = Duration::from_secs(15);

/// Why a pair does not protect, or not all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// Nothing comes from the peer.
    Silent,
    /// What comes does not verify.
    WrongKey,
    /// The peer's session is older than one that was heard before.
    Clock,
    /// The peer is heard, and hears nothing.
    OneWay,
    /// Two appliances speak for one end.
    SecondAppliance,
    /// Long repairs do not arrive.
    PathMtu,
    /// The peer's datagrams come from another address or port than was configured, which something other than repairs needs.
    Nat,
    /// An interface is gone.
    Interface,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 8] = [
        Cause::Silent,
        Cause::WrongKey,
        Cause::Clock,
        Cause::OneWay,
        Cause::SecondAppliance,
        Cause::PathMtu,
        Cause::Nat,
        Cause::Interface,
    ];

    /// A word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Silent => "silent",
            Cause::WrongKey => "wrong_key",
            Cause::Clock => "clock",
            Cause::OneWay => "one_way",
            Cause::SecondAppliance => "second_appliance",
            Cause::PathMtu => "path_mtu",
            Cause::Nat => "nat",
            Cause::Interface => "interface",
        }
    }

    /// A sentence for people: what is wrong, and what to do.
    pub fn text(self) -> &'static str {
        match self {
            Cause::Silent => {
                "nothing comes from the peer: is it up, and does its --peer name this end? UDP must pass"
            }
            Cause::WrongKey => {
                "datagrams come that do not verify: both ends need the same key, --partitions and --encrypt"
            }
            Cause::Clock => {
                "the peer's session is older than one heard before: its clock went back; set it, and \
                 restart it"
            }
            Cause::OneWay => {
                "the peer is heard but does not hear this end: UDP from here to there does not pass"
            }
            Cause::SecondAppliance => {
                "two appliances speak for one end: stop one, or let them share by --failover-peer"
            }
            Cause::PathMtu => {
                "the longest repairs do not arrive: the path takes shorter packets than the long link's \
                 interface says; name its MTU by --path-mtu"
            }
            Cause::Nat => {
                "the peer's datagrams come from another address or port than --peer names: repairs \
                 follow it, but split mode, --aggregate and --multicast need the address that is named"
            }
            Cause::Interface => {
                "an interface is gone: its packets are watched again when it is back"
            }
        }
    }
}

/// Whom an appliance hears: part of each report.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hearing {
    /// The peer's session, if one is heard.
    pub session: Option<SessionId>,
    /// Probes of that session that have arrived.
    pub probes: u32,
    /// For the peer to measure the round trip.
    pub(crate) echo: Echo,
}

/// Collects evidence.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    own: SessionId,
    begin: Option<Time>,
    valid: Option<Time>,
    /// The last report of a session that does not name this one, while the peer was silent.
    stranger: Option<Time>,
    forged: Option<Time>,
    /// Datagrams of older sessions: the first and the last of a series.
    old: Option<(Time, Time)>,
    /// Since when reports name no session, or another appliance's.
    deaf: Option<Time>,
    other: Option<Time>,
    hears_this: bool,
    probes: u32,
    /// The first probe of which nothing was heard yet.
    unheard: Option<Time>,
    /// The last report told of no probe though it should have.
    cut: bool,
    /// When the next probe leaves; none: at once.
    probe_at: Option<Time>,
}

impl Diagnosis {
    pub(crate) fn new(own: SessionId) -> Self {
        Diagnosis {
            own,
            begin: None,
            valid: None,
            stranger: None,
            forged: None,
            old: None,
            deaf: None,
            other: None,
            hears_this: false,
            probes: 0,
            unheard: None,
            cut: false,
            probe_at: None,
        }
    }

    /// The peer began anew: it has heard no probe, and says nothing of those that left for the one of before.
    pub(crate) fn on_restart(&mut self) {
        (self.hears_this, self.probes, self.unheard, self.cut) = (false, 0, None, false);
        self.probe_at = None;
    }

    /// Whether the peer was heard just now.
    pub(crate) fn hears(&self, now: Time) -> bool {
        self.valid.is_some_and(|valid| now.is_before(valid + HEARD))
    }

    pub(crate) fn on_valid(&mut self, now: Time) {
        self.valid = Some(now);
    }

    pub(crate) fn on_dropped(&mut self, now: Time, reason: DropReason) {
        match reason {
            DropReason::Forged => self.forged = Some(now),
            DropReason::OldSession => {
                let first = match self.old {
                    Some((first, last)) if (last + HEARD).is_after(now) => first,
                    _ => now,
                };
                self.old = Some((first, now));
            }
            _ => {}
        }
    }

    /// The peer says which session it hears.
    pub(crate) fn on_hearing(&mut self, now: Time, hearing: &Hearing) {
        self.hears_this = hearing.session == Some(self.own);
        self.deaf = hearing.session.is_none().then(|| self.deaf.unwrap_or(now));
        let other = hearing.session.is_some() && !self.hears_this;
        self.other = other.then(|| self.other.unwrap_or(now));
        if self.hears_this && hearing.probes != self.probes {
            self.probes = hearing.probes;
            self.unheard = None;
            self.probe_at = Some(now + PROBE_AGAIN);
        }
        // Judged by reports alone: a peer that is gone says nothing of the path.
        self.cut =
            self.hears_this && self.unheard.is_some_and(|since| now.has_reached(since + UNHEARD));
    }

    /// One that may be the peer, and does not name this session, says which it hears. While the peer itself speaks, that is
    /// of no interest.
    pub(crate) fn on_stranger(&mut self, now: Time, hearing: &Hearing) {
        if !self.hears(now) {
            self.stranger = Some(now);
            self.on_hearing(now, hearing);
        }
    }

    /// Whether a probe is to leave now; if so it counts as sent.
    pub(crate) fn probe(&mut self, now: Time) -> bool {
        let waits = self.probe_at.is_some_and(|at| now.is_before(at));
        let due = self.hears_this && self.hears(now) && !waits;
        if due {
            self.probe_at = Some(now + PROBE_EVERY);
            self.unheard.get_or_insert(now);
        }
        due
    }

    /// Forgets what counts no longer, and takes what lasts for no older than counts: instants compare the right way for
    /// 106 days.
    fn age(&mut self, now: Time) {
        let lately = |at: Option<Time>| at.filter(|&at| now.is_before(at + PATIENCE));
        self.valid = lately(self.valid);
        self.stranger = lately(self.stranger);
        self.forged = lately(self.forged);
        let old = self.old.filter(|&(_, last)| now.is_before(last + PATIENCE));
        self.old = old.map(|(first, last)| (no_older(first, last, LASTING), last));
        self.begin = self.begin.map(|begin| no_older(begin, now, PATIENCE));
        self.deaf = self.deaf.map(|since| no_older(since, now, LASTING));
        self.other = self.other.map(|since| no_older(since, now, LASTING));
        self.unheard = self.unheard.map(|since| no_older(since, now, UNHEARD));
        self.probe_at = self.probe_at.filter(|&at| now.is_before(at));
    }

    /// What is wrong.
    pub(crate) fn causes(&mut self, now: Time) -> Vec<Cause> {
        self.age(now);
        let begin = *self.begin.get_or_insert(now);
        let within = |at: Option<Time>| at.is_some_and(|at| now.is_before(at + PATIENCE));
        if !within(self.valid) && !within(self.stranger) {
            let old = within(self.old.map(|(_, last)| last));
            let cause = if within(self.forged) {
                Cause::WrongKey
            } else if old {
                Cause::Clock
            } else if now.has_reached(begin + PATIENCE) {
                Cause::Silent
            } else {
                return Vec::new();
            };
            return vec![cause];
        }
        let lasts =
            |since: Option<Time>| since.is_some_and(|since| now.has_reached(since + LASTING));
        let mixed = self.old.is_some_and(|(first, last)| {
            now.is_before(last + HEARD) && last.has_reached(first + LASTING)
        });
        let mut causes = Vec::new();
        if lasts(self.deaf) {
            causes.push(Cause::OneWay);
        }
        if mixed || lasts(self.other) {
            causes.push(Cause::SecondAppliance);
        }
        if self.cut {
            causes.push(Cause::PathMtu);
        }
        causes
    }
}

/// An instant, or that span before `now` if it is longer ago.
fn no_older(at: Time, now: Time, span: Duration) -> Time {
    if now.has_reached(at + span) { now - span } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: SessionId = SessionId { start: 5, random: 5 };
    const DAY_NS: u64 = 86_400_000_000_000;

    /// What happens in each tenth of a second, and what is wrong in the end.
    fn after(seconds: u64, mut each: impl FnMut(&mut Diagnosis, Time, u64)) -> Vec<Cause> {
        let mut diagnosis = Diagnosis::new(OWN);
        let mut causes = Vec::new();
        for tenth in 0..=seconds * 10 {
            let now = Time::ZERO + Duration::from_millis(tenth * 100);
            each(&mut diagnosis, now, tenth);
            diagnosis.probe(now);
            causes = diagnosis.causes(now);
        }
        causes
    }

    fn hear(diagnosis: &mut Diagnosis, now: Time, session: Option<SessionId>, probes: u32) {
        diagnosis.on_valid(now);
        diagnosis.on_hearing(now, &Hearing { session, probes, ..Hearing::default() });
    }

    #[test]
    fn each_fault_has_its_cause_within_five_seconds() {
        assert_eq!(after(5, |_, _, _| {}), [Cause::Silent]);
        let forged =
            |diagnosis: &mut Diagnosis, now, _| diagnosis.on_dropped(now, DropReason::Forged);
        assert_eq!(after(5, forged), [Cause::WrongKey]);
        let old = |diagnosis: &mut Diagnosis, now, _| {
            diagnosis.on_dropped(now, DropReason::OldSession);
        };
        assert_eq!(after(5, old), [Cause::Clock]);
        let deaf = |diagnosis: &mut Diagnosis, now, _| hear(diagnosis, now, None, 0);
        assert_eq!(after(5, deaf), [Cause::OneWay]);
        let elsewhere = Some(SessionId { start: 6, random: 6 });
        let other = |diagnosis: &mut Diagnosis, now, _| hear(diagnosis, now, elsewhere, 0);
        assert_eq!(after(5, other), [Cause::SecondAppliance]);
        let both = |diagnosis: &mut Diagnosis, now, _| {
            diagnosis.on_dropped(now, DropReason::OldSession);
            hear(diagnosis, now, Some(OWN), 1);
        };
        assert_eq!(after(5, both), [Cause::SecondAppliance]);
        // Of the other's reports, one a second, every second one is lost.
        let some = |diagnosis: &mut Diagnosis, now, tenth: u64| {
            if tenth.is_multiple_of(20) {
                diagnosis.on_dropped(now, DropReason::OldSession);
            }
            hear(diagnosis, now, Some(OWN), 1);
        };
        assert_eq!(after(5, some), [Cause::SecondAppliance]);
        let cut = |diagnosis: &mut Diagnosis, now, _| hear(diagnosis, now, Some(OWN), 0);
        assert_eq!(after(5, cut), [Cause::PathMtu]);
    }

    #[test]
    fn a_peer_that_dies_and_comes_back_says_nothing_of_the_path() {
        // It dies after any tenth of a second, also when a probe has just left, and is back twelve seconds later. Its reports
        // come about a second apart, and tell of what left 1.2 seconds before.
        for dies in 0..200 {
            let (mut probes, mut seen) = (Vec::new(), Vec::new());
            let mut diagnosis = Diagnosis::new(OWN);
            for tenth in 0..500 {
                let now = Time::ZERO + Duration::from_millis(tenth * 100);
                let lives = tenth < dies || tenth >= dies + 120;
                if tenth == dies + 120 {
                    diagnosis.on_restart();
                    probes.clear();
                }
                if lives && tenth % 10 == tenth / 10 % 4 {
                    let told = probes.iter().filter(|&left| left + 12 <= tenth).count() as u32;
                    hear(&mut diagnosis, now, Some(OWN), told);
                }
                let probed = diagnosis.probe(now);
                assert!(!probed || tenth < dies + 22 || lives, "a peer that is gone is probed");
                probes.extend((probed && lives).then_some(tenth));
                seen.extend(diagnosis.causes(now));
            }
            assert!(seen.iter().all(|&cause| cause == Cause::Silent), "{dies}: {seen:?}");
        }
    }

    #[test]
    fn a_peer_that_falls_silent_is_no_longer_heard() {
        let mut diagnosis = Diagnosis::new(OWN);
        assert!(!diagnosis.hears(Time::ZERO));
        diagnosis.on_valid(Time::ZERO);
        assert!(diagnosis.hears(Time::ZERO + Duration::from_secs(2)));
        assert!(!diagnosis.hears(Time::ZERO + Duration::from_secs(3)));
    }

    #[test]
    fn what_happened_months_ago_is_no_cause() {
        let mut diagnosis = Diagnosis::new(OWN);
        let begin = Time::ZERO + Duration::from_secs(1);
        diagnosis.on_dropped(begin, DropReason::OldSession);
        diagnosis.on_dropped(begin + LASTING, DropReason::OldSession);
        diagnosis.on_dropped(begin, DropReason::Forged);
        diagnosis.on_valid(begin);
        diagnosis.causes(begin);
        let mut causes = |day: u64, heard: bool| {
            let now = begin.plus_nanos(day * DAY_NS);
            if heard {
                hear(&mut diagnosis, now, Some(OWN), 0);
            }
            diagnosis.causes(now)
        };
        for day in 1..213 {
            assert_eq!(causes(day, false), [Cause::Silent], "day {day}");
        }
        assert_eq!(causes(213, true), []);
    }

    #[test]
    fn a_peer_that_begins_anew_after_months_is_probed() {
        let mut diagnosis = Diagnosis::new(OWN);
        let months = Time::ZERO.plus_nanos(107 * DAY_NS);
        diagnosis.on_restart();
        hear(&mut diagnosis, months, Some(OWN), 0);
        assert!(diagnosis.probe(months));
    }

    #[test]
    fn a_pair_in_order_has_no_cause_and_few_probes() {
        let mut probes = 0;
        let mut well = |diagnosis: &mut Diagnosis, now: Time, tenth: u64| {
            // Strangers' datagrams, and one of the session before, change nothing.
            diagnosis.on_dropped(now, DropReason::Forged);
            if tenth == 3 {
                diagnosis.on_dropped(now, DropReason::OldSession);
            }
            probes += u32::from(diagnosis.probe(now));
            if tenth.is_multiple_of(10) {
                hear(diagnosis, now, Some(OWN), probes);
            }
        };
        assert_eq!(after(60, &mut well), []);
        assert!((3..=10).contains(&probes), "{probes}");
        // What passes once is no fault: reports are lost, too.
        let gaps = |diagnosis: &mut Diagnosis, now: Time, tenth: u64| {
            if tenth.is_multiple_of(20) {
                hear(diagnosis, now, Some(OWN), tenth as u32);
            }
        };
        assert_eq!(after(60, gaps), []);
    }
}
