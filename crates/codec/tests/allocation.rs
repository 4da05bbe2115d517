//! A warm decoder allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded, Road};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller vouches.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const K: u32 = 100;
const T: usize = 1500;

/// Decodes a block that lost its first `lost` symbols, and counts the allocations of the decoder.
fn decode(decoder: &mut BlockDecoder, block: &mut [u8], repairs: &[u8], lost: u32) -> u64 {
    block[..lost as usize * T].fill(0);
    let before = ALLOCATIONS.with(Cell::get);
    decoder.clear();
    for esi in lost..K {
        decoder.mark_source(esi).expect("below K");
    }
    for (esi, symbol) in (K..K + lost + 2).zip(repairs.chunks_exact(T)) {
        decoder.add_repair(esi, symbol).expect("a valid symbol");
    }
    let decoded = decoder.try_decode(block);
    let allocations = ALLOCATIONS.with(Cell::get) - before;
    assert_eq!(decoded, Ok(Decoded::Complete));
    allocations
}

#[test]
fn a_decoder_allocates_nothing_after_its_first_block() {
    let source: Vec<u8> = (0..K as usize * T).map(|i| (i * 31 / 7) as u8).collect();
    let code = Code::new(K).expect("in range");
    let mut encoder = BlockEncoder::new(code.clone(), K, T).expect("in range");
    let mut repairs = vec![0; (K as usize + 2) * T];
    encoder.encode_run(&source, K, &mut repairs).expect("valid");
    for road in [None, Some(Road::Dense), Some(Road::Syndrome), Some(Road::Inactivation)] {
        for lost in [1, 10, 40, 100] {
            let mut decoder = BlockDecoder::new(code.clone(), K, T).expect("in range");
            decoder.force_road(road);
            let mut block = source.clone();
            assert!(decode(&mut decoder, &mut block, &repairs, lost) > 0);
            for _ in 0..3 {
                assert_eq!(decode(&mut decoder, &mut block, &repairs, lost), 0, "{road:?} {lost}");
                assert!(block == source);
            }
        }
    }
}

#[test]
fn an_encoder_allocates_nothing_after_its_first_block() {
    let source: Vec<u8> = (0..K as usize * T).map(|i| (i * 31 / 7) as u8).collect();
    let code = Code::new(K).expect("in range");
    for count in [1, 5, 50, 200] {
        let mut encoder = BlockEncoder::new(code.clone(), K, T).expect("in range");
        let mut symbols = vec![0; count * T];
        let mut allocations = Vec::new();
        for _ in 0..3 {
            encoder.clear();
            let before = ALLOCATIONS.with(Cell::get);
            encoder.encode_run(&source, K, &mut symbols).expect("valid");
            allocations.push(ALLOCATIONS.with(Cell::get) - before);
        }
        assert!(allocations[0] > 0 && allocations[1..] == [0, 0], "{count}: {allocations:?}");
    }
}
