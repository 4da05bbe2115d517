//! Decoding latency and the code's failure law.

use crate::scenario::{DecodeKind, MAX_SPAN, Protocol};
use wellspring_core::{Duration, RandomStream, Rate};

/// Latency of decoding a block.
#[derive(Clone, PartialEq, Debug)]
pub enum DecodeModel {
    /// None at all.
    Instant,
    /// The block's bytes at a rate. The SCDP authors fitted a polynomial to published worst-case
    /// latencies, which they do not give; they say receivers decoded at roughly 1.3 Gbit/s
    /// (§V-C).
    AtRate(Rate),
    /// (symbols, microseconds) points, linear between and beyond: a codec's measured curve.
    Curve(Vec<(f64, f64)>),
}

/// Wellspring's codec with every source symbol lost, T = 1500, medians on the slower of two machines \[us\]:
/// `bench/record/2026-11-25-codec-zen3.md`. The worst case, as the authors fitted.
const OWN_CODEC: [(f64, f64); 3] = [(10.0, 7.7), (100.0, 94.8), (1_000.0, 933.8)];

/// Decoding fails once in so many blocks at K + 2 symbols (SCDP §II: "in the order of 10^-6").
const FAILURE_PROBABILITY: f64 = 1e-6;

impl DecodeModel {
    /// The scenario's.
    pub fn new(protocol: &Protocol) -> Self {
        match protocol.decode {
            DecodeKind::None => DecodeModel::Instant,
            DecodeKind::Rate => DecodeModel::AtRate(protocol.decode_rate.0),
            DecodeKind::Measured => DecodeModel::Curve(OWN_CODEC.to_vec()),
            DecodeKind::Curve => DecodeModel::Curve(protocol.decode_curve.clone()),
        }
    }

    /// How long a block of so many symbols takes: no longer than a run may.
    pub fn latency(&self, symbols: u32, symbol_size: u16) -> Duration {
        let takes = match self {
            DecodeModel::Instant => Duration::ZERO,
            DecodeModel::AtRate(rate) => rate.time_for(u64::from(symbols) * u64::from(symbol_size)),
            DecodeModel::Curve(points) => {
                let micros = interpolate(points, symbols.into()).max(0.0);
                Duration::from_picos((micros * 1e6) as u64)
            }
        };
        takes.min(MAX_SPAN)
    }

    /// Whether an attempt fails.
    pub fn fails(random: &mut RandomStream) -> bool {
        random.chance(FAILURE_PROBABILITY)
    }
}

fn interpolate(points: &[(f64, f64)], x: f64) -> f64 {
    match points {
        [] => 0.0,
        [only] => only.1,
        _ => {
            let last = points.len() - 2;
            let start = (0..=last).find(|i| x <= points[i + 1].0).unwrap_or(last);
            let ((x0, y0), (x1, y1)) = (points[start], points[start + 1]);
            y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_a_hundred_symbols_takes_a_millisecond_at_the_papers_rate() {
        let model = DecodeModel::AtRate(Rate::from_mbps(1_300));
        let micros = model.latency(100, 1_500).as_micros();
        assert!((920..926).contains(&micros), "{micros}");
    }

    #[test]
    fn no_block_takes_longer_than_a_run() {
        let steep = DecodeModel::Curve(vec![(1.0, 0.0), (1.000_001, 999_999_999.0)]);
        let slow = DecodeModel::AtRate(Rate::from_bits_per_second(1).unwrap());
        for model in [steep, slow] {
            assert_eq!(model.latency(50_000, u16::MAX), MAX_SPAN);
        }
    }

    #[test]
    fn curves_are_linear_between_points() {
        let model = DecodeModel::Curve(vec![(10.0, 5.0), (100.0, 50.0), (1_000.0, 400.0)]);
        for (symbols, micros) in [(10, 5), (55, 27), (100, 50), (550, 225), (2_000, 788)] {
            assert_eq!(model.latency(symbols, 1_500).as_micros(), micros);
        }
    }
}
