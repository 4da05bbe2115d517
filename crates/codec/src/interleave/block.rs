//! Block codes with interleave (Maelstrom §3.2): packet x belongs to the open block x mod i, and r
//! packets make a block of which c repairs are sent.
//!
//! Packets of different lengths become symbols of one: two bytes of length, the packet, zeros. In a
//! [`Repair`] of a block the layer is the repair's number within it, and the XOR is its symbol.

use super::block_code::{BlockCode, LENGTH, check, symbol, symbol_limit};
use super::lacking::{LackingBlocks, Settled};
use super::parameters::MAX_MEMORY;
use super::store::PacketStore;
use super::stream::{Accept, StreamReceiver, StreamSender};
use super::{Account, InterleaveError, MAX_LAYERS, MAX_RATE, PacketName, Parameters, Repair};

#[derive(Debug, Default)]
struct Open {
    first: u64,
    names: Vec<PacketName>,
    packets: Vec<Vec<u8>>,
}

/// The send side of a block code with interleave.
#[derive(Debug)]
pub struct BlockSender<C> {
    code: C,
    rate: usize,
    repairs: usize,
    longest: usize,
    open: Vec<Open>,
    packets: u64,
}

impl<C: BlockCode> BlockSender<C> {
    /// A sender of blocks of `rate` packets, r, of at most `longest` bytes, with so many `repairs`,
    /// c, of which `interleave` blocks, i, are open at a time.
    ///
    /// # Errors
    /// r, c or i is not what [`Parameters`] allow, or `longest` is 0 or more than 65,535.
    pub fn new(
        code: C,
        rate: u8,
        repairs: usize,
        interleave: u16,
        longest: usize,
    ) -> Result<Self, InterleaveError> {
        Parameters::new(rate, &[interleave])?;
        if !(1..=MAX_LAYERS).contains(&repairs) {
            return Err(InterleaveError::Layers(repairs));
        }
        check(longest)?;
        let open = std::iter::repeat_with(Open::default).take(usize::from(interleave)).collect();
        Ok(BlockSender { code, rate: usize::from(rate), repairs, longest, open, packets: 0 })
    }
}

impl<C: BlockCode> StreamSender for BlockSender<C> {
    fn take(
        &mut self,
        name: PacketName,
        packet: &[u8],
        send: &mut dyn FnMut(Repair<'_>),
    ) -> Result<(), InterleaveError> {
        if packet.len() > self.longest {
            return Err(InterleaveError::TooLong { got: packet.len(), limit: self.longest });
        }
        let place = (self.packets % self.open.len() as u64) as usize;
        let block = &mut self.open[place];
        if block.names.is_empty() {
            block.first = self.packets;
        }
        self.packets += 1;
        block.names.push(name);
        block.packets.push(symbol(packet));
        if block.names.len() < self.rate {
            return Ok(());
        }
        let Open { first, names, mut packets } = std::mem::take(block);
        let longest = packets.iter().map(Vec::len).max().unwrap_or(LENGTH);
        packets.iter_mut().for_each(|packet| packet.resize(longest, 0));
        for (layer, symbol) in self.code.repairs(&packets, self.repairs).iter().enumerate() {
            send(Repair { layer: layer as u8, first, recipe: &names, length: 0, xor: symbol });
        }
        Ok(())
    }
}

/// The receive side of a block code, whatever its rate and interleave. Memory is bounded: a ring of
/// packets, and so many blocks that lack some.
#[derive(Debug)]
pub struct BlockReceiver<C> {
    longest: usize,
    packets: PacketStore,
    blocks: LackingBlocks<C>,
    account: Account,
}

impl<C: BlockCode> BlockReceiver<C> {
    /// A receiver that remembers so many packets of at most `longest` bytes, and so many blocks.
    ///
    /// # Errors
    /// One of them is zero, or they take more than 4 GiB (2 GiB where `usize` has 32 bits).
    pub fn new(
        code: C,
        packets: usize,
        blocks: usize,
        longest: usize,
    ) -> Result<Self, InterleaveError> {
        check(longest)?;
        let memory = PacketStore::memory(packets, longest)
            .zip(LackingBlocks::<C>::memory(blocks, longest))
            .and_then(|(packets, blocks)| packets.checked_add(blocks));
        if packets == 0 || blocks == 0 || memory.is_none_or(|memory| memory > MAX_MEMORY) {
            return Err(InterleaveError::Memory);
        }
        Ok(BlockReceiver {
            longest,
            packets: PacketStore::new(packets, longest),
            blocks: LackingBlocks::new(code, blocks),
            account: Account::default(),
        })
    }

    /// What was seen and done so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Blocks that lack packets at the moment.
    pub fn waiting(&self) -> usize {
        self.blocks.len()
    }

    /// Counts what came of a repair or a packet, and takes in what it has brought back.
    fn take(&mut self, settled: Settled, accept: Accept<'_>) {
        match settled {
            Settled::Redundant => {}
            Settled::Garbled => self.account.garbled += 1,
            Settled::Waits { expired } => self.account.expired += u64::from(expired),
            Settled::Restored(restored) => {
                for (name, packet) in restored.packets {
                    match packet.filter(|packet| accept(name, packet, restored.layer)) {
                        Some(packet) => {
                            self.account.recovered[usize::from(restored.layer)] += 1;
                            self.packets.insert(name, 0, &packet);
                        }
                        None => self.account.garbled += 1,
                    }
                }
            }
        }
    }
}

impl<C: BlockCode> StreamReceiver for BlockReceiver<C> {
    fn packet(
        &mut self,
        name: PacketName,
        packet: &[u8],
        accept: Accept<'_>,
    ) -> Result<(), InterleaveError> {
        if packet.len() > self.longest {
            return Err(InterleaveError::TooLong { got: packet.len(), limit: self.longest });
        }
        if !self.packets.insert(name, 0, packet) {
            return Ok(());
        }
        self.account.packets += 1;
        // Seldom: repairs had overtaken it.
        while let Some(settled) = self.blocks.on_packet(&self.packets, self.longest, name) {
            self.take(settled, accept);
        }
        Ok(())
    }

    fn repair(&mut self, repair: &Repair<'_>, accept: Accept<'_>) -> Result<(), InterleaveError> {
        let Repair { layer, recipe, xor, .. } = *repair;
        if recipe.is_empty() || recipe.len() > usize::from(MAX_RATE) {
            return Err(InterleaveError::Recipe(recipe.len()));
        }
        let limit = symbol_limit(self.longest);
        if xor.len() > limit {
            return Err(InterleaveError::TooLong { got: xor.len(), limit });
        }
        if usize::from(layer) >= MAX_LAYERS {
            return Err(InterleaveError::Layers(usize::from(layer) + 1));
        }
        self.account.repairs += 1;
        let settled = self.blocks.on_repair(&self.packets, self.longest, repair);
        self.account.redundant += u64::from(matches!(settled, Settled::Redundant));
        self.take(settled, accept);
        Ok(())
    }
}
