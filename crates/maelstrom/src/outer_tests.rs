//! Outside of repairs on the long link: encryption, traffic class, and marks of congestion.

use wellspring_codec::interleave::Parameters;
use wellspring_core::{Duration, Time};

use super::*;

const SESSION: SessionId = SessionId { start: 1_000, random: 1 };
const OTHER: SessionId = SessionId { start: 2_000, random: 2 };
const LEN: usize = 200;
/// What all packets have in common, and repairs of one packet show.
const MARKER: &[u8; 16] = b"for my eyes only";

fn key() -> PresharedKey {
    PresharedKey::new([7; KEY_LEN])
}

fn packet(number: u8, class: u8) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    (bytes[0], bytes[1], bytes[8], bytes[9]) = (0x45, class, 64, 17);
    bytes[2..4].copy_from_slice(&(LEN as u16).to_be_bytes());
    bytes[20] = number;
    bytes[40..56].copy_from_slice(MARKER);
    bytes
}

/// The repairs of packets one after the other, each a repair of that packet alone.
fn repairs(key: &PresharedKey, session: SessionId, classes: &[u8]) -> Batch {
    let config = SendConfig {
        code: Code::Layers(Parameters::new(1, &[1]).expect("a code")),
        adaptive: None,
        longest: LEN,
        flush_after: Duration::from_millis(5),
        repair_within: None,
    };
    let mut sender = SendSide::new(key, session, &config).expect("a length");
    let mut out = Batch::new();
    for (number, &class) in (0..).zip(classes) {
        sender.observe(Time::ZERO, &mut packet(number, class), &mut out).expect("protected");
    }
    assert_eq!(out.len(), classes.len());
    out
}

fn receiver(key: &PresharedKey) -> ReceiveSide {
    let config = ReceiveConfig { hold: Duration::ZERO, ..ReceiveConfig::default() };
    ReceiveSide::new(key, OTHER, &config).expect("memory").believing(SESSION)
}

/// Traffic classes of the packets that repairs bring back.
fn recovered(receiver: &mut ReceiveSide, repairs: &Batch, marked: bool) -> Vec<u8> {
    let mut out = Batch::new();
    for repair in repairs.iter() {
        let arrival = receiver.handle_marked_datagram(Time::ZERO, repair, marked, &mut out);
        assert_eq!(arrival, Arrival::Repair);
    }
    out.iter().map(|packet| packet[1]).collect()
}

fn shows(datagram: &[u8]) -> bool {
    datagram.windows(MARKER.len()).any(|window| window == MARKER)
}

#[test]
fn an_encrypted_repair_shows_nothing_and_brings_all_back() {
    let (clear, secret) = (key(), key().encrypting());
    let (open, sealed) = (repairs(&clear, SESSION, &[0; 3]), repairs(&secret, SESSION, &[0; 3]));
    for (open, sealed) in open.iter().zip(sealed.iter()) {
        assert!(shows(open) && !shows(sealed));
        assert_eq!(open.len(), sealed.len());
        assert_eq!(open[..HEADER_LEN], sealed[..HEADER_LEN], "the header is read by both");
        // Nor do names and what routers change stand there.
        let same = open[HEADER_LEN..].iter().zip(&sealed[HEADER_LEN..]).filter(|(a, b)| a == b);
        assert!(same.count() < 12, "as few as by chance");
    }
    assert_eq!(recovered(&mut receiver(&secret), &sealed, false), [0; 3]);
}

#[test]
fn neither_reads_what_the_other_kind_of_key_sends() {
    let (clear, secret) = (key(), key().encrypting());
    for (from, to) in [(&clear, &secret), (&secret, &clear)] {
        let mut receiver = receiver(to);
        for datagram in repairs(from, SESSION, &[0; 3]).iter() {
            let arrival = receiver.handle_datagram(Time::ZERO, datagram, &mut Batch::new());
            assert_eq!(arrival, Arrival::Dropped(DropReason::Forged));
        }
    }
}

#[test]
fn a_changed_byte_of_an_encrypted_datagram_is_noticed() {
    let secret = key().encrypting();
    let mut receiver = receiver(&secret);
    let sealed = repairs(&secret, SESSION, &[0]);
    let good = sealed.iter().next().expect("one");
    // The first byte is the version, without which nothing is an appliance's.
    for at in 1..good.len() {
        let mut bad = good.to_vec();
        bad[at] ^= 0x10;
        let arrival = receiver.handle_datagram(Time::ZERO, &bad, &mut Batch::new());
        assert_eq!(arrival, Arrival::Dropped(DropReason::Forged), "byte {at}");
    }
    assert_eq!(recovered(&mut receiver, &sealed, false), [0]);
}

#[test]
fn no_two_datagrams_have_one_key_stream() {
    let secret = key().encrypting();
    let later = SessionId { start: 3_000, ..SESSION };
    let partition = secret.for_partition(1, 2);
    // The same packets, of each number, session and partition: their repairs differ wherever they are encrypted.
    let batches = [(&secret, SESSION), (&secret, later), (&partition, SESSION)];
    let batches = batches.map(|(key, session)| repairs(key, session, &[0; 4]));
    let all: Vec<&[u8]> = batches.iter().flat_map(Batch::iter).collect();
    for (n, one) in all.iter().enumerate() {
        for other in &all[..n] {
            // Zeros in most places: where two key streams are the same, so is what is sent.
            let same = one[100..180].iter().zip(&other[100..180]).filter(|(a, b)| a == b).count();
            assert!(same < 10, "{same} of 80 bytes are the same");
        }
    }
}

#[test]
fn an_encrypted_trunk_shows_nothing() {
    let secret = key().encrypting();
    let (ours, theirs) = (trunk_greeting([1; 16]), trunk_greeting([2; 16]));
    let (mut sealer, _) = trunk(&secret, &ours, &theirs, true).expect("a trunk");
    let (_, mut opener) = trunk(&secret, &theirs, &ours, false).expect("a trunk");
    let mut bytes = Vec::new();
    sealer.seal(&TrunkFrame::Data(MARKER), &mut bytes);
    assert!(!shows(&bytes));
    let len = bytes.len();
    assert_eq!(opener.open(&bytes), Ok(Some((TrunkFrame::Data(MARKER), len))));
    let (_, mut other) = trunk(&key(), &theirs, &ours, false).expect("a trunk");
    assert_eq!(other.open(&bytes), Err(TrunkError::Forged));
}

#[test]
fn repairs_leave_in_the_class_of_what_they_follow() {
    // Expedited forwarding; a class of ECN-capable packets; one that was marked on the way to the link.
    let classes = [0xb8, 0x22, 0x23, 0x00, 0x01];
    let repairs = repairs(&key(), SESSION, &classes);
    let seen: Vec<u8> = repairs.with_classes().map(|(class, _)| class).collect();
    assert_eq!(seen, [0xb8, 0x22, 0x22, 0x00, 0x01]);
    // What they bring back is as it was, also the mark.
    assert_eq!(recovered(&mut receiver(&key()), &repairs, false), classes);
}

#[test]
fn a_mark_on_a_repair_reaches_those_who_listen() {
    let repairs = repairs(&key(), SESSION, &[0xb8, 0x22, 0x01]);
    let mut receiver = receiver(&key());
    assert_eq!(recovered(&mut receiver, &repairs, true), [0xb8, 0x23, 0x03]);
    assert_eq!(receiver.counters().marked, 2);
}

#[test]
fn an_old_datagram_says_nothing_of_where_the_peer_is() {
    let repairs = repairs(&key(), SESSION, &[0; 3]);
    let [first, second, third] = [0, 1, 2].map(|n| repairs.iter().nth(n).expect("one"));
    let mut receiver = receiver(&key());
    let mut newest = |datagram| {
        receiver.handle_datagram(Time::ZERO, datagram, &mut Batch::new());
        receiver.last_was_newest()
    };
    assert!(newest(first) && newest(third));
    // Kept back by somebody, and sent from elsewhere.
    assert!(!newest(second));
}
