//! One host's TCP: all its transfers.

use super::config::Config;
use super::header::TcpHeader;
use super::receiver::{Answer, ReceiveStats, Receiver};
use super::sender::{Ack, Deadline, SendStats, Sender, TimeoutState};
use crate::slots::Slots;
use crate::transfer::{CommandError, FailReason};
use alloc::collections::{BTreeMap, VecDeque};
use wellspring_core::{
    Class, Destination, DropReason, Ecn, Endpoint as EndpointContract, Frame, HostId, Identity,
    SessionId, Time, TimerQueue, Verdict, Work, WorkDone,
};

/// Opens a transfer at its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendTransfer {
    /// The transfer, not in use between these two hosts.
    pub session: SessionId,
    /// To whom.
    pub receiver: HostId,
    /// Length \[bytes\], at least 1.
    pub transfer_len: u64,
    /// A fixed class for its segments instead of the configuration's rule.
    pub class: Option<Class>,
}

/// What the application asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send a transfer.
    Send(SendTransfer),
    /// End a transfer early, telling the receiver.
    Cancel {
        /// The transfer.
        session: SessionId,
    },
}

/// What the application is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The first segment of a transfer came.
    Accepted {
        /// The transfer.
        session: SessionId,
        /// Who sends.
        sender: HostId,
    },
    /// Another [`Config::progress_every`] bytes came.
    Progress {
        /// The transfer.
        session: SessionId,
        /// Bytes since the last such event.
        bytes: u64,
    },
    /// A transfer is complete at its receiver.
    Received {
        /// The transfer.
        session: SessionId,
        /// Who sent.
        sender: HostId,
        /// Its account.
        stats: ReceiveStats,
    },
    /// A transfer is complete, and known to be, at its sender.
    Sent {
        /// The transfer.
        session: SessionId,
        /// Its account.
        stats: SendStats,
    },
    /// A sender's retransmission timer went off.
    TimedOut {
        /// The transfer.
        session: SessionId,
        /// What it was at.
        state: TimeoutState,
    },
    /// A transfer ended without success.
    Failed {
        /// The transfer.
        session: SessionId,
        /// Why.
        reason: FailReason,
    },
}

/// ACKs that wait for the interface at most: more than any window has segments, and then new ones
/// are lost, as on a real host's full interface.
const MOST_WAITING: usize = 1 << 16;

/// One host for TCP.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    senders: Slots<Sender>,
    receivers: Slots<Receiver>,
    by_session: BTreeMap<SessionId, u32>,
    by_peer: BTreeMap<(HostId, SessionId), u32>,
    /// Senders that can send, taking turns. May name places that are empty by now.
    ready: VecDeque<u32>,
    control: VecDeque<(HostId, SessionId, TcpHeader)>,
    /// Deadlines: owner 2n is sender n, 2n + 1 receiver n.
    timers: TimerQueue,
    events: VecDeque<Event>,
}

impl Endpoint {
    /// A host without transfers.
    pub fn new(config: Config) -> Self {
        Endpoint {
            config,
            senders: Slots::new(),
            receivers: Slots::new(),
            by_session: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            ready: VecDeque::new(),
            control: VecDeque::new(),
            timers: TimerQueue::new(),
            events: VecDeque::new(),
        }
    }

    /// Transfers being sent and received, finished ones that are remembered included.
    pub fn open_transfers(&self) -> usize {
        self.by_session.len() + self.by_peer.len()
    }

    fn answer(&mut self, peer: HostId, session: SessionId, header: TcpHeader) {
        if self.control.len() < MOST_WAITING {
            self.control.push_back((peer, session, header));
        }
    }

    /// Sets a sender's timer and gives it a turn, if it can use one.
    fn settle_sender(&mut self, place: u32) {
        let Some(sender) = self.senders.get(place) else { return };
        let can_send = sender.can_send(&self.config);
        let deadline = sender.deadline(&self.config);
        if can_send && !sender.ready {
            sender.ready = true;
            self.ready.push_back(place);
        }
        self.timers.set(place * 2, Some(deadline));
    }

    /// The receiver of a segment: known, or opened by it.
    fn receiver_of(&mut self, now: Time, frame: &Frame<TcpHeader>, total: u64) -> Option<u32> {
        let key = (frame.source, frame.session);
        if let Some(place) = self.by_peer.get(&key) {
            return Some(*place);
        }
        if self.by_peer.len() >= self.config.max_receivers as usize {
            return None;
        }
        let receiver = Receiver::new(now, frame.session, frame.source, total);
        let place = self.receivers.insert(receiver);
        self.by_peer.insert(key, place);
        self.events.push_back(Event::Accepted { session: frame.session, sender: frame.source });
        Some(place)
    }

    fn on_data(&mut self, now: Time, frame: &Frame<TcpHeader>, offset: u64, total: u64) -> Verdict {
        let len = frame.payload_len;
        let impossible = offset.checked_add(len.into()).is_none_or(|end| end > total);
        // What is left of a segment that was cut is none.
        if impossible || frame.trimmed || len == 0 {
            return Verdict::Drop(DropReason::Malformed);
        }
        let Some(place) = self.receiver_of(now, frame, total) else {
            return Verdict::Drop(DropReason::OverLimit);
        };
        let Some(receiver) = self.receivers.get(place) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let marked = frame.ecn == Ecn::Marked && self.config.congestion.reads_marks();
        let answer = receiver.on_segment(now, (offset, len, total), marked, &self.config);
        let Some(answer) = answer else { return Verdict::Drop(DropReason::Malformed) };
        let (stats, deadline) = (receiver.stats, receiver.deadline(&self.config));
        self.timers.set(place * 2 + 1, Some(deadline));
        self.tell(frame, &answer, stats);
        match answer.drop {
            Some(reason) => Verdict::Drop(reason),
            None => Verdict::Keep(Identity::Range { session: frame.session, offset, len }),
        }
    }

    /// Passes on what a segment called for.
    fn tell(&mut self, frame: &Frame<TcpHeader>, answer: &Answer, stats: ReceiveStats) {
        let (session, sender) = (frame.session, frame.source);
        for header in [answer.before, answer.ack].into_iter().flatten() {
            self.answer(sender, session, header);
        }
        if let Some(bytes) = answer.progress {
            self.events.push_back(Event::Progress { session, bytes });
        }
        if answer.complete {
            self.events.push_back(Event::Received { session, sender, stats });
        }
    }

    fn on_ack(&mut self, now: Time, frame: &Frame<TcpHeader>, next: u64, echo: bool) -> Verdict {
        let Some(&place) = self.by_session.get(&frame.session) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let Some(sender) = self.senders.get(place).filter(|s| s.receiver == frame.source) else {
            return Verdict::Drop(DropReason::UnknownPeer);
        };
        match sender.on_ack(now, next, echo, &self.config) {
            Ack::Impossible => return Verdict::Drop(DropReason::Malformed),
            Ack::Stale => return Verdict::Drop(DropReason::Stale),
            Ack::Taken => self.settle_sender(place),
            Ack::Complete => {
                let event = Event::Sent { session: frame.session, stats: sender.stats };
                self.events.push_back(event);
                self.close_sender(place);
            }
        }
        Verdict::Consumed
    }

    fn on_reset(&mut self, frame: &Frame<TcpHeader>) -> Verdict {
        let Some(&place) = self.by_peer.get(&(frame.source, frame.session)) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let open = self.receivers.get(place).is_some_and(|receiver| !receiver.done);
        self.forget_receiver(place);
        if open {
            let (session, reason) = (frame.session, FailReason::Closed);
            self.events.push_back(Event::Failed { session, reason });
        }
        Verdict::Consumed
    }

    fn close_sender(&mut self, place: u32) {
        self.timers.set(place * 2, None);
        if let Some(sender) = self.senders.remove(place) {
            self.by_session.remove(&sender.session);
        }
    }

    fn forget_receiver(&mut self, place: u32) {
        self.timers.set(place * 2 + 1, None);
        if let Some(receiver) = self.receivers.remove(place) {
            self.by_peer.remove(&(receiver.sender, receiver.session));
        }
    }

    fn on_sender_deadline(&mut self, now: Time, place: u32) {
        let Some(sender) = self.senders.get(place) else { return };
        let session = sender.session;
        match sender.on_deadline(now, &self.config) {
            Deadline::Early => {}
            Deadline::TimedOut(state) => self.events.push_back(Event::TimedOut { session, state }),
            Deadline::PeerLost => {
                let reason = FailReason::PeerLost;
                self.events.push_back(Event::Failed { session, reason });
                return self.close_sender(place);
            }
        }
        self.settle_sender(place);
    }

    fn on_receiver_deadline(&mut self, now: Time, place: u32) {
        let Some(receiver) = self.receivers.get(place) else { return };
        let (peer, session) = (receiver.sender, receiver.session);
        if now >= receiver.forgotten_at(&self.config) {
            if !receiver.done {
                let reason = FailReason::PeerLost;
                self.events.push_back(Event::Failed { session, reason });
            }
            return self.forget_receiver(place);
        }
        let overdue = receiver.overdue(now);
        let deadline = receiver.deadline(&self.config);
        self.timers.set(place * 2 + 1, Some(deadline));
        if let Some(header) = overdue {
            self.answer(peer, session, header);
        }
    }

    fn transmit_data(&mut self, now: Time) -> Option<Frame<TcpHeader>> {
        while let Some(place) = self.ready.pop_front() {
            let Some(sender) = self.senders.get(place) else { continue };
            sender.ready = false;
            let frame = sender.transmit(now, &self.config);
            self.settle_sender(place);
            if frame.is_some() {
                return frame;
            }
        }
        None
    }
}

impl EndpointContract for Endpoint {
    type Header = TcpHeader;
    type Command = Command;
    type Event = Event;
    type CommandError = CommandError;

    fn handle_command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Send(transfer) => {
                if self.by_session.contains_key(&transfer.session) {
                    return Err(CommandError::SessionInUse(transfer.session));
                }
                let place = self.senders.insert(Sender::new(now, &self.config, &transfer));
                self.by_session.insert(transfer.session, place);
                self.settle_sender(place);
            }
            Command::Cancel { session } => {
                let place =
                    *self.by_session.get(&session).ok_or(CommandError::NoSuchSession(session))?;
                if let Some(receiver) = self.senders.get(place).map(|sender| sender.receiver) {
                    self.answer(receiver, session, TcpHeader::Reset);
                }
                self.close_sender(place);
            }
        }
        Ok(())
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame<TcpHeader>) -> Verdict {
        if frame.destination != Destination::Host(self.config.host) {
            return Verdict::Drop(DropReason::Misdirected);
        }
        match frame.header {
            TcpHeader::Data { offset, total } => self.on_data(now, frame, offset, total),
            TcpHeader::Ack { next, echo } => self.on_ack(now, frame, next, echo),
            TcpHeader::Reset => self.on_reset(frame),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(owner) = self.timers.pop_due(now) {
            if owner.is_multiple_of(2) {
                self.on_sender_deadline(now, owner / 2);
            } else {
                self.on_receiver_deadline(now, owner / 2);
            }
        }
    }

    fn handle_work_done(&mut self, _now: Time, _done: WorkDone) {}

    fn poll_work(&mut self) -> Option<Work> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Frame<TcpHeader>> {
        let Some((peer, session, header)) = self.control.pop_front() else {
            return self.transmit_data(now);
        };
        Some(Frame {
            source: self.config.host,
            destination: Destination::Host(peer),
            session,
            payload_len: 0,
            path: 0,
            class: 1,
            ecn: Ecn::NotCapable,
            trimmed: false,
            header,
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next_deadline()
    }
}
