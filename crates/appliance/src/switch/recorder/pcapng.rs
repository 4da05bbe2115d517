//! Blocks of a pcapng file (draft-ietf-opsawg-pcapng): a section, its interfaces, and their packets.
//!
//! Own code, since it is three blocks of fixed layout: a library for them would be longer than they are.

use std::time::Duration;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Tells the reader the order of bytes.
const MAGIC: u32 = 0x1a2b_3c4d;
/// Link type of Ethernet.
const ETHERNET: u16 = 1;

const END_OF_OPTIONS: u16 = 0;
const OPTION_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_FLAGS: u16 = 2;
/// Time stamps count nanoseconds.
const NANOSECONDS: u8 = 9;

/// Length of a packet's block besides the packet \[bytes\].
pub(super) const PACKET_OVERHEAD: u64 = 32 + 12;

/// Which way a frame passed a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// It came in.
    In = 1,
    /// It was sent.
    Out = 2,
}

/// The section's header, and a description of each interface. Packets name interfaces by their order.
pub(super) fn header(interfaces: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    block(&mut bytes, SECTION, |body| {
        body.extend(MAGIC.to_le_bytes());
        // Version 1.0, of a section whose length is not known.
        body.extend([1, 0, 0, 0]);
        body.extend(u64::MAX.to_le_bytes());
    });
    for name in interfaces {
        block(&mut bytes, INTERFACE, |body| {
            body.extend(ETHERNET.to_le_bytes());
            // No limit to the length of packets.
            body.extend([0; 2 + 4]);
            option(body, OPTION_NAME, name.as_bytes());
            option(body, OPTION_RESOLUTION, &[NANOSECONDS]);
            option(body, END_OF_OPTIONS, &[]);
        });
    }
    bytes
}

/// Appends a packet of an interface, at a time since 1970.
pub(super) fn packet(
    bytes: &mut Vec<u8>,
    interface: u32,
    at: Duration,
    direction: Direction,
    frame: &[u8],
) {
    let nanos = at.as_nanos() as u64;
    block(bytes, PACKET, |body| {
        body.extend(interface.to_le_bytes());
        body.extend(((nanos >> 32) as u32).to_le_bytes());
        body.extend((nanos as u32).to_le_bytes());
        let len = (frame.len() as u32).to_le_bytes();
        body.extend(len);
        body.extend(len);
        body.extend(frame);
        pad(body);
        option(body, OPTION_FLAGS, &(direction as u32).to_le_bytes());
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// Appends a block, whose length stands at both ends.
fn block(bytes: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend(kind.to_le_bytes());
    bytes.extend([0; 4]);
    body(bytes);
    let len = ((bytes.len() - start + 4) as u32).to_le_bytes();
    bytes.extend(len);
    bytes[start + 4..start + 8].copy_from_slice(&len);
}

fn option(bytes: &mut Vec<u8>, code: u16, value: &[u8]) {
    bytes.extend(code.to_le_bytes());
    bytes.extend((value.len() as u16).to_le_bytes());
    bytes.extend(value);
    pad(bytes);
}

/// Whatever stands in a file is of whole words; blocks begin with one.
fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_say_their_length_at_both_ends() {
        let mut bytes = header(&["port1".to_owned(), "a".to_owned()]);
        let before = bytes.len();
        for len in 0..9 {
            let start = bytes.len();
            packet(&mut bytes, 1, Duration::new(5, 7), Direction::Out, &vec![0xab; len]);
            let padded = len.next_multiple_of(4) as u64;
            assert_eq!((bytes.len() - start) as u64, PACKET_OVERHEAD + padded);
        }
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("a word"));
        let (mut at, mut kinds) = (0, Vec::new());
        while at < bytes.len() {
            let len = word(at + 4) as usize;
            assert_eq!(word(at + len - 4) as usize, len);
            kinds.push(word(at));
            at += len;
        }
        assert_eq!(at, bytes.len());
        assert_eq!(kinds, [&[SECTION, INTERFACE, INTERFACE][..], &[PACKET; 9]].concat());
        let nanos = u64::from(word(before + 12)) << 32 | u64::from(word(before + 16));
        assert_eq!(nanos, 5_000_000_007);
    }
}
