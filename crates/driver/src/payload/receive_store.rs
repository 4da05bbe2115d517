//! The bytes of blocks that are being received.

use std::collections::BTreeMap;
use std::io;

use wellspring_codec::lt::{self, Added};

use crate::payload::coding::Coding;
use crate::payload::geometry::Geometry;
use crate::payload::key::{BlockKey, SessionKey};

/// The part of the bound that may be kept for reuse beside what is held.
const FREE_PART: usize = 8;

/// A block and what has come of it. Which source symbols are in their places is the endpoint's to
/// know.
#[derive(Debug, Default)]
pub(crate) struct ReceivedBlock {
    /// The block's bytes, source symbols in their places; the last may be cut short by the object's
    /// end.
    pub data: Vec<u8>,
    /// ESIs of the repair symbols, and their bytes one behind the other.
    pub repair_ids: Vec<u32>,
    pub repairs: Vec<u8>,
    /// From whom each source symbol came, by its index among the session's peers, and as the how
    /// manieth symbol of the block.
    pub sources: Vec<(u8, u32)>,
    /// The same of each repair symbol.
    pub repair_senders: Vec<(u8, u32)>,
    /// Its source symbols are all in their places, decoded or received.
    pub decoded: bool,
    /// How often its bytes turned out to be wrong.
    pub attempts: u8,
    /// Symbols that were there when they turned out to be wrong first.
    pub first_symbols: u32,
    /// The decoder of an LT code, which keeps the symbols itself.
    pub lt: Option<Box<lt::Decoder>>,
    /// Source symbols K.
    pub source_symbols: u32,
    /// Symbol size T \[bytes\].
    pub symbol_size: u16,
    /// First byte in the object.
    pub offset: u64,
    /// Source symbols that are to come, of a block without a code.
    left: u32,
    /// Symbols put.
    put: u32,
}

impl ReceivedBlock {
    /// A block of `k` symbols without any.
    #[cfg(test)]
    pub(crate) fn empty(k: u32, symbol_size: u16, len: usize) -> Self {
        ReceivedBlock {
            data: vec![0; len],
            sources: vec![(0, 0); k as usize],
            source_symbols: k,
            symbol_size,
            ..ReceivedBlock::default()
        }
    }

    fn open(&mut self, of: &BlockOf<'_>) -> io::Result<()> {
        let (offset, len) = of.geometry.block(of.sbn);
        self.offset = offset;
        self.source_symbols = of.geometry.symbols_in_block(of.sbn);
        self.symbol_size = of.geometry.symbol_size();
        self.left = self.source_symbols;
        // What an earlier block left here is overwritten before it is handed over: every source
        // symbol is received or decoded first.
        self.data.resize(len as usize, 0);
        self.repair_ids.clear();
        self.repairs.clear();
        self.sources.clear();
        self.sources.resize(self.source_symbols as usize, (0, 0));
        self.repair_senders.clear();
        self.decoded = false;
        self.attempts = 0;
        self.put = 0;
        match of.coding {
            Coding::Lt(code) => {
                code.begin(&mut self.lt, self.source_symbols, self.symbol_size)
                    .map_err(io::Error::other)?;
            }
            Coding::RaptorQ | Coding::Uncoded => self.lt = None,
        }
        Ok(())
    }

    /// Puts a source symbol in its place, a repair symbol behind the others.
    pub(crate) fn put(&mut self, esi: u32, symbol: &[u8], sender: u8) {
        let order = self.put;
        self.put += 1;
        if esi >= self.source_symbols {
            debug_assert_eq!(symbol.len(), usize::from(self.symbol_size));
            self.repair_ids.push(esi);
            self.repair_senders.push((sender, order));
            self.repairs.extend_from_slice(symbol);
            return;
        }
        self.sources[esi as usize] = (sender, order);
        let start = esi as usize * usize::from(self.symbol_size);
        let end = self.data.len().min(start + symbol.len());
        self.data[start..end].copy_from_slice(&symbol[..end - start]);
        self.left = self.left.saturating_sub(1);
    }

    fn memory(&self) -> usize {
        let lt = self.lt.as_ref().map_or(0, |decoder| decoder.memory());
        let senders = self.sources.capacity() + self.repair_senders.capacity();
        self.data.capacity() + self.repairs.capacity() + 8 * senders + lt
    }
}

/// A block by its place in a session.
pub(crate) struct BlockOf<'a> {
    pub session: SessionKey,
    pub sbn: u32,
    pub geometry: &'a Geometry,
    pub coding: &'a Coding,
}

impl BlockOf<'_> {
    fn key(&self) -> BlockKey {
        (self.session, self.sbn)
    }

    fn reserved(&self) -> u64 {
        self.coding.reserved(self.geometry.block(self.sbn).1)
    }
}

/// What a symbol makes of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// Nothing that the store can tell.
    Open,
    /// A block without a code is whole.
    Whole,
    /// There is no room for what is still needed: no honest sender's symbols come to that.
    Exhausted,
}

/// The open blocks of all sessions, within one bound of memory.
pub(crate) struct ReceiveStore {
    slots: Vec<Slot>,
    free_slots: Vec<usize>,
    index: BTreeMap<BlockKey, usize>,
    /// The block used last: symbols come in runs.
    last: Option<(BlockKey, usize)>,
    /// Blocks for reuse, so that a warm driver does not allocate, and their bytes.
    free: Vec<ReceivedBlock>,
    free_bytes: usize,
    held: usize,
    limit: usize,
    /// Neighbours of the LT symbol at hand.
    neighbours: Vec<u32>,
}

struct Slot {
    /// `None` while a worker has it.
    block: Option<ReceivedBlock>,
    /// What is counted for it \[bytes\].
    bytes: usize,
}

impl ReceiveStore {
    /// A store that opens no block beyond `limit` bytes of blocks.
    pub(crate) fn new(limit: usize) -> Self {
        ReceiveStore {
            slots: Vec::new(),
            free_slots: Vec::new(),
            index: BTreeMap::new(),
            last: None,
            free: Vec::new(),
            free_bytes: 0,
            held: 0,
            limit,
            neighbours: Vec::new(),
        }
    }

    /// Bytes of open blocks, repair symbols left out.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Bytes of open blocks, at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    fn find(&mut self, key: BlockKey) -> Option<usize> {
        if let Some((last, slot)) = self.last
            && last == key
        {
            return Some(slot);
        }
        let slot = *self.index.get(&key)?;
        self.last = Some((key, slot));
        Some(slot)
    }

    /// Whether a symbol of that block could be kept: it is open, or there is room to open it.
    pub(crate) fn has_room(&mut self, of: &BlockOf<'_>) -> bool {
        self.find(of.key()).is_some() || self.held as u64 + of.reserved() <= self.limit as u64
    }

    /// Keeps a symbol of the session's peer with the index `sender`. The caller has asked [`has_room`](Self::has_room), and checked the length.
    ///
    /// # Errors
    /// The block's code is not possible.
    pub(crate) fn keep(
        &mut self,
        of: &BlockOf<'_>,
        sender: u8,
        esi: u32,
        symbol: &[u8],
    ) -> io::Result<Kept> {
        let slot = match self.find(of.key()) {
            Some(slot) => slot,
            None => self.open(of)?,
        };
        // Without its block a worker is at it, and the endpoint drops such symbols itself.
        let Some(block) = &mut self.slots[slot].block else { return Ok(Kept::Open) };
        if let (Coding::Lt(code), Some(decoder)) = (of.coding, &mut block.lt) {
            code.neighbours(block.source_symbols, esi, &mut self.neighbours);
            let added = decoder.add(&self.neighbours, symbol).map_err(io::Error::other)?;
            let full = added == Added::Full && !decoder.is_complete();
            return Ok(if full { Kept::Exhausted } else { Kept::Open });
        }
        block.put(esi, symbol, sender);
        let whole = matches!(of.coding, Coding::Uncoded) && block.left == 0;
        Ok(if whole { Kept::Whole } else { Kept::Open })
    }

    /// Whether a block's symbols determine it, where the store can tell.
    pub(crate) fn is_determined(&mut self, key: BlockKey) -> Option<bool> {
        let slot = self.find(key)?;
        let decoder = self.slots[slot].block.as_ref()?.lt.as_ref()?;
        Some(decoder.is_complete())
    }

    fn open(&mut self, of: &BlockOf<'_>) -> io::Result<usize> {
        let mut block = self.reuse(of);
        block.open(of)?;
        let bytes = of.reserved() as usize;
        self.held += bytes;
        let slot = Slot { block: Some(block), bytes };
        let place = match self.free_slots.pop() {
            Some(place) => {
                self.slots[place] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.index.insert(of.key(), place);
        self.last = Some((of.key(), place));
        Ok(place)
    }

    /// A block's memory, from one that was done with if there is any of the kind.
    fn reuse(&mut self, of: &BlockOf<'_>) -> ReceivedBlock {
        let lt = matches!(of.coding, Coding::Lt(_));
        let Some(place) = self.free.iter().rposition(|block| block.lt.is_some() == lt) else {
            return ReceivedBlock::default();
        };
        let block = self.free.swap_remove(place);
        self.free_bytes -= block.memory();
        // A buffer much too large for what it is used for would escape the bound.
        if block.memory() as u64 > 4 * of.reserved() + 65_536 {
            return ReceivedBlock::default();
        }
        block
    }

    /// Lends a block to a worker; it still counts.
    pub(crate) fn lend(&mut self, key: BlockKey) -> Option<ReceivedBlock> {
        let slot = self.find(key)?;
        self.slots[slot].block.take()
    }

    /// Takes back a block that wants more symbols.
    pub(crate) fn put_back(&mut self, key: BlockKey, block: ReceivedBlock) {
        match self.find(key) {
            Some(slot) => self.slots[slot].block = Some(block),
            None => self.recycle(block),
        }
    }

    /// Takes back the memory of a block that is done with.
    pub(crate) fn recycle(&mut self, block: ReceivedBlock) {
        if self.free_bytes + block.memory() <= self.limit / FREE_PART {
            self.free_bytes += block.memory();
            self.free.push(block);
        }
    }

    /// A block is done with; one that a worker still has is recycled when it comes back.
    pub(crate) fn close(&mut self, key: BlockKey) {
        if let Some(place) = self.index.remove(&key) {
            self.close_slot(place);
        }
    }

    fn close_slot(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        self.held -= slot.bytes;
        slot.bytes = 0;
        let block = slot.block.take();
        self.free_slots.push(place);
        self.last = None;
        if let Some(block) = block {
            self.recycle(block);
        }
    }

    /// A session is over.
    pub(crate) fn close_session(&mut self, session: SessionKey) {
        let range = (session, 0)..=(session, u32::MAX);
        let keys: Vec<_> = self.index.range(range).map(|(key, _)| *key).collect();
        for key in keys {
            self.close(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use wellspring_codec::lt::{Encoder, Method};

    use crate::payload::coding::LtCoding;

    const SESSION: SessionKey = SessionKey(3);

    fn of(geometry: &Geometry, sbn: u32) -> BlockOf<'_> {
        BlockOf { session: SESSION, sbn, geometry, coding: &Coding::RaptorQ }
    }

    fn symbol(byte: u8) -> [u8; 10] {
        [byte; 10]
    }

    #[test]
    fn source_symbols_stand_in_place_and_repair_symbols_beside() {
        let object = Geometry::in_order(0, 45, 10, 3);
        assert_eq!(object.blocks(), 2);
        let mut store = ReceiveStore::new(1_000);
        for (sbn, esi) in [(0, 2), (1, 1), (0, 0), (1, 77), (0, 1)] {
            assert!(store.has_room(&of(&object, sbn)));
            let symbol = symbol(10 * sbn as u8 + esi as u8);
            assert_eq!(
                store.keep(&of(&object, sbn), 0, esi, &symbol).expect("possible"),
                Kept::Open
            );
        }
        assert_eq!(store.held(), 45);
        let whole = store.lend((SESSION, 0)).expect("open");
        assert_eq!(whole.data, [[0; 10], [1; 10], [2; 10]].concat());
        let part = store.lend((SESSION, 1)).expect("open");
        assert_eq!((part.offset, part.data.len()), (30, 15));
        assert_eq!(part.data[10..], [11; 5], "cut where the object ends");
        assert_eq!((&part.repair_ids[..], &part.repairs[..]), (&[77][..], &symbol(87)[..]));
        assert!(store.lend((SESSION, 1)).is_none(), "a worker has it");
        store.put_back((SESSION, 1), part);
        assert!(store.lend((SESSION, 1)).is_some());
    }

    #[test]
    fn blocks_beyond_the_bound_are_not_opened() {
        let object = Geometry::in_order(0, 100, 10, 3);
        let mut store = ReceiveStore::new(65);
        for sbn in [0, 1] {
            assert!(store.has_room(&of(&object, sbn)));
            store.keep(&of(&object, sbn), 0, 0, &symbol(1)).expect("possible");
        }
        assert!(!store.has_room(&of(&object, 2)));
        assert!(store.has_room(&of(&object, 1)), "open already");
        store.close((SESSION, 0));
        assert!(store.has_room(&of(&object, 2)));
        store.close_session(SESSION);
        assert_eq!((store.held(), store.index.len()), (0, 0));
    }

    #[test]
    fn a_block_that_comes_back_after_its_session_is_only_memory() {
        let object = Geometry::in_order(0, 10, 10, 1);
        let mut store = ReceiveStore::new(1_000);
        store.keep(&of(&object, 0), 0, 0, &symbol(1)).expect("possible");
        let block = store.lend((SESSION, 0)).expect("open");
        store.close_session(SESSION);
        assert_eq!(store.held(), 0);
        store.put_back((SESSION, 0), block);
        assert_eq!(store.free.len(), 1);
        let other = BlockOf { session: SessionKey(4), ..of(&object, 0) };
        store.keep(&other, 0, 0, &symbol(2)).expect("possible");
        assert_eq!(store.lend((SessionKey(4), 0)).expect("open").data, symbol(2));
    }

    #[test]
    fn a_block_without_a_code_is_whole_when_all_its_symbols_are_there() {
        let object = Geometry::in_order(0, 25, 10, 3);
        let block = BlockOf { coding: &Coding::Uncoded, ..of(&object, 0) };
        let mut store = ReceiveStore::new(1_000);
        let kept = [2, 0, 1].map(|esi| {
            let len = object.source_len(0, esi);
            store.keep(&block, 0, esi, &[esi as u8; 10][..len]).expect("possible")
        });
        assert_eq!(kept, [Kept::Open, Kept::Open, Kept::Whole]);
        let whole = store.lend((SESSION, 0)).expect("open");
        assert_eq!(whole.data, [&[0; 10][..], &[1; 10], &[2; 5]].concat());
    }

    #[test]
    fn a_block_of_an_lt_code_is_determined_by_its_symbols() {
        let object = Geometry::in_order(0, 160, 10, 16);
        let code = LtCoding::new(&object, (0.2, 0.7), 7, Method::Elimination, 8);
        let coding = Coding::Lt(Arc::new(code.expect("possible")));
        let Coding::Lt(code) = &coding else { unreachable!("just made") };
        let block = BlockOf { coding: &coding, ..of(&object, 0) };
        let source: Vec<u8> = (0..160).collect();
        let mut encoder: Encoder = code.encoder(16, 10).expect("possible");
        let mut store = ReceiveStore::new(1_000);
        let mut symbol = [0; 10];
        let mut sent = 0;
        while store.is_determined((SESSION, 0)) != Some(true) {
            encoder.encode(&source, sent, &mut symbol).expect("possible");
            assert_eq!(store.keep(&block, 0, sent, &symbol).expect("possible"), Kept::Open);
            sent += 1;
        }
        assert!(sent >= 16);
        assert_eq!(store.held(), 480, "its decoder counts, too");
        let mut whole = store.lend((SESSION, 0)).expect("open");
        let mut decoder = whole.lt.take().expect("an LT code's");
        decoder.try_decode(&mut whole.data).expect("possible");
        assert_eq!(whole.data, source);
    }
}
