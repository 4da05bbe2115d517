//! Reed-Solomon blocks as the code of a pair: what comes back, how long repairs are, and what adapts.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wellspring_codec::interleave::BlockParameters;
use wellspring_core::{Duration, Seed, Time};

use super::*;

const SESSION: SessionId = SessionId { start: 1_000, random: 1 };
const OTHER: SessionId = SessionId { start: 2_000, random: 2 };
const LONGEST: usize = 301;

fn key() -> PresharedKey {
    PresharedKey::new([7; KEY_LEN])
}

fn packet(number: usize) -> Vec<u8> {
    let len = 28 + number * 7_919 % (LONGEST - 27);
    let mut bytes: Vec<u8> = (0..len).map(|at| ((at * 31) ^ number) as u8).collect();
    bytes[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    bytes[20..28].copy_from_slice(&(number as u64).to_be_bytes());
    let identity = Namer::new(&key()).identify(&mut bytes).expect("a packet");
    restore(&mut bytes, identity.volatile); // with a right checksum
    bytes
}

fn blocks(rate: u8, repairs: u8, interleave: u16) -> Code {
    let mut code = BlockParameters::new(rate, repairs, interleave).expect("a code");
    code.delayed = interleave > 1;
    Code::Blocks(code)
}

fn sender(code: Code, adaptive: Option<Limits>) -> SendSide {
    let config = SendConfig {
        code,
        adaptive,
        longest: LONGEST,
        flush_after: Duration::from_millis(5),
        repair_within: None,
    };
    SendSide::new(&key(), SESSION, &config).expect("a length")
}

fn receiver() -> ReceiveSide {
    let config =
        ReceiveConfig { longest: LONGEST, hold: Duration::ZERO, ..ReceiveConfig::default() };
    ReceiveSide::new(&key(), OTHER, &config).expect("memory").believing(SESSION)
}

/// Sends packets, 100 us apart; how often each lost one comes back. `loses` says of each packet and repair in turn whether
/// it is lost.
fn come_back(
    sender: &mut SendSide,
    receiver: &mut ReceiveSide,
    packets: usize,
    mut loses: impl FnMut(usize, bool) -> bool,
) -> BTreeMap<usize, u32> {
    let mut back = BTreeMap::new();
    let mut lost = vec![false; packets];
    for number in 0..packets {
        let now = Time::ZERO + Duration::from_micros(100) * number as u64;
        let (mut repairs, mut out) = (Batch::new(), Batch::new());
        sender.handle_timeout(now, &mut repairs);
        sender.observe(now, &mut packet(number), &mut repairs).expect("protected");
        lost[number] = loses(number, false);
        if !lost[number] {
            receiver.observe(now, &mut packet(number), &mut out).expect("a packet");
        }
        for repair in repairs.iter() {
            if !loses(number, true) {
                assert_eq!(receiver.handle_datagram(now, repair, &mut out), Arrival::Repair);
            }
        }
        for bytes in out.iter() {
            let number = u64::from_be_bytes(std::array::from_fn(|n| bytes[20 + n])) as usize;
            assert!(lost[number] && bytes == packet(number), "packet {number}");
            *back.entry(number).or_insert(0) += 1;
        }
    }
    assert_eq!(receiver.account().garbled, 0);
    back
}

#[test]
fn bursts_and_single_losses_come_back_once() {
    let lost = |n: usize| n % 97 == 50 || (1_000..1_020).contains(&n);
    let (mut sender, mut receiver) = (sender(blocks(8, 3, 20), None), receiver());
    let burst = |n: usize| (1_000..1_020).contains(&n);
    let back =
        come_back(
            &mut sender,
            &mut receiver,
            3_000,
            |n, repair| if repair { burst(n) } else { lost(n) },
        );
    let expected: BTreeMap<usize, u32> = (0..2_800).filter(|&n| lost(n)).map(|n| (n, 1)).collect();
    let back: BTreeMap<usize, u32> = back.into_iter().filter(|&(n, _)| n < 2_800).collect();
    assert_eq!(back, expected);
    // Each repair reports on its packets.
    let report = receiver.loss_report(Time::ZERO);
    assert_eq!(report.longest_burst, 21, "the one behind the burst is a single loss: {report:?}");
    let overhead = sender.counters().repairs as f64 / sender.counters().packets as f64;
    assert!((overhead - 0.375).abs() < 0.02, "{overhead}");
}

#[test]
fn repairs_are_no_longer_than_the_plan_has_room_for() {
    for rate in [1, 8, 15, 31] {
        let code = blocks(rate, 2, 1);
        let limit = HEADER_LEN + usize::from(code.mtu_rate()) * INGREDIENT_LEN + LONGEST + TAG_LEN;
        let (mut sender, mut longest) = (sender(code, None), 0);
        for number in 0..500 {
            let mut out = Batch::new();
            sender.observe(Time::ZERO, &mut packet(number), &mut out).expect("protected");
            longest = out.iter().map(<[u8]>::len).max().unwrap_or(0).max(longest);
        }
        assert!(longest <= limit && longest + 10 > limit, "{rate}: {longest} of {limit}");
    }
}

#[test]
fn unfinished_blocks_leave_after_a_silence_and_before_another_code() {
    let (mut sender, mut receiver) = (sender(blocks(8, 3, 4), None), receiver());
    let mut out = Batch::new();
    for number in 0..200 {
        sender.observe(Time::ZERO, &mut packet(number), &mut out).expect("protected");
    }
    out.clear();
    let due = sender.poll_timeout().expect("a flush");
    sender.handle_timeout(due, &mut out);
    assert!(!out.is_empty());
    let mut back = Batch::new();
    for repair in out.iter() {
        assert_eq!(receiver.handle_datagram(due, repair, &mut back), Arrival::Repair);
    }
    // Those of blocks with no more packets than repairs are there, with nothing else heard.
    assert!(!back.is_empty());
    out.clear();
    sender.handle_timeout(due + Duration::from_secs(1), &mut out);
    assert!(out.is_empty(), "once");
}

#[test]
fn an_adaptive_pair_of_blocks_follows_loss_and_goes_off() {
    let limits = Limits { family: Family::ReedSolomon, ..Limits::default() };
    let mut sender = sender(blocks(8, 3, 20), Some(limits));
    let report = |packets, lost, usual_burst| LossReport {
        packets,
        lost,
        bursts: lost / u32::from(usual_burst),
        usual_burst,
        ..LossReport::default()
    };
    let first = sender.code().cloned().expect("on before anything is known");
    assert_eq!(first.family(), Family::ReedSolomon);
    let mut out = Batch::new();
    for second in 0..20 {
        let now = Time::ZERO + Duration::from_secs(second);
        sender.on_report(now, &report(5_000, 250, 1), &mut out);
    }
    let random = sender.code().cloned().expect("on");
    assert!(random.overhead() > first.overhead() && random.burst() == 1, "{random:?}");
    for second in 20..60 {
        let now = Time::ZERO + Duration::from_secs(second);
        sender.on_report(now, &report(5_000, 0, 1), &mut out);
    }
    assert_eq!(sender.code(), None);
}

proptest! {
    /// Whatever is lost, only lost packets come back, whole, and none twice.
    #[test]
    fn nothing_comes_back_that_was_not_lost(
        rate in 1_u8..=31,
        repairs in 1_u8..=8,
        interleave in 1_u16..24,
        part in 0.0_f64..0.3,
        seed: u64,
    ) {
        let mut random = Seed(seed).stream("losses");
        let (mut sender, mut receiver) = (sender(blocks(rate, repairs, interleave), None), receiver());
        let back = come_back(&mut sender, &mut receiver, 600, |_, _| random.unit() < part);
        prop_assert!(back.values().all(|&times| times == 1));
    }
}
