//! Equality of all decoding paths, kernels, symbol lengths and table boundaries.

use std::sync::Arc;

use wellspring_codec::Error;
use wellspring_codec::kernels::{Kernels, gf256};
use wellspring_codec::raptorq::{
    Added, BlockDecoder, BlockEncoder, Code, Decoded, DecodingPath, MAX_SOURCE_SYMBOLS,
    ObjectEncoder, ObjectTransmissionInformation, PayloadId,
};

/// The first of forty repair symbols of a block of [`LARGE_K`] that do not make up for its first forty symbols.
const FALLING_SHORT: u32 = 15_500;

const PATHS: [Option<DecodingPath>; 4] = [
    None,
    Some(DecodingPath::Dense),
    Some(DecodingPath::Syndrome),
    Some(DecodingPath::Inactivation),
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33
    }

    fn below(&mut self, bound: u32) -> u32 {
        (self.next() % u64::from(bound)) as u32
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Loses `lost` symbols, gives repair symbols until the block decodes, and checks it. With
/// `unaligned`, the block does not start at a round address and its last symbol is cut short.
fn check(
    kernels: Kernels,
    path: Option<DecodingPath>,
    (k, t, lost): (u32, usize, u32),
    unaligned: bool,
    random: &mut Random,
) {
    check_with(&Code::new(k).expect("in range"), kernels, path, (k, t, lost), unaligned, random);
}

/// The same with a code at hand.
fn check_with(
    code: &Arc<Code>,
    kernels: Kernels,
    path: Option<DecodingPath>,
    (k, t, lost): (u32, usize, u32),
    unaligned: bool,
    random: &mut Random,
) {
    let len = k as usize * t - if unaligned { random.below(t as u32) as usize } else { 0 };
    let source = random.bytes(len);
    let mut encoder = BlockEncoder::with_kernels(code.clone(), k, t, kernels).expect("in range");
    let mut decoder = BlockDecoder::with_kernels(code.clone(), k, t, kernels).expect("in range");
    decoder.force_path(path);
    let offset = if unaligned { 1 + random.below(63) as usize } else { 0 };
    let mut memory = vec![0xee; offset + len + 64];
    let block = &mut memory[offset..offset + len];
    let mut order: Vec<u32> = (0..k).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u32 + 1) as usize);
    }
    let mut symbol = vec![0; t];
    for &esi in &order[lost as usize..] {
        encoder.encode(&source, esi, &mut symbol).expect("valid");
        assert_eq!(decoder.add(block, esi, &symbol), Ok(Added::New));
        assert_eq!(decoder.add(block, esi, &symbol), Ok(Added::Duplicate));
    }
    let mut esi = k + random.below(1 << 23);
    let mut given = 0;
    while decoder.try_decode(block).expect("the block's length") != Decoded::Complete {
        // What was received is readable after a failure.
        if let Some(&esi) = order[lost as usize..].first() {
            let start = esi as usize * t;
            let end = len.min(start + t);
            assert_eq!(block[start..end], source[start..end]);
        }
        encoder.encode(&source, esi, &mut symbol).expect("valid");
        assert_eq!(decoder.add_repair(esi, &symbol), Ok(Added::New));
        esi += 1;
        given += 1;
        assert!(given <= lost + 5, "K {k} lost {lost} {path:?}");
    }
    assert!(*block == source[..], "{kernels:?} {path:?} K {k} T {t} lost {lost}");
    assert!(memory[..offset].iter().chain(&memory[offset + len..]).all(|b| *b == 0xee));
}

#[test]
fn every_loss_count_of_small_blocks_decodes_on_every_path() {
    let mut random = Random(1);
    for k in 1..=32 {
        let code = Code::new(k).expect("in range");
        for lost in 0..=k {
            for (kernels, path) in
                Kernels::available().flat_map(|kernels| PATHS.map(|path| (kernels, path)))
            {
                for t in [1, 17, 130] {
                    let unaligned = (lost + t as u32).is_multiple_of(2);
                    check_with(&code, kernels, path, (k, t, lost), unaligned, &mut random);
                }
            }
        }
    }
}

#[test]
fn every_kernel_and_symbol_length_agrees() {
    let mut random = Random(2);
    for kernels in Kernels::available() {
        for t in (1..=70).chain([127, 128, 129, 255, 256, 257, 511, 700, 1500, 2049]) {
            for path in PATHS {
                let lost = 1 + random.below(11);
                check(kernels, path, (11, t, lost), t % 2 == 0, &mut random);
            }
        }
    }
}

#[test]
fn blocks_around_table_boundaries_decode() {
    check_around(&[10, 12, 18, 26, 42, 101, 200, 257, 305], 3);
}

/// Solving a whole block densely costs the cube of its K: these take nearly all the time.
#[test]
fn large_blocks_around_table_boundaries_decode() {
    check_around(&[405, 600, 1002, 1494, 2010], 9);
}

fn check_around(extended: &[u32], seed: u64) {
    let mut random = Random(seed);
    let kernels = Kernels::detect();
    for k in extended.iter().flat_map(|k_ext| [k_ext - 1, *k_ext, k_ext + 1]) {
        let code = Code::new(k).expect("in range");
        for path in PATHS {
            for lost in [1, 1 + random.below(k.min(60)), k] {
                check_with(&code, kernels, path, (k, 20, lost), k % 2 == 0, &mut random);
            }
        }
    }
}

/// Every row of Table 2 of RFC 6330, at its first K, its last and the one before: all of them in the
/// smaller two thirds of the table, and some of the larger.
#[test]
fn blocks_of_every_table_row_decode() {
    let mut random = Random(8);
    let kernels = Kernels::detect();
    let (mut first, mut rows) = (1, 0);
    while first <= MAX_SOURCE_SYMBOLS {
        let code = Code::new(first).expect("in range");
        let k_ext = code.extended_symbols();
        rows += 1;
        let large = k_ext > 12_000;
        for k in [first, k_ext - 1, k_ext] {
            if k < first || large && (k < k_ext || rows % 6 > 0 && k < MAX_SOURCE_SYMBOLS) {
                continue;
            }
            for lost in [1, k.min(60)] {
                check_with(&code, kernels, None, (k, 4, lost), k % 2 == 0, &mut random);
            }
        }
        first = k_ext + 1;
    }
    assert_eq!(rows, 477);
}

#[test]
fn a_large_block_decodes() {
    let mut random = Random(4);
    for lost in [1, 40, 9_000] {
        check(Kernels::detect(), None, (9_000, 8, lost), false, &mut random);
    }
}

/// Symbols lent are read where they stand, mixed with symbols copied; a lent symbol of another
/// length is refused and leaves the block as it was.
#[test]
fn lent_repair_symbols_decode_as_copied_ones_do() {
    let mut random = Random(6);
    for (k, t, lost) in [(10, 7, 3), (100, 64, 5), (100, 33, 90), (250, 20, 60)] {
        for path in PATHS {
            let source = random.bytes(k as usize * t);
            let code = Code::new(k).expect("in range");
            let mut encoder = BlockEncoder::new(code.clone(), k, t).expect("in range");
            let mut decoder = BlockDecoder::new(code, k, t).expect("in range");
            decoder.force_path(path);
            let mut block = source.clone();
            block[..lost * t].fill(0);
            for esi in lost as u32..k {
                assert_eq!(decoder.mark_source(esi), Ok(Added::New));
            }
            let mut repairs = vec![0; (lost + 3) * t];
            encoder.encode_run(&source, k, &mut repairs).expect("valid");
            for (esi, symbol) in (k..).zip(repairs.chunks_exact(t)) {
                if random.below(2) == 0 {
                    assert_eq!(decoder.mark_repair(esi), Ok(Added::New));
                    assert_eq!(decoder.add_repair(esi, symbol), Ok(Added::Duplicate));
                } else {
                    assert_eq!(decoder.add_repair(esi, symbol), Ok(Added::New));
                    assert_eq!(decoder.mark_repair(esi), Ok(Added::Duplicate));
                }
            }
            assert_eq!(decoder.mark_repair(k - 1), Err(Error::SymbolId { got: k - 1, limit: k }));
            let before = block.clone();
            let error = Error::SymbolLength { got: t - 1, expected: t };
            let short = decoder.try_decode_with(&mut block, |_| &repairs[1..t]);
            if short.is_err() {
                assert_eq!((short, &block), (Err(error), &before));
            }
            let lent = |esi: u32| &repairs[(esi - k) as usize * t..][..t];
            assert_eq!(decoder.try_decode_with(&mut block, lent), Ok(Decoded::Complete));
            assert!(block == source, "K {k} {path:?}");
        }
    }
}

/// One by one or together, before or after intermediate symbols are kept: the same bytes.
#[test]
fn every_way_of_encoding_gives_the_same_symbols() {
    let mut random = Random(7);
    for kernels in Kernels::available() {
        for (k, t) in [(1, 5), (10, 64), (101, 65), (260, 130), (1000, 40), (2100, 9)] {
            let short = random.below(t as u32) as usize;
            let source = random.bytes(k as usize * t - short);
            let code = Code::new(k).expect("in range");
            let first = k + random.below(1 << 20);
            let count = (k as usize).max(300);
            let mut prepared =
                BlockEncoder::with_kernels(code.clone(), k, t, kernels).expect("in range");
            prepared.prepare(&source).expect("the block's length");
            assert!(prepared.is_prepared());
            let mut expected = vec![0; count * t];
            prepared.encode_run(&source, first, &mut expected).expect("valid");
            for some in [1, 2, 7, 30, 60, 150, count] {
                let mut encoder =
                    BlockEncoder::with_kernels(code.clone(), k, t, kernels).expect("in range");
                let mut symbols = vec![0; count * t];
                let mut esi = first;
                for run in symbols.chunks_mut(some * t) {
                    encoder.encode_run(&source, esi, run).expect("valid");
                    esi += some as u32;
                }
                assert!(symbols == expected, "{kernels:?} K {k} T {t}, {some} at a time");
            }
        }
    }
}

/// Symbols chosen to be useless: a repeated equation is distinguished from new ones, and one
/// good symbol more, repair or source, completes the block without starting anew.
#[test]
fn a_source_symbol_after_a_failed_attempt_is_taken_in() {
    let (k, t) = (10, 12);
    let mut random = Random(5);
    let source = random.bytes(k as usize * t);
    let code = Code::new(k).expect("in range");
    let mut encoder = BlockEncoder::new(code.clone(), k, t).expect("in range");
    let mut symbol = vec![0; t];
    for path in PATHS {
        let mut failures = 0;
        for first in (k..40_000).step_by(10) {
            let mut decoder = BlockDecoder::new(code.clone(), k, t).expect("in range");
            decoder.force_path(path);
            let mut block = vec![0; source.len()];
            for esi in first..first + k {
                encoder.encode(&source, esi, &mut symbol).expect("valid");
                decoder.add_repair(esi, &symbol).expect("valid");
            }
            let mut esi = 0;
            while decoder.try_decode(&mut block).expect("the length") != Decoded::Complete {
                failures += 1;
                encoder.encode(&source, esi, &mut symbol).expect("valid");
                decoder.add(&mut block, esi, &symbol).expect("valid");
                esi += 1;
            }
            assert!(block == source);
        }
        assert!(failures > 5, "{path:?}: the test saw {failures} failures");
    }
}

/// A code too large to keep its inverse.
const LARGE_K: u32 = 2_100;

/// Gives a decoder the symbols in that order, and returns what came of each attempt with K or more.
fn outcomes(code: &Arc<Code>, path: DecodingPath, source: &[u8], arrivals: &[u32]) -> Vec<Decoded> {
    let t = source.len() / LARGE_K as usize;
    let mut encoder = BlockEncoder::new(code.clone(), LARGE_K, t).expect("in range");
    let mut decoder = BlockDecoder::new(code.clone(), LARGE_K, t).expect("in range");
    decoder.force_path(Some(path));
    let (mut block, mut symbol) = (vec![0xee; source.len()], vec![0; t]);
    let mut outcomes = Vec::new();
    for &esi in arrivals {
        encoder.encode(source, esi, &mut symbol).expect("valid");
        assert_eq!(decoder.add(&mut block, esi, &symbol), Ok(Added::New));
        if decoder.received() >= LARGE_K {
            outcomes.push(decoder.try_decode(&mut block).expect("the block's length"));
        }
    }
    assert_eq!(outcomes.last(), Some(&Decoded::Complete), "{path:?}");
    assert_eq!(decoder.path(), Some(path));
    assert!(block == source, "{path:?}");
    outcomes
}

/// Both paths of a code without an inverse fall short for the same symbols, and go on alike, whether repair symbols or
/// source symbols that were missing come next.
#[test]
fn without_an_inverse_the_syndrome_path_falls_short_and_goes_on_as_the_plain_one() {
    let code = Code::new(LARGE_K).expect("in range");
    let source = Random(10).bytes(LARGE_K as usize * 12);
    let both = |arrivals: &[u32], failures: &[u32]| {
        let mut expected: Vec<Decoded> = failures.iter().map(|n| Decoded::NeedMore(*n)).collect();
        expected.push(Decoded::Complete);
        for path in [DecodingPath::Syndrome, DecodingPath::Inactivation] {
            assert_eq!(outcomes(&code, path, &source, arrivals), expected, "{path:?}");
        }
    };

    // Two are lost: what repair symbols say of them shows in blocks that have nothing else.
    let lost = [7, 1_500];
    let unit = |at: u32| (0..LARGE_K).map(|esi| u8::from(esi == at)).collect::<Vec<u8>>();
    let units = lost.map(unit);
    let mut encoders =
        [(); 2].map(|()| BlockEncoder::new(code.clone(), LARGE_K, 1).expect("in range"));
    let mut alike: Vec<Vec<(u32, [u8; 2])>> = Vec::new();
    let (alike, other) = (LARGE_K..)
        .find_map(|esi| {
            let mut factors = [0; 2];
            for ((encoder, unit), factor) in encoders.iter_mut().zip(&units).zip(&mut factors) {
                encoder.encode(unit, esi, std::slice::from_mut(factor)).expect("valid");
            }
            let says_the_same = |[a, b]: [u8; 2]| {
                let [c, d] = factors;
                gf256::mul(a, d) == gf256::mul(b, c)
            };
            match alike.iter_mut().find(|class| says_the_same(class[0].1)) {
                Some(class) => class.push((esi, factors)),
                None if factors != [0; 2] => alike.push(vec![(esi, factors)]),
                None => {}
            }
            let found = alike.iter().position(|class| class.len() == 3)?;
            let other = alike.iter().position(|class| class[0].0 != alike[found][0].0)?;
            Some((
                alike[found].iter().map(|(esi, _)| *esi).collect::<Vec<u32>>(),
                alike[other][0].0,
            ))
        })
        .expect("257 ways to be alike");
    let here: Vec<u32> = (0..LARGE_K).filter(|esi| !lost.contains(esi)).collect();
    for last in [other, lost[0], lost[1]] {
        both(&[&here[..], &alike, &[last]].concat(), &[1, 1]);
    }

    // Forty are lost, and forty repair symbols that came by chance fall short.
    let here: Vec<u32> = (40..LARGE_K).collect();
    let repairs: Vec<u32> = (FALLING_SHORT..FALLING_SHORT + 40).collect();
    for last in [FALLING_SHORT + 40, 0, 39] {
        both(&[&here[..], &repairs, &[last]].concat(), &[1]);
    }
}

#[test]
fn misuse_is_refused_with_both_numbers() {
    let code = Code::new(100).expect("in range");
    let mut decoder = BlockDecoder::new(code.clone(), 100, 16).expect("in range");
    let mut block = vec![0; 1600];
    assert_eq!(decoder.mark_source(100), Err(Error::SymbolId { got: 100, limit: 100 }));
    assert_eq!(decoder.add_repair(99, &[0; 16]), Err(Error::SymbolId { got: 99, limit: 100 }));
    let (got, limit) = (1 << 24, 1 << 24);
    assert_eq!(decoder.add_repair(got, &[0; 16]), Err(Error::SymbolId { got, limit }));
    let error = Error::SymbolLength { got: 15, expected: 16 };
    assert_eq!(decoder.add_repair(100, &[0; 15]), Err(error));
    assert_eq!(decoder.add(&mut block, 0, &[0; 15]), Err(error));
    let error = Error::BlockLength { got: 1584, expected: 1600 };
    assert_eq!(decoder.try_decode(&mut block[..1584]), Err(error));
    let mut encoder = BlockEncoder::new(code.clone(), 100, 16).expect("in range");
    assert_eq!(encoder.encode(&block[..1584], 0, &mut [0; 16]), Err(error));
    let error = Error::SymbolId { got, limit };
    assert_eq!(encoder.encode(&block, got, &mut [0; 16]), Err(error));
    for got in [0, 97, 102] {
        let error = BlockDecoder::new(code.clone(), got, 16).expect_err("the code is for others");
        assert_eq!(error, Error::CodeSymbols { got, least: 98, limit: 101 });
    }
    let smallest = Code::new(1).expect("in range");
    assert_eq!((smallest.least_symbols(), smallest.extended_symbols()), (1, 10));
    let empty = ObjectTransmissionInformation::new(0, 16, 1, 1, 1).expect("valid");
    let mut encoder = ObjectEncoder::new(empty, &[]).expect("the length is right");
    let id = PayloadId::new(0, 0).expect("24 bits");
    assert_eq!(encoder.encode(id, &mut [0; 16]), Err(Error::EmptyObject));
    assert!(matches!(BlockDecoder::new(code, 100, 65_536), Err(Error::SymbolSize { .. })));
}

#[test]
fn repair_symbols_beyond_the_bound_are_dropped() {
    let code = Code::new(10).expect("in range");
    let mut decoder = BlockDecoder::new(code, 10, 4).expect("in range");
    decoder.set_max_repairs(3);
    for esi in 10..13 {
        assert_eq!(decoder.add_repair(esi, &[0; 4]), Ok(Added::New));
    }
    assert_eq!(decoder.add_repair(13, &[0; 4]), Ok(Added::Full));
    assert_eq!(decoder.add_repair(12, &[0; 4]), Ok(Added::Duplicate));
    assert_eq!(decoder.wanted(), 7);
}
