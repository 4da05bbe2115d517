//! Credits that were taken for lost and were not: what that did to the window is undone.
//!
//! A symbol whose credit was given up arrives after all. Either the network reordered packets further
//! than was allowed for, or a timeout was too short (Eifel, RFC 3522; F-RTO, RFC 5682), or the pull was
//! lost and a later one made up for it: in none of these did the path lose symbols.

use alloc::collections::VecDeque;

/// Credits remembered after they were given up, at most.
const MAX_REMEMBERED: usize = 1_024;

/// A credit that was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LostCredit {
    pub(super) number: u32,
    /// Nothing was heard until it was overdue; otherwise later credits had been answered before it.
    pub(super) by_timeout: bool,
}

/// The last reduction of a window `W`, and the credits given up that it answers.
#[derive(Debug)]
struct Reduction<W> {
    before: W,
    by_timeout: bool,
    /// Credits given up for which nothing has come.
    missing: u32,
}

/// What was given up lately.
#[derive(Debug)]
pub(super) struct GivenUp<W> {
    /// By number, ascending.
    lost: VecDeque<LostCredit>,
    reduction: Option<Reduction<W>>,
}

impl<W> Default for GivenUp<W> {
    fn default() -> Self {
        GivenUp { lost: VecDeque::new(), reduction: None }
    }
}

impl<W> GivenUp<W> {
    /// Notes a credit that is given up.
    pub(super) fn push(&mut self, credit: LostCredit) {
        if self.lost.len() == MAX_REMEMBERED {
            self.lost.pop_front();
        }
        debug_assert!(self.lost.back().is_none_or(|last| last.number < credit.number));
        self.lost.push_back(credit);
        if let Some(reduction) = &mut self.reduction {
            reduction.missing = reduction.missing.saturating_add(1);
        }
    }

    /// The window, so far `before`, is reduced because of the credit given up last. Timeouts in a row
    /// count as one reduction.
    pub(super) fn reduce(&mut self, before: W, by_timeout: bool, in_a_row: bool) {
        match &mut self.reduction {
            Some(reduction) if in_a_row && by_timeout && reduction.by_timeout => {}
            _ => self.reduction = Some(Reduction { before, by_timeout, missing: 1 }),
        }
    }

    /// The window is reduced for a reason that is no mistake: nothing is undone any more.
    pub(super) fn confirm(&mut self) {
        self.reduction = None;
    }

    /// The symbol of that number has come after all. `None` if its credit was not given up.
    pub(super) fn take(&mut self, number: u32) -> Option<LostCredit> {
        let index = self.lost.binary_search_by_key(&number, |credit| credit.number).ok()?;
        self.lost.remove(index)
    }

    /// The window as it was, if the last reduction was a mistake: one symbol shows that of a timeout; of
    /// a gap, all that was missing must have come.
    pub(super) fn undo(&mut self, late: LostCredit) -> Option<W> {
        let reduction = self.reduction.as_mut()?;
        reduction.missing = reduction.missing.saturating_sub(1);
        let mistaken = reduction.missing == 0 || (reduction.by_timeout && late.by_timeout);
        if mistaken { self.reduction.take().map(|r| r.before) } else { None }
    }

    /// The sender numbers anew.
    pub(super) fn clear(&mut self) {
        self.lost.clear();
        self.reduction = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(number: u32, by_timeout: bool) -> LostCredit {
        LostCredit { number, by_timeout }
    }

    #[test]
    fn a_gap_that_fills_up_undoes_its_reduction_and_one_that_does_not_stays() {
        let mut given_up = GivenUp::default();
        given_up.push(lost(3, false));
        given_up.reduce(100, false, false);
        given_up.push(lost(4, false));
        let late = given_up.take(4).expect("it was given up");
        assert_eq!(given_up.undo(late), None, "3 is still missing");
        assert_eq!(given_up.take(4), None, "a duplicate says nothing");
        let late = given_up.take(3).expect("it was given up");
        assert_eq!(given_up.undo(late), Some(100));
        assert_eq!(given_up.undo(late), None, "once");
    }

    #[test]
    fn one_late_symbol_undoes_timeouts_in_a_row() {
        let mut given_up = GivenUp::default();
        (1..=5).for_each(|number| given_up.push(lost(number, true)));
        given_up.reduce(100, true, false);
        given_up.push(lost(6, true));
        given_up.reduce(70, true, true);
        let late = given_up.take(2).expect("it was given up");
        assert_eq!(given_up.undo(late), Some(100));
    }

    #[test]
    fn trims_and_marks_are_no_mistakes() {
        let mut given_up = GivenUp::default();
        given_up.push(lost(1, false));
        given_up.reduce(100, false, false);
        given_up.confirm();
        let late = given_up.take(1).expect("it was given up");
        assert_eq!(given_up.undo(late), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut given_up = GivenUp::<u32>::default();
        (0..5_000).for_each(|number| given_up.push(lost(number, false)));
        assert_eq!(given_up.lost.len(), MAX_REMEMBERED);
        assert!(given_up.take(4_999).is_some());
    }
}
