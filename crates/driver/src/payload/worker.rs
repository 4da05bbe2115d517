//! Threads that read, encode, decode and write blocks, so that the loop never waits for them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use wellspring_codec::raptorq::{BlockEncoder, Decoded};

use crate::payload::codecs::Codecs;
use crate::payload::culprit::{Altered, Verdict, search};
use crate::payload::key::BlockKey;
use crate::payload::receive_store::ReceivedBlock;
use crate::store::{Check, ObjectSink, ObjectSource};
use crate::wait::LoopWaker;

/// What a worker is asked to do. Jobs waiting are bounded by the blocks held in the stores: each
/// block has one job at a time.
pub(crate) enum Job {
    /// Decode a block if need be, and hand it to its sink.
    Finish(Finish),
    /// Read a block.
    Load { source: Arc<dyn ObjectSource>, offset: u64, buffer: Vec<u8> },
    /// Make ready to encode repair symbols of a block.
    Prepare { data: Arc<Vec<u8>>, shape: Shape, encoder: Option<Box<BlockEncoder>> },
}

/// A block to be decoded and handed over.
pub(crate) struct Finish {
    pub block: ReceivedBlock,
    pub decode: bool,
    /// Source symbols that have not come, ascending, if it is to be decoded.
    pub missing: Vec<u32>,
    pub sink: Arc<dyn ObjectSink>,
    /// The endpoint counts it as finished already.
    pub answered: bool,
    /// Senders known to alter symbols, by their index among the session's.
    pub suspects: Vec<u8>,
}

/// What became of a block.
#[derive(Debug)]
pub(crate) enum BlockResult {
    /// It was handed over. Altered symbols of it that were found.
    HandedOver(Vec<Altered>),
    /// Its symbols do not determine it: so many more are wanted.
    NeedMore(u32),
    /// Whether it is right cannot be told yet.
    Unchecked,
    /// It is wrong, and not known why.
    Wrong(Verdict),
}

/// The shape of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Source symbols K.
    pub source_symbols: u32,
    /// Symbol size T \[bytes\].
    pub symbol_size: u16,
}

/// What became of a job.
pub(crate) enum Done {
    Finished { block: ReceivedBlock, answered: bool, outcome: io::Result<BlockResult> },
    Loaded { buffer: Vec<u8>, outcome: io::Result<()> },
    Prepared { encoder: io::Result<Box<BlockEncoder>> },
}

/// The pool.
pub(crate) struct Workers {
    jobs: Option<crossbeam_channel::Sender<(BlockKey, Job)>>,
    threads: Vec<JoinHandle<()>>,
    /// Wakes workers that are tasks of a simulated machine.
    #[cfg(feature = "simulation")]
    left: Arc<tokio::sync::Notify>,
}

impl Workers {
    /// Starts `count` threads (at least one). What they have done goes to `done`, and the waker
    /// is told.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub(crate) fn start(
        count: usize,
        done: &Sender<(BlockKey, Done)>,
        waker: &Arc<LoopWaker>,
    ) -> io::Result<Workers> {
        // Unbounded, but see `Job`.
        let (sender, jobs) = crossbeam_channel::unbounded();
        let codes = Codecs::cache();
        let mut threads = Vec::new();
        #[cfg(feature = "simulation")]
        let left = Arc::default();
        for _ in 0..count.max(1) {
            let worker = Worker {
                jobs: jobs.clone(),
                done: done.clone(),
                waker: Arc::clone(waker),
                codecs: Codecs::new(Arc::clone(&codes)),
            };
            #[cfg(feature = "simulation")]
            if let Some(machine) = crate::simulation::machine() {
                crate::task::spawn(worker.run_as_task(machine, Arc::clone(&left)));
                continue;
            }
            threads.push(
                std::thread::Builder::new()
                    .name("wellspring-worker".to_owned())
                    .spawn(move || worker.run())?,
            );
        }
        Ok(Workers {
            jobs: Some(sender),
            threads,
            #[cfg(feature = "simulation")]
            left,
        })
    }

    pub(crate) fn submit(&self, key: BlockKey, job: Job) {
        let jobs = self.jobs.as_ref().expect("stopped only by drop");
        jobs.send((key, job)).expect("workers live as long as the pool");
        #[cfg(feature = "simulation")]
        self.left.notify_one();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        #[cfg(feature = "simulation")]
        self.left.notify_waiters();
        for thread in self.threads.drain(..) {
            // Workers catch the panics of what they call; what is left has been printed.
            let _ = thread.join();
        }
    }
}

pub(crate) struct Worker {
    pub(crate) jobs: Receiver<(BlockKey, Job)>,
    pub(crate) done: Sender<(BlockKey, Done)>,
    pub(crate) waker: Arc<LoopWaker>,
    codecs: Codecs,
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

    pub(crate) fn work(&mut self, job: Job) -> Done {
        match job {
            Job::Finish(mut finish) => {
                let outcome = guarded(|| self.finish(&mut finish));
                Done::Finished { block: finish.block, answered: finish.answered, outcome }
            }
            Job::Load { source, offset, mut buffer } => {
                let outcome = guarded(|| source.read_block(offset, &mut buffer));
                Done::Loaded { buffer, outcome }
            }
            Job::Prepare { data, shape, encoder } => {
                let Shape { source_symbols, symbol_size } = shape;
                let prepare = || self.codecs.prepare(&data, source_symbols, symbol_size, encoder);
                Done::Prepared { encoder: guarded(prepare) }
            }
        }
    }

    fn finish(&mut self, finish: &mut Finish) -> io::Result<BlockResult> {
        let (block, sink) = (&mut finish.block, &finish.sink);
        if finish.decode
            && !block.decoded
            && let Decoded::NeedMore(more) = self.codecs.decode(block, &finish.missing)?
        {
            return Ok(BlockResult::NeedMore(more));
        }
        block.decoded = true;
        let offset = block.offset;
        let mut altered = Vec::new();
        match sink.check(offset, &block.data) {
            Check::Right => {}
            Check::Unknown => return Ok(BlockResult::Unchecked),
            Check::Wrong => {
                block.decoded = false;
                let is_right = |bytes: &[u8]| sink.check(offset, bytes) == Check::Right;
                let (missing, suspects) = (&finish.missing, &finish.suspects);
                match search(&mut self.codecs, block, missing, suspects, &is_right)? {
                    Verdict::Found(found) => altered = found,
                    verdict => return Ok(BlockResult::Wrong(verdict)),
                }
            }
        }
        sink.write_block(offset, &block.data)?;
        Ok(BlockResult::HandedOver(altered))
    }
}

/// Runs what may be the application's code: its panic is an error of the session, not the end of
/// a worker that others wait for.
fn guarded<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(io::Error::other("a panic while reading, decoding or writing")))
}

#[cfg(test)]
mod tests {
    use super::*;

    use wellspring_codec::raptorq::Code;

    use crate::wait::Waiter;

    /// Nobody's: nothing is handed over.
    struct Nowhere;

    impl ObjectSink for Nowhere {
        fn write_block(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::Error::other("a block that cannot be decoded"))
        }
    }

    #[test]
    fn a_worker_says_how_many_symbols_a_block_lacks() {
        // Of ten source symbols the last two are lost, and the sender chooses repair symbols in which these
        // have no part: where all else is zero, they are zero.
        const K: u32 = 10;
        let source = [&[0; 16][..], &[1, 0, 0, 1]].concat();
        let mut encoder =
            BlockEncoder::new(Code::new(K).expect("possible"), K, 2).expect("possible");
        let mut symbol = [0; 2];
        let mut useless = (K..).filter(|esi| {
            encoder.encode(&source, *esi, &mut symbol).expect("possible");
            symbol == [0; 2]
        });
        let mut block = ReceivedBlock::empty(K, 2, source.len());
        (0..K - 2).for_each(|esi| block.put(esi, &[0; 2], 0));
        useless.by_ref().take(2).for_each(|esi| block.put(esi, &[0; 2], 0));

        let (done, _) = crossbeam_channel::unbounded();
        let waker = Waiter::new(true).expect("a poll").waker();
        let mut worker = Worker {
            jobs: crossbeam_channel::never(),
            done,
            waker,
            codecs: Codecs::new(Codecs::cache()),
        };
        let finish = Finish {
            block,
            decode: true,
            missing: vec![K - 2, K - 1],
            sink: Arc::new(Nowhere),
            answered: false,
            suspects: Vec::new(),
        };
        let Done::Finished { outcome, .. } = worker.work(Job::Finish(finish)) else {
            unreachable!("what a block to finish becomes")
        };
        assert!(matches!(outcome, Ok(BlockResult::NeedMore(2))), "{outcome:?}");
    }
}
