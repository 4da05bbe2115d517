//! Packet captures in pcapng.

use std::io::{self, Write};
use wellspring_core::Time;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Raw IPv4 or IPv6 (LINKTYPE_RAW).
const LINK_TYPE_RAW_IP: u16 = 101;
/// The port that Wellspring's servers listen at.
const UDP_PORT: u16 = 4_711;

/// Writes packets as pcapng with nanosecond times: IPv4 and UDP headers made up from host
/// numbers (10.x.y.z), then the bytes given. Payloads do not exist in a simulation: packets are
/// cut after their headers, their original length is stated.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: W,
}

impl<W: Write> PcapWriter<W> {
    /// Starts a capture.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(mut out: W) -> io::Result<Self> {
        let mut section = Vec::new();
        section.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        section.extend_from_slice(&1_u16.to_le_bytes());
        section.extend_from_slice(&0_u16.to_le_bytes());
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        block(&mut out, SECTION_HEADER, &section)?;
        let mut interface = Vec::new();
        interface.extend_from_slice(&LINK_TYPE_RAW_IP.to_le_bytes());
        interface.extend_from_slice(&[0; 2]);
        interface.extend_from_slice(&0_u32.to_le_bytes());
        // if_tsresol: 10^-9 s; end of options.
        interface.extend_from_slice(&[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        block(&mut out, INTERFACE, &interface)?;
        Ok(PcapWriter { out })
    }

    /// Writes a packet between two hosts: `datagram` is what follows the UDP header,
    /// `transport_len` its whole length with the UDP header \[bytes\].
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(
        &mut self,
        time: Time,
        source: u32,
        destination: [u8; 4],
        transport_len: u32,
        datagram: &[u8],
    ) -> io::Result<()> {
        let mut packet = ip_header(source, destination, transport_len);
        for word in [UDP_PORT, UDP_PORT, transport_len as u16, 0] {
            packet.extend_from_slice(&word.to_be_bytes());
        }
        packet.extend_from_slice(datagram);
        let nanos = time.as_picos() / 1_000;
        let mut body = Vec::new();
        for word in [
            0,
            (nanos >> 32) as u32,
            nanos as u32,
            packet.len() as u32,
            (20 + transport_len).max(packet.len() as u32),
        ] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&packet);
        block(&mut self.out, ENHANCED_PACKET, &body)
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Flushes and gives the writer back.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// The address made up for a host: 10.x.y.z.
    pub fn host_address(host: u32) -> [u8; 4] {
        let [_, b, c, d] = host.to_be_bytes();
        [10, b, c, d]
    }

    /// The address made up for a group: 239.x.y.z.
    pub fn group_address(group: u32) -> [u8; 4] {
        let [_, b, c, d] = group.to_be_bytes();
        [239, b, c, d]
    }
}

fn ip_header(source: u32, destination: [u8; 4], transport_len: u32) -> Vec<u8> {
    let total = (20 + transport_len).min(u32::from(u16::MAX)) as u16;
    let mut header = vec![0x45, 0];
    header.extend_from_slice(&total.to_be_bytes());
    header.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
    header.extend_from_slice(&PcapWriter::<Vec<u8>>::host_address(source));
    header.extend_from_slice(&destination);
    let words = header.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    header
}

fn block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let padded = body.len().next_multiple_of(4);
    let total = (padded + 12) as u32;
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&total.to_le_bytes())?;
    out.write_all(body)?;
    out.write_all(&[0; 3][..padded - body.len()])?;
    out.write_all(&total.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_length_at_both_ends() {
        let mut writer = PcapWriter::new(Vec::new()).unwrap();
        let to = PcapWriter::<Vec<u8>>::host_address(2);
        writer.write(Time::from_picos(5_000), 1, to, 1_480, &[1, 2, 3]).unwrap();
        let bytes = writer.finish().unwrap();
        let (mut at, mut kinds) = (0, Vec::new());
        while at < bytes.len() {
            let word = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().unwrap());
            let len = word(at + 4) as usize;
            assert_eq!(word(at + len - 4) as usize, len);
            kinds.push(word(at));
            at += len;
        }
        assert_eq!(kinds, [SECTION_HEADER, INTERFACE, ENHANCED_PACKET]);
    }
}
