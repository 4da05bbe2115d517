//! The choice of a decoding path: whatever K, T, losses, repair symbols and kernels, the path chosen and every
//! path forced agree on whether the symbols suffice, before and after more of them, and on every byte.

use arbitrary::{Arbitrary, Unstructured};
use wellspring_codec::kernels::Kernels;
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded, DecodingPath};

#[derive(Arbitrary, Debug)]
struct Case {
    k: u16,
    symbol_size: u8,
    /// Bytes the last symbol is short of.
    short: u8,
    /// Bytes from a cache line to the block.
    offset: u8,
    kernels: u8,
    first: u32,
    /// Repair symbols at first, against those lost: two less to one more.
    at_first: u8,
    lend: bool,
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok(case) = input.arbitrary::<Case>() else { return };
    let (k, t) = (u32::from(case.k % 400) + 1, usize::from(case.symbol_size) + 1);
    let available: Vec<Kernels> = Kernels::available().collect();
    let kernels = available[usize::from(case.kernels) % available.len()];
    let len = k as usize * t - usize::from(case.short) % t;
    let source: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
    let code = Code::new(k).expect("K is in range");
    let mut encoder =
        BlockEncoder::with_kernels(code.clone(), k, t, kernels).expect("the code is for K");
    let lost: Vec<bool> = (0..k).map(|_| input.arbitrary().unwrap_or(false)).collect();
    let missing = lost.iter().filter(|lost| **lost).count();
    let first = k + case.first % (1 << 23);
    let mut symbols = vec![0; (missing + 3) * t];
    encoder.encode_run(&source, first, &mut symbols).expect("24-bit symbol IDs");
    let lent = |esi: u32| &symbols[(esi - first) as usize * t..][..t];
    let at_first = (missing + usize::from(case.at_first % 4)).saturating_sub(2);

    let paths = [
        None,
        Some(DecodingPath::Dense),
        Some(DecodingPath::Syndrome),
        Some(DecodingPath::Inactivation),
    ];
    let outcomes = paths.map(|path| {
        let mut decoder =
            BlockDecoder::with_kernels(code.clone(), k, t, kernels).expect("the code is for K");
        decoder.force_path(path);
        let offset = usize::from(case.offset % 64);
        let mut memory = vec![0xee; offset + len + 64];
        let block = &mut memory[offset..offset + len];
        block.copy_from_slice(&source);
        for (esi, lost) in (0..k).zip(&lost) {
            if *lost {
                let start = esi as usize * t;
                block[start..len.min(start + t)].fill(0xaa);
            } else {
                decoder.mark_source(esi).expect("below K");
            }
        }
        // First some, and after an attempt one more at a time.
        let mut outcomes = [None; 6];
        let mut given = 0;
        for (outcome, upto) in outcomes.iter_mut().zip(at_first..=missing + 3) {
            for esi in (first..).take(upto).skip(given) {
                let added = if case.lend {
                    decoder.mark_repair(esi)
                } else {
                    decoder.add_repair(esi, lent(esi))
                };
                added.expect("a right symbol");
            }
            given = upto;
            let wanted = decoder.wanted();
            let decoded = decoder.try_decode_with(block, lent).expect("right lengths");
            match decoded {
                Decoded::Complete => {
                    assert_eq!(wanted, 0, "{path:?}");
                    assert_eq!(*block, source, "{path:?}");
                }
                Decoded::NeedMore(more) => assert_eq!(decoder.wanted(), more),
            }
            *outcome = Some(decoded);
        }
        assert!(memory[..offset].iter().chain(&memory[offset + len..]).all(|byte| *byte == 0xee));
        outcomes
    });
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
}
