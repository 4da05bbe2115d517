//! One protocol's endpoint, run for the loop.

mod altered;
mod host;
mod inbound;
mod outbound;
mod queue;
mod sessions;

use std::io;
use std::sync::Arc;

use crossbeam_channel::{Receiver, TryRecvError};
use wellspring_core::{
    Destination, Duration, Ecn, Endpoint as _, Frame, HostId, SessionId, Time, Work, WorkDone,
};

use crate::event::{Failure, Refusal, SessionEvent};
use crate::network::faults::Origin;
use crate::payload::key::BlockKey;
use crate::payload::receive_store::ReceivedBlock;
use crate::payload::worker::{BlockResult, Done, Finish, Job};
use crate::protocol::{Action, Header, Meaning, Opening, Protocol, Report, Side, Sink};
use crate::protocol_handle::ProtocolCall;
use crate::runner::sessions::{NewSession, SessionTable};
use crate::socket::MAX_DATAGRAM_LEN;
pub(crate) use host::Host;
use queue::Queue;

/// This host, to its own endpoints.
pub(crate) const OWN: HostId = HostId(0);
/// Endpoints want to be given the time at least once a day; twice leaves room.
const LONGEST_SILENCE: Duration = Duration::from_secs(43_200);
/// Longest header of any protocol \[bytes\].
const MAX_HEADER_LEN: usize = 128;
/// Blocks of a session that are being written although its endpoint counts them as finished, at
/// most: then a slow disk slows the sender.
const MAX_ANSWERED: u32 = 2;

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

/// One protocol: its endpoint, its sessions, its frames on their way out.
pub(crate) struct Runner<P: Protocol> {
    protocol: P,
    endpoint: P::Endpoint,
    sessions: SessionTable<P>,
    queue: Queue<Header<P>>,
    calls: Receiver<ProtocolCall<P>>,
    last_timeout: Time,
}

impl<P: Protocol> Runner<P> {
    pub(crate) fn new(
        number: u8,
        protocol: P,
        endpoint: P::Endpoint,
        calls: Receiver<ProtocolCall<P>>,
        now: Time,
    ) -> Self {
        Runner {
            protocol,
            endpoint,
            sessions: SessionTable::new(number),
            queue: Queue::new(),
            calls,
            last_timeout: now,
        }
    }

    fn serve(&mut self, host: &mut Host, call: ProtocolCall<P>) {
        let now = host.clock.now();
        match call {
            ProtocolCall::Open(opening) => self.open(host, *opening),
            ProtocolCall::Cancel(session) => {
                if let Some(key) = self.sessions.by_id(session).map(|session| session.key) {
                    self.fail(host, (key, 0), Failure::Cancelled);
                }
            }
            ProtocolCall::CheckAgain(session) => self.check_again(host, session),
            ProtocolCall::Exclude(session, sender) => {
                if let Some(peer) = host.peers.host(sender) {
                    self.exclude(host, session, peer);
                }
            }
            ProtocolCall::Other(call) => {
                match self.protocol.serve(&mut self.endpoint, &mut host.peers, now, call) {
                    Action::Nothing => {}
                    Action::Command(command) => {
                        let _ = self.endpoint.handle_command(now, command);
                    }
                    Action::Frame(session, header) => self.on_message(now, session, header),
                }
            }
        }
        self.drain_work(host);
        self.drain_events(host);
    }

    /// Takes in a header that came by another way than the socket.
    fn on_message(&mut self, now: Time, id: SessionId, header: Header<P>) {
        let Some(peer) = self.sessions.by_id(id).and_then(|session| session.peers.first()) else {
            return;
        };
        self.endpoint.handle_frame(now, &arrived_frame(*peer, id, header, 0, Ecn::NotCapable));
    }

    fn open(&mut self, host: &mut Host, opening: Opening<P>) {
        let Opening { session, geometry, coding, peers, side, state, protocol, progress, events } =
            opening;
        let group = match &side {
            Side::Sending { group, .. } => *group,
            Side::Receiving { .. } => None,
        };
        if self.sessions.by_id(session).is_some() {
            let refusal = Refusal::Invalid("a session number that is in use");
            return self.refuse(host, session, Vec::new(), events, refusal.into());
        }
        let named = host.name_peers(&peers, group);
        let peers = match named {
            Ok(peers) => peers,
            Err(failure) => return self.refuse(host, session, Vec::new(), events, failure),
        };
        let side = match side {
            Side::Sending { source, group, .. } => {
                Side::Sending { source, group, members: peers.clone() }
            }
            receiving @ Side::Receiving { .. } => receiving,
        };
        let over = |what, got, limit| Err(Refusal::OverLimit { what, got, limit });
        let longest = (MAX_DATAGRAM_LEN - MAX_HEADER_LEN) as u64;
        let (symbol, limit) = (u64::from(geometry.symbol_size()), host.received.limit() as u64);
        let block = coding.reserved(geometry.longest_block());
        let possible = match side {
            _ if symbol > longest => over("symbol size", symbol, longest),
            Side::Receiving { .. } if block > limit => over("bytes of a block", block, limit),
            _ => Ok(()),
        };
        if let Err(refusal) = possible {
            return self.refuse(host, session, peers, events, refusal.into());
        }
        let command = self.protocol.open(session, &state, protocol, &peers);
        let now = host.clock.now();
        match command.map_or(Ok(()), |command| self.endpoint.handle_command(now, command)) {
            Ok(()) => {
                let id = session;
                let new = NewSession { id, geometry, coding, progress, peers, side, state, events };
                self.sessions.insert(new);
            }
            Err(error) => {
                self.refuse(host, session, peers, events, Failure::Refused(Box::new(error)));
            }
        }
    }

    fn refuse(
        &mut self,
        host: &mut Host,
        session: SessionId,
        peers: Vec<HostId>,
        mut events: Sink<P>,
        failure: Failure,
    ) {
        host.release(peers);
        // A number that is in use is another session's.
        if self.sessions.by_id(session).is_none() {
            self.protocol.on_closed(session);
        }
        events(SessionEvent::Failed(failure));
    }

    /// A block (or its encoder) is here: the frames held back for it are tried again, with those
    /// behind them.
    fn release_frames(&mut self, key: BlockKey) {
        let Some(session) = self.sessions.by_key(key.0) else { return };
        let first = session.held.front().and_then(|f| P::symbol(&f.header, &session.geometry));
        if first.is_some_and(|(sbn, _)| sbn == key.1) {
            self.queue.release(&mut session.held);
        }
    }

    fn on_finished(
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
            Ok(BlockResult::NeedMore) => {
                host.received.put_back(key, block);
                WorkDone::NeedMore { session: id, sbn }
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

    /// Ends a session from this side, for a reason of this side.
    fn fail(&mut self, host: &mut Host, key: BlockKey, failure: Failure) {
        let Some(session) = self.sessions.by_key(key.0) else { return };
        if session.is_over() {
            return session.spoil(failure);
        }
        session.failure.get_or_insert(failure);
        let id = session.id;
        let now = host.clock.now();
        // The endpoint may have ended it in the same turn; then there is nothing left to cancel.
        let _ = self.endpoint.handle_command(now, P::cancel(id));
        self.drain_events(host);
        // An endpoint whose sessions end with their cancelling reports no end of its own.
        if let Some(session) = self.sessions.by_key(key.0).filter(|s| !s.is_over()) {
            let failure = session.failure.take().unwrap_or(Failure::Cancelled);
            self.end_session(host, id, SessionEvent::Failed(failure));
        }
    }

    /// Hands the endpoint's work to the workers.
    fn drain_work(&mut self, host: &mut Host) {
        while let Some(Work::Finish { session: id, sbn, decode }) = self.endpoint.poll_work() {
            let Some(session) = self.sessions.by_id(id) else { continue };
            let key = (session.key, sbn);
            let determined = host.received.is_determined(key);
            if determined == Some(false) {
                let done = WorkDone::NeedMore { session: id, sbn };
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
    fn finish(
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

    /// Reports to the applications what the endpoint has to report.
    fn drain_events(&mut self, host: &mut Host) {
        while let Some(event) = self.endpoint.poll_event() {
            match self.protocol.on_event(event) {
                Meaning::Nothing => {}
                Meaning::Received { session, stats, senders } => {
                    let senders = senders.iter().filter_map(|sender| host.peers.peer(*sender));
                    let senders = senders.map(|peer| peer.address).collect();
                    self.end_session(host, session, SessionEvent::Received { stats, senders });
                }
                Meaning::Sent { session, stats } => {
                    self.end_session(host, session, SessionEvent::Sent { stats });
                }
                Meaning::Failed { session: id, failure } => {
                    let Some(session) = self.sessions.by_id(id) else { continue };
                    let failure = session.failure.take().unwrap_or(failure);
                    self.end_session(host, id, SessionEvent::Failed(failure));
                }
                Meaning::Session { session, report } => {
                    if let Some(session) = self.sessions.by_id(session) {
                        session.report(report);
                    }
                }
                Meaning::Peer { session, peer, leaves, report } => {
                    let Some(session) = self.sessions.by_id(session) else { continue };
                    if leaves && let Side::Sending { members, .. } = &mut session.side {
                        members.retain(|host| *host != peer);
                    }
                    if let Some(address) = host.peers.peer(peer).map(|peer| peer.address)
                        && let Some(report) = report(address, &mut session.state, peer)
                    {
                        session.report(report);
                    }
                }
            }
        }
    }

    /// The endpoint is done with a session.
    fn end_session(&mut self, host: &mut Host, id: SessionId, last: Report<P>) {
        // Closes to its peers may still wait at the endpoint: they go out while the peers are
        // known.
        self.transmit(host);
        let held = self.sessions.by_id(id).map_or(0, |session| session.held.len());
        if let Some((key, peers)) = self.sessions.end(id, last) {
            host.received.close_session(key);
            host.to_send.close_session(key);
            self.queue.forget(id, held);
            host.release(peers);
            self.protocol.on_closed(id);
            // Some endpoints would go on to have the end confirmed: there is nobody to hear of it.
            let _ = self.endpoint.handle_command(host.clock.now(), P::cancel(id));
        }
    }
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

/// A frame that came from `source`.
fn arrived_frame<H>(
    source: HostId,
    session: SessionId,
    header: H,
    payload_len: usize,
    ecn: Ecn,
) -> Frame<H> {
    Frame {
        source,
        destination: Destination::Host(OWN),
        session,
        payload_len: payload_len as u16,
        path: 0,
        class: 0,
        ecn,
        trimmed: false,
        header,
    }
}
