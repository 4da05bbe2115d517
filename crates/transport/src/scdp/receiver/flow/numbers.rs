//! Numbers of a group's packets that have come: what was trimmed counts once.

use alloc::vec;
use alloc::vec::Vec;

/// How far back numbers are known; what is older counts as having come.
const SPAN: u32 = 4_096;

/// The numbers that have come, of the last [`SPAN`].
#[derive(Debug, Default)]
pub(super) struct Numbers {
    highest: u32,
    /// A bit for each, at its remainder; none before the first.
    bits: Vec<u64>,
}

impl Numbers {
    /// Takes note of a number; whether it had not come before.
    pub(super) fn take(&mut self, number: u32) -> bool {
        if self.bits.is_empty() {
            self.bits = vec![0; (SPAN / u64::BITS) as usize];
        }
        if number > self.highest {
            if number - self.highest >= SPAN {
                self.bits.fill(0);
            } else {
                (self.highest + 1..=number).for_each(|passed| *self.word(passed) &= !bit(passed));
            }
            self.highest = number;
        } else if self.highest - number >= SPAN {
            return false;
        }
        let word = self.word(number);
        let is_new = *word & bit(number) == 0;
        *word |= bit(number);
        is_new
    }

    fn word(&mut self, number: u32) -> &mut u64 {
        &mut self.bits[(number % SPAN / u64::BITS) as usize]
    }
}

fn bit(number: u32) -> u64 {
    1 << (number % u64::BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_new_once_and_old_ones_never() {
        let mut numbers = Numbers::default();
        for number in [1, 3, 2, 200, 70, 71, SPAN, SPAN + 1, 3 * SPAN, 2 * SPAN + 1] {
            assert!(numbers.take(number), "{number}");
            assert!(!numbers.take(number), "{number} again");
        }
        assert!(!numbers.take(2 * SPAN), "too old to be known");
        assert!(!numbers.take(4), "too old to be known");
        assert!(numbers.take(u32::MAX) && !numbers.take(u32::MAX));
    }
}
