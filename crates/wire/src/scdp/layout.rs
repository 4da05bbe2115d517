//! SCDP headers to bytes and back.

use super::{
    CLOSE_LEN, CORE_LEN, Close, CloseReason, DIRECTED_PULL_LEN, HEADER_LEN,
    HEADER_WITH_OPTIONS_LEN, MAX_ESI, Mode, Options, Pull, ScdpHeader, Symbol,
};
use crate::ParseError;
use crate::bytes::Reader;
use wellspring_core::SessionId;

const VERSION: u8 = 1;
const KIND_SYMBOL: u8 = 0;
const KIND_PULL: u8 = 1;
const KIND_CLOSE: u8 = 2;
const FLAG_SYN: u8 = 1;
const FLAG_FIN: u8 = 2;
const FLAG_OPTIONS: u8 = 4;
const FLAG_FROM_RECEIVER: u8 = 1;
/// Of a pull: the ESI of the first symbol follows.
const FLAG_DIRECTED: u8 = 4;
const TAG_FOLLOWS: u8 = 0x80;
/// Where the reserved flags stand.
const FLAGS_AT: usize = 21;
/// Where the check of what follows a symbol's core stands.
const SECOND_CHECK_AT: usize = 19;

const CHECK: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_IBM_SDLC);
const SECOND_CHECK: crc::Crc<u8> = crc::Crc::<u8>::new(&crc::CRC_8_AUTOSAR);
const OPTIONS_CHECK: crc::Crc<u8> = crc::Crc::<u8>::new(&crc::CRC_7_MMC);

/// A datagram, understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsed<'a> {
    /// The session.
    pub session: SessionId,
    /// The header. In a trimmed symbol cut inside its options, these are absent; cut to
    /// [`CORE_LEN`], the packet number holds only its lowest 8 bits (`number_is_partial`).
    pub header: ScdpHeader,
    /// The object's whole digest (BLAKE3), when options are present.
    pub digest: Option<&'a [u8; 32]>,
    /// The payload; empty in a trimmed header whatever was left in it.
    pub payload: &'a [u8],
    /// The payload is shorter than announced: a switch cut it.
    pub trimmed: bool,
    /// The packet number was cut away but for its lowest 8 bits.
    pub number_is_partial: bool,
}

/// Writes a header before a payload of `payload_len` bytes; returns the header's length.
/// `digest` goes into the options of a `syn` symbol and is ignored otherwise.
///
/// # Panics
/// If `out` is shorter than the header ([`HEADER_WITH_OPTIONS_LEN`] always suffices).
pub fn emit(
    session: SessionId,
    header: &ScdpHeader,
    digest: &[u8; 32],
    payload_len: u16,
    out: &mut [u8],
) -> usize {
    let (kind, flags, sbn, word) = match header {
        ScdpHeader::Symbol(s) => {
            let syn = if s.options.is_some() { FLAG_SYN | FLAG_OPTIONS } else { 0 };
            let flags = (s.priority << 3) | syn | if s.fin { FLAG_FIN } else { 0 };
            (KIND_SYMBOL, flags, s.sbn, (s.esi << 8) | (s.number & 0xff))
        }
        ScdpHeader::Pull(p) => {
            let directed = if p.first.is_some() { FLAG_DIRECTED } else { 0 };
            (KIND_PULL, directed | if p.fin { FLAG_FIN } else { 0 }, p.sbn, p.granted)
        }
        ScdpHeader::Close(c) => {
            let flags = if c.from_receiver { FLAG_FROM_RECEIVER } else { 0 };
            (KIND_CLOSE, flags, 0, c.reason as u32)
        }
    };
    out[0] = (VERSION << 4) | kind;
    out[1] = flags;
    out[4..8].copy_from_slice(&session.0.to_be_bytes());
    out[8..12].copy_from_slice(&sbn.to_be_bytes());
    out[12..16].copy_from_slice(&word.to_be_bytes());
    let len = match header {
        ScdpHeader::Symbol(s) => emit_rest_of_symbol(s, digest, payload_len, out),
        ScdpHeader::Pull(p) => emit_rest_of_pull(p, out),
        ScdpHeader::Close(_) => CLOSE_LEN,
    };
    let checked_len = if kind == KIND_SYMBOL { CORE_LEN } else { len };
    let check = check_of(&out[..checked_len]);
    out[2..4].copy_from_slice(&check.to_be_bytes());
    len
}

fn emit_rest_of_symbol(
    symbol: &Symbol,
    digest: &[u8; 32],
    payload_len: u16,
    out: &mut [u8],
) -> usize {
    out[16..19].copy_from_slice(&symbol.number.to_be_bytes()[..3]);
    out[20] = symbol.epoch;
    out[22..24].copy_from_slice(&payload_len.to_be_bytes());
    let len = match &symbol.options {
        Some(options) => emit_options(options, digest, out),
        None => HEADER_LEN,
    };
    out[FLAGS_AT] = check_of_options(&out[HEADER_LEN..len]);
    out[SECOND_CHECK_AT] = second_check_of(out);
    len
}

fn emit_rest_of_pull(pull: &Pull, out: &mut [u8]) -> usize {
    out[16..20].copy_from_slice(&pull.floor.to_be_bytes());
    out[20] = pull.epoch;
    out[FLAGS_AT] = 0;
    out[22..24].copy_from_slice(&pull.run.to_be_bytes());
    let Some(first) = pull.first else { return HEADER_LEN };
    out[24..28].copy_from_slice(&first.to_be_bytes());
    DIRECTED_PULL_LEN
}

fn emit_options(options: &Options, digest: &[u8; 32], out: &mut [u8]) -> usize {
    out[24..32].copy_from_slice(&options.transfer_len.to_be_bytes());
    out[32..36].copy_from_slice(&options.source_blocks.to_be_bytes());
    out[36..38].copy_from_slice(&options.symbol_size.to_be_bytes());
    out[38] = options.mode as u8;
    out[39] = options.initial_window;
    out[40..72].copy_from_slice(digest);
    HEADER_WITH_OPTIONS_LEN
}

/// The check over a symbol's core, a pull or a close, its own field left out.
fn check_of(bytes: &[u8]) -> u16 {
    let mut digest = CHECK.digest();
    digest.update(&bytes[..2]);
    digest.update(&bytes[4..]);
    digest.finalize()
}

/// The check over what follows a symbol's core up to [`HEADER_LEN`], its own field and the mark of a tag left out.
fn second_check_of(header: &[u8]) -> u8 {
    let mut digest = SECOND_CHECK.digest();
    digest.update(&header[CORE_LEN..SECOND_CHECK_AT]);
    digest.update(&[header[20], header[FLAGS_AT] & !TAG_FOLLOWS, header[22], header[23]]);
    digest.finalize()
}

/// The check over a symbol's options, of 7 bits; 0 if it has none.
fn check_of_options(options: &[u8]) -> u8 {
    if options.is_empty() { 0 } else { OPTIONS_CHECK.checksum(options) }
}

/// Marks a symbol's header as followed by its authentication tag, or takes the mark away. Other packets and
/// shorter datagrams are left alone.
pub fn set_tagged(datagram: &mut [u8], tagged: bool) {
    if is_symbol(datagram) {
        datagram[FLAGS_AT] &= !TAG_FOLLOWS;
        datagram[FLAGS_AT] |= if tagged { TAG_FOLLOWS } else { 0 };
    }
}

/// Of a symbol marked [as tagged](set_tagged): the length of its datagram before it was sealed or trimmed, by its
/// header, of which nothing has been checked.
pub fn tagged_len(datagram: &[u8]) -> Option<usize> {
    if !is_symbol(datagram) || datagram[FLAGS_AT] & TAG_FOLLOWS == 0 {
        return None;
    }
    let payload_len = usize::from(u16::from_be_bytes([datagram[22], datagram[23]]));
    let header_len = match datagram[1] & FLAG_OPTIONS {
        0 => HEADER_LEN,
        _ => HEADER_WITH_OPTIONS_LEN,
    };
    Some(header_len + payload_len)
}

/// Of a symbol numbered in epoch 0, as all that a group is sent: its session, by a header of which nothing has been
/// checked.
pub fn group_session(datagram: &[u8]) -> Option<SessionId> {
    if !is_symbol(datagram) || datagram[20] != 0 {
        return None;
    }
    let session = [datagram[4], datagram[5], datagram[6], datagram[7]];
    Some(SessionId(u32::from_be_bytes(session)))
}

/// Whether it is a symbol, or what a switch left of one, by a header of which nothing has been checked.
pub fn is_symbol(datagram: &[u8]) -> bool {
    datagram.len() >= HEADER_LEN && datagram[0] == (VERSION << 4) | KIND_SYMBOL
}

/// Reads a datagram (or what a switch left of it).
///
/// # Errors
/// What it is not; see [`ParseError`].
pub fn parse(datagram: &[u8]) -> Result<Parsed<'_>, ParseError> {
    let mut reader = Reader::new(datagram);
    let core: [u8; CORE_LEN] = reader.array()?;
    if core[0] >> 4 != VERSION {
        return Err(ParseError::UnknownVersion(core[0] >> 4));
    }
    let kind = core[0] & 0x0f;
    let checked_len = match kind {
        KIND_PULL if core[1] & FLAG_DIRECTED != 0 => DIRECTED_PULL_LEN,
        KIND_PULL => HEADER_LEN,
        _ => CORE_LEN,
    };
    let checked = Reader::new(datagram).take(checked_len)?;
    if check_of(checked) != u16::from_be_bytes([core[2], core[3]]) {
        return Err(ParseError::BadCheck);
    }
    let session = SessionId(u32::from_be_bytes([core[4], core[5], core[6], core[7]]));
    let sbn = u32::from_be_bytes([core[8], core[9], core[10], core[11]]);
    let word = u32::from_be_bytes([core[12], core[13], core[14], core[15]]);
    match kind {
        KIND_SYMBOL => parse_symbol(session, core[1], sbn, word, datagram),
        KIND_PULL => parse_pull(session, core[1], sbn, word, reader),
        KIND_CLOSE => parse_close(session, core[1], word),
        _ => Err(ParseError::UnknownKind(kind)),
    }
}

fn parse_symbol<'a>(
    session: SessionId,
    flags: u8,
    sbn: u32,
    word: u32,
    datagram: &'a [u8],
) -> Result<Parsed<'a>, ParseError> {
    let esi = word >> 8;
    debug_assert!(esi <= MAX_ESI);
    let mut symbol = Symbol {
        sbn,
        esi,
        number: word & 0xff,
        epoch: 0,
        priority: flags >> 3,
        fin: flags & FLAG_FIN != 0,
        options: None,
    };
    let trimmed = |symbol, number_is_partial| Parsed {
        session,
        header: ScdpHeader::Symbol(symbol),
        digest: None,
        payload: &[],
        trimmed: true,
        number_is_partial,
    };
    let mut reader = Reader::new(datagram);
    let Ok(header) = reader.array::<HEADER_LEN>() else {
        return Ok(trimmed(symbol, true));
    };
    let own_flags = header[FLAGS_AT];
    if own_flags & TAG_FOLLOWS != 0 {
        return Err(ParseError::BadField("authentication tag"));
    }
    if second_check_of(&header) != header[SECOND_CHECK_AT] {
        return Err(ParseError::BadCheck);
    }
    symbol.number |= u32::from_be_bytes([header[16], header[17], header[18], 0]);
    symbol.epoch = header[20];
    let payload_len = usize::from(u16::from_be_bytes([header[22], header[23]]));
    if payload_len == 0 {
        return Err(ParseError::BadField("payload length"));
    }
    let mut digest = None;
    if flags & FLAG_OPTIONS != 0 {
        let Ok(bytes) = reader.take(HEADER_WITH_OPTIONS_LEN - HEADER_LEN) else {
            return Ok(trimmed(symbol, false));
        };
        if check_of_options(bytes) != own_flags {
            return Err(ParseError::BadCheck);
        }
        let (options, whole) = parse_options(bytes)?;
        symbol.options = Some(options);
        digest = Some(whole);
    } else if flags & FLAG_SYN != 0 {
        return Err(ParseError::BadField("syn without options"));
    } else if own_flags != 0 {
        return Err(ParseError::BadField("check of options"));
    }
    match reader.take(payload_len) {
        Ok(payload) => Ok(Parsed {
            session,
            header: ScdpHeader::Symbol(symbol),
            digest,
            payload,
            trimmed: false,
            number_is_partial: false,
        }),
        Err(_) => Ok(Parsed { digest, ..trimmed(symbol, false) }),
    }
}

fn parse_options(bytes: &[u8]) -> Result<(Options, &[u8; 32]), ParseError> {
    let mut reader = Reader::new(bytes);
    let transfer_len = reader.u64()?;
    let source_blocks = reader.u32()?;
    let symbol_size = reader.u16()?;
    let mode = match reader.u8()? {
        0 => Mode::Unicast,
        1 => Mode::OneToMany,
        2 => Mode::ManyToOne,
        _ => return Err(ParseError::BadField("mode")),
    };
    let initial_window = reader.u8()?;
    let digest: &[u8; 32] =
        reader.take(32)?.try_into().map_err(|_| ParseError::BadField("digest"))?;
    if transfer_len == 0 || source_blocks == 0 || symbol_size == 0 {
        return Err(ParseError::BadField("options"));
    }
    let mut tag = [0; 8];
    tag.copy_from_slice(&digest[..8]);
    let object_tag = u64::from_be_bytes(tag);
    Ok((
        Options { transfer_len, object_tag, source_blocks, symbol_size, mode, initial_window },
        digest,
    ))
}

fn parse_pull(
    session: SessionId,
    flags: u8,
    sbn: u32,
    granted: u32,
    mut reader: Reader<'_>,
) -> Result<Parsed<'_>, ParseError> {
    let floor = reader.u32()?;
    let epoch = reader.u8()?;
    if reader.u8()? & TAG_FOLLOWS != 0 {
        return Err(ParseError::BadField("authentication tag"));
    }
    let run = reader.u16()?;
    if run == 0 {
        return Err(ParseError::BadField("run"));
    }
    let fin = flags & FLAG_FIN != 0;
    let first = if flags & FLAG_DIRECTED != 0 { Some(reader.u32()?) } else { None };
    if first.is_some_and(|first| first > MAX_ESI) {
        return Err(ParseError::BadField("first symbol"));
    }
    Ok(whole(session, ScdpHeader::Pull(Pull { sbn, granted, floor, run, epoch, fin, first })))
}

fn parse_close<'a>(session: SessionId, flags: u8, reason: u32) -> Result<Parsed<'a>, ParseError> {
    let reason = match reason {
        1 => CloseReason::UnknownSession,
        2 => CloseReason::Cancelled,
        3 => CloseReason::Refused,
        4 => CloseReason::Detached,
        5 => CloseReason::Complete,
        _ => return Err(ParseError::BadField("close reason")),
    };
    let from_receiver = flags & FLAG_FROM_RECEIVER != 0;
    Ok(whole(session, ScdpHeader::Close(Close { reason, from_receiver })))
}

fn whole<'a>(session: SessionId, header: ScdpHeader) -> Parsed<'a> {
    Parsed { session, header, digest: None, payload: &[], trimmed: false, number_is_partial: false }
}

#[cfg(test)]
mod tests;
