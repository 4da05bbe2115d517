//! Adaptive choice of rate and interleaves by measured loss, which the paper leaves to future work (§7).

use wellspring_codec::interleave::Parameters;

use crate::meter::LossReport;

/// Part of all packets that may stay lost.
const RESIDUAL: f64 = 1e-5;
/// Loss that is reckoned with even on a link that seems to lose nothing.
const LEAST_LOSS: f64 = 1e-5;
/// Reports in a row that ask for less before less is done.
const PATIENCE: u32 = 10;
/// What one good report takes off the remembered loss.
const FADE: f64 = 0.8;
/// Packets in an XOR, r, tried.
const RATES: [u8; 8] = [16, 12, 10, 8, 7, 6, 5, 4];

/// Within what a code may be chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Repairs for each packet, c / r, at most.
    pub overhead: f64,
    /// Largest interleave: how long bursts may be that are protected against \[packets\].
    pub interleave: u16,
    /// Packets in an XOR, r, at most: the MTU plan depends on it.
    pub rate: u8,
    /// Layers, c, at most.
    pub layers: usize,
}

impl Default for Limits {
    /// Half as many repairs as packets, bursts of 64 packets.
    fn default() -> Self {
        Limits { overhead: 0.5, interleave: 67, rate: 12, layers: 4 }
    }
}

/// The code of least overhead that leaves at most one packet in 100,000 lost on a link of this loss
/// (0 to 1) in bursts of this length \[packets\]; if none within the limits does, the strongest.
///
/// The probability is that of §4.4: a layer whose interleave is at least the burst brings a packet
/// back with (1-p)^r, and layers of smaller interleave do nothing.
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
            let unusable = 1.0 - (1.0 - loss).powi(i32::from(rate));
            let left = loss * unusable.powi(useful as i32);
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

/// Follows reports of loss.
#[derive(Debug)]
pub(crate) struct Controller {
    limits: Limits,
    loss: f64,
    burst: u16,
    current: Parameters,
    /// Reports in a row that would do with less.
    calm: u32,
}

impl Controller {
    /// Begins as on a link that loses one packet in a hundred.
    pub(crate) fn new(limits: Limits) -> Self {
        let current = choose(0.01, 1, &limits);
        Controller { limits, loss: 0.01, burst: 1, current, calm: 0 }
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        &self.current
    }

    /// Hears a report; tells the code to go over to, if it is another.
    pub(crate) fn on_report(&mut self, report: &LossReport) -> Option<&Parameters> {
        if report.packets == 0 {
            return None;
        }
        // Up at once, down by and by.
        self.loss = report.loss().max(self.loss * FADE);
        self.burst = if report.usual_burst >= self.burst {
            report.usual_burst
        } else if report.lost > 0 {
            report.usual_burst.max((f64::from(self.burst) * FADE) as u16)
        } else {
            self.burst
        };
        let wanted = choose(self.loss, self.burst, &self.limits);
        if wanted == self.current {
            self.calm = 0;
            return None;
        }
        let reach = |code: &Parameters| code.interleaves().iter().copied().max();
        let weaker = wanted.overhead() < self.current.overhead()
            || (wanted.overhead() == self.current.overhead()
                && reach(&wanted) < reach(&self.current));
        if weaker {
            self.calm += 1;
            if self.calm < PATIENCE {
                return None;
            }
        }
        self.calm = 0;
        self.current = wanted;
        Some(&self.current)
    }
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
            let code = choose(0.02, 30, &Limits { overhead, interleave, rate, layers });
            assert!(code.interleaves().len() <= 8);
        }
    }

    #[test]
    fn the_controller_is_quick_to_protect_and_slow_to_relax() {
        let mut controller = Controller::new(Limits::default());
        let calm = LossReport { packets: 1_000, ..LossReport::default() };
        let changes = (0..60).filter(|_| controller.on_report(&calm).is_some()).count();
        assert!(changes >= 1);
        let relaxed = controller.parameters().clone();
        let bad = LossReport {
            packets: 1_000,
            lost: 40,
            bursts: 2,
            usual_burst: 20,
            longest_burst: 20,
            recovered: 0,
        };
        let stronger = controller.on_report(&bad).expect("a stronger code at once").clone();
        assert!(stronger.overhead() > relaxed.overhead());
        assert!(stronger.interleaves().iter().any(|&i| i >= 20));
        for _ in 0..PATIENCE - 1 {
            assert!(
                controller.on_report(&calm).is_none_or(|c| c.overhead() >= stronger.overhead())
            );
        }
    }
}
