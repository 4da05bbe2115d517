//! Threads that read, encode, decode and write blocks, so that the loop never waits for them.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded};

use super::receive_store::ReceivedBlock;
use super::sessions::SessionKey;
use super::wait::LoopWaker;
use crate::payload::{ObjectSink, ObjectSource};

/// Codes kept, one a number of symbols: a session uses two at most.
const MAX_CODES: usize = 32;

/// What a worker is asked to do. Jobs waiting are bounded by the blocks held in the stores: each
/// block has one job at a time.
pub(super) enum Job {
    /// Decode a block if need be, and hand it to its sink.
    Finish { block: ReceivedBlock, decode: bool, sink: Arc<dyn ObjectSink> },
    /// Read a block.
    Load { source: Arc<dyn ObjectSource>, offset: u64, buffer: Vec<u8> },
    /// Make ready to encode repair symbols of a block.
    Prepare { data: Arc<Vec<u8>>, shape: Shape, encoder: Option<Box<BlockEncoder>> },
}

/// The shape of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Source symbols K.
    pub source_symbols: u32,
    /// Symbol size T \[bytes\].
    pub symbol_size: u16,
}

/// What became of a job.
pub(super) enum Done {
    Finished { block: ReceivedBlock, outcome: io::Result<Decoded> },
    Loaded { buffer: Vec<u8>, outcome: io::Result<()> },
    Prepared { encoder: io::Result<Box<BlockEncoder>> },
}

/// A block of a session.
pub(super) type BlockKey = (SessionKey, u32);

/// The pool.
pub(super) struct Workers {
    jobs: Option<crossbeam_channel::Sender<(BlockKey, Job)>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads (at least one). What they have done goes to `done`, and the waker
    /// is told.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub(super) fn start(
        count: usize,
        done: &Sender<(BlockKey, Done)>,
        waker: &Arc<LoopWaker>,
    ) -> io::Result<Workers> {
        // Unbounded, but see `Job`.
        let (sender, jobs) = crossbeam_channel::unbounded();
        let codes = Arc::new(Codes::default());
        let mut threads = Vec::new();
        for _ in 0..count.max(1) {
            let worker = Worker {
                jobs: jobs.clone(),
                done: done.clone(),
                waker: Arc::clone(waker),
                codes: Arc::clone(&codes),
                decoder: None,
            };
            threads.push(
                std::thread::Builder::new()
                    .name("wellspring-worker".to_owned())
                    .spawn(move || worker.run())?,
            );
        }
        Ok(Workers { jobs: Some(sender), threads })
    }

    pub(super) fn submit(&self, key: BlockKey, job: Job) {
        let jobs = self.jobs.as_ref().expect("stopped only by drop");
        jobs.send((key, job)).expect("workers live as long as the pool");
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // Workers catch the panics of what they call; what is left has been printed.
            let _ = thread.join();
        }
    }
}

/// Codes by extended number of symbols, shared by all workers.
#[derive(Default)]
struct Codes(Mutex<BTreeMap<u32, Arc<Code>>>);

impl Codes {
    fn of(&self, source_symbols: u32) -> io::Result<Arc<Code>> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = codes.get(&source_symbols) {
            return Ok(Arc::clone(code));
        }
        if codes.len() >= MAX_CODES {
            codes.pop_first();
        }
        let code = Code::new(source_symbols).map_err(io::Error::other)?;
        codes.insert(source_symbols, Arc::clone(&code));
        Ok(code)
    }
}

struct Worker {
    jobs: Receiver<(BlockKey, Job)>,
    done: Sender<(BlockKey, Done)>,
    waker: Arc<LoopWaker>,
    codes: Arc<Codes>,
    decoder: Option<BlockDecoder>,
}

impl Worker {
    fn run(mut self) {
        while let Ok((key, job)) = self.jobs.recv() {
            let done = self.work(job);
            if self.done.send((key, done)).is_err() {
                return; // the loop is gone
            }
            self.waker.wake();
        }
    }

    fn work(&mut self, job: Job) -> Done {
        match job {
            Job::Finish { mut block, decode, sink } => {
                let outcome = guarded(|| self.finish(&mut block, decode, &*sink));
                Done::Finished { block, outcome }
            }
            Job::Load { source, offset, mut buffer } => {
                let outcome = guarded(|| source.read_block(offset, &mut buffer));
                Done::Loaded { buffer, outcome }
            }
            Job::Prepare { data, shape, encoder } => {
                Done::Prepared { encoder: guarded(|| self.prepare(&data, shape, encoder)) }
            }
        }
    }

    fn finish(
        &mut self,
        block: &mut ReceivedBlock,
        decode: bool,
        sink: &dyn ObjectSink,
    ) -> io::Result<Decoded> {
        if decode {
            let outcome = self.decode(block).map_err(io::Error::other)?;
            if outcome != Decoded::Complete {
                return Ok(outcome);
            }
        }
        sink.write_block(block.offset, &block.data)?;
        Ok(Decoded::Complete)
    }

    fn decode(&mut self, block: &mut ReceivedBlock) -> io::Result<Decoded> {
        let (k, size) = (block.source_symbols, usize::from(block.symbol_size));
        let code = self.codes.of(k)?;
        let decoder = match &mut self.decoder {
            Some(decoder) => {
                decoder.reset(code, k, size).map_err(io::Error::other)?;
                decoder
            }
            none => none.insert(BlockDecoder::new(code, k, size).map_err(io::Error::other)?),
        };
        decoder.set_max_repairs(u32::MAX);
        for esi in block.sources() {
            decoder.mark_source(esi).map_err(io::Error::other)?;
        }
        for (esi, symbol) in block.repair_symbols() {
            decoder.add_repair(esi, symbol).map_err(io::Error::other)?;
        }
        let outcome = decoder.try_decode(&mut block.data).map_err(io::Error::other)?;
        if outcome == Decoded::Complete {
            // Should the write be repeated, nothing needs decoding again.
            for esi in 0..k {
                block.have[esi as usize / 64] |= 1 << (esi % 64);
            }
        }
        Ok(outcome)
    }

    fn prepare(
        &self,
        data: &[u8],
        shape: Shape,
        encoder: Option<Box<BlockEncoder>>,
    ) -> io::Result<Box<BlockEncoder>> {
        let (k, size) = (shape.source_symbols, usize::from(shape.symbol_size));
        let code = self.codes.of(k)?;
        let mut encoder = match encoder {
            Some(mut encoder) => {
                encoder.reset(code, k, size).map_err(io::Error::other)?;
                encoder
            }
            None => Box::new(BlockEncoder::new(code, k, size).map_err(io::Error::other)?),
        };
        // The first repair symbol brings all the work; the others are cheap.
        let mut symbol = vec![0; size];
        encoder.encode(data, k, &mut symbol).map_err(io::Error::other)?;
        Ok(encoder)
    }
}

/// Runs what may be the application's code: its panic is an error of the session, not the end of
/// a worker that others wait for.
fn guarded<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(io::Error::other("a panic while reading, decoding or writing")))
}
