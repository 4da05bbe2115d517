//! Several FIFOs in one pool.

use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
    bytes: u32,
}

/// `LISTS` FIFOs whose elements live in one pool. Freed places are used again last in, first
/// out, so a port whose queues stay short keeps touching the same cache lines.
#[derive(Clone, Debug)]
pub(crate) struct Lists<P, const LISTS: usize> {
    lists: [List; LISTS],
    pool: Vec<(P, u32)>,
    free: u32,
    /// Bit i is set while list i holds something.
    occupied: u32,
}

impl<P: Copy, const LISTS: usize> Lists<P, LISTS> {
    pub const fn new() -> Self {
        let list = List { head: NONE, tail: NONE, len: 0, bytes: 0 };
        Lists { lists: [list; LISTS], pool: Vec::new(), free: NONE, occupied: 0 }
    }

    pub fn occupied(&self) -> u32 {
        self.occupied
    }

    pub fn len(&self, list: usize) -> u32 {
        self.lists[list].len
    }

    pub fn bytes(&self, list: usize) -> u32 {
        self.lists[list].bytes
    }

    pub fn push_back(&mut self, list: usize, packet: P, bytes: u32) {
        let place = if self.free == NONE {
            self.pool.push((packet, NONE));
            (self.pool.len() - 1) as u32
        } else {
            let place = self.free;
            let slot = &mut self.pool[place as usize];
            self.free = slot.1;
            *slot = (packet, NONE);
            place
        };
        let this = &mut self.lists[list];
        let tail = core::mem::replace(&mut this.tail, place);
        this.len += 1;
        this.bytes += bytes;
        if tail == NONE {
            this.head = place;
            self.occupied |= 1 << list;
        } else {
            self.pool[tail as usize].1 = place;
        }
    }

    /// Takes the first of that list; `bytes` tells its length, to be taken off the list's.
    pub fn pop_front(&mut self, list: usize, bytes: impl Fn(&P) -> u32) -> Option<P> {
        let this = &mut self.lists[list];
        if this.len == 0 {
            return None;
        }
        let place = this.head;
        let slot = &mut self.pool[place as usize];
        let packet = slot.0;
        this.head = slot.1;
        this.len -= 1;
        this.bytes -= bytes(&packet);
        if this.len == 0 {
            this.tail = NONE;
            self.occupied &= !(1 << list);
        }
        slot.1 = self.free;
        self.free = place;
        Some(packet)
    }

    /// Takes the last of that list, in time linear in its length: for the rare push-out.
    pub fn pop_back(&mut self, list: usize, bytes: impl Fn(&P) -> u32) -> Option<P> {
        let this = &mut self.lists[list];
        if this.len <= 1 {
            return self.pop_front(list, bytes);
        }
        let mut before = this.head;
        for _ in 2..this.len {
            before = self.pool[before as usize].1;
        }
        let place = core::mem::replace(&mut this.tail, before);
        let packet = self.pool[place as usize].0;
        this.len -= 1;
        this.bytes -= bytes(&packet);
        self.pool[before as usize].1 = NONE;
        self.pool[place as usize].1 = self.free;
        self.free = place;
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn agrees_with_queues_of_their_own(
            steps in prop::collection::vec((0_usize..3, 0_u8..4, 1_u32..2000), 0..300),
        ) {
            let mut lists: Lists<u32, 3> = Lists::new();
            let mut model = [VecDeque::new(), VecDeque::new(), VecDeque::new()];
            for (list, action, value) in steps {
                match action {
                    0 | 1 => {
                        lists.push_back(list, value, value);
                        model[list].push_back(value);
                    }
                    2 => prop_assert_eq!(lists.pop_front(list, |v| *v), model[list].pop_front()),
                    _ => prop_assert_eq!(lists.pop_back(list, |v| *v), model[list].pop_back()),
                }
                for (i, queue) in model.iter().enumerate() {
                    prop_assert_eq!(lists.len(i) as usize, queue.len());
                    prop_assert_eq!(lists.bytes(i), queue.iter().sum::<u32>());
                    prop_assert_eq!((lists.occupied() >> i) & 1 == 1, !queue.is_empty());
                }
            }
        }
    }
}
