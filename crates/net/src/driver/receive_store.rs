//! The bytes of blocks that are being received.

use std::collections::BTreeMap;

use wellspring_transport::scdp::ObjectInfo;

use super::sessions::SessionKey;

/// The part of the bound that may be kept for reuse beside what is held.
const FREE_PART: usize = 8;

/// A block and what has come of it: source symbols in their places, repair symbols beside.
#[derive(Debug, Default)]
pub(super) struct ReceivedBlock {
    /// The block's bytes; the last symbol may be cut short by the object's end.
    pub data: Vec<u8>,
    /// One bit a source symbol: is it in its place?
    pub have: Vec<u64>,
    /// ESIs of the repair symbols, and their bytes one behind the other.
    pub repair_ids: Vec<u32>,
    pub repairs: Vec<u8>,
    /// Source symbols K.
    pub source_symbols: u32,
    /// Symbol size T \[bytes\].
    pub symbol_size: u16,
    /// First byte in the object.
    pub offset: u64,
}

impl ReceivedBlock {
    fn open(&mut self, object: &ObjectInfo, sbn: u32) {
        let (offset, len) = object.byte_range_of_block(sbn);
        self.offset = offset;
        self.source_symbols = object.symbols_in_block(sbn);
        self.symbol_size = object.symbol_size;
        // What an earlier block left here is overwritten before it is handed over: every source
        // symbol is received or decoded first.
        self.data.resize(len as usize, 0);
        self.have.clear();
        self.have.resize(self.source_symbols.div_ceil(64) as usize, 0);
        self.repair_ids.clear();
        self.repairs.clear();
    }

    /// Puts a symbol in its place; `symbol` has the symbol size.
    fn put(&mut self, esi: u32, symbol: &[u8]) {
        debug_assert_eq!(symbol.len(), usize::from(self.symbol_size));
        if esi >= self.source_symbols {
            self.repair_ids.push(esi);
            self.repairs.extend_from_slice(symbol);
            return;
        }
        let start = esi as usize * usize::from(self.symbol_size);
        let end = self.data.len().min(start + usize::from(self.symbol_size));
        self.data[start..end].copy_from_slice(&symbol[..end - start]);
        self.have[esi as usize / 64] |= 1 << (esi % 64);
    }

    /// The source symbols in their places, ascending.
    pub(super) fn sources(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.source_symbols)
            .filter(|esi| self.have[*esi as usize / 64] & (1 << (esi % 64)) != 0)
    }

    /// The repair symbols with their ESIs.
    pub(super) fn repair_symbols(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let symbols = self.repairs.chunks_exact(usize::from(self.symbol_size).max(1));
        self.repair_ids.iter().copied().zip(symbols)
    }

    fn memory(&self) -> usize {
        self.data.capacity() + self.repairs.capacity()
    }
}

/// The open blocks of all sessions, within one bound of memory.
pub(super) struct ReceiveStore {
    slots: Vec<Slot>,
    free_slots: Vec<usize>,
    index: BTreeMap<(SessionKey, u32), usize>,
    /// The block used last: symbols come in runs.
    last: Option<((SessionKey, u32), usize)>,
    /// Blocks for reuse, so that a warm driver does not allocate, and their bytes.
    free: Vec<ReceivedBlock>,
    free_bytes: usize,
    held: usize,
    limit: usize,
}

struct Slot {
    /// `None` while a worker has it.
    block: Option<ReceivedBlock>,
    /// What is counted for it \[bytes\].
    bytes: usize,
}

impl ReceiveStore {
    /// A store that opens no block beyond `limit` bytes of blocks.
    pub(super) fn new(limit: usize) -> Self {
        ReceiveStore {
            slots: Vec::new(),
            free_slots: Vec::new(),
            index: BTreeMap::new(),
            last: None,
            free: Vec::new(),
            free_bytes: 0,
            held: 0,
            limit,
        }
    }

    /// Bytes of open blocks, repair symbols left out.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Bytes of open blocks, at most.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    fn find(&mut self, key: (SessionKey, u32)) -> Option<usize> {
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
    pub(super) fn has_room(&mut self, key: (SessionKey, u32), object: &ObjectInfo) -> bool {
        if self.find(key).is_some() {
            return true;
        }
        let (_, len) = object.byte_range_of_block(key.1);
        self.held as u64 + len <= self.limit as u64
    }

    /// Keeps a symbol, whose length is the object's symbol size. The caller has asked
    /// [`has_room`](Self::has_room).
    pub(super) fn keep(
        &mut self,
        key: (SessionKey, u32),
        object: &ObjectInfo,
        esi: u32,
        symbol: &[u8],
    ) {
        let slot = match self.find(key) {
            Some(slot) => slot,
            None => self.open(key, object),
        };
        // Without its block a worker is at it, and the endpoint drops such symbols itself.
        if let Some(block) = &mut self.slots[slot].block {
            block.put(esi, symbol);
        }
    }

    fn open(&mut self, key: (SessionKey, u32), object: &ObjectInfo) -> usize {
        let mut block = self.free.pop().unwrap_or_default();
        self.free_bytes -= block.memory();
        let (_, len) = object.byte_range_of_block(key.1);
        // A buffer much too large for what it is used for would escape the bound.
        if block.memory() as u64 > 4 * len + 65_536 {
            block = ReceivedBlock::default();
        }
        block.open(object, key.1);
        let bytes = block.data.len();
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
        self.index.insert(key, place);
        self.last = Some((key, place));
        place
    }

    /// Lends a block to a worker; it still counts.
    pub(super) fn lend(&mut self, key: (SessionKey, u32)) -> Option<ReceivedBlock> {
        let slot = self.find(key)?;
        self.slots[slot].block.take()
    }

    /// Takes back a block that wants more symbols.
    pub(super) fn put_back(&mut self, key: (SessionKey, u32), block: ReceivedBlock) {
        match self.find(key) {
            Some(slot) => self.slots[slot].block = Some(block),
            None => self.recycle(block),
        }
    }

    /// Takes back the memory of a block that is done with.
    pub(super) fn recycle(&mut self, block: ReceivedBlock) {
        if self.free_bytes + block.memory() <= self.limit / FREE_PART {
            self.free_bytes += block.memory();
            self.free.push(block);
        }
    }

    /// A block is done with; one that a worker still has is recycled when it comes back.
    pub(super) fn close(&mut self, key: (SessionKey, u32)) {
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
    pub(super) fn close_session(&mut self, session: SessionKey) {
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

    const SESSION: SessionKey = SessionKey(3);

    fn symbol(byte: u8) -> [u8; 10] {
        [byte; 10]
    }

    #[test]
    fn source_symbols_stand_in_place_and_repair_symbols_beside() {
        let object = ObjectInfo::new(45, 10, 3, 0);
        assert_eq!(object.source_blocks, 2);
        let mut store = ReceiveStore::new(1_000);
        for (sbn, esi) in [(0, 2), (1, 1), (0, 0), (1, 77), (0, 1)] {
            assert!(store.has_room((SESSION, sbn), &object));
            store.keep((SESSION, sbn), &object, esi, &symbol(10 * sbn as u8 + esi as u8));
        }
        assert_eq!(store.held(), 45);
        let whole = store.lend((SESSION, 0)).expect("open");
        assert_eq!(whole.data, [[0; 10], [1; 10], [2; 10]].concat());
        assert_eq!(whole.sources().collect::<Vec<_>>(), [0, 1, 2]);
        let part = store.lend((SESSION, 1)).expect("open");
        assert_eq!((part.offset, part.data.len()), (30, 15));
        assert_eq!(part.data[10..], [11; 5], "cut where the object ends");
        assert_eq!(part.repair_symbols().collect::<Vec<_>>(), [(77, &symbol(87)[..])]);
        assert!(store.lend((SESSION, 1)).is_none(), "a worker has it");
        store.put_back((SESSION, 1), part);
        assert!(store.lend((SESSION, 1)).is_some());
    }

    #[test]
    fn blocks_beyond_the_bound_are_not_opened() {
        let object = ObjectInfo::new(100, 10, 3, 0);
        let mut store = ReceiveStore::new(65);
        for sbn in [0, 1] {
            assert!(store.has_room((SESSION, sbn), &object));
            store.keep((SESSION, sbn), &object, 0, &symbol(1));
        }
        assert!(!store.has_room((SESSION, 2), &object));
        assert!(store.has_room((SESSION, 1), &object), "open already");
        store.close((SESSION, 0));
        assert!(store.has_room((SESSION, 2), &object));
        store.close_session(SESSION);
        assert_eq!((store.held(), store.index.len()), (0, 0));
    }

    #[test]
    fn a_block_that_comes_back_after_its_session_is_only_memory() {
        let object = ObjectInfo::new(10, 10, 1, 0);
        let mut store = ReceiveStore::new(100);
        store.keep((SESSION, 0), &object, 0, &symbol(1));
        let block = store.lend((SESSION, 0)).expect("open");
        store.close_session(SESSION);
        assert_eq!(store.held(), 0);
        store.put_back((SESSION, 0), block);
        assert_eq!(store.free.len(), 1);
        store.keep((SessionKey(4), 0), &object, 0, &symbol(2));
        assert_eq!(store.lend((SessionKey(4), 0)).expect("open").data, symbol(2));
    }
}
