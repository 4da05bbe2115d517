//! A file to symbols and back: transmission information and payload IDs as they go on the wire, blocks
//! written as they are completed, memory bounded.
//!
//! `cargo run --release -p wellspring-codec --example file_round_trip -- FILE`

use std::error::Error;
use std::{env, fs};

use wellspring_codec::raptorq::{
    ObjectDecoder, ObjectEncoder, ObjectTransmissionInformation, PayloadId,
};

fn main() -> Result<(), Box<dyn Error>> {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let path = env::args().nth(1).unwrap_or_else(|| readme.to_owned());
    let object = fs::read(&path)?;

    // The sender: symbols of 1,024 bytes, blocks and sub-blocks such that 256 KiB decode one.
    let information =
        ObjectTransmissionInformation::derive(object.len() as u64, 1_024, 4, 8, 256 << 10)?;
    let mut encoder = ObjectEncoder::new(information, &object)?;
    let mut packet = vec![0; PayloadId::LEN + 1_024];

    // The receiver knows the twelve bytes and what it allows.
    let announced = ObjectTransmissionInformation::from_bytes(&information.to_bytes())?;
    let mut decoder = ObjectDecoder::new(announced, 4 << 20)?;
    let mut received = vec![0; usize::try_from(announced.transfer_length())?];

    let mut sent = 0;
    for sbn in 0..information.source_blocks() {
        let mut esi = 0;
        while decoder.wanted(sbn)? > 0 {
            let id = PayloadId::new(sbn, esi)?;
            let (header, symbol) = packet.split_at_mut(PayloadId::LEN);
            header.copy_from_slice(&id.to_bytes());
            encoder.encode(id, symbol)?;
            esi += 1;
            sent += 1;
            if sent % 10 == 0 {
                continue; // lost on the way
            }
            let id = PayloadId::from_bytes(&packet)?;
            decoder.add(id, &packet[PayloadId::LEN..])?;
        }
        if let Some(part) = decoder.take_block(sbn) {
            let start = usize::try_from(announced.block(sbn)?.offset)?;
            received[start..start + part.len()].copy_from_slice(&part);
        }
    }
    assert_eq!(received, object);
    println!(
        "{path}: {} bytes, {} source blocks, {sent} symbols sent",
        object.len(),
        information.source_blocks()
    );
    Ok(())
}
