//! Sizes, rates, parts and times, as people read and write them.

use std::time::Duration;

use wellspring_core::Rate;

/// Bytes in powers of a thousand.
pub fn bytes(count: u64) -> String {
    scaled(count as f64, "B")
}

/// A rate in bit/s.
pub fn bit_rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, "bit/s")
}

fn scaled(value: f64, unit: &str) -> String {
    let mut value = value;
    for prefix in ["", "k", "M", "G"] {
        if value < 999.5 {
            let digits = if prefix.is_empty() || value >= 99.95 { 0 } else { 1 };
            return format!("{value:.digits$} {prefix}{unit}");
        }
        value /= 1_000.0;
    }
    format!("{value:.1} T{unit}")
}

/// A time in seconds.
pub fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// A part, 0 to 1, in per cent.
pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// `count` of `whole`, from 0 to 1.
pub fn part(count: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { count as f64 / whole as f64 }
}

/// `count` and its noun, with an `s` unless it is one.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Splits `12.5M` into its number and the power of its prefix: k, M, G, T are powers of a thousand
/// and Ki, Mi, Gi, Ti of 1,024.
fn parse_scaled(text: &str, units: &[&str]) -> Result<f64, String> {
    let text = text.trim();
    let text = units.iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or(text).trim_end();
    let (text, base) = match text.strip_suffix('i') {
        Some(rest) => (rest, 1_024_f64),
        None => (text, 1_000_f64),
    };
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let power = match &text[split..] {
        "" if base == 1_000.0 => 0,
        "k" | "K" => 1,
        "M" | "m" => 2,
        "G" | "g" => 3,
        "T" | "t" => 4,
        other => return Err(format!("unknown unit `{other}`")),
    };
    let number: f64 = text[..split].trim_end().parse().map_err(|_| "no number".to_owned())?;
    let scaled = number * base.powi(power);
    if (0.0..9e18).contains(&scaled) { Ok(scaled) } else { Err("out of range".to_owned()) }
}

/// Parses a size in bytes: `1234`, `500M`, `1.5 GB`, `2GiB`.
///
/// # Errors
/// What is wrong, and how a size is written.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let size = parse_scaled(text, &["bytes", "B"]);
    size.map(|bytes| bytes as u64)
        .map_err(|why| format!("{why}; write a size such as 500M or 2GiB"))
}

/// Parses a rate: `500M`, `10Gbit/s`.
///
/// # Errors
/// What is wrong, and how a rate is written.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let rate = parse_scaled(text, &["bit/s", "bps"]).map(|bits| bits as u64);
    rate.and_then(|bits| Rate::from_bits_per_second(bits).ok_or_else(|| "zero".to_owned()))
        .map_err(|why| format!("{why}; write a rate in bits a second such as 500M or 10Gbit/s"))
}

/// Parses the part of datagrams to lose, 0 to 0.9.
///
/// # Errors
/// How such a part is written.
pub fn parse_loss(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(loss) if (0.0..=0.9).contains(&loss) => Ok(loss),
        _ => Err("write a part from 0 to 0.9, such as 0.05 for 5 %".to_owned()),
    }
}

/// Parses a time in seconds, 0.2 to 86,400.
///
/// # Errors
/// How such a time is written.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.2..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds from 0.2 to 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_fitting_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(123_456_789), "123 MB");
        assert_eq!(bytes(2_000_000_000_000), "2.0 TB");
        assert_eq!(bit_rate(9.4e8), "940 Mbit/s");
    }

    #[test]
    fn sizes_and_rates_read_as_people_write_them() {
        assert_eq!(parse_size("1234"), Ok(1_234));
        assert_eq!(parse_size("1.5GB"), Ok(1_500_000_000));
        assert_eq!(parse_size("2 GiB"), Ok(2 << 30));
        assert_eq!(parse_rate("10G"), Ok(Rate::from_mbps(10_000)));
        assert_eq!(parse_rate("100 Mbit/s"), Ok(Rate::from_mbps(100)));
        for bad in ["", "x", "5Q", "-1", "i", "5i", "1e30", "NaN"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert!(parse_rate("0").is_err());
    }
}
