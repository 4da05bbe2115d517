//! One host's TCP: all its transfers.

use super::config::Config;
use super::header::TcpHeader;
use super::receiver::{Answer, ReceiveStats, Receiver};
use super::sender::{Ack, Deadline, SendStats, Sender, TimeoutState};
use crate::transfer::{self, Command, CommandError, Due, FailReason, Key, MOST_WAITING, Table};
use alloc::collections::VecDeque;
use wellspring_core::{
    Destination, DropReason, Ecn, Endpoint as EndpointContract, Frame, Identity, SessionId, Time,
    Verdict, Work, WorkDone,
};

/// Events for the application.
pub type Event = transfer::Event<ReceiveStats, SendStats, TimeoutState>;

/// One host for TCP.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    transfers: Table<Sender, Receiver>,
    control: VecDeque<(Key, TcpHeader)>,
    events: VecDeque<Event>,
}

impl Endpoint {
    /// A host without transfers.
    pub fn new(config: Config) -> Self {
        Endpoint {
            config,
            transfers: Table::new(),
            control: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Transfers being sent and received, finished ones that are remembered included.
    pub fn open_transfers(&self) -> usize {
        self.transfers.len()
    }

    fn answer(&mut self, key: Key, header: TcpHeader) {
        if self.control.len() < MOST_WAITING {
            self.control.push_back((key, header));
        }
    }

    /// Sets a sender's timer and gives it a turn, if it can use one.
    fn settle_sender(&mut self, place: u32) {
        let Some((_, sender)) = self.transfers.sender(place) else { return };
        let (can_send, deadline) = (sender.can_send(&self.config), sender.deadline(&self.config));
        self.transfers.set_sender_due(place, deadline);
        if can_send {
            self.transfers.give_turn(place);
        }
    }

    fn on_data(&mut self, now: Time, frame: &Frame<TcpHeader>, offset: u64, total: u64) -> Verdict {
        let len = frame.payload_len;
        let impossible = offset.checked_add(len.into()).is_none_or(|end| end > total);
        // What is left of a segment that was cut is none.
        if impossible || frame.trimmed || len == 0 {
            return Verdict::Drop(DropReason::Malformed);
        }
        let key = (frame.source, frame.session);
        let open = || Receiver::new(now, total, &self.config);
        let found = self.transfers.receiver_or_open(key, self.config.max_receivers, open);
        let Some((place, is_new, receiver)) = found else {
            return Verdict::Drop(DropReason::OverLimit);
        };
        if is_new {
            self.events.push_back(Event::Accepted { session: key.1, sender: key.0 });
        }
        let marked = frame.ecn == Ecn::Marked && self.config.congestion.reads_marks();
        let answer = receiver.on_segment(now, (offset, len, total), marked, &self.config);
        let Some(answer) = answer else { return Verdict::Drop(DropReason::Malformed) };
        let (stats, deadline) = (receiver.stats, receiver.deadline(&self.config));
        self.transfers.set_receiver_due(place, deadline);
        self.report(frame, &answer, stats);
        match answer.drop {
            Some(reason) => Verdict::Drop(reason),
            None => Verdict::Keep(Identity::Range { session: frame.session, offset, len }),
        }
    }

    /// Passes on what a segment called for.
    fn report(&mut self, frame: &Frame<TcpHeader>, answer: &Answer, stats: ReceiveStats) {
        let (session, sender) = (frame.session, frame.source);
        for header in [answer.before, answer.ack].into_iter().flatten() {
            self.answer((sender, session), header);
        }
        if let Some(bytes) = answer.progress {
            self.events.push_back(Event::Progress { session, bytes });
        }
        if answer.complete {
            self.events.push_back(Event::Received { session, sender, stats });
        }
    }

    fn on_ack(&mut self, now: Time, frame: &Frame<TcpHeader>, next: u64, echo: bool) -> Verdict {
        let (place, sender) = match self.transfers.sender_to((frame.source, frame.session)) {
            Ok(found) => found,
            Err(reason) => return Verdict::Drop(reason),
        };
        match sender.on_ack(now, next, echo, &self.config) {
            Ack::Impossible => return Verdict::Drop(DropReason::Malformed),
            Ack::Stale => return Verdict::Drop(DropReason::Stale),
            Ack::Taken => self.settle_sender(place),
            Ack::Complete => {
                let event = Event::Sent { session: frame.session, stats: sender.stats };
                self.events.push_back(event);
                self.transfers.close_sender(place);
            }
        }
        Verdict::Consumed
    }

    fn on_reset(&mut self, frame: &Frame<TcpHeader>) -> Verdict {
        let Some(place) = self.transfers.receiver_from((frame.source, frame.session)) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        if self.transfers.close_receiver(place).is_some_and(|receiver| !receiver.done) {
            self.fail(frame.session, FailReason::Closed);
        }
        Verdict::Consumed
    }

    fn fail(&mut self, session: SessionId, reason: FailReason) {
        self.events.push_back(Event::Failed { session, reason });
    }

    fn on_sender_deadline(&mut self, now: Time, place: u32) {
        let Some(((_, session), sender)) = self.transfers.sender(place) else { return };
        match sender.on_deadline(now, &self.config) {
            Deadline::Early => {}
            Deadline::TimedOut(state) => self.events.push_back(Event::TimedOut { session, state }),
            Deadline::PeerLost => {
                self.fail(session, FailReason::PeerLost);
                return self.transfers.close_sender(place);
            }
        }
        self.settle_sender(place);
    }

    fn on_receiver_deadline(&mut self, now: Time, place: u32) {
        let Some((key, receiver)) = self.transfers.receiver(place) else { return };
        if now.has_reached(receiver.forgotten_at(&self.config)) {
            if !receiver.done {
                self.fail(key.1, FailReason::PeerLost);
            }
            self.transfers.close_receiver(place);
            return;
        }
        let overdue = receiver.overdue(now);
        let deadline = receiver.deadline(&self.config);
        self.transfers.set_receiver_due(place, deadline);
        if let Some(header) = overdue {
            self.answer(key, header);
        }
    }

    fn transmit_data(&mut self, now: Time) -> Option<Frame<TcpHeader>> {
        while let Some(place) = self.transfers.next_turn() {
            let Some((key, sender)) = self.transfers.sender(place) else { continue };
            let frame = sender.transmit(now, key, &self.config);
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
                let sender = Sender::new(now, &self.config, &transfer);
                let key = (transfer.receiver, transfer.session);
                let place = self.transfers.open_sender(key, sender)?;
                self.settle_sender(place);
            }
            Command::Cancel { session } => {
                let key = (self.transfers.cancel(session)?, session);
                self.answer(key, TcpHeader::Reset);
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
        while let Some(due) = self.transfers.pop_due(now) {
            match due {
                Due::Sender(place) => self.on_sender_deadline(now, place),
                Due::Receiver(place) => self.on_receiver_deadline(now, place),
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
        let Some((to, header)) = self.control.pop_front() else {
            return self.transmit_data(now);
        };
        Some(Frame {
            source: self.config.host,
            destination: Destination::Host(to.0),
            session: to.1,
            payload_len: 0,
            path: 0,
            class: 1,
            ecn: Ecn::NotCapable,
            trimmed: false,
            header,
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.transfers.next_deadline()
    }
}
