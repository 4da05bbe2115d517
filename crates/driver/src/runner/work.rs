//! Work of a protocol's endpoint: blocks on their way to the workers, and back.

use std::io;
use std::sync::Arc;

use wellspring_core::{Endpoint as _, Work, WorkDone};

use super::{Host, Runner};
use crate::event::Failure;
use crate::payload::key::BlockKey;
use crate::payload::receive_store::ReceivedBlock;
use crate::payload::worker::{BlockResult, Finish, Job};
use crate::protocol::{Protocol, Side};

/// Blocks of a session that are being written although its endpoint counts them as finished, at
/// most: then a slow disk slows the sender.
const MAX_ANSWERED: u32 = 2;

impl<P: Protocol> Runner<P> {
    /// Hands the endpoint's work to the workers.
    pub(super) fn drain_work(&mut self, host: &mut Host) {
        while let Some(Work::Finish { session: id, sbn, decode }) = self.endpoint.poll_work() {
            let Some(session) = self.sessions.by_id(id) else { continue };
            let key = (session.key, sbn);
            let determined = host.received.is_determined(key);
            if determined == Some(false) {
                let done = WorkDone::NeedMore { session: id, sbn, more: 1 };
                self.endpoint.handle_work_done(host.clock.now(), done);
                continue;
            }
            let mut missing = Vec::new();
            if decode {
                P::missing(&self.endpoint, id, sbn, &mut missing);
            }
            // What is known to be determined may be stopped at once.
            let answered = determined == Some(true) && session.jobs < MAX_ANSWERED;
            if !self.finish(host, key, decode, missing, answered) {
                let error = io::Error::other("a block to finish is not in the store");
                self.fail(host, key, Failure::Write(error));
            } else if answered {
                let done = WorkDone::Finished { session: id, sbn };
                self.endpoint.handle_work_done(host.clock.now(), done);
            }
        }
    }

    /// Lends a block to a worker, who hands it over; false if it is not there.
    pub(super) fn finish(
        &mut self,
        host: &mut Host,
        key: BlockKey,
        decode: bool,
        missing: Vec<u32>,
        answered: bool,
    ) -> bool {
        let Some(session) = self.sessions.by_key(key.0) else { return false };
        let Side::Receiving { sink } = &session.side else { return false };
        let Some(block) = host.received.lend(key) else { return false };
        let (sink, suspects) = (Arc::clone(sink), session.suspects.clone());
        session.jobs += 1;
        let finish = Finish { block, decode, missing, sink, answered, suspects };
        host.workers.submit(key, Job::Finish(finish));
        true
    }

    /// Takes in what came of finishing a block.
    pub(super) fn on_finished(
        &mut self,
        host: &mut Host,
        key: BlockKey,
        block: ReceivedBlock,
        answered: bool,
        outcome: io::Result<BlockResult>,
    ) {
        let Some(session) = self.sessions.by_key(key.0).filter(|s| answered || !s.is_over()) else {
            host.received.recycle(block);
            return;
        };
        let (id, sbn) = (session.id, key.1);
        let done = match outcome {
            Ok(BlockResult::HandedOver(altered)) => {
                session.progress.add_blocks(1, block.data.len() as u64);
                host.received.close(key);
                host.received.recycle(block);
                if answered {
                    return;
                }
                self.on_altered(host, id, &altered);
                WorkDone::Finished { session: id, sbn }
            }
            Ok(BlockResult::NeedMore(more)) => {
                host.received.put_back(key, block);
                WorkDone::NeedMore { session: id, sbn, more }
            }
            Ok(BlockResult::Unchecked) => {
                host.received.put_back(key, block);
                session.unchecked.push(sbn);
                return;
            }
            Ok(BlockResult::Wrong(verdict)) => {
                let k = block.source_symbols;
                host.received.put_back(key, block);
                let Some(more) = self.on_wrong(host, key, verdict, k) else { return };
                WorkDone::Wrong { session: id, sbn, more }
            }
            Err(error) => {
                host.received.recycle(block);
                self.fail(host, key, Failure::Write(error));
                return;
            }
        };
        self.endpoint.handle_work_done(host.clock.now(), done);
        self.drain_work(host);
        self.drain_events(host);
    }

    /// A block (or its encoder) is here: the frame that waits for it is tried again, with those
    /// behind it.
    pub(super) fn release_frames(&mut self, key: BlockKey) {
        let Some(session) = self.sessions.by_key(key.0) else { return };
        let first = session.held.front().and_then(|f| P::symbol(&f.header, &session.geometry));
        if first.is_some_and(|(sbn, _)| sbn == key.1) {
            self.queue.release(key.0);
        }
    }
}
