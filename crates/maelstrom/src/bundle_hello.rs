//! Hellos between bundlers: each says whom its sender hears.
//!
//! | bytes | what |
//! |---|---|
//! | 16 | the session that the sender hears, or zeros |
//! | 1 | 1 if the hello is as long as its sender's longest bundle, plus 2 if such a one of that session came lately |
//! | rest | zeros |

use wellspring_core::Time;

use crate::auth::{HEADER_LEN, Sealer, SessionId, TAG_LEN};
use crate::wire::{BUNDLE_HELLO, array, emit_empty_head};

const IS_LONG: u8 = 1;
const HEARS_LONG: u8 = 2;
const NONE: SessionId = SessionId { start: 0, random: 0 };

/// What a bundler tells the other end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BundleHello {
    /// The session that it hears.
    pub hears: Option<SessionId>,
    /// Whether a hello of that session came lately that was as long as its longest bundle.
    pub hears_long: bool,
    /// Whether this one is as long as the longest bundle.
    pub is_long: bool,
}

impl BundleHello {
    /// What one of that session is told that has not named this end's: that it is heard.
    pub fn answer(session: SessionId) -> Self {
        BundleHello { hears: Some(session), ..BundleHello::default() }
    }

    /// What a verified datagram says, if it is a hello.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (header, body) = bytes.split_at_checked(HEADER_LEN)?;
        if header[1] != BUNDLE_HELLO || body.len() <= SessionId::LEN {
            return None;
        }
        let session = SessionId::from_bytes(array(body, 0));
        let flags = body[SessionId::LEN];
        Some(BundleHello {
            hears: Some(session).filter(|&session| session != NONE),
            hears_long: flags & HEARS_LONG != 0,
            is_long: flags & IS_LONG != 0,
        })
    }

    /// Appends it to `out`; `longest` is the length of the longest bundle.
    pub(crate) fn emit(&self, sealer: &mut Sealer, longest: usize, out: &mut Vec<u8>) {
        let start = out.len();
        emit_empty_head(sealer, BUNDLE_HELLO, Time::ZERO, out);
        out.extend_from_slice(&self.hears.unwrap_or(NONE).to_bytes());
        let long = if self.is_long { IS_LONG } else { 0 };
        out.push(if self.hears_long { long | HEARS_LONG } else { long });
        if self.is_long {
            let end = start + longest.saturating_sub(TAG_LEN);
            out.resize(end.max(out.len()), 0);
        }
        sealer.seal(start, out);
    }
}
