//! SCDP sessions side by side through one bottleneck.

use wellspring_core::{Duration, GroupId, HostId, Priority, Rate, Seed, SessionId};
use wellspring_testkit::{Bottleneck, Dumbbell, Pair};
use wellspring_transport::congestion::Algorithm;
use wellspring_transport::scdp::{
    Command, Config, Endpoint, Fabric, ObjectInfo, ReceiveSession, Role, SendSession, Share,
};
use wellspring_wire::scdp::Mode;

/// Symbol size \[bytes\].
const SYMBOL: u16 = 1_440;
/// A symbol on the wire \[bytes\].
pub const WIRE: u64 = SYMBOL as u64 + 32 + 20;

/// What the path is like.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub rate: Rate,
    pub rtt: Duration,
    /// Queue, in bandwidth-delay products.
    pub queue: f64,
    /// Random loss, both ways.
    pub loss: f64,
    pub jitter: Duration,
    /// Credits a pull.
    pub burst: u16,
}

impl Path {
    pub fn new(rtt: Duration, queue: f64) -> Self {
        let mbps = if rtt < Duration::from_millis(1) { 1_000 } else { 100 };
        let (rate, jitter) = (Rate::from_mbps(mbps), Duration::ZERO);
        Path { rate, rtt, queue, loss: 0.0, jitter, burst: 1 }
    }

    /// The queue, no less than a few packets \[bytes\].
    fn queue_bytes(&self) -> u64 {
        let held = self.rate.as_bits_per_second() as f64 / 8.0 * self.rtt.as_secs_f64();
        ((held * self.queue) as u64).max(8 * WIRE)
    }

    pub fn bottleneck(&self) -> Bottleneck {
        Bottleneck {
            rate: self.rate,
            queue: self.queue_bytes(),
            loss: self.loss,
            loss_back: self.loss,
            mark_above: None,
        }
    }

    /// Payload that fits through \[bytes/s\].
    pub fn capacity(&self) -> f64 {
        self.rate.as_bits_per_second() as f64 / 8.0 * f64::from(SYMBOL) / WIRE as f64
    }
}

/// The endpoint of a host as it is set up over UDP.
fn endpoint(host: u32, algorithm: Algorithm, path: &Path) -> Endpoint {
    Endpoint::new(config(host, algorithm, path))
}

/// The configuration of a host as it is set up over UDP.
pub fn config(host: u32, algorithm: Algorithm, path: &Path) -> Config {
    let mut config = Config::new(HostId(host), Rate::from_mbps(10_000));
    config.fabric = Fabric::Shared { reordering_threshold: 3 };
    config.congestion = algorithm;
    config.burst = path.burst;
    config.initial_rtt = Duration::from_millis(20);
    config.min_timeout = Duration::from_millis(50);
    config.release_after = config.peer_timeout;
    config.limits.open_bytes = 64 << 20;
    config
}

pub type Lab = Dumbbell<Endpoint>;

/// A network with one pair of hosts for each algorithm.
pub fn lab(seed: u64, path: &Path, algorithms: &[Algorithm]) -> Lab {
    let pair = |(number, &algorithm): (u32, &Algorithm)| Pair {
        sender: endpoint(2 * number, algorithm, path),
        receiver: endpoint(2 * number + 1, algorithm, path),
        rtt: path.rtt,
        jitter: path.jitter,
    };
    let pairs: Vec<_> = (0_u32..).zip(algorithms).map(pair).collect();
    Dumbbell::new(Seed(seed), path.bottleneck(), pairs)
}

/// Begins a transfer from the sender of a pair that lasts longer than any run.
pub fn begin(lab: &mut Lab, pair: u32) {
    lab.command(HostId(2 * pair), long_transfer(pair));
}

/// A transfer from the sender of a pair to its receiver that lasts longer than any run.
#[allow(dead_code, reason = "not every user of this file needs it")]
pub fn long_transfer(pair: u32) -> Command {
    transfer(pair, Role::Unicast { receiver: HostId(2 * pair + 1), share: Share::WHOLE })
}

fn transfer(pair: u32, role: Role) -> Command {
    let object = ObjectInfo::new(20_000_000 * u64::from(SYMBOL), SYMBOL, 100, 0);
    let session = SessionId(pair + 1);
    Command::Send(SendSession {
        session,
        object,
        role,
        initial_window: 12,
        class: None,
        resume: None,
        priority: wellspring_core::Priority::Normal,
    })
}

fn begin_as(lab: &mut Lab, pair: u32, role: Role) {
    lab.command(HostId(2 * pair), transfer(pair, role));
}

/// What each pair got of the bottleneck's capacity in a span.
pub fn shares(lab: &mut Lab, path: &Path, span: Duration) -> Vec<f64> {
    let before = lab.delivered.clone();
    lab.run(span);
    let got = lab.delivered.iter().zip(&before).map(|(now, before)| (now - before) as f64);
    got.map(|bytes| bytes / path.capacity() / span.as_secs_f64()).collect()
}

/// A lone session's part of the capacity after ten round trips.
#[allow(dead_code, reason = "not every user of this file needs it")]
pub fn alone(seed: u64, path: &Path, algorithm: Algorithm, span: Duration) -> f64 {
    let mut lab = lab(seed, path, &[algorithm]);
    begin(&mut lab, 0);
    lab.run(path.rtt * 10);
    shares(&mut lab, path, span)[0]
}

/// When the next of sessions begins after the last. CUBIC's long cycles make shares depend on it, so seeds differ in it.
fn pause(seed: u64, path: &Path) -> Duration {
    Duration::from_millis(1_000 + 137 * (seed % 32)) + path.rtt * 10
}

/// The shares of sessions that begin one after the other, a second or more and ten round trips apart, after some time to
/// settle.
#[allow(dead_code, reason = "not every user of this file needs it")]
pub fn together(
    seed: u64,
    path: &Path,
    algorithms: &[Algorithm],
    settle: u64,
    secs: u64,
) -> Vec<f64> {
    let mut lab = lab(seed, path, algorithms);
    // The seed decides who begins first.
    let count = algorithms.len() as u32;
    for turn in 0..count {
        begin(&mut lab, (turn + seed as u32) % count);
        lab.run(pause(seed, path));
    }
    lab.run(Duration::from_secs(settle));
    shares(&mut lab, path, Duration::from_secs(secs))
}

/// The shares of a session that uses so many path labels, all of which lead through the bottleneck, and of CUBIC
/// beside it; the seed decides who begins first.
#[allow(dead_code, reason = "not every user of this file needs it")]
pub fn beside_cubic(seed: u64, path: &Path, labels: u16) -> Vec<f64> {
    let of_labels = |host| {
        let mut config = config(host, Algorithm::Veno, path);
        (config.paths, config.directed) = (labels, true);
        Endpoint::new(config)
    };
    let (rtt, jitter) = (path.rtt, path.jitter);
    let many = Pair { sender: of_labels(0), receiver: of_labels(1), rtt, jitter };
    let cubic = |host| endpoint(host, Algorithm::Cubic, path);
    let one = Pair { sender: cubic(2), receiver: cubic(3), rtt, jitter };
    let mut lab = Dumbbell::new(Seed(seed), path.bottleneck(), [many, one]);
    for turn in 0..2 {
        let pair = (turn + seed as u32) % 2;
        if pair == 0 {
            expect(&mut lab);
        }
        begin(&mut lab, pair);
        for path in (1..labels).filter(|_| pair == 0) {
            for (host, peer) in [(0, 1), (1, 0)] {
                let (session, peer) = (SessionId(1), HostId(peer));
                lab.command(HostId(host), Command::AddPath { session, peer, path });
            }
        }
        lab.run(Duration::from_secs(2));
    }
    lab.run(Duration::from_secs(12));
    shares(&mut lab, path, Duration::from_secs(12))
}

/// Members of the group that a bottleneck is shared with.
const MEMBERS: usize = 3;

/// The shares of a group, whose stream crosses the bottleneck once, and of the sessions beside it; the seed decides who
/// begins first.
#[allow(dead_code, reason = "not every user of this file needs it")]
pub fn group_beside(
    seed: u64,
    path: &Path,
    (group, others): (Algorithm, &[Algorithm]),
    settle: u64,
    secs: u64,
) -> Vec<f64> {
    let mut all = vec![group; MEMBERS];
    all.extend_from_slice(others);
    let mut lab = lab(seed, path, &all);
    let members: Vec<_> = (0..MEMBERS as u32).map(|pair| HostId(2 * pair + 1)).collect();
    lab.set_group(GroupId(1), members.clone());
    let count = 1 + others.len() as u32;
    for turn in 0..count {
        match (turn + seed as u32) % count {
            0 => {
                let held = Vec::new();
                let role = Role::OneToMany { group: GroupId(1), members: members.clone(), held };
                begin_as(&mut lab, 0, role);
            }
            other => begin(&mut lab, MEMBERS as u32 - 1 + other),
        }
        lab.run(pause(seed, path));
    }
    lab.run(Duration::from_secs(settle));
    let mut shares = shares(&mut lab, path, Duration::from_secs(secs));
    shares.drain(1..MEMBERS);
    shares
}

/// What a session in the background gets, and what others get beside it that begin two seconds before or after it, as
/// the seed decides.
#[allow(dead_code, reason = "not every user of this file needs it")]
pub fn background_beside(seed: u64, path: &Path, others: &[Algorithm]) -> Vec<f64> {
    let mut all = vec![Algorithm::Veno];
    all.extend_from_slice(others);
    let mut lab = lab(seed, path, &all);
    let count = all.len() as u32;
    for turn in 0..count {
        let pair = (turn + seed as u32) % count;
        if pair == 0 {
            expect_with(&mut lab, Priority::Background);
        }
        begin(&mut lab, pair);
        lab.run(Duration::from_secs(2));
    }
    lab.run(Duration::from_secs(12));
    shares(&mut lab, path, Duration::from_secs(12))
}

/// Announces the first pair's transfer to its receiver, as over sockets.
fn expect(lab: &mut Lab) {
    expect_with(lab, Priority::Normal);
}

fn expect_with(lab: &mut Lab, priority: Priority) {
    let object = ObjectInfo::new(20_000_000 * u64::from(SYMBOL), SYMBOL, 100, 0);
    let (session, mode, senders) = (SessionId(1), Mode::Unicast, vec![HostId(0)]);
    let (initial_window, complete) = (12, Vec::new());
    let receive =
        ReceiveSession { session, object, mode, senders, initial_window, complete, priority };
    lab.command(HostId(1), Command::Receive(receive));
}

/// A lone session's part of the capacity in each of its first round trips, from the request on that its sender answers.
#[allow(dead_code, reason = "not every user of this file needs it")]
pub fn start(seed: u64, path: &Path, algorithm: Algorithm, round_trips: usize) -> Vec<f64> {
    let mut lab = lab(seed, path, &[algorithm]);
    expect(&mut lab);
    lab.run(path.rtt / 2);
    begin(&mut lab, 0);
    lab.run(path.rtt / 2);
    (0..round_trips).map(|_| shares(&mut lab, path, path.rtt)[0]).collect()
}

/// Jain's index of fairness.
#[allow(dead_code, reason = "not every user of this file needs it")]
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}
