//! Channels: keys of both directions between two addresses, made by a handshake.

use std::fmt;

use crate::direction::{Closed, Opener, Plain, Sealer, Shape, Suite};
use crate::key::Fingerprint;

/// Distinguishes the channels between two addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelId(pub(crate) u64);

impl ChannelId {
    /// No channel, but the key of a group.
    pub(crate) const GROUP: ChannelId = ChannelId(0);
}

/// By which of the channels to an address a datagram is sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// The current one, or else the newest handshake's.
    Any,
    /// That one.
    Channel(ChannelId),
    /// One that leads to the owner of that key, as [`Any`](Self::Any) chooses among them.
    Key(Fingerprint),
}

/// Keys for datagrams between two addresses, made by a handshake.
pub struct Channel {
    id: ChannelId,
    sends: Sealer,
    receives: Opener,
}

impl Channel {
    /// A channel of the two secrets that a handshake leaves, one a direction.
    pub(crate) fn new(suite: Suite, id: ChannelId, sends: &[u8; 32], receives: &[u8; 32]) -> Self {
        let (sends, receives) =
            (Sealer::new(suite, sends, mark_of(id)), Opener::new(suite, receives));
        Channel { id, sends, receives }
    }

    /// Its id, the same at both ends.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// The byte in datagrams that distinguishes it from the few others between the same addresses.
    pub(crate) fn mark(&self) -> u8 {
        mark_of(self.id)
    }

    /// The cipher in use.
    pub fn suite(&self) -> Suite {
        self.sends.suite()
    }

    /// Seals the datagram of `len` bytes that begins [`HEADROOM`](crate::HEADROOM) bytes into `room`; `clear` of them
    /// stay in clear. The sealed one begins where `room` does; returns its length,
    /// [`MAX_OVERHEAD`](crate::MAX_OVERHEAD) more. `None` if there is no room for it, or nothing to seal.
    pub fn seal(&mut self, room: &mut [u8], len: usize, clear: usize) -> Option<usize> {
        self.sends.seal(room, len, clear)
    }

    /// Opens a datagram into `plain`.
    pub(crate) fn open(
        &mut self,
        datagram: &[u8],
        shape: Shape,
        plain: &mut [u8],
    ) -> Result<Plain, Closed> {
        self.receives.open(datagram, shape, plain)
    }
}

/// The highest bit is set in marks of groups' keys.
fn mark_of(id: ChannelId) -> u8 {
    id.0 as u8 & 0x7f
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("id", &self.id)
            .field("sealed", &self.sends.sealed())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::{GENERATION_BITS, HEADROOM, MAX_OVERHEAD};

    fn pair(suite: Suite) -> (Channel, Channel) {
        let id = ChannelId(0x1234_5678_9abc_def0);
        let (a, b) = ([1; 32], [2; 32]);
        (Channel::new(suite, id, &a, &b), Channel::new(suite, id, &b, &a))
    }

    const SUITES: [Suite; 2] = [Suite::Aes128Gcm, Suite::ChaCha20Poly1305];
    const SHAPE: Shape = Shape { clear: 24, len: 124 };

    const HEADER: [u8; 24] = {
        let mut header = [0; 24];
        let mut at = 0;
        while at < 24 {
            header[at] = at as u8;
            at += 1;
        }
        header
    };

    /// A symbol in plain, where it is to be sealed.
    fn symbol(fill: u8) -> Vec<u8> {
        let mut room = vec![fill; SHAPE.len + MAX_OVERHEAD];
        room[HEADROOM..HEADROOM + 24].copy_from_slice(&HEADER);
        room
    }

    #[test]
    fn what_is_sealed_is_opened_by_the_other_end_once() {
        for suite in SUITES {
            let (mut a, mut b) = pair(suite);
            let mut room = symbol(7);
            let len = a.seal(&mut room, SHAPE.len, 24).expect("room");
            assert_eq!(len, SHAPE.len + MAX_OVERHEAD);
            assert_eq!(room[..24], HEADER, "the header is in clear");
            assert!(room[40..].windows(8).all(|w| w != [7; 8]), "the payload is not");
            let mut plain = [0; 200];
            assert_eq!(b.open(&room, SHAPE, &mut plain), Ok(Plain::Whole(SHAPE.len)));
            assert_eq!(plain[..SHAPE.len], symbol(7)[HEADROOM..][..SHAPE.len]);
            assert_eq!(b.open(&room, SHAPE, &mut plain), Err(Closed::Replayed));
            assert_eq!(a.open(&room, SHAPE, &mut plain), Err(Closed::Forged), "its own, reflected");
        }
    }

    #[test]
    fn no_byte_can_be_changed() {
        let (mut a, mut b) = pair(Suite::Aes128Gcm);
        let mut room = symbol(7);
        a.seal(&mut room, SHAPE.len, 24).expect("room");
        let mut plain = [0; 200];
        for at in 0..room.len() {
            room[at] ^= 1;
            // The first byte of the counter only says whose datagram it is; others would not look at it.
            assert_eq!(b.open(&room, SHAPE, &mut plain), Err(Closed::Forged), "byte {at}");
            room[at] ^= 1;
        }
        assert_eq!(b.open(&room, SHAPE, &mut plain), Ok(Plain::Whole(SHAPE.len)));
    }

    #[test]
    fn what_is_cut_counts_by_its_header_alone_and_only_with_its_tag() {
        let (mut a, mut b) = pair(Suite::Aes128Gcm);
        let mut room = symbol(7);
        a.seal(&mut room, SHAPE.len, 24).expect("room");
        let mut plain = [9; 200];
        for cut in 0..room.len() {
            let expected = if cut < 32 { Err(Closed::Forged) } else { Ok(Plain::Header(24)) };
            assert_eq!(b.open(&room[..cut], SHAPE, &mut plain), expected, "{cut}");
        }
        for at in 0..32 {
            room[at] ^= 0x10;
            assert_eq!(b.open(&room[..64], SHAPE, &mut plain), Err(Closed::Forged), "byte {at}");
            room[at] ^= 0x10;
        }
        // A sealed control message has no such header: none of it is believed.
        let mut room = symbol(3);
        let len = a.seal(&mut room, 100, 0).expect("room");
        let shape = Shape { clear: 0, len: len - MAX_OVERHEAD };
        for cut in 0..len {
            let shape = Shape { clear: 0, len: cut.saturating_sub(MAX_OVERHEAD) };
            assert_eq!(b.open(&room[..cut], shape, &mut plain), Err(Closed::Forged), "{cut}");
        }
        assert_eq!(b.open(&room[..len], shape, &mut plain), Ok(Plain::Whole(100)));
    }

    #[test]
    fn keys_follow_each_other_and_a_counter_from_far_ahead_is_forged() {
        let (mut a, mut b) = pair(Suite::Aes128Gcm);
        let mut plain = [0; 200];
        for generation in [0_u64, 1, 2, 3, 4] {
            a.sends.skip_to((generation << GENERATION_BITS) + 5);
            let mut room = symbol(generation as u8);
            a.seal(&mut room, SHAPE.len, 24).expect("room");
            assert_eq!(
                b.open(&room, SHAPE, &mut plain),
                Ok(Plain::Whole(SHAPE.len)),
                "{generation}"
            );
        }
        let mut room = symbol(0);
        a.seal(&mut room, SHAPE.len, 24).expect("room");
        room[33] = 0x7f;
        assert_eq!(b.open(&room, SHAPE, &mut plain), Err(Closed::Forged));
    }
}
