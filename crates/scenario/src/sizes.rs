//! Distributions of transfer sizes.

use crate::Sizes;
use wellspring_core::RandomStream;

/// SCDP Table I (journal): upper ends of ranges \[bytes\] and shares. Within a range sizes are
/// log-uniform; the last range ends where the mean becomes the table's (1.6 MB and 7.4 MB), which
/// the table itself leaves open.
const WEB_SEARCH: [(f64, f64); 4] = [(1e4, 0.19), (1e5, 0.43), (1e6, 0.18), (25.5e6, 0.20)];
const DATA_MINING: [(f64, f64); 4] = [(1e4, 0.78), (1e5, 0.05), (1e6, 0.08), (511e6, 0.09)];
/// The smallest size of the first range \[bytes\]; the table says 0.
const SMALLEST: f64 = 1e3;

/// The PIAS authors' tables: packets of 1,460 bytes and cumulative probability.
const PIAS_WEB_SEARCH: [(f64, f64); 12] = [
    (0.0, 0.0),
    (6.0, 0.15),
    (13.0, 0.2),
    (19.0, 0.3),
    (33.0, 0.4),
    (53.0, 0.53),
    (133.0, 0.6),
    (667.0, 0.7),
    (1_333.0, 0.8),
    (3_333.0, 0.9),
    (6_667.0, 0.97),
    (20_000.0, 1.0),
];
const PIAS_DATA_MINING: [(f64, f64); 9] = [
    (0.0, 0.0),
    (1.0, 0.5),
    (2.0, 0.6),
    (3.0, 0.7),
    (7.0, 0.8),
    (267.0, 0.9),
    (2_107.0, 0.95),
    (66_667.0, 0.99),
    (666_667.0, 1.0),
];
const PIAS_PACKET: f64 = 1_460.0;

impl Sizes {
    /// The part of all transfers that are longer than so many bytes, for the distributions of tables.
    pub fn part_above(&self, bytes: f64) -> f64 {
        let points = |points: &[(f64, f64)], unit: f64| above_by_points(points, bytes / unit);
        match self {
            Sizes::Fixed(size) => f64::from(u8::from(size.0 as f64 > bytes)),
            Sizes::WebSearch => above_by_ranges(&WEB_SEARCH, bytes),
            Sizes::DataMining => above_by_ranges(&DATA_MINING, bytes),
            Sizes::PiasWebSearch => points(&PIAS_WEB_SEARCH, PIAS_PACKET),
            Sizes::PiasDataMining => points(&PIAS_DATA_MINING, PIAS_PACKET),
            Sizes::Points(own) => points(own, 1.0),
        }
    }

    /// Draws a size \[bytes\].
    pub fn draw(&self, random: &mut RandomStream) -> u64 {
        let bytes = match self {
            Sizes::Fixed(size) => return size.0,
            Sizes::WebSearch => by_ranges(&WEB_SEARCH, random),
            Sizes::DataMining => by_ranges(&DATA_MINING, random),
            Sizes::PiasWebSearch => by_points(&PIAS_WEB_SEARCH, random.unit()) * PIAS_PACKET,
            Sizes::PiasDataMining => by_points(&PIAS_DATA_MINING, random.unit()) * PIAS_PACKET,
            Sizes::Points(points) => by_points(points, random.unit()),
        };
        (bytes.ceil() as u64).max(1)
    }
}

fn by_ranges(ranges: &[(f64, f64)], random: &mut RandomStream) -> f64 {
    let (mut left, within) = (random.unit(), random.unit());
    let mut low = SMALLEST;
    for &(high, share) in ranges {
        if left < share {
            return low * (high / low).powf(within);
        }
        left -= share;
        low = high;
    }
    low
}

fn above_by_ranges(ranges: &[(f64, f64)], bytes: f64) -> f64 {
    let (mut low, mut above) = (SMALLEST, 0.0);
    for &(high, share) in ranges {
        let part = ((high / bytes).ln() / (high / low).ln()).clamp(0.0, 1.0);
        above += share * part;
        low = high;
    }
    above
}

fn above_by_points(points: &[(f64, f64)], value: f64) -> f64 {
    let mut last = (0.0, 0.0);
    for &(at, cumulative) in points {
        if value < at {
            let share = (value - last.0) / (at - last.0);
            return 1.0 - (last.1 + (cumulative - last.1) * share);
        }
        last = (at, cumulative);
    }
    0.0
}

fn by_points(points: &[(f64, f64)], probability: f64) -> f64 {
    let mut last = (0.0, 0.0);
    for &(value, cumulative) in points {
        if probability < cumulative {
            let share = (probability - last.1) / (cumulative - last.1);
            return last.0 + (value - last.0) * share;
        }
        last = (value, cumulative);
    }
    last.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_core::Seed;

    fn mean(sizes: &Sizes) -> f64 {
        let mut random = Seed(5).stream("sizes");
        let draws = 400_000;
        (0..draws).map(|_| sizes.draw(&mut random) as f64).sum::<f64>() / f64::from(draws)
    }

    #[test]
    fn means_are_those_of_the_tables() {
        for (sizes, expected) in [
            (Sizes::WebSearch, 1.6e6),
            (Sizes::DataMining, 7.4e6),
            (Sizes::PiasWebSearch, 1.67e6),
            (Sizes::PiasDataMining, 7.47e6),
        ] {
            let got = mean(&sizes);
            assert!((got / expected - 1.0).abs() < 0.06, "{sizes:?}: {got}");
        }
    }

    #[test]
    fn the_part_above_a_size_is_that_of_what_is_drawn() {
        let points = Sizes::Points(vec![(1e3, 0.2), (5e4, 0.7), (1e6, 1.0)]);
        for sizes in [Sizes::WebSearch, Sizes::DataMining, Sizes::PiasWebSearch, points] {
            let mut random = Seed(7).stream("sizes");
            let drawn: Vec<u64> = (0..50_000).map(|_| sizes.draw(&mut random)).collect();
            for bytes in [500.0, 5e3, 3e4, 2e5, 4e6, 1e9] {
                let above = drawn.iter().filter(|size| **size as f64 > bytes).count() as f64 / 5e4;
                let part = sizes.part_above(bytes);
                assert!((above - part).abs() < 0.012, "{sizes:?}, {bytes}: {above}, {part}");
            }
        }
    }

    #[test]
    fn shares_are_those_of_table_i() {
        let mut random = Seed(6).stream("sizes");
        let mut counts = [0_u32; 4];
        for _ in 0..100_000 {
            let size = Sizes::WebSearch.draw(&mut random);
            let class = [10_000, 100_000, 1_000_000].iter().filter(|limit| size > **limit).count();
            counts[class] += 1;
        }
        for (count, share) in counts.iter().zip([0.19, 0.43, 0.18, 0.20]) {
            assert!((f64::from(*count) / 1e5 - share).abs() < 0.01, "{counts:?}");
        }
    }
}
