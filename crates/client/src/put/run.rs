//! A put under way: its sessions, its receivers, what they and the protocol say, and the report at the end.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use wellspring_core::SessionId;
use wellspring_transport::scdp::{
    ObjectInfo, Resume, SendStats, Share, StragglerAction, StragglerCause,
};
use wellspring_wire::control::Geometry;

use super::group_keys::GroupKeys;
use super::offers::{Asked, Offered, Offering, Taken, in_both};
use super::watch::{Seen, Watchers};
use crate::driver::{Failure, SessionEvent, SessionProgress};
use crate::manifest::{RESUMED_EPOCH, first_missing, object_of};
use crate::narrow::{datagram_len, examine, suspected_after};
use crate::paths::{PathOpener, Paths};
use crate::protocols::{DriverHandle, Recipients, SendObject};
use crate::replicas::WORTH_FURTHER;
use crate::report::{PutReport, ReceiverReport, ReceiverState};
use crate::requester::{AskError, Requester};
use crate::store::{Digest, FileSource};
use crate::task::JoinSet;
use crate::update::TICK;
use crate::{Client, PutError, ReceiverProgress, Update, Updates};
use wellspring_net::canonical;

/// How long the last counters of the protocol are waited for once all receivers have answered.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Bytes of these blocks \[bytes\].
fn bytes_of(object: &ObjectInfo, blocks: &[Range<u32>]) -> u64 {
    let first = |sbn| object.byte_range_of_block(sbn).0;
    blocks.iter().map(|run| first(run.end).min(object.transfer_len) - first(run.start)).sum()
}

/// A session that sends, and what the protocol told at its end.
struct Sending {
    session: SessionId,
    /// Source symbols of the blocks that are missing.
    needed: u64,
    progress: SessionProgress,
    stats: Option<SendStats>,
}

impl Sending {
    /// The account of a session that was cut short. Which of its symbols were source symbols is not
    /// known: those come first.
    fn cut_short(&self) -> SendStats {
        let sent = self.progress.symbols();
        let source_symbols = sent.min(self.needed);
        SendStats { source_symbols, repair_symbols: sent - source_symbols, pulls: 0 }
    }
}

struct Receiver {
    offered: Offered,
    state: ReceiverState,
    /// Why it was detached from the group, if it was.
    detached: Option<StragglerCause>,
    blocks: (u32, u32),
    /// What the protocol said about it, for the reason of a failure.
    lost: Option<String>,
    /// When it last got on.
    advanced: Instant,
}

/// A put under way.
pub(super) struct Run {
    handle: DriverHandle,
    timeout: Duration,
    began: Instant,
    size: u64,
    digest: Digest,
    object: ObjectInfo,
    group: Option<SocketAddr>,
    initial_window: u8,
    source: Arc<FileSource>,
    needed: usize,
    /// Whether hosts beyond the quorum are waited for.
    pub(super) finish_rest: bool,
    quorum_after: Option<Duration>,
    receivers: Vec<Receiver>,
    sendings: Vec<Sending>,
    told: mpsc::UnboundedSender<(SessionId, SessionEvent)>,
    events: mpsc::UnboundedReceiver<(SessionId, SessionEvent)>,
    watchers: Watchers,
    /// Hosts that are still verifying what they have.
    asked: Asked,
    opener: PathOpener,
    /// Further paths of the sessions to one host each.
    paths: Vec<Paths>,
    pub(super) updates: Updates,
    /// Of its group, if the host has keys.
    pub(super) keys: Option<GroupKeys>,
    /// When the paths are examined if nothing has arrived by then; absent if they are not, or were.
    examine: Option<(Instant, Requester, u16)>,
    /// Whether one of them is narrow, once that is known.
    examined: JoinSet<bool>,
}

/// How a put ended.
pub(super) enum Followed {
    Done(PutReport),
    /// Symbols were too long for a path, and no block arrived.
    Narrow,
}

impl Drop for Run {
    fn drop(&mut self) {
        for sending in self.sendings.iter().filter(|s| s.stats.is_none()) {
            // A session that is over, or a driver that has stopped, is what was asked for.
            let _ = self.handle.cancel(sending.session);
        }
    }
}

impl Run {
    pub(super) fn begin(
        client: &Client,
        offer: &Offering,
        offered: Vec<Offered>,
        asked: Asked,
        (needed, began): (usize, Instant),
        source: Arc<FileSource>,
    ) -> Run {
        let (told, events) = mpsc::unbounded_channel();
        let (size, digest, cut) = (offer.size, offer.digest, offer.geometry);
        let mut watchers = Watchers::new(client.requester.clone(), client.config.timeout);
        let mut receivers = Vec::with_capacity(offered.len());
        for (index, offered) in offered.into_iter().enumerate() {
            let state = match &offered.refused {
                Some(reason) => ReceiverState::Failed(reason.clone()),
                None => ReceiverState::Unfinished,
            };
            if let (true, Some(address)) = (offered.accepted, offered.address) {
                watchers.watch(index, address, offered.session);
            }
            receivers.push(Receiver {
                offered,
                state,
                detached: None,
                blocks: (0, 0),
                lost: None,
                advanced: Instant::now(),
            });
        }
        Run {
            handle: client.driver.handle(),
            timeout: client.config.timeout,
            began,
            size,
            digest,
            object: object_of(size, &cut, digest.tag()),
            group: offer.group,
            initial_window: cut.initial_window,
            source,
            needed,
            finish_rest: false,
            quorum_after: None,
            receivers,
            sendings: Vec::new(),
            told,
            events,
            watchers,
            asked,
            opener: PathOpener::of(client),
            paths: Vec::new(),
            updates: Updates::default(),
            keys: None,
            examine: None,
            examined: JoinSet::new(),
        }
    }

    /// Has the paths examined if no block arrives for a while: symbols so cut may be too long for one.
    pub(super) fn examine_if_nothing_arrives(&mut self, requester: &Requester, cut: &Geometry) {
        let at = Instant::now() + suspected_after(self.timeout);
        self.examine = Some((at, requester.clone(), datagram_len(cut, requester)));
    }

    /// Whether no host has any block that it was sent.
    fn nothing_arrived(&self) -> bool {
        let nothing = |r: &Receiver| {
            let held: u32 = r.offered.held.iter().map(|run| run.end - run.start).sum();
            r.state == ReceiverState::Unfinished && r.blocks.0 <= held || !r.offered.accepted
        };
        self.receivers.iter().all(nothing)
    }

    fn examine_paths(&mut self) {
        if self.examine.as_ref().is_none_or(|(at, ..)| Instant::now() < *at) {
            return;
        }
        if let Some((_, requester, len)) = self.examine.take()
            && self.nothing_arrived()
        {
            let accepted = self.receivers.iter().filter(|r| r.offered.accepted);
            let hosts = accepted.filter_map(|r| r.offered.address).collect();
            self.examined.spawn(examine(requester, hosts, len));
        }
    }

    /// Opens the sessions: one for the group, or one for each receiver.
    pub(super) fn send(&mut self) -> Result<(), PutError> {
        let lacks = |r: &Receiver| r.offered.accepted && !r.offered.complete;
        let wanting: Vec<usize> =
            (0..self.receivers.len()).filter(|&i| lacks(&self.receivers[i])).collect();
        let Some(group) = self.group else {
            return wanting.into_iter().try_for_each(|index| self.send_to(index));
        };
        let of = |index: &usize| &self.receivers[*index].offered;
        let Some(session) = wanting.first().map(|index| of(index).session) else { return Ok(()) };
        let members = wanting.iter().filter_map(|index| of(index).address).collect();
        let held = wanting.iter().map(|index| of(index).held.clone());
        let held = held.reduce(|all, held| in_both(&all, &held)).unwrap_or_default();
        let needed = self.symbols_beside(&held);
        let to = Recipients::Many { group: Some(group), members, held };
        self.open(session, to, needed, None)
    }

    /// Opens the session for a receiver that is sent to alone.
    fn send_to(&mut self, index: usize) -> Result<(), PutError> {
        let offered = &self.receivers[index].offered;
        let Some(receiver) = offered.address else { return Ok(()) };
        let (session, needed) = (offered.session, self.symbols_beside(&offered.held));
        let floor = first_missing(&offered.held);
        let resume = Resume { epoch: RESUMED_EPOCH, floor, horizon: floor };
        let resume = Some(resume).filter(|_| floor > 0);
        self.open(session, Recipients::One { receiver, share: Share::WHOLE }, needed, resume)?;
        let opener = &self.opener;
        self.paths.push(match self.size >= WORTH_FURTHER {
            true => Paths::open_as_told(opener, session, receiver),
            false => Paths::open(opener, session, receiver, &[]),
        });
        Ok(())
    }

    /// Source symbols of the blocks that are not among these.
    fn symbols_beside(&self, held: &[Range<u32>]) -> u64 {
        let first = |sbn| self.object.first_symbol_of_block(sbn);
        let held: u64 = held.iter().map(|run| first(run.end) - first(run.start)).sum();
        self.object.total_symbols() - held
    }

    fn open(
        &mut self,
        session: SessionId,
        to: Recipients,
        needed: u64,
        resume: Option<Resume>,
    ) -> Result<(), PutError> {
        let told = self.told.clone();
        let request = SendObject {
            session,
            object: self.object,
            digest: self.digest.0,
            source: Arc::clone(&self.source) as Arc<dyn crate::store::ObjectSource>,
            to,
            initial_window: self.initial_window,
            resume,
        };
        let progress = self.handle.send_object(
            request,
            Box::new(move |event| {
                // Nobody listens only when the put was dropped.
                let _ = told.send((session, event));
            }),
        )?;
        self.sendings.push(Sending { session, needed, progress, stats: None });
        Ok(())
    }

    /// A host has verified what it has, while others were sent to.
    fn on_late(&mut self, index: usize, told: Result<Taken, AskError>) -> Result<(), PutError> {
        let offered = &mut self.receivers[index].offered;
        offered.hear(told);
        if let Some(reason) = offered.refused.clone() {
            self.fail(index, reason);
            return Ok(());
        }
        let (session, complete) = (offered.session, offered.complete);
        if let Some(address) = offered.address {
            self.watchers.watch(index, address, session);
        }
        if complete { Ok(()) } else { self.send_to(index) }
    }

    pub(super) async fn follow(mut self) -> Result<Followed, PutError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.has_unfinished() && (self.finish_rest || self.quorum_after.is_none()) {
            tokio::select! {
                biased;
                Some((session, event)) = self.events.recv() => self.on_event(session, event),
                Some((index, seen)) = self.watchers.next() => self.on_seen(index, seen),
                Some(Ok((index, told))) = self.asked.join_next() => self.on_late(index, told)?,
                Some(Ok(is_narrow)) = self.examined.join_next() => {
                    if is_narrow && self.nothing_arrived() {
                        return Ok(Followed::Narrow);
                    }
                }
                _ = ticks.tick() => {
                    self.tell_progress();
                    self.examine_paths();
                    if self.quorum_after.is_some() && self.rest_is_stuck() {
                        break;
                    }
                }
            }
        }
        self.hear_last_words().await;
        let report = self.report();
        if report.complete() >= self.needed {
            Ok(Followed::Done(report))
        } else {
            Err(PutError::Incomplete(Box::new(report)))
        }
    }

    /// Waits a moment for the accounts of sessions whose receivers are done.
    async fn hear_last_words(&mut self) {
        let until = Instant::now() + LAST_WORD;
        let complete = |r: &Receiver| matches!(r.state, ReceiverState::Complete(_));
        let served = self.receivers.iter().any(complete) && !self.has_unfinished();
        while served && self.sendings.iter().any(|s| s.stats.is_none()) {
            match tokio::time::timeout_at(until, self.events.recv()).await {
                Ok(Some((session, event))) => self.on_event(session, event),
                _ => break,
            }
        }
    }

    fn has_unfinished(&self) -> bool {
        self.receivers.iter().any(|r| r.state == ReceiverState::Unfinished)
    }

    fn rest_is_stuck(&self) -> bool {
        let stuck = |r: &Receiver| {
            r.state != ReceiverState::Unfinished || r.advanced.elapsed() > self.timeout
        };
        self.receivers.iter().all(stuck)
    }

    fn tell_progress(&self) {
        // Those that count: the furthest, as many as are needed.
        let mut done: Vec<u32> = self.receivers.iter().map(|r| r.blocks.0).collect();
        done.sort_unstable_by(|a, b| b.cmp(a));
        let blocks = done.get(self.needed - 1).copied().unwrap_or(0);
        let done = self.bytes_of_first(blocks);
        if self.updates.are_of_hosts() {
            let receivers = self.receivers.iter().map(|receiver| self.progress_of(receiver));
            self.updates.tell(Update::Receivers { receivers: receivers.collect() });
        }
        let symbols = self.sendings.iter().map(|s| s.progress.symbols()).sum();
        self.updates.tell(Update::Moving { done, total: self.size, symbols });
    }

    fn progress_of(&self, receiver: &Receiver) -> ReceiverProgress {
        let (blocks, total) = receiver.blocks;
        let is_live = receiver.state == ReceiverState::Unfinished;
        let is_complete = matches!(receiver.state, ReceiverState::Complete(_));
        let state = match (&receiver.state, &receiver.detached) {
            (ReceiverState::Complete(_), _) => "complete".to_owned(),
            (ReceiverState::Failed(reason), _) => reason.clone(),
            _ if total > 0 && blocks == total => "verifies".to_owned(),
            (_, Some(cause)) => format!("by unicast: {cause}"),
            _ => "receives".to_owned(),
        };
        let done = if is_complete { self.size } else { self.bytes_of_first(blocks) };
        let host = receiver.offered.host.clone();
        let (total, idle) = (self.size, receiver.advanced.elapsed());
        ReceiverProgress { host, is_live, state, done, total, idle }
    }

    /// Length of so many blocks, taken from the first on \[bytes\].
    fn bytes_of_first(&self, blocks: u32) -> u64 {
        let (first, len) = self.object.byte_range_of_block(blocks.saturating_sub(1));
        if blocks == 0 { 0 } else { (first + len).min(self.size) }
    }

    fn on_event(&mut self, session: SessionId, event: SessionEvent) {
        match event {
            SessionEvent::Sent { stats } => {
                if let Some(sending) = self.sendings.iter_mut().find(|s| s.session == session) {
                    sending.stats = Some(stats);
                }
            }
            SessionEvent::ReceiverFinished { receiver } => {
                if let Some(index) = self.index_of(receiver) {
                    self.watchers.hurry(index);
                }
            }
            SessionEvent::ReceiverLost { receiver, reason } => {
                let Some(index) = self.index_of(receiver) else { return };
                let reason = match reason {
                    None => "fell silent".to_owned(),
                    Some(reason) => format!("closed the session ({reason:?})"),
                };
                self.receivers[index].lost = Some(reason);
                self.exclude(index);
                self.watchers.hurry(index);
            }
            SessionEvent::Straggler { receiver, symbols_behind, cause, action } => {
                let Some(index) = self.index_of(receiver) else { return };
                let detached = action == StragglerAction::Detached;
                tracing::debug!(%receiver, symbols_behind, %cause, detached, "straggler");
                if detached {
                    self.receivers[index].detached = Some(cause);
                }
                let host = self.receivers[index].offered.host.clone();
                let cause = cause.to_string();
                self.updates.tell(Update::Straggler { host, symbols_behind, cause, detached });
            }
            SessionEvent::Failed(failure) => self.on_failure(session, &failure),
            _ => {}
        }
    }

    fn on_failure(&mut self, session: SessionId, failure: &Failure) {
        if let Some(sending) = self.sendings.iter_mut().find(|s| s.session == session) {
            sending.stats = Some(sending.cut_short());
        }
        // Receivers that are gone tell so themselves, or by silence; what failed here ends all.
        if matches!(failure, Failure::PeersLost | Failure::Closed(_)) {
            return;
        }
        for index in 0..self.receivers.len() {
            if self.receivers[index].offered.session == session {
                self.fail(index, format!("the transfer failed here: {failure}"));
            }
        }
    }

    fn index_of(&self, receiver: SocketAddr) -> Option<usize> {
        let receiver = canonical(receiver);
        self.receivers.iter().position(|r| r.offered.address.map(canonical) == Some(receiver))
    }

    /// A receiver that is given up is to read no more.
    fn exclude(&mut self, index: usize) {
        if let (Some(keys), Some(address)) = (&mut self.keys, self.receivers[index].offered.address)
        {
            keys.exclude(address);
        }
    }

    fn fail(&mut self, index: usize, reason: String) {
        self.exclude(index);
        let receiver = &mut self.receivers[index];
        if receiver.state == ReceiverState::Unfinished {
            self.watchers.stop(index);
            receiver.state = ReceiverState::Failed(reason.clone());
            let host = receiver.offered.host.clone();
            self.updates.tell(Update::Lost { host, reason });
        }
    }

    fn on_seen(&mut self, index: usize, seen: Seen) {
        let elapsed = self.began.elapsed();
        let receiver = &mut self.receivers[index];
        if let (Seen::LeftGroup { .. }, Some(address)) = (&seen, receiver.offered.address) {
            // A driver that has stopped has ended its sessions.
            let _ = self.handle.detach(receiver.offered.session, address);
        }
        match seen {
            Seen::Receiving { done, total } | Seen::LeftGroup { done, total } => {
                if done > receiver.blocks.0 {
                    receiver.advanced = Instant::now();
                }
                receiver.blocks = (done, total);
            }
            Seen::Complete { total } => {
                receiver.blocks = (total, total);
                receiver.state = ReceiverState::Complete(elapsed);
                let host = receiver.offered.host.clone();
                self.updates.tell(Update::Complete { host });
                let complete = |r: &&Receiver| matches!(r.state, ReceiverState::Complete(_));
                let complete = self.receivers.iter().filter(complete).count();
                if complete == self.needed {
                    self.quorum_after = Some(elapsed);
                    self.updates.tell(Update::Quorum { complete });
                }
            }
            Seen::Failed(reason) => {
                let reason = match receiver.lost.take() {
                    Some(lost) => format!("{reason} ({lost})"),
                    None => reason,
                };
                self.fail(index, reason);
            }
        }
    }

    fn report(&mut self) -> PutReport {
        let mut stats = SendStats::default();
        for sending in &self.sendings {
            let of = sending.stats.unwrap_or_else(|| sending.cut_short());
            stats.source_symbols += of.source_symbols;
            stats.repair_symbols += of.repair_symbols;
            stats.pulls += of.pulls;
        }
        PutReport {
            size: self.size,
            digest: self.digest,
            elapsed: self.began.elapsed(),
            quorum_after: self.quorum_after,
            needed: self.needed,
            symbols_needed: self.sendings.iter().map(|s| s.needed).sum(),
            stats,
            receivers: self
                .receivers
                .drain(..)
                .map(|r| ReceiverReport {
                    host: r.offered.host,
                    address: r.offered.address,
                    state: r.state,
                    detached: r.detached,
                    resumed: bytes_of(&self.object, &r.offered.held),
                    blocks: r.blocks,
                })
                .collect(),
        }
    }
}
