//! Send store under any order of wishes, workers and ends of sessions: the fuzz target `send_store`.
//!
//! What is written is what the source has, memory keeps its bound, and when all is over nothing is held.

use std::io;
use std::sync::LazyLock;

use wellspring_codec::raptorq::Code;

use super::*;

/// Bound of the store: a few blocks and encoders \[bytes\].
const LIMIT: usize = 300_000;
/// Symbol sizes and symbols of a block.
const SHAPES: [(u16, u32); 4] = [(64, 10), (256, 40), (1_000, 8), (16, 100)];
const SESSIONS: usize = 6;
/// Steps of an input, at most.
const MAX_STEPS: usize = 400;
/// Jobs that workers have at one time, at most.
const MAX_JOBS: usize = 8;

/// An object: bytes that are computed once for all, from some place on.
struct Pattern(u8);

/// Where patterns begin: as many bytes as the longest object has behind the last of them.
static BYTES: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..40_000u64).map(|at| (at * 31 + at / 251) as u8).collect());

impl Pattern {
    fn bytes(&self, offset: u64, len: usize) -> &'static [u8] {
        &BYTES[usize::from(self.0) + offset as usize..][..len]
    }
}

impl ObjectSource for Pattern {
    fn read_block(&self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        block.copy_from_slice(self.bytes(offset, block.len()));
        Ok(())
    }
}

struct Session {
    key: SessionKey,
    geometry: Geometry,
    coding: Coding,
    pattern: u8,
    source: Arc<dyn ObjectSource>,
}

impl Session {
    fn new(number: u64) -> Self {
        let (symbol_size, k) = SHAPES[number as usize % SHAPES.len()];
        // The last block is shorter, and so is its last symbol.
        let block = u64::from(symbol_size) * u64::from(k);
        let geometry = Geometry::in_order(0, 3 * block + block / 2 - 5, symbol_size, k);
        let coding = if number % 5 == 4 { Coding::Uncoded } else { Coding::RaptorQ };
        let pattern = (number * 57) as u8;
        let source = Arc::new(Pattern(pattern));
        Session { key: SessionKey(number), geometry, coding, pattern, source }
    }

    fn of(&self) -> SourceOf<'_> {
        let Session { key, geometry, coding, source, .. } = self;
        SourceOf { key: *key, geometry, coding, source }
    }

    /// A block, filled up with zeros.
    fn block(&self, sbn: u32) -> Vec<u8> {
        let (offset, len) = self.geometry.block(sbn);
        let mut block = Pattern(self.pattern).bytes(offset, len as usize).to_vec();
        let whole =
            self.geometry.symbols_in_block(sbn) as usize * usize::from(self.geometry.symbol_size());
        block.resize(whole, 0);
        block
    }

    fn check_symbol(&self, (sbn, esi): (u32, u32), symbol: &[u8]) {
        let (block, shape) = (self.block(sbn), shape_of(&self.of(), sbn));
        let size = usize::from(shape.symbol_size);
        if esi < shape.source_symbols {
            assert!(symbol == &block[esi as usize * size..][..size], "source symbol {sbn} {esi}");
        } else {
            let mut expected = vec![0; size];
            made_ready(&block, shape, None).encode(&block, esi, &mut expected).expect("an id");
            assert!(symbol == expected, "repair symbol {sbn} {esi}");
        }
    }
}

/// An encoder that can encode at once.
pub(super) fn made_ready(
    data: &[u8],
    shape: Shape,
    encoder: Option<Box<BlockEncoder>>,
) -> Box<BlockEncoder> {
    let (k, size) = (shape.source_symbols, usize::from(shape.symbol_size));
    let code = Code::new(k).expect("a number of symbols");
    let mut encoder = match encoder {
        Some(mut encoder) => {
            encoder.reset(code, k, size).expect("a shape");
            encoder
        }
        None => Box::new(BlockEncoder::new(code, k, size).expect("a shape")),
    };
    encoder.prepare(data).expect("a block");
    encoder
}

/// What is allocated: by the store, and by jobs that it has given away.
pub(super) fn allocated(store: &SendStore, jobs: &[(BlockKey, Job)]) -> usize {
    let entries = store.entries.iter().flatten().map(|entry| {
        let data = match &entry.data {
            Data::Loading => 0,
            Data::Here(data) => data.capacity(),
        };
        let encoder = match &entry.encoder {
            Encoder::Here(encoder) => encoder.memory(),
            _ => 0,
        };
        data + encoder
    });
    let free = store.spares.allocated();
    let jobs = jobs.iter().chain(&store.jobs).map(|(_, job)| match job {
        Job::Load { buffer, .. } => buffer.capacity(),
        // The data are counted with their entry, if it is still there.
        Job::Prepare { data, encoder, .. } => {
            let held = |e: &Entry| matches!(&e.data, Data::Here(of) if Arc::ptr_eq(of, data));
            let orphan = !store.entries.iter().flatten().any(held);
            let data = if orphan { data.capacity() } else { 0 };
            data + encoder.as_ref().map_or(0, |e| e.memory())
        }
        Job::Finish(_) => 0,
    });
    entries.sum::<usize>() + free + jobs.sum::<usize>()
}

struct Model {
    store: SendStore,
    sessions: Vec<Session>,
    next: u64,
    /// What workers have.
    jobs: Vec<(BlockKey, Job)>,
}

impl Model {
    fn new() -> Self {
        let sessions = (0..SESSIONS as u64).map(Session::new).collect();
        Model { store: SendStore::new(LIMIT), sessions, next: SESSIONS as u64, jobs: Vec::new() }
    }

    fn step(&mut self, [what, which, place, with]: [u8; 4]) {
        let index = usize::from(which) % SESSIONS;
        let session = &self.sessions[index];
        let sbn = u32::from(place) % session.geometry.blocks();
        match what % 8 {
            0..=2 => {
                let k = session.geometry.symbols_in_block(sbn);
                let coded = matches!(session.coding, Coding::RaptorQ);
                let esi = match u32::from(with) {
                    repair if coded && repair.is_multiple_of(3) => k + repair,
                    source => source % k,
                };
                let mut out = vec![0xee; session.geometry.symbol_size().into()];
                let out = (what < 0xe0).then_some(&mut out[..]);
                let is_asked = out.is_some();
                let mut written = out;
                let fill = self.store.fill(&session.of(), (sbn, esi), written.as_deref_mut());
                if let (Fill::Written, Some(symbol)) = (&fill, written) {
                    session.check_symbol((sbn, esi), symbol);
                }
                assert!(is_asked || !matches!(fill, Fill::Written), "written into nothing");
            }
            3 if with >= 0xe0 => self.store.expect(&session.of(), (sbn, with.into())),
            3 => self.store.read_ahead(&session.of(), sbn, (with % 5).into()),
            4 if self.jobs.len() < MAX_JOBS => self.jobs.extend(self.store.next_job()),
            4 | 5 if !self.jobs.is_empty() => {
                let job = self.jobs.swap_remove(usize::from(place) % self.jobs.len());
                self.bring_back(job, with.is_multiple_of(16));
            }
            6 => self.store.release_below(session.key, sbn),
            7 if with.is_multiple_of(4) => self.renew(index),
            _ => {}
        }
    }

    /// Ends a session; another takes its place.
    fn renew(&mut self, index: usize) {
        self.store.close_session(self.sessions[index].key);
        self.sessions[index] = Session::new(self.next);
        self.next += 1;
    }

    /// A worker is done, or has failed, which ends the session.
    fn bring_back(&mut self, (key, job): (BlockKey, Job), fails: bool) {
        match job {
            Job::Load { source, offset, mut buffer } => {
                source.read_block(offset, &mut buffer).expect("a pattern");
                self.store.loaded(key, buffer);
            }
            Job::Prepare { .. } if fails => self.store.not_prepared(key),
            Job::Prepare { data, shape, encoder } => {
                let encoder = made_ready(&data, shape, encoder);
                drop(data);
                self.store.prepared(key, encoder);
            }
            Job::Finish(_) => {}
        }
        let of = self.sessions.iter().position(|session| session.key == key.0);
        if let Some(index) = of.filter(|_| fails) {
            self.renew(index);
        }
    }

    fn check(&self) {
        let (counted, allocated) = (self.store.total(), allocated(&self.store, &self.jobs));
        assert!(counted <= LIMIT, "{counted} counted of {LIMIT}");
        assert!(allocated <= LIMIT, "{allocated} allocated of {LIMIT}, {counted} counted");
    }

    /// All sessions end, and workers bring back what they have.
    fn end(mut self) {
        for session in &self.sessions {
            self.store.close_session(session.key);
        }
        assert!(self.store.next_job().is_none(), "a job of no session");
        for job in std::mem::take(&mut self.jobs) {
            self.bring_back(job, false);
        }
        let SendStore { held, lent, spares, .. } = &self.store;
        assert!(*held == 0 && lent.is_empty(), "{held} held, {lent:?} lent");
        assert!(spares.bytes() <= LIMIT / spares::FREE_PART, "{} kept", spares.bytes());
    }
}

/// Each four bytes of an input say what happens next.
pub fn run(input: &[u8]) {
    let mut model = Model::new();
    for step in input.chunks_exact(4).take(MAX_STEPS) {
        model.step([step[0], step[1], step[2], step[3]]);
        model.check();
    }
    model.end();
}
