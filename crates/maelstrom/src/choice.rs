//! Choice of a code by the losses of a link, which the paper leaves to future work (§7).

use wellspring_codec::interleave::{
    BlockParameters, MAX_INTERLEAVE, MAX_LAYERS, MAX_NAMES, MAX_RATE, MAX_WINDOW, Parameters,
    SYMBOL_HEADER_LEN, SlidingParameters,
};

use crate::code::{Code, Family, SlidingCode};
use crate::wire::{HALF_INGREDIENT_LEN, INGREDIENT_LEN};

/// Part of all packets that may stay lost.
const RESIDUAL: f64 = 1e-5;
/// Loss that is reckoned with even on a link that seems to lose nothing.
const LEAST_LOSS: f64 = 1e-5;
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

/// The Reed-Solomon blocks of least overhead that leave at most one packet in 100,000 lost at these losses; if none within
/// the limits do, the strongest.
///
/// Blocks lie as far apart as the longest burst has packets, so that each loses its packets one by one: of r + c symbols
/// more than c are lost with the probability that the binomial distribution gives.
pub fn choose_blocks(losses: Losses, limits: &Limits) -> BlockParameters {
    let loss = losses.part.clamp(LEAST_LOSS, 0.5);
    let burst = losses.burst.clamp(1, limits.interleave.clamp(1, MAX_INTERLEAVE));
    // A repair of r packets is as long as an XOR of one more (`Code::mtu_rate`).
    let most = limits.rate.clamp(2, MAX_RATE) - 1;
    let rates = (1..=most).rev();
    let repairs = 1..=MAX_LAYERS as u8;
    let shapes = repairs.flat_map(|repairs| rates.clone().map(move |rate| (rate, repairs)));
    let overhead = |(rate, repairs): (u8, u8)| f64::from(repairs) / f64::from(rate);
    let allowed = |shape: &(u8, u8)| overhead(*shape) <= limits.overhead;
    let left = |shape: (u8, u8)| left_by_blocks(loss, shape);
    let allowed: Vec<(u8, u8)> = shapes.filter(allowed).collect();
    let good = allowed.iter().copied().filter(|&shape| left(shape) <= RESIDUAL);
    // Of two with one overhead the one of the shorter block is sooner done.
    let cheapest = good.min_by(|&a, &b| overhead(a).total_cmp(&overhead(b)).then(a.0.cmp(&b.0)));
    let strongest = || allowed.iter().copied().min_by(|&a, &b| left(a).total_cmp(&left(b)));
    let (rate, repairs) = cheapest.or_else(strongest).unwrap_or((most, 1));
    let mut code = BlockParameters::new(rate, repairs, burst).expect("within the code's limits");
    code.delayed = burst > 1;
    code
}

/// Part of the packets that stays lost at a loss of p, in blocks of r packets and c repairs.
fn left_by_blocks(loss: f64, (rate, repairs): (u8, u8)) -> f64 {
    let (all, repairs) = (u32::from(rate) + u32::from(repairs), u32::from(repairs));
    // Exactly k of all are lost, from k = 0 on.
    let mut exactly = (1.0 - loss).powi(all as i32);
    let mut lost = 0.0;
    for k in 0..=all {
        if k > repairs {
            lost += exactly * f64::from(k);
        }
        exactly *= f64::from(all - k) / f64::from(k + 1) * loss / (1.0 - loss);
    }
    lost / f64::from(all)
}

/// The limits' best code for those losses.
pub(crate) fn best(losses: Losses, limits: &Limits) -> Code {
    match limits.family {
        Family::Sliding => Code::Sliding(choose_sliding(losses, limits)),
        Family::Layers => Code::Layers(choose(losses.part, losses.burst, limits)),
        Family::ReedSolomon => Code::Blocks(choose_blocks(losses, limits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: Limits =
        Limits { family: Family::Layers, overhead: 0.5, interleave: 67, rate: 16, layers: 4 };

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
    fn windows_are_what_the_bounds_give() {
        // Reckoned apart from this code, from the bounds in `choose_sliding`'s documentation: rate and window.
        let table = [
            (0.0, 1.0, 1, (16, 195)),
            (0.0, 1.0, 7, (16, 455)),
            (0.01, 1.0, 15, (8, 495)),
            (0.01, 1.0, 1, (12, 192)),
            (0.02, 1.0, 1, (8, 192)),
            (0.05, 1.0, 1, (6, 192)),
            (0.1, 1.0, 1, (4, 192)),
            (0.01, 1.9, 1, (12, 192)),
            (0.01, 2.0, 2, (16, 195)),
            (0.01, 10.0, 10, (8, 330)),
            (0.01, 20.0, 20, (6, 500)),
            (0.001, 10.0, 10, (12, 490)),
        ];
        for (part, run, burst, expected) in table {
            let code = choose_sliding(Losses { part, run, burst }, &Limits::default()).parameters;
            assert_eq!((code.rate(), code.window()), expected, "{part}, {run}, {burst}");
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
    fn blocks_follow_loss_and_bursts() {
        let limits = Limits { family: Family::ReedSolomon, ..Limits::default() };
        let of = |part, burst| choose_blocks(Losses { part, run: 1.0, burst }, &limits);
        let mut last = 0.0;
        for loss in [0.0, 0.000_1, 0.001, 0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 1.0] {
            let code = of(loss, 1);
            assert!(
                code.overhead() >= last && code.overhead() <= limits.overhead,
                "{loss}: {code:?}"
            );
            assert!(!code.delayed && code.rate() < 16, "{loss}: {code:?}");
            last = code.overhead();
        }
        for burst in 2..100 {
            let code = of(0.01, burst);
            assert!(code.delayed && code.interleave() == burst.min(67), "{burst}: {code:?}");
        }
        // By hand: of two symbols at 10 %, both are lost once in a hundred times, and then one packet is of a block of one.
        assert!((left_by_blocks(0.1, (1, 1)) - 0.01).abs() < 1e-12);
        assert_eq!(left_by_blocks(0.01, (15, 3)) <= RESIDUAL, of(0.01, 1).repairs() <= 3);
        for (overhead, interleave, rate) in [(0.0, 0, 0), (9.0, 1, 1), (0.01, 5_000, 255)] {
            let losses = Losses { part: 0.02, run: 30.0, burst: 30 };
            choose_blocks(losses, &Limits { overhead, interleave, rate, ..limits });
        }
    }
}
