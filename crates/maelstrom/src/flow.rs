//! Flows: packets of the same addresses and ports, one way.

/// A flow of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flow {
    /// Its addresses and ports, hashed. Flows with the same hash are taken for one only by who makes two that are.
    pub key: u64,
    /// Where the packet's segment or datagram begins.
    pub segment_at: usize,
}

impl Flow {
    /// That of an IP packet; none of a fragment, which has no ports of its own, or not all that a checksum is of.
    pub(crate) fn of(packet: &[u8]) -> Option<Flow> {
        let (addresses, segment_at) = match packet.first()? >> 4 {
            4 if u16::from_be_bytes(at(packet, 6)?) & 0x3fff == 0 => (packet.get(12..20)?, 20),
            6 => (packet.get(8..40)?, 40),
            _ => return None,
        };
        Some(Flow { key: hash(addresses, at(packet, segment_at)?), segment_at })
    }
}

/// Bytes of a packet.
pub(crate) fn at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..)?.first_chunk().copied()
}

fn hash(addresses: &[u8], ports: [u8; 4]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let words = addresses.as_chunks().0.iter().map(|word| u64::from_be_bytes(*word));
    words.chain([u64::from(u32::from_be_bytes(ports))]).fold(0, |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(ODD);
        mixed ^ mixed >> 32
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn flows_of_two_hosts_spread_over_small_tables() {
        let packet = |v6: bool, from: u16, to: u16| {
            let at = if v6 { 40 } else { 20 };
            let mut bytes = vec![0; at + 20];
            bytes[0] = if v6 { 0x60 } else { 0x45 };
            bytes[at..at + 2].copy_from_slice(&from.to_be_bytes());
            bytes[at + 2..at + 4].copy_from_slice(&to.to_be_bytes());
            bytes
        };
        for v6 in [false, true] {
            let places = |flows: &mut dyn Iterator<Item = (u16, u16)>| {
                let place = |(from, to)| Flow::of(&packet(v6, from, to)).expect("a flow").key % 256;
                flows.map(place).collect::<BTreeSet<_>>().len()
            };
            // Chance would fill 162 of 256 places.
            assert!(places(&mut (0..256).map(|port| (40_000 + port, 443))) > 140);
            assert!(places(&mut (0..256).map(|port| (443, 40_000 + port))) > 140);
        }
    }
}
