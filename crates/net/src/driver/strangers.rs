//! Answers to packets of sessions that are not open here.

use std::collections::VecDeque;

use wellspring_core::{Duration, SessionId, Time};
use wellspring_wire::scdp::{Close, CloseReason, ScdpHeader};

/// Answers a second, so that forged packets do not make this host speak much.
const ANSWERS_A_SECOND: u64 = 1_000;
/// Answers in a row.
const BURST: u64 = 64;
/// Receive sessions remembered after they were complete.
const MAX_REMEMBERED: usize = 1_024;

const PICOS_AN_ANSWER: u64 = 1_000_000_000_000 / ANSWERS_A_SECOND;

/// Tells strangers that their session is not open here, at a bounded rate. An answer is never
/// longer than the shortest packet.
pub(super) struct CloseBudget {
    /// When the budget is full again; `None` if it is.
    full_at: Option<Time>,
    complete: VecDeque<SessionId>,
}

impl CloseBudget {
    pub(super) fn new() -> Self {
        CloseBudget { full_at: None, complete: VecDeque::new() }
    }

    /// A receive session was complete: whoever still sends of it is told so.
    pub(super) fn remember(&mut self, session: SessionId) {
        if self.complete.len() == MAX_REMEMBERED {
            self.complete.pop_front();
        }
        self.complete.push_back(session);
    }

    /// The answer to a packet of a session not open here, if it gets one at all. A close is never
    /// answered.
    pub(super) fn answer(&self, session: SessionId, header: &ScdpHeader) -> Option<Close> {
        let (from_receiver, reason) = match header {
            ScdpHeader::Symbol(_) if self.complete.contains(&session) => {
                (true, CloseReason::Complete)
            }
            ScdpHeader::Symbol(_) => (true, CloseReason::UnknownSession),
            ScdpHeader::Pull(_) => (false, CloseReason::UnknownSession),
            ScdpHeader::Close(_) => return None,
        };
        Some(Close { reason, from_receiver })
    }

    /// Takes one answer out of the budget, if there is one.
    pub(super) fn take(&mut self, now: Time) -> bool {
        let full_at = self.full_at.filter(|full| *full > now).unwrap_or(now);
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
    use wellspring_wire::scdp::Pull;

    const PULL: ScdpHeader =
        ScdpHeader::Pull(Pull { sbn: 0, granted: 1, floor: 0, run: 1, epoch: 0, fin: false });

    #[test]
    fn answers_are_bounded_by_rate_and_burst() {
        let mut budget = CloseBudget::new();
        let mut now = Time::ZERO + Duration::from_secs(1);
        assert_eq!((0..1_000).filter(|_| budget.take(now)).count() as u64, BURST);
        let mut given = 0;
        for _ in 0..10_000 {
            now = now + Duration::from_micros(100);
            given += u64::from(budget.take(now));
        }
        assert!((ANSWERS_A_SECOND - 2..=ANSWERS_A_SECOND + 1).contains(&given), "{given}");
    }

    #[test]
    fn a_close_is_never_answered_and_a_complete_session_is_named_so() {
        let mut budget = CloseBudget::new();
        let close = Close { reason: CloseReason::Cancelled, from_receiver: true };
        assert_eq!(budget.answer(SessionId(1), &ScdpHeader::Close(close)), None);
        let answer = budget.answer(SessionId(1), &PULL).expect("answered");
        assert_eq!((answer.reason, answer.from_receiver), (CloseReason::UnknownSession, false));
        for session in 0..2_000 {
            budget.remember(SessionId(session));
        }
        assert!(budget.complete.len() <= MAX_REMEMBERED);
    }
}
