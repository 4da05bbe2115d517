//! The choice of a road: whatever K, T, losses and repair symbols, the road chosen and every road
//! forced agree on whether the symbols suffice, and on every byte.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use wellspring_codec::kernels::Kernels;
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded, Road};

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    let Ok((k, symbol_size, first, extra, slow)) = input.arbitrary::<(u16, u8, u32, u8, bool)>()
    else {
        return;
    };
    let (k, t) = (u32::from(k % 400) + 1, usize::from(symbol_size) + 1);
    let kernels = if slow { Kernels::available().next() } else { None }.unwrap_or_default();
    let source: Vec<u8> = (0..k as usize * t).map(|i| (i * 31 + i / 251) as u8).collect();
    let code = Code::new(k).expect("K is in range");
    let mut encoder =
        BlockEncoder::with_kernels(code.clone(), k, t, kernels).expect("the code is for K");
    let lost: Vec<bool> = (0..k).map(|_| input.arbitrary().unwrap_or(false)).collect();
    let missing = lost.iter().filter(|lost| **lost).count();
    let repairs = missing + usize::from(extra % 4);
    let first = k + first % (1 << 23);
    let mut symbols = vec![0; repairs * t];
    encoder.encode_run(&source, first, &mut symbols).expect("24-bit symbol IDs");

    let roads = [None, Some(Road::Dense), Some(Road::Syndrome), Some(Road::Inactivation)];
    let outcomes = roads.map(|road| {
        let mut decoder =
            BlockDecoder::with_kernels(code.clone(), k, t, kernels).expect("the code is for K");
        decoder.force_road(road);
        let mut block = source.clone();
        for (esi, _) in (0..k).zip(&lost).filter(|(_, lost)| !**lost) {
            decoder.mark_source(esi).expect("below K");
        }
        for (esi, _) in (0..).zip(&lost).filter(|(_, lost)| **lost) {
            block[esi * t..][..t].fill(0xaa);
        }
        for (esi, symbol) in (first..).zip(symbols.chunks_exact(t)) {
            decoder.add_repair(esi, symbol).expect("a right symbol");
        }
        let decoded = decoder.try_decode(&mut block).expect("the block has its length");
        if decoded == Decoded::Complete {
            assert_eq!(block, source, "{road:?}");
        }
        decoded == Decoded::Complete
    });
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
});
