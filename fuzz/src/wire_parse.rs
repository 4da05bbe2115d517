//! Any datagram: parsing neither panics nor reads past its end, and what it understands comes back
//! the same after being emitted.

use wellspring_wire::scdp::{CORE_LEN, HEADER_WITH_OPTIONS_LEN, emit, parse};

const CHECK: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_IBM_SDLC);

/// Puts a right check into the header, which chance would find once in 65,536 tries.
fn mend_check(datagram: &mut [u8]) {
    if datagram.len() >= CORE_LEN {
        let mut digest = CHECK.digest();
        digest.update(&datagram[..2]);
        digest.update(&datagram[4..CORE_LEN]);
        datagram[2..4].copy_from_slice(&digest.finalize().to_be_bytes());
    }
}

/// The first byte of an input says whether to mend the check; the rest is the datagram.
pub fn run(input: &[u8]) {
    let Some((mend, datagram)) = input.split_first() else { return };
    let mut datagram = datagram.to_vec();
    if mend % 2 == 1 {
        mend_check(&mut datagram);
    }
    let Ok(parsed) = parse(&datagram) else { return };
    if parsed.trimmed {
        assert!(parsed.payload.is_empty(), "what a switch left of a payload is not believed");
        return;
    }
    let digest = parsed.digest.copied().unwrap_or_default();
    let payload_len = u16::try_from(parsed.payload.len()).expect("its length field has 16 bits");
    let mut again = vec![0; HEADER_WITH_OPTIONS_LEN];
    let len = emit(parsed.session, &parsed.header, &digest, payload_len, &mut again);
    again.truncate(len);
    again.extend_from_slice(parsed.payload);
    assert_eq!(parse(&again), Ok(parsed));
}
