//! One host's NDP: all its flows, one pull queue.

use super::config::Config;
use super::group::{GroupSender, GroupTransfer, Outcome};
use super::receiver::{ReceiveStats, Receiver};
use super::sender::{SendStats, Sender};
use crate::PullQueue;
use crate::transfer::{
    self, CommandError, Due, FailReason, Key, MOST_WAITING, SendTransfer, Table,
};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::convert::Infallible;
use core::ops::Bound::{self, Unbounded};
use wellspring_core::{
    Destination, DropReason, Duration, Ecn, Endpoint as EndpointContract, Frame, Identity,
    Priority, SessionId, Time, Verdict, Work, WorkDone,
};
use wellspring_wire::ndp::{Data, NdpHeader};

/// What the application asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send a transfer.
    Send(SendTransfer),
    /// Send a transfer to a multicast group.
    SendToGroup(GroupTransfer),
    /// Have the sender of a transfer to one receiver wait for that for so long when it is silent, instead of for
    /// [`Config::peer_timeout`], because the receiver waits as long.
    Wait {
        /// The transfer.
        session: SessionId,
        /// How long.
        peer_timeout: Duration,
    },
    /// End a transfer to one receiver early and notify that.
    Cancel {
        /// The transfer.
        session: SessionId,
    },
}

impl From<transfer::Command> for Command {
    fn from(command: transfer::Command) -> Self {
        match command {
            transfer::Command::Send(transfer) => Command::Send(transfer),
            transfer::Command::Cancel { session } => Command::Cancel { session },
        }
    }
}

/// Events for the application.
pub type Event = transfer::Event<ReceiveStats, SendStats, Infallible>;

/// One host for NDP.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    transfers: Table<Sender, Receiver>,
    /// Transfers to groups that are being sent.
    groups: BTreeMap<SessionId, GroupSender>,
    /// The group's transfer that sent last, for turns.
    last_group: SessionId,
    /// Receivers with pulls to send, taking turns.
    pulls: PullQueue,
    control: VecDeque<(Key, NdpHeader)>,
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
            transfers: Table::new(),
            groups: BTreeMap::new(),
            last_group: SessionId(0),
            control: VecDeque::new(),
            events: VecDeque::new(),
            label: label as u16,
        }
    }

    /// Flows being sent and received, finished ones that are remembered included.
    pub fn open_flows(&self) -> usize {
        self.transfers.len() + self.groups.len()
    }

    /// Gives a sender a turn, if it can use one.
    fn make_ready(&mut self, place: u32) {
        if self.transfers.sender(place).is_some_and(|(_, sender)| sender.can_send()) {
            self.transfers.give_turn(place);
        }
    }

    fn on_data(&mut self, now: Time, frame: &Frame<NdpHeader>, data: &Data) -> Verdict {
        let key = (frame.source, frame.session);
        let open = || Receiver::new(now, data, &self.config);
        let found = self.transfers.receiver_or_open(key, self.config.max_receivers, open);
        let Some((place, is_new, receiver)) = found else {
            return Verdict::Drop(DropReason::OverLimit);
        };
        if is_new {
            self.events.push_back(Event::Accepted { session: key.1, sender: key.0 });
        }
        let duplicates = receiver.stats.duplicates;
        let answer = receiver.on_data(now, data, frame.trimmed, frame.payload_len, &self.config);
        let Some(answer) = answer else { return Verdict::Drop(DropReason::Malformed) };
        let number = data.number;
        let reply = match (receiver.done, answer.ack) {
            (true, _) => NdpHeader::Done,
            (false, true) => NdpHeader::Ack { number, sent: data.sent },
            (false, false) => NdpHeader::Nack { number },
        };
        if self.control.len() < MOST_WAITING {
            self.control.push_back((key, reply));
        }
        if receiver.has_pull() {
            self.pulls.enqueue(now, place, Priority::Normal);
        }
        let (session, stats) = (frame.session, receiver.stats);
        if let Some(bytes) = answer.progress {
            self.events.push_back(Event::Progress { session, bytes });
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
        if let Some(group) = self.groups.get_mut(&frame.session) {
            group.on_answer(now, frame.source, &frame.header, &self.config);
            self.settle_group(frame.session);
            return Verdict::Consumed;
        }
        let (place, sender) = match self.transfers.sender_to((frame.source, frame.session)) {
            Ok(found) => found,
            Err(reason) => return Verdict::Drop(reason),
        };
        match frame.header {
            NdpHeader::Ack { number, sent } => sender.on_ack(now, number, sent, &self.config),
            NdpHeader::Nack { number } => sender.on_nack(now, number),
            NdpHeader::Pull { granted } => sender.on_pull(now, granted),
            NdpHeader::Done => {
                let event = Event::Sent { session: frame.session, stats: sender.stats };
                self.events.push_back(event);
                self.transfers.close_sender(place);
                return Verdict::Consumed;
            }
            NdpHeader::Data(_) | NdpHeader::Close => {}
        }
        self.make_ready(place);
        Verdict::Consumed
    }

    /// Ends a transfer to a group when no member is waited for.
    fn settle_group(&mut self, session: SessionId) {
        let Some(group) = self.groups.get(&session) else { return };
        let stats = group.stats;
        let event = match group.outcome() {
            None => return,
            Some(Outcome::Sent) => Event::Sent { session, stats },
            Some(Outcome::Lost) => Event::Failed { session, reason: FailReason::PeerLost },
        };
        self.groups.remove(&session);
        self.events.push_back(event);
    }

    /// Groups take turns.
    fn transmit_to_group(&mut self, now: Time) -> Option<Frame<NdpHeader>> {
        let (before, after) = (..=self.last_group, (Bound::Excluded(self.last_group), Unbounded));
        let next = |groups: &mut BTreeMap<SessionId, GroupSender>, config: &Config| {
            let mut found = groups.range_mut(after).find_map(|g| g.1.transmit(now, config));
            if found.is_none() {
                found = groups.range_mut(before).find_map(|g| g.1.transmit(now, config));
            }
            found
        };
        let frame = next(&mut self.groups, &self.config)?;
        self.last_group = frame.session;
        Some(frame)
    }

    fn on_close(&mut self, frame: &Frame<NdpHeader>) -> Verdict {
        let Some(place) = self.transfers.receiver_from((frame.source, frame.session)) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        if self.forget_receiver(place).is_some_and(|receiver| !receiver.done) {
            self.fail(frame.session, FailReason::Closed);
        }
        Verdict::Consumed
    }

    fn fail(&mut self, session: SessionId, reason: FailReason) {
        self.events.push_back(Event::Failed { session, reason });
    }

    fn forget_receiver(&mut self, place: u32) -> Option<Receiver> {
        self.pulls.forget(place);
        self.transfers.close_receiver(place)
    }

    fn on_sender_deadline(&mut self, now: Time, place: u32) {
        let Some(((_, session), sender)) = self.transfers.sender(place) else { return };
        if sender.on_timeout(now, &self.config) {
            let deadline = sender.deadline(&self.config);
            self.transfers.set_sender_due(place, deadline);
            self.make_ready(place);
        } else {
            self.fail(session, FailReason::PeerLost);
            self.transfers.close_sender(place);
        }
    }

    fn on_receiver_deadline(&mut self, now: Time, place: u32) {
        let Some(((_, session), receiver)) = self.transfers.receiver(place) else { return };
        // Timers are not moved on every packet: look whether this one is still meant.
        let due = receiver.deadline(&self.config);
        if due.is_after(now) {
            return self.transfers.set_receiver_due(place, due);
        }
        let abandoned = receiver.is_abandoned(now, &self.config);
        if receiver.done || abandoned {
            if abandoned {
                self.fail(session, FailReason::PeerLost);
            }
            self.forget_receiver(place);
            return;
        }
        if receiver.repeat_pull(now) {
            self.pulls.enqueue(now, place, Priority::Normal);
        }
        let due = receiver.deadline(&self.config);
        self.transfers.set_receiver_due(place, due);
    }

    fn control_frame(&mut self, to: Key, header: NdpHeader) -> Frame<NdpHeader> {
        self.label = self.label.wrapping_add(1);
        Frame {
            source: self.config.host,
            destination: Destination::Host(to.0),
            session: to.1,
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
            let receiver = self.transfers.receiver(place).filter(|(_, end)| end.has_pull());
            let Some((key, receiver)) = receiver else { continue };
            let (granted, more) = (receiver.pull(now), receiver.has_pull());
            self.pulls.book(now, answer);
            if more {
                self.pulls.enqueue(now, place, Priority::Normal);
            }
            return Some(self.control_frame(key, NdpHeader::Pull { granted }));
        }
        None
    }

    fn transmit_data(&mut self, now: Time) -> Option<Frame<NdpHeader>> {
        while let Some(place) = self.transfers.next_turn() {
            let Some((key, sender)) = self.transfers.sender(place) else { continue };
            let idle = sender.is_idle();
            let Some(frame) = sender.transmit(now, key, &self.config) else { continue };
            if idle {
                let deadline = sender.deadline(&self.config);
                self.transfers.set_sender_due(place, deadline);
            }
            self.make_ready(place);
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
            Command::Send(transfer) => {
                let sender = Sender::new(now, &self.config, &transfer);
                let deadline = sender.deadline(&self.config);
                let key = (transfer.receiver, transfer.session);
                let place = self.transfers.open_sender(key, sender)?;
                self.transfers.set_sender_due(place, deadline);
                self.make_ready(place);
            }
            Command::SendToGroup(transfer) => {
                if self.groups.contains_key(&transfer.session) {
                    return Err(CommandError::SessionInUse(transfer.session));
                }
                let session = transfer.session;
                self.groups.insert(session, GroupSender::new(now, &self.config, transfer));
                self.settle_group(session);
            }
            Command::Wait { session, peer_timeout } => {
                let (place, sender) = self.transfers.sender_of(session)?;
                sender.wait_for(peer_timeout);
                let deadline = sender.deadline(&self.config);
                self.transfers.set_sender_due(place, deadline);
            }
            Command::Cancel { session } => {
                let key = (self.transfers.cancel(session)?, session);
                self.control.push_back((key, NdpHeader::Close));
            }
        }
        Ok(())
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame<NdpHeader>) -> Verdict {
        // Only data comes by a group.
        let by_group = matches!(
            (frame.destination, &frame.header),
            (Destination::Group(_), NdpHeader::Data(_))
        );
        if frame.destination != Destination::Host(self.config.host) && !by_group {
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
        while let Some(due) = self.transfers.pop_due(now) {
            match due {
                Due::Sender(place) => self.on_sender_deadline(now, place),
                Due::Receiver(place) => self.on_receiver_deadline(now, place),
            }
        }
        let due = |group: &GroupSender| {
            group.deadline(&self.config).is_some_and(|at| now.has_reached(at))
        };
        let late = self.groups.iter().filter(|(_, group)| due(group));
        for session in late.map(|(session, _)| *session).collect::<Vec<_>>() {
            if let Some(group) = self.groups.get_mut(&session) {
                group.on_timeout(now, &self.config);
            }
            self.settle_group(session);
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
        if let Some((key, header)) = self.control.pop_front() {
            return Some(self.control_frame(key, header));
        }
        let frame = self.transmit_pull(now).or_else(|| self.transmit_data(now));
        frame.or_else(|| self.transmit_to_group(now))
    }

    fn poll_timeout(&self) -> Option<Time> {
        let transfers = [self.transfers.next_deadline(), self.pulls.deadline()];
        let groups = self.groups.values().filter_map(|group| group.deadline(&self.config));
        Time::earliest(transfers.into_iter().flatten().chain(groups))
    }
}
