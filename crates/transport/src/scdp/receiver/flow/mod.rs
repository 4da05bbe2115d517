//! One sender of a session, or one path to it, as its receiver sees it: credits in flight, losses, pace.

mod credit;
mod delivery;
mod group;
mod losses;
mod numbers;
mod pace;
mod path;
mod run;
mod silence;
mod spurious;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use wellspring_core::{Duration, HostId, Time};

use crate::RttEstimator;
use crate::congestion::{CongestionController, Controller, WindowedMax};
use crate::scdp::{Config, Fabric, SenderStats};
pub(super) use credit::{Answer, Settled};
use credit::{Credit, CreditState};
use numbers::Numbers;
use pace::Pace;
use run::Run;
use spurious::GivenUp;

/// How far the reordering threshold adapts \[packets\]; beyond, only timeouts detect a loss.
const MAX_REORDERING: u32 = 256;

/// Doublings of the reordering window, at most.
const MAX_PATIENCE: u32 = 6;

/// Losses in a row without a packet that was taken for lost and came, after which the reordering window is as
/// short as at first (RFC 8985 §6.2, step 4, counts recoveries).
const CALM_LOSSES: u32 = 16;

/// Credits in flight to one sender, at most: what a sender keeps of those it has not answered.
const MAX_IN_FLIGHT: u32 = 65_536;

/// The last number that is granted: what comes after any number granted is a number, too.
const LAST: u32 = u32::MAX - 1;

/// How long a delivery rate counts for that.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// The pace of short runs, in windows a round trip.
const SHORT_RUNS_GAIN: f64 = 1.2;

/// How many credits may be in flight.
#[derive(Debug)]
enum Window {
    Fixed(u32),
    Controlled(Box<Controller>),
}

/// Whether the sender is believed to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Liveness {
    /// Announced, nothing heard yet: not pulled (it may not know the session yet; it is the
    /// sender's part to repeat its first symbols).
    Awaited,
    /// It answers.
    Live,
    /// A timeout passed: probed with one uncounted credit at a time.
    Suspect,
    /// Given up; any symbol of its revives it.
    Lost,
}

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) host: HostId,
    /// Number of the path to that host; each has a numbering of its own.
    pub(super) path: u16,
    pub(super) epoch: u8,
    /// Part of a multicast group: numbers are the group's, and run on without our grants.
    pub(super) group: bool,
    pub(super) liveness: Liveness,
    pub(super) last_heard: Time,
    pub(super) last_pull: Time,
    /// When something was last asked of it, and since when it has been asked: its silence before says nothing.
    asked_at: Time,
    asked_since: Time,
    pub(super) stats: SenderStats,
    pub(super) rtt: RttEstimator,
    credits: VecDeque<Credit>,
    /// Number of the first entry of `credits`.
    first: u32,
    in_flight: u32,
    /// Highest number answered.
    highest: u32,
    /// Of a group's packets, which have come: most were not granted here.
    come: Numbers,
    window: Window,
    pace: Pace,
    run: Run,
    /// Credits answered so far, when the last was, and when that had been granted.
    delivered: u64,
    delivered_at: Time,
    delivered_granted_at: Time,
    /// The highest delivery rate lately \[credits/s\].
    best_rate: WindowedMax,
    /// Credits in flight, at most, whatever the congestion controller says.
    most: u32,
    max_window: u32,
    /// The window, and nothing else, kept further credits from being granted last time: only
    /// then does it grow.
    window_limited: bool,
    reordering_threshold: Option<u32>,
    /// Doublings of the time that a credit overtaken by others is waited for.
    patience: u32,
    /// Losses since a credit taken for lost was answered after all.
    calm_losses: u32,
    given_up: GivenUp<Controller>,
    /// Numbers up to this one were pushed, not pulled: they measure no round trip.
    pushed: u32,
    /// Losses of credits up to this number belong to a congestion event already answered.
    recovery_point: u32,
    /// Credits up to this number were lost with their pull, which was answered.
    lost_pull: u32,
    /// When silence will count as loss, or first call for a probe.
    deadline: Option<Time>,
    timeouts: u32,
    /// Its pushed symbols, of which none came, are no longer counted on.
    doubted: bool,
    /// In a group: when a silence last led to a credit being given up.
    doubted_at: Time,
    /// How long its first symbol was awaited: a round trip or two, before one is measured.
    first_wait: Duration,
    /// When the tail loss probe was last allowed, if later than anything heard: the timeout runs from
    /// then on (RFC 8985 §7.3).
    probed_at: Time,
    probe: Probe,
    peer_timeout: Duration,
}

/// The tail loss probe (RFC 8985 §7): losses at the end of what is in flight leave no gap to be
/// seen, so one credit beyond the window is granted well before they count as overdue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Probe {
    /// None since an answer came.
    Unused,
    /// One credit may be granted beyond the window.
    Due,
    /// It was.
    Sent,
}

impl Flow {
    pub(super) fn new(now: Time, host: HostId, initial_window: u32, config: &Config) -> Self {
        let initial_window = initial_window.max(1);
        let (window, reordering_threshold) = match config.fabric {
            Fabric::Trimming => (Window::Fixed(initial_window), config.gap_threshold),
            Fabric::Shared { reordering_threshold } => (
                Window::Controlled(Box::new(Controller::new(
                    config.congestion,
                    initial_window,
                    MAX_IN_FLIGHT,
                ))),
                Some(reordering_threshold),
            ),
            Fabric::Dedicated { reordering_threshold, window } => {
                (Window::Fixed(window.clamp(1, config.max_window)), Some(reordering_threshold))
            }
        };
        Flow {
            host,
            path: 0,
            epoch: 0,
            group: false,
            liveness: Liveness::Awaited,
            last_heard: now,
            last_pull: now,
            asked_at: now,
            asked_since: now,
            stats: SenderStats { host, ..SenderStats::default() },
            rtt: RttEstimator::default(),
            credits: VecDeque::new(),
            first: 1,
            in_flight: 0,
            highest: 0,
            come: Numbers::default(),
            window,
            pace: Pace::new(config),
            run: Run::new(config),
            delivered: 0,
            delivered_at: now,
            delivered_granted_at: now,
            best_rate: WindowedMax::new(RATE_WINDOW),
            most: config.max_window.min(MAX_IN_FLIGHT),
            max_window: config.max_window.min(MAX_IN_FLIGHT),
            window_limited: true,
            reordering_threshold,
            patience: 0,
            calm_losses: 0,
            given_up: GivenUp::default(),
            pushed: 0,
            recovery_point: 0,
            lost_pull: 0,
            deadline: None,
            timeouts: 0,
            doubted: false,
            doubted_at: now,
            first_wait: Duration::ZERO,
            probed_at: now,
            probe: Probe::Unused,
            peer_timeout: config.peer_timeout,
        }
    }

    /// Highest number granted.
    pub(super) fn granted(&self) -> u32 {
        self.first - 1 + self.credits.len() as u32
    }

    /// Credits that may be granted now.
    pub(super) fn spare(&self) -> u32 {
        let window = match (self.liveness, &self.window) {
            (Liveness::Lost | Liveness::Awaited, _) => 0,
            (Liveness::Suspect, _) => 1,
            (Liveness::Live, Window::Fixed(window)) => *window,
            (Liveness::Live, Window::Controlled(_)) if self.pace.is_waiting() => 0,
            (Liveness::Live, Window::Controlled(controller)) => controller.window().min(self.most),
        };
        let probe = u32::from(self.probe == Probe::Due && self.liveness == Liveness::Live);
        window.saturating_sub(self.in_flight).max(probe).min(LAST - self.granted())
    }

    /// Credits that one pull may carry.
    pub(super) fn run_limit(&self) -> u32 {
        self.run.limit()
    }

    /// A symbol of that number, which was asked for, has come whole or trimmed.
    pub(super) fn note_run(&mut self, number: u32, trimmed: bool) {
        // What is pushed comes from many senders at once: it says nothing of runs.
        if number > self.pushed {
            self.run.on_answer(number, self.granted(), trimmed);
        }
    }

    /// Notes that no further credits are asked for, or that all were granted that may be: whether it is the
    /// congestion controller that keeps more from being granted.
    pub(super) fn set_window_limited(&mut self, limited: bool) {
        self.window_limited = limited
            && match &self.window {
                Window::Fixed(_) => true,
                Window::Controlled(controller) => {
                    self.pace.is_waiting() || controller.window() <= self.in_flight
                }
            };
    }

    /// Whether credits granted now should be counted on.
    pub(super) fn is_trusted(&self) -> bool {
        self.liveness == Liveness::Live
    }

    /// The sender's initial window: credits granted without a pull.
    pub(super) fn grant_pushed(&mut self, now: Time, symbol: (u32, u32), counted: bool) {
        self.grant(now, symbol, 1, counted);
        self.pushed = self.granted();
    }

    /// The symbol of that number was sent unasked: after silence a sender pushes one more, whose number may
    /// have been granted in the meantime.
    pub(super) fn note_pushed(&mut self, number: u32) {
        self.pushed = self.pushed.max(number.min(self.granted()));
    }

    /// Grants `count` credits for a block, whose first is for that ESI where the receiver says which.
    pub(super) fn grant(&mut self, now: Time, (sbn, first): (u32, u32), count: u32, counted: bool) {
        self.note_asked(now);
        if self.in_flight == 0 {
            (self.delivered_at, self.delivered_granted_at) = (now, now);
        }
        let state = if counted { CreditState::Counted } else { CreditState::Uncounted };
        for index in 0..count {
            self.credits.push_back(Credit {
                sbn,
                esi: first.saturating_add(index),
                state,
                begins_pull: index == 0,
                granted_at: now,
                delivered_before: self.delivered,
                delivered_at: self.delivered_at,
                delivered_granted_at: self.delivered_granted_at,
            });
        }
        self.in_flight += count;
        self.stats.granted += u64::from(count);
        if let Window::Controlled(controller) = &self.window {
            let rate = controller.pacing_rate().or_else(|| self.rate_of_short_runs(controller));
            self.pace.on_granted(now, count, self.run.at_once(), rate);
        }
        if self.probe == Probe::Due {
            self.probe = Probe::Sent;
        }
    }

    /// The pace of a window too small to be paced, where the queue takes no more than short runs \[credits/s\].
    fn rate_of_short_runs(&self, controller: &Controller) -> Option<f64> {
        let round_trip = self.rtt.smoothed().filter(|_| self.run.is_short())?.as_secs_f64();
        (round_trip > 0.0).then(|| SHORT_RUNS_GAIN * f64::from(controller.window()) / round_trip)
    }

    /// Credits in flight.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// All credits numbered below are answered or given up.
    pub(super) fn settled_below(&mut self) -> u32 {
        self.drop_settled_front();
        self.first
    }

    /// A packet of that number arrived, whole or trimmed. The caller rearms, and says by [`heard`](Self::heard) whether
    /// it is a sign of life.
    pub(super) fn answer(&mut self, now: Time, number: u32, trimmed: bool) -> Answer {
        self.pace.on_time(now);
        if number > self.granted() {
            return Answer::NeverGranted;
        }
        // A trimmed header overtakes the symbols before it: where gaps are read it shows none.
        if !trimmed || self.reordering_threshold.is_none() {
            self.highest = self.highest.max(number);
        }
        let Some(index) = number.checked_sub(self.first) else {
            return if self.on_late(number) { Answer::Late } else { Answer::Again };
        };
        let credit = &mut self.credits[index as usize];
        if credit.state == CreditState::Settled {
            return Answer::Again;
        }
        let settled = Settled::of(credit, false);
        credit.state = CreditState::Settled;
        let credit = *credit;
        let rtt = now.since(credit.granted_at);
        self.in_flight -= 1;
        (self.delivered, self.delivered_at) = (self.delivered + 1, now);
        self.delivered_granted_at = self.delivered_granted_at.later_of(credit.granted_at);
        // Only a credit that was answered in time ends the backing off (Karn's rule): a late
        // answer may be one to a later pull that made up for a lost one.
        self.timeouts = 0;
        self.probe = Probe::Unused;
        if self.calm_losses >= CALM_LOSSES {
            (self.patience, self.calm_losses) = (0, 0);
        }
        if number > self.pushed {
            self.rtt.sample(rtt);
            self.report_delivery(now, &credit, rtt);
        } else if self.window_limited
            && let Window::Controlled(controller) = &mut self.window
        {
            controller.on_pushed(now);
        }
        Answer::Settles(settled)
    }

    /// A number was answered before, or given up. In the second case reordering goes further than was
    /// thought, or a timeout was too short: gaps are given more room, and the window is as it was. Whether it was the
    /// second.
    fn on_late(&mut self, number: u32) -> bool {
        let Some(late) = self.given_up.take(number) else { return false };
        self.calm_losses = 0;
        if let Some(threshold) = &mut self.reordering_threshold {
            let overtaken_by = self.highest.saturating_sub(number);
            if overtaken_by > 0 {
                self.patience = (self.patience + 1).min(MAX_PATIENCE);
            }
            *threshold = (*threshold).max(overtaken_by.saturating_add(1).min(MAX_REORDERING));
        }
        // The round trip is not measured, nor the backing off ended (Karn's rule): it may be the answer to a
        // later pull that made up for a lost one.
        let before = self.given_up.undo(late);
        if let Window::Controlled(controller) = &mut self.window {
            if let Some(before) = before
                && before.window() > controller.window()
            {
                **controller = before;
            }
            controller.on_spurious_loss();
        }
        true
    }

    /// The credit in flight that a trimmed header speaks of: that number or, since a header may
    /// have been cut to the lowest 8 bits of it, the oldest that ends so.
    pub(super) fn number_like(&self, number: u32) -> Option<u32> {
        let is_in_flight =
            |credit: Option<&Credit>| credit.is_some_and(|c| c.state != CreditState::Settled);
        let index = number.checked_sub(self.first);
        if is_in_flight(index.and_then(|index| self.credits.get(index as usize))) {
            return Some(number);
        }
        // Only every 256th ends so. A group's numbers may have run far ahead, and a header costs its sender little.
        let alike = number.wrapping_sub(self.first) & 0xff;
        let candidates = self.credits.iter().skip(alike as usize).step_by(256);
        let numbers = (self.first.saturating_add(alike)..).step_by(256);
        candidates.zip(numbers).find(|&(c, _)| is_in_flight(Some(c))).map(|(_, n)| n)
    }

    /// A trim or mark at that number.
    pub(super) fn on_congestion(&mut self, now: Time, number: u32) {
        let Window::Controlled(controller) = &mut self.window else { return };
        if controller.on_marked(now, number <= self.recovery_point) {
            self.recovery_point = self.granted();
            self.given_up.confirm();
        }
    }

    /// Stops counting on credits that this sender, going by its round trips, will not answer
    /// within `within`, or should have answered that long ago; calls `for_each` with each.
    pub(super) fn doubt_slower_than(
        &mut self,
        now: Time,
        within: Duration,
        mut for_each: impl FnMut(Settled),
    ) {
        let usual = self.rtt.smoothed().unwrap_or(within);
        for credit in &mut self.credits {
            let expected = credit.granted_at + usual;
            let slow = expected.is_after(now + within) || (expected + within).is_before(now);
            if credit.state == CreditState::Counted && slow {
                for_each(Settled::of(credit, true));
                credit.state = CreditState::Uncounted;
            }
        }
    }

    /// Starts afresh in a new numbering epoch: the sender (or its unicast successor) numbers
    /// from 1. Credits in flight must have been given up before.
    pub(super) fn restart(&mut self, now: Time, epoch: u8) {
        debug_assert_eq!(self.in_flight, 0);
        self.epoch = epoch;
        self.credits.clear();
        self.first = 1;
        self.highest = 0;
        self.come = Numbers::default();
        self.pushed = 0;
        self.recovery_point = 0;
        self.lost_pull = 0;
        self.run.restart();
        self.given_up.clear();
        self.last_heard = now;
        self.timeouts = 0;
        self.probe = Probe::Unused;
        self.liveness = Liveness::Awaited;
        self.deadline = None;
    }

    /// The account so far.
    pub(super) fn stats(&self, now: Time) -> SenderStats {
        SenderStats { silent: now.since(self.last_heard), ..self.stats }
    }

    /// The sender has shown that it is there.
    pub(super) fn heard(&mut self, now: Time) {
        if self.liveness == Liveness::Awaited {
            self.first_wait = now.since(self.last_heard);
        }
        self.last_heard = now;
        self.liveness = Liveness::Live;
    }
}
