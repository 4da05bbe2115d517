//! Golden vectors: files in `vectors/raptorq` that two independent codecs agree on.
//!
//! `WELLSPRING_UPDATE_VECTORS=1 cargo test -p wellspring-codec --test vectors` writes them anew,
//! from the independent codec's symbols.

use std::fmt::Write;
use std::path::PathBuf;

use raptorq::SourceBlockEncoder;
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded};

/// K and T of each file.
const SHAPES: [(u32, usize); 6] = [(1, 8), (10, 16), (26, 8), (100, 16), (101, 4), (1000, 4)];

/// The source block of a vector: byte `i` is `i * i / 7 + 31 * i + K`, modulo 256.
fn source(k: u32, t: usize) -> Vec<u8> {
    (0..u64::from(k) * t as u64).map(|i| (i * i / 7 + 31 * i + u64::from(k)) as u8).collect()
}

/// The repair symbols of a vector.
fn symbols(k: u32) -> impl Iterator<Item = u32> {
    let last = (1 << 24) - 1;
    (k..k + 12).chain([k + 1000, 1 << 16, (1 << 20) + 7, (1 << 23) + 1, last])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

/// A file's contents, from whatever makes symbols.
fn contents(k: u32, t: usize, mut symbol: impl FnMut(u32) -> Vec<u8>) -> String {
    let mut text = format!(
        "# RaptorQ (RFC 6330) repair symbols of one source block, K = {k}, T = {t}.\n\
         # Source byte i is (i * i / 7 + 31 * i + K) modulo 256; ESI, then the symbol in hex.\n"
    );
    for esi in symbols(k) {
        writeln!(text, "{esi} {}", hex(&symbol(esi))).expect("writing to a string");
    }
    text
}

#[test]
fn both_codecs_make_the_golden_symbols() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/raptorq");
    for (k, t) in SHAPES {
        let source = source(k, t);
        let len = source.len() as u64;
        let t16 = u16::try_from(t).expect("small");
        let information = raptorq::ObjectTransmissionInformation::new(len, t16, 1, 1, 1);
        let theirs = SourceBlockEncoder::new(0, &information, &source);
        let theirs = contents(k, t, |esi| theirs.repair_packets(esi - k, 1)[0].data().to_vec());
        let path = folder.join(format!("k{k}-t{t}.txt"));
        if std::env::var_os("WELLSPRING_UPDATE_VECTORS").is_some() {
            std::fs::write(&path, &theirs).expect("the folder can be written");
        }
        let golden = std::fs::read_to_string(&path).expect("the vector is in the tree");
        assert_eq!(theirs, golden, "the independent codec, K {k}");

        let mut encoder = BlockEncoder::new(Code::new(k).unwrap(), k, t).unwrap();
        let ours = contents(k, t, |esi| {
            let mut symbol = vec![0; t];
            encoder.encode(&source, esi, &mut symbol).unwrap();
            symbol
        });
        assert_eq!(ours, golden, "our encoder, K {k}");
        decode(k, t, &source, &golden);
    }
}

/// Decodes the block from the golden symbols and what of the source is needed beside them.
fn decode(k: u32, t: usize, source: &[u8], golden: &str) {
    let mut decoder = BlockDecoder::new(Code::new(k).unwrap(), k, t).unwrap();
    let mut block = vec![0; source.len()];
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let (esi, hex) = line.split_once(' ').expect("an ESI and a symbol");
        let symbol: Vec<u8> =
            (0..t).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex")).collect();
        decoder.add_repair(esi.parse().expect("a number"), &symbol).unwrap();
    }
    for esi in (0..k).rev() {
        if decoder.try_decode(&mut block).unwrap() == Decoded::Complete {
            break;
        }
        let symbol = &source[esi as usize * t..][..t];
        decoder.add(&mut block, esi, symbol).unwrap();
    }
    assert_eq!(decoder.try_decode(&mut block).unwrap(), Decoded::Complete);
    assert_eq!(block, source);
}
