//! The codes of Maelstrom's figures, all over the same link and on real bytes.

use crate::Lab;
use anyhow::Result;
use wellspring_codec::interleave::{
    BlockCode, BlockReceiver, BlockSender, Interleaver, PacketName, Parameters, RaptorQBlocks,
    Recoverer, Repair, StreamReceiver, StreamSender,
};

/// Bytes of a packet: enough to detect a wrong one, and cheap to compute on.
const LEN: usize = 64;
/// Blocks that a receiver remembers, beside packets.
const BLOCKS: usize = 512;

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
pub(super) struct Scheme {
    sender: Box<dyn StreamSender>,
    receiver: Box<dyn StreamReceiver>,
}

impl Scheme {
    /// Layered interleaving.
    pub(super) fn layered(parameters: &Parameters) -> Result<Self> {
        let memory = 2 * parameters.reach().max(512);
        Ok(Scheme {
            sender: Box::new(Interleaver::new(parameters, LEN)?),
            receiver: Box::new(Recoverer::new(memory, memory, LEN)?),
        })
    }

    /// Reed-Solomon with interleave: any r of the r + c symbols give the block.
    pub(super) fn reed_solomon(rate: u8, repairs: usize, interleave: u16) -> Result<Self> {
        Self::blocks(|| ReedSolomon { repairs }, rate, repairs, interleave)
    }

    /// RFC 6330's code with interleave.
    pub(super) fn raptorq(rate: u8, repairs: usize, interleave: u16) -> Result<Self> {
        Self::blocks(RaptorQBlocks::new, rate, repairs, interleave)
    }

    fn blocks<C: BlockCode + 'static>(
        code: impl Fn() -> C,
        rate: u8,
        repairs: usize,
        interleave: u16,
    ) -> Result<Self> {
        let memory = 2 * (usize::from(rate) * usize::from(interleave)).max(512);
        Ok(Scheme {
            sender: Box::new(BlockSender::new(code(), rate, repairs, interleave, LEN)?),
            receiver: Box::new(BlockReceiver::new(code(), memory, BLOCKS, LEN)?),
        })
    }

    /// Packet `number` is sent, and whatever repairs follow it; `loses` says of each repair in turn
    /// whether the link loses it. The numbers of packets recovered by that go to `back`.
    pub(super) fn send(
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
                .packet(PacketName(number), &bytes, &mut accept)
                .expect("packets are as long as was agreed");
        }
        let mut take = |repair: Repair<'_>| {
            if !loses() {
                receiver
                    .repair(&repair, &mut accept)
                    .expect("repairs are as their sender makes them");
            }
        };
        self.sender
            .take(PacketName(number), &bytes, &mut take)
            .expect("packets are as long as was agreed");
    }
}

/// Two curves of Fig. 8 are very close where their shares differ by no more than this.
const VERY_CLOSE: f64 = 0.03;

/// The share that layers recover less that of Reed-Solomon's code, up to a tenth of loss.
pub(super) fn beside_reed_solomon(lab: &mut Lab, at: &str, difference: f64) {
    let what = format!("layered less Reed-Solomon {at}");
    let write = |share: f64| format!("{share:+.4}");
    lab.number_as(&what, "very close", difference, -VERY_CLOSE..=VERY_CLOSE, &write);
}

/// A library's Reed-Solomon code over blocks of packets. Its symbols depend on how many repairs there
/// are of a block, so both ends must know that.
struct ReedSolomon {
    repairs: usize,
}

impl BlockCode for ReedSolomon {
    fn repairs(&mut self, packets: &[Vec<u8>], count: usize) -> Vec<Vec<u8>> {
        reed_solomon_simd::encode(packets.len(), count, packets)
            .expect("blocks of some symbols of one even length")
    }

    fn restore(
        &mut self,
        packets: &[Option<Vec<u8>>],
        repairs: &[(u8, Vec<u8>)],
    ) -> Option<Vec<Vec<u8>>> {
        let arrived = packets.iter().enumerate();
        let arrived = arrived.filter_map(|(at, packet)| Some((at, packet.as_ref()?)));
        let repairs = repairs.iter().map(|(number, symbol)| (usize::from(*number), symbol));
        let restored =
            reed_solomon_simd::decode(packets.len(), self.repairs, arrived, repairs).ok()?;
        let missing = (0..packets.len()).filter(|at| packets[*at].is_none());
        missing.map(|at| restored.get(&at).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scale, Verdict};
    use wellspring_experiments::sweep::Output;

    #[test]
    fn layers_that_recover_far_more_are_not_very_close_either() {
        let mut lab = Lab::new(Scale::default(), Output::default(), &|_, _, _| {});
        beside_reed_solomon(&mut lab, "at 3.0 % loss", 0.0213);
        beside_reed_solomon(&mut lab, "at 10.0 % loss", 0.1343);
        let rows: Vec<_> = lab.checks.iter().map(|row| (row.ours.as_str(), row.verdict)).collect();
        assert_eq!(rows, [("+0.0213", Verdict::Reproduced), ("+0.1343", Verdict::Missed)]);
    }
}
