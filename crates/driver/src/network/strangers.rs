//! Answers to packets of sessions that are not open here.

use wellspring_core::{Duration, Time};

/// Answers a second, so that forged packets do not make this host speak much.
const ANSWERS_A_SECOND: u64 = 1_000;
/// Answers in a row.
const BURST: u64 = 64;

const PICOS_AN_ANSWER: u64 = 1_000_000_000_000 / ANSWERS_A_SECOND;

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
        let full_at = self.full_at.filter(|full| full.is_after(now)).unwrap_or(now);
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
