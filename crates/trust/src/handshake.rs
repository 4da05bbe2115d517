//! Handshakes: Noise IK between pinned keys, `NNpsk0` between members of a cluster.
//!
//! Both take one round trip, and the first message carries a request. Message 1 is authentic, and can be played
//! again: what it carries must change nothing. What follows cannot, since the keys need both ephemeral keys.

use snow::{Builder, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

use crate::channel::{Channel, ChannelId};
use crate::direction::Suite;
use crate::key::{ClusterKey, PrivateKey, PublicKey};
use crate::layout::{
    COOKIE_AT, COOKIE_LEN, INITIATION, INITIATION_LEN, MAX_INITIATION_LEN, MEDIUM_AT, MESSAGE_AT,
    RESPONSE, begin, id_of,
};
use crate::messages::{Opener, Sealer, ends};

/// What the two hosts mean by it.
const PROLOGUE: &[u8] = b"wellspring trust 1";
const HEAD_LEN: usize = 16;
/// Bytes by which a Noise message can be longer than its payload, for either pattern.
const MAX_NOISE: usize = 32 + 48 + 16;

/// The patterns, by their number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Pattern {
    Pinned = 0,
    Cluster = 1,
}

/// What the keys of a handshake are for. It is part of the prologue, so a handshake for one is none for the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Medium {
    Datagrams = 0,
    Stream = 1,
}

impl Pattern {
    fn builder<'a>(self) -> Builder<'a> {
        let name = match self {
            Pattern::Pinned => "Noise_IK_25519_ChaChaPoly_BLAKE2s",
            Pattern::Cluster => "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s",
        };
        Builder::new(name.parse().expect("a pattern of Noise"))
    }
}

/// Why a responder refuses a handshake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refusal {
    /// The initiator's key is not trusted.
    NotTrusted = 1,
    /// It was not meant for a key of the responder: another host, or another cluster key.
    WrongKey = 2,
    /// The responder runs without keys.
    NoKeys = 3,
    /// Another host is in conversation from the same address.
    AddressInUse = 4,
}

impl Refusal {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Refusal::NotTrusted, Refusal::WrongKey, Refusal::NoKeys, Refusal::AddressInUse]
            .into_iter()
            .find(|reason| *reason as u8 == number)
    }
}

/// The side that begins: a client.
pub struct Initiator {
    state: HandshakeState,
    suite: Suite,
    datagram: Vec<u8>,
}

impl Initiator {
    /// Greets the owner of `server`; `None` if the request is too long.
    pub fn pinned(
        own: &PrivateKey,
        server: &PublicKey,
        suite: Suite,
        id: u64,
        request: &[u8],
    ) -> Option<Self> {
        Self::pinned_for(Medium::Datagrams, (own, server), suite, id, request)
    }

    pub(crate) fn pinned_for(
        medium: Medium,
        (own, server): (&PrivateKey, &PublicKey),
        suite: Suite,
        id: u64,
        request: &[u8],
    ) -> Option<Self> {
        let head = head(Pattern::Pinned, medium, suite, id, request)?;
        let prologue = prologue(&head);
        let builder = Pattern::Pinned.builder().local_private_key(own.secret()).ok()?;
        let builder = builder.remote_public_key(&server.0).ok()?.prologue(&prologue).ok()?;
        Self::begin(builder.build_initiator().ok()?, suite, head, request)
    }

    /// Greets a member of a cluster; `None` if the request is too long.
    pub fn cluster(key: &ClusterKey, suite: Suite, id: u64, request: &[u8]) -> Option<Self> {
        Self::cluster_for(Medium::Datagrams, key, suite, id, request)
    }

    pub(crate) fn cluster_for(
        medium: Medium,
        key: &ClusterKey,
        suite: Suite,
        id: u64,
        request: &[u8],
    ) -> Option<Self> {
        let head = head(Pattern::Cluster, medium, suite, id, request)?;
        let prologue = prologue(&head);
        let builder =
            Pattern::Cluster.builder().psk(0, key.secret()).ok()?.prologue(&prologue).ok()?;
        Self::begin(builder.build_initiator().ok()?, suite, head, request)
    }

    fn begin(
        mut state: HandshakeState,
        suite: Suite,
        head: [u8; HEAD_LEN],
        request: &[u8],
    ) -> Option<Self> {
        let mut datagram = vec![0; MESSAGE_AT + request.len() + MAX_NOISE];
        datagram[..HEAD_LEN].copy_from_slice(&head);
        let len = state.write_message(request, &mut datagram[MESSAGE_AT..]).ok()?;
        datagram.truncate(MESSAGE_AT + len);
        datagram.resize(datagram.len().max(INITIATION_LEN), 0);
        Some(Initiator { state, suite, datagram })
    }

    /// The datagram to send, and to send again until there is an answer.
    pub fn datagram(&self) -> &[u8] {
        &self.datagram
    }

    pub(crate) fn set_cookie(&mut self, cookie: &[u8; COOKIE_LEN]) {
        self.datagram[COOKIE_AT..COOKIE_AT + COOKIE_LEN].copy_from_slice(cookie);
    }

    /// Takes in a response; `None` if it is none to this. Others may follow: a forged one does no harm.
    pub fn finish(&mut self, response: &[u8]) -> Option<Channel> {
        let suite = self.read_response(response)?;
        Some(channel(&mut self.state, suite))
    }

    /// As [`finish`](Self::finish), of a handshake over a stream; the first response must be the right one.
    pub(crate) fn finish_stream(mut self, response: &[u8]) -> Option<(Sealer, Opener)> {
        self.read_response(response)?;
        ends(self.state)
    }

    fn read_response(&mut self, response: &[u8]) -> Option<Suite> {
        let mut payload = [0; 64];
        let message = response.strip_prefix(&begin(RESPONSE, id_of(&self.datagram)?))?;
        let len = self.state.read_message(message, &mut payload).ok()?;
        Suite::from_number(*payload[..len].first()?)
            .filter(|suite| self.suite.agreed(*suite) == *suite)
    }
}

/// An initiation, read by the side that answers: a server.
pub struct Responder {
    state: HandshakeState,
    suite: Suite,
    id: u64,
    /// The key that the initiator has shown; `None` for a member of the cluster.
    pub initiator: Option<PublicKey>,
    /// The request that came with it: it may be a replay.
    pub request: Vec<u8>,
}

impl Responder {
    /// Reads an initiation for the owner of a key.
    pub fn pinned(own: &PrivateKey, datagram: &[u8]) -> Option<Self> {
        Self::pinned_for(Medium::Datagrams, own, datagram)
    }

    pub(crate) fn pinned_for(medium: Medium, own: &PrivateKey, datagram: &[u8]) -> Option<Self> {
        let builder = Pattern::Pinned.builder().local_private_key(own.secret()).ok()?;
        Self::read(builder, (Pattern::Pinned, medium), datagram)
    }

    /// Reads an initiation for members of a cluster.
    pub fn cluster(key: &ClusterKey, datagram: &[u8]) -> Option<Self> {
        Self::cluster_for(Medium::Datagrams, key, datagram)
    }

    pub(crate) fn cluster_for(medium: Medium, key: &ClusterKey, datagram: &[u8]) -> Option<Self> {
        let builder = Pattern::Cluster.builder().psk(0, key.secret()).ok()?;
        Self::read(builder, (Pattern::Cluster, medium), datagram)
    }

    fn read(
        builder: Builder<'_>,
        (pattern, medium): (Pattern, Medium),
        datagram: &[u8],
    ) -> Option<Self> {
        let head: &[u8; HEAD_LEN] =
            datagram.first_chunk().filter(|head| head[MEDIUM_AT] == medium as u8)?;
        let message = message_of(datagram).filter(|_| pattern_of(datagram) == Some(pattern))?;
        let suite = Suite::from_number(head[2])?;
        let mut state = builder.prologue(&prologue(head)).ok()?.build_responder().ok()?;
        let mut request = vec![0; message.len()];
        let len = state.read_message(message, &mut request).ok()?;
        request.truncate(len);
        let initiator =
            state.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey);
        Some(Responder { state, suite, id: id_of(datagram)?, initiator, request })
    }

    /// Answers: the datagram to send, and the channel that is there once the initiator has it.
    pub fn finish(mut self, suite: Suite) -> Option<(Vec<u8>, Channel)> {
        let (response, suite) = self.write_response(suite)?;
        Some((response, channel(&mut self.state, suite)))
    }

    /// As [`finish`](Self::finish), of a handshake over a stream.
    pub(crate) fn finish_stream(mut self, suite: Suite) -> Option<(Vec<u8>, Sealer, Opener)> {
        let (response, _) = self.write_response(suite)?;
        let (sealer, opener) = ends(self.state)?;
        Some((response, sealer, opener))
    }

    fn write_response(&mut self, suite: Suite) -> Option<(Vec<u8>, Suite)> {
        let suite = suite.agreed(self.suite);
        let mut response = vec![0; HEAD_LEN + 1 + MAX_NOISE];
        response[..HEAD_LEN].copy_from_slice(&begin(RESPONSE, self.id));
        let len = self.state.write_message(&[suite as u8], &mut response[HEAD_LEN..]).ok()?;
        response.truncate(HEAD_LEN + len);
        Some((response, suite))
    }
}

/// The pattern that an initiation names.
pub(crate) fn pattern_of(datagram: &[u8]) -> Option<Pattern> {
    [Pattern::Pinned, Pattern::Cluster]
        .into_iter()
        .find(|pattern| datagram.get(1) == Some(&(*pattern as u8)))
}

/// The Noise message in an initiation, which begins with the ephemeral key.
pub(crate) fn message_of(datagram: &[u8]) -> Option<&[u8]> {
    if !(INITIATION_LEN..=MAX_INITIATION_LEN).contains(&datagram.len()) {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([datagram[3], datagram[4]]));
    datagram[MESSAGE_AT..].get(..len)
}

fn head(
    pattern: Pattern,
    medium: Medium,
    suite: Suite,
    id: u64,
    request: &[u8],
) -> Option<[u8; HEAD_LEN]> {
    let noise = match pattern {
        Pattern::Pinned => 32 + 48 + 16,
        Pattern::Cluster => 32 + 16,
    };
    let len = request.len() + noise;
    if MESSAGE_AT + len > MAX_INITIATION_LEN {
        return None;
    }
    let mut head = begin(INITIATION, id);
    head[1] = pattern as u8;
    head[2] = suite as u8;
    head[3..5].copy_from_slice(&u16::try_from(len).ok()?.to_be_bytes());
    head[MEDIUM_AT] = medium as u8;
    Some(head)
}

fn prologue(head: &[u8; HEAD_LEN]) -> Vec<u8> {
    [PROLOGUE, head].concat()
}

/// The channel that a finished handshake leaves. Its keys come from the chaining key, as Noise's own transport keys
/// do (`Split`, Noise §5.2): the handshake hash is no secret, and only names the channel.
fn channel(state: &mut HandshakeState, suite: Suite) -> Channel {
    let (mut ours, mut theirs) = state.dangerously_get_raw_split();
    if !state.is_initiator() {
        std::mem::swap(&mut ours, &mut theirs);
    }
    let (ours, theirs) = (Zeroizing::new(take(&mut ours)), Zeroizing::new(take(&mut theirs)));
    let name = blake3::derive_key("wellspring trust 1 channel id", state.get_handshake_hash());
    let [a, b, c, d, e, f, g, h, ..] = name;
    let id = ChannelId(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
    Channel::new(suite, id, &ours, &theirs)
}

fn take(bytes: &mut [u8; 32]) -> [u8; 32] {
    let taken = *bytes;
    bytes.zeroize();
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::{MAX_OVERHEAD, Plain, Shape};

    const AES: Suite = Suite::Aes128Gcm;

    fn speaks(a: &mut Channel, b: &mut Channel) -> bool {
        let mut room = [5; 100 + MAX_OVERHEAD];
        let len = a.seal(&mut room, 100, 0).expect("room");
        let mut plain = [0; 200];
        b.open(&room[..len], Shape { clear: 0, len: 100 }, &mut plain) == Ok(Plain::Whole(100))
    }

    #[test]
    fn pinned_keys_meet_and_the_request_comes_along() {
        let (client, server) = (PrivateKey::generate(), PrivateKey::generate());
        let mut initiator =
            Initiator::pinned(&client, &server.public(), AES, 7, b"what?").expect("short");
        let responder = Responder::pinned(&server, initiator.datagram()).expect("for it");
        assert_eq!(
            (responder.initiator, &responder.request[..]),
            (Some(client.public()), &b"what?"[..])
        );
        let (response, mut theirs) = responder.finish(AES).expect("an answer");
        assert!(
            response.len() + 256 + MAX_OVERHEAD <= initiator.datagram().len(),
            "no amplification"
        );
        let mut forged = response.clone();
        forged[20] ^= 1;
        assert!(initiator.finish(&forged).is_none());
        let mut ours =
            initiator.finish(&response).expect("a channel, in spite of the forged answer");
        assert_eq!((ours.id(), ours.suite()), (theirs.id(), AES));
        assert!(speaks(&mut ours, &mut theirs) && speaks(&mut theirs, &mut ours));
    }

    #[test]
    fn a_cluster_key_is_all_that_members_need_and_others_lack_it() {
        let (key, other) = (ClusterKey::generate(), ClusterKey::generate());
        let mut initiator =
            Initiator::cluster(&key, Suite::ChaCha20Poly1305, 7, b"what?").expect("short");
        assert!(Responder::cluster(&other, initiator.datagram()).is_none());
        let responder = Responder::cluster(&key, initiator.datagram()).expect("for it");
        let (response, mut theirs) = responder.finish(AES).expect("an answer");
        let mut ours = initiator.finish(&response).expect("a channel");
        assert_eq!(ours.suite(), Suite::ChaCha20Poly1305, "the initiator has no other");
        assert!(speaks(&mut ours, &mut theirs) && speaks(&mut theirs, &mut ours));
    }

    #[test]
    fn nobody_else_can_read_an_initiation_or_change_it() {
        let (client, server) = (PrivateKey::generate(), PrivateKey::generate());
        let initiator =
            Initiator::pinned(&client, &server.public(), AES, 7, b"what?").expect("short");
        assert!(Responder::pinned(&PrivateKey::generate(), initiator.datagram()).is_none());
        let sealed = MESSAGE_AT + 96 + 5;
        for at in (0..COOKIE_AT).chain(MESSAGE_AT..sealed) {
            let mut changed = initiator.datagram().to_vec();
            changed[at] ^= 1;
            // Kind and length are seen by whoever hands it over, or fail here.
            assert!(at == 0 || Responder::pinned(&server, &changed).is_none(), "byte {at}");
        }
    }

    #[test]
    fn each_handshake_has_keys_of_its_own() {
        let (client, server) = (PrivateKey::generate(), PrivateKey::generate());
        let initiator =
            Initiator::pinned(&client, &server.public(), AES, 7, b"what?").expect("short");
        // The same initiation, answered twice: a replay gets a channel that the first one does not open.
        let answer = || Responder::pinned(&server, initiator.datagram())?.finish(AES);
        let ((_, mut first), (_, mut second)) =
            (answer().expect("a channel"), answer().expect("a channel"));
        assert_ne!(first.id(), second.id());
        assert!(!speaks(&mut first, &mut second));
    }
}
