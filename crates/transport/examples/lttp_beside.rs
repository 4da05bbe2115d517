//! Prints what LTTP gets of a link alone, and beside CUBIC, BBR and itself.
//!
//! `cargo run --release -p wellspring-transport --example lttp_beside [SEEDS] [RTT in us]...`

#[path = "../tests/it/coexistence.rs"]
mod coexistence;

use coexistence::{Path, WIRE, config, jain};
use wellspring_core::{
    Duration, Endpoint, Frame, Header, HostId, Seed, SessionId, Time, Verdict, Work, WorkDone,
};
use wellspring_testkit::{Dumbbell, Pair};
use wellspring_transport::congestion::Algorithm;
use wellspring_transport::{lttp, scdp};
use wellspring_wire::lttp::SYMBOL_HEADER_LEN;

const RTTS_US: [u64; 5] = [200, 2_000, 10_000, 60_000, 100_000];
const QUEUES: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// One of LTTP and SCDP.
#[derive(Clone, Copy, Debug)]
enum Of<L, S> {
    Lttp(L),
    Scdp(S),
}

impl<L: Header, S: Header> Header for Of<L, S> {
    fn wire_len(&self) -> u16 {
        match self {
            Of::Lttp(header) => header.wire_len(),
            Of::Scdp(header) => header.wire_len(),
        }
    }
}

type Host = Of<Box<lttp::Endpoint>, Box<scdp::Endpoint>>;

impl Endpoint for Host {
    type Header = Of<lttp::LttpHeader, wellspring_wire::scdp::ScdpHeader>;
    type Command = Of<lttp::Command, scdp::Command>;
    type Event = ();
    type CommandError = String;

    fn handle_command(&mut self, now: Time, command: Self::Command) -> Result<(), String> {
        match (self, command) {
            (Of::Lttp(host), Of::Lttp(command)) => {
                host.handle_command(now, command).map_err(|error| error.to_string())
            }
            (Of::Scdp(host), Of::Scdp(command)) => {
                host.handle_command(now, command).map_err(|error| error.to_string())
            }
            _ => Err("a command of the other protocol".to_owned()),
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame<Self::Header>) -> Verdict {
        match (self, frame.header) {
            (Of::Lttp(host), Of::Lttp(header)) => {
                host.handle_frame(now, &frame.with_header(header))
            }
            (Of::Scdp(host), Of::Scdp(header)) => {
                host.handle_frame(now, &frame.with_header(header))
            }
            _ => Verdict::Consumed,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Of::Lttp(host) => host.handle_timeout(now),
            Of::Scdp(host) => host.handle_timeout(now),
        }
    }

    fn handle_work_done(&mut self, now: Time, done: WorkDone) {
        match self {
            Of::Lttp(host) => host.handle_work_done(now, done),
            Of::Scdp(host) => host.handle_work_done(now, done),
        }
    }

    fn poll_work(&mut self) -> Option<Work> {
        match self {
            Of::Lttp(host) => host.poll_work(),
            Of::Scdp(host) => host.poll_work(),
        }
    }

    fn poll_event(&mut self) -> Option<()> {
        match self {
            Of::Lttp(host) => host.poll_event().map(|_| ()),
            Of::Scdp(host) => host.poll_event().map(|_| ()),
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Frame<Self::Header>> {
        match self {
            Of::Lttp(host) => {
                host.poll_transmit(now).map(|frame| frame.with_header(Of::Lttp(frame.header)))
            }
            Of::Scdp(host) => {
                host.poll_transmit(now).map(|frame| frame.with_header(Of::Scdp(frame.header)))
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self {
            Of::Lttp(host) => host.poll_timeout(),
            Of::Scdp(host) => host.poll_timeout(),
        }
    }
}

/// What a pair of hosts speaks.
#[derive(Clone, Copy)]
enum Speaks {
    Lttp,
    Scdp(Algorithm),
}

/// The endpoint of a host as it is set up over UDP, symbols as long on the wire as SCDP's.
fn host(number: u32, speaks: Speaks, path: &Path, seed: u64) -> Host {
    match speaks {
        Speaks::Lttp => {
            let mut config = lttp::Config::new(HostId(number), Seed(seed));
            config.overhead_per_packet = SYMBOL_HEADER_LEN as u32 + 28;
            config.symbol_size = (WIRE - u64::from(config.overhead_per_packet)) as u16;
            (config.block_symbols, config.overlap) = (1_024, true);
            Of::Lttp(Box::new(lttp::Endpoint::new(config)))
        }
        Speaks::Scdp(algorithm) => {
            let config = config(number, algorithm, path);
            Of::Scdp(Box::new(scdp::Endpoint::new(config)))
        }
    }
}

fn begin(lab: &mut Dumbbell<Host>, pair: u32, speaks: Speaks) {
    let (sender, receiver) = (HostId(2 * pair), HostId(2 * pair + 1));
    let session = SessionId(pair + 1);
    match speaks {
        Speaks::Lttp => {
            let transfer_len = 1 << 35;
            let offer = lttp::Command::Offer { session, client: receiver, transfer_len };
            lab.command(sender, Of::Lttp(offer));
            let request = lttp::Command::Request { session, server: sender };
            lab.command(receiver, Of::Lttp(request));
        }
        Speaks::Scdp(_) => lab.command(sender, Of::Scdp(coexistence::long_transfer(pair))),
    }
}

/// The shares of transfers that begin one after the other, in an order that the seed decides.
fn together(seed: u64, path: &Path, all: &[Speaks], settle: u64, secs: u64) -> Vec<f64> {
    let pair = |(number, &speaks): (u32, &Speaks)| Pair {
        sender: host(2 * number, speaks, path, seed),
        receiver: host(2 * number + 1, speaks, path, seed),
        rtt: path.rtt,
        jitter: path.jitter,
    };
    let pairs: Vec<_> = (0..).zip(all).map(pair).collect();
    let mut lab = Dumbbell::new(Seed(seed), path.bottleneck(), pairs);
    let count = all.len() as u32;
    for turn in 0..count {
        let pair = (turn + seed as u32) % count;
        begin(&mut lab, pair, all[pair as usize]);
        lab.run(Duration::from_secs(1) + path.rtt * 10);
    }
    lab.run(Duration::from_secs(settle));
    let before = lab.delivered.clone();
    lab.run(Duration::from_secs(secs));
    let got = lab.delivered.iter().zip(&before).map(|(now, before)| (now - before) as f64);
    got.map(|bytes| bytes / path.capacity() / secs as f64).collect()
}

fn mean(seeds: u64, of: impl Fn(u64) -> f64) -> f64 {
    (1..=seeds).map(of).sum::<f64>() / seeds as f64
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seeds: u64 = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(3);
    let only: Vec<u64> = args.filter_map(|arg| arg.parse().ok()).collect();
    let rtts = || RTTS_US.into_iter().filter(|rtt| only.is_empty() || only.contains(rtt));
    println!("LTTP alone: % of the line, without loss, 0.1 % and 1 %; queue 1 BDP; {seeds} seeds");
    for rtt in rtts() {
        let cells = [0.0, 0.001, 0.01].map(|loss| {
            let path = Path { loss, ..Path::new(Duration::from_micros(rtt), 1.0) };
            1e2 * mean(seeds, |seed| together(seed, &path, &[Speaks::Lttp], 5, 15)[0])
        });
        println!("{:>8} {:>7.1} {:>7.1} {:>7.1}", rtt as f64 / 1e3, cells[0], cells[1], cells[2]);
    }
    println!("LTTP beside others: its % of what is used; two of it: Jain's index");
    println!("  RTT ms  queue    cubic  4 cubic    bbr  two LTTP  used");
    for (rtt, queue) in rtts().flat_map(|rtt| QUEUES.map(|queue| (rtt, queue))) {
        let path = Path::new(Duration::from_micros(rtt), queue);
        // Ten times the rate, and short cycles.
        let (settle, secs) = if rtt < 1_000 { (2, 5) } else { (15, 30) };
        let share = |algorithm, count: usize| {
            let mut all = vec![Speaks::Lttp];
            all.resize(1 + count, Speaks::Scdp(algorithm));
            let shares = |seed| together(seed, &path, &all, settle, secs);
            1e2 * mean(seeds, |seed| {
                let shares = shares(seed);
                shares[0] / shares.iter().sum::<f64>()
            })
        };
        let two = |seed| together(seed, &path, &[Speaks::Lttp; 2], settle, secs);
        println!(
            "{:>8} {queue:>6} {:>8.0} {:>8.0} {:>6.0} {:>9.3} {:>5.0}",
            rtt as f64 / 1e3,
            share(Algorithm::Cubic, 1),
            share(Algorithm::Cubic, 4),
            share(Algorithm::Bbr, 1),
            mean(seeds, |seed| jain(&two(seed))),
            1e2 * two(1).iter().sum::<f64>(),
        );
    }
}
