//! Queue of frames between an endpoint and the network.

use std::collections::VecDeque;

use wellspring_core::{Frame, SessionId};

use crate::network::outbox::Target;
use crate::payload::key::SessionKey;

/// Frames on their way out, between the endpoint and the network.
pub(super) struct Queue<H> {
    /// Symbols whose blocks have come, to be sent before the endpoint is asked for more.
    pub(super) ready: VecDeque<Frame<H>>,
    /// Frames held back by all sessions.
    pub(super) held: usize,
    /// The block whose symbols went out last.
    pub(super) last_block: Option<(SessionKey, u32)>,
    /// Where the frame at hand goes.
    pub(super) targets: Vec<Target>,
}

impl<H> Queue<H> {
    pub(super) fn new() -> Self {
        Queue { ready: VecDeque::new(), held: 0, last_block: None, targets: Vec::new() }
    }

    /// Frames of a session need not wait any more.
    pub(super) fn release(&mut self, held: &mut VecDeque<Frame<H>>) {
        self.held -= held.len();
        // Before what is ready: of their session they are the older ones, and their block is here, so
        // sending them gives memory back to a frame that found none.
        held.append(&mut self.ready);
        std::mem::swap(held, &mut self.ready);
    }

    /// A session is over that held back so many frames.
    pub(super) fn forget(&mut self, session: SessionId, held: usize) {
        self.held -= held;
        self.ready.retain(|frame| frame.session != session);
    }
}
