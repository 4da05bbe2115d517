//! Networks whose behaviour is known in closed form.

use crate::toy::{blast, config, finish, simulator};
use wellspring_core::{Duration, Rate, Seed, Time};
use wellspring_fabric::{Limit, PortConfig, Spraying};
use wellspring_sim::topology::{FatTree, Graph, dumbbell, single_switch};

const MICRO: u64 = 1_000_000;

fn gigabit() -> Rate {
    Rate::from_mbps(1_000)
}

fn deep() -> PortConfig {
    PortConfig::drop_tail(Limit::Unlimited)
}

#[test]
fn a_packet_is_stored_and_forwarded_at_every_hop() {
    let graph = FatTree::PAPER.build(gigabit(), gigabit(), Duration::from_micros(10));
    // To the same host's rack, pod, and another pod: 2, 4 and 6 links of 12 us + 10 us.
    for (to, links) in [(1, 2), (5, 4), (249, 6)] {
        let mut sim = simulator(&graph, &config(deep()), vec![blast(0, 0, to, 1)]);
        finish(&mut sim);
        let arrival = &sim.application().arrivals[0];
        assert_eq!(arrival.at, Time::from_picos(links * 22 * MICRO));
        assert_eq!(sim.counters().packet_hops, links);
    }
}

#[test]
fn a_link_runs_at_its_rate_and_no_faster() {
    let graph = single_switch(3, gigabit(), Duration::from_micros(5));
    let blasts = vec![blast(0, 0, 2, 1_000), blast(0, 1, 2, 1_000)];
    let mut sim = simulator(&graph, &config(deep()), blasts);
    finish(&mut sim);
    // 2,000 packets at 12 us each behind the first one's 12 us + two delays.
    let last = sim.application().arrivals.last().unwrap();
    assert_eq!(last.at, Time::from_picos((2_000 * 12 + 12 + 10) * MICRO));
}

#[test]
fn an_odd_rate_never_runs_too_fast() {
    let rate = Rate::from_bits_per_second(7_777_777).unwrap();
    let graph = single_switch(2, rate, Duration::ZERO);
    let mut sim = simulator(&graph, &config(deep()), vec![blast(0, 0, 1, 10_000)]);
    finish(&mut sim);
    let last = sim.application().arrivals.last().unwrap().at;
    let ideal = rate.time_for(1_500 * 10_001).as_picos();
    assert!((ideal..ideal + 10_010).contains(&last.as_picos()), "{last:?}");
}

#[test]
fn equal_senders_get_equal_shares_of_a_bottleneck() {
    let tenth = Rate::from_mbps(100);
    let us = Duration::from_micros(1);
    let graph = dumbbell(5, gigabit(), us, tenth, us);
    let blasts = (0..5).map(|host| blast(0, host, host + 5, 2_000)).collect();
    let mut sim = simulator(&graph, &config(deep()), blasts);
    finish(&mut sim);
    let half_time = sim.now().as_picos() / 2;
    let counts = [0, 1, 2, 3, 4].map(|session| {
        let arrivals = sim.application().arrivals.iter();
        arrivals.filter(|a| a.session == session && a.at.as_picos() < half_time).count()
    });
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(most - least <= 1, "{counts:?}");
}

#[test]
fn waiting_times_are_those_of_an_m_d_1_queue() {
    // Poisson arrivals from many hosts to one: W = rho S / (2 (1 - rho)) beyond the service S.
    for load in [0.3, 0.6, 0.8] {
        let hosts = 400;
        let graph = single_switch(hosts + 1, gigabit(), Duration::ZERO);
        let mut random = Seed(11).stream("arrivals");
        let (mut at, mut blasts) = (0.0, Vec::new());
        for _ in 0..200_000 {
            at += -(1.0 - random.unit()).ln() * 12e6 / load;
            blasts.push(blast(at as u64, random.below(u64::from(hosts)) as u32, hosts, 1));
        }
        let starts: Vec<u64> = blasts.iter().map(|b| b.at.as_picos()).collect();
        let mut sim = simulator(&graph, &config(deep()), blasts);
        finish(&mut sim);
        let total: u64 = sim.application().arrivals.iter().map(|a| a.at.as_picos()).sum();
        let sojourn = (total - starts.iter().sum::<u64>()) as f64 / starts.len() as f64;
        let waiting = sojourn - 24e6;
        let expected = load * 12e6 / (2.0 * (1.0 - load));
        assert!((waiting / expected - 1.0).abs() < 0.04, "{load}: {waiting} for {expected}");
    }
}

#[test]
fn labels_spread_a_flow_over_all_paths_without_queues() {
    let tree = FatTree::PAPER;
    let graph = tree.build(gigabit(), gigabit(), Duration::from_micros(1));
    let mut config = config(deep());
    config.spraying = Spraying::Label;
    // A permutation between pods: every link carries a fifth of five hosts' packets.
    let blasts = (0..250).map(|host| blast(0, host, (host + 125) % 250, 500)).collect();
    let mut sim = simulator(&graph, &config, blasts);
    finish(&mut sim);
    let packets: Vec<_> = (0..graph.switches())
        .flat_map(|s| sim.ports(graph.switch(s)).collect::<Vec<_>>())
        .map(|port| sim.port_counters(port).packets)
        .collect();
    assert_eq!((packets.iter().min(), packets.iter().max()), (Some(&500), Some(&500)));
}

#[test]
fn a_multi_homed_host_fills_both_links() {
    let text = "host a b\nswitch s t\nlink a s 1Gbps 1us\nlink a t 1Gbps 1us\n\
                link b s 1Gbps 1us\nlink b t 1Gbps 1us";
    let graph = Graph::parse(text).unwrap();
    let mut sim = simulator(&graph, &config(deep()), vec![blast(0, 0, 1, 1_000)]);
    finish(&mut sim);
    assert_eq!(sim.now(), Time::from_picos((500 * 12 + 12 + 2) * MICRO));
}
