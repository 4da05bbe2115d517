//! Choice among equal-cost paths.

use wellspring_core::RandomStream;

/// How a switch chooses among equal-cost next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spraying {
    /// At random for each packet and switch (the SCDP authors' models: `rand() % next hops`).
    Random,
    /// The sender chooses: the packet's path label names the path. Label `l` takes next hop
    /// `l mod n` at the first switch with a choice of n, `l / n mod m` at the second, and so on,
    /// so a sender that runs through its labels covers all paths evenly (NDP §3.1).
    Label,
    /// By a hash of the packet's path label and flow, another at each switch (ECMP over
    /// randomised source ports, SCDP §IV-B).
    Hash,
    /// By a hash of the flow alone: all packets of a flow take one path (ECMP).
    Flow,
}

/// What a switch may read of a packet to choose its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowKey {
    /// Hash of addresses and session, equal for all packets of a flow in one direction.
    pub flow: u16,
    /// Path label set by the sender.
    pub label: u16,
}

impl FlowKey {
    /// A flow's hash from its ends and session.
    pub fn hash_flow(source: u32, destination: u32, session: u32) -> u16 {
        let ends = (u64::from(source) << 32) | u64::from(destination);
        (mix(ends ^ mix(u64::from(session))) >> 48) as u16
    }
}

impl Spraying {
    /// The index below `choices` of the next hop at switch `switch`. `stride` is the product of
    /// the numbers of choices at the switches the packet passed before. `choices` is not 0.
    pub fn choose(
        self,
        key: FlowKey,
        switch: u32,
        choices: u32,
        stride: u32,
        random: &mut RandomStream,
    ) -> u32 {
        let scale = |hash: u64| (((hash >> 32) * u64::from(choices)) >> 32) as u32;
        match self {
            Spraying::Random => scale(random.next_u64()),
            Spraying::Label => u32::from(key.label) / stride.max(1) % choices,
            Spraying::Hash => {
                let packet = (u64::from(key.flow) << 16) | u64::from(key.label);
                scale(mix((packet << 32) | u64::from(switch)))
            }
            Spraying::Flow => scale(mix((u64::from(key.flow) << 32) | u64::from(switch))),
        }
    }
}

/// The finaliser of SplitMix64: spreads every input bit over all output bits.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;
    use wellspring_core::Seed;

    fn spread(spraying: Spraying, keys: impl Iterator<Item = FlowKey>) -> Vec<u32> {
        let mut random = Seed(1).stream("spraying");
        let mut counts = vec![0; 5];
        for key in keys {
            counts[spraying.choose(key, 7, 5, 1, &mut random) as usize] += 1;
        }
        counts
    }

    #[test]
    fn a_flow_keeps_its_path_and_flows_spread() {
        let same = (0..1000).map(|label| FlowKey { flow: 9, label });
        assert_eq!(spread(Spraying::Flow, same).iter().filter(|c| **c > 0).count(), 1);
        let many = (0..10_000).map(|n| FlowKey { flow: FlowKey::hash_flow(n, n + 1, n), label: 0 });
        let counts = spread(Spraying::Flow, many);
        assert!(counts.iter().all(|c| (1_800..2_200).contains(c)), "{counts:?}");
    }

    #[test]
    fn packets_of_one_flow_spread() {
        for spraying in [Spraying::Random, Spraying::Hash] {
            let counts = spread(spraying, (0..10_000).map(|label| FlowKey { flow: 9, label }));
            assert!(counts.iter().all(|c| (1_800..2_200).contains(c)), "{counts:?}");
        }
    }

    #[test]
    fn labels_cover_every_path_once() {
        let mut random = Seed(1).stream("spraying");
        let mut taken = Vec::new();
        for label in 0..25 {
            let key = FlowKey { flow: 0, label };
            let up = Spraying::Label.choose(key, 0, 5, 1, &mut random);
            taken.push((up, Spraying::Label.choose(key, 1, 5, 5, &mut random)));
        }
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 25);
    }
}
