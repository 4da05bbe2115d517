//! One source block against the independent crate `raptorq`.

use raptorq::{SourceBlockDecoder, SourceBlockEncoder};
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded, DecodingPath};

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

#[test]
fn repair_symbols_are_those_of_the_other_codec() {
    for k in [1, 2, 9, 10, 11, 12, 13, 50, 99, 100, 101, 102, 257, 500, 1000, 3001] {
        for t in [1, 8, 33, 64, 200] {
            let source = bytes(k as usize * t, u64::from(k));
            let config =
                raptorq::ObjectTransmissionInformation::new(source.len() as u64, t as u16, 1, 1, 1);
            let theirs = SourceBlockEncoder::new(0, &config, &source);
            let mut ours = BlockEncoder::new(Code::new(k).unwrap(), k, t).unwrap();
            let mut symbol = vec![0; t];
            for (start, count) in [(0, 20), (100_000, 5)] {
                for packet in theirs.repair_packets(start, count) {
                    let esi = packet.payload_id().encoding_symbol_id();
                    ours.encode(&source, esi, &mut symbol).unwrap();
                    assert_eq!(symbol, packet.data(), "K {k} T {t} ESI {esi}");
                }
            }
        }
    }
}

#[test]
fn blocks_decode_from_any_mix() {
    for k in [1, 2, 10, 11, 50, 100, 101, 257, 1000] {
        let t = 72;
        let source = bytes(k as usize * t, 3);
        let code = Code::new(k).unwrap();
        let mut encoder = BlockEncoder::new(code.clone(), k, t).unwrap();
        let mut decoder = BlockDecoder::new(code, k, t).unwrap();
        for (lost, path) in [0, 1, 2, k / 10, k / 2, k].into_iter().flat_map(|lost| {
            [
                None,
                Some(DecodingPath::Dense),
                Some(DecodingPath::Syndrome),
                Some(DecodingPath::Inactivation),
            ]
            .map(|path| (lost, path))
        }) {
            decoder.clear();
            decoder.force_path(path);
            let mut block = vec![0; source.len()];
            let mut symbol = vec![0; t];
            for esi in (0..k).rev().take((k - lost.min(k)) as usize) {
                encoder.encode(&source, esi, &mut symbol).unwrap();
                decoder.add(&mut block, esi, &symbol).unwrap();
            }
            let mut esi = k + 7 * lost;
            loop {
                match decoder.try_decode(&mut block).unwrap() {
                    Decoded::Complete => break,
                    Decoded::NeedMore(n) => {
                        assert!(n > 0);
                        for _ in 0..n {
                            encoder.encode(&source, esi, &mut symbol).unwrap();
                            decoder.add(&mut block, esi, &symbol).unwrap();
                            esi += 1;
                        }
                    }
                }
            }
            assert!(esi < k + 7 * lost + lost + 3);
            assert!(block == source, "K {k} lost {lost}");
        }
    }
}

#[test]
fn the_other_codec_decodes_ours() {
    let (k, t) = (100, 64);
    let source = bytes(k as usize * t, 3);
    let mut encoder = BlockEncoder::new(Code::new(k).unwrap(), k, t).unwrap();
    let config =
        raptorq::ObjectTransmissionInformation::new(source.len() as u64, t as u16, 1, 1, 1);
    let mut decoder = SourceBlockDecoder::new(0, &config, source.len() as u64);
    let packets = (k + 1000..k + 1000 + k + 5).map(|esi| {
        let mut symbol = vec![0; t];
        encoder.encode(&source, esi, &mut symbol).unwrap();
        raptorq::EncodingPacket::new(raptorq::PayloadId::new(0, esi), symbol)
    });
    assert_eq!(decoder.decode(packets.collect::<Vec<_>>()), Some(source));
}
