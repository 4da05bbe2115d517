//! Memory of LT decoders from block to block.

use std::cell::Cell;
use std::sync::Arc;

use wellspring_codec::lt::{Code, Decoded, Decoder, Encoder, Method, RobustSoliton};

use super::{ALLOCATIONS, live};

const K: u32 = 200;
const T: usize = 1_000;

#[test]
fn a_block_like_the_one_before_allocates_nothing() {
    let source: Vec<u8> = (0..K as usize * T).map(|i| (i * 31 / 7) as u8).collect();
    let distribution = RobustSoliton::new(K, 0.2, 0.7).expect("in range");
    let code = Arc::new(Code::new(distribution, 5));
    let mut encoder = Encoder::new(code, T).expect("in range");
    let (mut symbol, mut block) = (vec![0; T], vec![0; source.len()]);
    for method in Method::ALL {
        let at_first = live();
        let mut decoder = Decoder::new(K, T, method).expect("in range");
        for turn in 0..3 {
            let before = ALLOCATIONS.with(Cell::get);
            block.fill(0);
            for id in 0.. {
                let neighbours = encoder.encode(&source, id, &mut symbol).expect("right lengths");
                decoder.add(neighbours, &symbol).expect("right neighbours");
                if decoder.is_complete() {
                    break;
                }
            }
            assert_eq!(decoder.try_decode(&mut block), Ok(Decoded::Complete));
            let allocations = ALLOCATIONS.with(Cell::get) - before;
            assert!(turn == 0 || allocations == 0, "{method:?} {allocations}");
            assert_eq!(block, source);
            decoder.clear();
        }
        // The encoder's list of neighbours may have grown with the first decoder.
        if method != Method::ALL[0] {
            assert_eq!(decoder.memory(), live() - at_first, "{method:?}");
        }
    }
}
