//! Replay window (RFC 4303 §3.4.3): which counters of a direction have been used.

/// How far datagrams may overtake each other \[datagrams\]: ten milliseconds at 10 Gbit/s.
const WINDOW: u64 = 8_192;
const WORDS: usize = WINDOW as usize / 64;

/// Counters seen, up to [`WINDOW`] below the highest.
pub(crate) struct ReplayWindow {
    /// One above the highest counter seen.
    next: u64,
    /// A bit a counter, in a ring.
    seen: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    pub(crate) fn new() -> Self {
        ReplayWindow { next: 0, seen: Box::new([0; WORDS]) }
    }

    /// Whether a counter has not been seen and is not too old to decide.
    pub(crate) fn is_new(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        let (word, bit) = place(counter);
        self.next - counter <= WINDOW && self.seen[word] & bit == 0
    }

    /// Marks a counter of a datagram that was authentic; false if it is not new.
    pub(crate) fn take(&mut self, counter: u64) -> bool {
        if !self.is_new(counter) {
            return false;
        }
        if counter >= self.next {
            if counter - self.next >= WINDOW {
                self.seen.fill(0);
            } else {
                for passed in self.next..counter {
                    let (word, bit) = place(passed);
                    self.seen[word] &= !bit;
                }
            }
            self.next = counter + 1;
        }
        let (word, bit) = place(counter);
        self.seen[word] |= bit;
        true
    }
}

fn place(counter: u64) -> (usize, u64) {
    let at = counter % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_counter_is_taken_once_and_none_from_below_the_window(
            steps in proptest::collection::vec((0_u64..3, 0_u64..20_000), 1..300),
        ) {
            let mut window = ReplayWindow::new();
            let (mut seen, mut highest) = (BTreeSet::new(), 0_u64);
            for (kind, by) in steps {
                let counter = match kind {
                    0 => highest + by % 5,
                    1 => highest + by,
                    _ => highest.saturating_sub(by),
                };
                let old = !seen.is_empty() && counter + WINDOW <= highest;
                let new = !old && !seen.contains(&counter);
                prop_assert_eq!(window.is_new(counter), new);
                prop_assert_eq!(window.take(counter), new);
                seen.insert(counter);
                highest = highest.max(counter);
            }
        }
    }
}
