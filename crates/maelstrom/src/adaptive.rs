//! Adaptive choice of rate and interleaves by measured loss, which the paper leaves to future work (§7).

use std::collections::VecDeque;

use wellspring_codec::interleave::{
    MAX_NAMES, MAX_WINDOW, Parameters, SYMBOL_HEADER_LEN, SlidingParameters,
};
use wellspring_core::{Duration, Time};

use crate::code::{Code, Family, SlidingCode};
use crate::meter::LossReport;
use crate::wire::{HALF_INGREDIENT_LEN, INGREDIENT_LEN};

/// Part of all packets that may stay lost.
const RESIDUAL: f64 = 1e-5;
/// Loss that is reckoned with even on a link that seems to lose nothing.
const LEAST_LOSS: f64 = 1e-5;
/// The code of a link of which nothing is known. It serves single losses and bursts, and costs little where nothing is
/// lost: at the low rates of a flow's beginning deadlines make shorter XORs of it.
const FIRST: (u8, [u16; 2]) = (16, [1, 23]);
/// Losses that are reckoned with there where the limits forbid that code, and by a sliding window.
const FIRST_LOSSES: Losses = Losses { part: 0.01, run: 1.0, burst: 15 };
/// After so many packets, or at the latest so long, something is known of a link.
const KNOWN_PACKETS: u64 = 6_000;
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
/// Packets for each repair of a sliding window, tried.
const SLIDING_RATES: [u8; 11] = [16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2];
/// Packets in which a sliding window must have made up for what is lost: what hosts wait for at the rates that matter.
const SOON_PACKETS: f64 = 128.0;
/// Packets of which a part, no more, may have so many bursts that they are not made up for in time.
const RUN_PACKETS: f64 = 256.0;
const RUNS_RESIDUAL: f64 = 0.02;
/// Packets that may follow the first of a burst until as many repairs have followed as it has packets.
const BURST_PACKETS: u16 = 120;
/// Packets in an XOR, r, tried.
const RATES: [u8; 8] = [16, 12, 10, 8, 7, 6, 5, 4];

/// Within what a code may be chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Which kind of code.
    pub family: Family,
    /// Repairs for each packet, c / r, at most.
    pub overhead: f64,
    /// Largest interleave: how long bursts may be that are protected against \[packets\].
    pub interleave: u16,
    /// Packets in an XOR, r, at most: the MTU plan depends on it. Repairs of a sliding window are no longer than those of
    /// such XORs.
    pub rate: u8,
    /// Layers, c, at most.
    pub layers: usize,
}

impl Default for Limits {
    /// Half as many repairs as packets, bursts of 64 packets.
    fn default() -> Self {
        Limits { family: Family::Sliding, overhead: 0.5, interleave: 67, rate: 16, layers: 4 }
    }
}

/// What a link loses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Losses {
    /// Part of the packets, 0 to 1.
    pub part: f64,
    /// Mean length of a run of lost packets.
    pub run: f64,
    /// The longest run that is usual \[packets\].
    pub burst: u16,
}

/// The sliding window of least overhead that soon makes up for these losses; if none within the limits does, the strongest.
///
/// With ρ repairs for each packet, w packets lose more than there are repairs with a probability of at most
/// exp(-w D(ρ, p)), where D is the divergence of the two (Chernoff). A run of b packets needs b repairs, so that w packets
/// may have ρ w / b runs.
pub fn choose_sliding(losses: Losses, limits: &Limits) -> SlidingCode {
    let loss = losses.part.clamp(LEAST_LOSS, 0.5);
    let burst = losses.burst.clamp(1, limits.interleave.max(1));
    let runs = loss / losses.run.max(1.0);
    let in_runs = losses.run >= LONG_RUN;
    let allowed = |rate: &u8| 1.0 / f64::from(*rate) <= limits.overhead;
    let soon = |rate: &u8| {
        let repairs = 1.0 / f64::from(*rate);
        let (of_runs, alone) = (repairs / losses.run, if in_runs { runs } else { loss });
        repairs > loss
            && SOON_PACKETS * divergence(repairs, alone) >= -RESIDUAL.ln()
            && (!in_runs
                || of_runs > runs && RUN_PACKETS * divergence(of_runs, runs) >= -RUNS_RESIDUAL.ln())
    };
    let in_time = |rate: &u8| u16::from(*rate) * burst <= BURST_PACKETS.max(4 * burst);
    let mut rates = SLIDING_RATES.into_iter().filter(allowed);
    let strongest = rates.clone().next_back().unwrap_or(SLIDING_RATES[0]);
    let rate = rates.find(|rate| soon(rate) && in_time(rate)).unwrap_or(strongest);
    // At low rates a few packets may lose several.
    let burst = burst.max(2 + (60.0 * loss).ceil() as u16);
    // Other bursts may come while one is being made up for.
    let window = (u16::from(rate) * burst * 4 + burst).clamp(LEAST_WINDOW, MAX_WINDOW);
    let parameters = SlidingParameters::new(rate, window, names(limits.rate));
    SlidingCode { parameters: parameters.expect("within the code's limits"), burst }
}

/// The least sliding window.
const LEAST_WINDOW: u16 = 192;
/// A mean run of lost packets that chance does not make.
const LONG_RUN: f64 = 2.0;

/// Packets that a repair of a sliding window names, so that it is as long as an XOR of `rate` packets.
fn names(rate: u8) -> u8 {
    let bytes = usize::from(rate) * INGREDIENT_LEN;
    let names = bytes.saturating_sub(SYMBOL_HEADER_LEN) / HALF_INGREDIENT_LEN;
    names.clamp(1, usize::from(MAX_NAMES)) as u8
}

/// Divergence of two probabilities, the first of which is the greater.
fn divergence(of: f64, from: f64) -> f64 {
    of * (of / from).ln() + (1.0 - of) * ((1.0 - of) / (1.0 - from)).ln()
}

/// The code of least overhead that leaves at most one packet in 100,000 lost on a link of this loss
/// (0 to 1) in bursts of this length \[packets\]; if none within the limits does, the strongest.
///
/// Layers whose interleave is at least the burst help each other, as `residual` reckons; layers of smaller
/// interleave do nothing.
pub fn choose(loss: f64, burst: u16, limits: &Limits) -> Parameters {
    let loss = loss.clamp(LEAST_LOSS, 0.5);
    // Bursts of b packets are one event in b: seen at a distance of the interleave, that is p.
    let burst = burst.clamp(1, limits.interleave.max(1));
    let mut best: Option<(f64, f64, Parameters)> = None;
    for rate in RATES.into_iter().filter(|&rate| rate <= limits.rate) {
        for layers in 1..=limits.layers.max(1) {
            let interleaves = interleaves(layers, burst, rate, limits.interleave);
            let Ok(mut code) = Parameters::new(rate, &interleaves) else { continue };
            // Or a burst takes one packet in r with the very repair that it is in (§4.3.1).
            code.delayed = burst > 1;
            if code.overhead() > limits.overhead {
                continue;
            }
            let useful = interleaves.iter().filter(|&&i| i >= burst).count();
            let left = residual(loss, rate, useful);
            let better = best.as_ref().is_none_or(|(best_left, best_overhead, _)| {
                let (met, best_met) = (left <= RESIDUAL, *best_left <= RESIDUAL);
                match (met, best_met) {
                    (true, true) => code.overhead() < *best_overhead,
                    (true, false) => true,
                    (false, true) => false,
                    (false, false) => left < *best_left,
                }
            });
            if better {
                best = Some((left, code.overhead(), code));
            }
        }
    }
    best.map(|(_, _, code)| code).unwrap_or_else(|| {
        Parameters::new(limits.rate.clamp(1, 32), &[burst.max(1)])
            .expect("within the code's limits")
    })
}

/// Part of the packets that stays lost at a loss of p, with XORs of r packets in c layers.
///
/// §4.4 has the first step: an XOR is of use if its repair and its r - 1 other packets arrived. Packets that other
/// layers bring back count as arrived in the next steps (density evolution, as for LDPC codes). With two layers the
/// smallest set that cannot be resolved is four packets, two by two in the same XORs.
fn residual(loss: f64, rate: u8, layers: usize) -> f64 {
    const STEPS: usize = 8;
    let others = i32::from(rate) - 1;
    let unusable = |lost: f64| 1.0 - (1.0 - loss) * (1.0 - lost).powi(others);
    let elsewhere = layers as i32 - 1;
    let lost = (0..STEPS).fold(loss, |lost, _| loss * unusable(lost).powi(elsewhere.max(0)));
    // Of use for small losses only: at large ones such sets overlap.
    let square =
        if layers == 2 && loss < 0.1 { (f64::from(others) * loss * loss).powi(2) } else { 0.0 };
    loss * unusable(lost).powi(layers as i32) + square
}

/// The burst that random loss makes by itself: nineteen of twenty lost packets are in runs no longer.
fn natural_burst(loss: f64) -> u16 {
    // Lost packets in runs of more than k: p^k (1 + k (1 - p)).
    let beyond = |k: u16| loss.powi(i32::from(k)) * (1.0 + f64::from(k) * (1.0 - loss));
    (1..64).find(|&k| beyond(k) <= 0.05).unwrap_or(64)
}

/// So many interleaves: 1 for single losses if another layer is left for bursts, then primes from
/// the burst's length and from r upwards, so that no two XORs share more than one packet.
fn interleaves(layers: usize, burst: u16, rate: u8, limit: u16) -> Vec<u16> {
    let mut chosen = Vec::new();
    if burst == 1 || layers > 1 {
        chosen.push(1);
    }
    let mut next = burst.max(u16::from(rate) + 1);
    while chosen.len() < layers {
        let Some(prime) = (next..=limit).find(|&n| is_prime(n)) else {
            // No prime is left below the limit: fewer layers, then.
            if chosen.is_empty() {
                chosen.push(limit.max(1));
            }
            break;
        };
        chosen.push(prime);
        next = prime + prime / 2;
    }
    chosen
}

fn is_prime(n: u16) -> bool {
    n > 1
        && (2..n)
            .take_while(|d| u32::from(*d) * u32::from(*d) <= u32::from(n))
            .all(|d| !n.is_multiple_of(d))
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
            (self.known_packets, self.unknown_since) = (0, self.clock);
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

    /// The code while nothing is known: more than the first if the losses so far call for it.
    fn first_wanted(&self) -> Code {
        let first = first_code(&self.limits);
        match self.wanted() {
            Some(wanted) if !is_weaker(&wanted, &first) => wanted,
            _ => first,
        }
    }

    fn remember(&mut self, report: &LossReport) {
        let at = self.clock;
        self.known_packets += u64::from(report.packets);
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

/// The limits' best code for those losses.
fn best(losses: Losses, limits: &Limits) -> Code {
    match limits.family {
        Family::Sliding => Code::Sliding(choose_sliding(losses, limits)),
        Family::Layers => Code::Layers(choose(losses.part, losses.burst, limits)),
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
    fn more_loss_asks_for_more_and_stays_within_limits() {
        let limits = Limits::default();
        let mut last = 0.0;
        for loss in [0.0, 0.000_1, 0.001, 0.01, 0.03, 0.1, 0.5, 1.0] {
            let code = choose(loss, 1, &limits);
            assert!(
                code.overhead() >= last && code.overhead() <= limits.overhead,
                "{loss}: {code:?}"
            );
            last = code.overhead();
        }
        assert!(last > choose(0.0, 1, &limits).overhead());
        for burst in 0..100 {
            let code = choose(0.01, burst, &limits);
            let largest = code.interleaves().iter().copied().max().unwrap_or(0);
            assert!(largest >= burst.min(64) && largest <= limits.interleave, "{burst}: {code:?}");
            assert!(!code.layers_overlap(), "{code:?}");
        }
    }

    #[test]
    fn odd_limits_still_give_a_code() {
        for (overhead, interleave, rate, layers) in
            [(0.0, 0, 0, 0), (9.0, 1, 1, 1), (0.01, 4_096, 255, 99), (0.3, 2, 4, 8)]
        {
            let code = choose(0.02, 30, &Limits { overhead, interleave, rate, layers, ..LAYERS });
            assert!(code.interleaves().len() <= 8);
            let limits = Limits { overhead, interleave, rate, layers, ..Limits::default() };
            let losses = Losses { part: 0.02, run: 30.0, burst: 30 };
            assert!(choose_sliding(losses, &limits).parameters.rate() >= 2);
        }
    }

    #[test]
    fn layers_help_each_other() {
        // By hand: one layer of r = 10 at 1 % fails where its repair or one of nine others is lost.
        let one = residual(0.01, 10, 1);
        assert!((one - 0.01 * (1.0 - 0.99_f64.powi(10))).abs() < 1e-12);
        assert!(residual(0.01, 12, 2) < 1e-5 && residual(0.01, 12, 1) > 1e-4);
        assert!(residual(0.05, 8, 3) < 1e-5);
    }

    #[test]
    fn windows_follow_loss_and_bursts() {
        let of = |part, burst| {
            let losses = Losses { part, run: f64::from(burst), burst };
            let code = choose_sliding(losses, &Limits::default());
            (code.parameters.rate(), code.parameters.window(), code.burst)
        };
        let mut last = 255;
        for loss in [0.0, 0.000_1, 0.001, 0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 1.0] {
            let (rate, window, _) = of(loss, 1);
            assert!(rate <= last && window >= LEAST_WINDOW, "{loss}: {rate}");
            last = rate;
        }
        for burst in 1..100 {
            let (rate, window, protected) = of(0.01, burst);
            // As many repairs as packets of the burst are of a window that still has them all.
            let used = protected * u16::from(rate) + protected;
            assert!(protected >= burst.min(67) && window >= used, "{burst}: {rate}, {window}");
        }
    }

    #[test]
    fn bursts_that_follow_each_other_are_made_up_for() {
        // One packet in a thousand begins a burst of ten: of 256 packets, two hundredths have more than three.
        let losses = Losses { part: 0.01, run: 10.0, burst: 10 };
        assert!(choose_sliding(losses, &Limits::default()).parameters.rate() <= 8);
        let rare = Losses { part: 0.001, ..losses };
        assert!(choose_sliding(rare, &Limits::default()).parameters.rate() >= 12);
    }

    #[test]
    fn one_long_burst_does_not_make_bursts_of_random_losses() {
        let mut controller = Controller::new(Limits::default());
        let random = LossReport { bursts: 330, ..report(7_000, 350, 2) };
        let after_overflow = LossReport { bursts: 470, ..report(7_300, 585, 8) };
        let overheads =
            follow(&mut controller, 0, &[random, random, after_overflow, random, random, random]);
        assert!(overheads.iter().all(|&overhead| overhead >= 1.0 / 7.0), "{overheads:?}");
    }

    const LAYERS: Limits =
        Limits { family: Family::Layers, overhead: 0.5, interleave: 67, rate: 16, layers: 4 };

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
        assert!(after[4] > 0.0 && after[6..] == [0.0; 4], "{after:?}");
        // What a full queue drops says nothing of the link.
        let congested = LossReport { congested: 900, congested_lost: 90, ..report(100, 0, 0) };
        assert_eq!(follow(&mut controller, 125, &[congested; 10]), [0.0; 10]);
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
        assert!(calm[30] > 0.0 && calm[69] == 0.0, "{calm:?}");
    }

    #[test]
    fn a_link_that_was_idle_for_a_minute_is_protected() {
        let mut controller = Controller::new(Limits::default());
        let calm = follow(&mut controller, 0, &[report(5_000, 0, 0); 5]);
        assert_eq!(calm[4], 0.0, "{calm:?}");
        let idle = follow(&mut controller, 5, &[report(0, 0, 0); 90]);
        assert_eq!((idle[30], idle[80]), (0.0, first_code(&Limits::default()).overhead()));
        let calm = follow(&mut controller, 95, &[report(5_000, 0, 0); 5]);
        assert_eq!(calm[4], 0.0, "{calm:?}");
    }

    #[test]
    fn a_link_of_which_something_is_known_gets_its_code() {
        let mut controller = Controller::new(Limits::default());
        let first = first_code(&Limits::default()).overhead();
        follow(&mut controller, 0, &[report(2_500, 25, 1); 2]);
        assert_eq!(controller.code(), Some(&first_code(&Limits::default())));
        follow(&mut controller, 2, &[report(2_500, 25, 1); 2]);
        assert_eq!(
            controller.code(),
            Some(&best(Losses { part: 0.01, run: 1.0, burst: 1 }, &Limits::default()))
        );
        // Losses that the first code does not bring back are answered at once.
        let mut controller = Controller::new(Limits::default());
        let overheads = follow(&mut controller, 0, &[report(1_000, 120, 1); 2]);
        assert!(overheads[0] > first, "{overheads:?}");
    }
}
