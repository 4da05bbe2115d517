//! Instants and spans in picoseconds.

use core::cmp::Ordering;
use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

const PICOS_PER_NANO: u64 = 1_000;
const PICOS_PER_MICRO: u64 = 1_000_000;
const PICOS_PER_MILLI: u64 = 1_000_000_000;
const PICOS_PER_SECOND: u64 = 1_000_000_000_000;

/// A span of time \[ps\]. One bit at 400 Gbit/s is 2.5 ps; `u64` holds 213 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);
    /// The longest span between two [`Time`]s that still compare the right way: about 106 days.
    pub const MAX: Duration = Duration(u64::MAX / 2);

    /// A span of so many picoseconds.
    pub const fn from_picos(picos: u64) -> Self {
        Duration(picos)
    }
    /// A span of so many nanoseconds (saturating).
    pub const fn from_nanos(nanos: u64) -> Self {
        Duration(nanos.saturating_mul(PICOS_PER_NANO))
    }
    /// A span of so many microseconds (saturating).
    pub const fn from_micros(micros: u64) -> Self {
        Duration(micros.saturating_mul(PICOS_PER_MICRO))
    }
    /// A span of so many milliseconds (saturating).
    pub const fn from_millis(millis: u64) -> Self {
        Duration(millis.saturating_mul(PICOS_PER_MILLI))
    }
    /// A span of so many seconds (saturating).
    pub const fn from_secs(secs: u64) -> Self {
        Duration(secs.saturating_mul(PICOS_PER_SECOND))
    }
    /// The span \[ps\].
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// The span \[ns\], rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / PICOS_PER_NANO
    }
    /// The span \[us\], rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / PICOS_PER_MICRO
    }
    /// The span \[s\], for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PICOS_PER_SECOND as f64
    }
    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}
impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
}
impl Div<u64> for Duration {
    type Output = Duration;
    fn div(self, divisor: u64) -> Duration {
        Duration(self.0 / divisor)
    }
}
impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            p if p >= PICOS_PER_SECOND => write!(f, "{:.3}s", self.as_secs_f64()),
            p if p >= PICOS_PER_MILLI => write!(f, "{:.3}ms", p as f64 / PICOS_PER_MILLI as f64),
            p => write!(f, "{:.3}us", p as f64 / PICOS_PER_MICRO as f64),
        }
    }
}

/// An instant on the driver's clock \[ps since the run's epoch\].
///
/// The clock is a circle of 213 days, so that a server may run for ever: two instants compare by
/// the shorter way round, which is right as long as they lie within [`Duration::MAX`] of each
/// other. Hence one duty for whoever stores a `Time`: let go of it once it is long past (the
/// driver calls [`Endpoint::handle_timeout`](crate::Endpoint::handle_timeout) at least once a
/// day, and endpoints forget past instants there). A simulation starts at [`Time::ZERO`] and
/// never comes round.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The epoch.
    pub const ZERO: Time = Time(0);

    /// The instant so many picoseconds after the epoch (modulo the circle).
    pub const fn from_picos(picos: u64) -> Self {
        Time(picos)
    }
    /// Picoseconds since the epoch (modulo the circle).
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Seconds since the epoch, for reports.
    pub fn as_secs_f64(self) -> f64 {
        Duration(self.0).as_secs_f64()
    }
    /// The span since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        let gap = self.0.wrapping_sub(earlier.0);
        if gap > Duration::MAX.0 { Duration::ZERO } else { Duration(gap) }
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    /// The instant `span` later; a span beyond [`Duration::MAX`] counts as that.
    fn add(self, span: Duration) -> Time {
        Time(self.0.wrapping_add(if span.0 > Duration::MAX.0 { Duration::MAX.0 } else { span.0 }))
    }
}
impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, span: Duration) -> Time {
        Time(self.0.wrapping_sub(if span.0 > Duration::MAX.0 { Duration::MAX.0 } else { span.0 }))
    }
}
impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Time {
    fn cmp(&self, other: &Time) -> Ordering {
        (self.0.wrapping_sub(other.0) as i64).cmp(&0)
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{}", Duration(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_compare_across_the_turn_of_the_circle() {
        let before = Time::from_picos(u64::MAX - 5);
        let after = before + Duration::from_picos(10);
        assert_eq!(after.as_picos(), 4);
        assert!(after > before);
        assert!(before < after);
        assert_eq!(after.since(before), Duration::from_picos(10));
        assert_eq!(before.since(after), Duration::ZERO);
        assert_eq!(before.max(after), after);
    }

    #[test]
    fn spans_print_in_a_fitting_unit() {
        use std::format;
        assert_eq!(format!("{}", Duration::from_nanos(1_500)), "1.500us");
        assert_eq!(format!("{}", Duration::from_micros(1_500)), "1.500ms");
        assert_eq!(format!("{}", Duration::from_millis(1_500)), "1.500s");
    }
}
