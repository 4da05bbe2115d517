//! Trimming, copies, failures, repeatability.

use crate::toy::{Blast, blast, config, finish, simulator, with_groups};
use wellspring_core::{Destination, Duration, GroupId, HostId, Rate, Time};
use wellspring_fabric::{Limit, PortConfig, Spraying};
use wellspring_sim::topology::{FatTree, Graph, NodeId, single_switch};
use wellspring_sim::{Config, Counters, Fault, LossRule, Multicast, Status};

fn gigabit() -> Rate {
    Rate::from_mbps(1_000)
}

fn paper_tree() -> Graph {
    FatTree::PAPER.build(gigabit(), gigabit(), Duration::from_micros(10))
}

fn trimming() -> PortConfig {
    PortConfig::trimming(Limit::Packets(8))
}

/// 30 hosts to each of 5, from all over the tree.
fn incasts(shift: u64) -> Vec<Blast> {
    (0..150_u32).map(|n| blast(shift * u64::from(n), n, 200 + n % 5, 40)).collect()
}

fn run(config: &Config, blasts: Vec<Blast>) -> Counters {
    let mut sim = simulator(&paper_tree(), config, blasts);
    finish(&mut sim);
    sim.counters()
}

#[test]
fn overloaded_ports_trim_and_headers_overtake() {
    let graph = single_switch(3, gigabit(), Duration::from_micros(1));
    let blasts = vec![blast(0, 0, 2, 100), blast(0, 1, 2, 100)];
    let mut sim = simulator(&graph, &config(trimming()), blasts);
    finish(&mut sim);
    let arrivals = &sim.application().arrivals;
    assert_eq!(arrivals.len(), 200);
    let trimmed = arrivals.iter().filter(|a| a.trimmed).count();
    assert_eq!(trimmed as u64, sim.counters().trimmed);
    assert!((80..110).contains(&trimmed), "{trimmed}");
    let first = arrivals.iter().position(|a| a.trimmed).unwrap();
    assert!(first < 25, "a header does not wait behind the queue: {first}");
}

#[test]
fn same_seed_same_digest() {
    let config = config(trimming());
    let (a, b) = (run(&config, incasts(0)), run(&config, incasts(0)));
    assert_eq!(a, b);
    let other = Config { seed: wellspring_core::Seed(2), ..config };
    assert_ne!(run(&other, incasts(0)).digest, a.digest);
}

#[test]
fn what_is_on_links_is_seen_and_looking_changes_nothing() {
    let whole = run(&config(trimming()), incasts(1_000));
    let graph = paper_tree();
    let mut sim = simulator(&graph, &config(trimming()), incasts(1_000));
    let (mut packets, mut trimmed, mut step) = (0, 0, 0);
    while sim.run_until(Time::from_picos(step * 7_654_321), u64::MAX) == Status::Paused {
        step += 1;
        let mut waiting = 0;
        let mut seen = 0;
        for node in 0..graph.nodes() {
            for port in sim.ports(NodeId(node)) {
                let mut before = 1.0;
                sim.on_link(port, |packet| {
                    assert!((0.0..=before).contains(&packet.share), "{packet:?}");
                    before = packet.share;
                    trimmed += u32::from(packet.frame.trimmed);
                    seen += 1;
                });
                let (data, _, control) = sim.queue_depth(port);
                waiting += data + control;
            }
        }
        let counters = sim.counters();
        let entered = counters.sent + counters.replicated;
        let left = counters.delivered + counters.dropped();
        assert_eq!(entered - left, u64::from(seen + waiting));
        packets += seen;
    }
    assert!(step > 50 && packets > 1_000 && trimmed > 100, "{step} {packets} {trimmed}");
    assert_eq!(sim.counters().digest, whole.digest);
}

#[test]
fn the_share_of_a_way_is_that_of_its_time() {
    // 10 us to send 1,250 bytes, 30 us on the way.
    let graph = single_switch(2, gigabit(), Duration::from_micros(30));
    let mut sim = simulator(&graph, &config(trimming()), vec![blast(0, 0, 1, 1)]);
    let mut last = 0.0;
    for micros in [10, 20, 30] {
        sim.run_until(Time::ZERO + Duration::from_micros(micros), u64::MAX);
        let port = sim.ports(NodeId(0)).next().unwrap();
        let mut shares = Vec::new();
        sim.on_link(port, |packet| shares.push(packet.share));
        assert_eq!(shares.len(), 1, "at {micros} us");
        assert!(shares[0] > last);
        let whole = f64::from(shares[0]) * 42.0;
        assert!((whole - micros as f64).abs() < 2.0, "{} at {micros} us", shares[0]);
        last = shares[0];
    }
}

#[test]
fn the_digest_is_the_same_on_every_machine() {
    assert_eq!(run(&config(trimming()), incasts(1_000)).digest, PINNED);
}
const PINNED: u64 = 18_272_089_479_198_987_124;

#[test]
fn shuffled_ties_do_not_move_totals_beyond_noise() {
    let plain = config(trimming());
    let trims: Vec<_> = (0..8)
        .map(|seed| {
            let shuffled = Config { shuffle_ties: Some(seed), ..plain.clone() };
            run(&shuffled, incasts(0)).trimmed as f64
        })
        .collect();
    let mean = trims.iter().sum::<f64>() / trims.len() as f64;
    let ordered = run(&plain, incasts(0)).trimmed as f64;
    assert!((ordered / mean - 1.0).abs() < 0.02, "{ordered} against {trims:?}");
}

#[test]
fn a_group_gets_every_packet_once_over_a_tree() {
    let members = [3, 7, 60, 61, 249].map(HostId).to_vec();
    let group = GroupId(4);
    let send = Blast {
        at: Time::ZERO,
        from: HostId(0),
        to: Destination::Group(group),
        session: 9,
        count: 50,
    };
    let groups = vec![(group, HostId(0), members.clone())];
    let mut deep = config(PortConfig::drop_tail(Limit::Unlimited));
    deep.multicast = Multicast::OneTree;
    let mut sim = with_groups(&paper_tree(), &deep, vec![send], groups.clone());
    finish(&mut sim);
    for member in &members {
        let got = sim.application().arrivals.iter().filter(|a| a.host == *member).count();
        assert_eq!(got, 50, "{member:?}");
    }
    let counters = sim.counters();
    assert_eq!((counters.sent, counters.replicated, counters.delivered), (50, 200, 250));
    // NIC, ToR down to 3; up to one aggregation switch, down to 7's rack; one core, two pods
    // with one rack each, of which one with two members.
    let hops = 50 * (1 + 1 + 1 + 2 + 1 + (1 + 1 + 2) + (1 + 1 + 1));
    assert_eq!(counters.packet_hops, hops);
    let used = |sim: &crate::toy::ToySimulator| {
        let uplinks = sim.ports(paper_tree().switch(0)).skip(5).collect::<Vec<_>>();
        uplinks.iter().filter(|port| sim.port_counters(**port).packets > 0).count()
    };
    assert_eq!(used(&sim), 1);

    // The same work over all paths: a packet takes one tree, every tree reaches every member.
    deep.multicast = Multicast::Sprayed;
    let mut sim = with_groups(&paper_tree(), &deep, vec![send], groups);
    finish(&mut sim);
    let counters = sim.counters();
    assert_eq!((counters.sent, counters.replicated, counters.delivered), (50, 200, 250));
    assert_eq!(counters.packet_hops, hops);
    assert_eq!(used(&sim), 5);
}

#[test]
fn routing_avoids_what_failed_once_it_has_noticed() {
    let graph = paper_tree();
    let (tor, agg) = (graph.switch(0), graph.switch(50));
    let mut config = config(PortConfig::drop_tail(Limit::Unlimited));
    config.convergence = Duration::from_millis(1);
    config.faults = vec![
        (Time::from_picos(1_000_000_000), Fault::LinkDown(tor, agg)),
        (Time::from_picos(5_000_000_000), Fault::LinkUp(tor, agg)),
    ];
    let mut sim = simulator(&graph, &config, vec![blast(0, 0, 249, 1_000)]);
    finish(&mut sim);
    let counters = sim.counters();
    // A fifth of the packets of one millisecond, one in 12 us.
    assert!((8..=25).contains(&counters.dropped_down), "{}", counters.dropped_down);
    assert_eq!(counters.delivered + counters.dropped_down, 1_000);
}

#[test]
fn a_dead_switch_takes_its_hosts_off_the_net() {
    let graph = paper_tree();
    let mut config = config(trimming());
    config.faults = vec![(Time::ZERO, Fault::NodeDown(graph.switch(0)))];
    let mut sim = simulator(&graph, &config, vec![blast(10, 249, 0, 10), blast(10, 0, 249, 10)]);
    finish(&mut sim);
    let counters = sim.counters();
    assert_eq!((counters.sent, counters.delivered, counters.dropped_unroutable), (10, 0, 10));
    assert_eq!(sim.ports(NodeId(0)).count(), 1);
}

#[test]
fn a_repair_takes_back_the_failures_of_what_it_names_and_no_others() {
    let graph = Graph::parse(
        "host a b\nswitch s t u\nlink a s 1Gbps 1us\nlink b t 1Gbps 1us\n\
         link s u 1Gbps 1us\nlink t u 1Gbps 1us\n",
    )
    .unwrap();
    let [s, t, u] = ["s", "t", "u"].map(|name| graph.node(name).unwrap());
    let (down, up) = (Fault::NodeDown, Fault::NodeUp);
    for (faults, arrived) in [
        (vec![down(u), up(s), up(t)], 0),
        (vec![down(u), down(u), up(u)], 10),
        (vec![down(s), down(u), up(u)], 0),
        (vec![down(s), down(u), up(u), up(s)], 10),
        (vec![Fault::LinkDown(s, u), down(u), up(u)], 0),
        (vec![Fault::LinkDown(s, u), Fault::LinkDown(u, s), Fault::LinkUp(s, u)], 10),
        (vec![up(u), down(u)], 0),
    ] {
        let mut config = config(trimming());
        let at = |(n, fault)| (Time::from_picos(1_000 * (n as u64 + 1)), fault);
        config.faults = faults.iter().copied().enumerate().map(at).collect();
        let mut sim = simulator(&graph, &config, vec![blast(1_000_000_000, 0, 1, 10)]);
        finish(&mut sim);
        assert_eq!(sim.counters().delivered, arrived, "{faults:?}");
    }
}

#[test]
fn a_loss_rule_loses_its_share() {
    let mut config = config(PortConfig::drop_tail(Limit::Unlimited));
    config.loss = Some(LossRule { data: 0.1, control: 0.0 });
    let graph = single_switch(2, gigabit(), Duration::from_micros(1));
    let mut sim = simulator(&graph, &config, vec![blast(0, 0, 1, 10_000)]);
    finish(&mut sim);
    assert!((8_000..8_200).contains(&sim.counters().delivered));
}

#[test]
fn flows_keep_one_path_under_ecmp() {
    let mut config = config(PortConfig::drop_tail(Limit::Unlimited));
    config.spraying = Spraying::Flow;
    let graph = paper_tree();
    let mut sim = simulator(&graph, &config, vec![blast(0, 0, 249, 100)]);
    finish(&mut sim);
    let ports = sim.ports(graph.switch(0)).skip(5).collect::<Vec<_>>();
    let used = ports.iter().filter(|p| sim.port_counters(**p).packets > 0).count();
    assert_eq!(used, 1);
}
