//! One host's NDP: all its flows, one pull queue.

use super::config::Config;
use super::header::{Data, NdpHeader};
use super::receiver::{ReceiveStats, Receiver};
use super::sender::{SendStats, Sender};
use crate::PullQueue;
use crate::slots::Slots;
use crate::transfer::{CommandError, FailReason};
use alloc::collections::{BTreeMap, VecDeque};
use wellspring_core::{
    Class, Destination, DropReason, Ecn, Endpoint as EndpointContract, Frame, HostId, Identity,
    SessionId, Time, TimerQueue, Verdict, Work, WorkDone,
};

/// Opens a flow at its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendFlow {
    /// The flow, not in use between these two hosts.
    pub session: SessionId,
    /// To whom.
    pub receiver: HostId,
    /// Length \[bytes\], at least 1.
    pub transfer_len: u64,
    /// Initial window \[packets\]; the configuration's if `None`.
    pub initial_window: Option<u16>,
    /// A fixed class for its data packets instead of the configuration's rule.
    pub class: Option<Class>,
}

/// What the application asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send a flow.
    Send(SendFlow),
    /// End a flow early, telling the receiver.
    Cancel {
        /// The flow.
        session: SessionId,
    },
}

/// What the application is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The first packet, or header, of a flow came.
    Accepted {
        /// The flow.
        session: SessionId,
        /// Who sends.
        sender: HostId,
    },
    /// Another [`Config::progress_every`] packets came.
    Progress {
        /// The flow.
        session: SessionId,
        /// Payload so far \[bytes\].
        bytes: u64,
    },
    /// A flow is complete at its receiver.
    Received {
        /// The flow.
        session: SessionId,
        /// Who sent.
        sender: HostId,
        /// Its account.
        stats: ReceiveStats,
    },
    /// A flow is complete, and known to be, at its sender.
    Sent {
        /// The flow.
        session: SessionId,
        /// Its account.
        stats: SendStats,
    },
    /// A flow ended without success.
    Failed {
        /// The flow.
        session: SessionId,
        /// Why.
        reason: FailReason,
    },
}

/// One host for NDP.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    senders: Slots<Sender>,
    receivers: Slots<Receiver>,
    by_session: BTreeMap<SessionId, u32>,
    by_peer: BTreeMap<(HostId, SessionId), u32>,
    /// Senders that can send, taking turns. May name places that are empty by now.
    ready: VecDeque<u32>,
    /// Receivers with pulls to send, taking turns.
    pulls: PullQueue,
    control: VecDeque<(HostId, SessionId, NdpHeader)>,
    /// Deadlines: owner 2n is sender n, 2n + 1 receiver n.
    timers: TimerQueue,
    events: VecDeque<Event>,
    label: u16,
}

impl Endpoint {
    /// A host without flows.
    pub fn new(config: Config) -> Self {
        let slack = PullQueue::packets_late(config.link_rate);
        let label =
            config.seed.numbered_stream("control labels", config.host.0.into()).below(1 << 16);
        Endpoint {
            pulls: PullQueue::new(config.link_rate, slack),
            config,
            senders: Slots::new(),
            receivers: Slots::new(),
            by_session: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            ready: VecDeque::new(),
            control: VecDeque::new(),
            timers: TimerQueue::new(),
            events: VecDeque::new(),
            label: label as u16,
        }
    }

    /// Flows being sent and received, finished ones that are remembered included.
    pub fn open_flows(&self) -> usize {
        self.by_session.len() + self.by_peer.len()
    }

    fn make_ready(&mut self, place: u32) {
        if let Some(sender) = self.senders.get(place)
            && !sender.ready
            && sender.can_send()
        {
            sender.ready = true;
            self.ready.push_back(place);
        }
    }

    fn on_data(&mut self, now: Time, frame: &Frame<NdpHeader>, data: &Data) -> Verdict {
        let key = (frame.source, frame.session);
        let place = match self.by_peer.get(&key) {
            Some(place) => *place,
            None => {
                let receiver = Receiver::new(now, frame.session, frame.source, data);
                let deadline = receiver.deadline(&self.config);
                let place = self.receivers.insert(receiver);
                self.by_peer.insert(key, place);
                self.timers.set(place * 2 + 1, Some(deadline));
                self.events
                    .push_back(Event::Accepted { session: frame.session, sender: frame.source });
                place
            }
        };
        let Some(receiver) = self.receivers.get(place) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let duplicates = receiver.stats.duplicates;
        let answer = receiver.on_data(now, data, frame.trimmed, frame.payload_len, &self.config);
        let Some(answer) = answer else { return Verdict::Drop(DropReason::Malformed) };
        let number = data.number;
        let reply = match (receiver.done, answer.ack) {
            (Some(_), _) => NdpHeader::Done,
            (None, true) => NdpHeader::Ack { number, sent: data.sent },
            (None, false) => NdpHeader::Nack { number },
        };
        self.control.push_back((frame.source, frame.session, reply));
        if receiver.has_pull() {
            self.pulls.enqueue(now, place);
        }
        let (session, stats) = (frame.session, receiver.stats);
        if answer.progress {
            self.events.push_back(Event::Progress { session, bytes: stats.bytes });
        }
        if answer.complete {
            self.events.push_back(Event::Received { session, sender: frame.source, stats });
        }
        if frame.trimmed {
            Verdict::Consumed
        } else if stats.duplicates > duplicates {
            Verdict::Drop(DropReason::Duplicate)
        } else {
            let offset = u64::from(number) * u64::from(self.config.payload);
            Verdict::Keep(Identity::Range { session, offset, len: frame.payload_len })
        }
    }

    fn on_answer(&mut self, now: Time, frame: &Frame<NdpHeader>) -> Verdict {
        let Some(&place) = self.by_session.get(&frame.session) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let Some(sender) = self.senders.get(place).filter(|s| s.receiver == frame.source) else {
            return Verdict::Drop(DropReason::UnknownPeer);
        };
        match frame.header {
            NdpHeader::Ack { number, sent } => sender.on_ack(now, number, sent, &self.config),
            NdpHeader::Nack { number } => sender.on_nack(now, number),
            NdpHeader::Pull { granted } => sender.on_pull(now, granted),
            NdpHeader::Done => {
                let event = Event::Sent { session: frame.session, stats: sender.stats };
                self.events.push_back(event);
                self.close_sender(place);
                return Verdict::Consumed;
            }
            NdpHeader::Data(_) | NdpHeader::Close => {}
        }
        self.make_ready(place);
        Verdict::Consumed
    }

    fn on_close(&mut self, frame: &Frame<NdpHeader>) -> Verdict {
        let Some(&place) = self.by_peer.get(&(frame.source, frame.session)) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let open = self.receivers.get(place).is_some_and(|receiver| receiver.done.is_none());
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
        self.pulls.forget(place);
        if let Some(receiver) = self.receivers.remove(place) {
            self.by_peer.remove(&(receiver.sender, receiver.session));
        }
    }

    fn on_sender_deadline(&mut self, now: Time, place: u32) {
        let Some(sender) = self.senders.get(place) else { return };
        if sender.on_timeout(now, &self.config) {
            let deadline = sender.deadline(&self.config);
            self.timers.set(place * 2, Some(deadline));
            self.make_ready(place);
        } else {
            let (session, reason) = (sender.session, FailReason::PeerLost);
            self.events.push_back(Event::Failed { session, reason });
            self.close_sender(place);
        }
    }

    fn on_receiver_deadline(&mut self, now: Time, place: u32) {
        let Some(receiver) = self.receivers.get(place) else { return };
        // Timers are not moved on every packet: look whether this one is still meant.
        let due = receiver.deadline(&self.config);
        if due > now {
            return self.timers.set(place * 2 + 1, Some(due));
        }
        let abandoned = receiver.is_abandoned(now, &self.config);
        if receiver.done.is_some() || abandoned {
            if abandoned {
                let (session, reason) = (receiver.session, FailReason::PeerLost);
                self.events.push_back(Event::Failed { session, reason });
            }
            return self.forget_receiver(place);
        }
        if receiver.repeat_pull(now) {
            self.pulls.enqueue(now, place);
        }
        let due = receiver.deadline(&self.config);
        self.timers.set(place * 2 + 1, Some(due));
    }

    fn control_frame(
        &mut self,
        peer: HostId,
        session: SessionId,
        header: NdpHeader,
    ) -> Frame<NdpHeader> {
        self.label = self.label.wrapping_add(1);
        Frame {
            source: self.config.host,
            destination: Destination::Host(peer),
            session,
            payload_len: 0,
            path: self.label % self.config.paths.max(1),
            class: 0,
            ecn: Ecn::NotCapable,
            trimmed: false,
            header,
        }
    }

    fn transmit_pull(&mut self, now: Time) -> Option<Frame<NdpHeader>> {
        let answer = u64::from(self.config.payload) + u64::from(self.config.overhead_per_packet);
        while let Some(place) = self.pulls.next(now) {
            let receiver = self.receivers.get(place).filter(|receiver| receiver.has_pull());
            let Some(receiver) = receiver else { continue };
            let granted = receiver.pull(now);
            let (peer, session, more) = (receiver.sender, receiver.session, receiver.has_pull());
            self.pulls.book(now, answer);
            if more {
                self.pulls.enqueue(now, place);
            }
            return Some(self.control_frame(peer, session, NdpHeader::Pull { granted }));
        }
        None
    }

    fn transmit_data(&mut self, now: Time) -> Option<Frame<NdpHeader>> {
        while let Some(place) = self.ready.pop_front() {
            let Some(sender) = self.senders.get(place) else { continue };
            sender.ready = false;
            let idle = sender.is_idle();
            let Some(frame) = sender.transmit(now, &self.config) else { continue };
            if sender.can_send() {
                sender.ready = true;
                self.ready.push_back(place);
            }
            if idle {
                let deadline = sender.deadline(&self.config);
                self.timers.set(place * 2, Some(deadline));
            }
            return Some(frame);
        }
        None
    }
}

impl EndpointContract for Endpoint {
    type Header = NdpHeader;
    type Command = Command;
    type Event = Event;
    type CommandError = CommandError;

    fn handle_command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Send(flow) => {
                if self.by_session.contains_key(&flow.session) {
                    return Err(CommandError::SessionInUse(flow.session));
                }
                let number = (u64::from(self.config.host.0) << 32) | u64::from(flow.session.0);
                let random = self.config.seed.numbered_stream("paths", number);
                let sender = Sender::new(now, &self.config, &flow, random);
                let deadline = sender.deadline(&self.config);
                let place = self.senders.insert(sender);
                self.by_session.insert(flow.session, place);
                self.timers.set(place * 2, Some(deadline));
                self.make_ready(place);
                Ok(())
            }
            Command::Cancel { session } => {
                let place =
                    *self.by_session.get(&session).ok_or(CommandError::NoSuchSession(session))?;
                if let Some(sender) = self.senders.get(place) {
                    self.control.push_back((sender.receiver, session, NdpHeader::Close));
                }
                self.close_sender(place);
                Ok(())
            }
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame<NdpHeader>) -> Verdict {
        if frame.destination != Destination::Host(self.config.host) {
            return Verdict::Drop(DropReason::Misdirected);
        }
        match &frame.header {
            NdpHeader::Data(data) => self.on_data(now, frame, data),
            NdpHeader::Close => self.on_close(frame),
            NdpHeader::Ack { .. }
            | NdpHeader::Nack { .. }
            | NdpHeader::Pull { .. }
            | NdpHeader::Done => self.on_answer(now, frame),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.pulls.forget_past(now);
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

    fn poll_transmit(&mut self, now: Time) -> Option<Frame<NdpHeader>> {
        if let Some((peer, session, header)) = self.control.pop_front() {
            return Some(self.control_frame(peer, session, header));
        }
        self.transmit_pull(now).or_else(|| self.transmit_data(now))
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.timers.next_deadline(), self.pulls.deadline()].into_iter().flatten().min()
    }
}
