//! Memory of an object's decoder: its limit, and one solution.

use wellspring_codec::Error;
use wellspring_codec::raptorq::{
    Added, Code, ObjectDecoder, ObjectEncoder, ObjectTransmissionInformation, PayloadId, RankStudy,
};

use super::live;

/// Checks that the decoder counts what it holds since there were `before` bytes, and keeps its bound.
fn check(decoder: &ObjectDecoder, before: usize, limit: u64) {
    let (memory, working) = (decoder.memory(), decoder.working_memory());
    assert!(memory <= limit, "{memory} of {limit} bytes");
    let held = (live() - before) as u64;
    // A code has a few fields that no capacity includes.
    assert!(held <= memory + working + 2_048, "{held} bytes held, {memory} and {working} counted");
}

/// `k` repair symbols that just fall short of a block of `k`.
fn falling_short(k: u32) -> Vec<u32> {
    let code = Code::new(k).expect("in range");
    let mut study = RankStudy::default();
    let runs = (k..1 << 24).step_by(7).map(|first| (first..first + k).collect::<Vec<u32>>());
    let mut short =
        runs.filter(|ids| study.symbols_needed(&code, k, ids).expect("in range").is_none());
    short.next().expect("one run in a hundred does")
}

#[test]
fn blocks_that_just_fail_hold_their_symbols_and_no_more() {
    for k in [10, 30, 101] {
        let ids = falling_short(k);
        let f = u64::from(k) * 255;
        let information = ObjectTransmissionInformation::new(f, 1, 255, 1, 1).expect("valid");
        let before = live();
        let limit = 255 * (u64::from(k) * 96 + 2_000);
        let mut decoder = ObjectDecoder::new(information, limit).expect("valid");
        for sbn in 0..255 {
            for &esi in &ids {
                let id = PayloadId::new(sbn, esi).expect("24 bits");
                assert_eq!(decoder.add(id, &[0]), Ok(Added::New));
            }
            assert!(decoder.wanted(sbn) != Ok(0));
            check(&decoder, before, limit);
        }
        // Half a megabyte, not as much for each of the blocks.
        assert!(decoder.working_memory() < 900_000, "{}", decoder.working_memory());
        // They go on where they were, one by one.
        for sbn in 0..255 {
            let mut esi = 0;
            while decoder.wanted(sbn) != Ok(0) {
                decoder.add(PayloadId::new(sbn, esi).expect("24 bits"), &[0]).expect("valid");
                esi += 1;
            }
            check(&decoder, before, limit);
        }
        assert!(decoder.is_complete());
        assert_eq!(decoder.memory(), f);
        assert_eq!(decoder.into_object(), Some(vec![0; f as usize]));
        assert!(live() - before < 2_048);
    }
}

#[test]
fn a_decoder_that_is_allowed_nothing_allocates_next_to_nothing() {
    let information = ObjectTransmissionInformation::new(56_403, 1, 1, 1, 1).expect("valid");
    let before = live();
    let mut decoder = ObjectDecoder::new(information, 0).expect("valid");
    let refused = decoder.add(PayloadId::new(0, 0).expect("24 bits"), &[0]);
    assert!(matches!(refused, Err(Error::Memory { got: 56_403.., limit: 0 })), "{refused:?}");
    assert!(live() - before < 2_048, "{} bytes", live() - before);
}

#[test]
fn the_bound_holds_at_every_symbol_and_refusals_change_nothing() {
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % bound
    };
    for (f, t, z, n) in [(90_000, 100, 7, 1), (90_000, 100, 7, 5), (3_001, 3, 9, 1), (400, 8, 1, 2)]
    {
        let object: Vec<u8> = (0..f).map(|i| (i * 31 / 7) as u8).collect();
        let information = ObjectTransmissionInformation::new(f, t, z, n, 1).expect("valid");
        let mut encoder = ObjectEncoder::new(information, &object).expect("the length");
        let mut sent = Vec::new();
        for sbn in 0..z {
            for esi in 0..2 * information.block(sbn).expect("below Z").symbols {
                let id = PayloadId::new(sbn, esi).expect("24 bits");
                let mut symbol = vec![0; usize::from(t)];
                encoder.encode(id, &mut symbol).expect("valid");
                sent.push((id, symbol));
            }
        }
        for i in (1..sent.len()).rev() {
            sent.swap(i, below(i as u64 + 1) as usize);
        }
        for limit in [f / 2, f, 2 * f, 40 * f] {
            let before = live();
            let mut decoder = ObjectDecoder::new(information, limit).expect("valid");
            let mut refused = 0;
            for (id, symbol) in &sent {
                let held = decoder.memory();
                if let Err(error) = decoder.add(*id, symbol) {
                    let Error::Memory { got, limit: bound } = error else { panic!("{error}") };
                    assert!(got > bound && bound == limit);
                    assert_eq!(decoder.memory(), held);
                    refused += 1;
                }
                check(&decoder, before, limit);
            }
            assert!(refused == 0 || limit < 40 * f, "F {f}, bound {limit}");
            assert!(refused > 0 || limit > f, "F {f}, bound {limit}");
            if refused == 0 {
                assert_eq!(decoder.into_object().as_deref(), Some(&object[..]));
            }
        }
    }
}
