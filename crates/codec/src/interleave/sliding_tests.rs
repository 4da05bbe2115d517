//! The sliding-window code over links that lose at random, in bursts, and all at once.

use proptest::prelude::*;

use super::*;

const LONGEST: usize = 90;

fn packet(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let len = 20 + (state >> 40) as usize % (LONGEST - 19);
    let byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(byte).take(len).collect()
}

fn name(number: u64) -> PacketName {
    PacketName(number.wrapping_mul(0xd134_2543_de82_ef95))
}

struct Outcome {
    lost: Vec<u64>,
    back: Vec<u64>,
    account: Account,
}

/// Sends packets; `loses` says of each packet and repair in turn whether it is lost.
fn run(
    parameters: SlidingParameters,
    packets: u64,
    mut loses: impl FnMut(u64, bool) -> bool,
) -> Outcome {
    let mut sender = SlidingSender::new(&parameters, LONGEST).expect("a sender");
    let mut receiver = Recoverer::new(1_024, 1_024, LONGEST).expect("a receiver");
    let (mut lost, mut back) = (Vec::new(), Vec::new());
    for number in 0..packets {
        let bytes = packet(number);
        let mut accept = |named: PacketName, bytes: &[u8], _: u8| {
            let found = (0..packets).rev().find(|&n| name(n) == named).expect("a name");
            assert_eq!(bytes, packet(found), "of {found}");
            back.push(found);
            true
        };
        if loses(number, false) {
            lost.push(number);
        } else {
            receiver.on_packet(name(number), &bytes, &mut accept).expect("no longer than agreed");
        }
        let mut take = |repair: Repair<'_>| {
            if !loses(number, true) {
                let at = receiver.on_sliding_repair_at(0, &repair, &mut accept);
                at.expect("a repair of this code");
            }
        };
        sender.add(name(number), &bytes, &mut take).expect("no longer than agreed");
    }
    back.sort_unstable();
    Outcome { lost, back, account: *receiver.account() }
}

fn code(rate: u8, window: u16) -> SlidingParameters {
    SlidingParameters::new(rate, window, MAX_NAMES).expect("a code")
}

#[test]
fn a_burst_comes_back_whichever_packets_it_takes() {
    for burst in [1, 5, 20, 40] {
        // The repairs between the packets are lost with them.
        let outcome = run(code(4, 256), 1_000, |n, _| (500..500 + burst).contains(&n));
        assert_eq!(outcome.lost.len() as u64, burst);
        assert_eq!(outcome.back, outcome.lost);
        assert_eq!(outcome.account.garbled, 0);
    }
}

#[test]
fn nothing_is_brought_back_where_nothing_is_lost() {
    let outcome = run(code(8, 128), 2_000, |_, _| false);
    assert!(outcome.back.is_empty());
    let Account { repairs, redundant, .. } = outcome.account;
    assert_eq!((repairs, redundant), (250, 250));
}

#[test]
fn random_losses_come_back() {
    for (percent, rate) in [(1, 12), (5, 6)] {
        println!("seed 7");
        let mut state = 7_u64;
        let mut loses = |_, _| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 100 < percent
        };
        let outcome = run(code(rate, 160), 30_000, &mut loses);
        let (lost, back) = (outcome.lost.len(), outcome.back.len());
        println!("{percent} %: {back} of {lost}, {:?}", outcome.account);
        // But for the last ones.
        assert!(back + 5 >= lost, "{back} of {lost}");
    }
}

#[test]
fn after_an_outage_the_code_goes_on() {
    // More than the window and the numbers that are remembered.
    for outage in [300, 1_500, 3_000] {
        let dead = 500..500 + outage;
        let outcome =
            run(code(6, 128), 6_000, |n, _| dead.contains(&n) || n == 5_000 || n == 5_001);
        assert_eq!(outcome.back.last_chunk(), Some(&[5_000, 5_001]), "{outage}");
        assert_eq!(outcome.account.garbled, 0);
    }
}

#[test]
fn late_packets_leave_the_equations() {
    let parameters = code(4, 64);
    let mut sender = SlidingSender::new(&parameters, LONGEST).expect("a sender");
    let mut receiver = Recoverer::new(1_024, 16, LONGEST).expect("a receiver");
    let mut back = Vec::new();
    let mut accept = |named: PacketName, _: &[u8], _: u8| {
        back.push(named);
        true
    };
    for number in 0..10 {
        let bytes = packet(number);
        if number != 1 && number != 2 {
            receiver.on_packet(name(number), &bytes, &mut accept).expect("no longer than agreed");
        }
        // One repair for both packets: not enough.
        let mut take = |repair: Repair<'_>| {
            if number == 3 {
                receiver.on_sliding_repair_at(0, &repair, &mut accept).expect("a repair");
            }
        };
        sender.add(name(number), &bytes, &mut take).expect("no longer than agreed");
    }
    receiver.on_packet(name(2), &packet(2), &mut accept).expect("no longer than agreed");
    assert_eq!(back, [name(1)]);
}

#[test]
fn wild_repairs_cost_nothing_and_bring_nothing() {
    let mut receiver = Recoverer::new(64, 16, LONGEST).expect("a receiver");
    let recipe = [PacketName(1)];
    let symbol = [7; LONGEST + SYMBOL_HEADER_LEN + 1];
    for (first, length, len) in [
        (0, 0, 50),
        (0, MAX_WINDOW + 1, 50),
        (u64::from(u32::MAX), 3, SYMBOL_HEADER_LEN - 1),
        (5, 1, symbol.len()),
        (u64::MAX, 512, 90),
        (1 << 31, 512, 90),
    ] {
        let repair = Repair { layer: 3, first, recipe: &recipe, length, xor: &symbol[..len] };
        let taken = receiver.on_sliding_repair_at(0, &repair, |_, _, _| panic!("no packet"));
        taken.expect("one name");
    }
    let none = Repair { layer: 0, first: 0, recipe: &[], length: 1, xor: &symbol[..20] };
    assert!(receiver.on_sliding_repair_at(0, &none, |_, _, _| true).is_err());
    assert!(SlidingParameters::new(0, 1, 1).is_err());
    assert!(SlidingParameters::new(1, MAX_WINDOW + 1, 1).is_err());
    assert!(SlidingParameters::new(1, 1, MAX_NAMES + 1).is_err());
}

/// Packets and repairs that contradict each other, one in eight, while packets are lost: what comes out of it is not
/// accepted, and once they are behind the window losses come back as before.
#[test]
fn contradictions_are_forgotten_with_their_packets() {
    const WILD: std::ops::Range<u64> = 300..900;
    let parameters = code(3, 64);
    let mut sender = SlidingSender::new(&parameters, LONGEST).expect("a sender");
    let mut receiver = Recoverer::new(1_024, 16, LONGEST).expect("a receiver");
    let (mut back, mut wrong) = (Vec::new(), 0);
    for number in 0..3_000 {
        let mut accept = |named: PacketName, bytes: &[u8], _: u8| {
            let found = (0..=number).rev().find(|&n| name(n) == named);
            let is_right = found.is_some_and(|found| bytes == packet(found));
            back.extend(found.filter(|_| is_right));
            wrong += u32::from(!is_right);
            is_right
        };
        let mut bytes = packet(number);
        let is_lost = number % 10 == 3;
        if WILD.contains(&number) && number % 8 == 5 {
            bytes[0] ^= 1;
        }
        if !is_lost {
            receiver.on_packet(name(number), &bytes, &mut accept).expect("no longer than agreed");
        }
        let mut take = |repair: Repair<'_>| {
            let mut symbol = repair.xor.to_vec();
            if WILD.contains(&number) && number % 8 == 2 {
                symbol[SYMBOL_HEADER_LEN + 1] ^= 0x55;
            }
            let repair = Repair { xor: &symbol, ..repair };
            receiver.on_sliding_repair_at(0, &repair, &mut accept).expect("a repair");
        };
        sender.add(name(number), &packet(number), &mut take).expect("no longer than agreed");
    }
    assert!(wrong > 0, "the contradictions came to equations");
    let account = receiver.account();
    assert!(account.garbled >= u64::from(wrong), "{account:?}");
    let lost = |range: std::ops::Range<u64>| range.filter(|n| n % 10 == 3).collect::<Vec<_>>();
    let came = |range: std::ops::Range<u64>| -> Vec<u64> {
        back.iter().copied().filter(|n| range.contains(n)).collect()
    };
    assert_eq!(came(0..300), lost(0..300));
    // The window, and the numbers that equations are kept for.
    let settled = WILD.end + 64 + 1_024..2_990;
    assert_eq!(came(settled.clone()), lost(settled));
}

proptest! {
    /// Whatever is lost, what comes back is what was sent, once, and was lost; and of losses that are few enough, all.
    #[test]
    fn only_what_was_lost_comes_back(
        seed in any::<u64>(),
        rate in 2_u8..9,
        window in 16_u16..200,
        percent in 0_u64..60,
    ) {
        let mut state = seed | 1;
        let mut loses = |_, _| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 100 < percent
        };
        let outcome = run(code(rate, window), 700, &mut loses);
        prop_assert!(outcome.back.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(outcome.back.iter().all(|n| outcome.lost.binary_search(n).is_ok()));
        prop_assert_eq!(outcome.account.garbled, 0);
    }
}
