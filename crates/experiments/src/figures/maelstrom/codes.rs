//! The codes of Maelstrom's figures, all over the same link and on real bytes.

use anyhow::{Result, anyhow};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wellspring_codec::interleave::{Interleaver, PacketName, Parameters, Recoverer, Repair};
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded};

/// Bytes of a packet: enough to tell a wrong one, little to compute on.
const LEN: usize = 64;

/// The packet of a number.
fn packet(number: u64) -> [u8; LEN] {
    let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
}

/// A code between the two ends of a link.
pub(super) trait Scheme {
    /// Packet `number` is sent, and whatever repairs follow it; `loses` says of each repair in turn
    /// whether the link loses it. The numbers of packets recovered by that go to `back`.
    fn send(
        &mut self,
        number: u64,
        lost: bool,
        loses: &mut dyn FnMut() -> bool,
        back: &mut Vec<u64>,
    );
}

/// Layered interleaving.
pub(super) struct Layered {
    sender: Interleaver,
    receiver: Recoverer,
}

impl Layered {
    pub(super) fn new(parameters: &Parameters) -> Result<Self> {
        let memory = 2 * parameters.reach().max(512);
        let receiver = Recoverer::new(memory, memory, LEN)?;
        Ok(Layered { sender: Interleaver::new(parameters, LEN)?, receiver })
    }
}

impl Scheme for Layered {
    fn send(
        &mut self,
        number: u64,
        lost: bool,
        loses: &mut dyn FnMut() -> bool,
        back: &mut Vec<u64>,
    ) {
        let bytes = packet(number);
        let receiver = &mut self.receiver;
        let mut accept = |name: PacketName, bytes: &[u8], _: u8| {
            let right = bytes == packet(name.0);
            if right {
                back.push(name.0);
            }
            right
        };
        if !lost {
            receiver
                .on_packet(PacketName(number), &bytes, &mut accept)
                .expect("packets are as long as was agreed");
        }
        let take = |repair: Repair<'_>| {
            if !loses() {
                receiver.on_repair(&repair, &mut accept).expect("repairs are as long as packets");
            }
        };
        self.sender
            .add(PacketName(number), &bytes, take)
            .expect("packets are as long as was agreed");
    }
}

/// A code of blocks of r packets and c repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockCode {
    /// Any r of the r + c give the block.
    ReedSolomon,
    /// So do r with RFC 6330's code, but for one time in 256 (one more: in 65,536).
    RaptorQ,
}

/// A block code with interleave: packet x belongs to the open block x mod i (§3.2).
pub(super) struct BlockScheme {
    code: BlockCode,
    raptorq: Arc<Code>,
    rate: usize,
    repairs: usize,
    /// Packets of each open block, and whether they arrived.
    open: VecDeque<Vec<(u64, bool)>>,
}

impl BlockScheme {
    pub(super) fn new(
        code: BlockCode,
        rate: u8,
        repairs: usize,
        interleave: usize,
    ) -> Result<Self> {
        Ok(BlockScheme {
            code,
            raptorq: Code::new(u32::from(rate)).map_err(|error| anyhow!("{error}"))?,
            rate: usize::from(rate),
            repairs,
            open: std::iter::repeat_with(Vec::new).take(interleave).collect(),
        })
    }

    /// Makes the repairs of a full block and, with those that arrive, the packets that did not.
    fn close(&self, block: &[(u64, bool)], loses: &mut dyn FnMut() -> bool) -> Result<Vec<u64>> {
        let kept: Vec<usize> = (0..self.repairs).filter(|_| !loses()).collect();
        let missing: Vec<u64> =
            block.iter().filter(|(_, arrived)| !arrived).map(|(number, _)| *number).collect();
        if missing.is_empty() || kept.len() < missing.len() {
            return Ok(Vec::new());
        }
        let recovered = match self.code {
            BlockCode::ReedSolomon => self.reed_solomon(block, &kept)?,
            BlockCode::RaptorQ => self.raptorq(block, &kept)?,
        };
        for (number, bytes) in &recovered {
            if *bytes != packet(*number) {
                return Err(anyhow!("packet {number} came back wrong"));
            }
        }
        Ok(recovered.into_keys().collect())
    }

    fn reed_solomon(
        &self,
        block: &[(u64, bool)],
        kept: &[usize],
    ) -> Result<BTreeMap<u64, Vec<u8>>> {
        let source: Vec<_> = block.iter().map(|(number, _)| packet(*number)).collect();
        let repairs = reed_solomon_simd::encode(self.rate, self.repairs, &source)?;
        let arrived = block.iter().enumerate().filter(|(_, (_, arrived))| *arrived);
        let arrived = arrived.map(|(at, (number, _))| (at, packet(*number)));
        let repairs = kept.iter().map(|&at| (at, &repairs[at]));
        let restored = reed_solomon_simd::decode(self.rate, self.repairs, arrived, repairs)?;
        Ok(restored.into_iter().map(|(at, bytes)| (block[at].0, bytes)).collect())
    }

    fn raptorq(&self, block: &[(u64, bool)], kept: &[usize]) -> Result<BTreeMap<u64, Vec<u8>>> {
        let fault = |error: wellspring_codec::Error| anyhow!("{error}");
        let (k, code) = (self.rate as u32, || Arc::clone(&self.raptorq));
        let source: Vec<u8> = block.iter().flat_map(|(number, _)| packet(*number)).collect();
        let mut encoder = BlockEncoder::new(code(), k, LEN).map_err(fault)?;
        let mut decoder = BlockDecoder::new(code(), k, LEN).map_err(fault)?;
        let mut memory = vec![0; source.len()];
        for (esi, (number, _)) in (0..).zip(block).filter(|(_, (_, arrived))| *arrived) {
            decoder.add(&mut memory, esi, &packet(*number)).map_err(fault)?;
        }
        for &at in kept {
            let (esi, mut symbol) = (k + at as u32, [0; LEN]);
            encoder.encode(&source, esi, &mut symbol).map_err(fault)?;
            decoder.add(&mut memory, esi, &symbol).map_err(fault)?;
        }
        let complete = decoder.try_decode(&mut memory).map_err(fault)? == Decoded::Complete;
        let back = block.iter().zip(memory.chunks(LEN)).filter(|((_, arrived), _)| !arrived);
        let back = back.map(|((number, _), bytes)| (*number, bytes.to_vec()));
        Ok(if complete { back.collect() } else { BTreeMap::new() })
    }
}

impl Scheme for BlockScheme {
    fn send(
        &mut self,
        number: u64,
        lost: bool,
        loses: &mut dyn FnMut() -> bool,
        back: &mut Vec<u64>,
    ) {
        let place = (number % self.open.len() as u64) as usize;
        self.open[place].push((number, !lost));
        if self.open[place].len() == self.rate {
            let block = std::mem::take(&mut self.open[place]);
            back.extend(self.close(&block, loses).expect("blocks are of the codes' own shape"));
        }
    }
}
