//! Pairs of send side and receive side over links that lose, change and forge.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wellspring_codec::interleave::{Parameters, SlidingParameters};
use wellspring_core::{Duration, RandomStream, Seed, Time};

use super::*;

const SESSION: SessionId = SessionId { start: 1_000, random: 1 };
const OTHER: SessionId = SessionId { start: 2_000, random: 2 };

fn key() -> PresharedKey {
    PresharedKey::new([7; KEY_LEN])
}

fn sender(rate: u8, interleaves: &[u16], longest: usize) -> SendSide {
    let config = SendConfig {
        code: Code::Layers(Parameters::new(rate, interleaves).expect("a code")),
        adaptive: None,
        longest,
        flush_after: Duration::from_millis(5),
        repair_within: None,
    };
    SendSide::new(&key(), SESSION, &config).expect("a length")
}

fn receiver(longest: usize) -> ReceiveSide {
    let config = ReceiveConfig {
        packets: 1_024,
        repairs: 512,
        longest,
        hold: Duration::ZERO,
        ..ReceiveConfig::default()
    };
    ReceiveSide::new(&key(), OTHER, &config).expect("memory").believing(SESSION)
}

/// A packet as hosts send it: IPv4 with DF and an identification of 0, or IPv6.
fn packet(random: &mut RandomStream, longest: usize) -> Vec<u8> {
    let v4 = random.below(2) == 0;
    let header = if v4 { 20 } else { 40 };
    let len = header + random.below((longest - header) as u64 + 1) as usize;
    let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
    if v4 {
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        bytes[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
        bytes[8] = bytes[8].max(10);
    } else {
        bytes[0] = 0x60 | bytes[0] & 15;
        bytes[4..6].copy_from_slice(&(len as u16 - 40).to_be_bytes());
        bytes[6] = 17;
        bytes[7] = bytes[7].max(10);
    }
    let mut normal = bytes.clone();
    let identity = Namer::new(&key()).identify(&mut normal).expect("a packet");
    restore(&mut normal, identity.volatile); // with a right checksum
    normal
}

/// What routers do to it.
fn routed(packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    let identity = Namer::new(&key()).identify(&mut bytes).expect("a packet");
    let Volatile { hops, class } = identity.volatile;
    restore(&mut bytes, Volatile { hops: hops - 3, class: class ^ 0x2b });
    bytes
}

/// Sends packets past the sender; returns what leaves: each packet, then its repairs.
fn sent(sender: &mut SendSide, packets: &[Vec<u8>], gap: Duration) -> Vec<(Time, Batch)> {
    let mut now = Time::ZERO;
    packets
        .iter()
        .map(|packet| {
            now = now + gap;
            let mut out = Batch::new();
            sender.observe(now, &mut packet.clone(), &mut out).expect("protected");
            (now, out)
        })
        .collect()
}

#[test]
fn lost_packets_come_back_as_they_left() {
    let mut random = Seed(1).stream("packets");
    let packets: Vec<_> = (0..3_000).map(|_| packet(&mut random, 1_400)).collect();
    let (mut sender, mut receiver) = (sender(8, &[1, 19, 41], 1_400), receiver(1_400));
    let lost = |n: usize| n % 97 == 50 || (1_000..1_025).contains(&n);
    let mut back = BTreeMap::new();
    let mut out = Batch::new();
    for (n, (now, repairs)) in
        sent(&mut sender, &packets, Duration::from_micros(100)).into_iter().enumerate()
    {
        if !lost(n) {
            receiver.observe(now, &mut routed(&packets[n]), &mut out).expect("a packet");
        }
        for repair in repairs.iter() {
            assert_eq!(receiver.handle_datagram(now, repair, &mut out), Arrival::Repair);
            assert_eq!(receiver.latest().len(), out.len());
            for (bytes, recovered) in out.iter().zip(receiver.latest()) {
                // Late by what the layer takes to send the repair: 41 * 8 packets at most.
                let late = recovered.late.expect("its neighbours arrived");
                assert!(late <= Duration::from_micros(33_000), "{late:?}");
                *back.entry(bytes.to_vec()).or_insert(0) += 1;
            }
            out.clear();
        }
    }
    let expected: BTreeMap<_, _> =
        (0..2_900).filter(|&n| lost(n)).map(|n| (packets[n].clone(), 1)).collect();
    assert!(expected.iter().all(|(packet, times)| back.get(packet) == Some(times)));
    let account = *receiver.account();
    assert_eq!(account.recovered_total(), back.len() as u64);
    assert_eq!((account.garbled, receiver.counters().dropped), (0, [0; DropReason::COUNT]));
    let report = receiver.loss_report(Time::ZERO);
    assert_eq!((report.longest_burst, report.usual_burst), (25, 25));
    assert!((25..60).contains(&report.lost), "{report:?}");
    assert_eq!(u64::from(report.recovered), account.recovered_total());
}

/// Packets of which some dozens of every five hundred pass unseen, and two are lost. Which came back, what is reported,
/// and how many were in doubt.
fn with_packets_unseen(sender: &mut SendSide, told: bool) -> (Vec<usize>, LossReport, u64) {
    const PART: usize = 40;
    let mut random = Seed(5).stream("packets");
    let packets: Vec<_> = (0..3_000).map(|_| packet(&mut random, 1_400)).collect();
    let mut receiver = receiver(1_400);
    let (mut out, mut was_unseen) = (Batch::new(), false);
    for (n, (now, repairs)) in
        sent(sender, &packets, Duration::from_micros(100)).into_iter().enumerate()
    {
        // In the middle of every five hundred some dozens pass unseen, and repairs with them.
        let unseen = (250..250 + PART).contains(&(n % 500));
        if told && was_unseen && !unseen {
            receiver.on_unseen(now);
        }
        was_unseen = unseen;
        if unseen {
            continue;
        }
        if n % 500 != 100 && n % 500 != 400 {
            receiver.observe(now, &mut routed(&packets[n]), &mut out).expect("a packet");
        }
        for repair in repairs.iter() {
            receiver.handle_datagram(now, repair, &mut out);
        }
    }
    // What no repair has named comes back without what routers may change.
    let name = |bytes: &[u8]| Namer::new(&key()).identify(&mut bytes.to_vec()).expect("whole").name;
    let places: BTreeMap<_, _> = (0..).zip(&packets).map(|(n, bytes)| (name(bytes), n)).collect();
    let mut back: Vec<usize> = out.iter().map(|bytes| places[&name(bytes)]).collect();
    back.sort_unstable();
    (back, receiver.loss_report(Time::ZERO), receiver.counters().doubtful)
}

#[test]
fn what_passed_unseen_is_not_lost_and_does_not_come_twice() {
    let sliding = || {
        let code = SlidingCode {
            parameters: SlidingParameters::new(8, 400, 16).expect("a code"),
            burst: 20,
        };
        let config = SendConfig {
            code: Code::Sliding(code),
            adaptive: None,
            longest: 1_400,
            flush_after: Duration::from_millis(5),
            repair_within: None,
        };
        SendSide::new(&key(), SESSION, &config).expect("a length")
    };
    let layers = || sender(8, &[1, 19, 41], 1_400);
    let lost: Vec<usize> = (0..6).flat_map(|n| [500 * n + 100, 500 * n + 400]).collect();
    let settled = |n: &usize| *n < 2_500;
    for make in [&layers as &dyn Fn() -> SendSide, &sliding] {
        let (back, report, doubtful) = with_packets_unseen(&mut make(), true);
        let kept: Vec<usize> = back.iter().copied().filter(settled).collect();
        let expected: Vec<usize> = lost.iter().copied().filter(settled).collect();
        assert_eq!(kept, expected, "what was lost comes back, and nothing else");
        assert!(report.lost as usize <= lost.len(), "{report:?}");
        assert!(doubtful > 0, "some could have come back");
        let (back, report, _) = with_packets_unseen(&mut make(), false);
        assert!(
            back.len() > 5 * lost.len() && report.lost as usize > 5 * lost.len(),
            "{}: {report:?}",
            back.len()
        );
    }
}

#[test]
fn repairs_that_come_late_bring_nothing_twice() {
    let mut random = Seed(3).stream("packets");
    let packets: Vec<_> = (0..4_000).map(|_| packet(&mut random, 100)).collect();
    let lost = |n: usize| n % 211 == 50 && n < 1_900;
    for behind in [0, 300, 600, 690, 697, 800, 950, 1_000, 1_023, 1_024, 2_000] {
        let (mut sender, mut receiver) = (sender(8, &[1, 19, 41], 100), receiver(100));
        let mut out = Batch::new();
        let steps = sent(&mut sender, &packets, Duration::from_micros(100));
        for (n, (now, _)) in steps.iter().enumerate() {
            if !lost(n) {
                receiver.observe(*now, &mut routed(&packets[n]), &mut out).expect("a packet");
            }
            // The sender's appliance is that many packets behind.
            let repairs = n.checked_sub(behind).map(|n| &steps[n].1);
            for repair in repairs.iter().flat_map(|repairs| repairs.iter()) {
                let _ = receiver.handle_datagram(*now, repair, &mut out);
            }
        }
        let mut back = BTreeMap::new();
        out.iter().for_each(|bytes| *back.entry(bytes.to_vec()).or_insert(0) += 1);
        let once: BTreeMap<_, _> =
            (0..packets.len()).filter(|&n| lost(n)).map(|n| (packets[n].clone(), 1)).collect();
        assert!(back.iter().all(|pair| once.get(pair.0) == Some(pair.1)), "{behind} behind");
        // The layer that reaches least far still helps.
        assert_eq!(back.len() == once.len(), behind < 1_010, "{behind} behind: {}", back.len());
    }
}

#[test]
fn packets_from_before_it_began_are_not_missed() {
    let mut random = Seed(4).stream("packets");
    let packets: Vec<_> = (0..1_000).map(|_| packet(&mut random, 100)).collect();
    for begins in (0..400).step_by(7) {
        let (mut sender, mut receiver) = (sender(8, &[1, 19, 41], 100), receiver(100));
        let mut out = Batch::new();
        let steps = sent(&mut sender, &packets, Duration::from_micros(100));
        for (n, (now, repairs)) in steps.iter().enumerate().skip(begins) {
            if n != begins + 10 {
                receiver.observe(*now, &mut routed(&packets[n]), &mut out).expect("a packet");
            }
            for repair in repairs.iter() {
                receiver.handle_datagram(*now, repair, &mut out);
            }
        }
        let back: Vec<_> = out.iter().map(<[u8]>::to_vec).collect();
        assert_eq!(back, [packets[begins + 10].clone()], "from {begins} on");
    }
}

#[test]
fn names_ignore_what_routers_change_and_nothing_else() {
    let namer = Namer::new(&key());
    let name = |packet: &[u8]| namer.identify(&mut packet.to_vec()).expect("a packet").name;
    let mut random = Seed(2).stream("packets");
    // Those that are longer than the universal hash's key are named in parts.
    for longest in (0..100).map(|n| if n % 4 == 0 { 9_000 } else { 200 }) {
        let packet = packet(&mut random, longest);
        assert_eq!(name(&packet), name(&routed(&packet)));
        let mut padded = packet.clone();
        padded.extend_from_slice(&[0; 6]);
        assert_eq!(name(&packet), name(&padded), "an Ethernet frame's padding");
        // Beyond length and traffic class, every byte counts.
        for at in [12, packet.len() - 1, 20 + packet.len() % 20, 2_047, 2_048, 5_000] {
            if at < packet.len() {
                let mut other = packet.clone();
                other[at] ^= 1;
                assert_ne!(name(&packet), name(&other));
            }
        }
    }
    let other = Namer::new(&PresharedKey::new([8; KEY_LEN]));
    let mut packet = packet(&mut random, 200);
    assert_ne!(name(&packet), other.identify(&mut packet).expect("a packet").name);
}

#[test]
fn what_is_no_packet_is_left_alone() {
    let mut sender = sender(8, &[1], 100);
    let mut out = Batch::new();
    for bad in [&[][..], &[0x45; 19], &[0x60; 39], &[0x15; 40], &[0x45; 60], &[0xff; 200]] {
        let mut bytes = bad.to_vec();
        let why = sender.observe(Time::ZERO, &mut bytes, &mut out);
        assert_eq!((why, bytes.as_slice()), (Err(Unprotected::NotIp), bad));
    }
    let mut with_options = vec![0; 40];
    with_options[0] = 0x46;
    with_options[3] = 40;
    let why = sender.observe(Time::ZERO, &mut with_options, &mut out);
    assert_eq!(why, Err(Unprotected::Options));
    let mut hop_by_hop = vec![0; 48];
    (hop_by_hop[0], hop_by_hop[5]) = (0x60, 8);
    let why = sender.observe(Time::ZERO, &mut hop_by_hop, &mut out);
    assert_eq!(why, Err(Unprotected::Options));
    let mut large = vec![0; 101];
    large[0] = 0x45;
    large[1] = 9;
    large[2..4].copy_from_slice(&101_u16.to_be_bytes());
    large[8] = 33;
    let why = sender.observe(Time::ZERO, &mut large, &mut out);
    assert_eq!(why, Err(Unprotected::TooLong { got: 101, limit: 100 }));
    assert_eq!((large[1], large[8]), (9, 33));
    assert!(out.is_empty());
    assert_eq!(sender.counters().too_long, 1);
}

#[test]
fn nobody_else_can_bring_a_packet() {
    let mut random = Seed(4).stream("packets");
    let packets: Vec<_> = (0..64).map(|_| packet(&mut random, 300)).collect();
    let mut sender = sender(4, &[1], 300);
    let mut receiver = receiver(300);
    let mut out = Batch::new();
    let mut repairs = Vec::new();
    for (now, batch) in sent(&mut sender, &packets, Duration::from_micros(10)) {
        repairs.extend(batch.iter().map(|repair| (now, repair.to_vec())));
    }
    let mut dropped = |receiver: &mut ReceiveSide, datagram: &[u8]| match receiver.handle_datagram(
        Time::ZERO,
        datagram,
        &mut out,
    ) {
        Arrival::Dropped(reason) => Some(reason),
        _ => None,
    };
    let (_, good) = repairs[2].clone();
    // Any bit changed.
    for at in (1..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 4;
        assert_eq!(dropped(&mut receiver, &bad), Some(DropReason::Forged), "byte {at}");
    }
    assert_eq!(dropped(&mut receiver, &good[..30]), Some(DropReason::Foreign));
    assert_eq!(dropped(&mut receiver, &[9; 200]), Some(DropReason::Foreign));
    assert_eq!(dropped(&mut receiver, &good), None);
    assert_eq!(dropped(&mut receiver, &good), Some(DropReason::Replayed));
    // The peer begins anew: what it said before is worth nothing now.
    let config = SendConfig {
        code: Code::Layers(Parameters::new(4, &[1]).expect("a code")),
        adaptive: None,
        longest: 300,
        flush_after: Duration::from_millis(1),
        repair_within: None,
    };
    let later = SessionId { start: SESSION.start + 1, random: 0 };
    let mut newer = SendSide::new(&key(), later, &config).expect("a length");
    let again = sent(&mut newer, &packets, Duration::from_micros(10));
    let newer_repair = again.iter().flat_map(|(_, batch)| batch.iter()).next().expect("a repair");
    assert_eq!(dropped(&mut receiver, newer_repair), Some(DropReason::Unconfirmed));
    let mut named = Batch::new();
    newer.answer(Time::ZERO, OTHER, &mut named);
    assert_eq!(dropped(&mut receiver, named.iter().next().expect("one")), None);
    assert_eq!(dropped(&mut receiver, newer_repair), Some(DropReason::Replayed));
    assert_eq!(dropped(&mut receiver, &repairs[3].1), Some(DropReason::OldSession));
    assert_eq!(receiver.peer(), Some(later));
    // An end's own repairs, sent back to it.
    let own = ReceiveConfig {
        packets: 64,
        repairs: 64,
        longest: 300,
        hold: Duration::ZERO,
        ..ReceiveConfig::default()
    };
    let mut same_end = ReceiveSide::new(&key(), SESSION, &own).expect("memory");
    assert_eq!(dropped(&mut same_end, &good), Some(DropReason::Reflected));
    // Another key.
    let mut stranger =
        ReceiveSide::new(&PresharedKey::new([8; KEY_LEN]), OTHER, &own).expect("memory");
    assert_eq!(dropped(&mut stranger, &good), Some(DropReason::Forged));
    assert_eq!(receiver.counters().sessions, 1);
    assert_eq!(receiver.counters().dropped[DropReason::Replayed as usize], 2);
    assert!(out.is_empty());
}

#[test]
fn a_silence_ends_with_a_repair() {
    let mut random = Seed(5).stream("packets");
    let packets: Vec<_> = (0..11).map(|_| packet(&mut random, 300)).collect();
    let (mut sender, mut receiver) = (sender(8, &[1, 19], 300), receiver(300));
    let mut out = Batch::new();
    let all = sent(&mut sender, &packets, Duration::from_micros(10));
    for (n, (now, repairs)) in all.iter().enumerate() {
        if n != 10 {
            receiver.observe(*now, &mut packets[n].clone(), &mut out).expect("a packet");
        }
        for repair in repairs.iter() {
            receiver.handle_datagram(*now, repair, &mut out);
        }
    }
    // Bins that began staggered may have fired with just the last packet.
    out.clear();
    let due = sender.poll_timeout().expect("unfinished repairs");
    let mut early = Batch::new();
    sender.handle_timeout(due - Duration::from_nanos(1), &mut early);
    assert!(early.is_empty());
    let mut late = Batch::new();
    sender.handle_timeout(due, &mut late);
    assert_eq!((late.len(), sender.poll_timeout()), (1, None));
    let repair = late.iter().next().expect("one").to_vec();
    receiver.handle_datagram(due, &repair, &mut out);
    let have: Vec<_> = out.iter().map(<[u8]>::to_vec).collect();
    assert!(receiver.account().recovered_total() == 1, "{:?}", receiver.account());
    assert!(have.is_empty() || have == [packets[10].clone()]);
}

#[test]
fn packets_that_their_repairs_overtake_are_not_lost() {
    let mut random = Seed(7).stream("packets");
    let packets: Vec<_> = (0..2_000).map(|_| packet(&mut random, 300)).collect();
    let (mut sender, mut receiver) = (sender(8, &[1, 19], 300), receiver(300));
    let mut out = Batch::new();
    for (n, (now, repairs)) in
        sent(&mut sender, &packets, Duration::from_micros(10)).into_iter().enumerate()
    {
        for repair in repairs.iter() {
            receiver.handle_datagram(now, repair, &mut out);
        }
        if n % 500 != 250 {
            receiver.observe(now, &mut packets[n].clone(), &mut out).expect("a packet");
        }
    }
    // Each layer's repair leaves right behind its last packet, which here comes after it.
    assert!(receiver.counters().overtaken > 200, "{:?}", receiver.counters());
    let report = receiver.loss_report(Time::ZERO);
    assert!((1..=4).contains(&report.lost), "{report:?}");
    assert_eq!(report.longest_burst, 1);
}

#[test]
fn a_hold_keeps_overtaken_packets_from_arriving_twice() {
    let mut random = Seed(7).stream("packets");
    let mut packets: Vec<_> = (0..2_000).map(|_| packet(&mut random, 300)).collect();
    for packet in packets.iter_mut().filter(|packet| packet[0] >> 4 == 4) {
        packet[9] = 17;
        let identity = Namer::new(&key()).identify(packet).expect("a packet");
        restore(packet, identity.volatile);
    }
    let hold = Duration::from_micros(500);
    let config = ReceiveConfig {
        packets: 1_024,
        repairs: 512,
        longest: 300,
        hold,
        ..ReceiveConfig::default()
    };
    let mut receiver = ReceiveSide::new(&key(), OTHER, &config).expect("memory").believing(SESSION);
    let mut sender = sender(8, &[1, 19], 300);
    let mut out = Batch::new();
    let mut last = Time::ZERO;
    for (n, (now, repairs)) in
        sent(&mut sender, &packets, Duration::from_micros(10)).into_iter().enumerate()
    {
        for repair in repairs.iter() {
            receiver.handle_datagram(now, repair, &mut out);
        }
        if n % 500 != 250 {
            receiver.observe(now, &mut packets[n].clone(), &mut out).expect("a packet");
        }
        last = now;
    }
    let due = receiver.poll_timeout();
    assert!(due.is_none_or(|due| due.is_after(last) && (last + hold).has_reached(due)), "{due:?}");
    receiver.handle_timeout(last + hold, &mut out);
    assert_eq!(receiver.poll_timeout(), None);
    let lost: Vec<_> = [250, 750, 1_250, 1_750].map(|n| packets[n].clone()).into();
    assert_eq!(out.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), lost);
    assert!(receiver.counters().withdrawn > 200, "{:?}", receiver.counters());
}

#[test]
fn where_nothing_is_lost_nothing_of_tcp_arrives_twice() {
    let mut random = Seed(8).stream("packets");
    let mut packets: Vec<_> = (0..4_000).map(|_| packet(&mut random, 300)).collect();
    for packet in &mut packets {
        let protocol = if packet[0] >> 4 == 4 { 9 } else { 6 };
        packet[protocol] = 6;
        let identity = Namer::new(&key()).identify(packet).expect("a packet");
        restore(packet, identity.volatile);
    }
    // Repairs are ahead of their packets by so much, in another core's queue.
    for (ahead, most) in [(900, 0), (6_000, 8)] {
        let hold = Duration::from_millis(1);
        let config = ReceiveConfig { repairs: 512, longest: 300, hold, ..ReceiveConfig::default() };
        let mut receiver =
            ReceiveSide::new(&key(), OTHER, &config).expect("memory").believing(SESSION);
        let mut sender = sender(8, &[1, 19], 300);
        let steps = sent(&mut sender, &packets, Duration::from_micros(1_000));
        let mut events = BTreeMap::new();
        for (n, (now, repairs)) in steps.iter().enumerate() {
            let late = *now + Duration::from_micros(ahead);
            events.insert((late.as_picos(), n, 0), packets[n].clone());
            for (k, repair) in repairs.iter().enumerate() {
                events.insert((now.as_picos(), n, k + 1), repair.to_vec());
            }
        }
        let mut out = Batch::new();
        for ((picos, _, kind), bytes) in events {
            let now = Time::from_picos(picos);
            while let Some(due) = receiver.poll_timeout().filter(|due| now.has_reached(*due)) {
                receiver.handle_timeout(due, &mut out);
            }
            match kind {
                0 => drop(receiver.observe(now, &mut bytes.clone(), &mut out)),
                _ => drop(receiver.handle_datagram(now, &bytes, &mut out)),
            }
            if is_whole_second(now) {
                let report = receiver.loss_report(now);
                assert_eq!(report.lost, 0, "{ahead} us ahead: {report:?}");
            }
        }
        assert!(out.len() <= most, "{} twice, {:?}", out.len(), receiver.counters());
        assert!(receiver.counters().withdrawn > 100, "{:?}", receiver.counters());
    }
}

/// Whether a second is full.
fn is_whole_second(now: Time) -> bool {
    now.as_picos().is_multiple_of(1_000_000_000_000)
}

#[test]
fn the_code_follows_the_loss() {
    let config = SendConfig {
        code: Code::Layers(Parameters::new(8, &[1]).expect("a code")),
        adaptive: Some(Limits::default()),
        longest: 300,
        flush_after: Duration::from_millis(5),
        repair_within: None,
    };
    let mut sender = SendSide::new(&key(), SESSION, &config).expect("a length");
    let mut receiver = receiver(300);
    let mut random = Seed(6).stream("packets");
    let mut now = Time::ZERO;
    // No loss, then 2 % in bursts of 20, then no loss, in spans of a quarter second.
    let mut overheads = Vec::new();
    let (mut lost, mut lost_at, mut back_at) = (0_u64, Vec::new(), Vec::new());
    for phase in 0..120 {
        let lossy = (40..80).contains(&phase);
        for n in 0..2_000 {
            now = now + Duration::from_micros(125);
            let packet = packet(&mut random, 300);
            let mut repairs = Batch::new();
            let mut back = Batch::new();
            sender.observe(now, &mut packet.clone(), &mut repairs).expect("protected");
            if lossy && n % 1_000 < 20 {
                lost += 1;
            } else {
                receiver.observe(now, &mut packet.clone(), &mut back).expect("a packet");
                for repair in repairs.iter() {
                    receiver.handle_datagram(now, repair, &mut back);
                }
            }
        }
        lost_at.push(lost);
        back_at.push(receiver.account().recovered_total());
        let report = receiver.loss_report(now);
        let mut out = Batch::new();
        sender.on_report(now, &report, &mut out);
        for repair in out.iter() {
            receiver.handle_datagram(now, repair, &mut Batch::new());
        }
        overheads.push(sender.code().map_or(0.0, Code::overhead));
    }
    assert!(back_at[40] < lost_at[40], "the first bursts come as a surprise");
    let (lost, back) = (lost_at[80] - lost_at[45], back_at[82] - back_at[45]);
    assert!(back + 3 >= lost, "{back} of {lost}, {:?}", sender.code());
    assert!(overheads[39] < overheads[50] && overheads[119] < overheads[50], "{overheads:?}");
    assert_eq!(receiver.account().garbled, 0);
    assert!(sender.counters().changes >= 3);
}

proptest! {
    /// No repair of packets that the plan allows is longer than the link takes.
    #[test]
    fn repairs_fit_the_link(
        wan_mtu in 900_usize..9_001,
        rate in 1_u8..17,
        ipv6: bool,
        seed: u64,
    ) {
        let plan = MtuPlan::new(wan_mtu, ipv6, rate).expect("room");
        prop_assert!(plan.check(plan.longest).is_ok());
        let too_large = plan.check(plan.longest + 1).expect_err("one byte too many");
        let MtuError::LanTooLarge { wan_needed, .. } = too_large else { unreachable!() };
        prop_assert_eq!(wan_needed, wan_mtu + 1);
        let mut random = Seed(seed).stream("packets");
        let mut sender = sender(rate, &[1, 3], plan.longest);
        let headers = if ipv6 { 48 } else { 28 };
        for _ in 0..40 {
            let mut packet = packet(&mut random, plan.longest);
            let mut out = Batch::new();
            sender.observe(Time::ZERO, &mut packet, &mut out).expect("protected");
            prop_assert!(out.iter().all(|repair| repair.len() + headers <= wan_mtu));
        }
    }

    /// Whatever the holder of the key says, nothing breaks, and only whole packets come out.
    #[test]
    fn nonsense_under_the_right_key_does_no_harm(
        bodies in proptest::collection::vec(
            (1_u8..4, 0_u8..10, 0_u8..40, any::<[u16; 2]>(), any::<u32>(), 0_usize..300), 0..40),
        seed: u64,
    ) {
        let mut receiver = receiver(200);
        let mut random = Seed(seed).stream("packets");
        let mut out = Batch::new();
        for (number, (kind, layer, packets, [length, stride], first, rest)) in
            bodies.into_iter().enumerate()
        {
            // Drawn one by one by the strategy, the bytes would take most of the test's time.
            let rest: Vec<u8> = (0..rest).map(|_| random.below(4) as u8).collect();
            let mut datagram = vec![crate::wire::VERSION, kind, layer, packets];
            datagram.extend_from_slice(&(length % 256).to_be_bytes());
            datagram.extend_from_slice(&stride.to_be_bytes());
            datagram.extend_from_slice(&first.to_be_bytes());
            seal_datagram(&key(), SESSION, number as u64, &mut datagram, &rest);
            receiver.handle_datagram(Time::ZERO, &datagram, &mut out);
            let mut packet = packet(&mut random, 100);
            receiver.observe(Time::ZERO, &mut packet, &mut out).expect("a packet");
        }
        prop_assert!(out.is_empty());
        receiver.loss_report(Time::ZERO);
    }
}
