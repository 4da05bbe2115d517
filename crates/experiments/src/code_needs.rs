//! Symbols that LTTP's decoders need, block by block.

use crate::scenario::{LtDecoder, Lttp, Protocol, ProtocolName};
use std::collections::BTreeMap;
use wellspring_codec::lt::{Code, Method, OverheadStudy, RobustSoliton};
use wellspring_core::{RandomStream, Seed, SessionId};

/// Symbols after which a block counts as decoded whatever the decoder says.
const MOST: u32 = 1 << 18;

/// The decoders of a run.
///
/// Endpoints carry no symbols, and an LT code's symbols are drawn one by one, all alike: how many
/// a block needs has the same law whichever of them arrive. So each block is decoded once, on
/// neighbours alone, with symbols of random IDs, and completes when as many have arrived. That is
/// exact in law; what it leaves out is that two servers' symbols of one ID are the same.
pub(crate) struct CodeNeeds {
    settings: Lttp,
    study: OverheadStudy,
    /// A code for each length of a block.
    codes: BTreeMap<u32, Option<Code>>,
    /// Symbols there are, and are needed, of each block that was tried.
    blocks: BTreeMap<(SessionId, u32), (u32, u32)>,
    random: RandomStream,
}

impl CodeNeeds {
    /// Of a run of LTTP; `None` for other protocols.
    pub fn new(protocol: &Protocol, seed: Seed) -> Option<Self> {
        (protocol.name == ProtocolName::Lttp).then(|| CodeNeeds {
            settings: protocol.lttp,
            study: OverheadStudy::default(),
            codes: BTreeMap::new(),
            blocks: BTreeMap::new(),
            random: seed.stream("code needs"),
        })
    }

    /// Tries to decode a block of `k` source symbols: first with k symbols there, and whenever that
    /// was in vain, with one more. LTTP's endpoints ask so.
    pub fn attempt(&mut self, session: SessionId, sbn: u32, k: u32) -> bool {
        let (there, needed) = match self.blocks.remove(&(session, sbn)) {
            Some((there, needed)) => (there + 1, needed),
            None => (k, self.draw(k)),
        };
        if there < needed {
            self.blocks.insert((session, sbn), (there, needed));
        }
        there >= needed
    }

    /// How many symbols a block needs.
    fn draw(&mut self, k: u32) -> u32 {
        let method = match self.settings.decoder {
            LtDecoder::Standard => Method::Standard,
            LtDecoder::Rounds => Method::Rounds,
            LtDecoder::Improved => Method::Improved,
            LtDecoder::Elimination => Method::Elimination,
            LtDecoder::Fixed => {
                let beyond = f64::from(k) * self.settings.code_overhead;
                // 1e-9: 0.07 * 100 is a little more than 7.
                return k.saturating_add((beyond - 1e-9).ceil().max(0.0) as u32);
            }
        };
        let Lttp { c, delta, .. } = self.settings;
        let code = self.codes.entry(k).or_insert_with(|| {
            let distribution = RobustSoliton::new(k, c, delta).ok()?;
            Some(Code::new(distribution, self.random.next_u64()))
        });
        // Of a block that the codec cannot have, k symbols are all.
        let Some(code) = code else { return k };
        let first = self.random.below(u64::from(u32::MAX - MOST)) as u32;
        let needed = self.study.needed(code, method, first..first + MOST);
        needed.map_or(MOST, |needed| needed.symbols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_need(decoder: LtDecoder, k: u32) -> f64 {
        let lttp = Lttp { decoder, ..Lttp::default() };
        let protocol = Protocol { name: ProtocolName::Lttp, lttp, ..Protocol::default() };
        let mut needs = CodeNeeds::new(&protocol, Seed(3)).unwrap();
        let mut attempts = 0;
        for session in 0..100 {
            while !needs.attempt(SessionId(session), 0, k) {
                attempts += 1;
            }
        }
        assert!(needs.blocks.is_empty());
        f64::from(attempts) / 100.0 / f64::from(k)
    }

    #[test]
    fn blocks_need_what_the_codec_says() {
        // The book's page on LT codes: 32.0 % beyond k at 256 with the improved decoder, 3.9 % with
        // elimination, 38.6 % in rounds.
        assert!((0.29..0.35).contains(&mean_need(LtDecoder::Improved, 256)));
        assert!((0.02..0.07).contains(&mean_need(LtDecoder::Elimination, 256)));
        assert!(mean_need(LtDecoder::Standard, 256) > 3.0);
        assert_eq!(mean_need(LtDecoder::Fixed, 100), 0.07);
        assert!((mean_need(LtDecoder::Fixed, 64) * 64.0 - 5.0).abs() < 1e-9);
    }

    #[test]
    fn other_protocols_have_none() {
        assert!(CodeNeeds::new(&Protocol::default(), Seed(3)).is_none());
    }
}
