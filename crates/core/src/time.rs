//! Instants and spans in picoseconds.

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
/// The clock is a circle of 213 days, so that a server may run for ever. On a circle "earlier" is
/// not transitive, so `Time` has no `Ord`. Two instants compare by the shorter way round
/// ([`is_before`](Time::is_before), [`is_after`](Time::is_after),
/// [`has_reached`](Time::has_reached), [`earlier_of`](Time::earlier_of),
/// [`later_of`](Time::later_of)), which is right as long as they lie within [`Duration::MAX`]
/// (106 days) of each other. A collection that sorts many instants names the origin it counts
/// from ([`picos_after`](Time::picos_after)).
///
/// Whoever stores a `Time` must let go of it once it is long past: the driver calls
/// [`Endpoint::handle_timeout`](crate::Endpoint::handle_timeout) at least once a day, and
/// endpoints forget past instants there. A simulation starts at [`Time::ZERO`] and never comes
/// round.
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
    /// Whether `self` comes before `other`, the two being less than 106 days apart.
    pub const fn is_before(self, other: Time) -> bool {
        (self.0.wrapping_sub(other.0) as i64) < 0
    }
    /// Whether `self` comes after `other`, the two being less than 106 days apart.
    pub const fn is_after(self, other: Time) -> bool {
        other.is_before(self)
    }
    /// Whether `deadline` has come by `self`: it is the same instant or an earlier one, less than
    /// 106 days back.
    pub const fn has_reached(self, deadline: Time) -> bool {
        !self.is_before(deadline)
    }
    /// The earlier of two instants less than 106 days apart.
    #[must_use]
    pub const fn earlier_of(self, other: Time) -> Time {
        if other.is_before(self) { other } else { self }
    }
    /// The later of two instants less than 106 days apart.
    #[must_use]
    pub const fn later_of(self, other: Time) -> Time {
        if self.is_before(other) { other } else { self }
    }
    /// The earliest of many instants, all less than 106 days from the first.
    pub fn earliest(instants: impl IntoIterator<Item = Time>) -> Option<Time> {
        let mut instants = instants.into_iter();
        let first = instants.next()?;
        let origin = first - Duration::MAX;
        let rest = instants.min_by_key(|at| at.picos_after(origin));
        Some(rest.map_or(first, |rest| first.earlier_of(rest)))
    }
    /// The instant so many nanoseconds later, over as many turns of the circle as it takes: what a clock shows that long
    /// after it was set.
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> Time {
        Time(self.0.wrapping_add(nanos.wrapping_mul(PICOS_PER_NANO)))
    }
    /// The way from `origin` to `self` with the clock \[ps\], at most one turn of 213 days.
    ///
    /// For one `origin` this is a total order: the sort key of heaps and maps. It is the order in
    /// time for instants that lie between `origin` and 213 days later.
    pub const fn picos_after(self, origin: Time) -> u64 {
        self.0.wrapping_sub(origin.0)
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
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{}", Duration(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three instants a third of the circle apart: by the shorter way round each comes before the
    /// next, and the last before the first.
    fn thirds() -> [Time; 3] {
        let third = u64::MAX / 3;
        [Time::ZERO, Time::from_picos(third), Time::from_picos(2 * third)]
    }

    #[test]
    fn instants_compare_across_the_turn_of_the_circle() {
        let before = Time::from_picos(u64::MAX - 5);
        let after = before + Duration::from_picos(10);
        assert_eq!(after.as_picos(), 4);
        assert!(after.is_after(before) && after.has_reached(before));
        assert!(before.is_before(after) && !before.has_reached(after));
        assert!(before.has_reached(before) && !before.is_before(before));
        assert_eq!(after.since(before), Duration::from_picos(10));
        assert_eq!(before.since(after), Duration::ZERO);
        assert_eq!(before.later_of(after), after);
        assert_eq!(before.earlier_of(after), before);
        assert_eq!(Time::earliest([after, before, after]), Some(before));
        assert_eq!(Time::earliest([]), None);
    }

    #[test]
    fn a_clock_goes_on_after_half_a_turn_and_after_many() {
        let day = 86_400 * 1_000_000_000;
        for days in 0..1_000 {
            let now = Time::ZERO.plus_nanos(days * day);
            assert_eq!(
                Time::ZERO.plus_nanos((days + 1) * day).since(now),
                Duration::from_nanos(day)
            );
        }
    }

    #[test]
    fn pairwise_comparison_is_no_order_and_so_time_has_none() {
        let [a, b, c] = thirds();
        assert!(a.is_before(b) && b.is_before(c) && c.is_before(a));
        // Compiles only while `Time` is not `PartialOrd`: with it the call would be ambiguous.
        trait AmbiguousIfOrdered<Marker> {
            fn probe() {}
        }
        struct Ordered;
        impl<T> AmbiguousIfOrdered<()> for T {}
        impl<T: PartialOrd> AmbiguousIfOrdered<Ordered> for T {}
        <Time as AmbiguousIfOrdered<_>>::probe();
    }

    #[test]
    fn keys_from_one_origin_are_a_total_order() {
        for origin in thirds() {
            for [a, b, c] in [[0, 1, 2], [1, 2, 0], [2, 0, 1]].map(|p| p.map(|i| thirds()[i])) {
                let less = |x: Time, y: Time| x.picos_after(origin) < y.picos_after(origin);
                assert!(!(less(a, b) && less(b, c)) || less(a, c));
                assert!(a == b || less(a, b) != less(b, a));
            }
        }
    }

    #[test]
    fn spans_print_in_a_fitting_unit() {
        use std::format;
        assert_eq!(format!("{}", Duration::from_nanos(1_500)), "1.500us");
        assert_eq!(format!("{}", Duration::from_micros(1_500)), "1.500ms");
        assert_eq!(format!("{}", Duration::from_millis(1_500)), "1.500s");
    }
}
