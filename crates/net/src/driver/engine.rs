//! The loop.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use wellspring_codec::raptorq::Decoded;
use wellspring_core::{
    Destination, Duration, Endpoint as _, Frame, HostId, SessionId, Time, Work, WorkDone,
};
use wellspring_transport::scdp::{self, Command, Event, FailReason, StragglerAction};
use wellspring_wire::scdp::ScdpHeader;

use super::DriverConfig;
use super::clock::{Clock, sleep_until};
use super::event::{ControlSink, Failure, SessionEvent};
use super::faults::Injector;
use super::groups::Groups;
use super::handle::Request;
use super::outbox::{Outbox, Target};
use super::peers::PeerTable;
use super::receive_store::{ReceiveStore, ReceivedBlock};
use super::send_store::SendStore;
use super::sessions::{SessionTable, Side};
use super::shared::Shared;
use super::statistics::{ReceivePath, Statistics};
use super::strangers::CloseBudget;
use super::taps::Taps;
use super::wait::Waiter;
use super::worker::{BlockKey, Done, Job, Workers};
use crate::socket::{ReceiveBatch, UdpSocket};

/// This host, to its own endpoint.
pub(super) const OWN: HostId = HostId(0);
/// Endpoints want to be told the time at least once a day; twice leaves room.
const LONGEST_SILENCE: Duration = Duration::from_secs(43_200);
/// Requests served in one turn of the loop, so that no caller holds up the network.
const REQUESTS_A_TURN: usize = 256;

/// Everything the loop owns.
pub(super) struct Engine {
    pub(super) config: DriverConfig,
    pub(super) clock: Clock,
    pub(super) endpoint: scdp::Endpoint,
    pub(super) socket: UdpSocket,
    /// The socket is bound to no address of its own, so answers must name theirs.
    pub(super) chooses_source: bool,
    pub(super) groups: Groups,
    pub(super) taps: Taps,
    pub(super) waiter: Waiter,
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Receiver<Request>,
    pub(super) done: Receiver<(BlockKey, Done)>,
    pub(super) workers: Workers,
    pub(super) control: ControlSink,
    pub(super) peers: PeerTable,
    pub(super) sessions: SessionTable,
    pub(super) received: ReceiveStore,
    pub(super) to_send: SendStore,
    /// The block whose symbols went out last.
    pub(super) last_sent_block: Option<BlockKey>,
    pub(super) outbox: Outbox,
    /// Where the frame at hand goes.
    pub(super) targets: Vec<Target>,
    /// Frames held back by all sessions.
    pub(super) held: usize,
    /// Symbols whose blocks have come, to be sent before the endpoint is asked for more.
    pub(super) ready: VecDeque<Frame<ScdpHeader>>,
    pub(super) injector: Option<Injector>,
    pub(super) closes: CloseBudget,
    pub(super) statistics: Statistics,
    /// The socket had no room when last asked.
    pub(super) blocked: bool,
    /// The slow link being emulated is busy until then.
    pub(super) send_free: Option<Time>,
    /// Requests and results taken while looking whether to sleep.
    pub(super) peeked_request: Option<Request>,
    pub(super) peeked_done: Option<(BlockKey, Done)>,
    pub(super) last_timeout: Time,
    pub(super) stopping: bool,
}

impl Engine {
    /// Runs until a handle asks to stop or all handles are gone.
    pub(super) fn run(mut self) {
        let mut batch = ReceiveBatch::default();
        while !self.stopping {
            self.serve_requests();
            self.collect_done();
            let now = self.clock.now();
            self.tell_time(now);
            let more_to_receive = self.receive(&mut batch);
            let more_to_send = self.drain();
            if !more_to_receive && !more_to_send && !self.stopping {
                self.sleep();
            }
        }
        self.wind_up();
    }

    fn serve_requests(&mut self) {
        for _ in 0..REQUESTS_A_TURN {
            let request = match self.peeked_request.take() {
                Some(request) => Ok(request),
                None => self.requests.try_recv(),
            };
            match request {
                Ok(request) => self.serve(request),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.stopping = true;
                    return;
                }
            }
        }
    }

    /// Gives the endpoint the deadlines that have come.
    fn tell_time(&mut self, now: Time) {
        let due = self.endpoint.poll_timeout().is_some_and(|deadline| deadline <= now);
        if due || now.since(self.last_timeout) > LONGEST_SILENCE {
            self.last_timeout = now;
            self.endpoint.handle_timeout(now);
        }
    }

    /// Takes in what workers have done.
    fn collect_done(&mut self) {
        if let Some((key, done)) = self.peeked_done.take() {
            self.on_done(key, done);
        }
        while let Ok((key, done)) = self.done.try_recv() {
            self.on_done(key, done);
        }
    }

    fn on_done(&mut self, key: BlockKey, done: Done) {
        let alive = self.sessions.by_key(key.0).is_some_and(|session| !session.is_over());
        match done {
            Done::Finished { block, outcome } => self.on_finished(key, block, outcome, alive),
            Done::Loaded { buffer, outcome } => {
                self.to_send.loaded(key, buffer);
                match outcome {
                    Ok(()) => self.release_frames(key),
                    Err(error) => self.fail(key, Failure::Read(error)),
                }
            }
            Done::Prepared { encoder: Ok(encoder) } => {
                self.to_send.prepared(key, encoder);
                self.release_frames(key);
            }
            Done::Prepared { encoder: Err(error) } => self.fail(key, Failure::Read(error)),
        }
        self.sessions.job_done(key.0);
    }

    /// A block (or its encoder) is here: the frames held back for it are tried again, with those
    /// behind them.
    fn release_frames(&mut self, key: BlockKey) {
        let Some(session) = self.sessions.by_key(key.0) else { return };
        let first = session.held.front().map(|frame| frame.header);
        if matches!(first, Some(ScdpHeader::Symbol(symbol)) if symbol.sbn == key.1) {
            self.held -= session.held.len();
            self.ready.append(&mut session.held);
        }
    }

    fn on_finished(
        &mut self,
        key: BlockKey,
        block: ReceivedBlock,
        outcome: io::Result<Decoded>,
        alive: bool,
    ) {
        let session = self.sessions.by_key(key.0).filter(|_| alive).map(|s| (s.id, &s.progress));
        let Some((session, progress)) = session else {
            self.received.recycle(block);
            return;
        };
        let sbn = key.1;
        let done = match outcome {
            Ok(Decoded::Complete) => {
                progress.add_block(block.data.len() as u64);
                self.received.close(key);
                self.received.recycle(block);
                WorkDone::Finished { session, sbn }
            }
            Ok(Decoded::NeedMore(_)) => {
                self.received.put_back(key, block);
                WorkDone::NeedMore { session, sbn }
            }
            Err(error) => {
                self.received.recycle(block);
                self.fail(key, Failure::Write(error));
                return;
            }
        };
        let now = self.clock.now();
        self.endpoint.handle_work_done(now, done);
        self.drain_work();
        self.drain_events();
    }

    /// Ends a session from this side, for a reason of this side.
    pub(super) fn fail(&mut self, key: BlockKey, failure: Failure) {
        let Some(session) = self.sessions.by_key(key.0).filter(|session| !session.is_over()) else {
            return;
        };
        session.failure.get_or_insert(failure);
        let id = session.id;
        let now = self.clock.now();
        // The endpoint may have ended it in the same turn; then there is nothing left to cancel.
        let _ = self.endpoint.handle_command(now, Command::Cancel { session: id });
        self.drain_events();
    }

    /// Drains the endpoint: work, events, frames. True if there is more to send than one turn
    /// allows.
    pub(super) fn drain(&mut self) -> bool {
        self.drain_work();
        self.drain_events();
        self.transmit()
    }

    /// Hands the endpoint's work to the workers.
    pub(super) fn drain_work(&mut self) {
        while let Some(Work::Finish { session: id, sbn, decode }) = self.endpoint.poll_work() {
            let Some(session) = self.sessions.by_id(id) else { continue };
            let key = (session.key, sbn);
            let Side::Receiving { sink, .. } = &session.side else { continue };
            let sink = Arc::clone(sink);
            match self.received.lend(key) {
                Some(block) => {
                    session.jobs += 1;
                    self.workers.submit(key, Job::Finish { block, decode, sink });
                }
                None => {
                    let error = io::Error::other("a block to finish is not in the store");
                    self.fail(key, Failure::Write(error));
                }
            }
        }
    }

    /// Tells the applications what the endpoint has to say.
    pub(super) fn drain_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            // Sessions are always announced; progress has its own counters.
            Event::Accepted { .. } | Event::BlockComplete { .. } => {}
            Event::Received { session, stats } => {
                let senders = stats.senders.iter().filter_map(|s| self.peers.peer(s.host));
                let senders = senders.map(|peer| peer.address).collect();
                self.closes.remember(session);
                self.end_session(session, SessionEvent::Received { stats, senders });
            }
            Event::Sent { session, stats } => {
                self.end_session(session, SessionEvent::Sent { stats });
            }
            Event::Failed { session, reason } => self.on_failed(session, reason),
            Event::SenderLost { session, sender, reason } => {
                // One refused here has been told of already.
                if !self.is_refused(session, sender) {
                    self.tell(session, sender, |sender| SessionEvent::SenderLost {
                        sender,
                        reason,
                    });
                }
            }
            Event::MovedToUnicast { session } => {
                if let Some(session) = self.sessions.by_id(session) {
                    session.tell(SessionEvent::MovedToUnicast);
                }
            }
            Event::ReceiverFinished { session, receiver } => {
                self.drop_member(session, receiver);
                self.tell(session, receiver, |receiver| SessionEvent::ReceiverFinished {
                    receiver,
                });
            }
            Event::ReceiverLost { session, receiver, reason } => {
                self.drop_member(session, receiver);
                self.tell(session, receiver, |receiver| SessionEvent::ReceiverLost {
                    receiver,
                    reason,
                });
            }
            Event::Straggler { session, receiver, symbols_behind, action } => {
                if action == StragglerAction::Detached {
                    self.drop_member(session, receiver);
                }
                self.tell(session, receiver, |receiver| SessionEvent::Straggler {
                    receiver,
                    symbols_behind,
                    action,
                });
            }
        }
    }

    fn on_failed(&mut self, id: SessionId, reason: FailReason) {
        let Some(session) = self.sessions.by_id(id) else { return };
        let failure = session.failure.take().unwrap_or(match reason {
            FailReason::Closed(reason) => Failure::Closed(reason),
            FailReason::Exhausted => Failure::Exhausted,
            _ => Failure::PeersLost,
        });
        self.end_session(id, SessionEvent::Failed(failure));
    }

    /// Tells the application something about a peer of a session.
    fn tell(
        &mut self,
        id: SessionId,
        peer: HostId,
        event: impl FnOnce(std::net::SocketAddr) -> SessionEvent,
    ) {
        if let (Some(session), Some(peer)) = (self.sessions.by_id(id), self.peers.peer(peer)) {
            session.tell(event(peer.address));
        }
    }

    /// A member needs no copies of a group's symbols any more.
    fn drop_member(&mut self, id: SessionId, member: HostId) {
        if let Some(session) = self.sessions.by_id(id)
            && let Side::Sending { members, .. } = &mut session.side
        {
            members.retain(|host| *host != member);
        }
    }

    fn is_refused(&mut self, id: SessionId, sender: HostId) -> bool {
        self.sessions.by_id(id).is_some_and(
            |session| matches!(&session.side, Side::Receiving { refused, .. } if refused.contains(&sender)),
        )
    }

    /// The endpoint is done with a session.
    fn end_session(&mut self, id: SessionId, last: SessionEvent) {
        // Closes to its peers may still wait at the endpoint: they go out while the peers are
        // known.
        self.transmit();
        let held = self.sessions.by_id(id).map_or(0, |session| session.held.len());
        if let Some((key, peers)) = self.sessions.end(id, last) {
            self.received.close_session(key);
            self.to_send.close_session(key);
            self.held -= held;
            self.ready.retain(|frame| frame.session != id);
            for peer in peers {
                self.peers.release(peer);
            }
        }
    }

    /// Sleeps until something happens or is due.
    fn sleep(&mut self) {
        let now = self.clock.now();
        let deadlines = [
            self.endpoint.poll_timeout(),
            self.injector.as_ref().and_then(Injector::deadline),
            self.send_free,
        ];
        let mut span = deadlines.into_iter().flatten().min().map(|at| sleep_until(now, at));
        if self.blocked {
            // What is due is mostly a frame, and frames wait for the socket.
            span = span.map(|span| span.max(std::time::Duration::from_millis(1)));
        }
        let (requests, done) = (&self.requests, &self.done);
        let (request, result) = (&mut self.peeked_request, &mut self.peeked_done);
        let (groups, taps) = (&mut self.groups, &mut self.taps);
        let blocked = &mut self.blocked;
        let busy = || {
            *request = requests.try_recv().ok();
            *result = done.try_recv().ok();
            request.is_some() || result.is_some()
        };
        let outcome = self.waiter.sleep(span, busy, |ready| {
            if ready.readable {
                groups.mark_readable(ready.socket);
                taps.mark_readable(ready.socket);
            }
            if ready.writable && ready.socket == Groups::MAIN {
                *blocked = false;
            }
        });
        if outcome.is_err() {
            // Nothing is known of a poll that fails but that it does not wait.
            std::thread::yield_now();
        }
    }

    /// Closes every session and waits until no worker has a part of any.
    fn wind_up(&mut self) {
        for id in self.sessions.ids() {
            if let Some(session) = self.sessions.by_id(id) {
                let key = session.key;
                self.fail((key, 0), Failure::Stopped);
            }
        }
        self.drain();
        while self.sessions.unfinished() > 0 {
            match self.peeked_done.take().map_or_else(|| self.done.recv(), Ok) {
                Ok((key, done)) => self.on_done(key, done),
                Err(_) => return,
            }
        }
        // What callers still wait for ends when their requests are dropped; sessions asked for
        // meanwhile are told.
        while let Ok(request) = self.requests.try_recv() {
            if let Request::Send(_, mut events, _) | Request::Receive(_, mut events, _) = request {
                events(SessionEvent::Failed(Failure::Stopped));
            }
        }
    }

    /// Numbers of now, for a snapshot.
    pub(super) fn snapshot(&self) -> Statistics {
        let mut statistics = self.statistics.clone();
        if self.taps.are_open() {
            statistics.receive_path = ReceivePath::SocketAndTap;
        }
        statistics.segmentation = self.socket.segmentation();
        statistics.coalescing = self.socket.coalescing();
        statistics.receive_buffer = self.socket.receive_buffer().unwrap_or(0);
        statistics.send_buffer = self.socket.send_buffer().unwrap_or(0);
        statistics.faults = Some(self.config.faults).filter(super::Faults::active);
        statistics.sessions = self.sessions.open();
        statistics.peers = self.peers.len();
        statistics.groups = self.groups.joined();
        statistics.receive_memory = self.received.held();
        statistics.send_memory = self.to_send.held();
        statistics.received.icmp_errors = self.socket.icmp_errors();
        statistics.sent.segmentation_failures = self.socket.segmentation_failures();
        if let Some(injector) = &self.injector {
            statistics.injected = injector.counters;
        }
        statistics
    }

    /// Where this host's frames to itself would go.
    pub(super) fn own_destination() -> Destination {
        Destination::Host(OWN)
    }

    /// Watches the main socket.
    pub(super) fn watch(&self) -> io::Result<()> {
        self.waiter.watch(self.socket.as_raw_fd(), Groups::MAIN)
    }
}
