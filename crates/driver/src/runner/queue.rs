//! Order in which frames that had to wait for their blocks go out.

use std::collections::VecDeque;

use crate::network::outbox::Target;
use crate::payload::key::SessionKey;

/// Sessions whose frames wait, between the endpoint and the network. A frame waits in its own session: one whose blocks come
/// slowly, or that asks for many of them, holds up no other.
pub(super) struct Queue {
    /// Sessions whose first frame can be tried again, before the endpoint is asked for more.
    pub(super) ready: VecDeque<SessionKey>,
    /// The block whose symbols went out last.
    pub(super) last_block: Option<(SessionKey, u32)>,
    /// Where the frame at hand goes.
    pub(super) targets: Vec<Target>,
}

impl Queue {
    pub(super) fn new() -> Self {
        Queue { ready: VecDeque::new(), last_block: None, targets: Vec::new() }
    }

    /// A session's first frame need not wait any more.
    pub(super) fn release(&mut self, session: SessionKey) {
        if !self.ready.contains(&session) {
            self.ready.push_back(session);
        }
    }

    /// The frame that was tried for the session whose turn it is has to wait on.
    pub(super) fn wait_on(&mut self) {
        self.ready.pop_front();
    }
}
