//! Trunk protocol of split mode between appliances over TCP (§4.2), without I/O.
//!
//! A *trunk* is a TCP connection between the two appliances that carries one relayed connection at a
//! time, in frames. It begins with a greeting each way, a nonce, from which each direction's key
//! follows; every frame has a tag under that key and its number, so that nobody on the way can add,
//! change, repeat or drop one unnoticed. When a connection has ended both ways the trunk is free for
//! the next one, which finds its window open.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | kind: 1 ready, 2 open, 3 data, 4 end |
//! | 1 | zero |
//! | 2 | length of what follows |
//! | n | open: the two ends, 19 bytes each: 4 or 6, 16 bytes of address, port; data: bytes |
//! | 16 | tag |
//!
//! With a key that encrypts what follows the length is encrypted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::auth::{PresharedKey, SessionKey, TAG_LEN};

/// Length of a greeting \[bytes\].
pub const GREETING_LEN: usize = 24;
/// Most bytes of a connection in one frame.
pub const MAX_TRUNK_DATA: usize = 16 << 10;
/// Longest frame \[bytes\].
pub const MAX_TRUNK_FRAME: usize = HEAD_LEN + MAX_TRUNK_DATA + TAG_LEN;

const MAGIC: [u8; 8] = *b"wsTrunk1";
const HEAD_LEN: usize = 4;
const END_LEN: usize = 19;
const READY: u8 = 1;
const OPEN: u8 = 2;
const DATA: u8 = 3;
const END: u8 = 4;

/// What a frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrunkFrame<'a> {
    /// The first one each way: whoever sent it has the key.
    Ready,
    /// A connection begins: its source and its destination.
    Open {
        /// Who connects.
        from: SocketAddr,
        /// Its destination.
        to: SocketAddr,
    },
    /// Bytes of the connection.
    Data(&'a [u8]),
    /// No more bytes come this way.
    End,
}

/// Why a trunk is of no use any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TrunkError {
    /// It does not begin as a trunk does.
    Greeting,
    /// A tag is wrong: changed on the way, or the other end does not know the key.
    Forged,
    /// Verified, but it makes no sense.
    Malformed,
}

impl fmt::Display for TrunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrunkError::Greeting => "no appliance's greeting",
            TrunkError::Forged => "a frame with a wrong tag: another key?",
            TrunkError::Malformed => "a frame that makes no sense",
        })
    }
}

impl std::error::Error for TrunkError {}

/// The greeting that carries a nonce, which must be new and random.
pub fn trunk_greeting(nonce: [u8; 16]) -> [u8; GREETING_LEN] {
    let mut greeting = [0; GREETING_LEN];
    greeting[..8].copy_from_slice(&MAGIC);
    greeting[8..].copy_from_slice(&nonce);
    greeting
}

/// Both directions of a trunk, once both greetings are there: what to seal with, and what to open
/// with. `ours` is the greeting this end sent, `caller` whether it began the connection.
///
/// # Errors
/// The other end's greeting is none.
pub fn trunk(
    key: &PresharedKey,
    ours: &[u8; GREETING_LEN],
    theirs: &[u8; GREETING_LEN],
    caller: bool,
) -> Result<(TrunkSealer, TrunkOpener), TrunkError> {
    if theirs[..8] != MAGIC {
        return Err(TrunkError::Greeting);
    }
    let (first, second) = if caller { (ours, theirs) } else { (theirs, ours) };
    let direction = |of_caller: bool| {
        let more = [&first[..], &second[..], &[u8::from(of_caller)]].concat();
        SessionKey::derived(key, "wellspring maelstrom 1 trunk", &more)
    };
    let sealer = TrunkSealer { key: direction(caller), next: 0 };
    let opener = TrunkOpener { key: direction(!caller), next: 0, plain: Vec::new() };
    Ok((sealer, opener))
}

/// Makes one direction's frames.
#[derive(Debug)]
pub struct TrunkSealer {
    key: SessionKey,
    next: u64,
}

impl TrunkSealer {
    /// Appends a frame to `out`.
    ///
    /// # Panics
    /// If data is longer than [`MAX_TRUNK_DATA`].
    pub fn seal(&mut self, frame: &TrunkFrame<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_LEN]);
        let kind = match frame {
            TrunkFrame::Ready => READY,
            TrunkFrame::Open { from, to } => {
                out.extend_from_slice(&emit_address(*from));
                out.extend_from_slice(&emit_address(*to));
                OPEN
            }
            TrunkFrame::Data(bytes) => {
                assert!(bytes.len() <= MAX_TRUNK_DATA, "{} bytes in a frame", bytes.len());
                out.extend_from_slice(bytes);
                DATA
            }
            TrunkFrame::End => END,
        };
        let len = (out.len() - start - HEAD_LEN) as u16;
        out[start] = kind;
        out[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
        self.key.seal(self.next, start, HEAD_LEN, out);
        self.next += 1;
    }
}

/// Reads one direction's frames.
#[derive(Debug)]
pub struct TrunkOpener {
    key: SessionKey,
    next: u64,
    /// Memory of what is decrypted.
    plain: Vec<u8>,
}

impl TrunkOpener {
    /// The frame that these bytes begin with, and its length; none as long as it is not whole.
    ///
    /// # Errors
    /// The trunk is of no use any more.
    pub fn open<'a>(
        &'a mut self,
        bytes: &'a [u8],
    ) -> Result<Option<(TrunkFrame<'a>, usize)>, TrunkError> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_LEN>() else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        // Checked before waiting for bytes that are not authenticated.
        if len > MAX_TRUNK_DATA {
            return Err(TrunkError::Malformed);
        }
        let Some((_, rest)) = rest.split_at_checked(len) else { return Ok(None) };
        let Some(tag) = rest.first_chunk::<TAG_LEN>() else { return Ok(None) };
        let message = &bytes[..HEAD_LEN + len];
        let opened = self.key.open(self.next, HEAD_LEN, message, tag, &mut self.plain);
        let body = &opened.ok_or(TrunkError::Forged)?[HEAD_LEN..];
        self.next += 1;
        let frame = match (head[0], len) {
            (READY, 0) => TrunkFrame::Ready,
            (END, 0) => TrunkFrame::End,
            (DATA, 1..) => TrunkFrame::Data(body),
            (OPEN, _) => parse_open(body).ok_or(TrunkError::Malformed)?,
            _ => return Err(TrunkError::Malformed),
        };
        Ok(Some((frame, HEAD_LEN + len + TAG_LEN)))
    }
}

fn emit_address(address: SocketAddr) -> [u8; END_LEN] {
    let mut bytes = [0; END_LEN];
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes[0] = 4;
            bytes[1..5].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes[0] = 6;
            bytes[1..17].copy_from_slice(&ip.octets());
        }
    }
    bytes[17..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

fn parse_address(bytes: &[u8; END_LEN]) -> Option<SocketAddr> {
    let octets: [u8; 16] = *bytes[1..].first_chunk()?;
    let ip = match bytes[0] {
        4 => IpAddr::V4(Ipv4Addr::from(*octets.first_chunk::<4>()?)),
        6 => IpAddr::V6(Ipv6Addr::from(octets)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes([bytes[17], bytes[18]])))
}

fn parse_open(body: &[u8]) -> Option<TrunkFrame<'_>> {
    let [from, to] = body.as_chunks::<END_LEN>().0 else { return None };
    let same = body.len() == 2 * END_LEN && from[0] == to[0];
    let (from, to) = (parse_address(from)?, parse_address(to)?);
    same.then_some(TrunkFrame::Open { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::KEY_LEN;
    use proptest::prelude::*;

    fn pair(keys: [u8; 2]) -> [(TrunkSealer, TrunkOpener); 2] {
        let [a, b] = keys.map(|byte| PresharedKey::new([byte; KEY_LEN]));
        let (ga, gb) = (trunk_greeting([1; 16]), trunk_greeting([2; 16]));
        [trunk(&a, &ga, &gb, true).expect("one"), trunk(&b, &gb, &ga, false).expect("one")]
    }

    #[test]
    fn frames_arrive_as_they_were_sent_whatever_pieces_they_come_in() {
        let [(mut sealer, _), (_, mut opener)] = pair([1, 1]);
        let data = vec![7; MAX_TRUNK_DATA];
        let (from, to) = ("10.1.0.2:999", "10.2.0.2:80");
        let (from6, to6) = ("[fd01::2]:999", "[fd02::2]:80");
        let parse = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let frames = [
            TrunkFrame::Ready,
            TrunkFrame::Open { from: parse(from), to: parse(to) },
            TrunkFrame::Data(&data),
            TrunkFrame::End,
            TrunkFrame::Open { from: parse(from6), to: parse(to6) },
            TrunkFrame::Data(b"x"),
        ];
        for frame in frames {
            let mut bytes = Vec::new();
            sealer.seal(&frame, &mut bytes);
            assert!(bytes.len() <= MAX_TRUNK_FRAME);
            for cut in (0..bytes.len()).step_by(bytes.len() / 19 + 1) {
                assert_eq!(opener.open(&bytes[..cut]), Ok(None));
            }
            let len = bytes.len();
            bytes.extend([1, 2, 3]);
            assert_eq!(opener.open(&bytes), Ok(Some((frame, len))));
        }
    }

    #[test]
    fn strangers_replays_reflections_and_gaps_are_refused() {
        let mut ready = Vec::new();
        let [(mut sealer, mut own), (_, mut opener)] = pair([1, 1]);
        sealer.seal(&TrunkFrame::Ready, &mut ready);
        assert_eq!(own.open(&ready), Err(TrunkError::Forged), "what one said oneself");
        assert!(opener.open(&ready).is_ok());
        assert_eq!(opener.open(&ready), Err(TrunkError::Forged), "heard before");
        let mut end = Vec::new();
        sealer.seal(&TrunkFrame::Data(b"lost"), &mut Vec::new());
        sealer.seal(&TrunkFrame::End, &mut end);
        assert_eq!(opener.open(&end), Err(TrunkError::Forged), "one before it is missing");
        let [(mut sealer, _), (_, mut opener)] = pair([1, 2]);
        ready.clear();
        sealer.seal(&TrunkFrame::Ready, &mut ready);
        assert_eq!(opener.open(&ready), Err(TrunkError::Forged), "another key");
        let key = PresharedKey::new([1; KEY_LEN]);
        let greeting = trunk_greeting([0; 16]);
        assert!(trunk(&key, &greeting, &[0; GREETING_LEN], true).is_err());
    }

    proptest! {
        #[test]
        fn garbage_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let [_, (_, mut opener)] = pair([1, 1]);
            prop_assert!(!matches!(opener.open(&bytes), Ok(Some(_))));
        }

        #[test]
        fn sealed_nonsense_is_refused(kind: u8, body in proptest::collection::vec(any::<u8>(), 0..64)) {
            let [(sealer, _), (_, mut opener)] = pair([1, 1]);
            let mut bytes = vec![kind, 0, 0, body.len() as u8];
            bytes.extend(&body);
            let tag = sealer.key.tag(0, &bytes);
            bytes.extend(tag);
            match opener.open(&bytes) {
                Ok(Some((TrunkFrame::Data(data), len))) => {
                    prop_assert_eq!((data, len), (&body[..], bytes.len()));
                }
                Ok(Some((TrunkFrame::Open { .. }, _))) => prop_assert_eq!(body.len(), 38),
                Ok(Some(_)) => prop_assert!(body.is_empty()),
                other => prop_assert_eq!(other, Err(TrunkError::Malformed)),
            }
        }
    }
}
