//! Control messages to bytes and back.

use super::text::{put_text, text};
use super::{
    Addresses, Cookie, Geometry, GroupKey, MANIFEST_LEN, MAX_LEN, MAX_NODES, MAX_PROBE_LEN,
    MAX_TEXT_LEN, Name, Offer, Probe, ProbeReply, PutState, REPLY_MAX_LEN, REQUEST_MIN_LEN,
    RefusalCode, Reply, Request, ResumeAt, Runs, Start, StartNdp,
};
use crate::ParseError;
use crate::bytes::Reader;
use crate::scdp::Mode;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wellspring_core::SessionId;

/// The version of the wire. Hosts of different versions never get to a session, of whatever protocol, because
/// every session begins with a request.
pub const VERSION: u8 = 2;
const KIND_REQUEST: u8 = 8;
const KIND_REPLY: u8 = 9;
const HEADER_LEN: usize = 16;
const CHECK_AT: usize = 4;
const OPERATION_GROUP_KEY: u8 = 8;
const OPERATION_PROBE: u8 = 9;
const OPERATION_PROBE_REPLY: u8 = 8;
const FLAG_RESUME: u8 = 1;
const FLAG_BACKGROUND: u8 = 2;
const FLAG_OVERWRITE: u8 = 1;
const FLAG_RESUME_PUT: u8 = 2;
const FLAG_BACKGROUND_PUT: u8 = 4;
/// What the position of a start that takes up nothing is.
const NOWHERE: ResumeAt = ResumeAt { epoch: 0, floor: 0, horizon: 0 };
const CHECK: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// Whether a datagram claims to be a request that holds a key, which nobody may read who gets at a host's private key
/// later.
pub fn holds_secret(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0x0f == KIND_REQUEST)
        && datagram.get(1) == Some(&OPERATION_GROUP_KEY)
}

/// A control message, understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed<'a> {
    /// A client's.
    Request {
        /// To be repeated in the reply.
        nonce: u64,
        /// The client's proof of its address, to be checked.
        cookie: Cookie,
        /// What it asks.
        request: Request<'a>,
    },
    /// A server's.
    Reply {
        /// Of the request it answers.
        nonce: u64,
        /// The answer.
        reply: Reply<'a>,
    },
}

/// Writes a request, padded, into `out` (what it held is discarded).
pub fn emit_request(nonce: u64, cookie: Cookie, request: &Request<'_>, out: &mut Vec<u8>) {
    let operation = match request {
        Request::Info { .. } => 0,
        Request::Start(_) => 1,
        Request::Offer(_) => 2,
        Request::Status { .. } => 3,
        Request::StartNdp(_) => 4,
        Request::Manifest { .. } => 5,
        Request::Held { .. } => 6,
        Request::Path { .. } => 7,
        Request::GroupKey(_) => OPERATION_GROUP_KEY,
        Request::Probe(_) => OPERATION_PROBE,
        Request::Addresses => 10,
    };
    begin(KIND_REQUEST, operation, nonce, out);
    out.extend_from_slice(&cookie.0);
    match request {
        Request::Info { name, geometry } => {
            put_geometry(geometry, out);
            put_name(*name, out);
        }
        Request::Start(start) => put_start(start, out),
        Request::Offer(offer) => put_offer(offer, out),
        Request::StartNdp(start) => put_start_ndp(start, out),
        Request::Manifest { name, digest, log, index } => {
            out.extend_from_slice(digest);
            out.push(*log);
            out.extend_from_slice(&index.to_be_bytes());
            put_name(*name, out);
        }
        Request::Status { session } => out.extend_from_slice(&session.0.to_be_bytes()),
        Request::Held { session, from } => {
            out.extend_from_slice(&session.0.to_be_bytes());
            out.extend_from_slice(&from.to_be_bytes());
        }
        Request::Path { session, path, token } => {
            out.extend_from_slice(&session.0.to_be_bytes());
            out.push(*path);
            // As before there were tokens.
            if *token != Cookie::NONE {
                out.extend_from_slice(&token.0);
            }
        }
        Request::GroupKey(GroupKey { session, generation, suite, secret }) => {
            out.extend_from_slice(&session.0.to_be_bytes());
            out.extend_from_slice(&[*generation, *suite]);
            out.extend_from_slice(*secret);
        }
        Request::Probe(probe) => probe.emit(out),
        Request::Addresses => {}
    }
    end(out);
    let least = least_len(request);
    if out.len() < least {
        out.resize(least, 0);
    }
    debug_assert!(out.len() <= longest(KIND_REQUEST, operation));
}

/// Longest datagram with that operation \[bytes\].
fn longest(kind: u8, operation: u8) -> usize {
    match (kind, operation) {
        (KIND_REQUEST, OPERATION_PROBE) | (KIND_REPLY, OPERATION_PROBE_REPLY) => MAX_PROBE_LEN,
        _ => MAX_LEN,
    }
}

/// Shortest datagram with that request \[bytes\].
fn least_len(request: &Request<'_>) -> usize {
    match request {
        Request::Manifest { .. } | Request::Held { .. } => MANIFEST_LEN,
        Request::Probe(probe) => usize::from(probe.len),
        _ => REQUEST_MIN_LEN,
    }
}

/// Writes a reply into `out` (what it held is discarded). The text of a refusal is cut to
/// [`MAX_TEXT_LEN`] and control characters become spaces.
pub fn emit_reply(nonce: u64, reply: &Reply<'_>, out: &mut Vec<u8>) {
    let operation = match reply {
        Reply::Info { .. } => 0,
        Reply::Challenge { .. } => 1,
        Reply::Pending { .. } => 2,
        Reply::Accepted => 3,
        Reply::Refused { .. } => 4,
        Reply::Status { .. } => 5,
        Reply::Manifest { .. } => 6,
        Reply::Held { .. } => 7,
        Reply::Probe(_) => OPERATION_PROBE_REPLY,
        Reply::Addresses { .. } => 9,
    };
    begin(KIND_REPLY, operation, nonce, out);
    match reply {
        Reply::Info { cookie, size, digest, instance } => {
            out.extend_from_slice(&cookie.0);
            out.extend_from_slice(&instance.to_be_bytes());
            out.extend_from_slice(&size.to_be_bytes());
            out.extend_from_slice(digest);
        }
        Reply::Challenge { cookie } => out.extend_from_slice(&cookie.0),
        Reply::Pending { done, total } => {
            out.extend_from_slice(&done.to_be_bytes());
            out.extend_from_slice(&total.to_be_bytes());
        }
        Reply::Accepted => {}
        Reply::Refused { code, text } => {
            out.push(*code as u8);
            put_text(text, out);
        }
        Reply::Manifest { nodes } => out.extend_from_slice(nodes),
        Reply::Held { runs } => out.extend_from_slice(runs.0),
        Reply::Status { state, blocks_done, blocks_total } => {
            let (state, code) = match state {
                PutState::Unknown => (0, 0),
                PutState::Receiving => (1, 0),
                PutState::Complete => (2, 0),
                PutState::Failed(code) => (3, *code as u8),
                PutState::LeftGroup => (4, 0),
            };
            out.extend_from_slice(&[state, code]);
            out.extend_from_slice(&blocks_done.to_be_bytes());
            out.extend_from_slice(&blocks_total.to_be_bytes());
        }
        Reply::Probe(reply) => reply.emit(out),
        Reply::Addresses { addresses } => out.extend_from_slice(addresses.0),
    }
    end(out);
    if let Reply::Probe(reply) = reply {
        out.resize(out.len().max(reply.reply_len.into()), 0);
    }
    debug_assert!(out.len() <= longest_reply(operation));
}

/// Longest reply of that operation \[bytes\].
fn longest_reply(operation: u8) -> usize {
    match operation {
        6 | 7 => MANIFEST_LEN,
        OPERATION_PROBE_REPLY => MAX_PROBE_LEN,
        _ => REPLY_MAX_LEN,
    }
}

fn begin(kind: u8, operation: u8, nonce: u64, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[(VERSION << 4) | kind, operation, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&nonce.to_be_bytes());
}

fn end(out: &mut [u8]) {
    let len = out.len() as u16;
    out[2..4].copy_from_slice(&len.to_be_bytes());
    let check = check_of(out);
    out[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_be_bytes());
}

fn check_of(message: &[u8]) -> u32 {
    let mut digest = CHECK.digest();
    digest.update(&message[..CHECK_AT]);
    digest.update(&[0; 4]);
    digest.update(&message[CHECK_AT + 4..]);
    digest.finalize()
}

fn put_name(name: Name<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(name.0.len() as u16).to_be_bytes());
    out.extend_from_slice(name.0.as_bytes());
}

fn put_geometry(geometry: &Geometry, out: &mut Vec<u8>) {
    out.extend_from_slice(&geometry.symbol_size.to_be_bytes());
    out.extend_from_slice(&geometry.symbols_per_block.to_be_bytes());
    out.push(geometry.initial_window);
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

fn put_start(start: &Start<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&start.session.0.to_be_bytes());
    out.extend_from_slice(&start.digest);
    put_geometry(&start.geometry, out);
    out.extend_from_slice(&[start.share_index, start.share_count]);
    let (resume, at) = match start.resume {
        Some(at) => (FLAG_RESUME, at),
        None => (0, NOWHERE),
    };
    let flags = resume | flag(start.background, FLAG_BACKGROUND);
    out.extend_from_slice(&[flags, at.epoch]);
    out.extend_from_slice(&at.floor.to_be_bytes());
    out.extend_from_slice(&at.horizon.to_be_bytes());
    out.extend_from_slice(&start.timeout_ms.to_be_bytes());
    put_name(start.name, out);
}

fn put_start_ndp(start: &StartNdp<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&start.session.0.to_be_bytes());
    out.extend_from_slice(&start.digest);
    out.extend_from_slice(&start.payload.to_be_bytes());
    out.extend_from_slice(&start.offset.to_be_bytes());
    out.extend_from_slice(&start.len.to_be_bytes());
    out.extend_from_slice(&start.timeout_ms.to_be_bytes());
    put_name(start.name, out);
}

fn put_offer(offer: &Offer<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&offer.session.0.to_be_bytes());
    out.extend_from_slice(&offer.digest);
    put_geometry(&offer.geometry, out);
    out.extend_from_slice(&offer.size.to_be_bytes());
    let flags = flag(offer.overwrite, FLAG_OVERWRITE)
        | flag(offer.resume, FLAG_RESUME_PUT)
        | flag(offer.background, FLAG_BACKGROUND_PUT);
    out.extend_from_slice(&[offer.mode as u8, flags]);
    let (family, address, port) = match offer.group {
        None => (0, [0; 16], 0),
        Some(group) => match group.ip() {
            IpAddr::V4(ip) => {
                let mut address = [0; 16];
                address[..4].copy_from_slice(&ip.octets());
                (4, address, group.port())
            }
            IpAddr::V6(ip) => (6, ip.octets(), group.port()),
        },
    };
    out.push(family);
    out.extend_from_slice(&address);
    out.extend_from_slice(&port.to_be_bytes());
    out.extend_from_slice(&offer.timeout_ms.to_be_bytes());
    put_name(offer.name, out);
}

/// Makes an emitted message one of another version. The header, its check and refusals keep their layout in all
/// versions, so that a host can refuse requests of another one.
pub fn set_version(message: &mut [u8], version: u8) {
    let len = usize::from(u16::from_be_bytes([message[2], message[3]]));
    message[0] = (version << 4) | (message[0] & 0x0f);
    let check = check_of(&message[..len]);
    message[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_be_bytes());
}

/// Version and nonce of a request of another version; `None` for anything else.
pub fn request_of_other_version(datagram: &[u8]) -> Option<(u8, u64)> {
    let (version, kind) = (datagram.first()? >> 4, datagram.first()? & 0x0f);
    let len = usize::from(u16::from_be_bytes(datagram.get(2..4)?.try_into().ok()?));
    let is_request = kind == KIND_REQUEST && datagram.len() >= REQUEST_MIN_LEN && len >= HEADER_LEN;
    let check = u32::from_be_bytes(datagram.get(CHECK_AT..CHECK_AT + 4)?.try_into().ok()?);
    let is_intact = is_request && check_of(datagram.get(..len)?) == check;
    let nonce = u64::from_be_bytes(datagram.get(8..16)?.try_into().ok()?);
    (is_intact && version != VERSION).then_some((version, nonce))
}

/// Reads a control message.
///
/// # Errors
/// What it is not; see [`ParseError`].
pub fn parse(datagram: &[u8]) -> Result<Parsed<'_>, ParseError> {
    let mut header = Reader::new(datagram);
    let start: [u8; HEADER_LEN] = header.array()?;
    if start[0] >> 4 != VERSION {
        return Err(ParseError::UnknownVersion(start[0] >> 4));
    }
    let kind = start[0] & 0x0f;
    if kind != KIND_REQUEST && kind != KIND_REPLY {
        return Err(ParseError::UnknownKind(kind));
    }
    let len = usize::from(u16::from_be_bytes([start[2], start[3]]));
    if len < HEADER_LEN || datagram.len() > longest(kind, start[1]) {
        return Err(ParseError::BadField("length"));
    }
    let message = Reader::new(datagram).take(len)?;
    let check = u32::from_be_bytes([start[4], start[5], start[6], start[7]]);
    if check_of(message) != check {
        return Err(ParseError::BadCheck);
    }
    let padding = &datagram[len..];
    let nonce = u64::from_be_bytes([
        start[8], start[9], start[10], start[11], start[12], start[13], start[14], start[15],
    ]);
    let mut body = Reader::new(message);
    body.take(HEADER_LEN)?;
    let parsed = if kind == KIND_REQUEST {
        if datagram.len() < REQUEST_MIN_LEN || padding.iter().any(|byte| *byte != 0) {
            return Err(ParseError::BadField("padding"));
        }
        let cookie = Cookie(body.array()?);
        let request = parse_request(start[1], &mut body, datagram.len())?;
        if datagram.len() < least_len(&request) {
            return Err(ParseError::BadField("padding"));
        }
        Parsed::Request { nonce, cookie, request }
    } else {
        let is_padded = start[1] == OPERATION_PROBE_REPLY && padding.iter().all(|byte| *byte == 0);
        if datagram.len() > longest_reply(start[1]) || !padding.is_empty() && !is_padded {
            return Err(ParseError::BadField("padding"));
        }
        Parsed::Reply { nonce, reply: parse_reply(start[1], &mut body, datagram.len())? }
    };
    if body.u8().is_ok() {
        return Err(ParseError::BadField("length"));
    }
    Ok(parsed)
}

fn parse_request<'a>(
    operation: u8,
    body: &mut Reader<'a>,
    datagram_len: usize,
) -> Result<Request<'a>, ParseError> {
    match operation {
        0 => Ok(Request::Info { geometry: geometry(body)?, name: name(body)? }),
        1 => parse_start(body).map(Request::Start),
        2 => parse_offer(body).map(Request::Offer),
        3 => Ok(Request::Status { session: SessionId(body.u32()?) }),
        4 => parse_start_ndp(body).map(Request::StartNdp),
        6 => Ok(Request::Held { session: SessionId(body.u32()?), from: body.u32()? }),
        5 => {
            let (digest, log, index) = (body.array()?, body.u8()?, body.u64()?);
            Ok(Request::Manifest { name: name(body)?, digest, log, index })
        }
        7 => {
            let (session, path) = (SessionId(body.u32()?), body.u8()?);
            if path == 0 {
                return Err(ParseError::BadField("path"));
            }
            let rest = body.rest();
            let token = if rest.is_empty() { Cookie::NONE } else { token(rest)? };
            Ok(Request::Path { session, path, token })
        }
        OPERATION_GROUP_KEY => {
            let session = SessionId(body.u32()?);
            let (generation, suite) = (body.u8()?, body.u8()?);
            let secret = body.take(32)?.first_chunk().ok_or(ParseError::BadField("key"))?;
            Ok(Request::GroupKey(GroupKey { session, generation, suite, secret }))
        }
        OPERATION_PROBE => Probe::parse(body, datagram_len).map(Request::Probe),
        10 => Ok(Request::Addresses),
        _ => Err(ParseError::BadField("operation")),
    }
}

fn parse_start<'a>(body: &mut Reader<'a>) -> Result<Start<'a>, ParseError> {
    let session = SessionId(body.u32()?);
    let digest = body.array()?;
    let geometry = geometry(body)?;
    let (share_index, share_count) = (body.u8()?, body.u8()?);
    if share_index >= share_count {
        return Err(ParseError::BadField("share"));
    }
    let flags = body.u8()?;
    let at = ResumeAt { epoch: body.u8()?, floor: body.u32()?, horizon: body.u32()? };
    let background = flags & FLAG_BACKGROUND != 0;
    let resume = match flags & !FLAG_BACKGROUND {
        0 if at == NOWHERE => None,
        FLAG_RESUME => Some(at),
        _ => return Err(ParseError::BadField("resume")),
    };
    let timeout_ms = body.u32()?;
    let name = name(body)?;
    Ok(Start {
        session,
        name,
        digest,
        share_index,
        share_count,
        geometry,
        resume,
        background,
        timeout_ms,
    })
}

fn parse_start_ndp<'a>(body: &mut Reader<'a>) -> Result<StartNdp<'a>, ParseError> {
    let (session, digest, payload) = (SessionId(body.u32()?), body.array()?, body.u16()?);
    if payload == 0 {
        return Err(ParseError::BadField("payload"));
    }
    let (offset, len) = (body.u64()?, body.u64()?);
    if len == 0 || offset.checked_add(len).is_none() {
        return Err(ParseError::BadField("part"));
    }
    let timeout_ms = body.u32()?;
    Ok(StartNdp { session, name: name(body)?, digest, payload, offset, len, timeout_ms })
}

fn parse_offer<'a>(body: &mut Reader<'a>) -> Result<Offer<'a>, ParseError> {
    let session = SessionId(body.u32()?);
    let digest = body.array()?;
    let geometry = geometry(body)?;
    let size = body.u64()?;
    let mode = match body.u8()? {
        0 => Mode::Unicast,
        1 => Mode::OneToMany,
        _ => return Err(ParseError::BadField("mode")),
    };
    let flags = body.u8()?;
    if flags & !(FLAG_OVERWRITE | FLAG_RESUME_PUT | FLAG_BACKGROUND_PUT) != 0 {
        return Err(ParseError::BadField("flags"));
    }
    let background = flags & FLAG_BACKGROUND_PUT != 0;
    if background && mode == Mode::OneToMany {
        return Err(ParseError::BadField("flags"));
    }
    let (overwrite, resume) = (flags & FLAG_OVERWRITE != 0, flags & FLAG_RESUME_PUT != 0);
    let family = body.u8()?;
    let address: [u8; 16] = body.array()?;
    let port = body.u16()?;
    let group = match (family, mode) {
        (0, Mode::Unicast) if address == [0; 16] && port == 0 => None,
        (4, Mode::OneToMany) if address[4..] == [0; 12] => {
            let [a, b, c, d, ..] = address;
            Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
        }
        (6, Mode::OneToMany) => Some(IpAddr::V6(Ipv6Addr::from(address))),
        _ => return Err(ParseError::BadField("group")),
    };
    if group.is_some_and(|ip| !ip.is_multicast() || port == 0) {
        return Err(ParseError::BadField("group"));
    }
    let group = group.map(|ip| SocketAddr::new(ip, port));
    let timeout_ms = body.u32()?;
    let name = name(body)?;
    Ok(Offer {
        session,
        name,
        size,
        digest,
        mode,
        group,
        geometry,
        overwrite,
        resume,
        background,
        timeout_ms,
    })
}

fn parse_reply<'a>(
    operation: u8,
    body: &mut Reader<'a>,
    datagram_len: usize,
) -> Result<Reply<'a>, ParseError> {
    match operation {
        0 => {
            let cookie = Cookie(body.array()?);
            let instance = body.u32()?;
            Ok(Reply::Info { cookie, size: body.u64()?, digest: body.array()?, instance })
        }
        1 => Ok(Reply::Challenge { cookie: Cookie(body.array()?) }),
        2 => Ok(Reply::Pending { done: body.u64()?, total: body.u64()? }),
        3 => Ok(Reply::Accepted),
        4 => {
            let code = refusal(body.u8()?)?;
            let len = usize::from(body.u8()?);
            Ok(Reply::Refused { code, text: text(body, len, MAX_TEXT_LEN)? })
        }
        5 => {
            let state = match (body.u8()?, body.u8()?) {
                (0, 0) => PutState::Unknown,
                (1, 0) => PutState::Receiving,
                (2, 0) => PutState::Complete,
                (3, code) => PutState::Failed(refusal(code)?),
                (4, 0) => PutState::LeftGroup,
                _ => return Err(ParseError::BadField("state")),
            };
            Ok(Reply::Status { state, blocks_done: body.u32()?, blocks_total: body.u32()? })
        }
        6 => {
            let nodes = body.rest();
            if nodes.is_empty() || !nodes.len().is_multiple_of(32) || nodes.len() > 32 * MAX_NODES {
                return Err(ParseError::BadField("nodes"));
            }
            Ok(Reply::Manifest { nodes })
        }
        7 => {
            let runs = Runs::new(body.rest()).ok_or(ParseError::BadField("runs"))?;
            Ok(Reply::Held { runs })
        }
        OPERATION_PROBE_REPLY => ProbeReply::parse(body, datagram_len).map(Reply::Probe),
        9 => {
            let addresses = Addresses::new(body.rest()).ok_or(ParseError::BadField("addresses"))?;
            Ok(Reply::Addresses { addresses })
        }
        _ => Err(ParseError::BadField("operation")),
    }
}

/// A token that is there is one.
fn token(bytes: &[u8]) -> Result<Cookie, ParseError> {
    let token = bytes.try_into().map(Cookie).ok();
    token.filter(|token| *token != Cookie::NONE).ok_or(ParseError::BadField("token"))
}

fn refusal(number: u8) -> Result<RefusalCode, ParseError> {
    RefusalCode::from_number(number).ok_or(ParseError::BadField("refusal"))
}

fn geometry(body: &mut Reader<'_>) -> Result<Geometry, ParseError> {
    let (symbol_size, symbols_per_block, initial_window) = (body.u16()?, body.u32()?, body.u8()?);
    if symbol_size == 0 || symbols_per_block == 0 {
        return Err(ParseError::BadField("geometry"));
    }
    Ok(Geometry { symbol_size, symbols_per_block, initial_window })
}

fn name<'a>(body: &mut Reader<'a>) -> Result<Name<'a>, ParseError> {
    let len = usize::from(body.u16()?);
    let name = text(body, len, super::MAX_NAME_LEN)?;
    Name::new(name).ok_or(ParseError::BadField("name"))
}

#[cfg(test)]
mod tests;
