//! Cost of symbols chosen with ill intent, and memory of solutions.

use std::sync::Arc;

use wellspring_kernels::Kernels;

use super::block::BlockShape;
use super::cost::choose;
use crate::raptorq::{
    Added, BlockDecoder, Code, Decoded, DecodingPath, ENCODING_SYMBOLS, MAX_SOURCE_SYMBOLS,
    ObjectDecoder, ObjectTransmissionInformation, PayloadId,
};

/// Repair symbols of blocks of `k` symbols whose sums have degree 30, the highest: nothing of them can be
/// peeled off.
fn of_high_degree(code: &Code, k: u32) -> impl Iterator<Item = u32> {
    let params = &code.constraints().params;
    let padding = params.k_ext - k;
    let mut columns = Vec::new();
    (k..ENCODING_SYMBOLS).filter(move |esi| {
        columns.clear();
        params.lt_columns(esi + padding, &mut columns) == params.w.min(32) - 2
    })
}

/// A decoder of a block of zeros that was given up with repair symbols alone.
fn given_up(code: &Arc<Code>, k: u32) -> BlockDecoder {
    let mut decoder = BlockDecoder::new(code.clone(), k, 1).expect("in range");
    for esi in of_high_degree(code, k).take(k as usize) {
        assert_eq!(decoder.add_repair(esi, &[0]), Ok(Added::New));
    }
    assert_eq!(decoder.wanted(), 0);
    assert_eq!(decoder.try_decode(&mut vec![0; k as usize]), Ok(Decoded::NeedMore(k / 16)));
    decoder
}

const K: u32 = 4000;

#[test]
fn a_block_given_up_is_tried_few_times_more() {
    let code = Code::new(K).expect("in range");
    let mut decoder = given_up(&code, K);
    let mut block = vec![0; K as usize];
    let mut attempts = 1;
    for esi in 0..K {
        let before = decoder.wanted();
        assert_eq!(decoder.mark_source(esi), Ok(Added::New));
        let wanted = decoder.wanted();
        assert_eq!(wanted, before - 1, "a symbol is one of those that were wanted");
        let tried = wanted == 0 && !decoder.is_complete();
        attempts += u32::from(tried);
        match decoder.try_decode(&mut block).expect("the block's length") {
            Decoded::Complete => break,
            Decoded::NeedMore(more) => {
                assert_eq!(decoder.wanted(), more);
                assert!(tried || more == wanted, "nothing is tried while symbols are wanted");
            }
        }
        assert!(attempts <= 14, "{attempts} attempts after {esi} source symbols");
    }
    assert!(decoder.is_complete() && decoder.wanted() == 0);
    assert!(attempts > 3, "the symbols were not chosen badly enough: {attempts} attempts");
    // A reused decoder has forgotten it.
    decoder.clear();
    assert_eq!(decoder.wanted(), K);
}

#[test]
fn a_block_given_up_completes_with_its_source_symbols() {
    let code = Code::new(K).expect("in range");
    let mut decoder = given_up(&code, K);
    for esi in 0..K {
        decoder.mark_source(esi).expect("below K");
    }
    assert_eq!(decoder.wanted(), 0);
    assert_eq!(decoder.try_decode(&mut vec![0; K as usize]), Ok(Decoded::Complete));
}

/// Two blocks of an object that just fall short take the working memory from each other, so that each
/// attempt starts anew: soon a block has to wait.
#[test]
fn blocks_that_fall_short_in_turn_are_tried_few_times_each() {
    let k = 1000;
    let code = Code::new(k).expect("in range");
    let params = &code.constraints().params;
    // No symbol covers the first columns, and constraints alone do not make up for that.
    let unknown = 36;
    let mut columns = Vec::new();
    let padding = params.k_ext - k;
    let ids = (k..ENCODING_SYMBOLS).filter(|esi| {
        columns.clear();
        params.lt_columns(esi + padding, &mut columns);
        columns.iter().all(|&column| column >= unknown)
    });
    let information = ObjectTransmissionInformation::new(2 * u64::from(k), 1, 2, 1, 1);
    let mut decoder = ObjectDecoder::new(information.expect("valid"), 1 << 20).expect("valid");
    let mut attempts = [0; 2];
    for esi in ids.take(k as usize + 64) {
        for sbn in 0..2 {
            let before = decoder.wanted(sbn).expect("below Z");
            decoder.add(PayloadId::new(sbn, esi).expect("24 bits"), &[0]).expect("there is room");
            let after = decoder.wanted(sbn).expect("below Z");
            assert!(after > 0);
            attempts[usize::from(sbn)] += u32::from(after >= before);
        }
    }
    assert!(attempts.iter().all(|attempts| *attempts == 9), "{attempts:?}");
}

/// What is reserved for small codes is enough for the worst symbols too.
#[test]
fn symbols_of_high_degree_make_a_small_decoder_allocate_nothing() {
    for k in [2, 50, 257] {
        let code = Code::new(k).expect("in range");
        for path in [DecodingPath::Dense, DecodingPath::Syndrome, DecodingPath::Inactivation] {
            let mut decoder = BlockDecoder::new(code.clone(), k, 1).expect("in range");
            decoder.force_path(Some(path));
            let mut block = vec![0; k as usize];
            (1..k).for_each(|esi| assert_eq!(decoder.mark_source(esi), Ok(Added::New)));
            while decoder.try_decode(&mut block) != Ok(Decoded::Complete) {
                let esi = k + decoder.repairs();
                decoder.add_repair(esi, &[0]).expect("valid");
            }
            let memory = decoder.memory();
            decoder.clear();
            for esi in of_high_degree(&code, k).take(k as usize + 64) {
                assert_eq!(decoder.add_repair(esi, &[0]), Ok(Added::New));
            }
            assert_eq!(decoder.try_decode(&mut block), Ok(Decoded::Complete));
            assert_eq!(decoder.memory(), memory, "K {k} {path:?}");
        }
    }
}

/// An object's decoder that has decoded blocks of `k` symbols in turn: of each so many source symbols were lost, and so
/// many repair symbols of high degree came before others.
#[derive(Debug)]
struct Worked {
    code: Arc<Code>,
    decoder: ObjectDecoder,
    blocks: u8,
}

impl Worked {
    fn new(k: u32) -> Self {
        let information = ObjectTransmissionInformation::new(8 * u64::from(k), 1, 8, 1, 1);
        let decoder = ObjectDecoder::new(information.expect("valid"), 1 << 30).expect("valid");
        Worked { code: Code::new(k).expect("in range"), decoder, blocks: 0 }
    }

    fn decode(&mut self, k: u32, lost: u32, of_high_degree_first: usize) {
        let chosen = of_high_degree(&self.code, k).take(of_high_degree_first);
        let all = (lost..k).chain(chosen).chain(k..2 * k + 64);
        for esi in all {
            let id = PayloadId::new(self.blocks, esi).expect("24 bits");
            self.decoder.add(id, &[0]).expect("there is room");
            if self.decoder.wanted(self.blocks) == Ok(0) {
                break;
            }
        }
        assert_eq!(self.decoder.wanted(self.blocks), Ok(0), "K {k}, {lost} lost");
        self.blocks += 1;
    }

    /// The most lost symbols that the decoder takes that path for, if it does at all.
    fn most_of(&self, k: u32, path: DecodingPath) -> Option<u32> {
        let shape = BlockShape::new(self.code.clone(), k, 1).expect("in range");
        let isa = Kernels::detect().isa();
        (1..=k.min(1_024)).rev().find(|lost| choose(&shape.size(*lost), isa, None) == path)
    }

    fn check(&self, k: u32, megabytes: u64) {
        let memory = self.decoder.working_memory();
        assert!(memory <= megabytes * 100_000, "K {k}: {memory} bytes");
        // What is documented is no idle number either.
        assert!(memory >= megabytes * 100_000 / 3, "K {k}: {memory} bytes");
    }
}

/// The memory that [`ObjectDecoder`] documents, as tenths of megabytes: by chance, and with symbols chosen with ill intent.
#[test]
fn working_memory_is_what_is_documented() {
    for (k, by_chance, ill_intent) in [(100, 7, 7), (1_000, 30, 60), (10_000, 160, 450)] {
        let mut worked = Worked::new(k);
        let paths = [DecodingPath::Dense, DecodingPath::Syndrome];
        let most = paths.into_iter().filter_map(|path| worked.most_of(k, path));
        let losses: Vec<u32> = most.chain([1, k]).collect();
        losses.into_iter().for_each(|lost| worked.decode(k, lost, 0));
        worked.check(k, by_chance);
        // With more of them a solution of many symbols is given up.
        worked.decode(k, k, 3_200.min(k as usize));
        worked.check(k, ill_intent);
    }
}

#[test]
fn working_memory_of_the_largest_blocks_is_what_is_documented() {
    let k = MAX_SOURCE_SYMBOLS;
    let mut worked = Worked::new(k);
    let most = worked.most_of(k, DecodingPath::Syndrome).expect("of one lost symbol");
    worked.decode(k, most, 0);
    worked.decode(k, k, 0);
    worked.check(k, 1_000);
}
