//! FIFOs of packets that lie in one pool.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

const NONE: u32 = u32::MAX;

/// Where a packet lies in its [`Pool`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(u32);

/// One packet, and who comes behind it. Half a cache line, for packets of up to 28 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Place<P> {
    packet: P,
    next: u32,
}

/// The memory of all packets in a switch, or in a whole simulated network. Queues only link them:
/// a packet lies still from queue to queue.
///
/// Freed places are used again last in, first out, so what is touched is as large as what is in
/// the network just now, however many ports there are.
#[derive(Clone, Debug)]
pub struct Pool<P> {
    places: Vec<Place<P>>,
    free: u32,
}

impl<P: Copy> Pool<P> {
    /// An empty pool. It grows as needed.
    pub const fn new() -> Self {
        Pool { places: Vec::new(), free: NONE }
    }

    /// Takes a packet in, into no queue.
    pub fn insert(&mut self, packet: P) -> Handle {
        let new = Place { packet, next: NONE };
        match self.places.get_mut(self.free as usize) {
            Some(place) => {
                let handle = Handle(self.free);
                self.free = place.next;
                *place = new;
                handle
            }
            None => {
                self.places.push(new);
                Handle((self.places.len() - 1) as u32)
            }
        }
    }

    /// Takes a packet out that is in no queue. Its handle is void then.
    ///
    /// # Panics
    /// If no packet ever had that handle.
    pub fn remove(&mut self, handle: Handle) -> P {
        let place = &mut self.places[handle.0 as usize];
        place.next = self.free;
        self.free = handle.0;
        place.packet
    }
}

impl<P: Copy> Default for Pool<P> {
    fn default() -> Self {
        Pool::new()
    }
}

impl<P> Index<Handle> for Pool<P> {
    type Output = P;
    #[inline]
    fn index(&self, handle: Handle) -> &P {
        &self.places[handle.0 as usize].packet
    }
}

impl<P> IndexMut<Handle> for Pool<P> {
    #[inline]
    fn index_mut(&mut self, handle: Handle) -> &mut P {
        &mut self.places[handle.0 as usize].packet
    }
}

/// A first-in-first-out queue of packets in a [`Pool`]: always the same one. A packet is in one
/// queue at a time.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    head: u32,
    tail: u32,
    len: u32,
}

impl Fifo {
    /// Nothing waits.
    pub const EMPTY: Fifo = Fifo { head: NONE, tail: NONE, len: 0 };

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many wait.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The first.
    #[inline]
    pub fn front(&self) -> Option<Handle> {
        (self.len > 0).then_some(Handle(self.head))
    }

    /// All of them, the first first.
    pub fn iter<P>(self, pool: &Pool<P>) -> impl Iterator<Item = Handle> + use<'_, P> {
        let mut next = self.head;
        (0..self.len).map(move |_| {
            let handle = Handle(next);
            next = pool.places[next as usize].next;
            handle
        })
    }

    /// Puts a packet that is in no queue at the end.
    #[inline]
    pub fn push_back<P>(&mut self, pool: &mut Pool<P>, packet: Handle) {
        match self.len {
            0 => self.head = packet.0,
            _ => pool.places[self.tail as usize].next = packet.0,
        }
        self.tail = packet.0;
        self.len += 1;
    }

    /// Takes the first.
    #[inline]
    pub fn pop_front<P>(&mut self, pool: &Pool<P>) -> Option<Handle> {
        let first = self.front()?;
        self.len -= 1;
        if self.len > 0 {
            self.head = pool.places[first.0 as usize].next;
        }
        Some(first)
    }

    /// Takes the last, in time linear in the length: for the rare push-out.
    pub fn pop_back<P>(&mut self, pool: &Pool<P>) -> Option<Handle> {
        if self.len <= 1 {
            return self.pop_front(pool);
        }
        let mut before = self.head;
        for _ in 2..self.len {
            before = pool.places[before as usize].next;
        }
        self.len -= 1;
        Some(Handle(core::mem::replace(&mut self.tail, before)))
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
            let mut pool: Pool<u32> = Pool::new();
            let mut fifos = [Fifo::EMPTY; 3];
            let mut model = [VecDeque::new(), VecDeque::new(), VecDeque::new()];
            for (list, action, value) in steps {
                let (fifo, model) = (&mut fifos[list], &mut model[list]);
                match action {
                    0 | 1 => {
                        let handle = pool.insert(value);
                        fifo.push_back(&mut pool, handle);
                        model.push_back(value);
                    }
                    2 => {
                        let first = fifo.pop_front(&pool).map(|handle| pool.remove(handle));
                        prop_assert_eq!(first, model.pop_front());
                    }
                    _ => {
                        let last = fifo.pop_back(&pool).map(|handle| pool.remove(handle));
                        prop_assert_eq!(last, model.pop_back());
                    }
                }
                prop_assert_eq!(fifo.len() as usize, model.len());
                prop_assert_eq!(fifo.front().map(|handle| pool[handle]), model.front().copied());
                prop_assert_eq!(fifo.is_empty(), model.is_empty());
                let listed: Vec<u32> = fifo.iter(&pool).map(|handle| pool[handle]).collect();
                prop_assert!(listed.iter().eq(model.iter()));
            }
        }
    }

    #[test]
    fn places_are_used_again() {
        let (mut pool, mut fifo) = (Pool::new(), Fifo::EMPTY);
        for round in 0..1_000_u32 {
            for packet in [round, round + 1] {
                let handle = pool.insert(packet);
                fifo.push_back(&mut pool, handle);
            }
            for packet in [round, round + 1] {
                let first = fifo.pop_front(&pool).expect("two wait");
                assert_eq!(pool.remove(first), packet);
            }
        }
        assert_eq!(pool.places.len(), 2);
    }
}
