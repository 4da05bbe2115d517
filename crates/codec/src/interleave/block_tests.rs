//! Tests of block codes with interleave: recovery, and hostile repairs.

use proptest::prelude::*;
use std::collections::BTreeSet;

use super::*;

const LONGEST: usize = 120;

/// One repair, the sum of all: brings back one packet of a block.
#[derive(Debug)]
struct Parity;

fn sum(symbols: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = symbols[0].clone();
    for symbol in &symbols[1..] {
        sum.iter_mut().zip(symbol).for_each(|(to, from)| *to ^= from);
    }
    sum
}

impl BlockCode for Parity {
    fn repairs(&mut self, packets: &[Vec<u8>], _: usize) -> Vec<Vec<u8>> {
        vec![sum(packets)]
    }

    fn restore(
        &mut self,
        packets: &[Option<Vec<u8>>],
        repairs: &[(u8, Vec<u8>)],
    ) -> Option<Vec<Vec<u8>>> {
        let mut symbols: Vec<Vec<u8>> = packets.iter().flatten().cloned().collect();
        (symbols.len() + 1 == packets.len()).then(|| {
            symbols.push(repairs[0].1.clone());
            vec![sum(&symbols)]
        })
    }
}

fn packet(number: u64) -> Vec<u8> {
    (0..(number * 37 % 121) as usize).map(|at| (at as u64 ^ number) as u8).collect()
}

/// Sends so many packets; returns which of the lost ones came back, all of them checked. Those that
/// are `late` arrive, behind the repairs of the next sixteen.
fn run(
    sender: &mut dyn StreamSender,
    receiver: &mut dyn StreamReceiver,
    packets: u64,
    lost: &BTreeSet<u64>,
    late: &BTreeSet<u64>,
) -> BTreeSet<u64> {
    let mut back = BTreeSet::new();
    let mut accept = |name: PacketName, bytes: &[u8], _: u8| {
        assert_eq!(bytes, packet(name.0), "packet {}", name.0);
        assert!(back.insert(name.0), "packet {} came back twice", name.0);
        true
    };
    for number in 0..packets + 16 {
        let overtaken = number.checked_sub(16).filter(|number| late.contains(number));
        for arrives in overtaken.into_iter().chain((number < packets).then_some(number)) {
            if lost.contains(&arrives) || (arrives == number && late.contains(&number)) {
                continue;
            }
            receiver.packet(PacketName(arrives), &packet(arrives), &mut accept).expect("fits");
        }
        if number < packets {
            let mut take = |repair: Repair<'_>| {
                receiver.repair(&repair, &mut accept).expect("as a sender makes them");
            };
            sender.take(PacketName(number), &packet(number), &mut take).expect("fits");
        }
    }
    back
}

proptest! {
    #[test]
    fn a_block_with_as_many_repairs_as_losses_comes_back_and_no_other(
        rate in 2_u8..9,
        interleave in 1_u16..7,
        lost in proptest::collection::btree_set(0_u64..200, 0..60),
    ) {
        let mut sender = BlockSender::new(Parity, rate, 1, interleave, LONGEST).expect("a shape");
        let mut receiver = BlockReceiver::new(Parity, 1_000, 100, LONGEST).expect("memory");
        let packets = u64::from(rate) * u64::from(interleave) * 5;
        let back = run(&mut sender, &mut receiver, packets, &lost, &BTreeSet::new());
        let span = u64::from(rate) * u64::from(interleave);
        let block = |number: u64| (number / span, number % u64::from(interleave));
        let alone = |number: &u64| {
            lost.iter().filter(|other| **other < packets && block(**other) == block(*number)).count() == 1
        };
        let expected: BTreeSet<u64> =
            lost.iter().copied().filter(|number| *number < packets && alone(number)).collect();
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn raptorq_brings_back_two_of_a_block_with_three_repairs(
        lost in proptest::collection::btree_set(0_u64..80, 0..6),
        late in proptest::collection::btree_set(0_u64..80, 0..3),
    ) {
        let code = RaptorQBlocks::new;
        let mut sender = BlockSender::new(code(), 8, 3, 10, LONGEST).expect("a shape");
        let mut receiver = BlockReceiver::new(code(), 200, 20, LONGEST).expect("memory");
        let back = run(&mut sender, &mut receiver, 80, &lost, &late);
        for number in lost.difference(&late) {
            let block = number % 10;
            let missing = lost.union(&late).filter(|other| *other % 10 == block).count();
            // One repair more than needed fails one time in 65,536.
            prop_assert!(missing > 2 || back.contains(number), "{number} of {missing} missing");
        }
    }

    #[test]
    fn hostile_repairs_neither_panic_nor_fill_memory(
        repairs in proptest::collection::vec(
            (0_u8..12, proptest::collection::vec(0_u64..20, 0..40), 0_usize..140, any::<u8>()),
            0..60,
        ),
    ) {
        let mut receiver = BlockReceiver::new(RaptorQBlocks::new(), 50, 4, LONGEST).expect("memory");
        let right = |name: PacketName, bytes: &[u8]| bytes == packet(name.0);
        for number in 0..10 {
            let mut accept = |name: PacketName, bytes: &[u8], _: u8| right(name, bytes);
            receiver.packet(PacketName(number), &packet(number), &mut accept).expect("fits");
        }
        for (layer, names, len, fill) in repairs {
            let recipe: Vec<PacketName> = names.into_iter().map(PacketName).collect();
            let xor = vec![fill; len];
            let repair = Repair { layer, first: 0, recipe: &recipe, length: 0, xor: &xor };
            let sound = (1..=32).contains(&recipe.len()) && layer < 8 && len <= LONGEST + 2;
            let mut accept = |name: PacketName, bytes: &[u8], _: u8| right(name, bytes);
            prop_assert_eq!(receiver.repair(&repair, &mut accept).is_ok(), sound);
            prop_assert!(receiver.waiting() <= 4);
        }
    }
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let sender = |rate, repairs, interleave, longest| {
        BlockSender::new(Parity, rate, repairs, interleave, longest).err()
    };
    assert_eq!(sender(0, 1, 1, 9), Some(InterleaveError::Rate(0)));
    assert_eq!(sender(8, 9, 1, 9), Some(InterleaveError::Layers(9)));
    assert_eq!(sender(8, 1, 0, 9), Some(InterleaveError::Interleave(0)));
    assert_eq!(sender(8, 1, 1, 0), Some(InterleaveError::Memory));
    assert!(BlockReceiver::new(Parity, usize::MAX, 1, 9).is_err());
    assert!(BlockReceiver::new(Parity, 1, usize::MAX / 8, 9).is_err());
    let mut sender = BlockSender::new(Parity, 8, 1, 1, 9).expect("a shape");
    let long = sender.take(PacketName(0), &[0; 10], &mut |_| {});
    assert_eq!(long, Err(InterleaveError::TooLong { got: 10, limit: 9 }));
}
