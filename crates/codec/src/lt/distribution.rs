//! The robust soliton distribution (LTTP §III-C, equations 1 to 3).

use super::LtError;
use super::random::ln;

/// Most source symbols of a block, k.
///
/// Elimination keeps a bit for every pair of source symbols at worst, and takes time with the cube
/// of k when a sender means ill; LTTP's blocks have 64 to 256 symbols.
pub const MAX_SOURCE_SYMBOLS: u32 = 4_096;

/// Largest constant c. Far below it nearly all encoding symbols are copies already.
pub const MAX_CONSTANT: f64 = 1_000.0;

/// Probabilities are multiples of 2^-53, the finest that the sums of them resolve.
const ONE: u64 = 1 << 53;

/// The distribution of the degree, the number of source symbols in an encoding symbol.
///
/// With R = c sqrt(k) ln(k / delta), the expected *ripple*, the probability of degree i is
/// proportional to rho(i) + tau(i):
///
/// - rho(1) = 1/k and rho(i) = 1/(i (i-1)), the ideal soliton distribution;
/// - tau(i) = R/(i k) below i = k/R, R ln(R/delta)/k at it, zero above.
///
/// The paper leaves open what happens where k/R is no integer (the nearest is taken), where it is
/// beyond k (there is no such degree, and all have the first form), and where R is below delta
/// (the negative term counts as zero).
///
/// Sampling is one draw and one binary search in a table of k cumulative probabilities. The table
/// is made of sums, products, quotients and square roots alone, and so is the same on every
/// machine.
///
/// # Examples
///
/// ```
/// use wellspring_codec::lt::RobustSoliton;
///
/// let lttp = RobustSoliton::new(256, 0.2, 0.7)?;
/// assert!((lttp.ripple() - 18.9).abs() < 0.1);
/// assert!((lttp.mean_degree() - 7.1).abs() < 0.1);
/// # Ok::<(), wellspring_codec::lt::LtError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RobustSoliton {
    c: f64,
    delta: f64,
    ripple: f64,
    /// Entry i is the probability of a degree of at most i + 1, in units of 2^-53.
    cumulative: Vec<u64>,
}

impl RobustSoliton {
    /// The distribution for blocks of `k` source symbols with the constant `c` and the failure
    /// probability `delta`. LTTP has c = 0.2 and delta = 0.7 (§V-B).
    ///
    /// # Errors
    ///
    /// [`LtError::SourceSymbols`] if `k` is not 1 to [`MAX_SOURCE_SYMBOLS`],
    /// [`LtError::Constant`] if `c` is not above 0 and at most [`MAX_CONSTANT`],
    /// [`LtError::FailureProbability`] if `delta` is not between 0 and 1, or so near to 0 that `k / delta` or R / `delta` is
    /// infinite.
    pub fn new(k: u32, c: f64, delta: f64) -> Result<Self, LtError> {
        check_source_symbols(k)?;
        if !(c.is_normal() && c > 0.0 && c <= MAX_CONSTANT) {
            return Err(LtError::Constant { got: c, limit: MAX_CONSTANT });
        }
        let is_probability = delta.is_normal() && delta > 0.0 && delta < 1.0;
        if !(is_probability && (f64::from(k) / delta).is_finite()) {
            return Err(LtError::FailureProbability(delta));
        }
        let ripple = c * f64::from(k).sqrt() * ln(f64::from(k) / delta);
        if !(ripple / delta).is_finite() {
            return Err(LtError::FailureProbability(delta));
        }
        let weights: Vec<f64> = (1..=k).map(|degree| weight(k, ripple, delta, degree)).collect();
        let total: f64 = weights.iter().sum();
        let mut below = 0.0;
        let mut cumulative: Vec<u64> = weights
            .iter()
            .map(|weight| {
                below += weight / total;
                ((below * ONE as f64) as u64).min(ONE)
            })
            .collect();
        // Rounding leaves the last sum next to one.
        *cumulative.last_mut().expect("there is at least one degree") = ONE;
        Ok(Self { c, delta, ripple, cumulative })
    }

    /// Source symbols of a block, k.
    #[must_use]
    pub fn source_symbols(&self) -> u32 {
        self.cumulative.len() as u32
    }

    /// The constant c.
    #[must_use]
    pub fn constant(&self) -> f64 {
        self.c
    }

    /// The failure probability delta that the distribution was designed for.
    #[must_use]
    pub fn failure_probability(&self) -> f64 {
        self.delta
    }

    /// R, the expected size of the ripple \[source symbols\].
    #[must_use]
    pub fn ripple(&self) -> f64 {
        self.ripple
    }

    /// How likely an encoding symbol has that degree.
    #[must_use]
    pub fn probability(&self, degree: u32) -> f64 {
        let Some(place) = (degree as usize).checked_sub(1).filter(|p| *p < self.cumulative.len())
        else {
            return 0.0;
        };
        let before = place.checked_sub(1).map_or(0, |before| self.cumulative[before]);
        (self.cumulative[place] - before) as f64 / ONE as f64
    }

    /// The mean degree: XORs an encoding symbol costs, and indices its description takes.
    #[must_use]
    pub fn mean_degree(&self) -> f64 {
        (1..=self.source_symbols()).map(|i| f64::from(i) * self.probability(i)).sum()
    }

    /// The degree that a draw of 64 even bits stands for.
    #[must_use]
    pub fn degree(&self, draw: u64) -> u32 {
        let draw = draw >> (64 - ONE.trailing_zeros());
        self.cumulative.partition_point(|sum| *sum <= draw) as u32 + 1
    }
}

/// rho(i) + tau(i) (LTTP, equations 2 and 3).
fn weight(k: u32, ripple: f64, delta: f64, degree: u32) -> f64 {
    let (k, i) = (f64::from(k), f64::from(degree));
    let rho = if degree == 1 { 1.0 / k } else { 1.0 / (i * (i - 1.0)) };
    let spike = (k / ripple).round().max(1.0);
    let tau = if i < spike {
        ripple / (i * k)
    } else if i > spike || ripple <= delta {
        0.0
    } else {
        ripple * ln(ripple / delta) / k
    };
    rho + tau
}

/// Checks the number of source symbols of a block.
pub(super) fn check_source_symbols(k: u32) -> Result<(), LtError> {
    if (1..=MAX_SOURCE_SYMBOLS).contains(&k) {
        Ok(())
    } else {
        Err(LtError::SourceSymbols { got: u64::from(k), limit: MAX_SOURCE_SYMBOLS })
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    /// Moments by the paper's formulas, with the platform's logarithm.
    fn moments(k: u32, c: f64, delta: f64) -> (f64, f64) {
        let kf = f64::from(k);
        let r = c * kf.sqrt() * (kf / delta).ln();
        let spike = (kf / r).round().max(1.0) as u32;
        let mut sums = [0.0; 3];
        for i in 1..=k {
            let d = f64::from(i);
            let rho = if i == 1 { 1.0 / kf } else { 1.0 / (d * (d - 1.0)) };
            let tau = match i.cmp(&spike) {
                core::cmp::Ordering::Less => r / (d * kf),
                core::cmp::Ordering::Equal => (r * (r / delta).ln() / kf).max(0.0),
                core::cmp::Ordering::Greater => 0.0,
            };
            for (power, sum) in sums.iter_mut().enumerate() {
                *sum += d.powi(power as i32) * (rho + tau);
            }
        }
        (sums[1] / sums[0], sums[2] / sums[0])
    }

    #[test]
    fn probabilities_sum_to_one_and_have_the_formulas_moments() {
        for k in [1, 2, 3, 10, 64, 128, 256, 1_000, 4_096] {
            for (c, delta) in [(0.2, 0.7), (0.03, 0.5), (1.0, 0.1), (10.0, 0.9), (1e-6, 0.999)] {
                let soliton = RobustSoliton::new(k, c, delta).expect("parameters in range");
                let (first, second) = moments(k, c, delta);
                let degrees = || (1..=k).map(|i| (f64::from(i), soliton.probability(i)));
                let sum: f64 = degrees().map(|(_, p)| p).sum();
                let square: f64 = degrees().map(|(i, p)| i * i * p).sum();
                assert!((sum - 1.0).abs() < 1e-9, "k {k} c {c}");
                assert!((soliton.mean_degree() / first - 1.0).abs() < 1e-9, "k {k} c {c}");
                assert!((square / second - 1.0).abs() < 1e-9, "k {k} c {c}");
            }
        }
    }

    #[test]
    fn a_probability_too_near_to_zero_is_refused() {
        for k in [1, 4_096] {
            assert!(RobustSoliton::new(k, MAX_CONSTANT, 1e-300).is_ok());
            let refused = RobustSoliton::new(k, 0.2, f64::MIN_POSITIVE);
            assert!(matches!(refused, Err(LtError::FailureProbability(_))), "{refused:?}");
        }
    }

    #[test]
    fn drawn_degrees_follow_the_distribution() {
        let soliton = RobustSoliton::new(256, 0.2, 0.7).expect("parameters in range");
        let draws = 200_000;
        let mut counts = vec![0_u32; 257];
        for id in 0..draws {
            counts[soliton.degree(Random::new(11, id).word()) as usize] += 1;
        }
        for (degree, &count) in (0..).zip(&counts) {
            let expected = soliton.probability(degree) * f64::from(draws);
            // Six standard deviations of a Poisson count, and one.
            let off = (f64::from(count) - expected).abs();
            assert!(off <= 6.0 * expected.sqrt() + 1.0, "degree {degree}: {count} for {expected}");
        }
    }

    #[test]
    fn extreme_draws_have_degrees_of_the_block() {
        for k in [1, 2, 3, 256, 4_096] {
            let soliton = RobustSoliton::new(k, 0.2, 0.7).expect("parameters in range");
            assert_eq!(soliton.degree(0), 1);
            assert_eq!(soliton.degree(u64::MAX), k);
            assert!(soliton.probability(0) == 0.0 && soliton.probability(k + 1) == 0.0);
        }
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for k in [0, MAX_SOURCE_SYMBOLS + 1, u32::MAX] {
            let refused = RobustSoliton::new(k, 0.2, 0.7).expect_err("k is out of range");
            let limit = MAX_SOURCE_SYMBOLS;
            assert_eq!(refused, LtError::SourceSymbols { got: u64::from(k), limit });
        }
        for c in [0.0, -0.2, 1_001.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 2.0] {
            let refused = RobustSoliton::new(10, c, 0.7).expect_err("c is out of range");
            assert!(matches!(refused, LtError::Constant { .. }), "{c}");
        }
        for delta in [0.0, 1.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
            let refused = RobustSoliton::new(10, 0.2, delta).expect_err("delta is out of range");
            assert!(matches!(refused, LtError::FailureProbability(_)), "{delta}");
        }
    }
}
