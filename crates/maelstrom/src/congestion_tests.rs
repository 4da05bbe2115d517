//! A TCP flow through two appliances and a link with a queue, in virtual time: what the adaptive mode
//! costs where nothing but queues drops, and what it brings where the link loses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wellspring_codec::interleave::Parameters;
use wellspring_core::{Duration, RandomStream, Seed, Time};

use super::*;

const PACKET: usize = 1_000;
/// Bytes a second.
const RATE: u64 = 1_250_000;
/// One way.
const DELAY: Duration = Duration::from_millis(25);
/// The longest wait in the queue: it holds what the link holds in a round trip.
const QUEUE: Duration = Duration::from_millis(50);

/// A link with a queue that drops at its tail, and losses of its own.
struct Link {
    /// Bytes a second.
    rate: u64,
    free_at: Time,
    loss: f64,
    /// Losses come in runs of so many.
    burst: u32,
    run: u32,
    random: RandomStream,
    queue_drops: u64,
    first_loss: Option<Time>,
}

impl Link {
    /// When a datagram that is sent now arrives, if it does.
    fn send(&mut self, now: Time, len: usize) -> Option<Time> {
        let time = |bytes: u64| Duration::from_nanos(bytes * 1_000_000_000 / self.rate);
        let waits =
            if self.free_at.is_after(now) { self.free_at.since(now) } else { Duration::ZERO };
        if waits > QUEUE {
            self.queue_drops += 1;
            return None;
        }
        self.free_at = now + waits + time(len as u64 + 66);
        if self.run > 0 || self.random.unit() < self.loss / f64::from(self.burst) {
            self.first_loss.get_or_insert(now);
            self.run = if self.run > 0 { self.run - 1 } else { self.burst - 1 };
            return None;
        }
        Some(self.free_at + DELAY)
    }
}

/// NewReno with selective acknowledgements, as far as rates go: a loss is noticed when something that
/// was sent a quarter of a round trip later is acknowledged.
struct Reno {
    window: f64,
    threshold: f64,
    next: u64,
    /// When each packet was sent that is not acknowledged, and whether before.
    outstanding: BTreeMap<u64, Time>,
    again: VecDeque<u64>,
    recovers_until: Time,
    newest: Time,
}

impl Reno {
    fn new() -> Self {
        Reno {
            window: 10.0,
            threshold: f64::INFINITY,
            next: 0,
            outstanding: BTreeMap::new(),
            again: VecDeque::new(),
            recovers_until: Time::ZERO,
            newest: Time::ZERO,
        }
    }

    fn poll(&mut self, now: Time) -> Option<u64> {
        if self.outstanding.len() as f64 >= self.window {
            return None;
        }
        let number = self.again.pop_front().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.outstanding.insert(number, now);
        Some(number)
    }

    fn on_ack(&mut self, now: Time, number: u64, marked: bool) {
        if let Some(sent) = self.outstanding.remove(&number) {
            self.newest = sent.later_of(self.newest);
            self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
        }
        let tolerance = Duration::from_millis(15);
        let late: Vec<u64> = self
            .outstanding
            .iter()
            .filter(|(_, sent)| (**sent + tolerance).is_before(self.newest))
            .map(|(number, _)| *number)
            .collect();
        if (marked || !late.is_empty()) && now.is_after(self.recovers_until) {
            self.threshold = (self.window / 2.0).max(2.0);
            self.window = self.threshold;
            self.recovers_until = now + DELAY * 2 + Duration::from_millis(25);
        }
        for number in late {
            self.outstanding.remove(&number);
            self.again.push_back(number);
        }
    }

    /// Nothing was heard for long: all that is out is sent again.
    fn on_timeout(&mut self) {
        self.threshold = (self.window / 2.0).max(2.0);
        self.window = 2.0;
        self.again.extend(std::mem::take(&mut self.outstanding).into_keys());
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// A packet or datagram comes out of the link.
    Arrive(Vec<u8>, bool),
    /// An acknowledgement is back, perhaps of a packet that was marked.
    Ack(u64, bool),
    /// The peer's report is back.
    Report(LossReport),
    Tick,
}

/// What a run gave.
#[derive(Debug)]
struct Outcome {
    /// Packets of the flow a second that arrived, each once, by the second.
    arrived: Vec<u64>,
    /// Packets that arrived more than once though they were sent once.
    queue_drops: u64,
    send: SendCounters,
    /// The same after ten seconds.
    sent_before: SendCounters,
    receive: ReceiveCounters,
    first_loss: Option<Time>,
    /// When the code was first on after the first loss.
    on_at: Option<Time>,
    /// Packets that repairs brought back in the first second.
    soon_recovered: u64,
}

impl Outcome {
    fn packets(&self, seconds: std::ops::Range<usize>) -> u64 {
        self.arrived[seconds].iter().sum()
    }
}

struct Run {
    /// None: no appliances.
    policy: Option<CongestionLoss>,
    /// The code is on all the time.
    fixed: bool,
    /// The link's \[bytes a second\].
    rate: u64,
    loss: f64,
    burst: u32,
    ecn: bool,
    seconds: u64,
    seed: u64,
    /// The flow begins to lose then.
    loses_from: Time,
    /// The flow sends so many packets a round trip, whatever is lost.
    constant: Option<f64>,
}

impl Run {
    fn packet(&self, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; PACKET];
        bytes[0] = 0x45;
        bytes[1] = if self.ecn { 2 } else { 0 };
        bytes[2..4].copy_from_slice(&(PACKET as u16).to_be_bytes());
        (bytes[8], bytes[9]) = (64, 6);
        bytes[20..28].copy_from_slice(&number.to_be_bytes());
        let mut normal = bytes.clone();
        let volatile = Namer::new(&key()).identify(&mut normal).expect("a packet").volatile;
        restore(&mut normal, volatile);
        normal
    }

    fn run(&self) -> Outcome {
        println!("seed {}", self.seed);
        let mut link = Link {
            rate: self.rate,
            free_at: Time::ZERO,
            loss: 0.0,
            burst: self.burst.max(1),
            run: 0,
            random: Seed(self.seed).stream("loss"),
            queue_drops: 0,
            first_loss: None,
        };
        let (mut sender, mut receiver) = self.appliances();
        let mut reno = Reno::new();
        let mut events: BTreeMap<(u64, u64), Event> = BTreeMap::new();
        let mut order = 0;
        let mut at = |events: &mut BTreeMap<(u64, u64), Event>, time: Time, event: Event| {
            order += 1;
            events.insert((time.as_picos(), order), event);
        };
        at(&mut events, Time::ZERO, Event::Tick);
        let mut arrived = vec![0; self.seconds as usize];
        let mut seen = BTreeSet::new();
        let (mut on_at, mut heard, mut report_at) = (None, Time::ZERO, Time::ZERO);
        let (mut soon_recovered, mut sent_before) = (0, SendCounters::default());
        while let Some(((picos, _), event)) = events.pop_first() {
            let now = Time::from_picos(picos);
            if now.has_reached(Time::ZERO + Duration::from_secs(self.seconds)) {
                break;
            }
            if now.has_reached(self.loses_from) {
                link.loss = self.loss;
            }
            let mut local = Batch::new();
            let mut repairs = Batch::new();
            match event {
                Event::Arrive(mut bytes, true) => {
                    local.push(&bytes);
                    let _ = receiver.observe(now, &mut bytes, &mut local);
                }
                Event::Arrive(bytes, false) => {
                    receiver.handle_datagram(now, &bytes, &mut local);
                }
                Event::Ack(number, marked) => {
                    heard = now;
                    reno.on_ack(now, number, marked);
                }
                Event::Report(report) => {
                    sender.on_report(now, &report, &mut repairs);
                    if sender.code().is_some() && link.first_loss.is_some() {
                        on_at.get_or_insert(now);
                    }
                }
                Event::Tick => {
                    if now.is_after(heard + Duration::from_millis(300)) {
                        heard = now;
                        reno.on_timeout();
                    }
                    sender.handle_timeout(now, &mut repairs);
                    receiver.handle_timeout(now, &mut local);
                    if now.has_reached(report_at) || receiver.report_is_urgent(now) {
                        report_at = now + Duration::from_secs(1);
                        let report = receiver.loss_report(now);
                        let report = LossReport { round_trip: DELAY * 2, ..report };
                        at(&mut events, now + DELAY, Event::Report(report));
                    }
                    at(&mut events, now + Duration::from_millis(1), Event::Tick);
                }
            }
            if now.is_before(Time::ZERO + Duration::from_secs(1)) {
                soon_recovered = receiver.account().recovered_total();
            }
            if now.is_before(Time::ZERO + Duration::from_secs(10)) {
                sent_before = *sender.counters();
            }
            for packet in local.iter() {
                let number = u64::from_be_bytes(packet[20..28].try_into().expect("eight"));
                if seen.insert(number) {
                    arrived[(now.as_picos() / 1_000_000_000_000) as usize] += 1;
                }
                at(&mut events, now + DELAY, Event::Ack(number, packet[1] & 3 == 3));
            }
            reno.window = self.constant.unwrap_or(reno.window);
            while let Some(number) = reno.poll(now) {
                let packet = self.packet(number);
                let arrives = link.send(now, PACKET);
                if self.policy.is_some() {
                    sender.observe(now, &mut packet.clone(), &mut repairs).expect("protected");
                }
                if let Some(arrives) = arrives {
                    at(&mut events, arrives, Event::Arrive(packet, true));
                }
                self.send_repairs(now, &mut repairs, &mut link, |arrives, datagram| {
                    at(&mut events, arrives, Event::Arrive(datagram, false));
                });
            }
            self.send_repairs(now, &mut repairs, &mut link, |arrives, datagram| {
                at(&mut events, arrives, Event::Arrive(datagram, false));
            });
        }
        let (send, receive) = (*sender.counters(), *receiver.counters());
        Outcome {
            arrived,
            queue_drops: link.queue_drops,
            first_loss: link.first_loss,
            send,
            sent_before,
            receive,
            on_at,
            soon_recovered,
        }
    }

    fn send_repairs(
        &self,
        now: Time,
        repairs: &mut Batch,
        link: &mut Link,
        mut arrive: impl FnMut(Time, Vec<u8>),
    ) {
        for datagram in repairs.iter().filter(|_| self.policy.is_some()) {
            if let Some(arrives) = link.send(now, datagram.len() + 28) {
                arrive(arrives, datagram.to_vec());
            }
        }
        repairs.clear();
    }

    fn appliances(&self) -> (SendSide, ReceiveSide) {
        let config = SendConfig {
            code: Code::Layers(Parameters::new(8, &[1, 19, 41]).expect("a code")),
            adaptive: (!self.fixed).then(Limits::default),
            longest: PACKET,
            flush_after: Duration::from_millis(5),
            repair_within: None,
        };
        let sender = SendSide::new(&key(), SESSION, &config).expect("a length");
        let config = ReceiveConfig {
            packets: 2_048,
            longest: PACKET,
            congestion: self.policy.unwrap_or_default(),
            ..ReceiveConfig::default()
        };
        let receiver = ReceiveSide::new(&key(), OTHER, &config).expect("memory");
        (sender, receiver.believing(SESSION))
    }
}

const SESSION: SessionId = SessionId { start: 1_000, random: 1 };
const OTHER: SessionId = SessionId { start: 2_000, random: 2 };

fn key() -> PresharedKey {
    PresharedKey::new([7; KEY_LEN])
}

const CLEAN: Run = Run {
    policy: None,
    fixed: false,
    rate: RATE,
    loss: 0.0,
    burst: 1,
    ecn: false,
    seconds: 40,
    seed: 1,
    loses_from: Time::ZERO,
    constant: None,
};

#[test]
fn a_clean_full_link_costs_nothing() {
    let alone = CLEAN.run();
    let with = Run { policy: Some(CongestionLoss::Signal), ..CLEAN }.run();
    let (alone_packets, packets) = (alone.packets(5..40), with.packets(5..40));
    println!(
        "{alone_packets} alone, {packets} with, drops {} and {}",
        alone.queue_drops, with.queue_drops
    );
    assert!(alone_packets > 35 * 1_000, "the link is full: {alone_packets}");
    assert!(packets * 100 >= alone_packets * 97, "{packets} of {alone_packets}: {with:?}");
    assert!(with.queue_drops * 2 <= alone.queue_drops * 3, "{with:?}");
    // The code that the flow began with is off by then.
    let bytes = |sent: &SendCounters| (sent.digest_bytes + sent.repair_bytes, sent.packet_bytes);
    let (before, after) = (bytes(&with.sent_before), bytes(&with.send));
    let overhead = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
    println!("an overhead of {overhead} after ten seconds");
    assert!(overhead <= 0.01, "{with:?}");
}

#[test]
fn losses_of_the_link_are_hidden_and_those_of_its_queue_are_not() {
    let lossy = Run { loss: 0.01, ..CLEAN };
    let alone = lossy.run();
    let with = Run { policy: Some(CongestionLoss::Signal), ..lossy }.run();
    let (alone, packets) = (alone.packets(5..40), with.packets(5..40));
    println!("{alone} alone, {packets} with: {with:?}");
    assert!(packets > 35 * 800 && packets > 2 * alone, "{alone} alone, {packets} with");
}

/// A flow's first slow start decides how it fares on a link that loses from the start: it is protected.
#[test]
fn a_link_of_which_nothing_is_known_is_protected() {
    for seed in 1..6 {
        let lossy = Run { rate: 4 * RATE, loss: 0.01, seconds: 10, seed, ..CLEAN };
        let alone = lossy.run();
        let with = Run { policy: Some(CongestionLoss::Signal), ..lossy }.run();
        let (alone, packets) = (alone.packets(0..10), with.packets(0..10));
        println!("{alone} alone, {packets} with: {with:?}");
        assert!(packets >= 3 * alone, "{alone} alone, {packets} with");
        assert!(with.soon_recovered > 0, "{with:?}");
    }
}

#[test]
fn the_code_is_on_within_a_round_trip_and_a_half_of_the_first_losses() {
    let begins = Time::ZERO + Duration::from_secs(20);
    let mut times = Vec::new();
    for seed in 1..6 {
        let run = Run {
            policy: Some(CongestionLoss::Signal),
            loss: 0.1,
            constant: Some(25.0),
            loses_from: begins,
            seconds: 22,
            seed,
            ..CLEAN
        };
        let outcome = run.run();
        let on = outcome.on_at.expect("it loses").since(outcome.first_loss.expect("it loses"));
        println!("on after {on}");
        times.push(on);
    }
    // A round trip is 50 ms, and what comes out of the link next is up to half of one later. The digest that names
    // the first lost packet may be lost too: then the next one, 50 ms later, tells.
    times.sort();
    assert!(times[3] <= Duration::from_millis(100), "{times:?}");
    assert!(times[4] <= Duration::from_millis(200), "{times:?}");
}

/// A code that is on all the time, on a link whose queue alone drops: a flow that learns nothing of that
/// fills the queue until repairs are lost too, and others on the link lose with it.
#[test]
fn repairs_hide_no_congestion() {
    let alone = CLEAN.run();
    for ecn in [false, true] {
        let with = |policy| Run { policy: Some(policy), fixed: true, ecn, ..CLEAN }.run();
        let (hidden, signalled) = (with(CongestionLoss::Recover), with(CongestionLoss::Signal));
        for (name, outcome) in
            [("alone", &alone), ("recovered", &hidden), ("signalled", &signalled)]
        {
            println!(
                "ECN {ecn}, {name}: {} packets, {} dropped, {} left lost, {} marked",
                outcome.packets(5..40),
                outcome.queue_drops,
                outcome.receive.congested,
                outcome.receive.marked
            );
        }
        assert!(hidden.queue_drops > 2 * signalled.queue_drops, "{hidden:?}");
        assert!(signalled.packets(5..40) * 100 >= hidden.packets(5..40) * 95, "{signalled:?}");
        assert_eq!(
            (signalled.receive.marked > 0, signalled.receive.congested > 0),
            (ecn, !ecn),
            "{signalled:?}"
        );
    }
}
