//! Timers of a flow: overdue credits (RFC 6298), reordering window and tail loss probe (RFC 8985), loss of
//! the sender.

use wellspring_core::{Duration, Time};

use super::{Credit, CreditState, Flow, Liveness, Probe, Settled, Window};
use crate::congestion::CongestionController;
use crate::scdp::Config;

/// A silent sender is probed at least that often, however long it is waited for: when the path is
/// back, the transfer goes on that soon.
const LONGEST_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// A round trip is taken for no longer, before one is measured (RFC 9002 §6.2.2).
const LONGEST_INITIAL_RTT: Duration = Duration::from_millis(333);

impl Flow {
    /// Whether something was heard since the sender would count as lost.
    pub(in crate::scdp::receiver) fn is_heard(&self, now: Time) -> bool {
        self.silence(now) < self.peer_timeout
    }

    /// For how long the sender has been silent although something was asked of it.
    fn silence(&self, now: Time) -> Duration {
        now.since(self.last_heard.later_of(self.asked_since))
    }

    /// Something is asked of the sender. If nothing was for long, as where the disk is slow, its silence so far says
    /// nothing and counts from now on; but only once until it is heard.
    pub(super) fn note_asked(&mut self, now: Time) {
        let idle = self.in_flight == 0 && now.since(self.asked_at) >= self.peer_timeout / 2;
        if idle && self.last_heard.has_reached(self.asked_since) {
            self.asked_since = now;
        }
        self.asked_at = now;
    }

    /// When to call [`Flow::on_deadline`].
    pub(in crate::scdp::receiver) fn deadline(&self) -> Option<Time> {
        if self.liveness == Liveness::Lost { None } else { self.deadline }
    }

    /// A silence of so long means that the sender is lost.
    pub(in crate::scdp::receiver) fn wait_for(&mut self, peer_timeout: Duration, config: &Config) {
        self.peer_timeout = peer_timeout;
        self.rearm(config);
    }

    /// When the pace allows further credits, if it keeps any from being granted.
    pub(in crate::scdp::receiver) fn paced_until(&self) -> Option<Time> {
        self.pace.waiting_until()
    }

    /// Time has passed: the pace may allow further credits.
    pub(in crate::scdp::receiver) fn on_time(&mut self, now: Time) {
        self.pace.on_time(now);
    }

    /// Sets the deadline anew: when the oldest credit in flight will be overdue.
    pub(in crate::scdp::receiver) fn rearm(&mut self, config: &Config) {
        self.drop_settled_front();
        self.deadline = match self.liveness {
            Liveness::Awaited => {
                let doubted_at = self.doubts_at(config).filter(|_| !self.doubted);
                Some(doubted_at.unwrap_or(self.last_heard + self.peer_timeout))
            }
            _ => {
                let overdue = self.front_overdue_at(self.timeout(config));
                Time::earliest(overdue.into_iter().chain(self.probe_at(config)))
            }
        };
    }

    /// Of a sender that has not been heard: when others are to send what it should have pushed.
    fn doubts_at(&self, config: &Config) -> Option<Time> {
        let awaited = config.directed && self.liveness == Liveness::Awaited && !self.group;
        let patience = config.initial_rtt * 3;
        (awaited && patience < self.peer_timeout).then(|| self.last_heard + patience)
    }

    /// After how long a credit is overdue. Backed off, but so that a sender is probed several times
    /// before it is given up.
    fn timeout(&self, config: &Config) -> Duration {
        let base = match self.rtt.least() {
            // A group's round trips measure its slowest member; ours would be the least. Where
            // losses are shown.
            Some(least) if self.group && self.reordering_threshold.is_some() => {
                (least * 4).max(config.min_timeout)
            }
            _ => {
                // Where losses are inferred, the variation counts for no less than the least timeout, as
                // in Linux: a timeout is the last resort there, behind gaps and the tail loss probe.
                let granularity = match self.reordering_threshold {
                    Some(_) => config.min_timeout.max(config.granularity),
                    None => config.granularity,
                };
                self.rtt.timeout(self.initial_rtt(config), config.min_timeout, granularity)
            }
        };
        let longest = (self.peer_timeout / 8).min(LONGEST_PROBE_INTERVAL).max(base);
        (base * (1 << self.timeouts.min(10))).min(longest)
    }

    /// What a round trip is taken for before one is measured. Who was asked for an object answers after a round trip, if
    /// not later; so what is pulled then is not overdue before its time, on a long path. Trims need no such time.
    fn initial_rtt(&self, config: &Config) -> Duration {
        match self.reordering_threshold {
            Some(_) => config.initial_rtt.max(self.first_wait.min(LONGEST_INITIAL_RTT)),
            None => config.initial_rtt,
        }
    }

    /// Acts on the deadline: gives up credits that are overdue, and the sender itself after
    /// `peer_timeout` of silence. Calls `for_each` with each credit given up. In a group, where
    /// silence may only mean that the sender waits for another receiver, one credit at a time is
    /// given up that no later one has overtaken: true if it was. A path is `spared` while its host is heard by
    /// another: it is probed on.
    pub(in crate::scdp::receiver) fn on_deadline(
        &mut self,
        now: Time,
        config: &Config,
        spared: bool,
        mut for_each: impl FnMut(Settled),
    ) -> bool {
        if self.deadline().is_none_or(|deadline| deadline.is_after(now)) {
            return false;
        }
        let silence = self.silence(now);
        if silence >= self.peer_timeout {
            if !spared {
                self.give_up(for_each);
                self.liveness = Liveness::Lost;
                return false;
            }
            // Its host knows the session, as another path shows: it may be asked.
            if self.liveness == Liveness::Awaited {
                self.liveness = Liveness::Suspect;
            }
        }
        if self.doubts_at(config).is_some() {
            self.doubted = true;
            for credit in self.credits.iter_mut().filter(|c| c.state == CreditState::Counted) {
                for_each(Settled::of(credit, true));
                credit.state = CreditState::Uncounted;
            }
            self.rearm(config);
            return false;
        }
        let timeout = self.timeout(config);
        self.drop_settled_front();
        let mut overdue = 0;
        while let Some(at) = self.front_overdue_at(timeout)
            && now.has_reached(at)
        {
            let is_gap = self.first < self.highest;
            if !is_gap {
                if self.group && overdue == 1 {
                    break;
                }
                overdue += 1;
            }
            if is_gap {
                for_each(self.lose_gap(now));
            } else {
                let number = self.first;
                for_each(self.lose_front(true));
                if !self.group {
                    self.on_lost(now, number, true);
                }
            }
            self.drop_settled_front();
        }
        if overdue > 0 {
            self.doubted_at = now;
            self.timeouts = self.timeouts.saturating_add(1);
            if silence >= timeout && !self.group {
                self.liveness = Liveness::Suspect;
            }
        }
        if overdue > 0 && !self.group && self.timeouts > 1 && silence >= timeout {
            self.on_persistent_congestion(now);
        }
        self.rearm(config);
        self.group && overdue > 0
    }

    /// Allows the tail loss probe, if it is due: the oldest credit in flight is no longer counted
    /// on, and one more may be granted. Returns what that credit was for.
    pub(in crate::scdp::receiver) fn probe(
        &mut self,
        now: Time,
        config: &Config,
    ) -> Option<Settled> {
        if self.probe_at(config)?.is_after(now) {
            return None;
        }
        self.probe = Probe::Due;
        self.probed_at = now;
        self.rearm(config);
        let counted = |c: &&mut Credit| c.state == CreditState::Counted;
        let oldest = self.credits.iter_mut().find(counted)?;
        let settled = Settled::of(oldest, true);
        oldest.state = CreditState::Uncounted;
        Some(settled)
    }

    /// Whether the tail loss probe may be granted.
    pub(in crate::scdp::receiver) fn owes_probe(&self) -> bool {
        self.probe == Probe::Due
    }

    /// When the tail loss probe is due: once in a silence, after two round trips or when the timeout would
    /// be, if that is sooner (RFC 8985 §7.2).
    fn probe_at(&self, config: &Config) -> Option<Time> {
        let inferred = self.reordering_threshold.is_some();
        let waiting = self.in_flight > 0 && self.liveness == Liveness::Live;
        if !inferred || !waiting || self.probe != Probe::Unused {
            return None;
        }
        let round_trips = self.rtt.smoothed()? * 2;
        let varied = self.rtt.timeout(config.initial_rtt, Duration::ZERO, Duration::ZERO);
        let wait = round_trips.max(varied).min(self.timeout(config));
        Some(self.last_heard.later_of(self.last_pull) + wait)
    }

    /// When the oldest credit in flight is to be given up. One that others have overtaken is
    /// waited for no longer than reordering lasts: a round trip and its variation.
    fn front_overdue_at(&self, timeout: Duration) -> Option<Time> {
        let oldest = self.credits.front()?;
        let overtaken = self.reordering_threshold.is_some() && self.first < self.highest;
        let wait = match self.rtt.usual_maximum() {
            Some(usual) if overtaken => (usual * (1 << self.patience)).min(timeout),
            _ if self.group => {
                // While the stream flows, what it has not reached waits for a slower member.
                let flowing = if self.first < self.highest { Time::ZERO } else { self.last_heard };
                let since = oldest.granted_at.later_of(self.doubted_at).later_of(flowing);
                return Some(since + timeout);
            }
            // While answers come the timer starts anew with each (RFC 6298 §5.3), and with the tail loss
            // probe.
            _ if self.reordering_threshold.is_some() => {
                let since = oldest.granted_at.later_of(self.last_heard).later_of(self.probed_at);
                return Some(since + timeout);
            }
            _ => timeout,
        };
        Some(oldest.granted_at + wait)
    }

    /// All credits were overdue for the second time in a row: a new start (RFC 9002 §7.6). The first time may
    /// have been a longer queue.
    fn on_persistent_congestion(&mut self, now: Time) {
        if let Window::Controlled(controller) = &mut self.window {
            self.given_up.reduce(**controller, true, true);
            controller.on_persistent_congestion(now);
        }
        self.recovery_point = self.granted();
    }
}
