//! Any datagram, read as a control message: parsing neither panics nor reads past its end, and what
//! it understands comes back the same after being emitted.

use wellspring_wire::control::{
    MANIFEST_LEN, MAX_LEN, MAX_PROBE_LEN, Parsed, REPLY_MAX_LEN, REQUEST_MIN_LEN, Reply, Request,
    VERSION, emit_reply, emit_request, parse, request_of_other_version,
};

const CHECK: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// The kind of a request.
const REQUEST: u8 = 8;
/// First bytes of probes and of their replies.
const PROBE: (u8, u8) = (8, 9);
const PROBE_REPLY: (u8, u8) = (9, 8);

/// Puts in what chance would hardly find: the version, a possible length, a right check, a request's padding.
fn mend(message: &mut Vec<u8>) {
    if message.len() < 16 {
        return;
    }
    message.truncate(MAX_LEN);
    let what = (message[0] & 0x0f, message[1]);
    // Both say how long they are, padding included.
    let (at, padded) = match what {
        PROBE => (32, REQUEST_MIN_LEN + usize::from(message[8]) * 34),
        PROBE_REPLY => (16, message.len() + usize::from(message[8]) * 30),
        _ => (usize::MAX, 0),
    };
    if let Some(field) = message.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = u16::to_be_bytes(padded as u16);
    }
    message[0] = (VERSION << 4) | (message[0] & 0x0f);
    let len = message.len() as u16;
    message[2..4].copy_from_slice(&len.to_be_bytes());
    message[4..8].fill(0);
    let check = CHECK.checksum(message);
    message[4..8].copy_from_slice(&check.to_be_bytes());
    if padded > message.len() {
        message.resize(padded, 0);
    }
    if message[0] & 0x0f == REQUEST && message.len() < REQUEST_MIN_LEN {
        message.resize(if message[1] == 5 { MANIFEST_LEN } else { REQUEST_MIN_LEN }, 0);
    }
}

/// The first byte of an input says whether to mend the message; the rest is the datagram.
pub fn run(input: &[u8]) {
    let Some((mended, message)) = input.split_first() else { return };
    let mut message = message.to_vec();
    if mended % 2 == 1 {
        mend(&mut message);
    }
    let other_version = request_of_other_version(&message);
    let Ok(parsed) = parse(&message) else { return };
    assert_eq!(other_version, None);
    let mut again = Vec::new();
    match &parsed {
        Parsed::Request { nonce, cookie, request } => {
            emit_request(*nonce, *cookie, request, &mut again);
            let longest = match request {
                Request::Probe(probe) => probe.len.into(),
                _ => MAX_LEN,
            };
            assert!((REQUEST_MIN_LEN..=longest).contains(&again.len()));
            assert!(longest <= MAX_PROBE_LEN);
        }
        Parsed::Reply { nonce, reply } => {
            emit_reply(*nonce, reply, &mut again);
            let longest = match reply {
                Reply::Manifest { .. } | Reply::Held { .. } => MANIFEST_LEN,
                Reply::Probe(_) => MAX_PROBE_LEN,
                _ => REPLY_MAX_LEN,
            };
            assert!(again.len() <= longest, "a reply never exceeds a request");
        }
    }
    assert_eq!(parse(&again), Ok(parsed));
}
