//! Time stamps of TCP (RFC 7323) in packets that are brought back.
//!
//! A receiver whose gap a retransmission has filled refuses what left before it (§5.3): packets that are brought back
//! after it are of no use, are retransmitted too, and their retransmissions make the next ones useless. So a packet
//! that comes back late gets the stamp of its flow's newest retransmission, as if it had left with that.

use crate::retransmissions::is_before;
use crate::segment::Segment;

/// Gives a packet the `newest` stamp, if its own is older. Returns whether it was.
pub(crate) fn renew(packet: &mut [u8], segment: &Segment, newest: u32) -> bool {
    let Some(stamp) = segment.stamp.filter(|stamp| is_before(stamp.value, newest)) else {
        return false;
    };
    let segment_at = segment.flow.segment_at;
    // Whole words of the segment: the stamp may stand at an odd place.
    let words = stamp.at - (stamp.at - segment_at) % 2;
    let words = words..(words + 6).min(packet.len());
    let before = sum_of(&packet[words.clone()]);
    packet[stamp.at..stamp.at + 4].copy_from_slice(&newest.to_be_bytes());
    let after = sum_of(&packet[words]);
    correct(&mut packet[segment_at + 16..segment_at + 18], before, after);
    true
}

/// The sum of 16-bit words.
fn sum_of(words: &[u8]) -> u32 {
    words
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .sum()
}

/// Corrects a checksum of words whose sum has changed (RFC 1624 §3).
fn correct(checksum: &mut [u8], before: u32, after: u32) {
    let old = !(u32::from(checksum[0]) << 8 | u32::from(checksum[1])) & 0xffff;
    // The complement of a sum of three words is that of each of them.
    let mut sum = old + 3 * 0xffff - before + after;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    checksum.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retransmissions::Retransmissions;
    use crate::segment::{AUTHENTICATION, MD5, TIME_STAMPS};
    use proptest::prelude::*;
    use wellspring_core::{Duration, Time};

    const STAMPED: [u8; 12] = [1, 1, TIME_STAMPS, 10, 0, 0, 0, 0, 0, 0, 0, 9];

    fn after(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// What an appliance does with packets that arrive, and with those that it brings back.
    struct Stamps(Retransmissions);

    impl Stamps {
        fn new() -> Self {
            Stamps(Retransmissions::new())
        }

        fn on_packet(&mut self, now: Time, packet: &[u8]) {
            if let Some(segment) = Segment::parse(packet) {
                self.0.on_arrival(now, &segment, None);
            }
        }

        fn renew(&mut self, now: Time, packet: &mut [u8]) -> bool {
            let Some(segment) = Segment::parse(packet) else { return false };
            self.0.on_recovered(now, &segment);
            self.0.newest_stamp(now, &segment).is_some_and(|newest| renew(packet, &segment, newest))
        }
    }

    /// A segment with data and these options, in which the stamp is written at its place; IPv4 or IPv6.
    fn segment(v4: bool, options: &[u8], sequence: u32, stamp: u32) -> Vec<u8> {
        let header = 20 + options.len();
        let mut bytes = vec![0; if v4 { 20 } else { 40 }];
        let at = bytes.len();
        bytes.extend([0x12, 0x34, 0x01, 0xbb]);
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 0, 1, (header as u8 / 4) << 4, 0x10, 1, 0, 0, 0, 0, 0]);
        bytes.extend(options);
        let place = options.windows(2).position(|two| two == [TIME_STAMPS, 10]);
        let place = place.and_then(|place| bytes.get_mut(at + 20 + place + 2..)?.first_chunk_mut());
        if let Some(place) = place {
            *place = stamp.to_be_bytes();
        }
        bytes.extend(b"some data, of odd length");
        bytes.push(7);
        let len = bytes.len() as u16;
        if v4 {
            bytes[0] = 0x45;
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            bytes[9] = 6;
            bytes[12..20].copy_from_slice(&[10, 1, 0, 1, 10, 2, 0, 2]);
        } else {
            bytes[0] = 0x60;
            bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
            bytes[6] = 6;
            bytes[8..40].copy_from_slice(&[0xfd; 32]);
        }
        let sum = !checksum(&bytes, v4);
        bytes[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// The sum over a segment and its pseudo-header (RFC 9293 §3.1): all ones if its checksum is right.
    fn checksum(packet: &[u8], v4: bool) -> u16 {
        let (addresses, at) = if v4 { (&packet[12..20], 20) } else { (&packet[8..40], 40) };
        let mut sum = sum_of(addresses) + sum_of(&packet[at..]) + 6 + (packet.len() - at) as u32;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The stamp of a packet that comes back after a retransmission with stamp 200.
    fn after_a_retransmission(back: &[u8], at: u64) -> (bool, Vec<u8>) {
        let v4 = back[0] >> 4 == 4;
        let mut stamps = Stamps::new();
        stamps.on_packet(after(0), &segment(v4, &STAMPED, 9_000, 150));
        stamps.on_packet(after(1), &segment(v4, &STAMPED, 1_000, 200));
        stamps.on_packet(after(2), &segment(v4, &STAMPED, 9_001, 201));
        let mut bytes = back.to_vec();
        (stamps.renew(after(at), &mut bytes), bytes)
    }

    #[test]
    fn what_comes_back_after_a_retransmission_has_its_stamp_and_a_right_checksum() {
        let odd = [1, TIME_STAMPS, 10, 0, 0, 0, 0, 0, 0, 0, 9, 0];
        for (v4, options) in [(true, STAMPED), (false, STAMPED), (true, odd), (false, odd)] {
            for stamp in [149, 199, 0x0fff_ffff_u32.wrapping_neg(), 0] {
                let back = segment(v4, &options, 5_000, stamp);
                assert_eq!(checksum(&back, v4), 0xffff);
                let (renewed, bytes) = after_a_retransmission(&back, 3);
                assert!(renewed);
                assert_eq!(checksum(&bytes, v4), 0xffff, "{stamp}");
                assert_eq!(bytes, segment(v4, &options, 5_000, 200));
            }
        }
    }

    #[test]
    fn all_else_comes_back_as_it_left() {
        let own = segment(true, &STAMPED, 5_000, 150);
        let mut other_flow = own.clone();
        other_flow[21] += 1;
        let mut fragment = own.clone();
        fragment[6] = 0x20;
        let mut udp = own.clone();
        udp[9] = 17;
        let signed = |kind, len: u8| {
            let mut options = STAMPED.to_vec();
            options.extend([kind, len]);
            options.resize(options.len() + usize::from(len) - 2, 0);
            options.resize(options.len().next_multiple_of(4), 0);
            segment(true, &options, 5_000, 150)
        };
        let mut empty = own.clone();
        empty.truncate(20 + 32);
        for (back, at) in [
            (segment(true, &STAMPED, 5_000, 200), 3),
            (segment(true, &STAMPED, 5_000, 201), 3),
            (segment(true, &[1, 1, 1, 0], 5_000, 0), 3),
            (other_flow, 3),
            (fragment, 3),
            (udp, 3),
            (signed(MD5, 18), 3),
            (signed(AUTHENTICATION, 16), 3),
            (empty, 3),
            (own.clone(), 10_001),
        ] {
            assert_eq!(after_a_retransmission(&back, at), (false, back.clone()), "{back:x?}");
        }
    }

    #[test]
    fn retransmissions_that_come_back_themselves_count() {
        let mut stamps = Stamps::new();
        stamps.on_packet(after(0), &segment(true, &STAMPED, 9_000, 150));
        assert!(!stamps.renew(after(1), &mut segment(true, &STAMPED, 1_000, 200)));
        assert!(stamps.renew(after(1), &mut segment(true, &STAMPED, 5_000, 149)));
    }

    #[test]
    fn a_new_connection_of_the_same_ports_has_no_retransmissions_yet() {
        let mut stamps = Stamps::new();
        stamps.on_packet(after(0), &segment(true, &STAMPED, 3 << 30, 100));
        stamps.on_packet(after(1), &segment(true, &STAMPED, 1_000, 5_000));
        stamps.on_packet(after(2), &segment(true, &STAMPED, 2_000, 5_001));
        assert!(!stamps.renew(after(3), &mut segment(true, &STAMPED, 1_500, 4_999)));
    }

    #[test]
    fn a_stranger_who_does_not_know_the_sequence_numbers_sets_no_stamps() {
        for guess in [9_000 - 2 * (1 << 24), 9_000 + 2 * (1 << 24), i32::MIN] {
            let mut stamps = Stamps::new();
            stamps.on_packet(after(0), &segment(true, &STAMPED, 9_000, 150));
            stamps.on_packet(after(1), &segment(true, &STAMPED, guess as u32, 1_000_000));
            stamps.on_packet(after(2), &segment(true, &STAMPED, guess as u32 - 1, 1_000_000));
            let mut back = segment(true, &STAMPED, 5_000, 149);
            assert!(!stamps.renew(after(3), &mut back), "{guess}");
        }
    }

    proptest! {
        /// Whatever a packet has in it, no more than a stamp and the checksum over it is changed.
        #[test]
        fn nothing_else_is_touched(
            packets in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..90), any::<u32>(), any::<u32>()), 1..30),
            options in prop::collection::vec(prop_oneof![Just(1), Just(TIME_STAMPS), Just(10), Just(MD5), any::<u8>()], 0..40),
        ) {
            let mut stamps = Stamps::new();
            for (n, (v4, junk, sequence, stamp)) in packets.into_iter().enumerate() {
                let whole = options.len() / 4 * 4;
                let mut bytes = segment(v4, &options[..whole], sequence % 10_000, stamp);
                stamps.on_packet(after(n as u64), &bytes);
                let before = bytes.clone();
                let renewed = stamps.renew(after(n as u64), &mut bytes);
                let changed = before.iter().zip(&bytes).filter(|(a, b)| a != b).count();
                let most = if renewed { 6 } else { 0 };
                prop_assert!(changed <= most, "{} bytes", changed);
                prop_assert!(!renewed || checksum(&bytes, v4) == checksum(&before, v4));
                let mut junk = junk;
                stamps.on_packet(after(n as u64), &junk);
                stamps.renew(after(n as u64), &mut junk);
                if let Some(first) = junk.first_mut() {
                    *first = if v4 { 0x45 } else { 0x60 };
                    stamps.on_packet(after(n as u64), &junk);
                    stamps.renew(after(n as u64), &mut junk);
                }
            }
        }
    }
}
