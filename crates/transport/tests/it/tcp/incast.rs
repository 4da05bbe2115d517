//! Incast through the simulator, against what ns-2.35 and arithmetic say. The figures in
//! `crates/experiments` compare whole curves.

use wellspring_core::{Duration, HostId, Rate, Seed, SessionId, Time, Work, WorkDone};
use wellspring_fabric::{Limit, PortConfig, Spraying};
use wellspring_sim::topology::{FatTree, Graph, single_switch};
use wellspring_sim::{Actions, Application, Config, LossRule, Simulator, Status};
use wellspring_transport::tcp::{
    Command, CommandError, Config as TcpConfig, Congestion, Endpoint, Event, SendTransfer,
};

/// Starts all transfers at once and keeps what ends.
struct Transfers {
    transfers: Vec<(u32, u32, u64)>,
    received: Vec<(SessionId, Time, u64)>,
    sent: usize,
    timeouts: u64,
}

impl Application<Endpoint> for Transfers {
    fn on_start(&mut self, actions: &mut Actions<Command>) {
        for (number, &(from, to, transfer_len)) in self.transfers.iter().enumerate() {
            let session = SessionId(number as u32);
            let transfer =
                SendTransfer { session, receiver: HostId(to), transfer_len, class: None };
            actions.command(HostId(from), Command::Send(transfer));
        }
    }
    fn on_event(&mut self, now: Time, _: HostId, event: Event, _: &mut Actions<Command>) {
        match event {
            Event::Received { session, stats, .. } => {
                self.received.push((session, now, stats.bytes));
            }
            Event::Sent { stats, .. } => {
                self.sent += 1;
                self.timeouts += stats.timeouts;
            }
            Event::Failed { .. } => panic!("{event:?}"),
            Event::Accepted { .. } | Event::Progress { .. } | Event::TimedOut { .. } => {}
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

/// Runs all transfers to their end: every byte arrives once, nothing is left behind.
fn run(
    graph: &Graph,
    config: &Config,
    congestion: Congestion,
    transfers: Vec<(u32, u32, u64)>,
) -> Simulator<Endpoint, Transfers> {
    let sizes: Vec<_> = transfers.iter().map(|transfer| transfer.2).collect();
    let transfers = Transfers { transfers, received: Vec::new(), sent: 0, timeouts: 0 };
    let endpoint = |host| {
        let mut tcp = TcpConfig::new(host, congestion, Seed(3));
        (tcp.segment_size, tcp.initial_window) = (1_024, Some(2));
        tcp.receive_window = 20 * 1_024;
        tcp.min_timeout = Duration::from_millis(200);
        Endpoint::new(tcp)
    };
    let mut sim = Simulator::new(graph, config, endpoint, transfers);
    let status = sim.run_until(Time::from_picos(u64::MAX / 4), 50_000_000);
    assert_eq!(status, Status::Idle, "still busy at {:?}", sim.now());
    sim.check_conservation().unwrap();
    let ended = sim.application();
    assert_eq!((ended.received.len(), ended.sent), (sizes.len(), sizes.len()));
    for (session, _, bytes) in &ended.received {
        assert_eq!(*bytes, sizes[session.0 as usize]);
    }
    for host in 0..graph.hosts() {
        assert_eq!(sim.endpoint(HostId(host)).open_transfers(), 0, "host {host}");
    }
    sim
}

fn last(sim: &Simulator<Endpoint, Transfers>) -> f64 {
    sim.application().received.iter().map(|r| r.1.as_secs_f64()).fold(0.0, f64::max)
}

/// The set-up of LTTP's simulations: 25 us a link, 64 KiB a port.
fn incast(congestion: Congestion, senders: u32, bytes: u64) -> Simulator<Endpoint, Transfers> {
    let graph = single_switch(46, gigabit(), Duration::from_micros(25));
    let mut port = PortConfig::drop_tail(Limit::Bytes(65_536));
    if congestion.reads_marks() {
        port.ecn_threshold = Limit::Packets(4);
    }
    let config = Config::new(port, Seed(1));
    run(&graph, &config, congestion, (1..=senders).map(|host| (host, 0, bytes)).collect())
}

/// ns-2 begins with a SYN and ends with the last ACK at its sender: 152 us, of 40-byte packets over
/// 25 us links, that ours does not have.
#[test]
fn without_losses_ns_2_says_the_same_to_a_thousandth() {
    let ns_2 = [(1, 64, 530.1), (2, 64, 731.5), (3, 64, 816.2), (1, 256, 799.4), (2, 256, 892.0)];
    for (senders, kib, expected) in ns_2 {
        let sim = incast(Congestion::NewReno, senders, kib * 1_024);
        assert_eq!(sim.counters().dropped_full, 0);
        let bits = f64::from(senders) * (kib * 1_024 * 8) as f64;
        let goodput = bits / (last(&sim) + 151.92e-6) / 1e6;
        assert!((goodput / expected - 1.0).abs() < 0.001, "{senders}: {goodput} and {expected}");
    }
}

/// What the first overflow drops is the same too: 6 to 98 segments of 4 to 12 senders.
#[test]
fn as_many_segments_are_dropped_as_in_ns_2() {
    for (senders, dropped) in [(4, 6), (6, 46), (8, 71), (10, 85), (12, 98)] {
        let sim = incast(Congestion::NewReno, senders, 65_536);
        let ours = sim.counters().dropped_full;
        assert!(ours.abs_diff(dropped) <= 1, "{senders}: {ours} and {dropped}");
    }
}

/// One timeout idles the link for 0.2 s, so goodput is what all senders have over that.
#[test]
fn with_many_senders_goodput_collapses_to_a_timeout_a_block() {
    for senders in [28, 36, 45] {
        let sim = incast(Congestion::NewReno, senders, 65_536);
        assert!(sim.application().timeouts > 0);
        let bits = f64::from(senders) * 65_536.0 * 8.0;
        let closed = bits / (0.2 + bits / 962e6);
        let ratio = bits / last(&sim) / closed;
        assert!((0.9..1.1).contains(&ratio), "{senders}: {ratio}");
    }
}

#[test]
fn dctcp_fills_the_link_where_newreno_times_out() {
    for senders in [9, 18, 30, 36] {
        let sim = incast(Congestion::DCTCP, senders, 65_536);
        assert_eq!(sim.application().timeouts, 0);
        let goodput = f64::from(senders) * 65_536.0 * 8.0 / last(&sim) / 1e6;
        assert!((900.0..963.0).contains(&goodput), "{senders}: {goodput}");
    }
}

#[test]
fn transfers_end_in_a_fat_tree_that_loses_data_and_acks() {
    let graph = FatTree::k_ary(4).build(gigabit(), gigabit(), Duration::from_micros(5));
    for congestion in [Congestion::NewReno, Congestion::DCTCP] {
        for (data, control) in [(0.03, 0.0), (0.0, 0.1), (0.02, 0.02)] {
            let mut port = PortConfig::drop_tail(Limit::Packets(20));
            port.ecn_threshold = Limit::Packets(5);
            let mut config = Config::new(port, Seed(1));
            config.spraying = Spraying::Flow;
            config.loss = Some(LossRule { data, control });
            run(&graph, &config, congestion, (1..16).map(|host| (host, 0, 60_000)).collect());
        }
    }
}
