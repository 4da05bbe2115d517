//! Sealed messages over a connection that keeps bytes in order.
//!
//! They are the transport messages of Noise itself (§5.1), each under the next nonce: one that is changed, left out,
//! repeated or out of order does not open, and neither does any after it.

use std::fmt;
use std::sync::Arc;

use snow::{HandshakeState, StatelessTransportState};

/// Longest message that is sealed \[bytes\].
pub const MAX_STREAM_MESSAGE_LEN: usize = 8_192;
/// What sealing adds to a message \[bytes\].
pub const STREAM_OVERHEAD: usize = 16;
/// Seals the messages of one direction.
pub struct Sealer {
    state: Arc<StatelessTransportState>,
    sealed: u64,
}

/// Opens the messages of one direction.
pub struct Opener {
    state: Arc<StatelessTransportState>,
    opened: u64,
}

impl Sealer {
    /// Appends a message to `out`, sealed: [`STREAM_OVERHEAD`] bytes longer. `None` if it is longer than
    /// [`MAX_STREAM_MESSAGE_LEN`].
    pub fn seal(&mut self, message: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if message.len() > MAX_STREAM_MESSAGE_LEN {
            return None;
        }
        let start = out.len();
        out.resize(start + message.len() + STREAM_OVERHEAD, 0);
        self.state.write_message(self.sealed, message, &mut out[start..]).ok()?;
        self.sealed += 1;
        Some(())
    }
}

impl Opener {
    /// Opens the next message into `message`; `None` if it is not the next that the other end has sealed.
    pub fn open(&mut self, sealed: &[u8], message: &mut Vec<u8>) -> Option<()> {
        message.clear();
        if sealed.len() > MAX_STREAM_MESSAGE_LEN + STREAM_OVERHEAD {
            return None;
        }
        message.resize(sealed.len(), 0);
        let len = self.state.read_message(self.opened, sealed, message).ok()?;
        message.truncate(len);
        self.opened += 1;
        Some(())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("sealed", &self.sealed).finish_non_exhaustive()
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("opened", &self.opened).finish_non_exhaustive()
    }
}

/// Both ends of a finished handshake.
pub(crate) fn ends(state: HandshakeState) -> Option<(Sealer, Opener)> {
    let state = Arc::new(state.into_stateless_transport_mode().ok()?);
    let opener = Opener { state: Arc::clone(&state), opened: 0 };
    Some((Sealer { state, sealed: 0 }, opener))
}
