//! Block codes with interleave (Maelstrom §3.2): packet x belongs to the open block x mod i, and r
//! packets make a block of which c repairs are sent.
//!
//! Packets of different lengths become symbols of one: two bytes of length, the packet, zeros. In a
//! [`Repair`] of a block the layer is the repair's number within it, and the XOR is its symbol.

use std::collections::VecDeque;

use super::parameters::MAX_MEMORY;
use super::store::PacketStore;
use super::stream::{Accept, StreamReceiver, StreamSender};
use super::{Account, InterleaveError, MAX_LAYERS, MAX_RATE, PacketName, Parameters, Repair};

/// Bytes of a symbol that hold the packet's length.
const LENGTH: usize = 2;

/// A code of blocks: any symbols as many as the packets, or a few more, give the block. Symbols of a
/// block are of one even length.
pub trait BlockCode {
    /// The repair symbols 0 to `count` of a block.
    fn repairs(&mut self, packets: &[Vec<u8>], count: usize) -> Vec<Vec<u8>>;

    /// The missing packets of a block, in order, from those that are there and numbered repairs; as
    /// many repairs as packets are missing, or more. None if that is not enough, or makes no sense.
    fn restore(
        &mut self,
        packets: &[Option<Vec<u8>>],
        repairs: &[(u8, Vec<u8>)],
    ) -> Option<Vec<Vec<u8>>>;
}

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

/// A block that lacks packets.
#[derive(Debug)]
struct Lacking {
    recipe: Vec<PacketName>,
    symbol_len: usize,
    repairs: Vec<(u8, Vec<u8>)>,
}

/// The receive side of a block code, whatever its rate and interleave. Memory is bounded: a ring of
/// packets, and so many blocks that lack some.
#[derive(Debug)]
pub struct BlockReceiver<C> {
    code: C,
    longest: usize,
    packets: PacketStore,
    /// Newest last.
    blocks: VecDeque<Lacking>,
    most: usize,
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
        let rows = blocks.checked_mul(MAX_LAYERS).and_then(|n| n.checked_add(packets));
        let memory = rows.and_then(|n| n.checked_mul(symbol_limit(longest)));
        if packets == 0 || blocks == 0 || memory.is_none_or(|memory| memory > MAX_MEMORY) {
            return Err(InterleaveError::Memory);
        }
        Ok(BlockReceiver {
            code,
            longest,
            packets: PacketStore::new(packets, longest),
            blocks: VecDeque::new(),
            most: blocks,
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

    /// Brings back what a block lacks, if its repairs suffice. Whether the block is done with.
    fn settle(&mut self, block: &Lacking, accept: Accept<'_>) -> bool {
        let Lacking { recipe, symbol_len, repairs } = block;
        let sources: Vec<Option<Vec<u8>>> = recipe
            .iter()
            .map(|&name| {
                let mut symbol = symbol(self.packets.get(name)?);
                symbol.resize((*symbol_len).max(symbol.len()), 0);
                Some(symbol)
            })
            .collect();
        let missing = sources.iter().filter(|source| source.is_none()).count();
        if missing == 0 {
            return true;
        }
        if missing > repairs.len() {
            return false;
        }
        if sources.iter().flatten().any(|source| source.len() != *symbol_len) {
            self.account.garbled += 1;
            return true;
        }
        let Some(restored) = self.code.restore(&sources, repairs) else { return false };
        let missing = recipe.iter().zip(&sources).filter(|(_, source)| source.is_none());
        let layer = repairs[0].0;
        for ((&name, _), symbol) in missing.zip(&restored) {
            match read(symbol)
                .filter(|packet| packet.len() <= self.longest && accept(name, packet, layer))
            {
                Some(packet) => {
                    self.account.recovered[usize::from(layer)] += 1;
                    self.packets.insert(name, 0, packet);
                }
                None => self.account.garbled += 1,
            }
        }
        true
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
        if let Some(at) = self.blocks.iter().position(|block| block.recipe.contains(&name))
            && let Some(block) = self.blocks.remove(at)
            && !self.settle(&block, accept)
        {
            self.blocks.insert(at, block);
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
        if recipe.iter().all(|&name| self.packets.contains(name)) {
            self.account.redundant += 1;
            return Ok(());
        }
        if xor.len() < LENGTH || !xor.len().is_multiple_of(2) {
            self.account.garbled += 1;
            return Ok(());
        }
        let same = |block: &Lacking| block.recipe == recipe && block.symbol_len == xor.len();
        let known = self.blocks.iter().position(same);
        let mut block = known.and_then(|at| self.blocks.remove(at)).unwrap_or_else(|| Lacking {
            recipe: recipe.to_vec(),
            symbol_len: xor.len(),
            repairs: Vec::new(),
        });
        if block.repairs.iter().all(|(number, _)| *number != layer) {
            block.repairs.push((layer, xor.to_vec()));
        }
        if !self.settle(&block, accept) {
            if self.blocks.len() == self.most {
                self.blocks.pop_front();
                self.account.expired += 1;
            }
            self.blocks.push_back(block);
        }
        Ok(())
    }
}

fn check(longest: usize) -> Result<(), InterleaveError> {
    match longest {
        0 => Err(InterleaveError::Memory),
        got if got > usize::from(u16::MAX) => {
            Err(InterleaveError::TooLong { got, limit: usize::from(u16::MAX) })
        }
        _ => Ok(()),
    }
}

fn symbol_limit(longest: usize) -> usize {
    (LENGTH + longest).next_multiple_of(2)
}

/// A packet as a symbol of even length.
fn symbol(packet: &[u8]) -> Vec<u8> {
    let mut symbol = Vec::with_capacity(symbol_limit(packet.len()));
    symbol.extend_from_slice(&(packet.len() as u16).to_be_bytes());
    symbol.extend_from_slice(packet);
    symbol.resize(symbol_limit(packet.len()), 0);
    symbol
}

/// The packet in a symbol, if there is one.
fn read(symbol: &[u8]) -> Option<&[u8]> {
    let (length, rest) = symbol.split_first_chunk::<LENGTH>()?;
    let (packet, padding) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    padding.iter().all(|&byte| byte == 0).then_some(packet)
}
