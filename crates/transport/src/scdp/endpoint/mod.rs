//! One host's SCDP: all its sessions, one pull queue, one order of sending.

mod admission;
mod pace;
mod ready;
mod transmit;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use wellspring_core::{
    DropReason, Duration, Ecn, Frame, HostId, Rate, SessionId, Time, TimerQueue, Verdict, Work,
    WorkDone,
};
use wellspring_wire::scdp::{Close, CloseReason, ScdpHeader, Symbol};

use self::pace::Pace;
use self::ready::Ready;
use super::context::Context;
use super::receiver::{Arrival, Receiver};
use super::sender::Sender;
use super::{
    Command, CommandError, Config, Event, Fabric, FailReason, ObjectInfo, ReceiveStats, SendStats,
};
use crate::PullQueue;
use crate::slots::Slots;

/// Closes waiting to be sent, at most; further ones are dropped (they are only a courtesy).
const MAX_CLOSES: usize = 256;
/// Sessions remembered after they were received, so that late symbols are answered by "complete".
const MAX_REMEMBERED: usize = 256;
/// How late a pull may leave where symbols travel in batches: a batch's worth.
const PULL_SLACK: Duration = Duration::from_millis(1);

#[derive(Debug)]
enum Session {
    Receiving(Box<Receiver>),
    Sending(Box<Sender>),
}

/// One host's SCDP endpoint. See the [module documentation](super).
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    sessions: Slots<(SessionId, Session)>,
    places: BTreeMap<SessionId, u32>,
    timers: TimerQueue,
    /// Sessions whose deadline has come; empty between calls.
    due: Vec<u32>,
    pulls: PullQueue,
    /// Sessions that owe a sign of life. It asks for nothing, so that it waits for no pace.
    signs_of_life: VecDeque<u32>,
    /// Corrects the rate of pulls, if it is to be corrected.
    pace: Option<Pace>,
    ready: Ready,
    closes: VecDeque<(HostId, u16, SessionId, Close)>,
    received: VecDeque<SessionId>,
    events: VecDeque<Event>,
    work: VecDeque<Work>,
}

impl Endpoint {
    /// An endpoint without sessions.
    pub fn new(config: Config) -> Self {
        let link = config.link_rate;
        let pulls = if config.burst > 1 {
            PullQueue::batched(link, PULL_SLACK)
        } else {
            PullQueue::new(link, PullQueue::packets_late(link))
        };
        let pace = (config.adapt_pace && config.fabric == Fabric::Trimming)
            .then(|| Pace::new(link, config.granularity * 2));
        Endpoint {
            pulls,
            signs_of_life: VecDeque::new(),
            pace,
            sessions: Slots::new(),
            places: BTreeMap::new(),
            timers: TimerQueue::new(),
            due: Vec::new(),
            ready: Ready::default(),
            closes: VecDeque::new(),
            received: VecDeque::new(),
            events: VecDeque::new(),
            work: VecDeque::new(),
            config,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Paces pulls for a link of that rate from now on.
    pub fn set_link_rate(&mut self, now: Time, link: Rate) {
        if link == self.config.link_rate {
            return;
        }
        self.config.link_rate = link;
        self.pulls.begin_anew(now, link);
        if let Some(pace) = &mut self.pace {
            *pace = Pace::new(link, self.config.granularity * 2);
        }
    }

    /// Sessions open.
    pub fn sessions(&self) -> usize {
        self.places.len()
    }

    /// The object of an open session.
    pub fn object(&self, session: SessionId) -> Option<ObjectInfo> {
        let &place = self.places.get(&session)?;
        self.sessions.peek(place).map(|(_, state)| match state {
            Session::Receiving(receiver) => receiver.object(),
            Session::Sending(sender) => sender.object(),
        })
    }

    /// Of a receive session: the lowest incomplete block and the first block not asked for yet.
    /// What a sender that takes over receives in its [`Resume`](super::Resume).
    pub fn progress(&self, session: SessionId) -> Option<(u32, u32)> {
        let &place = self.places.get(&session)?;
        match self.sessions.peek(place) {
            Some((_, Session::Receiving(receiver))) => Some(receiver.horizon()),
            _ => None,
        }
    }

    /// The account of a receive session so far.
    pub fn receive_stats(&self, session: SessionId, now: Time) -> Option<ReceiveStats> {
        let &place = self.places.get(&session)?;
        match self.sessions.peek(place) {
            Some((_, Session::Receiving(receiver))) => Some(receiver.stats(now)),
            _ => None,
        }
    }

    /// The account of a send session so far.
    pub fn send_stats(&self, session: SessionId) -> Option<SendStats> {
        let &place = self.places.get(&session)?;
        match self.sessions.peek(place) {
            Some((_, Session::Sending(sender))) => Some(sender.stats()),
            _ => None,
        }
    }

    /// Of a receive session: the source symbols of an open block that have not come, ascending, are
    /// put behind what `missing` holds.
    pub fn missing_symbols(&self, session: SessionId, sbn: u32, missing: &mut Vec<u32>) {
        if let Some(&place) = self.places.get(&session)
            && let Some((_, Session::Receiving(receiver))) = self.sessions.peek(place)
        {
            receiver.missing_symbols(sbn, missing);
        }
    }

    /// Of a send session: the lowest block of which a receiver may still want symbols. Those below need
    /// not be kept.
    pub fn floor(&self, session: SessionId) -> Option<u32> {
        let &place = self.places.get(&session)?;
        match self.sessions.peek(place) {
            Some((_, Session::Sending(sender))) => sender.floor(),
            _ => None,
        }
    }

    /// A send session yields no symbols until it is to go on: those that it has yielded wait for their
    /// blocks. Credits are kept meanwhile.
    pub fn pause(&mut self, now: Time, session: SessionId, is_paused: bool) {
        if let Some(&place) = self.places.get(&session) {
            self.with(now, place, |session, _| {
                if let Session::Sending(sender) = session {
                    sender.pause(is_paused);
                }
            });
        }
    }

    /// A symbol that was yielded has gone out only now, since it waited for its block.
    pub fn left_late(&mut self, now: Time, session: SessionId, symbol: &Symbol) {
        if let Some(&place) = self.places.get(&session) {
            self.with(now, place, |session, _| {
                if let Session::Sending(sender) = session {
                    sender.left_late(now, symbol);
                }
            });
        }
    }

    fn insert(&mut self, id: SessionId, session: Session) -> u32 {
        let place = self.sessions.insert((id, session));
        self.ready.make_room(place);
        self.places.insert(id, place);
        place
    }

    /// The path that a frame has come by.
    fn path_of(&self, frame: &Frame<ScdpHeader>) -> u16 {
        if self.config.labels_are_paths() { frame.path } else { 0 }
    }

    /// Runs `input` on the session at `place` and settles what follows from it.
    fn with<R>(
        &mut self,
        now: Time,
        place: u32,
        input: impl FnOnce(&mut Session, &mut Context<'_>) -> R,
    ) -> R {
        let (_, session) = self.sessions.get(place).expect("places name open sessions");
        let mut cx =
            Context { now, config: &self.config, events: &mut self.events, work: &mut self.work };
        let result = input(session, &mut cx);
        self.refresh(now, place);
        result
    }

    /// Brings queues and timers in line with a session's state; removes it when it is over.
    fn refresh(&mut self, now: Time, place: u32) {
        let Some((id, session)) = self.sessions.peek(place) else { return };
        let (over, deadline) = match session {
            Session::Receiving(r) => (r.is_over(), r.deadline()),
            Session::Sending(s) => (s.is_over(), s.deadline()),
        };
        if over {
            let id = *id;
            self.close_peers(place, None);
            self.remove(id);
            return;
        }
        match session {
            Session::Receiving(r) if r.owes_sign_of_life() => self.owe_sign_of_life(place),
            Session::Receiving(r) if r.wants_pull() => {
                self.pulls.enqueue(now, place, r.priority());
            }
            Session::Sending(s) if s.can_send() => self.ready.enqueue(place, s.priority()),
            _ => {}
        }
        self.timers.set(place, deadline);
    }

    fn remove(&mut self, id: SessionId) {
        if let Some(place) = self.places.remove(&id) {
            self.timers.set(place, None);
            self.pulls.forget(place);
            self.sessions.remove(place);
        }
    }

    /// Notifies the peers of a session that it is over: for `reason`, or (a receive session that
    /// ended by itself) complete or refused.
    fn close_peers(&mut self, place: u32, reason: Option<CloseReason>) {
        let Some((id, session)) = self.sessions.peek(place) else { return };
        match session {
            Session::Receiving(receiver) => {
                let complete = receiver.horizon().0 > 0 && receiver.is_complete();
                let reason = reason.unwrap_or(if complete {
                    CloseReason::Complete
                } else {
                    CloseReason::Refused
                });
                for path in receiver.paths() {
                    push_close(&mut self.closes, path, *id, reason, true);
                }
                if complete {
                    if self.received.len() == MAX_REMEMBERED {
                        self.received.pop_front();
                    }
                    self.received.push_back(*id);
                }
            }
            Session::Sending(sender) => {
                let Some(reason) = reason else { return };
                for path in sender.paths() {
                    push_close(&mut self.closes, path, *id, reason, false);
                }
            }
        }
    }

    fn on_symbol(&mut self, now: Time, frame: &Frame<ScdpHeader>, symbol: &Symbol) -> Verdict {
        let place = match self.places.get(&frame.session) {
            Some(&place) => place,
            None => match self.accept(frame, symbol) {
                Ok(place) => place,
                Err(reason) => return Verdict::Drop(reason),
            },
        };
        let path = self.path_of(frame);
        let verdict = self.with(now, place, |session, cx| match session {
            Session::Receiving(receiver) => {
                let arrival = Arrival {
                    source: frame.source,
                    path,
                    symbol,
                    trimmed: frame.trimmed,
                    marked: frame.ecn == Ecn::Marked,
                };
                receiver.on_symbol(cx, arrival)
            }
            Session::Sending(_) => Verdict::Drop(DropReason::Misdirected),
        });
        // What was pushed says nothing of the pulls.
        if let Some(pace) = &mut self.pace
            && symbol.options.is_none()
            && !matches!(verdict, Verdict::Drop(_))
        {
            let bytes = u64::from(frame.payload_len) + u64::from(self.config.overhead_per_symbol);
            if let Some(rate) = pace.on_symbol(now, bytes, frame.trimmed) {
                self.pulls.set_rate(rate);
            }
        }
        verdict
    }

    fn on_close(&mut self, now: Time, frame: &Frame<ScdpHeader>, close: &Close) -> Verdict {
        let Some(&place) = self.places.get(&frame.session) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let path = self.path_of(frame);
        self.with(now, place, |session, cx| match session {
            Session::Receiving(receiver) if !close.from_receiver => {
                receiver.on_close(cx, (frame.source, path), close.reason);
                Verdict::Consumed
            }
            Session::Sending(sender) if close.from_receiver => {
                sender.on_close(cx, frame.source, close.reason);
                Verdict::Consumed
            }
            _ => Verdict::Drop(DropReason::Misdirected),
        })
    }
}

fn push_close(
    closes: &mut VecDeque<(HostId, u16, SessionId, Close)>,
    (peer, path): (HostId, u16),
    session: SessionId,
    reason: CloseReason,
    from_receiver: bool,
) {
    if closes.len() < MAX_CLOSES {
        closes.push_back((peer, path, session, Close { reason, from_receiver }));
    }
}

impl wellspring_core::Endpoint for Endpoint {
    type Header = ScdpHeader;
    type Command = Command;
    type Event = Event;
    type CommandError = CommandError;

    fn handle_command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Send(command) => self.open_send(now, &command),
            Command::Receive(command) => self.open_receive(now, &command),
            Command::SenderBack { session, sender, epoch } => {
                let &place =
                    self.places.get(&session).ok_or(CommandError::NoSuchSession(session))?;
                let found = self.with(now, place, |state, cx| match state {
                    Session::Receiving(r) => r.on_sender_back(cx.now, sender, epoch, cx.config),
                    Session::Sending(_) => false,
                });
                if found { Ok(()) } else { Err(CommandError::NoSuchSender(sender)) }
            }
            Command::AddPath { session, peer, path } => {
                let &place =
                    self.places.get(&session).ok_or(CommandError::NoSuchSession(session))?;
                let most = self.config.most_paths().saturating_sub(1);
                let (got, limit) = (path.into(), u64::from(most));
                if path == 0 || got > limit {
                    return Err(CommandError::OverLimit { what: "path", got, limit });
                }
                self.with(now, place, |state, cx| match state {
                    Session::Receiving(r) => r.add_path(cx.now, (peer, path), cx.config),
                    Session::Sending(s) => s.add_path(cx.now, (peer, path), cx.config),
                })
            }
            Command::Wait { session, peer_timeout, win_back } => {
                let &place =
                    self.places.get(&session).ok_or(CommandError::NoSuchSession(session))?;
                self.with(now, place, |state, cx| match state {
                    Session::Receiving(r) => r.wait_for(peer_timeout, win_back, cx.config),
                    Session::Sending(s) => s.wait_for(peer_timeout, cx.config),
                });
                Ok(())
            }
            Command::Detach { session, receiver } => {
                let &place =
                    self.places.get(&session).ok_or(CommandError::NoSuchSession(session))?;
                self.with(now, place, |state, cx| {
                    if let Session::Sending(sender) = state {
                        sender.detach(cx, receiver);
                    }
                });
                Ok(())
            }
            Command::Cancel { session } => {
                let &place =
                    self.places.get(&session).ok_or(CommandError::NoSuchSession(session))?;
                self.close_peers(place, Some(CloseReason::Cancelled));
                self.remove(session);
                let reason = FailReason::Closed(CloseReason::Cancelled);
                self.events.push_back(Event::Failed { session, reason });
                Ok(())
            }
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame<ScdpHeader>) -> Verdict {
        if frame.source == self.config.host {
            return Verdict::Drop(DropReason::Misdirected); // our own multicast, looped back
        }
        let path = self.path_of(frame);
        let verdict = match &frame.header {
            ScdpHeader::Symbol(symbol) => self.on_symbol(now, frame, symbol),
            ScdpHeader::Pull(pull) => match self.places.get(&frame.session) {
                None => Verdict::Drop(DropReason::UnknownSession),
                Some(&place) => self.with(now, place, |session, cx| match session {
                    Session::Sending(sender) => sender.on_pull(cx, (frame.source, path), pull),
                    Session::Receiving(_) => Verdict::Drop(DropReason::Misdirected),
                }),
            },
            ScdpHeader::Close(close) => self.on_close(now, frame, close),
        };
        let is_control = frame.trimmed || frame.payload_len == 0;
        // What strangers send does not slow pulls down.
        if self.config.reckon_control && is_control && !matches!(verdict, Verdict::Drop(_)) {
            self.pulls.book(now, self.config.overhead_per_symbol.into());
        }
        verdict
    }

    fn handle_timeout(&mut self, now: Time) {
        self.pulls.forget_past(now);
        while let Some(place) = self.timers.pop_due(now) {
            self.due.push(place);
        }
        while let Some(place) = self.due.pop() {
            self.with(now, place, |session, cx| match session {
                Session::Receiving(receiver) => receiver.on_timeout(cx),
                Session::Sending(sender) => sender.on_timeout(cx),
            });
        }
        debug_assert!(
            self.timers.next_deadline().is_none_or(|at| at.is_after(now)),
            "a deadline that stays due would keep the driver busy for ever: {self:?}"
        );
    }

    fn handle_work_done(&mut self, now: Time, done: WorkDone) {
        let (WorkDone::Finished { session, .. }
        | WorkDone::NeedMore { session, .. }
        | WorkDone::Wrong { session, .. }) = done;
        let Some(&place) = self.places.get(&session) else { return };
        self.with(now, place, |state, cx| match (state, done) {
            (Session::Receiving(r), WorkDone::Finished { sbn, .. }) => r.on_finished(cx, sbn),
            (Session::Receiving(r), WorkDone::NeedMore { sbn, more, .. }) => {
                r.on_need_more(cx, sbn, more);
            }
            (Session::Receiving(r), WorkDone::Wrong { sbn, more, .. }) => r.on_wrong(cx, sbn, more),
            (Session::Sending(_), _) => {}
        });
    }

    fn poll_work(&mut self) -> Option<Work> {
        self.work.pop_front()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Frame<ScdpHeader>> {
        self.next_close().or_else(|| self.next_pull(now)).or_else(|| self.next_symbol(now))
    }

    fn poll_timeout(&self) -> Option<Time> {
        Time::earliest([self.timers.next_deadline(), self.pulls.deadline()].into_iter().flatten())
    }
}
