//! Objects to and from the independent crate `raptorq`, over random parameters and channels.

use proptest::prelude::*;
use raptorq::{Decoder as TheirDecoder, Encoder as TheirEncoder, EncodingPacket};
use wellspring_codec::raptorq::{
    ObjectDecoder, ObjectEncoder, ObjectTransmissionInformation, PayloadId,
};

/// An object, how it is cut, and what the channel does to its symbols.
#[derive(Clone, Debug)]
struct Case {
    object: Vec<u8>,
    information: ObjectTransmissionInformation,
    channel: Channel,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
enum Channel {
    SourceOnly,
    RepairOnly,
    /// Loses this many of 256 symbols.
    Lossy(u8),
}

fn cases() -> impl Strategy<Value = Case> {
    let channel = prop_oneof![
        Just(Channel::SourceOnly),
        Just(Channel::RepairOnly),
        (0..=200u8).prop_map(Channel::Lossy),
    ];
    let shape = (prop::sample::select(vec![1u8, 2, 4, 8]), 1..=16u16, 1..=400u32, 1..=4u8);
    (shape, any::<u32>(), channel, any::<u64>()).prop_map(
        |((alignment, units, symbols, z), r, channel, seed)| {
            let t = u16::from(alignment) * units;
            let f = u64::from(symbols) * u64::from(t) - u64::from(r) % u64::from(t);
            let z = u64::from(z).min(f.div_ceil(u64::from(t))) as u8;
            let n = 1 + (r >> 16) as u16 % units.min(4);
            let information = ObjectTransmissionInformation::new(f, t, z, n, alignment)
                .expect("chosen to be valid");
            let mut random = Random(seed);
            let object = (0..f).map(|_| random.below(256) as u8).collect();
            Case { object, information, channel, seed }
        },
    )
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

impl Case {
    /// The symbols a receiver gets: enough for every block, out of order, some twice.
    fn ids(&self) -> Vec<PayloadId> {
        let mut random = Random(self.seed ^ 0x5eed);
        let mut ids = Vec::new();
        for sbn in 0..self.information.source_blocks() {
            let k = self.information.block(sbn).expect("below Z").symbols;
            let first = match self.channel {
                Channel::RepairOnly => k + random.below(1 << 20) as u32,
                _ => 0,
            };
            let mut got = 0;
            for esi in first.. {
                let lost = match self.channel {
                    Channel::Lossy(lost) => random.below(256) < u64::from(lost),
                    _ => false,
                };
                if !lost {
                    ids.push(PayloadId::new(sbn, esi).expect("24 bits"));
                    got += 1;
                }
                let enough = match self.channel {
                    Channel::SourceOnly => k,
                    // Three more than K: the chance of a failure is below one in ten million.
                    _ => k + 3,
                };
                if got == enough {
                    break;
                }
            }
        }
        for i in (1..ids.len()).rev() {
            ids.swap(i, random.below(i as u64 + 1) as usize);
        }
        for _ in 0..ids.len() / 8 {
            let twice = ids[random.below(ids.len() as u64) as usize];
            ids.insert(random.below(ids.len() as u64) as usize, twice);
        }
        ids
    }

    fn their_information(&self) -> raptorq::ObjectTransmissionInformation {
        raptorq::ObjectTransmissionInformation::deserialize(&self.information.to_bytes())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    #[test]
    fn we_decode_what_the_other_encodes(case in cases()) {
        let theirs = TheirEncoder::new(&case.object, case.their_information());
        let mut ours = ObjectDecoder::new(case.information, 1 << 30).expect("valid");
        for id in case.ids() {
            let block = &theirs.get_block_encoders()[usize::from(id.source_block())];
            let k = case.information.block(id.source_block()).expect("below Z").symbols;
            let packet = match id.encoding_symbol().checked_sub(k) {
                None => block.source_packets()[id.encoding_symbol() as usize].clone(),
                Some(repair) => block.repair_packets(repair, 1).remove(0),
            };
            prop_assert_eq!(packet.payload_id().serialize(), id.to_bytes());
            ours.add(id, packet.data()).expect("valid symbol");
        }
        prop_assert!(ours.is_complete());
        prop_assert_eq!(ours.memory(), case.object.len() as u64);
        prop_assert_eq!(ours.into_object(), Some(case.object));
    }

    #[test]
    fn the_other_decodes_what_we_encode(case in cases()) {
        let mut ours = ObjectEncoder::new(case.information, &case.object).expect("valid");
        let mut theirs = TheirDecoder::new(case.their_information());
        let mut ids = case.ids();
        ids.sort_by_key(|id| id.source_block());
        let mut decoded = None;
        for id in ids {
            let mut packet = id.to_bytes().to_vec();
            packet.resize(4 + usize::from(case.information.symbol_size()), 0);
            ours.encode(id, &mut packet[4..]).expect("valid symbol");
            decoded = decoded.or(theirs.decode(EncodingPacket::deserialize(&packet)));
        }
        prop_assert_eq!(decoded, Some(case.object));
    }
}
