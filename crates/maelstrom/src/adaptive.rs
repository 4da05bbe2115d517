//! Adaptation of the code to reported losses: on with the first, off while nothing is lost.

use std::collections::VecDeque;

use wellspring_codec::interleave::Parameters;
use wellspring_core::{Duration, Time};

use crate::choice::{Limits, Losses, best};
use crate::code::{Code, Family};
use crate::loss_report::LossReport;

/// The code of a link of which nothing is known. It serves single losses and bursts, and costs little where nothing is
/// lost: at the low rates of a flow's beginning deadlines make shorter XORs of it.
const FIRST: (u8, [u16; 2]) = (16, [1, 23]);
/// Losses that are reckoned with there where the limits forbid that code, and by a sliding window.
const FIRST_LOSSES: Losses = Losses { part: 0.01, run: 1.0, burst: 15 };
/// What the code is to serve where hosts fill the path before anything is lost: rare bursts, which one repair for sixteen
/// packets brings back within forty milliseconds at the rates that fill links. More would crowd the queue out, and with no
/// code at all a burst that follows the overshoot of a slow start halves Reno's window once more, for the rest of a minute.
const FULL_LOSSES: Losses = Losses { part: 0.0, run: 1.0, burst: 7 };
/// After so many packets, or at the latest so long, something is known of a link.
const KNOWN_PACKETS: u64 = 20_000;
const KNOWN_AFTER: Duration = Duration::from_secs(3);
/// How long losses are remembered, in time in which packets were sent.
const MEMORY: Duration = Duration::from_secs(10);
/// How long the newest losses count by themselves: so soon more of them are answered.
const RECENT: Duration = Duration::from_millis(1_500);
/// The code goes off after so long without a loss, in time in which packets were sent, and so many packets; or after
/// twelve times as long.
const CALM: Duration = Duration::from_secs(5);
const CALM_PACKETS: u64 = 4_000;
/// And after so long without any packet.
const IDLE: Duration = Duration::from_secs(60);
/// A report speaks of no longer time than this.
const LONGEST_REPORT: Duration = Duration::from_millis(1_500);
/// A weaker code than the present one must be called for by so many reports in a row.
const PATIENCE: u32 = 3;
/// Packets of which a part lost says something.
const FEW: u64 = 100;

/// The burst that random loss makes by itself: nineteen of twenty lost packets are in runs no longer.
fn natural_burst(loss: f64) -> u16 {
    // Lost packets in runs of more than k: p^k (1 + k (1 - p)).
    let beyond = |k: u16| loss.powi(i32::from(k)) * (1.0 + f64::from(k) * (1.0 - loss));
    (1..64).find(|&k| beyond(k) <= 0.05).unwrap_or(64)
}

/// A report, and when it came by the clock that runs while packets are sent.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    at: Duration,
    packets: u64,
    lost: u64,
    runs: u64,
    burst: u16,
}

/// Follows reports of loss: which code, if any.
#[derive(Debug)]
pub(crate) struct Controller {
    limits: Limits,
    current: Option<Code>,
    reports: VecDeque<Remembered>,
    /// Time in which packets were sent.
    clock: Duration,
    last_report: Option<Time>,
    /// When packets were last reported, and when losses were by that clock.
    last_packets: Option<Time>,
    last_loss: Option<Duration>,
    /// Packets reported since losses were.
    since_loss: u64,
    /// Packets reported since nothing was known of the link, and how long that is by that clock.
    known_packets: u64,
    unknown_since: Duration,
    /// Hosts have filled the path since then, and nothing was lost before.
    filled: bool,
    /// Reports in a row that would do with less.
    calm: u32,
}

impl Controller {
    /// Begins with a code for links of which nothing is known. A flow whose slow start loses packets stays slow for
    /// long, and the first losses come before any report: only a code that is on already helps it.
    pub(crate) fn new(limits: Limits) -> Self {
        Controller {
            limits,
            current: Some(first_code(&limits)),
            reports: VecDeque::new(),
            clock: Duration::ZERO,
            last_report: None,
            last_packets: None,
            last_loss: None,
            since_loss: 0,
            known_packets: 0,
            unknown_since: Duration::ZERO,
            filled: false,
            calm: 0,
        }
    }

    /// The code to use; none while nothing is lost.
    pub(crate) fn code(&self) -> Option<&Code> {
        self.current.as_ref()
    }

    /// Hears a report. Whether the code to use is another now.
    pub(crate) fn on_report(&mut self, now: Time, report: &LossReport) -> bool {
        let since = self.last_report.map_or(Duration::ZERO, |last| now.since(last));
        self.last_report = Some(now);
        let sent = report.packets > 0 || report.congested > 0;
        if sent {
            self.clock += since.min(LONGEST_REPORT);
            self.last_packets = Some(now);
            self.remember(report);
        } else if self.last_packets.is_none_or(|last| now.since(last) < IDLE) {
            // Before the first packet nothing is known, however long that takes.
            return false;
        } else if self.current.is_none() {
            // Links change: what comes after a long silence is protected as at the beginning.
            self.reports.clear();
            self.last_loss = None;
            (self.known_packets, self.unknown_since, self.filled) = (0, self.clock, false);
        } else {
            return false;
        }
        let unknown = self.is_unknown();
        let wanted = if unknown { Some(self.first_wanted()) } else { self.wanted() };
        if wanted == self.current {
            self.calm = 0;
            return false;
        }
        if let (Some(wanted), Some(current)) = (&wanted, &self.current)
            && is_weaker(wanted, current)
            && *current != first_code(&self.limits)
        {
            self.calm += 1;
            if self.calm < PATIENCE {
                return false;
            }
        }
        self.calm = 0;
        self.current = wanted;
        true
    }

    /// Whether too little was heard of the link to judge it.
    fn is_unknown(&self) -> bool {
        self.known_packets < KNOWN_PACKETS && self.clock <= self.unknown_since + KNOWN_AFTER
    }

    /// The code while nothing is known: the first, or less where hosts fill the path; more if the losses so far call for it.
    fn first_wanted(&self) -> Code {
        let first = match self.filled {
            true => best(FULL_LOSSES, &self.limits),
            false => first_code(&self.limits),
        };
        match self.wanted() {
            Some(wanted) if !is_weaker(&wanted, &first) => wanted,
            _ => first,
        }
    }

    fn remember(&mut self, report: &LossReport) {
        let at = self.clock;
        self.known_packets += u64::from(report.packets);
        self.filled |= report.full && self.last_loss.is_none();
        self.since_loss += u64::from(report.packets);
        if report.lost > 0 {
            (self.last_loss, self.since_loss) = (Some(at), 0);
        }
        self.reports.push_back(Remembered {
            at,
            packets: u64::from(report.packets),
            lost: u64::from(report.lost),
            runs: u64::from(report.bursts),
            burst: report.usual_burst,
        });
        while self.reports.front().is_some_and(|first| first.at + MEMORY < at) {
            self.reports.pop_front();
        }
    }

    /// The code that the remembered losses call for.
    fn wanted(&self) -> Option<Code> {
        let last_loss = self.last_loss?;
        let calm = |span| last_loss + span < self.clock;
        if calm(CALM) && (self.since_loss >= CALM_PACKETS || calm(CALM * 12)) {
            return None;
        }
        let loss = self.loss(RECENT).max(self.loss(MEMORY));
        let burst = self.burst();
        let burst = if burst <= natural_burst(loss) { 1 } else { burst };
        Some(best(Losses { part: loss, run: self.run(), burst }, &self.limits))
    }

    /// Part of the packets lost in that time.
    fn loss(&self, span: Duration) -> f64 {
        let (mut packets, mut lost) = (0, 0);
        for report in self.reports.iter().filter(|report| report.at + span >= self.clock) {
            packets += report.packets;
            lost += report.lost;
        }
        // Few packets say little: they count as if some hundred more had arrived.
        lost as f64 / (packets.max(FEW) as f64)
    }

    /// The mean run of lost packets.
    fn run(&self) -> f64 {
        let sum = |of: fn(&Remembered) -> u64| self.reports.iter().map(of).sum::<u64>() as f64;
        sum(|report| report.lost) / sum(|report| report.runs).max(1.0)
    }

    /// The burst of which nineteen of twenty lost packets were in one no longer.
    fn burst(&self) -> u16 {
        let mut bursts: Vec<(u16, u64)> =
            self.reports.iter().map(|report| (report.burst, report.lost)).collect();
        bursts.sort_unstable();
        let all: u64 = bursts.iter().map(|&(_, lost)| lost).sum();
        let mut covered = 0;
        let usual = bursts.iter().find(|&&(_, lost)| {
            covered += lost;
            covered * 20 >= all * 19
        });
        usual.map_or(1, |&(burst, _)| burst.max(1))
    }
}

/// The code of a link of which nothing is known.
fn first_code(limits: &Limits) -> Code {
    let (rate, interleaves) = FIRST;
    let rate = rate.min(limits.rate.max(1));
    let mut code = Parameters::new(rate, &interleaves).expect("a code");
    code.delayed = true;
    let fits = code.overhead() <= limits.overhead
        && interleaves.len() <= limits.layers
        && interleaves.iter().all(|&i| i <= limits.interleave);
    match limits.family {
        Family::Layers if fits => Code::Layers(code),
        _ => best(FIRST_LOSSES, limits),
    }
}

/// Whether a code does less than another.
fn is_weaker(code: &Code, than: &Code) -> bool {
    code.overhead() < than.overhead()
        || (code.overhead() == than.overhead() && code.burst() < than.burst())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_burst_does_not_make_bursts_of_random_losses() {
        let mut controller = Controller::new(Limits::default());
        let random = LossReport { bursts: 330, ..report(7_000, 350, 2) };
        let after_overflow = LossReport { bursts: 470, ..report(7_300, 585, 8) };
        let overheads =
            follow(&mut controller, 0, &[random, random, after_overflow, random, random, random]);
        assert!(overheads.iter().all(|&overhead| overhead >= 1.0 / 7.0), "{overheads:?}");
    }

    fn report(packets: u32, lost: u32, usual_burst: u16) -> LossReport {
        let bursts = lost / u32::from(usual_burst.max(1));
        LossReport { packets, lost, bursts, usual_burst, ..LossReport::default() }
    }

    /// Reports a second apart; the overhead after each.
    fn follow(controller: &mut Controller, from: u64, reports: &[LossReport]) -> Vec<f64> {
        let hear = |(n, report): (usize, &LossReport)| {
            controller.on_report(Time::ZERO + Duration::from_secs(from + n as u64), report);
            controller.code().map_or(0.0, Code::overhead)
        };
        reports.iter().enumerate().map(hear).collect()
    }

    #[test]
    fn the_code_is_off_while_nothing_is_lost() {
        let mut controller = Controller::new(Limits::default());
        let first = first_code(&Limits::default());
        assert_eq!(controller.code(), Some(&first), "on before anything is known");
        // Off after some seconds without a loss: of packets, not of silence.
        let silent = follow(&mut controller, 0, &[report(0, 0, 0); 100]);
        assert_eq!(silent, [first.overhead(); 100]);
        let calm = follow(&mut controller, 100, &[report(1_000, 0, 0); 10]);
        assert!(calm[1] > 0.0 && calm[4..] == [0.0; 6], "{calm:?}");
        // On with the first losses, and off some seconds after the last.
        let on = follow(&mut controller, 110, &[report(1_000, 10, 1); 5]);
        assert!(on[0] > 0.05, "{on:?}");
        let after = follow(&mut controller, 115, &[report(1_000, 0, 0); 10]);
        assert!(after[4] > 0.0 && after[5..] == [0.0; 5], "{after:?}");
        // What a full queue drops says nothing of the link.
        let congested = LossReport { congested: 900, congested_lost: 90, ..report(100, 0, 0) };
        assert_eq!(follow(&mut controller, 125, &[congested; 10]), [0.0; 10]);
    }

    #[test]
    fn a_full_queue_beside_a_link_that_loses_nothing_leaves_a_thin_code_until_the_link_is_known() {
        let first = first_code(&Limits::default()).overhead();
        // A slow start that overshoots: few packets were not of congested times.
        let full =
            LossReport { congested: 2_000, congested_lost: 60, full: true, ..report(300, 0, 0) };
        let mut controller = Controller::new(Limits::default());
        let begun = follow(&mut controller, 0, &[report(500, 0, 0), full, full, full, full]);
        assert_eq!(begun, [first, 1.0 / 16.0, 1.0 / 16.0, 1.0 / 16.0, 0.0]);
        // The link's own losses turn it on again.
        let on = follow(&mut controller, 5, &[report(1_000, 10, 1), full]);
        assert!(on[0] > 1.0 / 16.0 && on[1] > 0.0, "{on:?}");
        // And keep it on from the beginning.
        let mut controller = Controller::new(Limits::default());
        let on = follow(&mut controller, 0, &[report(500, 5, 1), full]);
        assert_eq!(on[1], first);
        // After a minute of silence the link is new.
        let mut controller = Controller::new(Limits::default());
        follow(&mut controller, 0, &[report(500, 0, 0), full, full, full, full]);
        assert_eq!(follow(&mut controller, 5, &[report(0, 0, 0); 60])[59], first);
    }

    #[test]
    fn bursts_are_answered_at_once_and_forgotten_by_time() {
        let mut controller = Controller::new(Limits::default());
        let reach = |controller: &Controller| controller.code().map(Code::burst);
        follow(&mut controller, 0, &[report(1_000, 20, 20)]);
        assert!(reach(&controller) >= Some(20));
        // Single losses go on, and the bursts do not come back.
        follow(&mut controller, 1, &[report(1_000, 10, 1); 15]);
        assert!(reach(&controller) < Some(20) && reach(&controller).is_some());
        // Silence is no calm: an idle link may still lose what is sent next.
        let overheads = follow(&mut controller, 16, &[report(0, 0, 0); 90]);
        assert!(overheads[30] > 0.0 && overheads[80] > 0.0, "{overheads:?}");
    }

    #[test]
    fn calm_takes_long_where_few_packets_pass() {
        let mut controller = Controller::new(Limits::default());
        follow(&mut controller, 0, &[report(100, 5, 5); 10]);
        let calm = follow(&mut controller, 10, &[report(100, 0, 0); 70]);
        assert!(calm[38] > 0.0 && calm[39] == 0.0, "{calm:?}");
        // Where fewer pass still, a minute is enough.
        let mut controller = Controller::new(Limits::default());
        follow(&mut controller, 0, &[report(50, 5, 5); 10]);
        let calm = follow(&mut controller, 10, &[report(50, 0, 0); 70]);
        assert!(calm[59] > 0.0 && calm[60] == 0.0, "{calm:?}");
    }

    #[test]
    fn a_link_that_was_idle_for_a_minute_is_protected() {
        let mut controller = Controller::new(Limits::default());
        let calm = follow(&mut controller, 0, &[report(5_000, 0, 0); 5]);
        assert_eq!(calm[4], 0.0, "{calm:?}");
        let idle = follow(&mut controller, 5, &[report(0, 0, 0); 90]);
        // Packets last passed at the fourth second.
        assert_eq!((idle[58], idle[59]), (0.0, first_code(&Limits::default()).overhead()));
        let calm = follow(&mut controller, 95, &[report(5_000, 0, 0); 5]);
        assert_eq!(calm[4], 0.0, "{calm:?}");
    }

    #[test]
    fn a_link_of_which_something_is_known_gets_its_code() {
        let mut controller = Controller::new(Limits::default());
        let first = first_code(&Limits::default()).overhead();
        let known = best(Losses { part: 0.01, run: 1.0, burst: 1 }, &Limits::default());
        follow(&mut controller, 0, &[report(9_900, 99, 1); 2]);
        assert_eq!(controller.code(), Some(&first_code(&Limits::default())));
        follow(&mut controller, 2, &[report(200, 2, 1)]);
        assert_eq!(controller.code(), Some(&known), "after twenty thousand packets");
        // Or after three seconds.
        let mut controller = Controller::new(Limits::default());
        follow(&mut controller, 0, &[report(1_000, 10, 1); 4]);
        assert_eq!(controller.code(), Some(&first_code(&Limits::default())));
        follow(&mut controller, 4, &[report(1_000, 10, 1)]);
        assert_eq!(controller.code(), Some(&known));
        // Losses that the first code does not bring back are answered at once.
        let mut controller = Controller::new(Limits::default());
        let overheads = follow(&mut controller, 0, &[report(1_000, 120, 1); 2]);
        assert!(overheads[0] > first, "{overheads:?}");
    }

    #[test]
    fn chance_makes_runs_of_so_many() {
        // By hand: at 5 %, a lost packet is in a run of more than one with 0.05 (1 + 0.95), and of more than two with 0.0025 * 2.9.
        let runs = [0.01, 0.025, 0.026, 0.05, 0.2, 0.5].map(natural_burst);
        assert_eq!(runs, [1, 1, 2, 2, 3, 7]);
    }

    #[test]
    fn runs_that_chance_makes_call_for_no_layer_against_bursts() {
        let limits = Limits { family: Family::Layers, ..Limits::default() };
        let wanted = |burst| {
            let mut controller = Controller::new(limits);
            let report = LossReport { bursts: 45, ..report(1_000, 50, burst) };
            follow(&mut controller, 0, &[report]);
            controller.wanted()
        };
        let of = |burst| Some(best(Losses { part: 0.05, run: 50.0 / 45.0, burst }, &limits));
        assert_eq!([wanted(2), wanted(3)], [of(1), of(3)]);
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn a_burst_is_usual_if_one_of_twenty_lost_packets_is_beyond() {
        let burst = |long| {
            let mut controller = Controller::new(Limits::default());
            follow(&mut controller, 0, &[report(1_000, 19, 1), report(1_000, long, 9)]);
            controller.burst()
        };
        assert_eq!([burst(1), burst(2)], [1, 9]);
    }

    #[test]
    fn losses_count_by_the_newest_seconds_and_by_ten() {
        let mut controller = Controller::new(Limits::default());
        follow(&mut controller, 0, &[report(1_000, 0, 0); 11]);
        follow(&mut controller, 11, &[report(1_000, 100, 1)]);
        // Ten seconds back, and a second and a half.
        assert_eq!((controller.loss(MEMORY), controller.loss(RECENT)), (100.0 / 11_000.0, 0.05));
        assert_eq!(controller.code(), controller.wanted().as_ref());
        let of = |part| best(Losses { part, run: 1.0, burst: 1 }, &Limits::default());
        assert_eq!(controller.code(), Some(&of(0.05)));
        assert_ne!(of(0.05), of(100.0 / 11_000.0));
        // A few packets say little.
        let mut controller = Controller::new(Limits::default());
        follow(&mut controller, 0, &[report(10, 1, 1)]);
        assert_eq!(controller.loss(MEMORY), 0.01);
    }

    #[test]
    fn a_report_speaks_of_no_longer_time_than_a_second_and_a_half() {
        let mut controller = Controller::new(Limits::default());
        follow(&mut controller, 0, &[report(10_000, 100, 1); 3]);
        let after = follow(&mut controller, 100, &[report(5_000, 0, 0); 6]);
        // The first three are 1.5, 2.5 and 3.5 seconds after the last loss.
        assert!(after[3] > 0.0 && after[4] == 0.0, "{after:?}");
    }

    #[test]
    fn calm_takes_so_many_packets() {
        let mut controller = Controller::new(Limits::default());
        follow(&mut controller, 0, &[report(10_000, 100, 1); 3]);
        let after = follow(&mut controller, 3, &[report(500, 0, 0); 8]);
        assert!(after[6] > 0.0 && after[7] == 0.0, "{after:?}");
    }

    #[test]
    fn a_weaker_code_must_be_called_for_three_times() {
        let of = |part| best(Losses { part, run: 1.0, burst: 1 }, &Limits::default());
        let mut controller = Controller::new(Limits::default());
        (controller.known_packets, controller.current) = (KNOWN_PACKETS, Some(of(0.2)));
        let overheads = follow(&mut controller, 0, &[report(10_000, 100, 1); 3]);
        let (strong, weak) = (of(0.2).overhead(), of(0.01).overhead());
        assert_eq!(overheads, [strong, strong, weak]);
        // A stronger one once; and of two of one overhead the one for shorter bursts is weaker.
        assert!(follow(&mut controller, 3, &[report(10_000, 1_000, 1)])[0] > weak);
        let sliding = |burst| best(Losses { part: 0.0, run: 1.0, burst }, &Limits::default());
        assert_eq!(sliding(6).overhead(), sliding(7).overhead());
        assert!(is_weaker(&sliding(6), &sliding(7)) && !is_weaker(&sliding(7), &sliding(6)));
    }
}
