//! Indexed binary heap of deadlines.

use crate::{Duration, Time};
use alloc::vec::Vec;

/// A binary heap of one deadline an owner (a small dense index), which can be moved or cleared.
/// Nothing is allocated once every owner has been seen; all operations are O(log n).
///
/// Deadlines are sorted from an origin on the clock of 213 days: 53 days before the latest `now`
/// that [`pop_due`](TimerQueue::pop_due) was given, or 106 days before the first deadline set
/// since the queue was empty. So a deadline may be up to 53 days past and, by the limit of
/// [`Time`]'s addition, 106 days ahead, and a day may pass between two looks.
#[derive(Debug, Default, Clone)]
pub struct TimerQueue {
    /// Where the order of deadlines begins.
    origin: Time,
    heap: Vec<(Time, u32)>,
    /// Place in `heap` of each owner, or `ABSENT`.
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;
/// How far back deadlines still sort as past: half of [`Duration::MAX`], 53 days.
const PAST: Duration = Duration::from_picos(Duration::MAX.as_picos() / 2);

impl TimerQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets, moves or (with `None`) clears the owner's deadline.
    pub fn set(&mut self, owner: u32, deadline: Option<Time>) {
        let index = owner as usize;
        if index >= self.places.len() {
            if deadline.is_none() {
                return;
            }
            self.places.resize(index + 1, ABSENT);
        }
        match (self.places[index], deadline) {
            (ABSENT, None) => {}
            (ABSENT, Some(at)) => {
                if self.heap.is_empty() {
                    self.origin = at - Duration::MAX;
                }
                self.heap.push((at, owner));
                self.places[index] = (self.heap.len() - 1) as u32;
                self.sift_up(self.heap.len() - 1);
            }
            (place, Some(at)) => {
                let place = place as usize;
                if self.heap[place].0 != at {
                    self.heap[place].0 = at;
                    self.sift_up(place);
                    self.sift_down(self.places[index] as usize);
                }
            }
            (place, None) => {
                let place = place as usize;
                let last = self.heap.len() - 1;
                self.swap(place, last);
                self.heap.pop();
                self.places[index] = ABSENT;
                if place < self.heap.len() {
                    let moved = self.heap[place].1 as usize;
                    self.sift_up(place);
                    self.sift_down(self.places[moved] as usize);
                }
            }
        }
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<Time> {
        self.heap.first().map(|&(at, _)| at)
    }

    /// Takes the owner of the earliest deadline if that has come. Equal deadlines come out by
    /// the owner's number, so that runs repeat.
    pub fn pop_due(&mut self, now: Time) -> Option<u32> {
        // Moving the origin on leaves the order as it is, since no deadline lies behind it.
        self.origin = now - PAST;
        let &(at, owner) = self.heap.first()?;
        if !now.has_reached(at) {
            return None;
        }
        self.set(owner, None);
        Some(owner)
    }

    fn before(&self, a: usize, b: usize) -> bool {
        let key = |(at, owner): (Time, u32)| (at.picos_after(self.origin), owner);
        key(self.heap[a]) < key(self.heap[b])
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a].1 as usize] = a as u32;
        self.places[self.heap[b].1 as usize] = b as u32;
    }

    fn sift_up(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !self.before(place, parent) {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && self.before(child, least) {
                    least = child;
                }
            }
            if least == place {
                break;
            }
            self.swap(place, least);
            place = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// So many days after the epoch, on a clock of 213.5 days.
    fn day(number: u64) -> Time {
        const DAY: u64 = Duration::from_secs(24 * 3_600).as_picos();
        Time::from_picos(number.wrapping_mul(DAY))
    }

    #[test]
    fn deadlines_a_third_of_the_clock_apart_come_out_in_order() {
        // By the shorter way round each of the three comes before the next, and the last before
        // the first. The queue has one order, whatever order they were set in.
        let deadlines = [day(201), day(272), day(344)];
        let [a, b, c] = deadlines;
        assert!(a.is_before(b) && b.is_before(c) && c.is_before(a));
        for set in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut queue = TimerQueue::new();
            queue.set(3, Some(day(200)));
            assert_eq!(queue.pop_due(day(199)), None);
            for owner in set {
                queue.set(owner, Some(deadlines[owner as usize]));
            }
            let mut taken = std::vec::Vec::new();
            for today in 200..350 {
                while let Some(owner) = queue.pop_due(day(today)) {
                    taken.push((today, owner));
                }
            }
            assert_eq!(taken, [(200, 3), (201, 0), (272, 1), (344, 2)], "set in the order {set:?}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(
            steps in prop::collection::vec((0_u32..20, prop::option::of(0_u64..100)), 0..200),
        ) {
            let mut queue = TimerQueue::new();
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for (owner, deadline) in steps {
                queue.set(owner, deadline.map(Time::from_picos));
                match deadline {
                    Some(at) => model.insert(owner, at),
                    None => model.remove(&owner),
                };
                let least = model.values().min().copied().map(Time::from_picos);
                prop_assert_eq!(queue.next_deadline(), least);
            }
            let mut expected: std::vec::Vec<(u64, u32)> =
                model.into_iter().map(|(o, t)| (t, o)).collect();
            expected.sort_unstable();
            for (at, owner) in expected {
                if at > 0 {
                    prop_assert_eq!(queue.pop_due(Time::from_picos(at - 1)), None);
                }
                prop_assert_eq!(queue.pop_due(Time::from_picos(at)), Some(owner));
            }
            prop_assert_eq!(queue.next_deadline(), None);
        }
    }
}
