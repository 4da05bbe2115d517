//! One run: a scenario, a seed, a result.

use crate::adapter::{Adapter, BesideTcp, Lttp, Ndp, Scdp, Tcp};
use crate::driver::Driver;
use crate::observe::{Capture, Observer};
pub use crate::outcome::{Ending, Outcome, Progress, Stuck};
use crate::record::Reason;
use crate::scenario::{ProtocolName, Scenario, TopologyKind};
use anyhow::{Result, bail};
use wellspring_core::{HostId, Rate, Seed, SessionId, Time};
use wellspring_sim::topology::{EgressId, Graph, NodeId};
use wellspring_sim::{Config, Simulator, Status, WireModel};

/// Events between two reports of the progress.
const CHUNK: u64 = 500_000;
/// What a build says that has no long links.
#[cfg(not(feature = "long-link"))]
pub(crate) const NO_LONG_LINK: &str =
    "this build has no long links: build with the feature `long-link`, which needs a C compiler";
/// Requests named in a summary of stuck ones.
const STUCK_LINES: usize = 10;
/// Lines of an endpoint's state in a report of stuck requests.
const MAX_STATE_LINES: usize = 400;

/// Runs a scenario with one seed; `report` hears of it now and then.
///
/// # Errors
/// The scenario's network cannot be built, or (a bug) packets went missing in the simulator.
pub fn run(scenario: &Scenario, seed: u64, report: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    run_captured(scenario, seed, None, report)
}

/// Runs a scenario with one seed and writes down the packets of one host.
///
/// # Errors
/// As [`run`], or those of the file.
pub fn run_captured(
    scenario: &Scenario,
    seed: u64,
    capture: Option<&Capture>,
    report: &mut dyn FnMut(Progress),
) -> Result<Outcome> {
    if scenario.topology.kind == TopologyKind::LongLink {
        if capture.is_some() {
            bail!("packets of a long link are not captured: leave out --capture");
        }
        return run_long_link(scenario, seed, report);
    }
    match scenario.protocol.name {
        ProtocolName::Scdp | ProtocolName::Polyraptor => {
            run_alone_or_beside::<Scdp>(scenario, seed, capture, report)
        }
        ProtocolName::Lttp => run_alone_or_beside::<Lttp>(scenario, seed, capture, report),
        ProtocolName::Ndp | ProtocolName::NdpPlus => {
            run_alone_or_beside::<Ndp>(scenario, seed, capture, report)
        }
        ProtocolName::TcpNewReno | ProtocolName::Dctcp | ProtocolName::Pias => {
            run_alone_or_beside::<Tcp>(scenario, seed, capture, report)
        }
        name @ (ProtocolName::TcpReno | ProtocolName::TcpCubic | ProtocolName::TcpBbr) => {
            bail!("{} needs topology.kind long-link", name.as_str())
        }
    }
}

#[cfg(feature = "long-link")]
fn run_long_link(
    scenario: &Scenario,
    seed: u64,
    report: &mut dyn FnMut(Progress),
) -> Result<Outcome> {
    use crate::look::Live;

    let mut run = crate::long_link::Stepped::new(scenario, seed)?;
    let end = Time::ZERO + scenario.run.limit.0;
    loop {
        let ending = run.run_to(end, CHUNK);
        let (there, all) = run.progress();
        report(Progress {
            simulated: run.now().as_secs_f64(),
            events: run.counters().events,
            limit: scenario.run.limit.0.as_secs_f64(),
            finished: (u32::from(there == all), 1),
            parts: if there == all { 0.0 } else { there as f64 / all as f64 },
        });
        if ending.is_some() {
            return Ok(run.outcome(seed));
        }
    }
}

#[cfg(not(feature = "long-link"))]
fn run_long_link(_: &Scenario, _: u64, _: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    bail!("{NO_LONG_LINK}")
}

/// Two types, so that a run of one protocol does not pay for what a second one takes.
fn run_alone_or_beside<A: Adapter + Send + 'static>(
    scenario: &Scenario,
    seed: u64,
    capture: Option<&Capture>,
    report: &mut dyn FnMut(Progress),
) -> Result<Outcome> {
    match scenario.beside {
        None => run_with::<A>(scenario, seed, capture, report),
        Some(_) => run_with::<BesideTcp<A>>(scenario, seed, capture, report),
    }
}

fn simulator<A: Adapter>(
    scenario: &Scenario,
    graph: &Graph,
    seed: u64,
) -> Result<Simulator<A::Endpoint, Driver<A>>> {
    let seed = Seed(seed);
    let adapter = A::new(scenario, seed);
    let mut config = Config::new(scenario.port(), seed);
    config.spraying = scenario.spraying();
    config.multicast = scenario.switch.multicast();
    let trimmed_len = Some(scenario.trimmed_len());
    let trims_groups = scenario.switch.trim_groups;
    config.wire = WireModel { overhead: adapter.overhead(), trimmed_len, trims_groups };
    config.shuffle_ties = scenario.run.shuffle_ties;
    config.loss = scenario.topology.loss();
    config.convergence = scenario.topology.convergence.0;
    for event in &scenario.events {
        config.faults.push((Time::ZERO + event.at.0, event.fault(graph)?));
    }
    let endpoints = A::new(scenario, seed);
    let driver = Driver::new(adapter, scenario, graph.hosts(), seed)?;
    let downlinks = graph.downlinks();
    let endpoint = |host: HostId| {
        let link = Rate::from_bits_per_second(downlinks[host.0 as usize]);
        endpoints.endpoint(host, link.unwrap_or(scenario.topology.rate.0))
    };
    Ok(Simulator::new(graph, &config, endpoint, driver))
}

/// The simulation of a protocol.
pub(crate) type SimulatorOf<A> = Simulator<<A as Adapter>::Endpoint, Driver<A>>;

/// The network of a scenario, and its simulation at time zero.
pub(crate) fn prepare<A: Adapter>(
    scenario: &Scenario,
    seed: u64,
) -> Result<(Graph, SimulatorOf<A>)> {
    let graph = scenario.topology.build()?;
    scenario.check_hosts(graph.hosts().into())?;
    scenario.check_tables(&graph)?;
    let sim = simulator::<A>(scenario, &graph, seed)?;
    if !sim.paths_fit() {
        bail!("topology.graph has paths of more than 253 hops, the longest that are routed");
    }
    Ok((graph, sim))
}

/// How a run ends that has come so far, if it does; `limit` is `run.limit` after its start.
pub(crate) fn ending<A: Adapter>(
    sim: &SimulatorOf<A>,
    status: Status,
    limit: Time,
) -> Option<Ending> {
    let driver = sim.application();
    let left = driver.outstanding > 0;
    if status == Status::Stopped || (status == Status::Idle && !left) {
        return Some(Ending::Complete);
    }
    if sim.now().has_reached(limit) {
        return Some(if left { Ending::Limit } else { Ending::Complete });
    }
    let waited = driver.patient_until().is_some_and(|at| sim.now().has_reached(at));
    (status == Status::Idle || waited).then_some(Ending::Stuck)
}

fn run_with<A: Adapter + Send + 'static>(
    scenario: &Scenario,
    seed: u64,
    capture: Option<&Capture>,
    report: &mut dyn FnMut(Progress),
) -> Result<Outcome> {
    let (graph, mut sim) = prepare::<A>(scenario, seed)?;
    let interval = scenario.run.sample.map(|span| span.0);
    let capture = capture.map(|capture| (capture, A::new(scenario, Seed(seed))));
    let mut observer = Observer::new(&mut sim, &graph, interval.is_some(), capture)?;
    let end = Time::ZERO + scenario.run.limit.0;
    let mut look_at = interval.map_or(end, |interval| (Time::ZERO + interval).earlier_of(end));
    let planned = scenario.workload.planned().map(|lasts| lasts + scenario.background.warmup.0);
    let expected = planned.map_or(scenario.run.limit.0, |end| end.min(scenario.run.limit.0));
    let expected = expected.as_secs_f64();
    let ending = loop {
        let patient_until = sim.application().patient_until().unwrap_or(end);
        let status = sim.run_until(look_at.earlier_of(patient_until), CHUNK);
        let driver = sim.application();
        report(Progress {
            simulated: sim.now().as_secs_f64(),
            events: sim.counters().events,
            limit: expected,
            finished: (driver.total - driver.outstanding, driver.total),
            parts: driver.parts(),
        });
        if let Some(interval) = interval
            && (sim.now().has_reached(look_at) || status != Status::Paused)
        {
            observer.sample(&mut sim);
            observer.check_size(interval, end)?;
            look_at = (look_at + interval).earlier_of(end);
        }
        if let Some(ending) = ending::<A>(&sim, status, end) {
            break ending;
        }
    };
    let stuck = (ending == Ending::Stuck).then(|| report_stuck(&sim));
    if let Err(imbalance) = sim.check_conservation() {
        bail!("packets went missing: {imbalance}");
    }
    if let Some(reason) = &sim.application().refused {
        bail!("{reason}");
    }
    let downlink_utilisation = utilisation(&sim, &graph);
    let (now, counters) = (sim.now(), sim.counters());
    let mut driver = sim.into_application();
    let (not_made, not_made_beside) = (driver.not_made(), driver.not_made_beside());
    driver.close(now, if ending == Ending::Limit { Reason::Limit } else { Reason::Stuck });
    Ok(Outcome {
        seed,
        flows: driver.records,
        timeline: driver.timeline,
        timeouts: driver.timeouts,
        counters,
        simulated: now.as_secs_f64(),
        downlink_utilisation,
        series: observer.finish()?,
        ending,
        not_made,
        not_made_beside,
        stuck,
    })
}

/// Requests that are stuck, and what the endpoints at both ends of the first of them hold.
fn report_stuck<A: Adapter>(sim: &Simulator<A::Endpoint, Driver<A>>) -> Stuck {
    let (requests, first) = sim.application().stuck();
    let (mut summary, mut state) = (Vec::new(), requests.join("\n") + "\n");
    summary.extend(requests.iter().take(STUCK_LINES).cloned());
    if requests.len() > STUCK_LINES {
        summary.push(format!("... and {} more", requests.len() - STUCK_LINES));
    }
    let (session, hosts) = first.map_or((SessionId(0), Vec::new()), |(s, ends)| (s, ends.into()));
    for host in hosts {
        let endpoint = sim.endpoint(HostId(host));
        let brief = A::brief(endpoint, session);
        summary.push(format!("host {host}, at the end of the first: {brief}"));
        let text = format!("{endpoint:#?}");
        let lines = text.lines().take(MAX_STATE_LINES);
        state += &format!("host {host}:\n{}\n", lines.collect::<Vec<_>>().join("\n"));
    }
    Stuck { summary: summary.join("\n"), state }
}

fn utilisation<A: Adapter>(sim: &Simulator<A::Endpoint, Driver<A>>, graph: &Graph) -> f64 {
    let is_downlink = |port: &EgressId| sim.peer(*port).0 < graph.hosts();
    let bytes: u64 = (0..graph.nodes())
        .flat_map(|node| sim.ports(NodeId(node)).filter(is_downlink))
        .map(|port| sim.port_counters(port).bytes)
        .sum();
    let rate: f64 = graph.downlinks().into_iter().map(|rate| rate as f64).sum();
    let capacity = rate * sim.now().as_secs_f64();
    if capacity > 0.0 { bytes as f64 * 8.0 / capacity } else { 0.0 }
}
