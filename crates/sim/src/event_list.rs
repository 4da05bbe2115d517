//! Calendar-queue event list.
//!
//! A calendar of buckets, each a few nanoseconds wide, over a heap for what lies beyond the
//! calendar's horizon. Bucket width and number follow the load; neither moves a result, because
//! events leave in the order of their whole key.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

const NONE: u32 = u32::MAX;
/// Pops between two looks at whether the calendar fits the load.
const TUNING_PERIOD: u32 = 1 << 15;
const MIN_BUCKETS: usize = 1 << 10;
const MAX_BUCKETS: usize = 1 << 18;

/// Events in the order of time, then of scheduling (or shuffled), as (time \[ps\], target).
///
/// A key is one `u128`: time, tie-breaker, target from high bits to low.
#[derive(Debug)]
pub(crate) struct EventList {
    /// Events of buckets up to `cursor`, latest first.
    current: Vec<u128>,
    /// Absolute number of the bucket last opened.
    cursor: u64,
    /// A bucket spans 2^`shift` ps.
    shift: u32,
    /// First node of each bucket, in a circle.
    heads: Vec<u32>,
    /// Bit i is set while bucket i holds something.
    occupied: Vec<u64>,
    nodes: Vec<(u128, u32)>,
    free: u32,
    in_calendar: usize,
    far: BinaryHeap<Reverse<u128>>,
    sequence: u32,
    shuffle: Option<u32>,
    peak: usize,
    pops: u32,
    opened: u32,
    far_pushes: u32,
    /// `cursor` at the last tuning.
    tuned_at: u64,
    /// Whether a bucket was opened since [`EventList::opened`] last asked.
    fresh: bool,
}

impl EventList {
    /// An empty list. With a `shuffle` seed, events of equal time come out in a random order.
    pub fn new(shuffle: Option<u32>) -> Self {
        EventList {
            current: Vec::with_capacity(64),
            cursor: 0,
            shift: 14,
            heads: vec![NONE; MIN_BUCKETS],
            occupied: vec![0; MIN_BUCKETS / 64],
            nodes: Vec::new(),
            free: NONE,
            in_calendar: 0,
            far: BinaryHeap::new(),
            sequence: 0,
            shuffle,
            peak: 0,
            pops: 0,
            opened: 0,
            far_pushes: 0,
            tuned_at: 0,
            fresh: false,
        }
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.current.len() + self.in_calendar + self.far.len()
    }

    /// The most that ever waited, seen at each tuning and at [`EventList::len`]'s caller.
    pub fn peak(&self) -> usize {
        self.peak.max(self.len())
    }

    /// Schedules `target` for `time` \[ps\], not before the last event popped.
    pub fn push(&mut self, time: u64, target: u32) {
        self.sequence = self.sequence.wrapping_add(1);
        let tie = match self.shuffle {
            None => self.sequence,
            // Odd multiplications and shifts are bijections: ties stay distinct.
            Some(seed) => {
                let mut x = (self.sequence ^ seed).wrapping_mul(0x9e37_79b1);
                x ^= x >> 15;
                x = x.wrapping_mul(0x85eb_ca77);
                x ^ (x >> 13)
            }
        };
        self.insert((u128::from(time) << 64) | (u128::from(tie) << 32) | u128::from(target));
    }

    #[inline]
    fn insert(&mut self, key: u128) {
        let bucket = (key >> 64) as u64 >> self.shift;
        if bucket <= self.cursor {
            let place = self.current.partition_point(|other| *other > key);
            self.current.insert(place, key);
        } else if bucket - self.cursor < self.heads.len() as u64 {
            self.insert_calendar(bucket, key);
        } else {
            self.far_pushes += 1;
            self.far.push(Reverse(key));
        }
    }

    #[inline]
    fn insert_calendar(&mut self, bucket: u64, key: u128) {
        let index = bucket as usize & (self.heads.len() - 1);
        let head = self.heads[index];
        let node = if self.free == NONE {
            self.nodes.push((key, head));
            (self.nodes.len() - 1) as u32
        } else {
            let node = self.free;
            let slot = &mut self.nodes[node as usize];
            self.free = slot.1;
            *slot = (key, head);
            node
        };
        self.heads[index] = node;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.in_calendar += 1;
    }

    /// Takes the next event unless it lies after `limit` \[ps\].
    #[inline]
    pub fn pop_until(&mut self, limit: u64) -> Option<(u64, u32)> {
        while self.current.is_empty() {
            if !self.open_next_bucket() {
                return None;
            }
        }
        let key = *self.current.last()?;
        let time = (key >> 64) as u64;
        if time > limit {
            return None;
        }
        self.current.pop();
        self.pops += 1;
        if self.pops == TUNING_PERIOD {
            self.tune();
        }
        Some((time, key as u32))
    }

    /// If a bucket was opened since this was last asked, the targets of the events left in it.
    #[inline]
    pub fn opened(&mut self) -> Option<impl Iterator<Item = u32>> {
        core::mem::take(&mut self.fresh).then(|| self.current.iter().map(|key| *key as u32))
    }

    /// Moves the events of the next bucket that has any into `current`; false if none is left.
    fn open_next_bucket(&mut self) -> bool {
        let far = self.far.peek().map(|Reverse(key)| (key >> 64) as u64 >> self.shift);
        let next = match (self.next_occupied(), far) {
            (Some(near), Some(far)) => near.min(far),
            (Some(near), None) => near,
            (None, Some(far)) => far,
            (None, None) => return false,
        };
        self.cursor = next;
        self.opened += 1;
        self.fresh = true;
        let index = next as usize & (self.heads.len() - 1);
        let mut node = core::mem::replace(&mut self.heads[index], NONE);
        self.occupied[index / 64] &= !(1 << (index % 64));
        while node != NONE {
            let slot = &mut self.nodes[node as usize];
            self.current.push(slot.0);
            let after = core::mem::replace(&mut slot.1, self.free);
            self.free = node;
            node = after;
            self.in_calendar -= 1;
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by(|a, b| b.cmp(a));
        }
        // The horizon moved: what lay beyond may lie within.
        let horizon = next + self.heads.len() as u64;
        while let Some(Reverse(key)) = self.far.peek().copied() {
            let bucket = (key >> 64) as u64 >> self.shift;
            if bucket >= horizon {
                break;
            }
            self.far.pop();
            self.insert(key);
        }
        true
    }

    /// Absolute number of the next bucket after `cursor` that holds something.
    fn next_occupied(&self) -> Option<u64> {
        if self.in_calendar == 0 {
            return None;
        }
        let mask = self.heads.len() - 1;
        let start = (self.cursor as usize + 1) & mask;
        let words = self.occupied.len();
        let mut word = start / 64;
        let mut bits = self.occupied[word] & (u64::MAX << (start % 64));
        for _ in 0..=words {
            if bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                let ahead = index.wrapping_sub(start) & mask;
                return Some(self.cursor + 1 + ahead as u64);
            }
            word = if word + 1 == words { 0 } else { word + 1 };
            bits = self.occupied[word];
        }
        None
    }

    /// Fits bucket width and number to the load: about ten events a bucket opened (enough for their
    /// memory to be fetched together, few enough to sort), few empty buckets between, and nearly
    /// everything within the horizon. Buckets are not narrowed where empty
    /// ones lie between: no width separates events of one instant.
    fn tune(&mut self) {
        self.peak = self.peak.max(self.len());
        let opened = f64::from(self.opened.max(1));
        let per_bucket = f64::from(self.pops) / opened;
        let gap = (self.cursor - self.tuned_at) as f64 / opened;
        let far_share = f64::from(self.far_pushes) / f64::from(self.pops);
        (self.pops, self.opened, self.far_pushes) = (0, 0, 0);
        let (shift, buckets) = (self.shift, self.heads.len());
        if (gap > 6.0 || per_bucket < 6.0) && shift < 40 {
            self.rebuild(shift + 1, (buckets / 2).max(MIN_BUCKETS));
        } else if gap < 1.5 && per_bucket > 16.0 && shift > 0 {
            self.rebuild(shift - 1, (buckets * 2).min(MAX_BUCKETS));
        } else if far_share > 0.05 && buckets < MAX_BUCKETS {
            self.rebuild(shift, buckets * 2);
        }
        self.tuned_at = self.cursor;
    }

    fn rebuild(&mut self, shift: u32, buckets: usize) {
        let mut keys = core::mem::take(&mut self.current);
        for head in &mut self.heads {
            let mut node = core::mem::replace(head, NONE);
            while node != NONE {
                keys.push(self.nodes[node as usize].0);
                node = self.nodes[node as usize].1;
            }
        }
        keys.extend(self.far.drain().map(|Reverse(key)| key));
        let now = keys.iter().min().map_or(self.cursor << self.shift, |key| (key >> 64) as u64);
        self.shift = shift;
        self.cursor = now >> shift;
        self.heads = vec![NONE; buckets];
        self.occupied = vec![0; buckets / 64];
        self.nodes.clear();
        self.free = NONE;
        self.in_calendar = 0;
        for key in keys {
            self.insert(key);
        }
        self.far_pushes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pushes and pops against a plain heap; gaps span all ranges of the calendar.
    fn compare(steps: &[(u8, u64)], tune_every: usize) {
        let mut list = EventList::new(None);
        let mut model = BinaryHeap::new();
        let (mut now, mut sequence) = (0, 0_u32);
        for (step, (action, gap)) in steps.iter().enumerate() {
            if *action < 3 {
                let gap = [gap % 50_000, gap % 40_000_000, gap % 4_000_000_000][*action as usize];
                sequence += 1;
                list.push(now + gap, sequence);
                model.push(Reverse((now + gap, sequence)));
            } else {
                let got = list.pop_until(u64::MAX);
                assert_eq!(got, model.pop().map(|Reverse(event)| event));
                now = got.map_or(now, |event| event.0);
            }
            if step % tune_every == 0 {
                list.rebuild((step % 30) as u32, MIN_BUCKETS << (step % 3));
            }
            assert_eq!(list.len(), model.len());
        }
        while let Some(Reverse(event)) = model.pop() {
            if event.0 > now {
                assert_eq!(list.pop_until(event.0 - 1), None);
            }
            assert_eq!(list.pop_until(event.0), Some(event));
            now = event.0;
        }
        assert_eq!(list.pop_until(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_heap(
            steps in prop::collection::vec((0_u8..6, any::<u64>()), 1..400),
            tune_every in 1_usize..200,
        ) {
            compare(&steps, tune_every);
        }
    }

    #[test]
    fn stays_in_order_while_it_tunes_itself() {
        let mut list = EventList::new(None);
        let mut state = 1_u64;
        for target in 0..3_000 {
            list.push(u64::from(target) * 10, target);
        }
        let mut last = 0;
        for _ in 0..500_000 {
            let (time, target) = list.pop_until(u64::MAX).expect("events are put back");
            assert!(time >= last);
            last = time;
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            list.push(time + (state >> 40), target);
        }
        assert_eq!(list.len(), 3_000);
    }

    #[test]
    fn ties_keep_their_order_or_are_shuffled() {
        let drain = |shuffle| {
            let mut list = EventList::new(shuffle);
            (0..100).for_each(|target| list.push(5, target));
            std::iter::from_fn(move || list.pop_until(9)).map(|e| e.1).collect::<Vec<_>>()
        };
        let in_order: Vec<u32> = (0..100).collect();
        assert_eq!(drain(None), in_order);
        let mut shuffled = drain(Some(3));
        assert_ne!(shuffled, in_order);
        assert_ne!(shuffled, drain(Some(4)));
        shuffled.sort_unstable();
        assert_eq!(shuffled, in_order);
    }
}
