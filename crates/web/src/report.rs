//! Network, settings and results as JSON, for the page.

use crate::measure::{End, Measure};
use crate::scenario::Ready;
use crate::setup::{Preset, ProtocolChoice, Setup};
use core::ops::RangeInclusive;
use serde::Serialize;
use wellspring_core::Time;
use wellspring_experiments::live::{Live, PortState};
use wellspring_experiments::record::FlowRecord;
use wellspring_experiments::run::Ending;
use wellspring_experiments::scenario::{RELAY, TopologyKind};

/// The settings and what they make.
#[derive(Debug, Serialize)]
pub(crate) struct Opened {
    pub settings: Settings,
    /// The link's fragment that leads here.
    pub fragment: String,
    pub network: Network,
    pub runs: Vec<RunName>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    pub preset: &'static str,
    pub protocols: Vec<&'static str>,
    /// Those that there are.
    pub choices: Vec<&'static str>,
    pub limits: Limits,
    pub senders: u64,
    pub most_senders: u64,
    pub size: u64,
    pub buffer: u64,
    pub rate: u64,
    /// In microseconds.
    pub delay: f64,
    /// In percent.
    pub loss: f64,
    pub slow: u64,
    pub seed: u64,
    pub events: Vec<Event>,
}

/// The least and the most of what a story may narrow, in the units above.
#[derive(Debug, Serialize)]
pub(crate) struct Limits {
    rate: [u64; 2],
    delay: [f64; 2],
    slow: [u64; 2],
}

#[derive(Debug, Serialize)]
pub(crate) struct Event {
    /// In microseconds.
    pub at: f64,
    pub node: String,
    pub up: bool,
}

/// Nodes by number, and the two ends of each port's link.
#[derive(Debug, Serialize)]
pub(crate) struct Network {
    pub hosts: u32,
    pub nodes: Vec<Node>,
    pub ports: Vec<[u32; 2]>,
    /// Links with a rate of their own, by their ends' names.
    pub slow: Vec<[String; 2]>,
    /// A long link: all nodes stand in a line.
    pub line: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Node {
    pub name: String,
    /// 0 for hosts, 1 for their switches, and so on.
    pub tier: u32,
    /// The number of its rack, or of its pod for those above.
    pub group: u32,
    /// Whether it can fail.
    pub fails: bool,
}

/// A run of the page and its scenario file.
#[derive(Debug, Serialize)]
pub(crate) struct RunName {
    pub protocol: &'static str,
    pub scenario: String,
}

impl Settings {
    pub fn new(setup: &Setup) -> Self {
        let thousandths = |value: u64| value as f64 / 1_000.0;
        let names = |protocols: &[ProtocolChoice]| {
            protocols.iter().map(|protocol| protocol.as_str()).collect()
        };
        let ends = |range: RangeInclusive<u64>| [*range.start(), *range.end()];
        Settings {
            preset: setup.preset.as_str(),
            protocols: names(&setup.protocols),
            choices: names(setup.preset.protocols()),
            limits: Limits {
                rate: ends(setup.preset.rates()),
                delay: ends(setup.preset.delays()).map(thousandths),
                slow: ends(setup.preset.slow()),
            },
            senders: setup.senders,
            most_senders: *setup.preset.senders().end(),
            size: setup.size,
            buffer: setup.buffer,
            rate: setup.rate,
            delay: thousandths(setup.delay),
            loss: thousandths(setup.loss),
            slow: setup.slow,
            seed: setup.seed,
            events: setup
                .events
                .iter()
                .map(|event| Event {
                    at: thousandths(event.at),
                    node: event.node.clone(),
                    up: event.up,
                })
                .collect(),
        }
    }
}

impl Network {
    pub fn new(ready: &Ready, run: &mut dyn Live) -> Self {
        let topology = &ready.scenario.topology;
        let mut nodes = Vec::new();
        if let Some(tree) = topology.fat_tree() {
            let tiers = [
                ("host", tree.hosts(), tree.hosts_per_tor),
                ("tor", tree.tors(), tree.tors_per_pod),
                ("agg", tree.aggs(), tree.aggs_per_pod),
                ("core", tree.cores(), tree.cores()),
            ];
            for (tier, (name, count, in_group)) in tiers.into_iter().enumerate() {
                nodes.extend((0..count).map(|number| Node {
                    name: format!("{name}{number}"),
                    tier: tier as u32,
                    group: number / in_group.max(1),
                    fails: true,
                }));
            }
        }
        let line = topology.kind == TopologyKind::LongLink;
        if line {
            // In the order of the network's numbers.
            let places = [("host0", 0), ("host1", 0), ("site0", 1), (RELAY, 2), ("site1", 1)];
            nodes.extend(places.into_iter().map(|(name, tier)| Node {
                name: name.to_owned(),
                tier,
                group: 0,
                fails: name == RELAY,
            }));
        }
        let hosts = nodes.iter().filter(|node| node.tier == 0).count() as u32;
        let mut ports = Vec::new();
        run.ports(&mut |port: PortState| ports.push([port.node, port.peer]));
        let slow = topology.links.iter().map(|link| link.between.clone()).collect();
        Network { hosts, nodes, ports, slow, line }
    }
}

/// A request and what became of it.
#[derive(Debug, Serialize)]
pub(crate) struct Request {
    kind: &'static str,
    host: u32,
    peer: u32,
    bytes: u64,
    /// In seconds.
    start: f64,
    /// In seconds, if it completed.
    end: Option<f64>,
    failed: Option<&'static str>,
}

impl Request {
    fn new(record: &FlowRecord) -> Self {
        let end = record.end.filter(|_| !record.failed);
        Request {
            kind: record.kind,
            host: record.host,
            peer: record.peer,
            bytes: record.bytes,
            start: record.start,
            end,
            failed: record.reason.map(|reason| reason.as_str()),
        }
    }
}

/// What came of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Result {
    /// `running`, `complete`, `stuck`, `limit`, or `too-long`.
    ending: &'static str,
    /// Of all deliveries, as in `runs.csv`; none while it runs, or if it was broken off.
    digest: Option<String>,
    /// In seconds.
    simulated: f64,
    events: u64,
    packets: u64,
    again: u64,
    trimmed: u64,
    dropped: u64,
    /// Of these, what links lost.
    lost: u64,
    /// Packets that appliances brought back.
    recovered: u64,
    marked: u64,
    requests: Vec<Request>,
    done: usize,
    /// Completion times of the requests that completed \[s\].
    mean: Option<f64>,
    p99: Option<f64>,
    last: Option<f64>,
    /// All bytes asked for, over the time from the first start to the last end \[bit/s\].
    goodput: Option<f64>,
    /// Length of the timeline's intervals \[s\].
    interval: f64,
    /// Payload received in each \[bytes\], and the longest queue at its end.
    received: Vec<u64>,
    queue: Vec<u32>,
}

impl Result {
    pub fn new(measure: &Measure, preset: Preset, copies: u64) -> Self {
        let run = &*measure.run;
        let (counters, traffic) = (run.counters(), run.traffic());
        let mut requests = Vec::new();
        run.requests(&mut |record| requests.push(Request::new(record)));
        let mut times: Vec<f64> =
            requests.iter().filter_map(|request| Some(request.end? - request.start)).collect();
        times.sort_by(f64::total_cmp);
        let done = times.len();
        let p99 = times.get((done * 99).div_ceil(100).saturating_sub(1)).copied();
        let first = requests.iter().map(|request| request.start).min_by(f64::total_cmp);
        let last_end = requests.iter().filter_map(|request| request.end).max_by(f64::total_cmp);
        let copies = if preset == Preset::Replicate { copies } else { 1 };
        let bytes: u64 = requests.iter().map(|request| request.bytes * copies).sum();
        let all_done = done > 0 && done == requests.len();
        let goodput = first.zip(last_end).filter(|_| all_done);
        Result {
            ending: match measure.end {
                None => "running",
                Some(End::Run(Ending::Complete)) => "complete",
                Some(End::Run(Ending::Stuck)) => "stuck",
                Some(End::Run(Ending::Limit)) => "limit",
                Some(End::TooLong) => "too-long",
            },
            digest: matches!(measure.end, Some(End::Run(_)))
                .then(|| format!("{:016x}", counters.digest)),
            simulated: run.now().since(Time::ZERO).as_secs_f64(),
            events: counters.events,
            packets: traffic.first + traffic.again,
            again: traffic.again,
            trimmed: counters.trimmed,
            dropped: counters.dropped(),
            lost: counters.dropped_down + counters.dropped_by_rule,
            recovered: traffic.recovered,
            marked: counters.marked,
            done,
            mean: (done > 0).then(|| times.iter().sum::<f64>() / done as f64),
            p99,
            last: times.last().copied(),
            goodput: goodput.map(|(first, last)| bytes as f64 * 8.0 / (last - first)),
            interval: measure.interval.as_secs_f64(),
            received: measure.timeline.iter().map(|interval| interval.received).collect(),
            queue: measure.timeline.iter().map(|interval| interval.queue).collect(),
            requests,
        }
    }
}
