//! The Reed-Solomon code: any r of a block's r + c symbols give it, by whole blocks and by the sender that keeps none.

use proptest::prelude::*;
use std::collections::BTreeSet;

use super::*;

const LONGEST: usize = 120;

fn packet(number: u64) -> Vec<u8> {
    (0..(number * 37 % 121) as usize).map(|at| ((at as u64 * 31) ^ (number * 7)) as u8).collect()
}

/// A repair of one's own: layer, number of the first packet, recipe, symbol.
type Owned = (u8, u64, Vec<PacketName>, Vec<u8>);

impl StreamSender for ReedSolomonSender {
    fn take(
        &mut self,
        name: PacketName,
        packet: &[u8],
        send: &mut dyn FnMut(Repair<'_>),
    ) -> Result<(), InterleaveError> {
        self.add(name, packet, send)
    }
}

/// The repairs that follow each packet.
fn sent(sender: &mut dyn StreamSender, packets: u64) -> Vec<Vec<Owned>> {
    let each = |number| {
        let mut repairs = Vec::new();
        let mut take = |r: Repair<'_>| {
            repairs.push((r.layer, r.first, r.recipe.to_vec(), r.xor.to_vec()));
        };
        sender.take(PacketName(number), &packet(number), &mut take).expect("fits");
        repairs
    };
    (0..packets).map(each).collect()
}

/// What comes back of the lost packets, checked, if the link also loses the n-th repairs that `loses` says.
fn run(
    parameters: &BlockParameters,
    packets: u64,
    lost: &BTreeSet<u64>,
    loses: impl Fn(u64) -> bool,
) -> BTreeSet<u64> {
    let mut sender = ReedSolomonSender::new(parameters, LONGEST).expect("a length");
    let mut receiver = Recoverer::new(1_000, 1_000, LONGEST).expect("memory");
    let mut back = BTreeSet::new();
    let mut accept = |name: PacketName, bytes: &[u8], _: u8| {
        assert_eq!(bytes, packet(name.0), "packet {}", name.0);
        assert!(back.insert(name.0), "packet {} came back twice", name.0);
        true
    };
    let mut count = 0;
    for (number, repairs) in (0..).zip(sent(&mut sender, packets)) {
        // Repairs before their last packet belong to the place's block before.
        if !lost.contains(&number) {
            receiver.on_packet(PacketName(number), &packet(number), &mut accept).expect("fits");
        }
        for (layer, first, recipe, xor) in &repairs {
            let repair = Repair { layer: *layer, first: *first, recipe, length: 0, xor };
            if !loses(count) {
                receiver
                    .on_block_repair_at(0, &repair, &mut accept)
                    .expect("as a sender makes them");
            }
            count += 1;
        }
    }
    assert_eq!(receiver.account().garbled, 0);
    back
}

proptest! {
    /// The sender that adds each packet to its repairs at once makes those that whole blocks have.
    #[test]
    fn the_sender_makes_the_repairs_of_whole_blocks(rate in 1_u8..=32, repairs in 1_u8..=8) {
        let parameters = BlockParameters::new(rate, repairs, 1).expect("a code");
        let mut ours = ReedSolomonSender::new(&parameters, LONGEST).expect("a length");
        let code = ReedSolomonBlocks::new();
        let mut whole =
            BlockSender::new(code, rate, usize::from(repairs), 1, LONGEST).expect("a shape");
        let (ours, whole) = (sent(&mut ours, 100), sent(&mut whole, 100));
        // A block is as a place's first one only from the second on, and has no more repairs than packets.
        let few = |repairs: &[Owned]| -> Vec<Owned> {
            repairs.iter().filter(|repair| usize::from(repair.0) < repair.2.len()).cloned().collect()
        };
        for (ours, whole) in ours.iter().zip(&whole) {
            prop_assert_eq!(ours, &few(whole));
        }
    }

    #[test]
    fn a_block_comes_back_by_any_symbols_as_many_as_its_packets(
        rate in 1_u8..=32,
        repairs in 1_u8..=8,
        interleave in 1_u16..30,
        delayed: bool,
        lost in proptest::collection::btree_set(100_u64..500, 0..40),
        holes in proptest::collection::btree_set(0_u64..400, 0..60),
    ) {
        let mut parameters = BlockParameters::new(rate, repairs, interleave).expect("a code");
        parameters.delayed = delayed;
        let packets = 500 + u64::from(interleave) * 70;
        let back = run(&parameters, packets, &lost, |n| holes.contains(&n));
        // By what left: the packets and the repairs of each block that arrive.
        let mut sender = ReedSolomonSender::new(&parameters, LONGEST).expect("a length");
        let repairs = sent(&mut sender, packets).into_iter().flatten();
        let mut arrived = std::collections::BTreeMap::<Vec<PacketName>, usize>::new();
        for (n, (_, _, recipe, _)) in (0..).zip(repairs) {
            *arrived.entry(recipe).or_default() += usize::from(!holes.contains(&n));
        }
        let mut expected = BTreeSet::new();
        for (recipe, repairs) in arrived {
            let missing: Vec<u64> =
                recipe.iter().map(|name| name.0).filter(|number| lost.contains(number)).collect();
            if missing.len() <= repairs {
                expected.extend(missing);
            }
        }
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn hostile_repairs_neither_panic_nor_fill_memory(
        repairs in proptest::collection::vec(
            (0_u8..12, proptest::collection::vec(0_u64..20, 0..40), 0_usize..140, any::<u8>()),
            0..60,
        ),
    ) {
        let mut receiver = Recoverer::new(50, 32, LONGEST).expect("memory");
        let right = |name: PacketName, bytes: &[u8], _: u8| bytes == packet(name.0);
        for number in 0..10 {
            receiver.on_packet(PacketName(number), &packet(number), right).expect("fits");
        }
        for (layer, names, len, fill) in repairs {
            let recipe: Vec<PacketName> = names.into_iter().map(PacketName).collect();
            let xor = vec![fill; len];
            let repair = Repair { layer, first: 0, recipe: &recipe, length: 0, xor: &xor };
            let sound = (1..=32).contains(&recipe.len()) && len <= LONGEST + 2;
            prop_assert_eq!(receiver.on_block_repair_at(0, &repair, right).is_ok(), sound);
        }
    }
}

#[test]
fn a_burst_no_longer_than_the_interleave_takes_no_packet_with_its_repairs() {
    let mut parameters = BlockParameters::new(8, 1, 20).expect("a code");
    parameters.delayed = true;
    for start in 400..560 {
        let burst: BTreeSet<u64> = (start..start + 20).collect();
        let mut sender = ReedSolomonSender::new(&parameters, LONGEST).expect("a length");
        let repairs = sent(&mut sender, 1_000);
        // Repairs between the packets of the burst are lost with them.
        let before = |number: u64| repairs[..number as usize].iter().map(Vec::len).sum::<usize>();
        let holes = before(start) as u64..before(start + 20) as u64;
        let back = run(&parameters, 1_000, &burst, |n| holes.contains(&n));
        assert_eq!(back, burst);
    }
}

#[test]
fn unfinished_blocks_come_back() {
    let parameters = BlockParameters::new(8, 3, 4).expect("a code");
    let mut sender = ReedSolomonSender::new(&parameters, LONGEST).expect("a length");
    for number in 0..100 {
        sender.add(PacketName(number), &packet(number), |_| {}).expect("fits");
    }
    let mut receiver = Recoverer::new(50, 32, LONGEST).expect("memory");
    let mut back = Vec::new();
    let mut count = 0;
    let whole = sender.expire(98, |repair| {
        assert!(repair.recipe.len() < 8 && usize::from(repair.layer) < repair.recipe.len().min(3));
        count += 1;
        // Of each block all is lost but what repairs can make up for.
        for name in repair.recipe.iter().skip(3) {
            receiver.on_packet(*name, &packet(name.0), |_, _, _| false).expect("fits");
        }
        let accept = |name: PacketName, bytes: &[u8], _: u8| {
            assert_eq!(bytes, packet(name.0));
            back.push(name.0);
            true
        };
        receiver.on_block_repair_at(0, &repair, accept).expect("fits");
        true
    });
    assert!(whole && count > 0 && count == back.len(), "{count}: {back:?}");
    // One that is refused stays.
    let mut refused = 0;
    assert!(!sender.expire(100, |_| {
        refused += 1;
        false
    }));
    let mut rest = 0;
    sender.expire(100, |_| {
        rest += 1;
        true
    });
    assert!(refused == 1 && rest >= 1);
    assert!(sender.expire(100, |_| unreachable!("all have left")));
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let of = |rate, repairs, interleave| BlockParameters::new(rate, repairs, interleave).err();
    assert_eq!(of(0, 1, 1), Some(InterleaveError::Rate(0)));
    assert_eq!(of(33, 1, 1), Some(InterleaveError::Rate(33)));
    assert_eq!(of(8, 0, 1), Some(InterleaveError::Layers(0)));
    assert_eq!(of(8, 9, 1), Some(InterleaveError::Layers(9)));
    assert_eq!(of(8, 1, 0), Some(InterleaveError::Interleave(0)));
    let parameters = BlockParameters::new(8, 1, 1).expect("a code");
    assert!(ReedSolomonSender::new(&parameters, 0).is_err());
    let mut sender = ReedSolomonSender::new(&parameters, 9).expect("a length");
    let long = sender.add(PacketName(0), &[0; 10], |_| {});
    assert_eq!(long, Err(InterleaveError::TooLong { got: 10, limit: 9 }));
}
