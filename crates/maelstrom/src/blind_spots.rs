//! Blind spots: times at which packets may have passed unseen.
//!
//! Packets that the appliance has no room for go their way all the same. Repairs name them, and it looks as if the link had
//! lost them: they are no loss of the link, and brought back they would arrive twice.

use std::collections::VecDeque;

use wellspring_core::{Duration, Time};

/// Spots that are remembered at most, and for how long: no repair names what is older.
const MOST: usize = 64;
const REMEMBERED: Duration = Duration::from_secs(10);
/// Repairs follow packets within this, where packets are so many that some have no room.
const REACHED: Duration = Duration::from_secs(1);
/// Spots no further apart are one.
const NEAR: Duration = Duration::from_millis(1);

/// Spots in order, from first to last.
#[derive(Debug, Default)]
pub(crate) struct BlindSpots {
    spots: VecDeque<(Time, Time)>,
}

impl BlindSpots {
    /// Packets may have passed unseen just before.
    pub(crate) fn add(&mut self, now: Time) {
        self.forget(now);
        match self.spots.back_mut() {
            Some(last) if now.is_before(last.1 + NEAR) => last.1 = now,
            _ => self.spots.push_back((now, now)),
        }
        if self.spots.len() > MOST {
            self.spots.pop_front();
        }
    }

    /// Spots that no repair names any more are forgotten: months later they would count as to come.
    pub(crate) fn forget(&mut self, now: Time) {
        while self.spots.front().is_some_and(|first| now.has_reached(first.1 + REMEMBERED)) {
            self.spots.pop_front();
        }
    }

    /// Whether the last spot is one that repairs still reach back to.
    pub(crate) fn is_of_late(&self, now: Time) -> bool {
        self.spots.back().is_some_and(|last| now.is_before(last.1 + REACHED))
    }

    /// When a packet may have passed unseen that left between two that arrived then, as far as both are known.
    pub(crate) fn between(&self, two: impl FnOnce() -> [Option<Time>; 2]) -> Option<Time> {
        if self.spots.is_empty() {
            return None;
        }
        let [before, after] = two();
        let ends_later = |last: Time| before.is_none_or(|before| last.has_reached(before));
        let begins_earlier = |first: Time| after.is_none_or(|after| after.has_reached(first));
        let spot = self.spots.iter().find(|spot| ends_later(spot.1) && begins_earlier(spot.0))?;
        Some(spot.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn what_arrived_before_and_after_tells_what_may_have_passed() {
        let mut spots = BlindSpots::default();
        assert_eq!(spots.between(|| [None, None]), None);
        [5_000, 5_100, 20_000].into_iter().for_each(|time| spots.add(at(time)));
        let between = |before, after| spots.between(|| [Some(at(before)), Some(at(after))]);
        assert_eq!(between(4_000, 5_000), Some(at(5_000)));
        assert_eq!(between(5_050, 5_060), Some(at(5_000)), "one spot reaches from 5,000 to 5,100");
        assert_eq!((between(1_000, 4_999), between(5_101, 19_999)), (None, None));
        assert_eq!(spots.between(|| [Some(at(6_000)), None]), Some(at(20_000)));
        assert_eq!(spots.between(|| [None, Some(at(4_000))]), None);
    }

    #[test]
    fn a_spot_of_months_ago_is_none() {
        let mut spots = BlindSpots::default();
        spots.add(at(0));
        spots.forget(at(0) + REMEMBERED);
        let months = at(0).plus_nanos(107 * 86_400 * 1_000_000_000);
        assert!(!spots.is_of_late(months));
        assert_eq!(spots.between(|| [Some(months), None]), None);
    }

    #[test]
    fn few_are_remembered_and_none_for_long() {
        let mut spots = BlindSpots::default();
        (0..1_000).for_each(|n| spots.add(at(5_000 * n)));
        assert_eq!(spots.spots.len(), MOST);
        spots.add(at(5_000 * 999) + REMEMBERED + REMEMBERED);
        assert_eq!(spots.spots.len(), 1);
    }
}
