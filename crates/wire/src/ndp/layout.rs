//! NDP's packets to bytes and back.

use super::{DATA_HEADER_LEN, Data, KIND, NdpHeader};
use crate::ParseError;
use crate::bytes::Reader;
use wellspring_core::{Duration, SessionId, Time};

const VERSION: u8 = 1;
const DATA: u8 = 0;
const ACK: u8 = 1;
const NACK: u8 = 2;
const PULL: u8 = 3;
const DONE: u8 = 4;
const CLOSE: u8 = 5;
const CHECK_AT: usize = 2;
/// In the type of a data packet: it is sealed, and a tag follows its header.
const TAG_FOLLOWS: u8 = 0x80;
const COMMON_LEN: usize = 8;
const SPAN_UNIT: Duration = Duration::from_nanos(100);
const CHECK: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_IBM_SDLC);

/// A datagram, understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsed<'a> {
    /// The transfer.
    pub session: SessionId,
    /// Its header.
    pub header: NdpHeader,
    /// The payload; of a trimmed header, what is left of it.
    pub payload: &'a [u8],
    /// The payload is shorter than announced.
    pub trimmed: bool,
}

/// Writes a header, for a payload of that length, and returns the header's length. The round trip is
/// cut to its unit and to 32 bits.
///
/// # Panics
/// If `out` is shorter than the header, which [`DATA_HEADER_LEN`] holds in any case.
pub fn emit_header(
    session: SessionId,
    header: &NdpHeader,
    payload_len: u16,
    out: &mut [u8],
) -> usize {
    let mut at = COMMON_LEN;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    let packet_type = match *header {
        NdpHeader::Data(Data { number, total, window, vanished, sent, rtt }) => {
            put(&number.to_be_bytes());
            put(&total.to_be_bytes());
            put(&window.to_be_bytes());
            put(&payload_len.to_be_bytes());
            put(&vanished.to_be_bytes());
            put(&sent.as_picos().to_be_bytes());
            let units = rtt.as_picos() / SPAN_UNIT.as_picos();
            put(&u32::try_from(units).unwrap_or(u32::MAX).to_be_bytes());
            DATA
        }
        NdpHeader::Ack { number, sent } => {
            put(&number.to_be_bytes());
            put(&sent.as_picos().to_be_bytes());
            ACK
        }
        NdpHeader::Nack { number } => {
            put(&number.to_be_bytes());
            NACK
        }
        NdpHeader::Pull { granted } => {
            put(&granted.to_be_bytes());
            PULL
        }
        NdpHeader::Done => DONE,
        NdpHeader::Close => CLOSE,
    };
    out[..CHECK_AT + 2].copy_from_slice(&[(VERSION << 4) | KIND, packet_type, 0, 0]);
    out[CHECK_AT + 2..COMMON_LEN].copy_from_slice(&session.0.to_be_bytes());
    let check = check_of(&out[..at]);
    out[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
    at
}

/// The check over a header, its own field left out.
fn check_of(header: &[u8]) -> u16 {
    let mut digest = CHECK.digest();
    digest.update(&header[..CHECK_AT]);
    digest.update(&header[CHECK_AT + 2..]);
    digest.finalize()
}

/// Marks a data packet's header as followed by its authentication tag, or takes the mark away. Other packets and
/// shorter datagrams are left alone.
pub fn set_tagged(datagram: &mut [u8], tagged: bool) {
    if is_data(datagram) {
        datagram[1] = if tagged { DATA | TAG_FOLLOWS } else { DATA };
    }
}

/// Of a data packet marked [as tagged](set_tagged): the length of its datagram before it was sealed or trimmed, by
/// its header, of which nothing has been checked.
pub fn tagged_len(datagram: &[u8]) -> Option<usize> {
    let tagged = is_data(datagram) && datagram[1] & TAG_FOLLOWS != 0;
    tagged.then(|| DATA_HEADER_LEN + usize::from(u16::from_be_bytes([datagram[18], datagram[19]])))
}

fn is_data(datagram: &[u8]) -> bool {
    datagram.len() >= DATA_HEADER_LEN
        && datagram[0] == (VERSION << 4) | KIND
        && datagram[1] & !TAG_FOLLOWS == DATA
}

/// Reads a datagram.
///
/// # Errors
/// What it is not; see [`ParseError`].
pub fn parse(datagram: &[u8]) -> Result<Parsed<'_>, ParseError> {
    let mut reader = Reader::new(datagram);
    let first = reader.u8()?;
    if first >> 4 != VERSION {
        return Err(ParseError::UnknownVersion(first >> 4));
    }
    if first & 0x0f != KIND {
        return Err(ParseError::UnknownKind(first & 0x0f));
    }
    let packet_type = reader.u8()?;
    let header_len = match packet_type {
        DATA => DATA_HEADER_LEN,
        ACK => COMMON_LEN + 12,
        NACK | PULL => COMMON_LEN + 4,
        DONE | CLOSE => COMMON_LEN,
        _ => return Err(ParseError::BadField("type")),
    };
    let check = reader.u16()?;
    if check_of(Reader::new(datagram).take(header_len)?) != check {
        return Err(ParseError::BadCheck);
    }
    let session = SessionId(reader.u32()?);
    let payload = &datagram[header_len..];
    let mut announced = 0;
    let header = match packet_type {
        DATA => {
            let (number, total, window) = (reader.u32()?, reader.u32()?, reader.u16()?);
            announced = usize::from(reader.u16()?);
            let vanished = reader.u32()?;
            let sent = Time::from_picos(reader.u64()?);
            let rtt = SPAN_UNIT * u64::from(reader.u32()?);
            if number >= total || announced == 0 {
                return Err(ParseError::BadField("number or length"));
            }
            NdpHeader::Data(Data { number, total, window, vanished, sent, rtt })
        }
        ACK => NdpHeader::Ack { number: reader.u32()?, sent: Time::from_picos(reader.u64()?) },
        NACK => NdpHeader::Nack { number: reader.u32()? },
        PULL => NdpHeader::Pull { granted: reader.u32()? },
        DONE => NdpHeader::Done,
        _ => NdpHeader::Close,
    };
    if payload.len() > announced {
        return Err(ParseError::BadField("length"));
    }
    Ok(Parsed { session, header, payload, trimmed: payload.len() < announced })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// All kinds, each with a payload of the length that is announced.
    fn packets() -> impl Strategy<Value = (NdpHeader, Vec<u8>)> {
        let data = (
            any::<[u32; 4]>(),
            any::<u16>(),
            any::<u64>(),
            proptest::collection::vec(any::<u8>(), 1..200),
        )
            .prop_map(|([a, b, vanished, units], window, sent, payload)| {
                let (number, total) = (a.min(b), a.max(b).saturating_add(1));
                let (sent, rtt) = (Time::from_picos(sent), SPAN_UNIT * u64::from(units));
                let number = number.min(total - 1);
                (NdpHeader::Data(Data { number, total, window, vanished, sent, rtt }), payload)
            });
        let answers = (0_u8..5, any::<u32>(), any::<u64>()).prop_map(|(which, number, sent)| {
            let header = match which {
                0 => NdpHeader::Ack { number, sent: Time::from_picos(sent) },
                1 => NdpHeader::Nack { number },
                2 => NdpHeader::Pull { granted: number },
                3 => NdpHeader::Done,
                _ => NdpHeader::Close,
            };
            (header, Vec::new())
        });
        prop_oneof![data, answers]
    }

    fn emitted(session: u32, header: &NdpHeader, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut out = std::vec![0; DATA_HEADER_LEN];
        let len = emit_header(SessionId(session), header, payload.len() as u16, &mut out);
        out.truncate(len);
        out.extend_from_slice(payload);
        (out, len)
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back((header, payload) in packets(), session: u32) {
            let (bytes, _) = emitted(session, &header, &payload);
            let parsed =
                Parsed { session: SessionId(session), header, payload: &payload, trimmed: false };
            prop_assert_eq!(parse(&bytes), Ok(parsed));
        }

        #[test]
        fn a_payload_cut_anywhere_is_a_trimmed_header_and_a_cut_header_is_nothing(
            (header, payload) in packets(), session: u32, cut: usize,
        ) {
            let (bytes, len) = emitted(session, &header, &payload);
            let cut = cut % bytes.len();
            match parse(&bytes[..cut]) {
                Ok(parsed) => prop_assert!(parsed.trimmed && cut >= len && parsed.header == header),
                Err(_) => prop_assert!(cut < len),
            }
        }

        #[test]
        fn a_flipped_bit_in_the_header_is_noticed(
            (header, payload) in packets(), session: u32, bit: usize,
        ) {
            let (mut bytes, len) = emitted(session, &header, &payload);
            let bit = bit % (len * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(parse(&bytes).is_err());
        }

        #[test]
        fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn noise_with_a_right_check_is_what_is_emitted_or_refused(
            packet_type in DATA..=CLOSE, mut bytes in proptest::collection::vec(any::<u8>(), 8..120),
            near: bool,
        ) {
            let header = match packet_type {
                DATA => DATA_HEADER_LEN,
                ACK => COMMON_LEN + 12,
                NACK | PULL => COMMON_LEN + 4,
                _ => COMMON_LEN,
            };
            bytes[..2].copy_from_slice(&[(VERSION << 4) | KIND, packet_type]);
            if near {
                bytes.resize(header + usize::from(packet_type == DATA) * bytes.len(), 0x5a);
                if packet_type == DATA {
                    // A number among few, and a payload about as long as announced.
                    (bytes[8], bytes[12], bytes[18]) = (0, 1, 0);
                }
            }
            let checked = header.min(bytes.len());
            let check = check_of(&bytes[..checked]);
            bytes[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
            match parse(&bytes) {
                Ok(Parsed { session, header, payload, trimmed }) => {
                    let announced = match header {
                        NdpHeader::Data(_) => u16::from_be_bytes([bytes[18], bytes[19]]),
                        _ => 0,
                    };
                    prop_assert_eq!(trimmed, payload.len() < usize::from(announced));
                    let mut again = std::vec![0; DATA_HEADER_LEN];
                    let len = emit_header(session, &header, announced, &mut again);
                    prop_assert_eq!(&again[..len], &bytes[..len]);
                    prop_assert_eq!(payload, &bytes[len..]);
                }
                Err(why) => prop_assert_ne!(why, ParseError::BadCheck),
            }
        }
    }
}
