//! Blocks that are being sent: read ahead by workers, kept while there is room.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wellspring_codec::lt;
use wellspring_codec::raptorq::BlockEncoder;

use super::coding::Coding;
use super::geometry::Geometry;
use super::sessions::SessionKey;
use super::worker::{BlockKey, Job, Shape};
use crate::payload::ObjectSource;

/// Buffers and encoders kept for reuse, at most.
const MAX_FREE: usize = 32;

/// What became of a wish for a symbol.
pub(super) enum Fill {
    /// It has been written.
    Written,
    /// Its block, or the encoder of it, is on its way: keep the frame.
    Waits,
    /// Nothing can be read before something else has been sent: keep the frame.
    NoRoom,
}

/// A block that is being sent.
struct Entry {
    key: BlockKey,
    shape: Shape,
    /// What is counted for it \[bytes\].
    bytes: usize,
    data: Data,
    encoder: Encoder,
    /// When it was used last, on the store's own count.
    used: u64,
}

enum Data {
    Loading,
    Here(Arc<Vec<u8>>),
}

enum Encoder {
    None,
    Preparing,
    Here(Box<BlockEncoder>),
    Lt(Box<lt::Encoder>),
}

impl Entry {
    fn can_go(&self) -> bool {
        matches!(self.data, Data::Here(_)) && !matches!(self.encoder, Encoder::Preparing)
    }
}

/// The blocks of all send sessions, within one bound of memory: the block used least recently
/// makes room for a new one.
pub(super) struct SendStore {
    entries: Vec<Option<Entry>>,
    free_places: Vec<usize>,
    index: BTreeMap<BlockKey, usize>,
    last: Option<(BlockKey, usize)>,
    held: usize,
    limit: usize,
    count: u64,
    free_buffers: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "boxes move between blocks, jobs and this list")]
    free_encoders: Vec<Box<BlockEncoder>>,
    /// Jobs for the workers.
    jobs: VecDeque<(BlockKey, Job)>,
}

/// What the store must know of a session.
pub(super) struct SourceOf<'a> {
    pub key: SessionKey,
    pub geometry: &'a Geometry,
    pub coding: &'a Coding,
    pub source: &'a Arc<dyn ObjectSource>,
}

impl SendStore {
    /// A store of at most `limit` bytes of blocks and encoders (one block is always allowed).
    pub(super) fn new(limit: usize) -> Self {
        SendStore {
            entries: Vec::new(),
            free_places: Vec::new(),
            index: BTreeMap::new(),
            last: None,
            held: 0,
            limit,
            count: 0,
            free_buffers: Vec::new(),
            free_encoders: Vec::new(),
            jobs: VecDeque::new(),
        }
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// The next job for the workers.
    pub(super) fn next_job(&mut self) -> Option<(BlockKey, Job)> {
        self.jobs.pop_front()
    }

    /// Writes a symbol into `out`, if there is one, which has the symbol size; or sees to it that
    /// this will be possible.
    pub(super) fn fill(
        &mut self,
        of: &SourceOf<'_>,
        (sbn, esi): (u32, u32),
        out: Option<&mut [u8]>,
    ) -> Fill {
        let key = (of.key, sbn);
        let place = match self.find(key) {
            Some(place) => place,
            None => match self.load(of, sbn) {
                Some(place) => place,
                None => return Fill::NoRoom,
            },
        };
        self.count += 1;
        let entry = self.entries[place].as_mut().expect("places name blocks");
        entry.used = self.count;
        let Data::Here(data) = &entry.data else { return Fill::Waits };
        if !matches!(entry.encoder, Encoder::Lt(_)) && esi < entry.shape.source_symbols {
            let Some(out) = out else { return Fill::Waits };
            let size = usize::from(entry.shape.symbol_size);
            let start = esi as usize * size;
            let symbol = &data[start..data.len().min(start + size)];
            // Without padding the datagram may be as short as the object's end.
            let len = symbol.len().min(out.len());
            out[..len].copy_from_slice(&symbol[..len]);
            out[len..].fill(0);
            return Fill::Written;
        }
        match &mut entry.encoder {
            Encoder::Here(encoder) => {
                let Some(out) = out else { return Fill::Waits };
                let fits = "the block's own shape and an id below 2^24";
                encoder.encode(data, esi, out).expect(fits);
                return Fill::Written;
            }
            Encoder::Lt(encoder) => {
                let Some(out) = out else { return Fill::Waits };
                encoder.encode(data, esi, out).expect("the block's own shape");
                return Fill::Written;
            }
            Encoder::Preparing => {}
            Encoder::None => {
                let (data, shape) = (Arc::clone(data), entry.shape);
                let encoder = self.free_encoders.pop();
                entry.encoder = Encoder::Preparing;
                self.jobs.push_back((key, Job::Prepare { data, shape, encoder }));
            }
        }
        Fill::Waits
    }

    /// Reads blocks ahead as far as there is room without pushing out what is newer than they.
    pub(super) fn read_ahead(&mut self, of: &SourceOf<'_>, sbn: u32, blocks: u32) {
        let last = sbn.saturating_add(blocks).min(of.geometry.blocks().saturating_sub(1));
        for ahead in sbn.saturating_add(1)..=last {
            if !self.index.contains_key(&(of.key, ahead)) && self.load(of, ahead).is_none() {
                return;
            }
        }
    }

    /// Lets go of a session's blocks below `floor`, which no receiver wants any more: their memory is
    /// used again while the caches hold it.
    pub(super) fn release_below(&mut self, session: SessionKey, floor: u32) {
        while let Some((_, &place)) = self.index.range((session, 0)..(session, floor)).next() {
            self.drop_entry(place);
        }
    }

    fn find(&mut self, key: BlockKey) -> Option<usize> {
        if let Some((last, place)) = self.last
            && last == key
        {
            return Some(place);
        }
        let place = *self.index.get(&key)?;
        self.last = Some((key, place));
        Some(place)
    }

    /// Starts to read a block; `None` if there is no room.
    fn load(&mut self, of: &SourceOf<'_>, sbn: u32) -> Option<usize> {
        let (offset, len) = of.geometry.block(sbn);
        let len = len as usize;
        while self.held > 0 && self.held + len > self.limit {
            if !self.evict() {
                return None;
            }
        }
        let mut buffer = self.free_buffers.pop().unwrap_or_default();
        buffer.resize(len, 0);
        let shape = Shape {
            source_symbols: of.geometry.symbols_in_block(sbn),
            symbol_size: of.geometry.symbol_size(),
        };
        let encoder = match of.coding {
            Coding::Lt(code) => {
                let encoder = code.encoder(shape.source_symbols, shape.symbol_size);
                Encoder::Lt(Box::new(encoder.expect("the code is made for the geometry")))
            }
            Coding::RaptorQ | Coding::Uncoded => Encoder::None,
        };
        let key = (of.key, sbn);
        self.count += 1;
        let entry =
            Entry { key, shape, bytes: len, data: Data::Loading, encoder, used: self.count };
        self.held += len;
        let place = self.free_places.pop().unwrap_or(self.entries.len());
        if place == self.entries.len() {
            self.entries.push(Some(entry));
        } else {
            self.entries[place] = Some(entry);
        }
        self.index.insert(key, place);
        self.jobs.push_back((key, Job::Load { source: Arc::clone(of.source), offset, buffer }));
        Some(place)
    }

    /// Lets go of the block used least recently that nothing waits for.
    fn evict(&mut self) -> bool {
        let idle = self.entries.iter().enumerate().filter_map(|(place, entry)| {
            entry.as_ref().filter(|e| e.can_go()).map(|e| (e.used, place))
        });
        let Some((_, place)) = idle.min() else { return false };
        self.drop_entry(place);
        true
    }

    fn drop_entry(&mut self, place: usize) {
        let Some(entry) = self.entries[place].take() else { return };
        self.free_places.push(place);
        self.index.remove(&entry.key);
        self.last = None;
        self.held -= entry.bytes;
        if let Data::Here(data) = entry.data
            && let Ok(buffer) = Arc::try_unwrap(data)
        {
            self.recycle(buffer);
        }
        if let Encoder::Here(encoder) = entry.encoder
            && self.free_encoders.len() < MAX_FREE
        {
            self.free_encoders.push(encoder);
        }
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.free_buffers.len() < MAX_FREE {
            self.free_buffers.push(buffer);
        }
    }

    /// A block has been read (or could not be, and its session is about to end).
    pub(super) fn loaded(&mut self, key: BlockKey, buffer: Vec<u8>) {
        let Some(place) = self.find(key) else {
            self.recycle(buffer);
            return;
        };
        let entry = self.entries[place].as_mut().expect("places name blocks");
        entry.data = Data::Here(Arc::new(buffer));
    }

    /// An encoder is ready.
    pub(super) fn prepared(&mut self, key: BlockKey, encoder: Box<BlockEncoder>) {
        let Some(place) = self.find(key) else {
            if self.free_encoders.len() < MAX_FREE {
                self.free_encoders.push(encoder);
            }
            return;
        };
        let entry = self.entries[place].as_mut().expect("places name blocks");
        let memory = encoder.memory();
        entry.bytes += memory;
        self.held += memory;
        entry.encoder = Encoder::Here(encoder);
    }

    /// A session is over.
    pub(super) fn close_session(&mut self, session: SessionKey) {
        let range = (session, 0)..=(session, u32::MAX);
        let places: Vec<_> = self.index.range(range).map(|(_, place)| *place).collect();
        for place in places {
            self.drop_entry(place);
        }
        self.jobs.retain(|((of, _), _)| *of != session);
    }
}
