//! The set of a flow's packets that have arrived.

use alloc::collections::VecDeque;

/// A set of numbers that fills from below: memory grows with the disorder, not with the flow.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Words before `words[0]`, all full.
    full_words: u32,
    words: VecDeque<u64>,
    count: u32,
}

impl Seen {
    /// Adds a number; false if it was there.
    pub fn insert(&mut self, number: u32) -> bool {
        let Some(word) = (number / 64).checked_sub(self.full_words) else { return false };
        let (word, bit) = (word as usize, 1_u64 << (number % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if self.words[word] & bit != 0 {
            return false;
        }
        self.words[word] |= bit;
        self.count += 1;
        while self.words.front() == Some(&u64::MAX) {
            self.words.pop_front();
            self.full_words += 1;
        }
        true
    }

    /// Whether a number is there.
    pub fn contains(&self, number: u32) -> bool {
        match (number / 64).checked_sub(self.full_words) {
            None => true,
            Some(word) => {
                self.words.get(word as usize).is_some_and(|w| w & (1 << (number % 64)) != 0)
            }
        }
    }

    /// How many numbers are there.
    pub fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(numbers in prop::collection::vec(0_u32..600, 0..900)) {
            let (mut seen, mut model) = (Seen::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(seen.contains(number), model.contains(&number));
                prop_assert_eq!(seen.insert(number), model.insert(number));
                prop_assert_eq!(seen.count() as usize, model.len());
            }
        }
    }

    #[test]
    fn a_filled_set_holds_no_words() {
        let mut seen = Seen::default();
        for number in 0..6_400 {
            seen.insert(number);
        }
        assert!(seen.words.is_empty());
    }
}
