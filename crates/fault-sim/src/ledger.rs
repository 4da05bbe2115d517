//! Ledger of the objects that were said to be complete under each name.

use crate::objects::NAMES;

/// How an attempt to give an object a name ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Its sender was told that the object is complete.
    Complete,
    /// An error, or the process died: it may be there or not.
    Unknown,
    /// An error that says that nothing was changed.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    number: u64,
    object: usize,
    began: u64,
    /// `u64::MAX` while it lasts.
    ended: u64,
    ending: Ending,
    /// Its sender is gone, and it may still end either way.
    is_left: bool,
}

impl Attempt {
    fn is_under_way(&self) -> bool {
        self.ended == u64::MAX
    }
}

/// The account of one run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    now: u64,
    names: [Vec<Attempt>; NAMES.len()],
}

/// An attempt under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Under(usize, u64);

impl Ledger {
    /// An attempt begins.
    pub(crate) fn begin(&mut self, name: usize, object: usize) -> Under {
        self.now += 1;
        let (began, ending) = (self.now, Ending::Unknown);
        let (number, ended, is_left) = (began, u64::MAX, false);
        self.names[name].push(Attempt { number, object, began, ended, ending, is_left });
        Under(name, number)
    }

    /// It ends. Whether it may have ended so: an object that was to be kept must not have been replaced.
    pub(crate) fn end(
        &mut self,
        Under(name, number): Under,
        ending: Ending,
        replace: bool,
    ) -> bool {
        self.now += 1;
        let now = self.now;
        let attempts = &mut self.names[name];
        let attempt = attempts.iter_mut().find(|attempt| attempt.number == number);
        let Some(attempt) = attempt else { return true };
        (attempt.ended, attempt.ending) = (now, ending);
        let began = attempt.began;
        let kept = |other: &Attempt| other.ending == Ending::Complete && other.ended < began;
        replace || ending != Ending::Complete || !attempts.iter().any(kept)
    }

    /// Its sender is gone without knowing how it ends, which it may do later.
    pub(crate) fn leave(&mut self, Under(name, number): Under) {
        let mut attempts = self.names[name].iter_mut();
        if let Some(attempt) = attempts.find(|attempt| attempt.number == number) {
            attempt.is_left = true;
        }
    }

    /// Whatever senders have left is over.
    pub(crate) fn end_left(&mut self) {
        self.now += 1;
        let attempts = self.names.iter_mut().flatten();
        for attempt in attempts.filter(|attempt| attempt.is_left && attempt.is_under_way()) {
            attempt.ended = self.now;
        }
    }

    /// Whether that object, or nothing, may have that name now.
    pub(crate) fn allows(&self, name: usize, there: Option<usize>) -> bool {
        let attempts = &self.names[name];
        let complete = || attempts.iter().filter(|attempt| attempt.ending == Ending::Complete);
        let Some(object) = there else { return complete().next().is_none() };
        attempts.iter().any(|attempt| {
            attempt.object == object
                && attempt.ending != Ending::Refused
                && !complete().any(|later| later.began > attempt.ended)
        })
    }

    /// After a power cut what is there is on the disk, and what is not cannot come back, unless its sender goes on.
    pub(crate) fn settle(&mut self, name: usize, there: Option<usize>) {
        self.now += 1;
        let (began, ended, ending) = (self.now, self.now, Ending::Complete);
        let attempts = &mut self.names[name];
        attempts.retain(Attempt::is_under_way);
        let has_left = attempts.iter().any(|attempt| attempt.is_left);
        attempts.retain(|attempt| !attempt.is_left);
        if !has_left {
            // What is there, and not theirs, was there before; otherwise it may have come from one that was left.
            self.now += 1;
            for attempt in attempts.iter_mut().filter(|attempt| there != Some(attempt.object)) {
                attempt.began = self.now;
            }
        }
        let (number, is_left) = (began, false);
        let attempt = |object| Attempt { number, object, began, ended, ending, is_left };
        attempts.extend(there.map(attempt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_complete_before_another_began_and_was_complete_is_gone() {
        let mut ledger = Ledger::default();
        assert!(ledger.allows(0, None) && !ledger.allows(0, Some(1)));
        let first = ledger.begin(0, 1);
        assert!(ledger.allows(0, None) && ledger.allows(0, Some(1)));
        let beside = ledger.begin(0, 2);
        assert!(ledger.end(first, Ending::Complete, true));
        assert!(!ledger.allows(0, None) && ledger.allows(0, Some(1)) && ledger.allows(0, Some(2)));
        assert!(ledger.end(beside, Ending::Complete, true));
        assert!(ledger.allows(0, Some(1)) && ledger.allows(0, Some(2)), "in either order");
        let last = ledger.begin(0, 3);
        assert!(!ledger.end(last, Ending::Complete, false), "one was to be kept");
        assert!(!ledger.allows(0, Some(1)) && ledger.allows(0, Some(3)));
        let refused = ledger.begin(0, 2);
        ledger.end(refused, Ending::Refused, true);
        assert!(!ledger.allows(0, Some(2)));
        ledger.settle(0, None);
        assert!(ledger.allows(0, None) && !ledger.allows(0, Some(3)));
    }

    #[test]
    fn what_its_sender_left_may_come_until_it_is_over() {
        let mut ledger = Ledger::default();
        let left = ledger.begin(0, 1);
        ledger.leave(left);
        let later = ledger.begin(0, 2);
        assert!(ledger.end(later, Ending::Complete, true));
        assert!(ledger.allows(0, Some(1)), "it came after the other");
        ledger.end_left();
        assert!(ledger.allows(0, Some(1)) && !ledger.allows(0, None));
        let last = ledger.begin(0, 3);
        assert!(ledger.end(last, Ending::Complete, true));
        assert!(!ledger.allows(0, Some(1)) && !ledger.allows(0, Some(2)), "both were over");
    }

    #[test]
    fn a_sender_that_outlives_a_power_cut_of_the_receiver_can_end_what_it_began() {
        let mut ledger = Ledger::default();
        let before = ledger.begin(0, 1);
        assert!(ledger.end(before, Ending::Complete, true));
        let (under_way, left) = (ledger.begin(0, 2), ledger.begin(0, 3));
        ledger.settle(0, Some(1));
        assert!(ledger.allows(0, Some(1)) && ledger.allows(0, Some(2)));
        assert!(ledger.end(under_way, Ending::Complete, true));
        assert!(!ledger.allows(0, Some(1)) && ledger.allows(0, Some(2)));
        ledger.leave(left);
        ledger.settle(0, Some(2));
        assert!(!ledger.allows(0, Some(3)), "nobody sends it any more");
        let again = ledger.begin(0, 1);
        ledger.settle(0, Some(1));
        assert!(ledger.end(again, Ending::Complete, false), "it was there by the same attempt");
    }
}
