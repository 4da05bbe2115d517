//! A scenario's long link, run in steps and looked at.

use anyhow::{Context, Result, bail};
use wellspring_core::{Duration, Time};
use wellspring_sim::topology::Graph;
use wellspring_sim::{Counters, PortCounters};

use super::link::Carried;
use super::{Algorithm, Link, Loss, Protection, Setting, Simulation, Work};
use crate::look::{Live, PacketKind, PacketOnLink, PortState, Traffic};
use crate::observe::Series;
use crate::outcome::{Ending, Outcome, Stuck};
use crate::record::{Account, FlowRecord, Reason};
use crate::scenario::{Appliances, CodeKind, EventKind, ProtocolName, RELAY, Scenario, Workload};

/// Bytes of a full packet on the link, with what the layer below adds.
const FULL: u64 = 1_514;
/// Nodes, as the scenario's graph numbers them, and ports by their ends. Each half of the long link has two.
const NODES: [&str; 5] = ["host0", "host1", "site0", RELAY, "site1"];
const RELAY_NODE: u32 = 3;
const PORTS: [[u32; 2]; 8] = [[0, 2], [2, 0], [2, 3], [3, 2], [3, 4], [4, 3], [4, 1], [1, 4]];
/// Of each direction: the port before the relay, and the one behind it.
const HALVES: [[u32; 2]; 2] = [[2, 4], [5, 3]];

/// A run on a long link.
pub(crate) struct Stepped {
    simulation: Simulation,
    now: Time,
    limit: Time,
    patience: Duration,
    outages: Vec<(Time, Time)>,
    record: FlowRecord,
    packets: u64,
    ending: Option<Ending>,
}

impl Stepped {
    /// At time zero.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self> {
        check_nodes(&scenario.topology.build()?)?;
        let Workload::Single { size, .. } = scenario.workload else {
            bail!("workload.kind must be single on a long link");
        };
        let algorithm = match scenario.protocol.name {
            ProtocolName::TcpReno => Algorithm::Reno,
            ProtocolName::TcpBbr => Algorithm::Bbr,
            _ => Algorithm::Cubic,
        };
        let bits_per_second = scenario.topology.rate.0.as_bits_per_second();
        let full = Duration::from_nanos(FULL * 8 * 1_000_000_000 / bits_per_second.max(1));
        let setting = Setting {
            bits_per_second,
            delay: scenario.topology.delay.0,
            queue: full * u64::from(scenario.switch.buffer_packets),
            losses: vec![(Duration::ZERO, Loss::Random(scenario.topology.data_loss))],
            protection: scenario.appliances.as_ref().map(protection),
            work: vec![Work::Transfer(algorithm, size.0)],
            // What happens at the limit itself is counted, too.
            length: scenario.run.limit.0 + Duration::from_secs(1),
            seed,
        };
        let outages = outages(scenario);
        let record = FlowRecord {
            kind: "transfer",
            protocol: scenario.protocol.name,
            beside: false,
            host: 0,
            peer: 1,
            bytes: size.0,
            start: 0.0,
            end: None,
            account: Account::default(),
            failed: false,
            reason: None,
        };
        Ok(Stepped {
            simulation: Simulation::new(&setting, &outages),
            now: Time::ZERO,
            limit: Time::ZERO + scenario.run.limit.0,
            patience: scenario.run.patience.0,
            outages,
            record,
            packets: super::flows::packets(size.0),
            ending: None,
        })
    }

    /// How many of the transfer's packets are there in order, and of how many.
    pub fn progress(&self) -> (u64, u64) {
        (self.simulation.flows.there(0), self.packets)
    }

    /// What came of it, once it has ended.
    pub fn outcome(self, seed: u64) -> Outcome {
        let ending = self.ending.unwrap_or(Ending::Limit);
        let stuck = (ending == Ending::Stuck).then(|| {
            let (there, all) = self.progress();
            let summary = format!("host0 to host1: {there} of {all} packets are there");
            Stuck { state: format!("{summary}\n{:#?}\n", self.simulation.flows), summary }
        });
        let mut record = self.record.clone();
        record.reason = match ending {
            Ending::Complete => None,
            Ending::Stuck => Some(Reason::Stuck),
            Ending::Limit => Some(Reason::Limit),
        };
        let [there, back] = &self.simulation.sites.links;
        let simulated = self.now.as_secs_f64();
        let carried = (there.bytes + back.bytes) as f64 * 8.0;
        let capacity = 2.0 * there.bits_per_second() as f64 * simulated;
        Outcome {
            seed,
            flows: vec![record],
            timeline: Vec::new(),
            counters: self.counters(),
            simulated,
            downlink_utilisation: if capacity > 0.0 { carried / capacity } else { 0.0 },
            series: Series::default(),
            ending,
            not_made: 0,
            not_made_beside: 0,
            stuck,
            timeouts: self.simulation.flows.tally.timeouts,
        }
    }

    fn is_up(&self) -> bool {
        !self
            .outages
            .iter()
            .any(|(from, to)| self.now.has_reached(*from) && self.now.is_before(*to))
    }

    /// Packets that wait for a direction of the link: with payload, repairs too, and others.
    fn waiting(&self, direction: usize) -> (u32, u32) {
        let mut counts = (0, 0);
        for one in self.simulation.sites.links[direction].carried(self.now) {
            let waits = self.now.is_before(one.starts);
            let count = if one.kind == PacketKind::Control { &mut counts.1 } else { &mut counts.0 };
            *count += u32::from(waits);
        }
        counts
    }
}

/// The numbers of nodes above are those of the graph.
fn check_nodes(graph: &Graph) -> Result<()> {
    for (number, name) in NODES.into_iter().enumerate() {
        let node = graph.node(name).context("a node of the long link")?;
        if node.0 as usize != number {
            bail!("{name} has another number than here: a bug");
        }
    }
    Ok(())
}

fn protection(appliances: &Appliances) -> Protection {
    match appliances.code {
        CodeKind::Adaptive => Protection::adaptive(),
        CodeKind::Layers => Protection::fixed(appliances.rate, &appliances.interleaves, false),
    }
}

/// Spans in which the relay is down.
fn outages(scenario: &Scenario) -> Vec<(Time, Time)> {
    let mut events: Vec<_> =
        scenario.events.iter().map(|event| (event.at.0, event.kind == EventKind::NodeUp)).collect();
    events.sort_by_key(|(at, _)| *at);
    let (mut spans, mut since) = (Vec::new(), None);
    for (at, up) in events {
        match since {
            None if !up => since = Some(at),
            Some(from) if up => {
                spans.push((Time::ZERO + from, Time::ZERO + at));
                since = None;
            }
            _ => {}
        }
    }
    let end = scenario.run.limit.0 + scenario.topology.delay.0 + Duration::from_secs(60);
    spans.extend(since.map(|from| (Time::ZERO + from, Time::ZERO + end.max(from))));
    spans
}

/// Where a packet is: its port, and the part of that port's way that is behind it. None while it waits.
fn place(one: &Carried, now: Time, halves: [u32; 2]) -> Option<(u32, f32)> {
    if now.is_before(one.starts) {
        return None;
    }
    let way = one.arrives.since(one.starts).as_secs_f64();
    let part = if way > 0.0 { now.since(one.starts).as_secs_f64() / way * 2.0 } else { 2.0 };
    let half = usize::from(part >= 1.0);
    Some((halves[half], (part - half as f64).clamp(0.0, 1.0) as f32))
}

impl Live for Stepped {
    fn run_to(&mut self, until: Time, max_events: u64) -> Option<Ending> {
        let mut left = max_events;
        while self.ending.is_none() {
            let stuck_at = self.simulation.flows.tally.heard_at + self.patience;
            let stop = until.earlier_of(self.limit).earlier_of(stuck_at);
            match self.simulation.next() {
                Some(at) if !at.is_after(stop) => {
                    if left == 0 {
                        return None;
                    }
                    left -= 1;
                    self.now = at;
                    self.simulation.step();
                    if self.simulation.flows.there(0) == self.packets {
                        self.record.end = Some(at.as_secs_f64());
                        self.ending = Some(Ending::Complete);
                    }
                }
                _ => {
                    self.now = self.now.later_of(stop);
                    if self.now.has_reached(self.limit) {
                        self.ending = Some(Ending::Limit);
                    } else if self.now.has_reached(stuck_at) {
                        self.ending = Some(Ending::Stuck);
                    } else {
                        return None;
                    }
                }
            }
        }
        self.ending
    }

    fn now(&self) -> Time {
        self.now
    }

    fn counters(&self) -> Counters {
        let links = &self.simulation.sites.links;
        let sum = |count: fn(&Link) -> u64| links.iter().map(count).sum::<u64>();
        Counters {
            packet_hops: sum(|link| link.packets),
            dropped_full: sum(|link| link.drops),
            dropped_down: sum(|link| link.lost_down),
            dropped_by_rule: sum(|link| link.lost_at_random),
            ..self.simulation.flows.tally.counters
        }
    }

    fn traffic(&self) -> Traffic {
        let recovered = self.simulation.sites.recovered.iter().sum();
        Traffic { recovered, ..self.simulation.flows.tally.traffic.clone() }
    }

    fn packets(&mut self, see: &mut dyn FnMut(PacketOnLink)) {
        for (link, halves) in self.simulation.sites.links.iter().zip(HALVES) {
            for one in link.carried(self.now) {
                if let Some((port, share)) = place(one, self.now, halves) {
                    see(PacketOnLink { port, share, kind: one.kind, session: 0 });
                }
            }
        }
    }

    fn ports(&mut self, see: &mut dyn FnMut(PortState)) {
        for (port, [node, peer]) in (0..).zip(PORTS) {
            let mut counters = PortCounters::default();
            let (mut data, mut control) = (0, 0);
            for (direction, [before, behind]) in HALVES.into_iter().enumerate() {
                let link = &self.simulation.sites.links[direction];
                if port == before {
                    (data, control) = self.waiting(direction);
                    (counters.packets, counters.bytes) = (link.packets, link.bytes);
                    counters.dropped = link.drops;
                }
                if port == behind {
                    counters.dropped = link.lost(self.now);
                }
            }
            let is_up = self.is_up() || (node != RELAY_NODE && peer != RELAY_NODE);
            see(PortState { port, node, peer, is_up, data, control, counters });
        }
    }

    fn longest_queue(&mut self) -> u32 {
        self.waiting(0).0.max(self.waiting(1).0)
    }

    fn requests(&self, see: &mut dyn FnMut(&FlowRecord)) {
        see(&self.record);
    }

    fn refused(&self) -> Option<String> {
        None
    }
}
