//! Authentication of datagrams: keys, sessions, tags and replay protection.
//!
//! Every datagram carries its sender's session and a number, and a tag over all of it: GMAC, which
//! is AES-128-GCM with nothing to encrypt (NIST SP 800-38D §3). A session is one life of an
//! appliance. Its key is derived from the pre-shared key and the session's id, so that numbers may
//! start anew with each; of the sessions heard only the newest is believed, so that nothing of an
//! older one can be played again.

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::drop_reason::DropReason;

/// Length of a pre-shared key \[bytes\].
pub const KEY_LEN: usize = 32;
/// Length of a datagram's tag \[bytes\].
pub const TAG_LEN: usize = 16;
/// How far datagrams may overtake each other \[datagrams\]: a repair that comes later is of no use.
const REPLAY_WINDOW: u64 = 1_024;
const WORDS: usize = REPLAY_WINDOW as usize / 64;

/// The secret that both appliances of a pair were given.
#[derive(Clone)]
pub struct PresharedKey([u8; KEY_LEN]);

impl PresharedKey {
    /// A key of these bytes, which should come from a generator of random numbers.
    pub fn new(bytes: [u8; KEY_LEN]) -> Self {
        PresharedKey(bytes)
    }

    /// The key of one partition of so many: datagrams of another, or of a pair that cuts otherwise,
    /// are strangers'. A single partition has the key itself.
    pub fn for_partition(&self, partition: u8, partitions: u8) -> Self {
        if partitions == 1 {
            return self.clone();
        }
        let mut key = [0; KEY_LEN];
        self.derive("wellspring maelstrom 1 partition", &[partition, partitions], &mut key);
        PresharedKey(key)
    }

    /// The key of messages between the appliances of one site.
    pub(crate) fn for_site(&self, site: &[u8]) -> Self {
        let mut key = [0; KEY_LEN];
        self.derive("wellspring maelstrom 1 site", site, &mut key);
        PresharedKey(key)
    }

    /// The key of bundles.
    pub(crate) fn for_bundles(&self) -> Self {
        let mut key = [0; KEY_LEN];
        self.derive("wellspring maelstrom 1 bundles", &[], &mut key);
        PresharedKey(key)
    }

    /// Fills `out` with bytes that only holders of the key can make, for one purpose.
    pub(crate) fn derive(&self, context: &str, more: &[u8], out: &mut [u8]) {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&self.0).update(more).finalize_xof().fill(out);
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
pub(crate) struct SessionKey(LessSafeKey);

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
        let key = UnboundKey::new(&AES_128_GCM, &bytes).expect("AES-128 keys have 16 bytes");
        SessionKey(LessSafeKey::new(key))
    }

    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    pub(crate) fn tag(&self, number: u64, bytes: &[u8]) -> [u8; TAG_LEN] {
        let tag = self
            .0
            .seal_in_place_separate_tag(Self::nonce(number), Aad::from(bytes), &mut [])
            .expect("datagrams are shorter than what GCM takes");
        tag.as_ref().try_into().expect("GCM's tags have 16 bytes")
    }

    pub(crate) fn verifies(&self, number: u64, bytes: &[u8], tag: &[u8; TAG_LEN]) -> bool {
        let mut tag = *tag;
        self.0.open_in_place(Self::nonce(number), Aad::from(bytes), &mut tag).is_ok()
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

    /// The tag of the datagram that has this number.
    pub(crate) fn seal(&mut self, datagram: &[u8]) -> [u8; TAG_LEN] {
        let tag = self.key.tag(self.next, datagram);
        self.next += 1;
        tag
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
    let tag = SessionKey::new(key, session).tag(number, datagram);
    datagram.extend_from_slice(&tag);
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

    /// Whether a datagram is the peer's, and new.
    pub(crate) fn verify(
        &mut self,
        session: SessionId,
        number: u64,
        datagram: &[u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), DropReason> {
        if session == self.own {
            return Err(DropReason::Reflected);
        }
        match &mut self.peer {
            Some(peer) if peer.session == session => {
                if !peer.seen.is_new(number) {
                    return Err(DropReason::Replayed);
                }
                if !peer.key.verifies(number, datagram, tag) {
                    return Err(DropReason::Forged);
                }
                peer.seen.add(number);
                Ok(())
            }
            Some(peer) if session < peer.session => Err(DropReason::OldSession),
            _ => {
                let key = SessionKey::new(&self.key, session);
                if !key.verifies(number, datagram, tag) {
                    return Err(DropReason::Forged);
                }
                let mut seen = Seen::new();
                seen.add(number);
                self.peer = Some(Peer { session, key, seen });
                Ok(())
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
