//! Link and pull rates.

use crate::Duration;
use core::fmt;

/// A rate \[bit/s\], never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(core::num::NonZeroU64);

impl Rate {
    /// A rate of so many bits a second, or `None` for zero.
    pub const fn from_bits_per_second(bits: u64) -> Option<Self> {
        match core::num::NonZeroU64::new(bits) {
            Some(bits) => Some(Rate(bits)),
            None => None,
        }
    }
    /// A rate of so many megabits a second; zero counts as one bit a second.
    pub const fn from_mbps(mbps: u64) -> Self {
        match core::num::NonZeroU64::new(mbps.saturating_mul(1_000_000)) {
            Some(bits) => Rate(bits),
            None => Rate(core::num::NonZeroU64::MIN),
        }
    }
    /// The rate \[bit/s\].
    pub const fn as_bits_per_second(self) -> u64 {
        self.0.get()
    }
    /// How long `bytes` take at this rate, rounded up to a picosecond so that a queue never runs
    /// faster than its link.
    pub const fn time_for(self, bytes: u64) -> Duration {
        let bits = bytes as u128 * 8;
        let picos = (bits * 1_000_000_000_000).div_ceil(self.0.get() as u128);
        Duration::from_picos(if picos > u64::MAX as u128 { u64::MAX } else { picos as u64 })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.as_bits_per_second() as f64;
        match bits {
            b if b >= 1e9 => write!(f, "{:.3} Gbit/s", b / 1e9),
            b if b >= 1e6 => write!(f, "{:.3} Mbit/s", b / 1e6),
            b => write!(f, "{:.3} kbit/s", b / 1e3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_its_serialisation_time() {
        assert_eq!(Rate::from_mbps(1_000).time_for(1_500), Duration::from_micros(12));
        assert_eq!(Rate::from_mbps(400_000).time_for(64), Duration::from_picos(1_280));
    }

    #[test]
    fn time_is_rounded_up_and_never_overflows() {
        let third = Rate::from_bits_per_second(3).expect("not zero");
        assert_eq!(third.time_for(1).as_picos(), 2_666_666_666_667);
        let slow = Rate::from_bits_per_second(1).expect("not zero");
        assert_eq!(slow.time_for(u64::MAX).as_picos(), u64::MAX);
    }
}
