//! Interface of the event loop to the runners of all protocols.

use crossbeam_channel::TryRecvError;
use wellspring_core::{Duration, Endpoint as _, HostId, Time};

use super::{Host, Runner};
use crate::event::{Failure, SessionEvent};
use crate::network::faults::Origin;
use crate::payload::key::BlockKey;
use crate::payload::worker::Done;
use crate::protocol::Protocol;
use crate::protocol_handle::ProtocolCall;

/// Endpoints want to be given the time at least once a day; twice leaves room.
const LONGEST_SILENCE: Duration = Duration::from_secs(43_200);

/// What the loop has each protocol do.
pub(crate) trait Run: Send {
    /// See [`Protocol::trimmed_len`].
    fn trimmed_len(&self, datagram: &[u8]) -> Option<usize>;
    /// Serves calls of handles, at most `limit`.
    fn serve_calls(&mut self, host: &mut Host, limit: usize);
    /// Whether calls wait.
    fn has_calls(&self) -> bool;
    /// Takes in a datagram of its kinds.
    fn on_datagram(
        &mut self,
        host: &mut Host,
        now: Time,
        origin: &Origin,
        from: Option<HostId>,
        datagram: &[u8],
    );
    /// Takes in what a worker has done for one of its sessions.
    fn on_done(&mut self, host: &mut Host, key: BlockKey, done: Done);
    /// Gives the endpoint the deadlines that have come.
    fn on_time(&mut self, host: &mut Host, now: Time);
    /// Drains the endpoint: work, events, frames. True if there is more to send than one turn
    /// allows.
    fn drain(&mut self, host: &mut Host) -> bool;
    /// When the endpoint is next to be given the time.
    fn deadline(&self) -> Option<Time>;
    /// Sessions open at the endpoint.
    fn open_sessions(&self) -> usize;
    /// Sessions that have not reported their last event.
    fn unfinished(&self) -> usize;
    /// Ends every session.
    fn stop(&mut self, host: &mut Host);
    /// Refuses what handles still ask for.
    fn refuse_calls(&mut self);
}

impl<P: Protocol> Run for Runner<P> {
    fn trimmed_len(&self, datagram: &[u8]) -> Option<usize> {
        P::trimmed_len(datagram)
    }

    fn serve_calls(&mut self, host: &mut Host, limit: usize) {
        for _ in 0..limit {
            match self.calls.try_recv() {
                Ok(call) => self.serve(host, call),
                // Without handles there is nothing to be asked any more.
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    fn on_datagram(
        &mut self,
        host: &mut Host,
        now: Time,
        origin: &Origin,
        from: Option<HostId>,
        datagram: &[u8],
    ) {
        self.take_in(host, now, origin, from, datagram);
    }

    fn on_done(&mut self, host: &mut Host, key: BlockKey, done: Done) {
        match done {
            Done::Finished { block, answered, outcome } => {
                self.on_finished(host, key, block, answered, outcome);
            }
            Done::Loaded { buffer, outcome } => {
                host.to_send.loaded(key, buffer);
                match outcome {
                    Ok(()) => self.release_frames(key),
                    Err(error) => self.fail(host, key, Failure::Read(error)),
                }
            }
            Done::Prepared { encoder: Ok(encoder) } => {
                host.to_send.prepared(key, encoder);
                self.release_frames(key);
            }
            Done::Prepared { encoder: Err(error) } => {
                host.to_send.not_prepared(key);
                self.fail(host, key, Failure::Read(error));
            }
        }
        self.sessions.job_done(key.0);
    }

    fn on_time(&mut self, host: &mut Host, now: Time) {
        let due = self.endpoint.poll_timeout().is_some_and(|deadline| now.has_reached(deadline));
        if due || now.since(self.last_timeout) > LONGEST_SILENCE {
            self.last_timeout = now;
            self.endpoint.handle_timeout(now);
            self.drain_events(host);
        }
    }

    fn drain(&mut self, host: &mut Host) -> bool {
        self.drain_work(host);
        self.drain_events(host);
        self.transmit(host)
    }

    fn deadline(&self) -> Option<Time> {
        self.endpoint.poll_timeout()
    }

    fn open_sessions(&self) -> usize {
        self.sessions.open()
    }

    fn unfinished(&self) -> usize {
        self.sessions.unfinished()
    }

    fn stop(&mut self, host: &mut Host) {
        for id in self.sessions.ids() {
            if let Some(key) = self.sessions.by_id(id).map(|session| session.key) {
                self.fail(host, (key, 0), Failure::Stopped);
            }
        }
        self.drain(host);
    }

    fn refuse_calls(&mut self) {
        // What callers still wait for ends when their calls are dropped; sessions asked for
        // meanwhile are told.
        while let Ok(call) = self.calls.try_recv() {
            if let ProtocolCall::Open(mut opening) = call {
                (opening.events)(SessionEvent::Failed(Failure::Stopped));
            }
        }
    }
}
