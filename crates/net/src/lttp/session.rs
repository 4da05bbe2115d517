//! One session: its endpoint, and what joins the endpoint to bytes and to its connection.

use std::net::IpAddr;

use tokio::sync::mpsc;
use wellspring_codec::lt::Decoder;
use wellspring_core::{Duration, Endpoint as _, Seed, Time, Verdict, Work, WorkDone};
use wellspring_transport::lttp::{
    Command, Config, Endpoint, Event, FailReason, LttpHeader, ReceiveStats,
};
use wellspring_wire::lttp::{Cookie, Datagram, SYMBOL_HEADER_LEN};

use super::config::LttpSettings;
use super::counters::Counters;
use super::frames::{OWN, PEER, SESSION, arrived, datagram_of, header_of};
use super::handle::{Ending, Opening, Side, Told};
use super::outbox::{Outbox, Route};
use super::receiving::{Finish, Write};
use super::sending::Load;

/// Bytes of a packet beside the symbol: our header, UDP's and IPv4's (TFRC's s counts them).
const OVERHEAD_PER_PACKET: u32 = SYMBOL_HEADER_LEN as u32 + 28;

/// What a session wants done by a thread that may wait.
pub(super) enum Job {
    Load(Cookie, Load),
    Write(Cookie, Write),
}

/// A session.
pub(super) struct Session {
    pub cookie: Cookie,
    /// The host at the other end of the TCP connection.
    peer: IpAddr,
    route: Option<Route>,
    endpoint: Endpoint,
    side: Side,
    told: mpsc::Sender<Told>,
    /// The last message said: TCP has it, and repeating it is the endpoint's habit, not a need.
    said: Option<LttpHeader>,
    /// The block that is being finished.
    finishing: Option<u32>,
    /// All is decoded, and perhaps not all written.
    received: Option<ReceiveStats>,
    /// It ended early; nothing more is done, but what is being written is waited for.
    failed: bool,
    /// It stands in line for the socket.
    pub in_line: bool,
}

impl Session {
    /// Begins it: a server offers, a client says hello.
    pub(super) fn open(now: Time, opening: Opening, settings: &LttpSettings) -> Session {
        let Opening { cookie, peer, address, side, told } = opening;
        let parameters = match &side {
            Side::Sending(sending) => sending.layout.parameters,
            Side::Receiving(receiving) => receiving.layout.parameters,
        };
        let config = Config {
            symbol_size: parameters.symbol_size,
            block_symbols: parameters.block_symbols,
            overhead_per_packet: OVERHEAD_PER_PACKET,
            overlap: settings.overlap,
            granularity: span(settings.granularity),
            peer_timeout: span(settings.timeout),
            max_sessions: 1,
            ..Config::new(OWN, Seed(cookie.0))
        };
        let mut endpoint = Endpoint::new(config);
        let command = match side {
            Side::Sending(_) => {
                let transfer_len = parameters.transfer_len;
                Command::Offer { session: SESSION, client: PEER, transfer_len }
            }
            Side::Receiving(_) => Command::Request { session: SESSION, server: PEER },
        };
        endpoint
            .handle_command(now, command)
            .expect("an endpoint without sessions takes one, and its parameters were checked");
        let route = address.map(|to| Route { to, local: None });
        Session {
            cookie,
            peer,
            route,
            endpoint,
            side,
            told,
            said: None,
            finishing: None,
            received: None,
            failed: false,
            in_line: false,
        }
    }

    /// Takes in a datagram that has the session's cookie.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        from: Route,
        datagram: &Datagram<'_>,
        counters: &Counters,
    ) {
        let is_hello = matches!(datagram, Datagram::Hello);
        if self.failed {
            return counters.unknown_cookie.add(1);
        }
        let expected = match self.route {
            Some(route) => from.to == route.to,
            None => is_hello && from.to.ip() == self.peer,
        };
        if !expected {
            return counters.wrong_address.add(1);
        }
        if is_hello && matches!(self.side, Side::Sending(_)) {
            self.route.get_or_insert(from);
        }
        let payload = match datagram {
            Datagram::Symbol { payload, .. } => *payload,
            _ => &[],
        };
        if let (Datagram::Symbol { .. }, Side::Receiving(receiving)) = (datagram, &self.side)
            && payload.len() != usize::from(receiving.layout.parameters.symbol_size)
        {
            return counters.malformed.add(1);
        }
        let frame = arrived(header_of(datagram), payload.len() as u16);
        match self.endpoint.handle_frame(now, &frame) {
            Verdict::Keep(_) => {
                if let (Datagram::Symbol { sbn, esi, .. }, Side::Receiving(receiving)) =
                    (datagram, &mut self.side)
                    && let Err(ending) = receiving.add(*sbn, *esi, payload)
                {
                    self.fail(ending);
                }
            }
            Verdict::Consumed => {}
            Verdict::Drop(_) => counters.unwanted.add(1),
        }
    }

    /// Takes in a message of the control channel.
    pub(super) fn on_control(&mut self, now: Time, header: LttpHeader, counters: &Counters) {
        if let (LttpHeader::Parameters(parameters), Side::Receiving(receiving)) =
            (header, &self.side)
            && parameters != receiving.layout.parameters
        {
            return self.fail(Ending::OtherParameters);
        }
        if let Verdict::Drop(_) = self.endpoint.handle_frame(now, &arrived(header, 0)) {
            return counters.unwanted.add(1);
        }
        if let (LttpHeader::Stop { next }, Side::Sending(sending)) = (header, &mut self.side) {
            sending.on_stop(next);
        }
    }

    /// The endpoint's deadline may have come.
    pub(super) fn on_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(now);
    }

    /// A block has been read.
    pub(super) fn on_loaded(&mut self, sbn: u32, outcome: std::io::Result<Vec<u8>>) {
        match (&mut self.side, outcome) {
            (Side::Sending(sending), Ok(block)) => {
                if let Err(error) = sending.on_loaded(sbn, block) {
                    self.fail(Ending::Read(std::io::Error::other(error)));
                }
            }
            (_, Err(error)) => self.fail(Ending::Read(error)),
            (Side::Receiving(_), Ok(_)) => {}
        }
    }

    /// A block has been written.
    pub(super) fn on_written(
        &mut self,
        now: Time,
        decoder: Box<Decoder>,
        outcome: std::io::Result<()>,
        jobs: &mut Vec<Job>,
    ) {
        let Side::Receiving(receiving) = &mut self.side else { return };
        receiving.on_written(decoder);
        if let Err(error) = outcome {
            return self.fail(Ending::Write(error));
        }
        if receiving.waiting {
            self.finish(now, jobs);
        }
        self.tell_received();
    }

    /// The connection is closed: the session ends, unless all that is left is writing.
    pub(super) fn on_gone(&mut self, now: Time) {
        if self.received.is_none() {
            self.failed = true;
        } else if self.endpoint.open_sessions() > 0 {
            self.endpoint
                .handle_command(now, Command::Cancel { session: SESSION })
                .expect("the session is open");
        }
    }

    /// Does the endpoint's work and takes its events: after every input.
    pub(super) fn settle(&mut self, now: Time, jobs: &mut Vec<Job>) {
        while let Some(Work::Finish { sbn, .. }) = self.endpoint.poll_work() {
            self.finishing = Some(sbn);
            self.finish(now, jobs);
        }
        while let Some(event) = self.endpoint.poll_event() {
            self.on_event(event);
        }
        if let Side::Sending(sending) = &mut self.side
            && !self.failed
            && let Some(load) = sending.poll_load()
        {
            jobs.push(Job::Load(self.cookie, load));
        }
    }

    fn finish(&mut self, now: Time, jobs: &mut Vec<Job>) {
        let (Side::Receiving(receiving), Some(sbn), false) =
            (&mut self.side, self.finishing, self.failed)
        else {
            return;
        };
        let done = match receiving.finish() {
            Ok(Finish::NeedMore) => WorkDone::NeedMore { session: SESSION, sbn },
            Ok(Finish::Wait) => return,
            Ok(Finish::Write(write)) => {
                jobs.push(Job::Write(self.cookie, write));
                WorkDone::Finished { session: SESSION, sbn }
            }
            Err(error) => return self.fail(Ending::Write(std::io::Error::other(error))),
        };
        self.finishing = None;
        self.endpoint.handle_work_done(now, done);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Received { stats, .. } => {
                self.received = Some(stats);
                self.tell_received();
            }
            Event::Sent { stats, .. } => self.tell(Told::Sent(stats)),
            Event::Failed { reason, .. } => self.fail(match reason {
                FailReason::PeerLost => Ending::Silent,
                FailReason::Closed => Ending::Closed,
            }),
            Event::Accepted { .. }
            | Event::Progress { .. }
            | Event::BlockComplete { .. }
            | Event::Rate { .. } => {}
        }
    }

    fn tell_received(&mut self) {
        let Side::Receiving(receiving) = &self.side else { return };
        if let Some(stats) = self.received.filter(|_| receiving.is_idle()) {
            self.tell(Told::Received(stats));
        }
    }

    fn fail(&mut self, ending: Ending) {
        // What is received is received, whatever becomes of the confirmation.
        if !self.failed && self.received.is_none_or(|_| matches!(ending, Ending::Write(_))) {
            self.tell(Told::Failed(ending));
            self.tell(Told::Say(LttpHeader::Close));
            self.failed = true;
        }
    }

    fn tell(&mut self, told: Told) {
        // A connection that does not take what it is told, or is gone, ends the session.
        if self.told.try_send(told).is_err() {
            self.failed = true;
        }
    }

    /// Fills `outbox`, which is empty, with what may go now: symbols in a batch, anything else
    /// alone. True if there may be more.
    pub(super) fn transmit(&mut self, now: Time, outbox: &mut Outbox, counters: &Counters) -> bool {
        while outbox.has_room() && !self.failed {
            let Some(frame) = self.endpoint.poll_transmit(now) else { return false };
            match frame.header {
                LttpHeader::Symbol { stamp, sbn, esi } => {
                    let (Side::Sending(sending), Some(route)) = (&mut self.side, self.route) else {
                        continue;
                    };
                    match sending.symbol(sbn, esi) {
                        Ok(Some(payload)) => {
                            let (number, sent, rtt) = (stamp.number, stamp.sent, stamp.rtt);
                            let symbol = Datagram::Symbol { sbn, esi, number, sent, rtt, payload };
                            outbox.push(route, self.cookie, &symbol);
                        }
                        // To TFRC it is lost: a slow disk slows its own session.
                        Ok(None) => counters.unread.add(1),
                        Err(error) => self.fail(Ending::Read(std::io::Error::other(error))),
                    }
                }
                header => match (datagram_of(&header), self.route) {
                    (Some(datagram), Some(route)) => {
                        outbox.push(route, self.cookie, &datagram);
                        return true;
                    }
                    (Some(_), None) => {}
                    (None, _) if self.said == Some(header) => {}
                    (None, _) => {
                        self.said = Some(header);
                        self.tell(Told::Say(header));
                    }
                },
            }
        }
        !self.failed
    }

    /// Whether it sends symbols, which a rate limit is for.
    pub(super) fn sends_symbols(&self) -> bool {
        matches!(self.side, Side::Sending(_))
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.failed { None } else { self.endpoint.poll_timeout() }
    }

    /// Whether nothing is left to do, once it is settled and has transmitted.
    pub(super) fn is_over(&self) -> bool {
        let idle = match &self.side {
            Side::Sending(_) => true,
            Side::Receiving(receiving) => receiving.is_idle(),
        };
        idle && (self.failed || self.endpoint.open_sessions() == 0)
    }
}

/// A span of the system's in the protocol's unit.
fn span(span: std::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 1_000))
}
