//! Deadlines of many owners, the earliest first.

use crate::Time;
use alloc::vec::Vec;

/// A binary heap of one deadline an owner (a small dense index), which can be moved or cleared.
/// Nothing is allocated once every owner has been seen; all operations are O(log n).
#[derive(Debug, Default, Clone)]
pub struct TimerQueue {
    heap: Vec<(Time, u32)>,
    /// Place in `heap` of each owner, or `ABSENT`.
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

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
        let &(at, owner) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.set(owner, None);
        Some(owner)
    }

    fn before(&self, a: usize, b: usize) -> bool {
        self.heap[a] < self.heap[b]
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
