//! Reed-Solomon code over blocks of packets with interleave (Maelstrom §3.2), by a Cauchy matrix over GF(256).
//!
//! A block is r packets, i apart; any r of its packets and c repairs give the block. Repair j is the sum of the packets,
//! each times 1 / (j + y) for the packet's y, divided by the first repair's factor: every square part of such a matrix
//! can be inverted (Blömer et al., ICSI TR-95-048), and the first repair is the XOR of the packets. The factors depend
//! neither on r nor on c, so that a block that is sent unfinished is one of fewer packets.

use wellspring_kernels::{AlignedBuffer, Kernels, gf256};

use super::block_code::{BlockCode, LENGTH, check, symbol_limit};
use super::{InterleaveError, MAX_LAYERS, MAX_RATE, PacketName, Parameters, Repair};

/// The factor of a block's packet, by its place, in a repair.
fn factor(repair: u8, place: u8) -> u8 {
    // Neither is the other's: repairs are below `MAX_LAYERS`.
    let y = place + MAX_LAYERS as u8;
    // Of repair 0 the factor is 1 / y.
    gf256::mul(gf256::inverse(repair ^ y), y)
}

/// Rate (r, c) and interleave i of a Reed-Solomon code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockParameters {
    rate: u8,
    repairs: u8,
    interleave: u16,
    /// The repairs of a block leave when its place is used again, i packets after the last of its packets, so that no burst
    /// shorter than i takes a packet with its repairs.
    pub delayed: bool,
}

impl BlockParameters {
    /// Blocks of `rate` packets, r, and so many `repairs`, c, of which `interleave` are open at a time.
    ///
    /// # Errors
    /// r is not 1 to [`MAX_RATE`], c not 1 to [`MAX_LAYERS`], or i not what [`Parameters`] allow.
    pub fn new(rate: u8, repairs: u8, interleave: u16) -> Result<Self, InterleaveError> {
        Parameters::new(rate, &[interleave])?;
        if !(1..=MAX_LAYERS).contains(&usize::from(repairs)) {
            return Err(InterleaveError::Layers(repairs.into()));
        }
        Ok(BlockParameters { rate, repairs, interleave, delayed: false })
    }

    /// Packets of a block, r.
    pub fn rate(&self) -> u8 {
        self.rate
    }

    /// Repairs of a block, c.
    pub fn repairs(&self) -> u8 {
        self.repairs
    }

    /// Blocks that are open at a time, i.
    pub fn interleave(&self) -> u16 {
        self.interleave
    }

    /// Repairs for each packet, c / r.
    pub fn overhead(&self) -> f64 {
        f64::from(self.repairs) / f64::from(self.rate)
    }

    /// How many packets a packet may have to wait in the receiver's memory for its block's repairs.
    pub fn reach(&self) -> usize {
        usize::from(self.interleave) * (usize::from(self.rate) + usize::from(self.delayed))
    }
}

/// A block under way: its repairs so far.
#[derive(Debug)]
struct Open {
    first: u64,
    recipe: Vec<PacketName>,
    /// One for each repair, each as long as the longest symbol may be, and zeros behind what is used.
    sums: AlignedBuffer,
    /// Length of the longest symbol so far.
    used: usize,
    complete_at: u8,
    /// Complete, and held back until the place is used again.
    held: bool,
}

/// The send side of a Reed-Solomon code with interleave.
#[derive(Debug)]
pub struct ReedSolomonSender {
    parameters: BlockParameters,
    kernel: Kernels,
    longest: usize,
    /// From one repair's sum to the next \[bytes\].
    stride: usize,
    open: Vec<Open>,
    /// The place of the next packet.
    next: usize,
    packets: u64,
}

impl ReedSolomonSender {
    /// A sender of packets of at most `longest` bytes. It takes about c times the interleave times `longest` bytes.
    ///
    /// # Errors
    /// `longest` is zero, or more than 65,535.
    pub fn new(parameters: &BlockParameters, longest: usize) -> Result<Self, InterleaveError> {
        check(longest)?;
        let stride = symbol_limit(longest).next_multiple_of(64);
        let BlockParameters { rate, interleave, .. } = *parameters;
        // Places are complete in turn from the first time on, as bins are (§4.3.1).
        let in_turn = Parameters::new(rate, &[interleave])?;
        let open = |place| {
            let mut sums = AlignedBuffer::default();
            sums.resize(stride * usize::from(parameters.repairs));
            Open {
                first: 0,
                recipe: Vec::with_capacity(usize::from(parameters.rate)),
                sums,
                used: 0,
                complete_at: in_turn.first_size(interleave, place),
                held: false,
            }
        };
        Ok(ReedSolomonSender {
            parameters: *parameters,
            kernel: Kernels::detect(),
            longest,
            stride,
            open: (0..parameters.interleave).map(open).collect(),
            next: 0,
            packets: 0,
        })
    }

    /// What it was made with.
    pub fn parameters(&self) -> &BlockParameters {
        &self.parameters
    }

    /// Packets taken so far: the number of the next one.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Takes a packet on its way; calls `send` with the repairs that are to follow it.
    ///
    /// # Errors
    /// The packet is longer than was agreed.
    pub fn add(
        &mut self,
        name: PacketName,
        packet: &[u8],
        mut send: impl FnMut(Repair<'_>),
    ) -> Result<(), InterleaveError> {
        if packet.len() > self.longest {
            return Err(InterleaveError::TooLong { got: packet.len(), limit: self.longest });
        }
        let place = self.next;
        self.next = if place + 1 == self.open.len() { 0 } else { place + 1 };
        if self.open[place].held {
            self.close(place, &mut send);
        }
        let (kernel, stride) = (self.kernel, self.stride);
        let block = &mut self.open[place];
        if block.recipe.is_empty() {
            block.first = self.packets;
        }
        self.packets += 1;
        let at = block.recipe.len() as u8;
        block.recipe.push(name);
        block.used = block.used.max(symbol_limit(packet.len()));
        let length = (packet.len() as u16).to_be_bytes();
        for (repair, sum) in (0..).zip(block.sums.chunks_exact_mut(stride)) {
            let factor = factor(repair, at);
            let (head, body) = sum.split_at_mut(LENGTH);
            kernel.mul_add(head, &length, factor);
            kernel.mul_add(&mut body[..packet.len()], packet, factor);
        }
        if block.recipe.len() >= usize::from(block.complete_at) {
            if self.parameters.delayed {
                block.held = true;
            } else {
                self.close(place, &mut send);
            }
        }
        Ok(())
    }

    /// Sends the repairs of all blocks whose first packet is one before that number, complete or not: they have waited
    /// long enough for the packets that would complete them. There are as many repairs as packets at most. Stops, and tells so,
    /// when `send` refuses one; that block stays.
    pub fn expire(&mut self, before: u64, mut send: impl FnMut(Repair<'_>) -> bool) -> bool {
        for place in 0..self.open.len() {
            let block = &self.open[place];
            if block.recipe.is_empty() || block.first >= before {
                continue;
            }
            if !self.repairs(place).all(&mut send) {
                return false;
            }
            self.clear(place);
        }
        true
    }

    fn close(&mut self, place: usize, send: &mut impl FnMut(Repair<'_>)) {
        self.repairs(place).for_each(send);
        self.clear(place);
    }

    /// The repairs of a block as it is.
    fn repairs(&self, place: usize) -> impl Iterator<Item = Repair<'_>> {
        let block = &self.open[place];
        let count = block.recipe.len().min(usize::from(self.parameters.repairs));
        let sums = block.sums.chunks_exact(self.stride).take(count);
        (0..).zip(sums).map(|(layer, sum)| Repair {
            layer,
            first: block.first,
            recipe: &block.recipe,
            length: 0,
            xor: &sum[..block.used],
        })
    }

    fn clear(&mut self, place: usize) {
        let (stride, block) = (self.stride, &mut self.open[place]);
        for sum in block.sums.chunks_exact_mut(stride) {
            sum[..block.used].fill(0);
        }
        block.recipe.clear();
        block.used = 0;
        block.complete_at = self.parameters.rate;
        block.held = false;
    }
}

/// The code of [`ReedSolomonSender`] as one of whole blocks.
#[derive(Debug)]
pub struct ReedSolomonBlocks {
    kernel: Kernels,
}

impl ReedSolomonBlocks {
    /// The code, by the best kernels of this processor.
    pub fn new() -> Self {
        ReedSolomonBlocks { kernel: Kernels::detect() }
    }
}

impl Default for ReedSolomonBlocks {
    fn default() -> Self {
        Self::new()
    }
}

impl BlockCode for ReedSolomonBlocks {
    fn repairs(&mut self, packets: &[Vec<u8>], count: usize) -> Vec<Vec<u8>> {
        let len = packets.first().map_or(0, Vec::len);
        let repair = |repair: u8| {
            let mut sum = vec![0; len];
            for (place, packet) in (0..).zip(packets) {
                self.kernel.mul_add(&mut sum, packet, factor(repair, place));
            }
            sum
        };
        (0..count.min(MAX_LAYERS) as u8).map(repair).collect()
    }

    fn restore(
        &mut self,
        packets: &[Option<Vec<u8>>],
        repairs: &[(u8, Vec<u8>)],
    ) -> Option<Vec<Vec<u8>>> {
        let missing: Vec<u8> =
            (0..MAX_RATE).zip(packets).filter(|(_, p)| p.is_none()).map(|(at, _)| at).collect();
        let is_sound = |&(repair, _): &(u8, Vec<u8>)| usize::from(repair) < MAX_LAYERS;
        if repairs.len() < missing.len() || !repairs.iter().all(is_sound) {
            return None;
        }
        // What the repairs say of the missing packets: the others are taken out.
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = repairs[..missing.len()]
            .iter()
            .map(|(repair, symbol)| {
                let mut sum = symbol.clone();
                for (place, packet) in (0..).zip(packets) {
                    if let Some(packet) = packet {
                        self.kernel.mul_add(&mut sum, packet, factor(*repair, place));
                    }
                }
                (missing.iter().map(|&place| factor(*repair, place)).collect(), sum)
            })
            .collect();
        // Gauss-Jordan elimination; in the columns done a row's factor is of no account.
        for column in 0..missing.len() {
            let pivot = (column..rows.len()).find(|&row| rows[row].0[column] != 0)?;
            rows.swap(column, pivot);
            let (mut factors, mut sum) = std::mem::take(&mut rows[column]);
            let inverse = gf256::inverse(factors[column]);
            factors.iter_mut().for_each(|factor| *factor = gf256::mul(*factor, inverse));
            self.kernel.scale(&mut sum, inverse);
            for (other_factors, other_sum) in rows.iter_mut().filter(|(f, _)| !f.is_empty()) {
                let times = other_factors[column];
                for (to, &from) in other_factors.iter_mut().zip(&factors) {
                    *to ^= gf256::mul(from, times);
                }
                self.kernel.mul_add(other_sum, &sum, times);
            }
            rows[column] = (factors, sum);
        }
        Some(rows.into_iter().map(|(_, sum)| sum).collect())
    }
}
