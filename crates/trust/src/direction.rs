//! One direction of sealed datagrams: its keys, a counter for each datagram, a window against replays.
//!
//! ```text
//! +--------------+----------------+-----------+---------------+--------------------+----------+
//! | header, clear | header tag (8) | channel 1 | counter (7)   | payload, encrypted | tag (16) |
//! +--------------+----------------+-----------+---------------+--------------------+----------+
//! ```
//!
//! The header in clear is what a trimming switch keeps (24 bytes of an SCDP symbol: session, SBN, ESI, packet number,
//! epoch); other datagrams have none, and the kind "sealed" and zeros in place of the header tag. The tag at the end
//! covers everything: header and header tag as associated data, channel and counter as the nonce. The header tag covers
//! the header. The counter counts all datagrams of a direction, so no nonce
//! is used twice, whatever protocols do with their numbers, and none is opened twice.

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use siphasher::sip::SipHasher24;
use wellspring_wire::sealed::{self, COUNTER_LEN, HEADER_TAG_LEN, TAG_LEN};
use zeroize::Zeroizing;

use crate::layout::SEALED;
use crate::replay::ReplayWindow;

/// What sealing adds to a datagram \[bytes\].
pub const MAX_OVERHEAD: usize = sealed::OVERHEAD;
/// Bytes before a datagram in plain that is to be sealed where it is \[bytes\]: sealing moves the header there, and the
/// payload not at all.
pub const HEADROOM: usize = HEADER_TAG_LEN + COUNTER_LEN;
/// Longest header in clear \[bytes\].
const MAX_CLEAR: usize = 64;
/// Datagrams sealed by one key, as a power of two. With datagrams of 1,500 bytes the chance to tell AES-128-GCM
/// from an ideal cipher stays below 2^-57 (RFC 9001 §B.1 bounds 2^23 datagrams of 2^14 bytes likewise).
pub(crate) const GENERATION_BITS: u32 = 28;

/// The cipher that seals datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Suite {
    /// ChaCha20-Poly1305 (RFC 8439): quick on any processor.
    ChaCha20Poly1305 = 0,
    /// AES-128-GCM: quicker where the processor has instructions for it.
    Aes128Gcm = 1,
}

impl Suite {
    /// The quickest on this machine.
    pub fn of_this_machine() -> Self {
        #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
        let quick = std::arch::is_x86_feature_detected!("aes")
            && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let quick = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
        let quick = false;
        if quick { Suite::Aes128Gcm } else { Suite::ChaCha20Poly1305 }
    }

    /// The one both ends take: AES needs both to have instructions for it.
    pub(crate) fn agreed(self, other: Suite) -> Suite {
        if self == other { self } else { Suite::ChaCha20Poly1305 }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Suite::ChaCha20Poly1305, Suite::Aes128Gcm].into_iter().find(|suite| *suite as u8 == number)
    }

    fn key(self, bytes: &[u8; 32]) -> LessSafeKey {
        let (algorithm, len) = match self {
            Suite::ChaCha20Poly1305 => (&CHACHA20_POLY1305, 32),
            Suite::Aes128Gcm => (&AES_128_GCM, 16),
        };
        LessSafeKey::new(
            UnboundKey::new(algorithm, &bytes[..len]).expect("a key of the cipher's length"),
        )
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Suite::ChaCha20Poly1305 => "ChaCha20-Poly1305",
            Suite::Aes128Gcm => "AES-128-GCM",
        })
    }
}

/// What a datagram's header says of its form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes that stay in clear: 0, or a header that is to survive trimming.
    pub clear: usize,
    /// Length of the datagram in plain \[bytes\], by its header; one that is shorter was trimmed.
    pub len: usize,
}

/// A datagram that was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plain {
    /// All of it: so many bytes.
    Whole(usize),
    /// Its header alone, the rest having been trimmed: so many bytes.
    Header(usize),
}

/// Why a datagram was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// Not sealed by this channel.
    Forged,
    /// Opened before, or too old to decide.
    Replayed,
}

/// Keys of one direction, derived from one secret.
struct Direction {
    suite: Suite,
    secret: Zeroizing<[u8; 32]>,
    tags: SipHasher24,
    /// Generation of the first of `keys`.
    first: u64,
    /// Keys of three generations: after the first change the newest one used is in the middle.
    keys: [LessSafeKey; 3],
}

impl Direction {
    fn new(suite: Suite, secret: &[u8; 32]) -> Self {
        let tag_key = Zeroizing::new(blake3::derive_key("wellspring trust 1 header tag", secret));
        let secret = Zeroizing::new(blake3::derive_key("wellspring trust 1 datagrams", secret));
        let mut short = Zeroizing::new([0; 16]);
        short.copy_from_slice(&tag_key[..16]);
        let keys = [0, 1, 2].map(|generation| key_of(suite, &secret, generation));
        Direction { suite, tags: SipHasher24::new_with_key(&short), first: 0, keys, secret }
    }

    fn header_tag(&self, header: &[u8]) -> [u8; HEADER_TAG_LEN] {
        self.tags.hash(header).to_be_bytes()
    }

    /// The key for a counter, if it is of a generation at hand.
    fn key(&self, counter: u64) -> Option<&LessSafeKey> {
        let place = (counter >> GENERATION_BITS).checked_sub(self.first)?;
        self.keys.get(usize::try_from(place).ok()?)
    }

    /// A counter was used, by this host or by an authentic datagram: nothing else may move the keys on.
    fn used(&mut self, counter: u64) {
        if counter >> GENERATION_BITS == self.first + 2 {
            self.first += 1;
            self.keys.rotate_left(1);
            self.keys[2] = key_of(self.suite, &self.secret, self.first + 2);
        }
    }
}

fn key_of(suite: Suite, secret: &[u8; 32], generation: u64) -> LessSafeKey {
    let bytes = Zeroizing::new(*blake3::keyed_hash(secret, &generation.to_be_bytes()).as_bytes());
    suite.key(&bytes)
}

fn nonce(counter: &[u8; COUNTER_LEN]) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(counter);
    Nonce::assume_unique_for_key(nonce)
}

/// What seals the datagrams of one direction.
pub(crate) struct Sealer {
    direction: Direction,
    /// Distinguishes the keys that may seal datagrams between two addresses.
    mark: u8,
    counter: u64,
}

/// What opens the datagrams of one direction.
pub(crate) struct Opener {
    direction: Direction,
    window: ReplayWindow,
}

impl Sealer {
    pub(crate) fn new(suite: Suite, secret: &[u8; 32], mark: u8) -> Self {
        Sealer { direction: Direction::new(suite, secret), mark, counter: 0 }
    }

    /// The cipher in use.
    pub(crate) fn suite(&self) -> Suite {
        self.direction.suite
    }

    /// Datagrams sealed.
    pub(crate) fn sealed(&self) -> u64 {
        self.counter
    }

    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, counter: u64) {
        self.counter = counter;
    }

    /// Seals the datagram of `len` bytes that begins [`HEADROOM`] bytes into `room`; `clear` of them stay in clear. The
    /// sealed one begins where `room` does; returns its length, [`MAX_OVERHEAD`] more. `None` if there is no room for
    /// it, or nothing to seal.
    pub(crate) fn seal(&mut self, room: &mut [u8], len: usize, clear: usize) -> Option<usize> {
        let end = len + MAX_OVERHEAD;
        if end > room.len() || clear >= len || clear > MAX_CLEAR {
            return None;
        }
        room.copy_within(HEADROOM..HEADROOM + clear, 0);
        let head = match clear {
            0 => [SEALED, 0, 0, 0, 0, 0, 0, 0],
            _ => self.direction.header_tag(&room[..clear]),
        };
        let mut counter = self.counter.to_be_bytes();
        counter[0] = self.mark;
        let key = self.direction.key(self.counter)?;
        let (associated, rest) = room.split_at_mut(clear + HEADER_TAG_LEN);
        associated[clear..].copy_from_slice(&head);
        let (counter_place, rest) = rest.split_at_mut(COUNTER_LEN);
        counter_place.copy_from_slice(&counter);
        let (in_out, tag_place) = rest.split_at_mut(len - clear);
        let tag = key
            .seal_in_place_separate_tag(nonce(&counter), Aad::from(&*associated), in_out)
            .ok()?;
        tag_place[..TAG_LEN].copy_from_slice(tag.as_ref());
        self.direction.used(self.counter);
        self.counter += 1;
        Some(end)
    }
}

impl Opener {
    pub(crate) fn new(suite: Suite, secret: &[u8; 32]) -> Self {
        Opener { direction: Direction::new(suite, secret), window: ReplayWindow::new() }
    }

    /// Opens a datagram into `plain`.
    pub(crate) fn open(
        &mut self,
        datagram: &[u8],
        shape: Shape,
        plain: &mut [u8],
    ) -> Result<Plain, Closed> {
        let clear = shape.clear;
        let whole = shape.len + MAX_OVERHEAD;
        if clear > MAX_CLEAR || plain.len() < shape.len.max(clear) || datagram.len() > whole {
            return Err(Closed::Forged);
        }
        if clear > 0 && datagram.len() < whole {
            return self.open_trimmed(datagram, clear, plain);
        }
        let body = clear + HEADER_TAG_LEN + COUNTER_LEN;
        let counter = counter_at(datagram, clear).ok_or(Closed::Forged)?;
        if clear == 0 && datagram[..HEADER_TAG_LEN] != [SEALED, 0, 0, 0, 0, 0, 0, 0] {
            return Err(Closed::Forged);
        }
        let mut number = counter;
        number[0] = 0;
        let number = u64::from_be_bytes(number);
        if !self.window.is_new(number) {
            return Err(Closed::Replayed);
        }
        let (associated, rest) = (&datagram[..clear + HEADER_TAG_LEN], &datagram[body..]);
        let text_len = rest.len().checked_sub(TAG_LEN).ok_or(Closed::Forged)?;
        let (text, tag) = rest.split_at(text_len);
        let key = self.direction.key(number).ok_or(Closed::Forged)?;
        let out = plain.get_mut(clear..clear + text_len).ok_or(Closed::Forged)?;
        key.open_separate_gather(nonce(&counter), Aad::from(associated), text, tag, out)
            .map_err(|_| Closed::Forged)?;
        self.direction.used(number);
        self.window.take(number);
        plain[..clear].copy_from_slice(&datagram[..clear]);
        Ok(Plain::Whole(clear + text_len))
    }

    /// What a switch has left of a datagram: its header counts if its own tag is right.
    fn open_trimmed(
        &self,
        datagram: &[u8],
        clear: usize,
        plain: &mut [u8],
    ) -> Result<Plain, Closed> {
        let (header, rest) = datagram.split_at_checked(clear).ok_or(Closed::Forged)?;
        let tag = rest.get(..HEADER_TAG_LEN).ok_or(Closed::Forged)?;
        let expected = self.direction.header_tag(header);
        if aws_lc_rs::constant_time::verify_slices_are_equal(tag, &expected).is_err() {
            return Err(Closed::Forged);
        }
        plain[..clear].copy_from_slice(header);
        Ok(Plain::Header(clear))
    }
}

/// The mark of the channel that a datagram claims to be sealed by; `None` if it was trimmed before it.
pub(crate) fn mark_of(datagram: &[u8], clear: usize) -> Option<u8> {
    datagram.get(clear + HEADER_TAG_LEN).copied()
}

fn counter_at(datagram: &[u8], clear: usize) -> Option<[u8; COUNTER_LEN]> {
    datagram.get(clear + HEADER_TAG_LEN..)?.first_chunk().copied()
}
