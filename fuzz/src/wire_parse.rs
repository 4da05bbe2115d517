//! Any datagram: parsing neither panics nor reads past its end, and what it understands comes back
//! the same after being emitted.

use wellspring_wire::scdp::{
    CORE_LEN, DIRECTED_PULL_LEN, HEADER_LEN, HEADER_WITH_OPTIONS_LEN, emit, parse,
};

const CHECK: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_IBM_SDLC);
const SECOND_CHECK: crc::Crc<u8> = crc::Crc::<u8>::new(&crc::CRC_8_AUTOSAR);
const OPTIONS_CHECK: crc::Crc<u8> = crc::Crc::<u8>::new(&crc::CRC_7_MMC);

/// Puts right checks into the header, which chance would find once in 65,536 tries or more.
fn mend_checks(datagram: &mut [u8]) {
    let (Some(kind), Some(flags)) = (datagram.first().copied(), datagram.get(1).copied()) else {
        return;
    };
    let (is_symbol, is_pull, longer) = (kind & 0x0f == 0, kind & 0x0f == 1, flags & 4 != 0);
    let checked_len = match (is_pull, longer) {
        (true, true) => DIRECTED_PULL_LEN,
        (true, false) => HEADER_LEN,
        _ => CORE_LEN,
    };
    if is_symbol && datagram.len() >= HEADER_LEN {
        let options = datagram.get(HEADER_LEN..HEADER_WITH_OPTIONS_LEN).filter(|_| longer);
        let check = options.map_or(0, |options| OPTIONS_CHECK.checksum(options));
        datagram[21] = (datagram[21] & 0x80) | check;
        let mut digest = SECOND_CHECK.digest();
        digest.update(&datagram[16..19]);
        digest.update(&[datagram[20], check, datagram[22], datagram[23]]);
        datagram[19] = digest.finalize();
    }
    if datagram.len() >= checked_len {
        let mut digest = CHECK.digest();
        digest.update(&datagram[..2]);
        digest.update(&datagram[4..checked_len]);
        datagram[2..4].copy_from_slice(&digest.finalize().to_be_bytes());
    }
}

/// The first byte of an input says whether to mend the checks; the rest is the datagram.
pub fn run(input: &[u8]) {
    let Some((mend, datagram)) = input.split_first() else { return };
    let mut datagram = datagram.to_vec();
    if mend % 2 == 1 {
        mend_checks(&mut datagram);
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
