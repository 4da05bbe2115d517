//! NDP on simulated networks: every flow ends, whatever is lost, and lossless ones end in time.

use proptest::prelude::*;
use wellspring_core::{Duration, GroupId, HostId, Rate, Seed, SessionId, Time, Work, WorkDone};
use wellspring_fabric::{ControlQueue, Limit, PortConfig, Spraying};
use wellspring_sim::topology::{FatTree, Graph, single_switch};
use wellspring_sim::{Actions, Application, Config, LossRule, Simulator, Status};
use wellspring_transport::ndp::{
    Command, CommandError, Config as NdpConfig, Endpoint, Event, GroupTransfer, SendTransfer,
};

/// Starts all flows at once and keeps what ends.
#[derive(Default)]
struct Flows {
    flows: Vec<(u32, u32, u64)>,
    /// A flow of so many bytes from host 0 to these.
    group: Option<(Vec<u32>, u64)>,
    received: Vec<(SessionId, Time, u64)>,
    sent: usize,
    failed: usize,
}

impl Application<Endpoint> for Flows {
    fn on_start(&mut self, actions: &mut Actions<Command>) {
        for (number, &(from, to, transfer_len)) in self.flows.iter().enumerate() {
            let flow = SendTransfer {
                session: SessionId(number as u32),
                receiver: HostId(to),
                transfer_len,
                class: None,
            };
            actions.command(HostId(from), Command::Send(flow));
        }
        if let Some((members, transfer_len)) = &self.group {
            let (group, session) = (GroupId(7), SessionId(1_000));
            let members: Vec<HostId> = members.iter().copied().map(HostId).collect();
            actions.create_group(group, HostId(0), members.clone());
            let transfer_len = *transfer_len;
            let flow = GroupTransfer { session, group, members, transfer_len, class: None };
            actions.command(HostId(0), Command::SendToGroup(flow));
        }
    }
    fn on_event(&mut self, now: Time, _: HostId, event: Event, _: &mut Actions<Command>) {
        match event {
            Event::Received { session, stats, .. } => {
                self.received.push((session, now, stats.bytes));
            }
            Event::Sent { .. } => self.sent += 1,
            Event::Failed { .. } => self.failed += 1,
            Event::Accepted { .. } | Event::Progress { .. } => {}
        }
    }
    fn on_alarm(&mut self, _: Time, _: &mut Actions<Command>) {}
    fn on_work(&mut self, _: Time, _: HostId, _: Work) -> Option<(Duration, WorkDone)> {
        None
    }
    fn on_refused(&mut self, _: Time, _: HostId, error: CommandError) {
        panic!("{error}");
    }
}

fn gigabit() -> Rate {
    Rate::from_mbps(1_000)
}

fn network(limit: u32) -> Config {
    let mut config = Config::new(PortConfig::trimming(Limit::Packets(limit)), Seed(1));
    config.wire.overhead = 36;
    config
}

/// Runs all flows to their end: none fails, every byte arrives once, nothing is left behind.
fn run(graph: &Graph, config: &Config, flows: Vec<(u32, u32, u64)>) -> Simulator<Endpoint, Flows> {
    let sizes: Vec<_> = flows.iter().map(|flow| flow.2).collect();
    let flows = Flows { flows, ..Flows::default() };
    let endpoint = |host| {
        let mut ndp = NdpConfig::new(host, gigabit(), Seed(3));
        ndp.peer_timeout = Duration::from_secs(600);
        Endpoint::new(ndp)
    };
    let mut sim = Simulator::new(graph, config, endpoint, flows);
    let status = sim.run_until(Time::from_picos(u64::MAX / 4), 50_000_000);
    assert_eq!(status, Status::Idle, "still busy at {:?}", sim.now());
    sim.check_conservation().unwrap();
    let flows = sim.application();
    assert_eq!((flows.received.len(), flows.failed), (sizes.len(), 0));
    assert_eq!(flows.sent, sizes.len());
    for (session, _, bytes) in &flows.received {
        assert_eq!(*bytes, sizes[session.0 as usize]);
    }
    for host in 0..graph.hosts() {
        assert_eq!(sim.endpoint(HostId(host)).open_flows(), 0, "host {host}");
    }
    sim
}

fn last(sim: &Simulator<Endpoint, Flows>) -> f64 {
    sim.application().received.iter().map(|r| r.1.as_secs_f64()).fold(0.0, f64::max)
}

#[test]
fn a_flow_fills_its_path_when_the_window_covers_the_round_trip() {
    let graph = FatTree::PAPER.build(gigabit(), gigabit(), Duration::from_micros(1));
    let sim = run(&graph, &network(20), vec![(0, 249, 15_000_000)]);
    let goodput = 15e6 * 8.0 / last(&sim) / 1e6;
    // htsim: 949.4 Mbit/s at w = 12 and 1 us a link; the wire's share is 1436/1500 = 957.
    assert!((945.0..957.4).contains(&goodput), "{goodput}");
}

#[test]
fn a_short_window_caps_the_rate_at_a_window_a_round_trip() {
    let graph = FatTree::PAPER.build(gigabit(), gigabit(), Duration::from_micros(10));
    let sim = run(&graph, &network(20), vec![(0, 249, 15_000_000)]);
    let goodput = 15e6 * 8.0 / last(&sim) / 1e6;
    // htsim: 726 Mbit/s. Round trip: data 6 x 22 us, pull 6 x 10.5 us.
    let closed = 12.0 * 1_436.0 * 8.0 / (6.0 * 22.0 + 6.0 * 10.512);
    assert!((goodput / closed - 1.0).abs() < 0.03, "{goodput} against {closed}");
}

#[test]
fn incast_fills_the_receivers_link() {
    let graph = FatTree::PAPER.build(gigabit(), gigabit(), Duration::from_micros(10));
    let flows = (1..=70).map(|host| (host * 3, 0, 70_000)).collect();
    let sim = run(&graph, &network(20), flows);
    let millis = last(&sim) * 1e3;
    // htsim: 41.9 ms, 842 trims.
    assert!((40.5..43.0).contains(&millis), "{millis} ms");
    let trims = sim.counters().trimmed;
    assert!((650..1_050).contains(&trims), "{trims}");
}

#[test]
fn a_large_incast_over_short_header_queues_ends() {
    // htsim leaves 372 of 400 such flows stuck.
    let graph = FatTree::k_ary(12).build(gigabit(), gigabit(), Duration::from_micros(1));
    let mut config = network(8);
    config.port.control = Some(ControlQueue { limit: Limit::Packets(8), weight: 9 });
    let flows = (1..=400).map(|host| (host, 0, 135_000)).collect();
    let sim = run(&graph, &config, flows);
    let ideal = 400.0 * 135e3 * 8.0 / 957e6;
    assert!(last(&sim) < ideal * 1.6, "{} s for {ideal}", last(&sim));
}

#[test]
fn all_flows_end_although_everything_is_lost_now_and_then() {
    let graph = FatTree::k_ary(4).build(gigabit(), gigabit(), Duration::from_micros(5));
    for (data, control) in [(0.3, 0.0), (0.0, 0.3), (0.2, 0.2)] {
        let mut config = network(4);
        config.loss = Some(LossRule { data, control });
        run(&graph, &config, (1..16).map(|host| (host, 0, 60_000)).collect());
    }
}

#[test]
fn lost_peers_are_given_up() {
    let graph = single_switch(2, gigabit(), Duration::from_micros(5));
    let flows = Flows { flows: vec![(0, 1, 1_000_000)], ..Flows::default() };
    let mut config = network(8);
    let down = wellspring_sim::Fault::NodeDown(HostId(1).into());
    config.faults = vec![(Time::from_picos(1_000_000_000), down)];
    let endpoint = |host| Endpoint::new(NdpConfig::new(host, gigabit(), Seed(3)));
    let mut sim = Simulator::new(&graph, &config, endpoint, flows);
    assert_eq!(sim.run_until(Time::from_picos(u64::MAX / 4), 1_000_000), Status::Idle);
    assert_eq!(sim.application().failed, 2);
    assert_eq!(sim.endpoint(HostId(0)).open_flows() + sim.endpoint(HostId(1)).open_flows(), 0);
}

/// A flow of so many bytes from host 0 to a group, beside others; when its last member had it, and the run.
fn run_group(
    config: &Config,
    members: &[u32],
    bytes: u64,
    flows: Vec<(u32, u32, u64)>,
) -> (f64, Simulator<Endpoint, Flows>) {
    let graph = FatTree::k_ary(4).build(gigabit(), gigabit(), Duration::from_micros(1));
    let all = flows.len() + members.len();
    let flows = Flows { flows, group: Some((members.to_vec(), bytes)), ..Flows::default() };
    let endpoint = |host| {
        let mut ndp = NdpConfig::new(host, gigabit(), Seed(3));
        ndp.peer_timeout = Duration::from_secs(60);
        Endpoint::new(ndp)
    };
    let mut sim = Simulator::new(&graph, config, endpoint, flows);
    let status = sim.run_until(Time::from_picos(u64::MAX / 4), 50_000_000);
    assert_eq!(status, Status::Idle, "still busy at {:?}", sim.now());
    sim.check_conservation().unwrap();
    let flows = sim.application();
    assert_eq!((flows.received.len(), flows.failed), (all, 0));
    let of_group = flows.received.iter().filter(|received| received.0 == SessionId(1_000));
    let ends: Vec<f64> = of_group
        .map(|(_, end, len)| {
            assert_eq!(*len, bytes);
            end.as_secs_f64()
        })
        .collect();
    assert_eq!(ends.len(), members.len());
    for host in 0..16 {
        assert_eq!(sim.endpoint(HostId(host)).open_flows(), 0, "host {host}");
    }
    (ends.into_iter().fold(0.0, f64::max), sim)
}

#[test]
fn a_group_takes_one_stream_for_all() {
    let (took, sim) = run_group(&network(20), &[5, 9, 13], 14_360_000, Vec::new());
    let goodput = 14.36e6 * 8.0 / took / 1e6;
    assert!((930.0..957.4).contains(&goodput), "{goodput}");
    assert_eq!(sim.counters().trimmed, 0);
    // 10,000 packets once, and of each member an acknowledgement and a pull for each.
    let sent = sim.counters().sent;
    assert!((69_000..71_000).contains(&sent), "{sent}");
}

#[test]
fn what_one_member_lacks_is_repeated_to_all_and_the_slowest_sets_the_pace() {
    let beside = vec![(1, 5, 3_000_000), (2, 9, 3_000_000), (3, 13, 3_000_000)];
    let (took, sim) = run_group(&network(8), &[5, 9, 13], 3_000_000, beside);
    assert!(sim.counters().trimmed > 0);
    // Each member's link carries two flows.
    assert!((0.045..0.065).contains(&took), "{took}");
}

#[test]
fn groups_end_although_everything_is_lost_now_and_then() {
    for (data, control) in [(0.3, 0.0), (0.0, 0.3), (0.2, 0.2)] {
        let mut config = network(6);
        config.loss = Some(LossRule { data, control });
        run_group(&config, &[1, 5, 9, 13], 100_000, vec![(2, 5, 100_000), (0, 9, 100_000)]);
    }
}

#[test]
fn a_member_that_is_gone_is_given_up() {
    let graph = single_switch(4, gigabit(), Duration::from_micros(5));
    let mut config = network(8);
    let down = wellspring_sim::Fault::NodeDown(HostId(3).into());
    config.faults = vec![(Time::from_picos(1_000_000_000), down)];
    let group = Some((vec![1, 2, 3], 1_000_000));
    let endpoint = |host| Endpoint::new(NdpConfig::new(host, gigabit(), Seed(3)));
    let flows = Flows { group, ..Flows::default() };
    let mut sim = Simulator::new(&graph, &config, endpoint, flows);
    assert_eq!(sim.run_until(Time::from_picos(u64::MAX / 4), 1_000_000), Status::Idle);
    let flows = sim.application();
    // The lost one says so itself, too.
    assert_eq!((flows.received.len(), flows.sent, flows.failed), (2, 1, 1));
}

/// Round trips of seconds, on slow links and on long ones: whoever takes late answers for losses
/// sends everything again and again. Half a window goes out twice before the first answer.
#[test]
fn round_trips_beyond_the_timeout_are_learnt_and_little_is_sent_twice() {
    let slow = Rate::from_bits_per_second(50_000).unwrap();
    let networks = [
        ("slow", single_switch(3, slow, Duration::from_micros(10)), 200_000),
        ("long", single_switch(3, gigabit(), Duration::from_millis(300)), 1_000_000),
        ("longer", single_switch(3, gigabit(), Duration::from_millis(1_000)), 1_000_000),
    ];
    for (name, graph, bytes) in networks {
        let flows = vec![(0, 2, bytes), (1, 2, bytes)];
        let flows = Flows { flows, ..Flows::default() };
        let rate = graph.links()[0].rate;
        let endpoint = |host| Endpoint::new(NdpConfig::new(host, rate, Seed(3)));
        let mut sim = Simulator::new(&graph, &network(20), endpoint, flows);
        let status = sim.run_until(Time::from_picos(u64::MAX / 4), 1_000_000);
        let flows = sim.application();
        assert_eq!((status, flows.failed, flows.sent), (Status::Idle, 0, 2), "{name}");
        let packets = 2 * bytes.div_ceil(1_436);
        // Data, their answers and pulls: about three frames a packet.
        let sent = sim.counters().sent;
        assert!(sent < 3 * packets + packets / 2 + 100, "{name}: {sent} for {packets}");
        assert!(sim.counters().refused < 200, "{name}: {} refused", sim.counters().refused);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_flow_ends(
        seed in any::<u64>(),
        flows in prop::collection::vec((0_u32..16, 1_u32..16, 1_u64..80_000), 1..30),
        limits in (1_u32..12, 1_u32..12),
        loss in (0.0..0.1_f64, 0.0..0.1_f64),
        spraying in prop_oneof![Just(Spraying::Random), Just(Spraying::Label), Just(Spraying::Flow)],
    ) {
        let graph = FatTree::k_ary(4).build(gigabit(), gigabit(), Duration::from_micros(2));
        let mut config = network(limits.0);
        config.port.control = Some(ControlQueue { limit: Limit::Packets(limits.1), weight: 9 });
        config.loss = Some(LossRule { data: loss.0, control: loss.1 });
        (config.seed, config.spraying) = (Seed(seed), spraying);
        let flows = flows.into_iter().map(|(from, gap, len)| (from, (from + gap) % 16, len));
        run(&graph, &config, flows.collect());
    }
}
