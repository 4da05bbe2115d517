//! Answers to packets of sessions that are not open here.

use wellspring_core::{Duration, Time};

/// Answers a second, so that forged packets do not make this host speak much.
const ANSWERS_A_SECOND: u64 = 1_000;
/// Answers in a row.
const BURST: u64 = 64;

const PICOS_AN_ANSWER: u64 = 1_000_000_000_000 / ANSWERS_A_SECOND;
/// How long the budget takes to be full again, at most.
const LONGEST: Duration = Duration::from_picos(BURST * PICOS_AN_ANSWER);

/// Bounds how many strangers are answered. An answer is never longer than the shortest packet.
pub(crate) struct AnswerBudget {
    /// When the budget is full again; `None` if it is.
    full_at: Option<Time>,
}

impl AnswerBudget {
    pub(crate) fn new() -> Self {
        AnswerBudget { full_at: None }
    }

    /// Takes one answer out of the budget, if there is one.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        // Further ahead than that is an instant of months ago: times go round in a circle.
        let is_ahead = |full: &Time| full.is_after(now) && full.since(now) <= LONGEST;
        let full_at = self.full_at.filter(is_ahead).unwrap_or(now);
        if full_at.since(now).as_picos() > (BURST - 1) * PICOS_AN_ANSWER {
            return false;
        }
        self.full_at = Some(full_at + Duration::from_picos(PICOS_AN_ANSWER));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_months_of_silence_the_budget_is_full() {
        let mut budget = AnswerBudget::new();
        let now = Time::ZERO + Duration::from_secs(1);
        assert!((0..1_000).any(|_| !budget.take(now)));
        let mut later = now;
        (0..107).for_each(|_| later = later + Duration::from_secs(86_400));
        assert_eq!((0..1_000).filter(|_| budget.take(later)).count() as u64, BURST);
    }

    #[test]
    fn answers_are_bounded_by_rate_and_burst() {
        let mut budget = AnswerBudget::new();
        let mut now = Time::ZERO + Duration::from_secs(1);
        assert_eq!((0..1_000).filter(|_| budget.take(now)).count() as u64, BURST);
        let mut given = 0;
        for _ in 0..10_000 {
            now = now + Duration::from_micros(100);
            given += u64::from(budget.take(now));
        }
        assert!((ANSWERS_A_SECOND - 2..=ANSWERS_A_SECOND + 1).contains(&given), "{given}");
    }
}
