//! Allocations of decoders and encoders.

mod lt;
mod objects;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded, DecodingPath};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes allocated and not freed.
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated and not freed.
fn live() -> usize {
    LIVE.with(Cell::get)
}

fn count(more: usize, less: usize) {
    LIVE.with(|live| live.set((live.get() + more).saturating_sub(less)));
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        count(layout.size(), 0);
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        count(size, layout.size());
        // SAFETY: as the caller vouches.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const K: u32 = 100;
const T: usize = 1500;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }
}

/// A block, and a supply of its repair symbols from all over their numbers.
struct Block {
    k: u32,
    t: usize,
    source: Vec<u8>,
    repairs: Vec<(u32, Vec<u8>)>,
}

impl Block {
    fn new(code: &Arc<Code>, k: u32, t: usize, short: usize, random: &mut Random) -> Self {
        let source: Vec<u8> = (0..k as usize * t - short).map(|i| (i * 31 / 7) as u8).collect();
        let mut encoder = BlockEncoder::new(code.clone(), k, t).expect("in range");
        let repairs = (0..4 * k + 200).map(|i| {
            let esi = if i < 40 { k + i } else { k + 40 + random.below((1 << 24) - k - 40) };
            let mut symbol = vec![0; t];
            encoder.encode(&source, esi, &mut symbol).expect("valid");
            (esi, symbol)
        });
        let repairs = repairs.collect();
        Self { k, t, source, repairs }
    }

    /// Decodes the block with any symbols lost and any repair symbols, of which `lent` of 4 are lent,
    /// and counts the allocations of the decoder.
    fn decode(&self, decoder: &mut BlockDecoder, lost: u32, lent: u32, random: &mut Random) -> u64 {
        let Self { k, t, source, repairs } = self;
        let mut order: Vec<u32> = (0..*k).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i as u32 + 1) as usize);
        }
        let mut block = source.clone();
        for &esi in &order[..lost as usize] {
            let start = esi as usize * t;
            block[start..source.len().min(start + t)].fill(0xee);
        }
        // Some come in excess, and some after an attempt that fell short.
        let excess = random.below(40);
        let first = random.below(2 * k) as usize;
        let choices: Vec<bool> = repairs.iter().map(|_| random.below(4) < lent).collect();

        let before = ALLOCATIONS.with(Cell::get);
        decoder.clear();
        for &esi in &order[lost as usize..] {
            decoder.mark_source(esi).expect("below K");
        }
        let mut supply = repairs[first..].iter().zip(&choices);
        let mut decoded = decoder.try_decode(&mut block);
        let mut more = excess;
        while let Ok(Decoded::NeedMore(wanted)) = decoded {
            for ((esi, symbol), &choice) in supply.by_ref().take((wanted + more) as usize) {
                let added = if choice {
                    decoder.mark_repair(*esi)
                } else {
                    decoder.add_repair(*esi, symbol)
                };
                added.expect("a valid symbol");
            }
            more = 0;
            decoded = decoder.try_decode_with(&mut block, |esi| {
                &repairs.iter().find(|(other, _)| *other == esi).expect("it was lent").1
            });
        }
        let allocations = ALLOCATIONS.with(Cell::get) - before;
        assert_eq!(decoded, Ok(Decoded::Complete));
        assert!(block == *source);
        allocations
    }
}

/// Whatever the first block had lost, nothing that later blocks lose makes the decoder allocate: other
/// symbols, more or fewer, other repair symbols, copied or lent, on any path.
#[test]
fn a_decoder_of_small_blocks_allocates_nothing_after_its_first_block() {
    let mut random = Random(1);
    for (k, t, short) in [(K, T, 0), (K, T, 700), (1, 8, 0), (11, 40, 3), (257, 16, 0)] {
        let code = Code::new(k).expect("in range");
        let block = Block::new(&code, k, t, short, &mut random);
        for path in [
            None,
            Some(DecodingPath::Dense),
            Some(DecodingPath::Syndrome),
            Some(DecodingPath::Inactivation),
        ] {
            let mut decoder = BlockDecoder::new(code.clone(), k, t).expect("in range");
            decoder.force_path(path);
            let first = [1, k, k / 2 + 1][random.below(3) as usize];
            assert!(block.decode(&mut decoder, first, 0, &mut random) > 0);
            let memory = decoder.memory();
            for round in 0..200 {
                let lost = match round {
                    0..6 => [1, 2, 5, 10, 50, k][round].min(k),
                    _ if round % 3 == 0 => k / 2 + 1,
                    _ => 1 + random.below(k),
                };
                let allocations = block.decode(&mut decoder, lost, round as u32 % 5, &mut random);
                assert_eq!(allocations, 0, "K {k} {path:?}, {lost} lost in round {round}");
            }
            assert_eq!(decoder.memory(), memory);
        }
    }
}

/// What a decoder takes for that is as documented: 0.1 MB, 0.7 and 2.2, and the copies.
#[test]
fn what_a_decoder_of_small_blocks_takes_is_as_documented() {
    let mut random = Random(2);
    for (k, t, limit) in [(10, T, 250_000), (K, T, 950_000), (257, T, 2_820_000)] {
        let code = Code::new(k).expect("in range");
        let block = Block::new(&code, k, t, 0, &mut random);
        let mut decoder = BlockDecoder::new(code, k, t).expect("in range");
        for (esi, symbol) in block.repairs.iter().take(k as usize + 3) {
            decoder.add_repair(*esi, symbol).expect("valid");
        }
        let decoded = decoder.try_decode(&mut vec![0; block.source.len()]);
        assert_eq!(decoded, Ok(Decoded::Complete));
        println!("K {k}: {} bytes", decoder.memory());
        assert!(decoder.memory() <= limit, "K {k}: {} bytes", decoder.memory());
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
