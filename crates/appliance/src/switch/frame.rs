//! Frame fields that a switch reads and writes.

use wellspring_core::Class;

/// Length of Ethernet's header \[bytes\].
const ETHERNET: usize = 14;
const IPV6: usize = 40;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;
/// Bytes behind UDP's header that trimming always leaves: SCDP's name of a packet.
const NAME: usize = 16;

/// Which DSCPs mean what. Hosts and switches of a network agree on them; the default is what
/// `--fabric trimming` sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marking {
    /// What overtakes all data: pulls, messages.
    pub control: u8,
    /// Data that may be trimmed, by priority class from 1 on.
    pub symbols: Vec<u8>,
    /// What trimmed packets get; they overtake all data as well.
    pub trimmed: u8,
}

impl Default for Marking {
    fn default() -> Self {
        Marking { control: 48, symbols: vec![40, 32, 24, 16, 8], trimmed: 11 }
    }
}

/// How a frame is to be treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Treatment {
    pub class: Class,
    /// Its length when trimmed, if it may be \[bytes\].
    pub cut: Option<usize>,
    /// Its transport reads marks.
    pub reads_marks: bool,
}

/// Where an IP packet has its parts.
struct Packet {
    v6: bool,
    traffic_class: u8,
    /// Where its UDP header ends, from the packet's start, if it is a whole datagram.
    udp_end: Option<usize>,
    len: usize,
}

/// Reads a frame; `keep` is how much of an IP packet trimming leaves \[bytes\].
///
/// What is no IP (ARP) goes with control. What has none of the marks is data of the last class, and is not trimmed.
pub(super) fn read(frame: &[u8], marking: &Marking, keep: usize) -> Treatment {
    let Some(packet) = packet(frame) else {
        return Treatment { class: 0, cut: None, reads_marks: false };
    };
    let dscp = packet.traffic_class >> 2;
    let reads_marks = packet.traffic_class & 3 != 0;
    if dscp == marking.control || dscp == marking.trimmed {
        return Treatment { class: 0, cut: None, reads_marks };
    }
    let symbol = marking.symbols.iter().position(|symbols| *symbols == dscp);
    let class = symbol.unwrap_or(marking.symbols.len().saturating_sub(1)) + 1;
    let cut = packet.udp_end.filter(|_| symbol.is_some()).map(|end| keep.max(end + NAME));
    let cut = cut.filter(|cut| *cut < packet.len).map(|cut| ETHERNET + cut);
    Treatment { class: Class::try_from(class).unwrap_or(Class::MAX), cut, reads_marks }
}

fn packet(frame: &[u8]) -> Option<Packet> {
    let kind = [*frame.get(12)?, *frame.get(13)?];
    let ip = frame.get(ETHERNET..)?;
    match kind {
        [0x08, 0x00] => {
            let header = usize::from(ip.first()? & 15) * 4;
            let len = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
            if ip[0] >> 4 != 4
                || header < 20
                || ip.len() < header
                || !(header..=ip.len()).contains(&len)
            {
                return None;
            }
            let fragment = ip[6] & 0x3f != 0 || ip[7] != 0;
            let udp_end = (!fragment && ip[9] == UDP).then_some(header + UDP_HEADER);
            Some(Packet { v6: false, traffic_class: ip[1], udp_end, len })
        }
        [0x86, 0xdd] => {
            let header = ip.get(..IPV6)?;
            let len = IPV6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
            if header[0] >> 4 != 6 || len > ip.len() {
                return None;
            }
            let udp_end = (header[6] == UDP).then_some(IPV6 + UDP_HEADER);
            let traffic_class = header[0] << 4 | header[1] >> 4;
            Some(Packet { v6: true, traffic_class, udp_end, len })
        }
        _ => None,
    }
}

/// Makes the headers of a frame right that is about to be cut to `cut` bytes, as [`read`] said, the way production
/// switches do: IP's length and mark are changed, UDP's length and checksum stay as they were.
pub(super) fn trim(frame: &mut [u8], cut: usize, marking: &Marking) {
    let Some(packet) = packet(frame) else { return };
    let ip_len = (cut - ETHERNET) as u16; // below the packet's own, which is a u16
    let ip = &mut frame[ETHERNET..];
    if packet.v6 {
        ip[4..6].copy_from_slice(&(ip_len - IPV6 as u16).to_be_bytes());
    } else {
        ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
    }
    set_traffic_class(ip, packet.v6, marking.trimmed << 2 | packet.traffic_class & 3);
}

/// Marks "congestion experienced" (RFC 3168).
pub(super) fn mark(frame: &mut [u8]) {
    if let Some(packet) = packet(frame) {
        set_traffic_class(&mut frame[ETHERNET..], packet.v6, packet.traffic_class | 3);
    }
}

fn set_traffic_class(ip: &mut [u8], v6: bool, traffic_class: u8) {
    if v6 {
        ip[0] = ip[0] & 0xf0 | traffic_class >> 4;
        ip[1] = ip[1] & 0x0f | traffic_class << 4;
    } else {
        ip[1] = traffic_class;
        let header = usize::from(ip[0] & 15) * 4;
        ip[10..12].fill(0);
        let sum = checksum(&ip[..header]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The checksum of IPv4's header (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let (words, _) = header.as_chunks::<2>();
    let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a datagram of so many bytes, with its checksum if it is IPv4.
    fn datagram(v6: bool, traffic_class: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; 12];
        let udp = (UDP_HEADER + payload) as u16;
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(udp.to_be_bytes());
            frame.extend([UDP, 64]);
            frame.extend([0; 32]);
        } else {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((20 + udp).to_be_bytes());
            frame.extend([1, 2, 0x40, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        frame.extend([0x12, 0x67, 0x12, 0x67]);
        frame.extend(udp.to_be_bytes());
        frame.extend([0xab, 0xcd]);
        frame.extend((0..payload).map(|i| i as u8));
        set_traffic_class(&mut frame[ETHERNET..], v6, traffic_class);
        frame
    }

    #[test]
    fn classes_are_told_by_dscp() {
        let marking = Marking::default();
        for v6 in [false, true] {
            let treat =
                |traffic_class, payload| read(&datagram(v6, traffic_class, payload), &marking, 64);
            assert_eq!(
                treat(48 << 2, 1_000),
                Treatment { class: 0, cut: None, reads_marks: false }
            );
            assert_eq!(treat(11 << 2, 16).class, 0, "trimmed before");
            for (class, dscp) in [(1, 40), (2, 32), (3, 24), (4, 16), (5, 8)] {
                // 64 bytes either way: IPv6's headers and 16 are as many.
                let cut = ETHERNET + 64;
                assert_eq!(
                    treat(dscp << 2 | 2, 1_000),
                    Treatment { class, cut: Some(cut), reads_marks: true }
                );
                assert_eq!(treat(dscp << 2, 16).cut, None, "nothing to cut away");
            }
            assert_eq!(treat(0, 1_000), Treatment { class: 5, cut: None, reads_marks: false });
        }
        let mut arp = vec![0; 60];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(read(&arp, &marking, 64).class, 0);
        let mut fragment = datagram(false, 40 << 2, 1_000);
        fragment[ETHERNET + 6] = 0x20;
        assert_eq!(read(&fragment, &marking, 64).cut, None);
    }

    #[test]
    fn a_trimmed_frame_is_whole_to_ip_and_cut_to_udp() {
        let marking = Marking::default();
        for v6 in [false, true] {
            let whole = datagram(v6, 8 << 2 | 1, 1_000);
            let cut = read(&whole, &marking, 64).cut.expect("may be trimmed");
            let mut frame = whole.clone();
            trim(&mut frame, cut, &marking);
            frame.truncate(cut);
            let packet = packet(&frame).expect("IP");
            assert_eq!(packet.len, cut - ETHERNET);
            assert_eq!(packet.traffic_class, marking.trimmed << 2 | 1);
            let udp = ETHERNET + packet.udp_end.expect("UDP") - UDP_HEADER;
            assert_eq!(frame[udp..], whole[udp..cut]);
            if !v6 {
                assert_eq!(checksum(&frame[ETHERNET..ETHERNET + 20]), 0);
            }
            assert_eq!(
                read(&frame, &marking, 64),
                Treatment { class: 0, cut: None, reads_marks: true }
            );
        }
    }

    #[test]
    fn a_mark_changes_nothing_else() {
        for v6 in [false, true] {
            let mut frame = datagram(v6, 14 << 2 | 2, 100);
            mark(&mut frame);
            assert_eq!(frame, datagram(v6, 14 << 2 | 3, 100));
        }
    }

    #[test]
    fn no_frame_is_too_strange() {
        let marking = Marking { symbols: vec![0], ..Marking::default() };
        for v6 in [false, true] {
            let whole = datagram(v6, 0, 200);
            for len in 0..whole.len() {
                assert_eq!(read(&whole[..len], &marking, 64).cut, None, "{len} bytes of it");
            }
            for at in 12..whole.len() {
                for value in [0, 1, 0x40, 0x4f, 0x60, 0x6f, 0x80, 0xff] {
                    let mut frame = whole.clone();
                    frame[at] = value;
                    mark(&mut frame);
                    if let Some(cut) = read(&frame, &marking, 0).cut {
                        assert!(cut < frame.len());
                        trim(&mut frame, cut, &marking);
                    }
                }
            }
        }
    }
}
