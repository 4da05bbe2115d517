//! Parsing of quantities with units.

use core::fmt;
use wellspring_core::{Duration, Rate};

/// A quantity that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError {
    /// What was to be read.
    pub text: String,
    /// What it should be.
    pub expected: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.expected)
    }
}

impl core::error::Error for UnitError {}

/// The slowest rate \[bit/s\]: a byte's picoseconds, times 2^32, are counted in 64 bits, which ends
/// at 1,863 bit/s.
const SLOWEST: u64 = 2_000;

fn scaled(text: &str, units: &[(&str, f64)], expected: &'static str) -> Result<f64, UnitError> {
    let error = || UnitError { text: text.to_owned(), expected };
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(error)?;
    let number: f64 = text[..split].trim().replace('_', "").parse().map_err(|_| error())?;
    let unit = text[split..].trim();
    let scale = units.iter().find(|(name, _)| *name == unit).ok_or_else(error)?.1;
    let value = number * scale;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(error()) }
}

/// Reads `10us`, `1.5 ms`, `300ns`, `20ps`, `2s`.
///
/// # Errors
/// Not a number with such a unit.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let units = [("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)];
    let picos = scaled(text, &units, "a number with one of the units ps, ns, us, ms, s")?;
    Ok(Duration::from_picos(picos.round() as u64))
}

/// Reads `1Gbit/s`, `100 Mbps`, `2.5Gbps`, `56kbit/s`.
///
/// # Errors
/// Not a number with such a unit, or slower than 2 kbit/s.
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    const KNOWN: &str = "a number with one of the units bit/s, kbit/s, Mbit/s, Gbit/s, bps, kbps, \
                         Mbps, Gbps";
    const FAST_ENOUGH: &str = "a rate of 2 kbit/s or more, the slowest that is simulated";
    let units = [
        ("bit/s", 1.0),
        ("kbit/s", 1e3),
        ("Mbit/s", 1e6),
        ("Gbit/s", 1e9),
        ("bps", 1.0),
        ("kbps", 1e3),
        ("Mbps", 1e6),
        ("Gbps", 1e9),
    ];
    let bits = scaled(text, &units, KNOWN)?.round() as u64;
    Rate::from_bits_per_second(bits)
        .filter(|_| bits >= SLOWEST)
        .ok_or_else(|| UnitError { text: text.to_owned(), expected: FAST_ENOUGH })
}

/// Reads `70KB` (1,000 bytes), `64KiB` (1,024), `1.5MB`, `4 GB`, `300B`.
///
/// # Errors
/// Not a number with such a unit.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let units = [
        ("B", 1.0),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    const KNOWN: &str = "a number with one of the units B, KB, MB, GB, TB, KiB, MiB, GiB";
    Ok(scaled(text, &units, KNOWN)?.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        assert_eq!(parse_duration("10us"), Ok(Duration::from_micros(10)));
        assert_eq!(parse_duration(" 1.5 ms"), Ok(Duration::from_micros(1_500)));
        assert_eq!(parse_rate("2.5Gbit/s"), Ok(Rate::from_mbps(2_500)));
        assert_eq!(parse_bytes("1_500 B"), Ok(1_500));
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "10", "us", "-1us", "1 parsec", "NaNus"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert!(parse_rate("0 bps").is_err() && parse_rate("1.999 kbps").is_err());
        assert!(parse_rate("2 kbps").is_ok());
    }
}
