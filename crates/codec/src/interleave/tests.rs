use proptest::prelude::*;
use std::collections::BTreeMap;

use super::*;

fn packet(number: u64, seed: u64) -> Vec<u8> {
    let mut state = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let len = 1 + (next() % 200) as usize;
    (0..len).map(|_| next() as u8).collect()
}

/// A repair of one's own.
#[derive(Clone)]
struct Owned {
    layer: u8,
    first: u64,
    recipe: Vec<PacketName>,
    length: u16,
    xor: Vec<u8>,
}

impl Owned {
    fn of(repair: &Repair<'_>) -> Self {
        Owned {
            layer: repair.layer,
            first: repair.first,
            recipe: repair.recipe.to_vec(),
            length: repair.length,
            xor: repair.xor.to_vec(),
        }
    }

    fn repair(&self) -> Repair<'_> {
        let Owned { layer, first, recipe, length, xor } = self;
        Repair { layer: *layer, first: *first, recipe, length: *length, xor }
    }
}

/// What leaves a sender: packets by number, and the repairs behind each.
fn sent(parameters: &Parameters, packets: u64) -> Vec<(u64, Vec<Owned>)> {
    let mut sender = Interleaver::new(parameters, 200).expect("a length");
    (0..packets)
        .map(|number| {
            let mut repairs = Vec::new();
            sender
                .add(PacketName(number), &packet(number, 7), |r| repairs.push(Owned::of(&r)))
                .expect("short enough");
            (number, repairs)
        })
        .collect()
}

/// Sends all but the lost packets and repairs; gives back what was recovered, checked.
fn run(
    parameters: &Parameters,
    packets: u64,
    lost: impl Fn(u64) -> bool,
) -> (BTreeMap<u64, u8>, Account) {
    let mut receiver = Recoverer::new(2_048, 2_048, 200).expect("memory");
    let mut back = BTreeMap::new();
    let mut accept = |name: PacketName, bytes: &[u8], layer: u8| {
        assert_eq!(bytes, packet(name.0, 7), "packet {}", name.0);
        assert!(back.insert(name.0, layer).is_none(), "packet {} came back twice", name.0);
        true
    };
    for (number, repairs) in sent(parameters, packets) {
        if !lost(number) {
            receiver.on_packet(PacketName(number), &packet(number, 7), &mut accept).expect("fits");
        }
        for repair in &repairs {
            receiver.on_repair(&repair.repair(), &mut accept).expect("fits");
        }
    }
    (back, *receiver.account())
}

#[test]
fn a_single_loss_comes_back_by_the_first_layer() {
    let parameters = Parameters::new(8, &[1, 11, 19]).expect("a code");
    let (back, account) = run(&parameters, 2_000, |n| n % 100 == 50);
    assert_eq!(back.len(), 20);
    assert_eq!(account.recovered_total(), 20);
    // Now and then a bin of another layer happens to fill earlier.
    assert!(account.recovered[0] >= 15, "{account:?}");
}

#[test]
fn a_burst_comes_back_by_a_layer_of_larger_interleave() {
    for burst in 1..=40 {
        let parameters = Parameters::new(8, &[1, 19, 41]).expect("a code");
        let (back, _) = run(&parameters, 4_000, |n| (1_000..1_000 + burst).contains(&n));
        assert_eq!(back.len() as u64, burst);
        if burst >= 20 {
            assert!(back.values().any(|&layer| layer == 2), "{burst}: {back:?}");
        }
    }
    let parameters = Parameters::new(8, &[1, 19, 41]).expect("a code");
    let (back, account) = run(&parameters, 4_000, |n| (1_000..1_400).contains(&n));
    assert!(back.len() < 400, "a burst of ten times the interleave is too long");
    assert!(account.repairs > account.redundant);
}

#[test]
fn overhead_is_c_over_r_and_repairs_are_spread() {
    for staggered in [true, false] {
        let mut parameters = Parameters::new(8, &[1, 16, 32]).expect("a code");
        parameters.staggered = staggered;
        let sent = sent(&parameters, 8_192);
        let settled = &sent[4_096..];
        let repairs: usize = settled.iter().map(|(_, repairs)| repairs.len()).sum();
        assert_eq!(repairs, 4_096 * 3 / 8);
        // Two in 16 packets on the average, evenly when staggered; 16 at once when not.
        let most = settled
            .windows(16)
            .map(|run| run.iter().flat_map(|(_, r)| r).filter(|r| r.layer == 1).count())
            .max();
        assert_eq!(most, Some(if staggered { 3 } else { 16 }));
    }
}

#[test]
fn staggered_bins_first_fire_as_in_the_paper() {
    // §4.3.1: with r = 4 and i = 2 the initial firing sizes are 2 and 4.
    let parameters = Parameters::new(4, &[2]).expect("a code");
    assert_eq!([0, 1].map(|x| parameters.first_size(2, x)), [2, 4]);
    // Fig. 6: r = 5; in a layer of interleave 8 the first bin fires at 1, the second at 2, ...
    let parameters = Parameters::new(5, &[1, 4, 8]).expect("a code");
    assert_eq!([0, 1, 2, 3, 4, 5].map(|x| parameters.first_size(8, x)), [1, 2, 3, 4, 5, 1]);
}

#[test]
fn delayed_xors_leave_i_packets_after_their_last_packet() {
    let mut parameters = Parameters::new(3, &[10]).expect("a code");
    parameters.delayed = true;
    for (number, repairs) in sent(&parameters, 300) {
        for repair in repairs {
            assert_eq!(repair.recipe.last(), Some(&PacketName(number - 10)));
        }
    }
}

#[test]
fn a_repair_says_which_packets_are_in_it() {
    for delayed in [false, true] {
        let mut parameters = Parameters::new(8, &[1, 11, 19]).expect("a code");
        parameters.delayed = delayed;
        for (_, repairs) in sent(&parameters, 2_000) {
            for repair in repairs {
                let stride = u64::from(parameters.interleaves()[usize::from(repair.layer)]);
                let numbers: Vec<_> = (0..repair.recipe.len() as u64)
                    .map(|k| PacketName(repair.first + k * stride))
                    .collect();
                assert_eq!(repair.recipe, numbers);
            }
        }
    }
}

#[test]
fn finishing_sends_what_every_bin_holds() {
    let parameters = Parameters::new(8, &[1, 11, 19]).expect("a code");
    let mut sender = Interleaver::new(&parameters, 200).expect("a length");
    let mut sent = vec![0; 100];
    for number in 0..100 {
        let mut count = |repair: Repair<'_>| {
            repair.recipe.iter().for_each(|name| sent[name.0 as usize] += 1);
        };
        sender.add(PacketName(number), &packet(number, 7), &mut count).expect("fits");
    }
    sender.finish(|repair| repair.recipe.iter().for_each(|name| sent[name.0 as usize] += 1));
    assert!(sent.iter().all(|&times| times == 3), "{sent:?}");
    sender.finish(|_| panic!("nothing is left"));
}

#[test]
fn flushing_protects_the_last_packets() {
    let parameters = Parameters::new(8, &[1, 20]).expect("a code");
    let mut sender = Interleaver::new(&parameters, 200).expect("a length");
    let mut receiver = Recoverer::new(64, 64, 200).expect("memory");
    for number in 0..3 {
        sender.add(PacketName(number), &packet(number, 7), |_| {}).expect("fits");
        if number != 1 {
            receiver.on_packet(PacketName(number), &packet(number, 7), |_, _, _| true).expect("ok");
        }
    }
    let mut back = Vec::new();
    sender.flush(|repair| {
        let took = receiver.on_repair(&repair, |name, bytes, _| {
            back.push((name, bytes.to_vec()));
            true
        });
        took.expect("fits");
    });
    // The very first bin of the layer fired at size 1 (staggered); what it held is not at stake.
    assert_eq!(back, [(PacketName(1), packet(1, 7))]);
}

#[test]
fn overlapping_layers_are_told() {
    assert!(Parameters::new(8, &[1, 10, 20]).expect("a code").layers_overlap());
    assert!(!Parameters::new(8, &[1, 11, 19]).expect("a code").layers_overlap());
}

#[test]
fn impossible_codes_are_refused() {
    assert_eq!(Parameters::new(0, &[1]), Err(InterleaveError::Rate(0)));
    assert_eq!(Parameters::new(33, &[1]), Err(InterleaveError::Rate(33)));
    assert_eq!(Parameters::new(8, &[]), Err(InterleaveError::Layers(0)));
    assert_eq!(Parameters::new(8, &[1; 9]), Err(InterleaveError::Layers(9)));
    assert_eq!(Parameters::new(8, &[1, 0]), Err(InterleaveError::Interleave(0)));
    assert!(matches!(Recoverer::new(usize::MAX, 2, 1_500), Err(InterleaveError::Memory)));
    // The table of names has 128 bytes a packet or more, and blocks have repairs beside those of the layers.
    assert!(matches!(Recoverer::new(1 << 25, 1, 1), Err(InterleaveError::Memory)));
    assert!(matches!(Recoverer::new(1, 2 << 20, 1_500), Err(InterleaveError::Memory)));
    assert!(matches!(Recoverer::new(0, 1, 1), Err(InterleaveError::Memory)));
}

proptest! {
    /// Whatever is lost, whatever the order: what comes back is right, comes once, and is all that
    /// peeling can give.
    #[test]
    fn recovers_just_what_peeling_can(
        rate in 1_u8..9,
        interleaves in proptest::collection::vec(1_u16..30, 1..4),
        options in any::<(bool, bool)>(),
        lost in proptest::collection::btree_set(0_u64..400, 0..80),
        lost_repairs in proptest::collection::btree_set(0_usize..400, 0..40),
        shuffle in any::<u64>(),
    ) {
        let mut parameters = Parameters::new(rate, &interleaves).expect("a code");
        (parameters.staggered, parameters.delayed) = options;
        let mut packets = Vec::new();
        let mut repairs = Vec::new();
        for (number, fired) in sent(&parameters, 400) {
            packets.push(number);
            repairs.extend(fired);
        }
        let mut order = 0;
        repairs.retain(|_| { order += 1; !lost_repairs.contains(&(order - 1)) });
        // Arrivals: packets and repairs, in an order of their own.
        let mut arrivals: Vec<(u64, Result<u64, &Owned>)> = packets
            .iter()
            .filter(|n| !lost.contains(n))
            .map(|&n| (n, Ok(n)))
            .chain(repairs.iter().enumerate().map(|(i, r)| (i as u64, Err(r))))
            .map(|(n, what)| ((n ^ shuffle).wrapping_mul(0x9e37_79b9_7f4a_7c15), what))
            .collect();
        arrivals.sort_by_key(|(key, _)| *key);
        let mut receiver = Recoverer::new(512, 512, 200).expect("memory");
        let mut back = BTreeMap::new();
        let mut here = std::collections::BTreeSet::new();
        for (_, what) in &arrivals {
            let mut accept = |name: PacketName, bytes: &[u8], layer: u8| {
                assert_eq!(bytes, packet(name.0, 7));
                assert!(back.insert(name.0, layer).is_none());
                true
            };
            match what {
                Ok(number) => {
                    here.insert(*number);
                    receiver
                        .on_packet(PacketName(*number), &packet(*number, 7), &mut accept)
                        .expect("fits");
                }
                Err(repair) => receiver.on_repair(&repair.repair(), &mut accept).expect("fits"),
            }
        }
        // The model: peel until nothing moves.
        let mut known = here;
        loop {
            let more: Vec<u64> = repairs
                .iter()
                .filter_map(|repair| {
                    let mut gaps = repair.recipe.iter().filter(|n| !known.contains(&n.0));
                    let gap = gaps.next()?;
                    gaps.next().is_none().then_some(gap.0)
                })
                .collect();
            if more.is_empty() {
                break;
            }
            known.extend(more);
        }
        for number in 0..400 {
            let there = known.contains(&number);
            // A repair may overtake a packet and bring it back before it arrives.
            prop_assert!(!there || !lost.contains(&number) || back.contains_key(&number));
            prop_assert!(there || !back.contains_key(&number));
        }
        prop_assert_eq!(receiver.missing() > 0, repairs.iter().any(|r| r.recipe.iter().any(|n| !known.contains(&n.0))));
    }

    /// Nothing a stranger sends panics, and memory stays where it was.
    #[test]
    fn arbitrary_repairs_do_no_harm(
        inputs in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(0_u64..20, 0..40), any::<u16>(),
             proptest::collection::vec(any::<u8>(), 0..70), any::<u8>()), 0..200),
    ) {
        let mut receiver = Recoverer::new(8, 4, 64).expect("memory");
        for (is_packet, names, length, bytes, layer) in inputs {
            let names: Vec<PacketName> = names.into_iter().map(PacketName).collect();
            let outcome = if is_packet {
                let name = names.first().copied().unwrap_or_default();
                receiver.on_packet(name, &bytes, |n, _, _| n.0 % 3 != 0)
            } else {
                let repair = Repair { layer, first: 0, recipe: &names, length, xor: &bytes };
                receiver.on_repair(&repair, |n, _, _| n.0 % 3 != 0)
            };
            match outcome {
                Ok(()) => {}
                Err(InterleaveError::TooLong { got, limit }) => prop_assert!(got > limit),
                Err(InterleaveError::Recipe(n)) => prop_assert!(n == 0 || n > 32),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
        prop_assert!(receiver.missing() <= 4 * 32);
    }
}
