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
    object: usize,
    began: u64,
    /// `u64::MAX` while it lasts.
    ended: u64,
    ending: Ending,
}

/// The account of one run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    now: u64,
    names: [Vec<Attempt>; NAMES.len()],
}

/// An attempt under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Under(usize, usize);

impl Ledger {
    /// An attempt begins.
    pub(crate) fn begin(&mut self, name: usize, object: usize) -> Under {
        self.now += 1;
        let (began, ending) = (self.now, Ending::Unknown);
        self.names[name].push(Attempt { object, began, ended: u64::MAX, ending });
        Under(name, self.names[name].len() - 1)
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
        let Some(attempt) = attempts.get_mut(number) else { return true };
        (attempt.ended, attempt.ending) = (now, ending);
        let began = attempt.began;
        let kept = |other: &Attempt| other.ending == Ending::Complete && other.ended < began;
        replace || ending != Ending::Complete || !attempts.iter().any(kept)
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

    /// After a power cut what is there is on the disk, and what is not cannot come back.
    pub(crate) fn settle(&mut self, name: usize, there: Option<usize>) {
        self.now += 1;
        let (began, ended, ending) = (self.now, self.now, Ending::Complete);
        let attempt = |object| Attempt { object, began, ended, ending };
        self.names[name] = there.map(attempt).into_iter().collect();
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
}
