//! Traffic of hosts over a simulated long link: bulk transfers, fetches, messages, paced streams.

use wellspring_core::{Duration, Time};

use super::agenda::{Agenda, Event, Timer};
use super::control::Algorithm;
use super::packet::{HEADERS, Headers, PAYLOAD, meaning, sent_by_stamp};
use super::receiver::{Ack, Receiver};
use super::site::{LONGEST, Sites};
use super::tally::Tally;
use super::tcp::Sender;
use crate::look::PacketKind;
use crate::record::Timeout;

/// How long an acknowledgement waits for a second packet.
const DELAYED_ACK: Duration = Duration::from_millis(40);
/// When a request that is not answered is repeated, as a connection's first packet is.
const REPEAT_REQUEST: Duration = Duration::from_secs(1);
/// Between two fetches.
const BETWEEN_FETCHES: Duration = Duration::from_millis(300);
/// Bulk transfers count from then on.
const WARM: Duration = Duration::from_secs(2);

/// What a host does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Work {
    /// A transfer without end; past the appliances if it is not protected.
    Bulk(Algorithm, bool),
    /// Transfers of so many packets one after the other, each asked for by a packet.
    Fetches(Algorithm, u64),
    /// Messages of one packet of so many bytes each over one connection, so many a second.
    Messages(Algorithm, usize, u64),
    /// Packets of so many bytes, so many a second, whatever is lost.
    Paced(usize, u64),
    /// One transfer of so many bytes.
    Transfer(Algorithm, u64),
}

impl Work {
    /// Length of a flow's data packet of that number \[bytes\].
    fn len(self, number: u64) -> usize {
        match self {
            Work::Messages(_, len, _) => len,
            // The last packet of a transfer holds the rest.
            Work::Transfer(_, bytes) => {
                HEADERS + bytes.saturating_sub(number * PAYLOAD).min(PAYLOAD) as usize
            }
            _ => LONGEST,
        }
    }
}

/// Packets of so many bytes.
pub(super) fn packets(bytes: u64) -> u64 {
    bytes.div_ceil(PAYLOAD)
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Packets that arrived in order, by the second.
    pub packets: Vec<u64>,
    /// How long each fetch took, and each message was under way \[ms\].
    pub times_ms: Vec<f64>,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

impl Outcome {
    /// Data that arrived from one second to another \[Mbit/s\].
    pub fn mbps(&self, seconds: std::ops::Range<usize>) -> f64 {
        let length = seconds.len().max(1) as f64;
        let packets: u64 = self.packets[seconds].iter().sum();
        (packets * PAYLOAD * 8) as f64 / length / 1e6
    }

    /// Data that arrived after the first two seconds \[Mbit/s\].
    pub fn steady_mbps(&self) -> f64 {
        self.mbps((WARM.as_secs_f64() as usize).min(self.packets.len())..self.packets.len())
    }

    /// The time below which that part of the times lies \[ms\].
    pub fn quantile_ms(&self, part: f64) -> f64 {
        let mut times = self.times_ms.clone();
        times.sort_by(f64::total_cmp);
        let place = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
        times.get(place).copied().unwrap_or(f64::NAN)
    }
}

/// What a packet is.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Data { number: u64, sent: Time, round: u64 },
    Acknowledgement(Ack, u64),
    Request(u64),
    Paced,
}

#[derive(Debug)]
struct Flow {
    work: Work,
    sender: Sender,
    receiver: Receiver,
    timer_at: Option<Time>,
    /// Transfers that are over: packets of an earlier one mean nothing.
    round: u64,
    begun: Time,
    asked: bool,
    /// When each message was written.
    written_at: Vec<Time>,
    /// One more than the highest packet that was sent.
    sent: u64,
    outcome: Outcome,
}

/// All flows.
#[derive(Debug)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    meanings: Vec<(usize, Meaning)>,
    pub tally: Tally,
}

impl Flows {
    pub fn new(work: &[Work], length: Duration, agenda: &mut Agenda) -> Self {
        let seconds = length.as_secs_f64().ceil() as usize;
        let flow = |(number, &work): (usize, &Work)| {
            let algorithm = match work {
                Work::Bulk(algorithm, _)
                | Work::Fetches(algorithm, _)
                | Work::Transfer(algorithm, _)
                | Work::Messages(algorithm, ..) => algorithm,
                Work::Paced(..) => Algorithm::Reno,
            };
            let first = match work {
                Work::Fetches(..) => Timer::Request(0),
                _ => Timer::Write,
            };
            agenda
                .add(Time::ZERO + Duration::from_millis(number as u64), Event::Flow(number, first));
            Flow {
                work,
                sender: Sender::new(algorithm, Time::ZERO),
                receiver: Receiver::default(),
                timer_at: None,
                round: 0,
                begun: Time::ZERO,
                asked: false,
                written_at: Vec::new(),
                sent: 0,
                outcome: Outcome { packets: vec![0; seconds], times_ms: Vec::new(), timeouts: 0 },
            }
        };
        Flows {
            flows: work.iter().enumerate().map(flow).collect(),
            meanings: Vec::new(),
            tally: Tally::default(),
        }
    }

    pub fn outcomes(self) -> Vec<Outcome> {
        self.flows
            .into_iter()
            .map(|flow| Outcome {
                timeouts: flow.outcome.timeouts + flow.sender.timeouts,
                ..flow.outcome
            })
            .collect()
    }

    pub fn on_timer(
        &mut self,
        now: Time,
        number: usize,
        timer: Timer,
        sites: &mut Sites,
        agenda: &mut Agenda,
    ) {
        let flow = &mut self.flows[number];
        match timer {
            Timer::Sender => {
                if flow.timer_at.is_none_or(|at| !now.has_reached(at)) {
                    return;
                }
                flow.timer_at = None;
                let (timeouts, window) = (flow.sender.timeouts, flow.sender.window());
                let in_flight = flow.sender.in_flight();
                let probe = flow.sender.on_timer(now);
                if flow.sender.timeouts > timeouts {
                    self.tally.timeouts.push(Timeout {
                        at: now.as_secs_f64(),
                        session: number as u32,
                        window: u64::from(window) * PAYLOAD,
                        in_flight: in_flight * PAYLOAD,
                    });
                }
                if let Some(probe) = probe {
                    self.data(now, number, probe, sites, agenda);
                }
                self.pump(now, number, sites, agenda);
            }
            Timer::Acknowledgement => {
                if flow.receiver.waits() {
                    let ack = flow.receiver.ack(None);
                    self.acknowledge(now, number, ack, sites, agenda);
                }
            }
            Timer::Write => self.write(now, number, sites, agenda),
            Timer::Request(round) => {
                if flow.round != round || flow.asked && flow.receiver.next() > 0 {
                    return;
                }
                if !flow.asked {
                    (flow.asked, flow.begun) = (true, now);
                }
                agenda.add(now + REPEAT_REQUEST, Event::Flow(number, Timer::Request(round)));
                self.send(now, number, (1, HEADERS), Meaning::Request(round), sites, agenda);
            }
        }
    }

    /// The application writes.
    fn write(&mut self, now: Time, number: usize, sites: &mut Sites, agenda: &mut Agenda) {
        let flow = &mut self.flows[number];
        let again = |per_second: u64| now + Duration::from_nanos(1_000_000_000 / per_second);
        match flow.work {
            Work::Bulk(..) => flow.sender.written = u64::MAX / 2,
            Work::Messages(_, _, per_second) => {
                flow.sender.written += 1;
                flow.written_at.push(now);
                agenda.add(again(per_second), Event::Flow(number, Timer::Write));
            }
            Work::Paced(len, per_second) => {
                agenda.add(again(per_second), Event::Flow(number, Timer::Write));
                return self.send(now, number, (0, len), Meaning::Paced, sites, agenda);
            }
            Work::Transfer(_, bytes) => flow.sender.written = packets(bytes),
            Work::Fetches(..) => return,
        }
        self.pump(now, number, sites, agenda);
    }

    /// Sends what may be sent, and sets the timer.
    fn pump(&mut self, now: Time, number: usize, sites: &mut Sites, agenda: &mut Agenda) {
        while let Some(packet) = self.flows[number].sender.poll(now) {
            self.data(now, number, packet, sites, agenda);
        }
        let flow = &mut self.flows[number];
        if let Some(deadline) = flow.sender.deadline(now) {
            let deadline = deadline.later_of(now);
            if flow.timer_at.is_none_or(|at| deadline.is_before(at) || at.is_before(now)) {
                flow.timer_at = Some(deadline);
                agenda.add(deadline, Event::Flow(number, Timer::Sender));
            }
        }
    }

    fn data(
        &mut self,
        now: Time,
        flow: usize,
        number: u64,
        sites: &mut Sites,
        agenda: &mut Agenda,
    ) {
        let len = self.flows[flow].work.len(number);
        let meaning = Meaning::Data { number, sent: now, round: self.flows[flow].round };
        self.send(now, flow, (0, len), meaning, sites, agenda);
    }

    fn acknowledge(
        &mut self,
        now: Time,
        flow: usize,
        ack: Ack,
        sites: &mut Sites,
        agenda: &mut Agenda,
    ) {
        let meaning = Meaning::Acknowledgement(ack, self.flows[flow].round);
        self.send(now, flow, (1, HEADERS), meaning, sites, agenda);
    }

    fn send(
        &mut self,
        now: Time,
        flow: usize,
        (site, len): (usize, usize),
        meaning: Meaning,
        sites: &mut Sites,
        agenda: &mut Agenda,
    ) {
        let protected = !matches!(self.flows[flow].work, Work::Bulk(_, false));
        let number = if let Meaning::Data { number, .. } = meaning { number } else { 0 };
        let headers = Headers {
            flow,
            is_tcp: !matches!(meaning, Meaning::Paced),
            number,
            sent: now,
            meaning: self.meanings.len(),
            protected,
        };
        self.meanings.push((flow, meaning));
        let kind = self.kind(flow, meaning);
        self.tally.on_sent(kind);
        sites.send(now, site, headers.packet(len), (kind, protected), agenda);
    }

    fn kind(&mut self, flow: usize, meaning: Meaning) -> PacketKind {
        match meaning {
            Meaning::Data { number, .. } if number < self.flows[flow].sent => PacketKind::Again,
            Meaning::Data { number, .. } => {
                self.flows[flow].sent = number + 1;
                PacketKind::Data
            }
            Meaning::Paced => PacketKind::Data,
            Meaning::Acknowledgement(..) | Meaning::Request(_) => PacketKind::Control,
        }
    }

    /// How many packets of a flow are there in order.
    pub fn there(&self, number: usize) -> u64 {
        self.flows.get(number).map_or(0, |flow| flow.receiver.next())
    }

    /// A packet is there, over the link or brought back.
    pub fn on_packet(&mut self, now: Time, packet: &[u8], sites: &mut Sites, agenda: &mut Agenda) {
        let (number, meaning) = self.meanings[meaning(packet)];
        let host = match meaning {
            Meaning::Data { .. } | Meaning::Paced => 1,
            Meaning::Acknowledgement(..) | Meaning::Request(_) => 0,
        };
        self.tally.on_received(now, host, number, packet.len().saturating_sub(HEADERS));
        let flow = &mut self.flows[number];
        match meaning {
            Meaning::Paced => {}
            Meaning::Request(round) => {
                if let Work::Fetches(_, packets) = flow.work
                    && round == flow.round
                    && flow.sender.written == 0
                {
                    flow.sender.written = packets;
                    self.pump(now, number, sites, agenda);
                }
            }
            Meaning::Acknowledgement(ack, round) => {
                if round == flow.round {
                    flow.sender.on_ack(now, &ack);
                    self.pump(now, number, sites, agenda);
                }
            }
            Meaning::Data { number: place, sent, round } => {
                if round != flow.round {
                    return;
                }
                let before = flow.receiver.next();
                let ack = flow.receiver.on_packet(place, sent_by_stamp(packet, sent));
                flow.account(now, before);
                let is_over =
                    matches!(flow.work, Work::Fetches(_, all) if flow.receiver.next() == all);
                if is_over {
                    flow.next_fetch(now);
                    let timer = Timer::Request(flow.round);
                    return agenda.add(now + BETWEEN_FETCHES, Event::Flow(number, timer));
                }
                match ack {
                    Some(ack) => self.acknowledge(now, number, ack, sites, agenda),
                    None => {
                        agenda.add(now + DELAYED_ACK, Event::Flow(number, Timer::Acknowledgement))
                    }
                }
            }
        }
    }
}

impl Flow {
    /// Counts what is newly there in order.
    fn account(&mut self, now: Time, before: u64) {
        let second = now.since(Time::ZERO).as_secs_f64() as usize;
        self.outcome.packets[second] += self.receiver.next() - before;
        if let Work::Messages(..) = self.work {
            for message in before..self.receiver.next() {
                let written = self.written_at[message as usize];
                if written.has_reached(Time::ZERO + WARM) {
                    self.outcome.times_ms.push(now.since(written).as_secs_f64() * 1e3);
                }
            }
        }
    }

    /// A fetch is over; the next is a connection of its own.
    fn next_fetch(&mut self, now: Time) {
        self.outcome.times_ms.push(now.since(self.begun).as_secs_f64() * 1e3);
        self.outcome.timeouts += self.sender.timeouts;
        let Work::Fetches(algorithm, _) = self.work else { return };
        self.sender = Sender::new(algorithm, now);
        self.receiver = Receiver::default();
        self.sent = 0;
        (self.timer_at, self.asked) = (None, false);
        self.round += 1;
    }
}
