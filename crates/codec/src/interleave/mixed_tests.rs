//! Codes side by side at one receiver: what one brings back serves the others at once.

use super::*;

const LONGEST: usize = 60;
const PACKETS: u64 = 6;

fn packet(number: u64) -> Vec<u8> {
    (0..20 + number * 3).map(|at| (at * 7 + number * 41) as u8).collect()
}

fn name(number: u64) -> PacketName {
    PacketName(number + 1)
}

/// The code of a repair.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Layer,
    Block,
    Window,
}

/// A repair of those packets.
fn repair_of(kind: Kind, packets: &[u64], receiver: &mut Recoverer, back: &mut Vec<u64>) {
    let mut accept = |named: PacketName, bytes: &[u8], _: u8| {
        assert_eq!(bytes, packet(named.0 - 1));
        back.push(named.0 - 1);
        true
    };
    let mut took = 0;
    let mut take = |repair: Repair<'_>| {
        let taken = match kind {
            _ if took > 0 => return,
            Kind::Layer => receiver.on_repair_at(0, &repair, &mut accept),
            Kind::Block => receiver.on_block_repair_at(0, &repair, &mut accept),
            Kind::Window => receiver.on_sliding_repair_at(0, &repair, &mut accept),
        };
        taken.expect("as a sender makes them");
        took += 1;
    };
    let rate = packets.len() as u8;
    match kind {
        Kind::Layer => {
            let mut parameters = Parameters::new(rate, &[1]).expect("a code");
            parameters.staggered = false;
            let mut sender = Interleaver::new(&parameters, LONGEST).expect("a sender");
            for &number in packets {
                sender.add(name(number), &packet(number), &mut take).expect("fits");
            }
        }
        Kind::Block => {
            let code = ReedSolomonBlocks::new();
            let mut sender = BlockSender::new(code, rate, 1, 1, LONGEST).expect("a sender");
            for &number in packets {
                sender.take(name(number), &packet(number), &mut take).expect("fits");
            }
        }
        Kind::Window => {
            let parameters = SlidingParameters::new(rate, u16::from(rate), rate).expect("a code");
            let mut sender = SlidingSender::new(&parameters, LONGEST).expect("a sender");
            for &number in packets {
                sender.add(name(number), &packet(number), &mut take).expect("fits");
            }
        }
    }
    assert_eq!(took, 1);
}

/// Three packets are lost, and each code has one repair: one gives the first packet, one the second by the first, and one
/// the third by the second.
#[test]
fn what_one_code_brings_back_serves_the_others() {
    use Kind::{Block, Layer, Window};
    for kinds in [
        [Layer, Block, Window],
        [Layer, Window, Block],
        [Block, Layer, Window],
        [Block, Window, Layer],
        [Window, Layer, Block],
        [Window, Block, Layer],
    ] {
        let contents: [&[u64]; 3] = [&[0, 1], &[1, 2, 3], &[3, 4, 5]];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut receiver = Recoverer::new(64, 64, LONGEST).expect("memory");
            for number in (0..PACKETS).filter(|number| ![1, 3, 5].contains(number)) {
                let none = |_: PacketName, _: &[u8], _: u8| unreachable!("no repair yet");
                receiver.on_packet(name(number), &packet(number), none).expect("fits");
            }
            let mut back = Vec::new();
            for at in order {
                repair_of(kinds[at], contents[at], &mut receiver, &mut back);
            }
            back.sort_unstable();
            assert_eq!(back, [1, 3, 5], "{kinds:?} in the order {order:?}");
            assert_eq!((receiver.missing(), receiver.account().recovered_total()), (0, 3));
        }
    }
}

/// A packet that arrives late lets one code bring back another, which a third code lacks.
#[test]
fn a_late_packet_serves_all_codes() {
    let mut receiver = Recoverer::new(64, 64, LONGEST).expect("memory");
    let mut back = Vec::new();
    repair_of(Kind::Window, &[0, 1], &mut receiver, &mut back);
    repair_of(Kind::Layer, &[1, 2], &mut receiver, &mut back);
    repair_of(Kind::Block, &[2, 3], &mut receiver, &mut back);
    assert!(back.is_empty());
    let accept = |named: PacketName, _: &[u8], _: u8| {
        back.push(named.0 - 1);
        true
    };
    receiver.on_packet(name(0), &packet(0), accept).expect("fits");
    assert_eq!(back, [1, 2, 3]);
}

/// A packet can stand in several blocks: each is told of it.
#[test]
fn a_packet_serves_every_block_that_lacks_it() {
    let mut receiver = Recoverer::new(64, 64, LONGEST).expect("memory");
    let mut back = Vec::new();
    repair_of(Kind::Block, &[0, 1, 2], &mut receiver, &mut back);
    repair_of(Kind::Block, &[0, 3], &mut receiver, &mut back);
    let accept = |named: PacketName, _: &[u8], _: u8| {
        back.push(named.0 - 1);
        true
    };
    receiver.on_packet(name(0), &packet(0), accept).expect("fits");
    assert_eq!(back, [3]);
}
