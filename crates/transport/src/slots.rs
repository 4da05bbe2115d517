//! Places for flows.

use alloc::vec::Vec;

/// Values in places that are used again: a place is a small number, fit for timers and queues.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    /// No values.
    pub const fn new() -> Self {
        Slots { places: Vec::new(), free: Vec::new() }
    }

    /// Keeps a value: its place.
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(value);
                place
            }
            None => {
                self.places.push(Some(value));
                (self.places.len() - 1) as u32
            }
        }
    }

    /// The value of a place, if it has one.
    pub fn get(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// Takes a value out of its place.
    pub fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.places.get_mut(place as usize)?.take();
        if value.is_some() {
            self.free.push(place);
        }
        value
    }
}
