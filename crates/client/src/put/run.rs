//! A put under way: its sessions, its receivers, what they and the protocol say, and the report at the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use wellspring_core::{Priority, SessionId};
use wellspring_transport::scdp::{Resume, Share, StragglerAction};
use wellspring_wire::control::Geometry;

use super::account::{Account, Receiver, Sending};
use super::group_keys::GroupKeys;
use super::offers::{Asked, Offered, Offering, Taken, in_both};
use super::watch::{Seen, Watchers};
use crate::driver::{Failure, SessionEvent};
use crate::manifest::{RESUMED_EPOCH, first_missing};
use crate::narrow::{datagram_len, examine, suspected_after};
use crate::paths::{PathOpener, Paths};
use crate::protocols::{DriverHandle, Recipients, SendObject};
use crate::replicas::WORTH_FURTHER;
use crate::report::{PutReport, ReceiverState};
use crate::requester::{AskError, Requester};
use crate::store::FileSource;
use crate::task::JoinSet;
use crate::update::TICK;
use crate::{Client, PutError, Update, Updates};

/// How long the last counters of the protocol are waited for once all receivers have answered.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A put under way.
pub(super) struct Run {
    handle: DriverHandle,
    timeout: Duration,
    account: Account,
    group: Option<SocketAddr>,
    initial_window: u8,
    priority: Priority,
    source: Arc<FileSource>,
    /// Whether hosts beyond the quorum are waited for.
    pub(super) finish_rest: bool,
    quorum_after: Option<Duration>,
    told: mpsc::UnboundedSender<(SessionId, SessionEvent)>,
    events: mpsc::UnboundedReceiver<(SessionId, SessionEvent)>,
    watchers: Watchers,
    /// Hosts that are silent so far, or are still verifying what they have.
    asked: Asked,
    opener: PathOpener,
    /// Further paths of the sessions to one host each.
    paths: Vec<Paths>,
    pub(super) updates: Updates,
    /// Of its group, if the host has keys.
    pub(super) keys: Option<GroupKeys>,
    /// When the paths are examined if nothing has arrived by then; absent if they are not, or were.
    examine: Option<(Instant, Requester, u16)>,
    /// By whom they are, or were, and the length of datagrams that were to pass.
    examined_by: Option<(Requester, u16)>,
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
        for sending in self.account.sendings.iter().filter(|s| s.stats.is_none()) {
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
        account: (usize, Instant),
        source: Arc<FileSource>,
    ) -> Run {
        let (told, events) = mpsc::unbounded_channel();
        let mut account = Account::new(offer, account);
        let mut watchers = Watchers::new(client.requester.clone(), client.config.timeout);
        for (index, offered) in offered.into_iter().enumerate() {
            let state = match &offered.refused {
                Some(reason) => ReceiverState::Failed(reason.clone()),
                None => ReceiverState::Unfinished,
            };
            if let (true, Some(address)) = (offered.accepted, offered.address) {
                watchers.watch(index, address, offered.session);
            }
            account.receivers.push(Receiver {
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
            account,
            group: offer.group,
            initial_window: offer.geometry.initial_window,
            priority: offer.priority,
            source,
            finish_rest: false,
            quorum_after: None,
            told,
            events,
            watchers,
            asked,
            opener: PathOpener::of(client),
            paths: Vec::new(),
            updates: Updates::default(),
            keys: None,
            examine: None,
            examined_by: None,
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
        self.account.receivers.iter().all(|r| has_nothing(r) || !r.offered.accepted)
    }

    fn examine_paths(&mut self) {
        if self.examine.as_ref().is_none_or(|(at, ..)| Instant::now() < *at) {
            return;
        }
        let Some((_, requester, len)) = self.examine.take() else { return };
        let without =
            self.account.receivers.iter().filter(|r| r.offered.accepted && has_nothing(r));
        let hosts: Vec<_> = without.filter_map(|r| r.offered.address).collect();
        if !hosts.is_empty() {
            self.examined.spawn(examine(requester.clone(), hosts, len));
            self.examined_by = Some((requester, len));
        }
    }

    /// Opens the sessions: one for the group, or one for each receiver.
    pub(super) fn send(&mut self) -> Result<(), PutError> {
        let lacks = |r: &Receiver| r.offered.accepted && !r.offered.complete;
        let wanting: Vec<usize> = (0..self.account.receivers.len())
            .filter(|&i| lacks(&self.account.receivers[i]))
            .collect();
        let Some(group) = self.group else {
            return wanting.into_iter().try_for_each(|index| self.send_to(index));
        };
        let of = |index: &usize| &self.account.receivers[*index].offered;
        let Some(session) = wanting.first().map(|index| of(index).session) else { return Ok(()) };
        let members = wanting.iter().filter_map(|index| of(index).address).collect();
        let held = wanting.iter().map(|index| of(index).held.clone());
        let held = held.reduce(|all, held| in_both(&all, &held)).unwrap_or_default();
        let needed = self.account.symbols_beside(&held);
        let to = Recipients::Many { group: Some(group), members, held };
        self.open(session, to, needed, None)
    }

    /// Opens the session for a receiver that is sent to alone.
    fn send_to(&mut self, index: usize) -> Result<(), PutError> {
        let offered = &self.account.receivers[index].offered;
        let Some(receiver) = offered.address else { return Ok(()) };
        let (session, needed) = (offered.session, self.account.symbols_beside(&offered.held));
        let floor = first_missing(&offered.held);
        let resume = Resume { epoch: RESUMED_EPOCH, floor, horizon: floor };
        let resume = Some(resume).filter(|_| floor > 0);
        self.open(session, Recipients::One { receiver, share: Share::WHOLE }, needed, resume)?;
        let opener = &self.opener;
        self.paths.push(match self.account.size >= WORTH_FURTHER {
            true => Paths::open_as_told(opener, session, receiver),
            false => Paths::open(opener, session, receiver, &[]),
        });
        Ok(())
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
            object: self.account.object,
            digest: self.account.digest.0,
            source: Arc::clone(&self.source) as Arc<dyn crate::store::ObjectSource>,
            to,
            initial_window: self.initial_window,
            resume,
            priority: self.priority,
            key: None,
        };
        let progress = self.handle.send_object(
            request,
            Box::new(move |event| {
                // Nobody listens only when the put was dropped.
                let _ = told.send((session, event));
            }),
        )?;
        self.account.sendings.push(Sending { session, needed, progress, stats: None });
        Ok(())
    }

    /// A host has answered, and verified what it has, while others were sent to.
    fn on_late(&mut self, index: usize, told: Result<Taken, AskError>) -> Result<(), PutError> {
        let offered = &mut self.account.receivers[index].offered;
        offered.hear(told, self.priority.is_background());
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
        while self.account.has_unfinished() && (self.finish_rest || self.quorum_after.is_none()) {
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
                    self.account.tell_progress(&self.updates);
                    self.examine_paths();
                    if self.quorum_after.is_some() && self.rest_is_stuck() {
                        break;
                    }
                }
            }
        }
        self.hear_last_words().await;
        let report = self.account.report(self.quorum_after);
        if report.complete() >= self.account.needed {
            Ok(Followed::Done(report))
        } else {
            Err(PutError::Incomplete(Box::new(report)))
        }
    }

    /// Waits a moment for the accounts of sessions whose receivers are done.
    async fn hear_last_words(&mut self) {
        let until = Instant::now() + LAST_WORD;
        let complete = |r: &Receiver| matches!(r.state, ReceiverState::Complete(_));
        let served = self.account.receivers.iter().any(complete) && !self.account.has_unfinished();
        while served && self.account.sendings.iter().any(|s| s.stats.is_none()) {
            match tokio::time::timeout_at(until, self.events.recv()).await {
                Ok(Some((session, event))) => self.on_event(session, event),
                _ => break,
            }
        }
    }

    fn rest_is_stuck(&self) -> bool {
        let stuck = |r: &Receiver| {
            r.state != ReceiverState::Unfinished || r.advanced.elapsed() > self.timeout
        };
        self.account.receivers.iter().all(stuck)
    }

    fn on_event(&mut self, session: SessionId, event: SessionEvent) {
        match event {
            SessionEvent::Sent { stats } => {
                if let Some(sending) =
                    self.account.sendings.iter_mut().find(|s| s.session == session)
                {
                    sending.stats = Some(stats);
                }
            }
            SessionEvent::ReceiverFinished { receiver } => {
                if let Some(index) = self.account.index_of(receiver) {
                    self.watchers.hurry(index);
                }
            }
            SessionEvent::ReceiverLost { receiver, reason } => {
                let Some(index) = self.account.index_of(receiver) else { return };
                let reason = match reason {
                    None => "fell silent".to_owned(),
                    Some(reason) => format!("closed the session ({reason:?})"),
                };
                self.account.receivers[index].lost = Some(reason);
                self.exclude(index);
                self.watchers.hurry(index);
            }
            SessionEvent::Straggler { receiver, symbols_behind, cause, action } => {
                let Some(index) = self.account.index_of(receiver) else { return };
                let detached = action == StragglerAction::Detached;
                tracing::debug!(%receiver, symbols_behind, %cause, detached, "straggler");
                if detached {
                    self.account.receivers[index].detached = Some(cause);
                }
                let host = self.account.receivers[index].offered.host.clone();
                let cause = cause.to_string();
                self.updates.tell(Update::Straggler { host, symbols_behind, cause, detached });
            }
            SessionEvent::Failed(failure) => self.on_failure(session, &failure),
            _ => {}
        }
    }

    fn on_failure(&mut self, session: SessionId, failure: &Failure) {
        if let Some(sending) = self.account.sendings.iter_mut().find(|s| s.session == session) {
            sending.stats = Some(sending.cut_short());
        }
        // Receivers that are gone tell so themselves, or by silence; what failed here ends all.
        if matches!(failure, Failure::PeersLost | Failure::Closed(_)) {
            return;
        }
        for index in 0..self.account.receivers.len() {
            if self.account.receivers[index].offered.session == session {
                self.fail(index, format!("the transfer failed here: {failure}"));
            }
        }
    }

    /// A receiver that is given up is to read no more.
    fn exclude(&mut self, index: usize) {
        if let (Some(keys), Some(address)) =
            (&mut self.keys, self.account.receivers[index].offered.address)
        {
            keys.exclude(address);
        }
    }

    fn fail(&mut self, index: usize, reason: String) {
        self.exclude(index);
        let reason = self.with_its_path(index, reason);
        let receiver = &mut self.account.receivers[index];
        if receiver.state == ReceiverState::Unfinished {
            self.watchers.stop(index);
            receiver.state = ReceiverState::Failed(reason.clone());
            let host = receiver.offered.host.clone();
            self.updates.tell(Update::Lost { host, reason });
        }
    }

    /// Why a host has failed, with what is known of its path: where others got their blocks, symbols stay as long as they are.
    fn with_its_path(&self, index: usize, reason: String) -> String {
        let receiver = &self.account.receivers[index];
        let address = receiver.offered.address.filter(|_| has_nothing(receiver));
        let (Some(address), Some((requester, len))) = (address, &self.examined_by) else {
            return reason;
        };
        let Some(payload) = requester.narrow_paths().of(address) else { return reason };
        let size = payload.saturating_sub(len - self.account.object.symbol_size.min(*len));
        format!("{reason}; its path drops longer datagrams: --symbol-size {size} fits")
    }

    fn on_seen(&mut self, index: usize, seen: Seen) {
        let elapsed = self.account.elapsed();
        let receiver = &mut self.account.receivers[index];
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
                let complete = self.account.complete();
                if complete == self.account.needed {
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
}

/// Whether a host has no block that it was sent.
fn has_nothing(receiver: &Receiver) -> bool {
    let held: u32 = receiver.offered.held.iter().map(|run| run.end - run.start).sum();
    receiver.state == ReceiverState::Unfinished && receiver.blocks.0 <= held
}
