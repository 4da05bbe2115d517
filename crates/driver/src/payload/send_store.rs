//! Blocks that are being sent: read ahead by workers, kept while there is room.

mod lent;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod model;
mod spares;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wellspring_codec::lt;
use wellspring_codec::raptorq::BlockEncoder;

use crate::payload::coding::Coding;
use crate::payload::geometry::Geometry;
use crate::payload::key::{BlockKey, SessionKey};
use crate::payload::worker::{Job, Shape};
use crate::store::ObjectSource;
use lent::Lent;
use spares::Spares;

/// What became of a wish for a symbol.
pub(crate) enum Fill {
    /// It has been written.
    Written,
    /// Its block, or the encoder of it, is on its way: keep the frame.
    Waits,
    /// Nothing can be read before something else has been sent: keep the frame.
    NoRoom,
}

/// Bytes of a session's blocks and encoders that workers have to make ready, when this is enough \[bytes\].
const ENOUGH_UNDER_WAY: usize = 2 << 20;

/// A block that is being sent.
struct Entry {
    key: BlockKey,
    shape: Shape,
    /// What is counted for it \[bytes\]: its buffer, and its encoder once one is wanted.
    bytes: usize,
    /// What of this is counted for the encoder, or reserved for it \[bytes\].
    encoder_bytes: usize,
    /// A symbol waits for it, so it is not let go before that has been written: sessions that need
    /// more than there is space for take turns instead of pushing out each other's blocks.
    awaited: bool,
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

/// What an encoder of a block takes \[bytes\], rather more than less: the intermediate symbols, of
/// which there are more than source symbols (RFC 6330 §5.3.3.3), and what computes them.
fn encoder_bytes(shape: Shape) -> usize {
    let (k, size) = (shape.source_symbols as usize, usize::from(shape.symbol_size));
    (k + k / 8 + 64) * (size + 64) + k * 512 + 65_536
}

fn shape_of(of: &SourceOf<'_>, sbn: u32) -> Shape {
    Shape {
        source_symbols: of.geometry.symbols_in_block(sbn),
        symbol_size: of.geometry.symbol_size(),
    }
}

/// The blocks of all send sessions, within one bound of memory: the block used least recently
/// makes room for a new one. The bound is on bytes allocated: of blocks, of encoders, of what workers
/// still have of sessions that are over, and of what is kept for reuse.
pub(crate) struct SendStore {
    entries: Vec<Option<Entry>>,
    free_places: Vec<usize>,
    index: BTreeMap<BlockKey, usize>,
    last: Option<(BlockKey, usize)>,
    held: usize,
    /// Of blocks that were let go while workers had a part of them.
    lent: Lent,
    limit: usize,
    /// Sessions for whose symbols there was no space. The first gets what there is, and nothing is read
    /// ahead meanwhile: what needs much would never find it beside what needs little.
    starving: VecDeque<SessionKey>,
    count: u64,
    spares: Spares,
    /// Jobs for the workers.
    jobs: VecDeque<(BlockKey, Job)>,
}

/// What the store must know of a session.
pub(crate) struct SourceOf<'a> {
    pub key: SessionKey,
    pub geometry: &'a Geometry,
    pub coding: &'a Coding,
    pub source: &'a Arc<dyn ObjectSource>,
}

impl SendStore {
    /// A store of at most `limit` bytes of blocks and encoders (one block is always allowed).
    pub(crate) fn new(limit: usize) -> Self {
        SendStore {
            entries: Vec::new(),
            free_places: Vec::new(),
            index: BTreeMap::new(),
            last: None,
            held: 0,
            lent: Lent::default(),
            limit,
            starving: VecDeque::new(),
            count: 0,
            spares: Spares::default(),
            jobs: VecDeque::new(),
        }
    }

    /// Bytes of blocks and encoders of open sessions.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Bytes allocated, all told.
    pub(crate) fn total(&self) -> usize {
        self.held + self.lent.bytes() + self.spares.bytes()
    }

    /// Makes space for so many bytes more of a session, but not by letting go of the block at `keep`. What is
    /// wanted by the only block there is is always allowed.
    fn reserve_space(&mut self, session: SessionKey, bytes: usize, keep: Option<usize>) -> bool {
        if self.first_starving().is_some_and(|first| first != session) {
            return false;
        }
        while !self.has_space(bytes, keep) {
            if !self.spares.shrink() && !self.evict(keep) && !self.evict_awaited(keep) {
                return false;
            }
        }
        true
    }

    /// The same for what nobody waits for: nothing that is awaited makes space.
    fn reserve_spare(&mut self, bytes: usize) -> bool {
        while !self.has_space(bytes, None) {
            if !self.spares.shrink() && !self.evict(None) {
                return false;
            }
        }
        true
    }

    fn has_space(&self, bytes: usize, keep: Option<usize>) -> bool {
        let own = keep.and_then(|place| self.entries[place].as_ref()).map_or(0, |e| e.bytes);
        self.total() + bytes <= self.limit || self.total() == own
    }

    /// The next job for the workers.
    pub(crate) fn next_job(&mut self) -> Option<(BlockKey, Job)> {
        self.jobs.pop_front()
    }

    /// The session that gets what space there is before the others: its symbols are to be tried again.
    pub(crate) fn first_starving(&self) -> Option<SessionKey> {
        self.starving.front().copied()
    }

    /// A session wants no space any more.
    pub(crate) fn not_starving(&mut self, session: SessionKey) {
        self.starving.retain(|&starving| starving != session);
    }

    /// Writes the symbol that a session sends next into `out`, if there is one, which has the symbol size; or sees to
    /// it that this will be possible.
    pub(crate) fn fill(
        &mut self,
        of: &SourceOf<'_>,
        symbol: (u32, u32),
        out: Option<&mut [u8]>,
    ) -> Fill {
        let fill = self.try_fill(of, symbol, out);
        let starves = matches!(fill, Fill::NoRoom);
        if !self.starving.is_empty() && !starves {
            self.not_starving(of.key);
        } else if starves && !self.starving.contains(&of.key) {
            self.starving.push_back(of.key);
        }
        fill
    }

    /// Sees to a symbol that a session sends after others that wait: its block is read, unless many of the session are
    /// on their way. Sessions share the workers.
    pub(crate) fn expect(&mut self, of: &SourceOf<'_>, symbol: (u32, u32)) {
        if self.index.contains_key(&(of.key, symbol.0)) || !self.is_busy(of.key) {
            self.try_fill(of, symbol, None);
        }
    }

    /// Whether workers have enough to do for a session.
    fn is_busy(&self, session: SessionKey) -> bool {
        let places = self.index.range((session, 0)..=(session, u32::MAX)).map(|(_, &place)| place);
        let entries = places.filter_map(|place| self.entries[place].as_ref());
        let under_way: usize = entries.filter(|e| !e.can_go()).map(|e| e.bytes).sum();
        under_way >= ENOUGH_UNDER_WAY
    }

    fn try_fill(
        &mut self,
        of: &SourceOf<'_>,
        (sbn, esi): (u32, u32),
        out: Option<&mut [u8]>,
    ) -> Fill {
        let key = (of.key, sbn);
        let place = match self.find(key) {
            Some(place) => place,
            None => {
                let shape = shape_of(of, sbn);
                let repair = esi >= shape.source_symbols && matches!(of.coding, Coding::RaptorQ);
                let encoder = if repair { encoder_bytes(shape) } else { 0 };
                let wanted = of.geometry.block(sbn).1 as usize + encoder;
                if !self.reserve_space(of.key, wanted, None) {
                    return Fill::NoRoom;
                }
                self.load(of, sbn, encoder)
            }
        };
        let fill = self.fill_from(place, esi, out);
        self.count += 1;
        let entry = self.entries[place].as_mut().expect("places name blocks");
        entry.used = self.count;
        entry.awaited = matches!(fill, Fill::Waits);
        fill
    }

    /// The same from a block that is here or being read.
    fn fill_from(&mut self, place: usize, esi: u32, out: Option<&mut [u8]>) -> Fill {
        let entry = self.entries[place].as_mut().expect("places name blocks");
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
            Encoder::None => return self.prepare(place),
        }
        Fill::Waits
    }

    /// Has the encoder of a block made ready.
    fn prepare(&mut self, place: usize) -> Fill {
        let entry = self.entries[place].as_ref().expect("places name blocks");
        let (key, shape) = (entry.key, entry.shape);
        let bytes = encoder_bytes(shape);
        let wanted = bytes.saturating_sub(entry.encoder_bytes);
        if wanted > 0 && !self.reserve_space(key.0, wanted, Some(place)) {
            return Fill::NoRoom;
        }
        let encoder = self.spares.take_encoder(bytes);
        let entry = self.entries[place].as_mut().expect("kept");
        let Data::Here(data) = &entry.data else { return Fill::Waits };
        let data = Arc::clone(data);
        entry.encoder = Encoder::Preparing;
        entry.encoder_bytes += wanted;
        entry.bytes += wanted;
        self.held += wanted;
        self.jobs.push_back((key, Job::Prepare { data, shape, encoder }));
        Fill::Waits
    }

    /// Reads blocks ahead as far as there is space without pushing out what is newer than they.
    pub(crate) fn read_ahead(&mut self, of: &SourceOf<'_>, sbn: u32, blocks: u32) {
        if !self.starving.is_empty() {
            return;
        }
        let last = sbn.saturating_add(blocks).min(of.geometry.blocks().saturating_sub(1));
        for ahead in sbn.saturating_add(1)..=last {
            if self.index.contains_key(&(of.key, ahead)) {
                continue;
            }
            if self.is_busy(of.key) || !self.reserve_spare(of.geometry.block(ahead).1 as usize) {
                return;
            }
            self.load(of, ahead, 0);
        }
    }

    /// Lets go of a session's blocks below `floor`, which no receiver wants any more: their memory is
    /// used again while the caches hold it.
    pub(crate) fn release_below(&mut self, session: SessionKey, floor: u32) {
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

    /// Starts to read a block for which there is space, and for its encoder if one is wanted.
    fn load(&mut self, of: &SourceOf<'_>, sbn: u32, encoder_bytes: usize) -> usize {
        let (offset, len) = of.geometry.block(sbn);
        let buffer = self.spares.take_buffer(len as usize);
        let bytes = buffer.capacity() + encoder_bytes;
        let shape = shape_of(of, sbn);
        let encoder = match of.coding {
            Coding::Lt(code) => {
                let encoder = code.encoder(shape.source_symbols, shape.symbol_size);
                Encoder::Lt(Box::new(encoder.expect("the code is made for the geometry")))
            }
            Coding::RaptorQ | Coding::Uncoded => Encoder::None,
        };
        let key = (of.key, sbn);
        self.count += 1;
        let (data, used) = (Data::Loading, self.count);
        let awaited = false;
        let entry = Entry { key, shape, bytes, encoder_bytes, awaited, data, encoder, used };
        self.held += bytes;
        let place = self.free_places.pop().unwrap_or(self.entries.len());
        if place == self.entries.len() {
            self.entries.push(Some(entry));
        } else {
            self.entries[place] = Some(entry);
        }
        self.index.insert(key, place);
        self.jobs.push_back((key, Job::Load { source: Arc::clone(of.source), offset, buffer }));
        place
    }

    /// Lets go of the block used least recently that nothing waits for, other than that at `keep`.
    fn evict(&mut self, keep: Option<usize>) -> bool {
        self.evict_if(keep, |entry| !entry.awaited)
    }

    /// Where all blocks are awaited and no worker will change that, symbols that wait for the network
    /// stand in the way of each other: one of their blocks is read again later.
    fn evict_awaited(&mut self, keep: Option<usize>) -> bool {
        let under_way = self.entries.iter().flatten().any(|entry| !entry.can_go());
        !under_way && self.lent.bytes() == 0 && self.evict_if(keep, |_| true)
    }

    fn evict_if(&mut self, keep: Option<usize>, may_go: impl Fn(&Entry) -> bool) -> bool {
        let idle = self.entries.iter().enumerate().filter_map(|(place, entry)| {
            let entry = entry.as_ref().filter(|e| e.can_go() && may_go(e) && Some(place) != keep);
            entry.map(|e| (e.used, place))
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
        if !entry.can_go() {
            // A worker has a part of it, and brings it back.
            let reading = matches!(entry.data, Data::Loading);
            self.lent.add((entry.key, reading), entry.bytes);
            return;
        }
        if let Data::Here(data) = entry.data
            && let Ok(buffer) = Arc::try_unwrap(data)
        {
            self.recycle(buffer);
        }
        if let Encoder::Here(encoder) = entry.encoder {
            self.recycle_encoder(encoder);
        }
    }

    /// Keeps a buffer for reuse if there is room.
    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spares.may_keep(buffer.capacity(), self.total(), self.limit) {
            self.spares.keep_buffer(buffer);
        }
    }

    /// Keeps an encoder for reuse if there is room.
    fn recycle_encoder(&mut self, encoder: Box<BlockEncoder>) {
        if self.spares.may_keep(encoder.memory(), self.total(), self.limit) {
            self.spares.keep_encoder(encoder);
        }
    }

    /// A block has been read (or could not be, and its session is about to end).
    pub(crate) fn loaded(&mut self, key: BlockKey, buffer: Vec<u8>) {
        let loading = |e: &&mut Entry| matches!(e.data, Data::Loading);
        let place = self.find(key);
        match place.and_then(|place| self.entries[place].as_mut()).filter(loading) {
            Some(entry) => entry.data = Data::Here(Arc::new(buffer)),
            None => {
                self.lent.take_back((key, true));
                self.recycle(buffer);
            }
        }
    }

    /// An encoder is ready.
    pub(crate) fn prepared(&mut self, key: BlockKey, encoder: Box<BlockEncoder>) {
        let preparing = |e: &&mut Entry| matches!(e.encoder, Encoder::Preparing);
        let place = self.find(key);
        match place.and_then(|place| self.entries[place].as_mut()).filter(preparing) {
            Some(entry) => {
                let memory = encoder.memory();
                entry.bytes = entry.bytes - entry.encoder_bytes + memory;
                self.held = self.held - entry.encoder_bytes + memory;
                entry.encoder_bytes = memory;
                entry.encoder = Encoder::Here(encoder);
            }
            None => {
                self.lent.take_back((key, false));
                self.recycle_encoder(encoder);
            }
        }
    }

    /// An encoder could not be made ready; the session is about to end.
    pub(crate) fn not_prepared(&mut self, key: BlockKey) {
        self.lent.take_back((key, false));
        if let Some(entry) = self.find(key).and_then(|place| self.entries[place].as_mut()) {
            entry.encoder = Encoder::None;
            entry.bytes -= entry.encoder_bytes;
            self.held -= std::mem::take(&mut entry.encoder_bytes);
        }
    }

    /// A session is over.
    pub(crate) fn close_session(&mut self, session: SessionKey) {
        self.not_starving(session);
        let range = (session, 0)..=(session, u32::MAX);
        let places: Vec<_> = self.index.range(range).map(|(_, place)| *place).collect();
        for place in places {
            self.drop_entry(place);
        }
        let Self { jobs, lent, .. } = self;
        jobs.retain(|(key, job)| {
            let stays = key.0 != session;
            // What no worker has seen yet is gone with its job.
            if !stays {
                let reading = matches!(job, Job::Load { .. });
                lent.take_back((*key, reading));
            }
            stays
        });
    }
}
