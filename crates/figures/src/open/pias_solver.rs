//! PIAS's choice of thresholds by load (Bai et al., NSDI 2015, §4.2).
//!
//! The queues of a port are served in strict order, and a flow sinks by a queue whenever it has sent another threshold.
//! With F the distribution of sizes and 1 the rate of the port, queue i is offered
//! `l_i = load (min(size, a_i) - min(size, a_{i-1}))`, in the mean over the mean size, and served at
//! `m_i = (1 - l_1) ... (1 - l_{i-1})`. As an M/M/1 queue it holds up a packet for `1 / (m_i - l_i)`; a flow passes all
//! queues down to the one in which it ends. PIAS minimises the sum over queues of `(1 - F(a_{i-1})) / (m_i - l_i)`.
//! The paper relaxes that to a sum of linear ratios for a solver that it names; here it is minimised as it
//! stands, threshold by threshold on a finer and finer grid.

use wellspring_experiments::scenario::Sizes;

/// Range of thresholds \[bytes\], as powers of ten.
const RANGE: (f64, f64) = (3.0, 9.0);
/// Steps of the numerical mean over sizes.
const STEPS: usize = 2_000;
/// The first step between thresholds that are tried \[powers of ten\], and the last.
const GRID: (f64, f64) = (0.5, 0.01);

/// Means over sizes that a cost needs, by powers of ten of bytes.
struct Tables {
    /// The mean of min(size, x) over the mean size.
    sent_below: Vec<f64>,
    /// The part of flows longer than x.
    above: Vec<f64>,
}

impl Tables {
    fn new(sizes: &Sizes) -> Tables {
        let at =
            |step: usize| 10_f64.powf(RANGE.0 + (RANGE.1 - RANGE.0) * step as f64 / STEPS as f64);
        let above: Vec<f64> = (0..=STEPS).map(|step| sizes.part_above(at(step))).collect();
        // E min(size, x) is the integral of the part above, from 0 to x; next to all is longer than the first step.
        let mut sum = at(0);
        let mut sent_below = vec![sum];
        for step in 1..=STEPS {
            sum += (at(step) - at(step - 1)) * (above[step] + above[step - 1]) / 2.0;
            sent_below.push(sum);
        }
        sent_below.iter_mut().for_each(|sent| *sent /= sum);
        Tables { sent_below, above }
    }

    fn of(values: &[f64], exponent: f64) -> f64 {
        let step = (exponent - RANGE.0) / (RANGE.1 - RANGE.0) * STEPS as f64;
        values[(step.round().max(0.0) as usize).min(STEPS)]
    }
}

/// The mean delay of flows with these thresholds \[powers of ten\]; infinite where a queue is overloaded.
fn cost(tables: &Tables, load: f64, thresholds: &[f64]) -> f64 {
    let (mut served, mut below, mut longer, mut sum) = (1.0, 0.0, 1.0, 0.0);
    for exponent in thresholds.iter().chain(&[RANGE.1]) {
        let sent = Tables::of(&tables.sent_below, *exponent);
        let offered = load * (sent - below);
        if offered >= served {
            return f64::INFINITY;
        }
        sum += longer / (served - offered);
        served *= 1.0 - offered;
        (below, longer) = (sent, Tables::of(&tables.above, *exponent));
    }
    sum
}

/// The thresholds of that many queues less one which PIAS's model has least delay with at that load \[bytes\].
pub(super) fn thresholds(sizes: &Sizes, load: f64, count: usize) -> Vec<f64> {
    let tables = Tables::new(sizes);
    let mut best: Vec<f64> = (0..count)
        .map(|at| RANGE.0 + (RANGE.1 - RANGE.0) * (at + 1) as f64 / (count + 1) as f64)
        .collect();
    let mut least = cost(&tables, load, &best);
    let mut step = GRID.0;
    while step > GRID.1 {
        let mut moved = false;
        for at in 0..count {
            for by in [-step, step] {
                let mut tried = best.clone();
                tried[at] = (tried[at] + by).clamp(RANGE.0, RANGE.1);
                tried.sort_by(f64::total_cmp);
                let of_tried = cost(&tables, load, &tried);
                if of_tried < least {
                    (best, least, moved) = (tried, of_tried, true);
                }
            }
        }
        if !moved {
            step /= 2.0;
        }
    }
    best.into_iter().map(|exponent| 10_f64.powf(exponent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_thresholds_of_a_grid_have_less_delay() {
        let tables = Tables::new(&Sizes::WebSearch);
        for load in [0.3, 0.7] {
            let found: Vec<f64> =
                thresholds(&Sizes::WebSearch, load, 2).iter().map(|bytes| bytes.log10()).collect();
            let least = cost(&tables, load, &found);
            let grid: Vec<f64> = (30..=90).map(|tenth| f64::from(tenth) / 10.0).collect();
            for first in &grid {
                for second in grid.iter().filter(|second| *second >= first) {
                    let other = cost(&tables, load, &[*first, *second]);
                    assert!(least <= other * 1.002, "{load}: {found:?} {first} {second}");
                }
            }
        }
    }

    #[test]
    fn more_queues_have_less_delay_in_the_model() {
        let tables = Tables::new(&Sizes::DataMining);
        let of = |count: usize| {
            let found = thresholds(&Sizes::DataMining, 0.8, count);
            cost(&tables, 0.8, &found.iter().map(|bytes| bytes.log10()).collect::<Vec<_>>())
        };
        let costs = [0, 1, 2, 4].map(of);
        assert!((costs[0] - 1.0 / (1.0 - 0.8)).abs() < 1e-6, "{costs:?}: M/M/1");
        assert!(costs.windows(2).all(|pair| pair[1] <= pair[0] + 1e-9), "{costs:?}");
    }
}
