//! Any bytes, read as LTTP's datagrams and as messages of its control channel: parsing neither
//! panics nor reads past the end, and what it understands comes back the same after being emitted.

use wellspring_wire::lttp::{
    KINDS, MESSAGE_HEADER_LEN, SYMBOL_HEADER_LEN, emit, emit_message, message_kind, parse,
    parse_message,
};

const CHECK: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_IBM_SDLC);

/// Puts in what chance would hardly find: a right check, over the header of the datagram's kind.
fn mend(datagram: &mut [u8]) {
    let Some(first) = datagram.first() else { return };
    let len = if first & 0x0f == *KINDS.end() { 12 } else { SYMBOL_HEADER_LEN };
    if datagram.len() < len {
        return;
    }
    let mut digest = CHECK.digest();
    digest.update(&datagram[..2]);
    digest.update(&datagram[4..len]);
    let check = digest.finalize();
    datagram[2..4].copy_from_slice(&check.to_be_bytes());
}

fn read_datagram(datagram: &[u8]) {
    let Ok((cookie, parsed)) = parse(datagram) else { return };
    let mut again = Vec::new();
    emit(cookie, &parsed, &mut again);
    assert_eq!(again, datagram, "one layout for one datagram");
}

fn read_messages(mut stream: &[u8]) {
    while let Some((header, rest)) = stream.split_first_chunk::<MESSAGE_HEADER_LEN>() {
        let Ok((kind, len)) = message_kind(*header) else { return };
        if rest.len() < len {
            return;
        }
        let (body, next) = rest.split_at(len);
        let Ok(message) = parse_message(kind, body) else { return };
        let mut again = Vec::new();
        emit_message(&message, &mut again);
        assert_eq!(again, stream[..MESSAGE_HEADER_LEN + len], "one layout for one message");
        stream = next;
    }
}

/// The first byte of an input says what the rest is.
pub fn run(input: &[u8]) {
    let Some((what, bytes)) = input.split_first() else { return };
    match what % 3 {
        0 => read_datagram(bytes),
        1 => {
            let mut datagram = bytes.to_vec();
            mend(&mut datagram);
            read_datagram(&datagram);
        }
        _ => read_messages(bytes),
    }
}
