//! LTTP's datagrams to bytes and back.

use super::{Cookie, MAX_SYMBOL_SIZE, SPAN_UNIT, SYMBOL_HEADER_LEN};
use crate::ParseError;
use crate::bytes::Reader;
use alloc::vec::Vec;
use wellspring_core::{Duration, Time};

const VERSION: u8 = 1;
const KIND_SYMBOL: u8 = *super::KINDS.start();
const KIND_REPORT: u8 = KIND_SYMBOL + 1;
const KIND_HELLO: u8 = KIND_SYMBOL + 2;
/// Version and kind, zero, check, cookie.
const COMMON_LEN: usize = 12;
const REPORT_LEN: usize = COMMON_LEN + 24;
const CHECK_AT: usize = 2;
const CHECK: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_IBM_SDLC);

/// A datagram, understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagram<'a> {
    /// An encoding symbol, server to client.
    Symbol {
        /// Block.
        sbn: u32,
        /// Encoding symbol ID.
        esi: u32,
        /// Packet number of the flow (RFC 5348 §3.2.1).
        number: u32,
        /// When it was sent, by the sender's clock.
        sent: Time,
        /// The sender's estimate of the round trip, zero before there is one.
        rtt: Duration,
        /// The symbol, 1 to [`MAX_SYMBOL_SIZE`] bytes.
        payload: &'a [u8],
    },
    /// What the client measured (RFC 5348 §3.2.2).
    Report {
        /// `sent` of the last symbol.
        echo: Time,
        /// Time from its arrival to this report.
        delay: Duration,
        /// Receive rate \[bytes/s\].
        receive_rate: u64,
        /// Loss event rate, in units of 2^-32.
        loss_event_rate: u32,
    },
    /// The client is where this came from.
    Hello,
}

/// Writes a datagram behind what `out` holds. Spans are cut to their unit and to 32 bits.
///
/// # Panics
/// If a symbol is empty or longer than [`MAX_SYMBOL_SIZE`].
pub fn emit(cookie: Cookie, datagram: &Datagram<'_>, out: &mut Vec<u8>) {
    let mut header = [0; SYMBOL_HEADER_LEN];
    let len = emit_header(cookie, datagram, &mut header);
    out.extend_from_slice(&header[..len]);
    if let Datagram::Symbol { payload, .. } = datagram {
        assert!((1..=usize::from(MAX_SYMBOL_SIZE)).contains(&payload.len()), "symbol's length");
        out.extend_from_slice(payload);
    }
}

/// Writes a datagram without the symbol that it may carry, and returns the length. Spans are cut as
/// by [`emit`].
///
/// # Panics
/// If `out` is shorter than the header, which [`SYMBOL_HEADER_LEN`] holds in any case.
pub fn emit_header(cookie: Cookie, datagram: &Datagram<'_>, out: &mut [u8]) -> usize {
    let mut at = COMMON_LEN;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    let kind = match *datagram {
        Datagram::Symbol { sbn, esi, number, sent, rtt, .. } => {
            [sbn, esi, number].iter().for_each(|field| put(&field.to_be_bytes()));
            put(&sent.as_picos().to_be_bytes());
            put(&units(rtt).to_be_bytes());
            KIND_SYMBOL
        }
        Datagram::Report { echo, delay, receive_rate, loss_event_rate } => {
            put(&echo.as_picos().to_be_bytes());
            put(&units(delay).to_be_bytes());
            put(&receive_rate.to_be_bytes());
            put(&loss_event_rate.to_be_bytes());
            KIND_REPORT
        }
        Datagram::Hello => KIND_HELLO,
    };
    out[..CHECK_AT + 2].copy_from_slice(&[(VERSION << 4) | kind, 0, 0, 0]);
    out[CHECK_AT + 2..COMMON_LEN].copy_from_slice(&cookie.0.to_be_bytes());
    seal(&mut out[..at]);
    at
}

fn seal(header: &mut [u8]) {
    let check = check_of(header);
    header[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
}

/// The check over a header, its own field left out.
fn check_of(header: &[u8]) -> u16 {
    let mut digest = CHECK.digest();
    digest.update(&header[..CHECK_AT]);
    digest.update(&header[CHECK_AT + 2..]);
    digest.finalize()
}

fn units(span: Duration) -> u32 {
    u32::try_from(span.as_picos() / SPAN_UNIT.as_picos()).unwrap_or(u32::MAX)
}

fn span(units: u32) -> Duration {
    SPAN_UNIT * u64::from(units)
}

/// Reads a datagram.
///
/// # Errors
/// What it is not; see [`ParseError`].
pub fn parse(datagram: &[u8]) -> Result<(Cookie, Datagram<'_>), ParseError> {
    let mut reader = Reader::new(datagram);
    let first = reader.u8()?;
    if first >> 4 != VERSION {
        return Err(ParseError::UnknownVersion(first >> 4));
    }
    let kind = first & 0x0f;
    let header_len = match kind {
        KIND_SYMBOL => SYMBOL_HEADER_LEN,
        KIND_REPORT => REPORT_LEN,
        KIND_HELLO => COMMON_LEN,
        kind => return Err(ParseError::UnknownKind(kind)),
    };
    let zero = reader.u8()?;
    let check = reader.u16()?;
    let header = Reader::new(datagram).take(header_len)?;
    if check_of(header) != check {
        return Err(ParseError::BadCheck);
    }
    if zero != 0 {
        return Err(ParseError::BadField("reserved"));
    }
    let cookie = Cookie(reader.u64()?);
    let rest = &datagram[header_len..];
    let parsed = match kind {
        KIND_SYMBOL => {
            if rest.is_empty() || rest.len() > usize::from(MAX_SYMBOL_SIZE) {
                return Err(ParseError::BadField("symbol"));
            }
            Datagram::Symbol {
                sbn: reader.u32()?,
                esi: reader.u32()?,
                number: reader.u32()?,
                sent: Time::from_picos(reader.u64()?),
                rtt: span(reader.u32()?),
                payload: rest,
            }
        }
        _ if !rest.is_empty() => return Err(ParseError::BadField("length")),
        KIND_REPORT => Datagram::Report {
            echo: Time::from_picos(reader.u64()?),
            delay: span(reader.u32()?),
            receive_rate: reader.u64()?,
            loss_event_rate: reader.u32()?,
        },
        _ => Datagram::Hello,
    };
    Ok((cookie, parsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans() -> impl Strategy<Value = Duration> {
        any::<u32>().prop_map(span)
    }

    /// All kinds; the payload stands apart because a datagram only borrows it.
    fn datagrams() -> impl Strategy<Value = (Datagram<'static>, Vec<u8>)> {
        let symbol = (
            any::<[u32; 3]>(),
            any::<u64>(),
            spans(),
            proptest::collection::vec(any::<u8>(), 1..200),
        )
            .prop_map(|([sbn, esi, number], sent, rtt, payload)| {
                let sent = Time::from_picos(sent);
                (Datagram::Symbol { sbn, esi, number, sent, rtt, payload: &[] }, payload)
            });
        let report = (any::<u64>(), spans(), any::<u64>(), any::<u32>()).prop_map(
            |(echo, delay, receive_rate, loss_event_rate)| {
                let echo = Time::from_picos(echo);
                (Datagram::Report { echo, delay, receive_rate, loss_event_rate }, Vec::new())
            },
        );
        prop_oneof![symbol, report, Just((Datagram::Hello, Vec::new()))]
    }

    fn with_payload<'a>(datagram: Datagram<'static>, bytes: &'a [u8]) -> Datagram<'a> {
        match datagram {
            Datagram::Symbol { sbn, esi, number, sent, rtt, .. } => {
                Datagram::Symbol { sbn, esi, number, sent, rtt, payload: bytes }
            }
            other => other,
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back((datagram, bytes) in datagrams(), cookie: u64) {
            let datagram = with_payload(datagram, &bytes);
            let mut out = Vec::new();
            emit(Cookie(cookie), &datagram, &mut out);
            prop_assert_eq!(parse(&out), Ok((Cookie(cookie), datagram)));
        }

        #[test]
        fn a_header_cut_short_is_no_datagram(
            (datagram, bytes) in datagrams(), cookie: u64, cut in 0_usize..SYMBOL_HEADER_LEN,
        ) {
            let mut out = Vec::new();
            emit(Cookie(cookie), &with_payload(datagram, &bytes), &mut out);
            let header = out.len() - bytes.len();
            prop_assert!(parse(&out[..cut.min(header - 1)]).is_err());
        }

        #[test]
        fn a_flipped_bit_in_the_header_is_noticed(
            (datagram, bytes) in datagrams(), cookie: u64, bit: usize,
        ) {
            let mut out = Vec::new();
            emit(Cookie(cookie), &with_payload(datagram, &bytes), &mut out);
            let bit = bit % ((out.len() - bytes.len()) * 8);
            out[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(parse(&out).is_err());
        }

        #[test]
        fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn noise_with_a_right_check_is_what_is_emitted_or_refused(
            kind in KIND_SYMBOL..=KIND_HELLO, mut bytes in proptest::collection::vec(any::<u8>(), 12..120),
            is_exact: bool,
        ) {
            let header = [SYMBOL_HEADER_LEN, REPORT_LEN, COMMON_LEN][usize::from(kind - KIND_SYMBOL)];
            if is_exact {
                bytes.resize(header + usize::from(kind == KIND_SYMBOL) * bytes.len(), 0x5a);
                bytes[1] = 0;
            }
            bytes[0] = (VERSION << 4) | kind;
            let checked = header.min(bytes.len());
            seal(&mut bytes[..checked]);
            match parse(&bytes) {
                Ok((cookie, datagram)) => {
                    let mut again = Vec::new();
                    emit(cookie, &datagram, &mut again);
                    prop_assert_eq!(again, bytes);
                }
                Err(why) => {
                    prop_assert_ne!(why, ParseError::BadCheck);
                    prop_assert!(!is_exact, "{}", why);
                }
            }
        }
    }

    #[test]
    fn each_fault_has_its_error() {
        let sealed = |first: u8, reserved: u8, len: usize| {
            let mut bytes = std::vec![0; len];
            (bytes[0], bytes[1]) = (first, reserved);
            seal(&mut bytes);
            bytes
        };
        assert_eq!(parse(&[]), Err(ParseError::TooShort { got: 0, needed: 1 }));
        assert_eq!(parse(&sealed(0x25, 0, 12)), Err(ParseError::UnknownVersion(2)));
        assert_eq!(parse(&sealed(0x1f, 0, 12)), Err(ParseError::UnknownKind(15)));
        assert_eq!(parse(&sealed(0x15, 1, 12)), Err(ParseError::BadField("reserved")));
        assert_eq!(parse(&sealed(0x13, 0, 36)), Err(ParseError::BadField("symbol")));
        let mut hello = sealed(0x15, 0, 12);
        hello.push(0);
        assert_eq!(parse(&hello), Err(ParseError::BadField("length")));
    }
}
