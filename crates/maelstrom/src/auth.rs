//! Authentication of datagrams: keys, sessions, tags and replay protection.
//!
//! Every datagram carries its sender's session and a number, and a tag over all of it: GMAC, which
//! is AES-128-GCM with nothing to encrypt (NIST SP 800-38D §3). A session is one life of an
//! appliance. Its key is derived from the pre-shared key and the session's id, so that numbers may
//! start anew with each; of the sessions believed only the newest is, so that nothing of an
//! older one can be played again.
//!
//! Both ends have the same secret, so what an end itself sent in an earlier life, or another appliance of its site,
//! verifies like the peer's. A session is believed only once it names the session of this end, which is younger than
//! anything that was recorded before, and which no end hears but the peer.
//!
//! A key that encrypts ([`PresharedKey::encrypting`]) is another key: what follows the header is
//! encrypted, and the header is authenticated with it (RFC 5116). The nonce is the number, which counts up
//! from zero and is used once in a session; no two sessions, directions or purposes have one key.

use std::fmt;

use crate::drop_reason::DropReason;
use crate::gcm::{self, Gcm};

/// Length of a pre-shared key \[bytes\].
pub const KEY_LEN: usize = 32;
/// Length of a datagram's header, which stays readable \[bytes\].
pub const HEADER_LEN: usize = 36;
/// Length of a datagram's tag \[bytes\].
pub const TAG_LEN: usize = gcm::TAG_LEN;
/// How far datagrams may overtake each other \[datagrams\]: a repair that comes later is of no use.
const REPLAY_WINDOW: u64 = 1_024;
const WORDS: usize = REPLAY_WINDOW as usize / 64;

/// The secret that both appliances of a pair were given.
#[derive(Clone)]
pub struct PresharedKey {
    bytes: [u8; KEY_LEN],
    encrypts: bool,
}

impl PresharedKey {
    /// A key of these bytes, which should come from a generator of random numbers.
    pub fn new(bytes: [u8; KEY_LEN]) -> Self {
        PresharedKey { bytes, encrypts: false }
    }

    /// The key of datagrams and trunks that are encrypted: those of a pair that only authenticates are strangers' to it.
    #[must_use]
    pub fn encrypting(&self) -> Self {
        PresharedKey { encrypts: true, ..self.child("wellspring maelstrom 1 encryption", &[]) }
    }

    /// Whether what is sealed with it is encrypted.
    pub fn encrypts(&self) -> bool {
        self.encrypts
    }

    /// Another key, which encrypts if this one does.
    fn child(&self, context: &str, more: &[u8]) -> Self {
        let mut bytes = [0; KEY_LEN];
        self.derive(context, more, &mut bytes);
        PresharedKey { bytes, encrypts: self.encrypts }
    }

    /// The key of one partition of so many: datagrams of another, or of a pair that cuts otherwise,
    /// are strangers'. A single partition has the key itself.
    pub fn for_partition(&self, partition: u8, partitions: u8) -> Self {
        if partitions == 1 {
            return self.clone();
        }
        self.child("wellspring maelstrom 1 partition", &[partition, partitions])
    }

    /// The key of messages between the appliances of one site.
    pub(crate) fn for_site(&self, site: &[u8]) -> Self {
        self.child("wellspring maelstrom 1 site", site)
    }

    /// The key of bundles.
    pub(crate) fn for_bundles(&self) -> Self {
        self.child("wellspring maelstrom 1 bundles", &[])
    }

    /// Fills `out` with bytes that only holders of the key can make, for one purpose.
    pub(crate) fn derive(&self, context: &str, more: &[u8], out: &mut [u8]) {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&self.bytes).update(more).finalize_xof().fill(out);
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey")
    }
}

/// One life of an appliance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SessionId {
    /// When it began \[ns since 1970\]: a later life has a later beginning.
    pub start: u64,
    /// A random number.
    pub random: u64,
}

impl SessionId {
    pub(crate) const LEN: usize = 16;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.start.to_be_bytes());
        bytes[8..].copy_from_slice(&self.random.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let [start, random] =
            [0, 8].map(|at| u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i])));
        SessionId { start, random }
    }
}

/// A key for one sender's numbered messages.
pub(crate) struct SessionKey {
    key: Gcm,
    encrypts: bool,
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

impl SessionKey {
    fn new(key: &PresharedKey, session: SessionId) -> Self {
        Self::derived(key, "wellspring maelstrom 1 datagrams", &session.to_bytes())
    }

    /// The key for one purpose; `more` must be another for every sender's every life.
    pub(crate) fn derived(key: &PresharedKey, context: &str, more: &[u8]) -> Self {
        let mut bytes = [0; 16];
        key.derive(context, more, &mut bytes);
        SessionKey { key: Gcm::new(&bytes), encrypts: key.encrypts }
    }

    fn nonce(number: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        nonce
    }

    /// The tag of bytes that stay readable.
    pub(crate) fn tag(&self, number: u64, bytes: &[u8]) -> [u8; TAG_LEN] {
        self.key.seal(Self::nonce(number), bytes, &mut [])
    }

    /// Appends the tag of a message whose head has that length; what follows the head is encrypted if the key does so.
    pub(crate) fn seal(&self, number: u64, start: usize, head: usize, out: &mut Vec<u8>) {
        let tag = if self.encrypts {
            let (head, body) = out[start..].split_at_mut(head);
            self.key.seal(Self::nonce(number), head, body)
        } else {
            self.tag(number, &out[start..])
        };
        out.extend_from_slice(&tag);
    }

    /// Verifies a message, without its tag, whose head has that length. Gives back what it says: the message itself, or, if
    /// the key encrypts, what it is decrypted to in `plain`.
    pub(crate) fn open<'a>(
        &self,
        number: u64,
        head: usize,
        message: &'a [u8],
        tag: &[u8; TAG_LEN],
        plain: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let nonce = Self::nonce(number);
        if !self.encrypts {
            return self.key.open(nonce, message, &mut { *tag }).then_some(message);
        }
        plain.clear();
        plain.extend_from_slice(message);
        plain.extend_from_slice(tag);
        let (head, body) = plain.split_at_mut_checked(head)?;
        if !self.key.open(nonce, head, body) {
            return None;
        }
        plain.truncate(message.len());
        Some(plain)
    }
}

/// Numbers and seals what a session sends.
#[derive(Debug)]
pub(crate) struct Sealer {
    session: SessionId,
    key: SessionKey,
    next: u64,
}

impl Sealer {
    pub(crate) fn new(key: &PresharedKey, session: SessionId) -> Self {
        Sealer { session, key: SessionKey::new(key, session), next: 0 }
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// The number of the next datagram.
    pub(crate) fn number(&self) -> u64 {
        self.next
    }

    /// Completes the datagram that begins there and has this number.
    pub(crate) fn seal(&mut self, start: usize, out: &mut Vec<u8>) {
        self.key.seal(self.next, start, HEADER_LEN, out);
        self.next += 1;
    }
}

/// Completes a datagram of which only the first twelve bytes are there: session, time stamp 0, number,
/// `rest`, tag. For tests of what holders of the key could send.
#[doc(hidden)]
pub fn seal_datagram(
    key: &PresharedKey,
    session: SessionId,
    number: u64,
    datagram: &mut Vec<u8>,
    rest: &[u8],
) {
    datagram.extend_from_slice(&session.to_bytes());
    datagram.extend_from_slice(&[0; 2]);
    datagram.extend_from_slice(&number.to_be_bytes()[2..]);
    datagram.extend_from_slice(rest);
    SessionKey::new(key, session).seal(number, 0, HEADER_LEN, datagram);
}

/// Verifies what the peer sends.
#[derive(Debug)]
pub(crate) struct Verifier {
    key: PresharedKey,
    own: SessionId,
    peer: Option<Peer>,
}

#[derive(Debug)]
struct Peer {
    session: SessionId,
    key: SessionKey,
    seen: Seen,
}

impl Verifier {
    /// `own` is the session of this end, whose datagrams somebody might send back.
    pub(crate) fn new(key: &PresharedKey, own: SessionId) -> Self {
        Verifier { key: key.clone(), own, peer: None }
    }

    /// The peer's session, once it was heard.
    pub(crate) fn peer(&self) -> Option<SessionId> {
        self.peer.as_ref().map(|peer| peer.session)
    }

    /// Takes a session for the peer's that has named no one.
    pub(crate) fn believe(&mut self, session: SessionId) {
        let key = SessionKey::new(&self.key, session);
        self.peer = Some(Peer { session, key, seen: Seen::new() });
    }

    /// Whether a number is the highest that was heard of the peer's session.
    pub(crate) fn is_newest(&self, number: u64) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.seen.end == number + 1)
    }

    /// Reads a datagram, without its tag, if it is the peer's, and new. What is decrypted goes to `plain`. A session that is
    /// newer than the peer's takes its place if what it says, verified, shows that it is the peer's: by `shows`.
    pub(crate) fn open<'a>(
        &mut self,
        session: SessionId,
        number: u64,
        bytes: &'a [u8],
        tag: &[u8; TAG_LEN],
        plain: &'a mut Vec<u8>,
        shows: impl FnOnce(&[u8]) -> bool,
    ) -> Result<&'a [u8], DropReason> {
        if session == self.own {
            return Err(DropReason::Reflected);
        }
        match &mut self.peer {
            Some(peer) if peer.session == session => {
                if !peer.seen.is_new(number) {
                    return Err(DropReason::Replayed);
                }
                let opened = peer.key.open(number, HEADER_LEN, bytes, tag, plain);
                let bytes = opened.ok_or(DropReason::Forged)?;
                peer.seen.add(number);
                Ok(bytes)
            }
            Some(peer) if session < peer.session => Err(DropReason::OldSession),
            _ => {
                let key = SessionKey::new(&self.key, session);
                let opened = key.open(number, HEADER_LEN, bytes, tag, plain);
                let bytes = opened.ok_or(DropReason::Forged)?;
                if !shows(bytes) {
                    return Err(DropReason::Unconfirmed);
                }
                // What it said before may have been recorded before this end began.
                self.peer = Some(Peer { session, key, seen: Seen::up_to(number) });
                Ok(bytes)
            }
        }
    }
}

/// Which of the newest numbers were seen (RFC 4303 §3.4.3 has the method).
#[derive(Debug)]
struct Seen {
    /// One more than the newest.
    end: u64,
    /// By number, modulo the window.
    bits: [u64; WORDS],
}

impl Seen {
    fn new() -> Self {
        Seen { end: 0, bits: [0; WORDS] }
    }

    /// All numbers were seen up to that one.
    fn up_to(number: u64) -> Self {
        Seen { end: number + 1, bits: [u64::MAX; WORDS] }
    }

    fn is_new(&self, number: u64) -> bool {
        if number >= self.end {
            return number < u64::MAX;
        }
        self.end - number <= REPLAY_WINDOW && self.bits[word(number)] & bit(number) == 0
    }

    fn add(&mut self, number: u64) {
        if number >= self.end {
            let skipped = number - self.end;
            if skipped >= REPLAY_WINDOW {
                self.bits = [0; WORDS];
            } else {
                for between in self.end..number {
                    self.bits[word(between)] &= !bit(between);
                }
            }
            self.end = number + 1;
        }
        self.bits[word(number)] |= bit(number);
    }
}

fn word(number: u64) -> usize {
    (number / 64) as usize % WORDS
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_number_is_taken_once_and_no_old_one(
            steps in proptest::collection::vec((0_u64..3_000, any::<bool>()), 1..400),
        ) {
            let mut seen = Seen::new();
            let mut model = BTreeSet::new();
            let mut base = 0;
            for (step, forward) in steps {
                let number = if forward { base + step } else { base.saturating_sub(step) };
                base = base.max(number);
                let newest = model.last().copied();
                let fresh = !model.contains(&number)
                    && newest.is_none_or(|newest: u64| number + REPLAY_WINDOW > newest);
                prop_assert_eq!(seen.is_new(number), fresh, "{} after {:?}", number, newest);
                if fresh {
                    seen.add(number);
                    model.insert(number);
                }
            }
        }
    }
}
