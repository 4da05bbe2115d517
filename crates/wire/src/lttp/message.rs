//! The messages of LTTP's control channel to bytes and back.

use super::{Cookie, Geometry};
use crate::ParseError;
use crate::bytes::Reader;
use crate::control::{MAX_NAME_LEN, MAX_TEXT_LEN, Name, RefusalCode};
use alloc::vec::Vec;

/// Bytes before a message's body.
pub const HEADER_LEN: usize = 4;
/// A request without its name \[bytes\].
const REQUEST_LEN: usize = 32 + 8 + 8 + 6 + 4;
/// Longest body \[bytes\]: a request with the longest name.
pub const MAX_BODY_LEN: usize = REQUEST_LEN + MAX_NAME_LEN;

/// Longest content of an [`Envelope`] \[bytes\].
pub const MAX_ENVELOPE_LEN: usize = 1_400;

const VERSION: u8 = 2;
const _: () =
    assert!(MAX_TEXT_LEN < MAX_BODY_LEN && HEADER_LEN + MAX_BODY_LEN + 16 <= MAX_ENVELOPE_LEN);

/// What stands on the connection instead of messages where hosts have keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Envelope {
    /// A part of the handshake.
    Handshake = 8,
    /// A message with its header, sealed.
    Sealed = 9,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Client: send this part of an object. It is not empty, and ends within 64 bits.
    Request {
        /// The object.
        name: Name<'a>,
        /// The BLAKE3 digest that it must have.
        digest: [u8; 32],
        /// Where the part begins \[bytes\].
        offset: u64,
        /// How long it is \[bytes\].
        len: u64,
        /// How it is to be cut.
        geometry: Geometry,
        /// How long the client waits for a silent server, and asks the server to wait for it \[ms\];
        /// 0 leaves that to the server.
        timeout_ms: u32,
    },
    /// Server: the answer takes time, for the digest is being computed.
    Pending {
        /// Done so far \[bytes\].
        done: u64,
        /// Of how much \[bytes\].
        total: u64,
    },
    /// Server: it will be sent to whoever says hello with this.
    Granted {
        /// The session's.
        cookie: Cookie,
        /// Seed of the LT code.
        seed: u64,
    },
    /// Server: the hello has come, and this is what follows (LTTP §III-B).
    Parameters {
        /// Length of the part \[bytes\], 1 or more.
        transfer_len: u64,
        /// How it is cut.
        geometry: Geometry,
    },
    /// Client: the blocks below are complete.
    Stop {
        /// The first block still wanted.
        next: u32,
    },
    /// Server: the stop has come.
    Stopped {
        /// The stop's.
        next: u32,
    },
    /// Either: the session is over.
    Close,
    /// Server: no.
    Refused {
        /// Why, for programs.
        code: RefusalCode,
        /// Why, for people: at most [`MAX_TEXT_LEN`] bytes, no control characters.
        text: &'a str,
    },
}

impl Message<'_> {
    fn kind(&self) -> u8 {
        match self {
            Message::Request { .. } => 0,
            Message::Pending { .. } => 1,
            Message::Granted { .. } => 2,
            Message::Parameters { .. } => 3,
            Message::Stop { .. } => 4,
            Message::Stopped { .. } => 5,
            Message::Close => 6,
            Message::Refused { .. } => 7,
        }
    }
}

/// Writes a message behind what `out` holds. The text of a refusal is cut to [`MAX_TEXT_LEN`], and
/// control characters become spaces.
pub fn emit_message(message: &Message<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[(VERSION << 4) | message.kind(), 0, 0, 0]);
    match message {
        Message::Request { name, digest, offset, len, geometry, timeout_ms } => {
            out.extend_from_slice(digest);
            out.extend_from_slice(&offset.to_be_bytes());
            out.extend_from_slice(&len.to_be_bytes());
            put_geometry(geometry, out);
            out.extend_from_slice(&timeout_ms.to_be_bytes());
            out.extend_from_slice(name.as_str().as_bytes());
        }
        Message::Pending { done, total } => {
            out.extend_from_slice(&done.to_be_bytes());
            out.extend_from_slice(&total.to_be_bytes());
        }
        Message::Granted { cookie, seed } => {
            out.extend_from_slice(&cookie.0.to_be_bytes());
            out.extend_from_slice(&seed.to_be_bytes());
        }
        Message::Parameters { transfer_len, geometry } => {
            out.extend_from_slice(&transfer_len.to_be_bytes());
            put_geometry(geometry, out);
        }
        Message::Stop { next } | Message::Stopped { next } => {
            out.extend_from_slice(&next.to_be_bytes());
        }
        Message::Close => {}
        Message::Refused { code, text } => {
            out.push(*code as u8);
            put_text(text, out);
        }
    }
    let len = (out.len() - start - HEADER_LEN) as u16;
    out[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
}

fn put_geometry(geometry: &Geometry, out: &mut Vec<u8>) {
    out.extend_from_slice(&geometry.symbol_size.to_be_bytes());
    out.extend_from_slice(&geometry.block_symbols.to_be_bytes());
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    let mut left = MAX_TEXT_LEN;
    for char in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        let mut utf8 = [0; 4];
        let bytes = char.encode_utf8(&mut utf8).as_bytes();
        if bytes.len() > left {
            break;
        }
        left -= bytes.len();
        out.extend_from_slice(bytes);
    }
}

/// Writes an envelope behind what `out` holds.
///
/// # Panics
/// If the content is longer than [`MAX_ENVELOPE_LEN`].
pub fn emit_envelope(envelope: Envelope, content: &[u8], out: &mut Vec<u8>) {
    assert!(content.len() <= MAX_ENVELOPE_LEN, "the content's length");
    out.extend_from_slice(&[(VERSION << 4) | envelope as u8, 0]);
    out.extend_from_slice(&(content.len() as u16).to_be_bytes());
    out.extend_from_slice(content);
}

/// Reads an envelope's header: what it is, and the length of its content.
///
/// # Errors
/// Another version, a length that none has, and [`ParseError::UnknownKind`] for a message in clear.
pub fn envelope(header: [u8; HEADER_LEN]) -> Result<(Envelope, usize), ParseError> {
    let [first, reserved, len @ ..] = header;
    if first >> 4 != VERSION {
        return Err(ParseError::UnknownVersion(first >> 4));
    }
    let envelope = match first & 0x0f {
        8 => Envelope::Handshake,
        9 => Envelope::Sealed,
        kind => return Err(ParseError::UnknownKind(kind)),
    };
    if reserved != 0 {
        return Err(ParseError::BadField("reserved"));
    }
    let len = usize::from(u16::from_be_bytes(len));
    if len > MAX_ENVELOPE_LEN {
        return Err(ParseError::BadField("length"));
    }
    Ok((envelope, len))
}

/// Reads a message that is all of `bytes`, header and body.
///
/// # Errors
/// What it is not; see [`ParseError`].
pub fn parse_whole(bytes: &[u8]) -> Result<Message<'_>, ParseError> {
    let short = ParseError::TooShort { got: bytes.len(), needed: HEADER_LEN };
    let (header, body) = bytes.split_first_chunk().ok_or(short)?;
    let (kind, len) = message_kind(*header)?;
    if len != body.len() {
        return Err(ParseError::BadField("length"));
    }
    parse_message(kind, body)
}

/// Reads a message's header: its kind, to be given to [`parse_message`], and the length of its
/// body.
///
/// # Errors
/// Another version, a body that no message has.
pub fn message_kind(header: [u8; HEADER_LEN]) -> Result<(u8, usize), ParseError> {
    let [first, reserved, len @ ..] = header;
    if first >> 4 != VERSION {
        return Err(ParseError::UnknownVersion(first >> 4));
    }
    if reserved != 0 {
        return Err(ParseError::BadField("reserved"));
    }
    let len = usize::from(u16::from_be_bytes(len));
    if len > MAX_BODY_LEN {
        return Err(ParseError::BadField("length"));
    }
    Ok((first & 0x0f, len))
}

/// Reads a message's body, all of it.
///
/// # Errors
/// What it is not; see [`ParseError`].
pub fn parse_message(kind: u8, body: &[u8]) -> Result<Message<'_>, ParseError> {
    let mut reader = Reader::new(body);
    let message = match kind {
        0 => {
            let digest = reader.array()?;
            let (offset, len) = (reader.u64()?, reader.u64()?);
            if len == 0 || offset.checked_add(len).is_none() {
                return Err(ParseError::BadField("part"));
            }
            let (geometry, timeout_ms) = (take_geometry(&mut reader)?, reader.u32()?);
            let name = text(reader.take(body.len() - REQUEST_LEN)?)?;
            let name = Name::new(name).ok_or(ParseError::BadField("name"))?;
            Message::Request { name, digest, offset, len, geometry, timeout_ms }
        }
        1 => Message::Pending { done: reader.u64()?, total: reader.u64()? },
        2 => Message::Granted { cookie: Cookie(reader.u64()?), seed: reader.u64()? },
        3 => {
            let transfer_len = reader.u64()?;
            if transfer_len == 0 {
                return Err(ParseError::BadField("length of the part"));
            }
            Message::Parameters { transfer_len, geometry: take_geometry(&mut reader)? }
        }
        4 => Message::Stop { next: reader.u32()? },
        5 => Message::Stopped { next: reader.u32()? },
        6 => Message::Close,
        7 => {
            let code = RefusalCode::from_number(reader.u8()?);
            let text = text(reader.take(body.len() - 1)?)?;
            if text.len() > MAX_TEXT_LEN || text.chars().any(char::is_control) {
                return Err(ParseError::BadField("text"));
            }
            Message::Refused { code: code.ok_or(ParseError::BadField("code"))?, text }
        }
        kind => return Err(ParseError::UnknownKind(kind)),
    };
    if reader.is_at_end() { Ok(message) } else { Err(ParseError::BadField("length")) }
}

fn take_geometry(reader: &mut Reader<'_>) -> Result<Geometry, ParseError> {
    Geometry::new(reader.u16()?, reader.u32()?).ok_or(ParseError::BadField("geometry"))
}

fn text(bytes: &[u8]) -> Result<&str, ParseError> {
    core::str::from_utf8(bytes).map_err(|_| ParseError::BadField("text"))
}

#[cfg(test)]
mod tests {
    use super::super::MAX_SYMBOL_SIZE;
    use super::*;
    use crate::control::refusal_codes;
    use proptest::prelude::*;
    use std::string::String;

    #[test]
    fn envelopes_hold_what_is_put_in_and_no_message_in_clear_is_one() {
        for kind in [Envelope::Handshake, Envelope::Sealed] {
            let mut out = Vec::new();
            emit_envelope(kind, &[7; MAX_ENVELOPE_LEN], &mut out);
            let header = *out.first_chunk().expect("a header");
            assert_eq!(envelope(header), Ok((kind, MAX_ENVELOPE_LEN)));
            assert_eq!(out.len(), HEADER_LEN + MAX_ENVELOPE_LEN);
            let wrong = [header[0], 1, header[2], header[3]];
            assert_eq!(envelope(wrong), Err(ParseError::BadField("reserved")));
            let long = [header[0], 0, 0xff, 0xff];
            assert_eq!(envelope(long), Err(ParseError::BadField("length")));
            assert_eq!(envelope([0x18, 0, 0, 0]), Err(ParseError::UnknownVersion(1)));
        }
        let mut clear = Vec::new();
        emit_message(&Message::Stop { next: 3 }, &mut clear);
        let header = *clear.first_chunk().expect("a header");
        assert_eq!(envelope(header), Err(ParseError::UnknownKind(4)));
        assert_eq!(parse_whole(&clear), Ok(Message::Stop { next: 3 }));
        assert!(parse_whole(&clear[..6]).is_err() && parse_whole(&clear[..2]).is_err());
        clear.push(0);
        assert_eq!(parse_whole(&clear), Err(ParseError::BadField("length")));
    }

    fn geometries() -> impl Strategy<Value = Geometry> {
        (1..=MAX_SYMBOL_SIZE, 1..=u32::MAX)
            .prop_map(|(symbol_size, block_symbols)| Geometry { symbol_size, block_symbols })
    }

    /// Offset and length within 64 bits.
    fn parts() -> impl Strategy<Value = (u64, u64)> {
        any::<u64>()
            .prop_flat_map(|offset| (Just(offset), 1..=(u64::MAX - offset).max(1)))
            .prop_filter("within 64 bits", |(offset, len)| offset.checked_add(*len).is_some())
    }

    /// All kinds but those with a text.
    fn plain() -> impl Strategy<Value = Message<'static>> {
        prop_oneof![
            any::<(u64, u64)>().prop_map(|(done, total)| Message::Pending { done, total }),
            any::<(u64, u64)>()
                .prop_map(|(cookie, seed)| Message::Granted { cookie: Cookie(cookie), seed }),
            (1..=u64::MAX, geometries()).prop_map(|(transfer_len, geometry)| {
                Message::Parameters { transfer_len, geometry }
            }),
            any::<u32>().prop_map(|next| Message::Stop { next }),
            any::<u32>().prop_map(|next| Message::Stopped { next }),
            Just(Message::Close),
        ]
    }

    fn reads_back(message: &Message<'_>) -> Result<(), TestCaseError> {
        let mut bytes = Vec::new();
        emit_message(message, &mut bytes);
        let (header, body) = bytes.split_at(HEADER_LEN);
        let (kind, len) = message_kind(header.try_into().expect("four bytes")).expect("ours");
        prop_assert_eq!(len, body.len());
        prop_assert_eq!(&parse_message(kind, body), &Ok(*message));
        for cut in 0..body.len() {
            let shorter = parse_message(kind, &body[..cut]);
            let is_text = matches!(message, Message::Request { .. } | Message::Refused { .. });
            prop_assert!(shorter.is_err() || is_text, "{shorter:?}");
        }
        let longer = [body, b"\0"].concat();
        prop_assert!(parse_message(kind, &longer).is_err(), "zeros are in no text");
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_emitted_reads_back_and_neither_shorter_nor_longer(message in plain()) {
            reads_back(&message)?;
        }

        #[test]
        fn texts_read_back(
            name in "[^\\p{Cc}]{1,80}", digest: [u8; 32], (offset, len) in parts(),
            geometry in geometries(), timeout_ms: u32, why in "[^\\p{Cc}]{0,40}", code in refusal_codes(),
        ) {
            let name = Name::new(&name).expect("a name");
            reads_back(&Message::Request { name, digest, offset, len, geometry, timeout_ms })?;
            reads_back(&Message::Refused { code, text: &why })?;
        }

        #[test]
        fn any_refusal_is_made_to_fit(text in "\\PC{0,300}|[\\x00-\\xff]{0,300}") {
            let mut bytes = Vec::new();
            emit_message(&Message::Refused { code: RefusalCode::Busy, text: &text }, &mut bytes);
            let understood = parse_message(7, &bytes[HEADER_LEN..]);
            let fits = matches!(understood, Ok(Message::Refused { .. }));
            prop_assert!(fits, "{understood:?}");
        }

        #[test]
        fn noise_never_panics(
            header: [u8; HEADER_LEN], body in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let _ = message_kind(header);
            for kind in 0..=15 {
                let _ = parse_message(kind, &body);
            }
        }
    }

    #[test]
    fn each_fault_has_its_error() {
        assert_eq!(message_kind([0x16, 0, 0, 4]), Err(ParseError::UnknownVersion(1)));
        assert_eq!(message_kind(*b"GET "), Err(ParseError::UnknownVersion(4)));
        assert_eq!(message_kind([0x26, 1, 0, 4]), Err(ParseError::BadField("reserved")));
        assert_eq!(message_kind([0x26, 0, 4, 0x23]), Err(ParseError::BadField("length")));
        assert_eq!(message_kind([0x26, 0, 0, 4]), Ok((6, 4)));
        assert_eq!(parse_message(8, &[]), Err(ParseError::UnknownKind(8)));
        assert_eq!(parse_message(4, &[0; 5]), Err(ParseError::BadField("length")));
        assert_eq!(parse_message(7, b"\0"), Err(ParseError::BadField("code")));
        assert_eq!(parse_message(7, b""), Err(ParseError::TooShort { got: 0, needed: 1 }));
        assert_eq!(parse_message(3, &[0; 14]), Err(ParseError::BadField("length of the part")));
        let mut request = [1; REQUEST_LEN];
        assert_eq!(parse_message(0, &request), Err(ParseError::BadField("name")));
        let named = |name: &[u8]| parse_message(0, &[&request, name].concat()).map(|_| ());
        assert_eq!(named(b"\xff"), Err(ParseError::BadField("text")));
        assert_eq!(named(b"x"), Ok(()));
        // As before a request told how long its client waits.
        let short = parse_message(0, &request[..REQUEST_LEN - 4]);
        assert_eq!(short, Err(ParseError::TooShort { got: REQUEST_LEN - 4, needed: REQUEST_LEN }));
        request[48..].fill(0);
        assert_eq!(parse_message(0, &request), Err(ParseError::BadField("geometry")));
        request[32..].fill(0);
        assert_eq!(parse_message(0, &request), Err(ParseError::BadField("part")));
        let text = String::from_utf8(std::vec![b'x'; MAX_TEXT_LEN + 2]).expect("ASCII");
        let long = std::format!("\u{1}{text}");
        assert_eq!(parse_message(7, long.as_bytes()), Err(ParseError::BadField("text")));
    }
}
