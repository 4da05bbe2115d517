//! Packet captures in pcapng.

use std::collections::BTreeMap;
use std::io::{self, Write};
use wellspring_core::{Ecn, SessionId, Time};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Raw IPv4 or IPv6 (LINKTYPE_RAW).
const LINK_TYPE_RAW_IP: u16 = 101;
/// The port that Wellspring's servers listen at.
const PORT: u16 = 4_711;
const IP_HEADER_LEN: u32 = 20;
const UDP: u8 = 17;
const TCP: u8 = 6;

/// What follows the IP header of a captured packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transport {
    /// A UDP datagram between the ports of servers: what is known of its bytes.
    Udp(Vec<u8>),
    /// The header of a TCP segment.
    Tcp(TcpHeader),
    /// A message on a TCP connection to a server, of which all bytes are known: sequence numbers are counted by the
    /// [`PcapWriter`].
    Message {
        /// Port of the client.
        client_port: u16,
        /// The client sends it, not the server.
        from_client: bool,
        /// The message.
        bytes: Vec<u8>,
    },
}

/// Fields of a TCP header (RFC 9293 §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpHeader {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Control bits, FIN the lowest.
    pub flags: u8,
}

/// Control bits of TCP.
pub mod flags {
    /// The sender has given up.
    pub const RST: u8 = 0x04;
    /// Ends a message.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
    /// ECN-echo (RFC 3168 §6.1).
    pub const ECE: u8 = 0x40;
}

/// A port for the client of a session, among those that are not registered (RFC 6335 §6).
pub fn client_port(session: SessionId) -> u16 {
    49_152 + (session.0 % 16_384) as u16
}

/// A packet between two hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// When it was seen.
    pub time: Time,
    /// The host that sent it.
    pub source: u32,
    /// Where it goes: see [`PcapWriter::host_address`] and [`PcapWriter::group_address`].
    pub destination: [u8; 4],
    /// ECN field.
    pub ecn: Ecn,
    /// What follows the IP header.
    pub transport: Transport,
    /// Bytes of payload beyond those that are known.
    pub payload_len: u32,
}

/// Writes packets as pcapng with nanosecond times: IPv4 headers made up from host numbers (10.x.y.z), UDP or TCP
/// headers, then the bytes given. Payloads do not exist in a simulation: packets are cut after their headers, their
/// original length is stated.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: W,
    /// Of connections with messages, by source, destination and the client's port: the next sequence number.
    next: BTreeMap<(u32, [u8; 4], u16), u32>,
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
        Ok(PcapWriter { out, next: BTreeMap::new() })
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&mut self, packet: &Packet) -> io::Result<()> {
        let Packet { time, source, destination, ecn, ref transport, payload_len } = *packet;
        let (protocol, known) = match transport {
            Transport::Udp(bytes) => (UDP, udp(bytes, payload_len)),
            Transport::Tcp(header) => (TCP, tcp(header).to_vec()),
            Transport::Message { client_port, from_client, bytes } => {
                let next = self.next.entry((source, destination, *client_port)).or_insert(1);
                let sequence = *next;
                *next = next.wrapping_add(bytes.len() as u32);
                let [source_port, destination_port] =
                    if *from_client { [*client_port, PORT] } else { [PORT, *client_port] };
                let flags = flags::PSH | flags::ACK;
                let header = TcpHeader {
                    source_port,
                    destination_port,
                    sequence,
                    acknowledgement: 1,
                    flags,
                };
                (TCP, [&tcp(&header), bytes.as_slice()].concat())
            }
        };
        let transport_len = known.len() as u32 + payload_len;
        let mut bytes = ip_header(source, destination, ecn, protocol, transport_len);
        bytes.extend_from_slice(&known);
        let nanos = time.as_picos() / 1_000;
        let mut body = Vec::new();
        for word in [
            0,
            (nanos >> 32) as u32,
            nanos as u32,
            bytes.len() as u32,
            IP_HEADER_LEN + transport_len,
        ] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&bytes);
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

/// A UDP header and what is known of the datagram.
fn udp(bytes: &[u8], payload_len: u32) -> Vec<u8> {
    let len = 8 + bytes.len() as u32 + payload_len;
    let mut datagram = Vec::new();
    for word in [PORT, PORT, len as u16, 0] {
        datagram.extend_from_slice(&word.to_be_bytes());
    }
    datagram.extend_from_slice(bytes);
    datagram
}

/// A TCP header without options or checksum, with a window that says nothing.
fn tcp(header: &TcpHeader) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..2].copy_from_slice(&header.source_port.to_be_bytes());
    bytes[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
    bytes[4..8].copy_from_slice(&header.sequence.to_be_bytes());
    bytes[8..12].copy_from_slice(&header.acknowledgement.to_be_bytes());
    bytes[12] = 5 << 4;
    bytes[13] = header.flags;
    bytes[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    bytes
}

fn ip_header(
    source: u32,
    destination: [u8; 4],
    ecn: Ecn,
    protocol: u8,
    transport_len: u32,
) -> Vec<u8> {
    let total = (IP_HEADER_LEN + transport_len).min(u32::from(u16::MAX)) as u16;
    let traffic_class = match ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 2,
        Ecn::Marked => 3,
    };
    let mut header = vec![0x45, traffic_class];
    header.extend_from_slice(&total.to_be_bytes());
    header.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
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
        let packet = Packet {
            time: Time::from_picos(5_000),
            source: 1,
            destination: to,
            ecn: Ecn::NotCapable,
            transport: Transport::Udp(vec![1, 2, 3]),
            payload_len: 1_469,
        };
        writer.write(&packet).unwrap();
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
