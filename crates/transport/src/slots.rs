//! Places for flows.

use slab::Slab;

/// Values in places that are used again: a place is a small number, fit for timers and queues.
#[derive(Debug)]
pub(crate) struct Slots<T>(Slab<T>);

impl<T> Slots<T> {
    /// No values.
    pub const fn new() -> Self {
        Slots(Slab::new())
    }

    /// Keeps a value: its place.
    pub fn insert(&mut self, value: T) -> u32 {
        self.0.insert(value) as u32
    }

    /// The value of a place, if it has one.
    pub fn get(&mut self, place: u32) -> Option<&mut T> {
        self.0.get_mut(place as usize)
    }

    /// The value of a place, to look at.
    pub fn peek(&self, place: u32) -> Option<&T> {
        self.0.get(place as usize)
    }

    /// Takes a value out of its place.
    pub fn remove(&mut self, place: u32) -> Option<T> {
        self.0.try_remove(place as usize)
    }
}
