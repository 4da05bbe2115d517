//! Blocks that lack packets, and their repairs, at a receiver of a block code.

use std::collections::VecDeque;

use super::block_code::{BlockCode, LENGTH, read, symbol, symbol_limit};
use super::store::PacketStore;
use super::{MAX_LAYERS, PacketName, Repair};

/// A block that lacks packets.
#[derive(Debug)]
struct Lacking {
    recipe: Vec<PacketName>,
    symbol_len: usize,
    repairs: Vec<(u8, Vec<u8>)>,
}

/// What has come back of a block.
#[derive(Debug)]
pub(super) struct Restored {
    /// The number of the block's repair that came first.
    pub layer: u8,
    /// None: what came out is no packet.
    pub packets: Vec<(PacketName, Option<Vec<u8>>)>,
}

/// What a repair or a packet has come to.
#[derive(Debug)]
pub(super) enum Settled {
    /// Nothing was missing.
    Redundant,
    /// It makes no sense.
    Garbled,
    /// More is missing than there are repairs; `expired` says that another block was forgotten for it.
    Waits { expired: bool },
    /// Packets came back.
    Restored(Restored),
}

/// So many blocks that lack packets, at most: the oldest makes place for the next.
#[derive(Debug)]
pub(super) struct LackingBlocks<C> {
    code: C,
    /// Newest last.
    blocks: VecDeque<Lacking>,
    most: usize,
}

impl<C: BlockCode> LackingBlocks<C> {
    /// Memory of so many blocks of packets of at most `longest` bytes, if it can be counted \[bytes\].
    pub(super) fn memory(most: usize, longest: usize) -> Option<usize> {
        most.checked_mul(MAX_LAYERS)?.checked_mul(symbol_limit(longest))
    }

    pub(super) fn new(code: C, most: usize) -> Self {
        LackingBlocks { code, blocks: VecDeque::new(), most }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// A packet is in the store now that a block may have lacked: what becomes of the first of its blocks that no longer
    /// waits, which is gone by that. None if there is no such block.
    pub(super) fn on_packet(
        &mut self,
        store: &PacketStore,
        longest: usize,
        name: PacketName,
    ) -> Option<Settled> {
        for at in 0..self.blocks.len() {
            if !self.blocks[at].recipe.contains(&name) {
                continue;
            }
            let block = self.blocks.remove(at)?;
            match self.settle(store, longest, &block) {
                Settled::Waits { .. } => self.blocks.insert(at, block),
                settled => return Some(settled),
            }
        }
        None
    }

    /// Takes in a repair, whose length and recipe are within their limits.
    pub(super) fn on_repair(
        &mut self,
        store: &PacketStore,
        longest: usize,
        repair: &Repair<'_>,
    ) -> Settled {
        let Repair { layer, recipe, xor, .. } = *repair;
        if recipe.iter().all(|&name| store.contains(name)) {
            return Settled::Redundant;
        }
        let sound = usize::from(layer) < MAX_LAYERS && xor.len() >= LENGTH;
        if !sound || !xor.len().is_multiple_of(2) {
            return Settled::Garbled;
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
        match self.settle(store, longest, &block) {
            Settled::Waits { .. } => {
                let expired = self.blocks.len() == self.most;
                if expired {
                    self.blocks.pop_front();
                }
                self.blocks.push_back(block);
                Settled::Waits { expired }
            }
            settled => settled,
        }
    }

    /// What a block's repairs bring back.
    fn settle(&mut self, store: &PacketStore, longest: usize, block: &Lacking) -> Settled {
        let Lacking { recipe, symbol_len, repairs } = block;
        let missing = recipe.iter().filter(|&&name| !store.contains(name)).count();
        if missing == 0 {
            return Settled::Redundant;
        }
        if missing > repairs.len() {
            return Settled::Waits { expired: false };
        }
        let sources: Vec<Option<Vec<u8>>> = recipe
            .iter()
            .map(|&name| {
                let mut symbol = symbol(store.get(name)?);
                symbol.resize((*symbol_len).max(symbol.len()), 0);
                Some(symbol)
            })
            .collect();
        if sources.iter().flatten().any(|source| source.len() != *symbol_len) {
            return Settled::Garbled;
        }
        let Some(restored) = self.code.restore(&sources, repairs) else {
            return Settled::Waits { expired: false };
        };
        let missing = recipe.iter().zip(&sources).filter(|(_, source)| source.is_none());
        let packets = missing.zip(&restored).map(|((&name, _), symbol)| {
            let packet = read(symbol).filter(|packet| packet.len() <= longest);
            (name, packet.map(<[u8]>::to_vec))
        });
        Settled::Restored(Restored { layer: repairs[0].0, packets: packets.collect() })
    }
}
