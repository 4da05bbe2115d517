//! Receive sessions that have been complete.

use std::collections::VecDeque;

use wellspring_core::SessionId;

/// Sessions remembered, at most.
const MAX_REMEMBERED: usize = 1_024;

/// The last sessions that were complete: a sender that still sends of one of them does not know it yet.
#[derive(Default)]
pub(super) struct CompleteSessions(VecDeque<SessionId>);

impl CompleteSessions {
    pub(super) fn add(&mut self, session: SessionId) {
        if self.0.len() == MAX_REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(session);
    }

    pub(super) fn contains(&self, session: SessionId) -> bool {
        self.0.contains(&session)
    }
}
