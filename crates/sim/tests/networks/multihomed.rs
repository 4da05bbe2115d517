//! Hosts with several links, and links between hosts.

use crate::toy::{Blast, blast, config, finish, simulator, with_groups};
use wellspring_core::{Destination, Duration, GroupId, HostId, Time};
use wellspring_fabric::{Limit, PortConfig};
use wellspring_sim::topology::Graph;
use wellspring_sim::{Fault, Multicast};

fn roomy() -> PortConfig {
    PortConfig::trimming(Limit::Packets(1_000))
}

/// Packets that arrived at each host.
fn arrivals(sim: &crate::toy::ToySimulator, hosts: usize) -> Vec<usize> {
    let mut counts = vec![0; hosts];
    for arrival in &sim.application().arrivals {
        counts[arrival.host.0 as usize] += 1;
    }
    counts
}

#[test]
fn every_member_gets_what_a_source_with_two_links_sends() {
    let dual = "host a b c d\nswitch s t\nlink s t 10Gbps 1us\n\
                link a s 1Gbps 1us\nlink a t 1Gbps 1us\nlink b s 1Gbps 1us\nlink b t 1Gbps 1us\n\
                link c s 1Gbps 1us\nlink d t 1Gbps 1us\n";
    // From the second link only some members are reached.
    let lame = "host a b c d\nswitch s t\nlink a s 1Gbps 1us\nlink a t 1Gbps 1us\n\
                link b s 1Gbps 1us\nlink b t 1Gbps 1us\nlink c s 1Gbps 1us\nlink d s 1Gbps 1us\n";
    for graph in [dual, lame] {
        for multicast in [Multicast::Sprayed, Multicast::OneTree] {
            let group = GroupId(4);
            let to = Destination::Group(group);
            let blasts = vec![Blast { at: Time::ZERO, from: HostId(0), to, session: 0, count: 40 }];
            let members = (1..4).map(HostId).collect();
            let mut config = config(roomy());
            config.multicast = multicast;
            let graph = Graph::parse(graph).unwrap();
            let mut sim = with_groups(&graph, &config, blasts, vec![(group, HostId(0), members)]);
            finish(&mut sim);
            assert_eq!(arrivals(&sim, 4), [0, 40, 40, 40], "{multicast:?}");
            assert_eq!(sim.counters().dropped(), 0);
        }
    }
}

#[test]
fn a_host_sends_over_the_link_that_still_leads_there() {
    let graph = Graph::parse(
        "host a b\nswitch s t u\nlink a s 1Gbps 1us\nlink a t 1Gbps 1us\nlink s u 1Gbps 1us\n\
         link t u 1Gbps 1us\nlink b u 1Gbps 1us\n",
    )
    .unwrap();
    let mut config = config(roomy());
    let (s, u) = (graph.node("s").unwrap(), graph.node("u").unwrap());
    config.faults = vec![(Time::from_picos(1_000), Fault::LinkDown(s, u))];
    let after = Duration::from_millis(1).as_picos();
    let mut sim = simulator(&graph, &config, vec![blast(after, 0, 1, 100)]);
    finish(&mut sim);
    assert_eq!(arrivals(&sim, 2), [0, 100]);
    // One link's worth: a packet takes 12 us.
    assert!(sim.now().is_after(Time::from_picos(after) + Duration::from_micros(1_200)));
}

#[test]
fn a_link_between_two_hosts_carries_only_what_is_for_them() {
    // a and b are neighbours; a and c reach each other through a switch.
    let graph = Graph::parse(
        "host a b c\nswitch s\nlink a b 1Gbps 1us\nlink a s 1Gbps 1us\nlink c s 1Gbps 1us\n",
    )
    .unwrap();
    let blasts = vec![blast(0, 0, 2, 20), blast(0, 2, 0, 20), blast(1_000_000_000, 0, 1, 30)];
    let mut sim = simulator(&graph, &config(roomy()), blasts);
    finish(&mut sim);
    assert_eq!(arrivals(&sim, 3), [20, 30, 20]);
    // Nobody forwards from b to c.
    let mut sim = simulator(&graph, &config(roomy()), vec![blast(0, 1, 2, 10)]);
    finish(&mut sim);
    assert_eq!(arrivals(&sim, 3), [0, 0, 0]);
    assert_eq!(sim.counters().dropped_unroutable, 10);
}

#[test]
fn answers_to_a_host_come_at_the_rate_of_all_its_links() {
    let graph = Graph::parse(
        "host a b\nswitch s\nlink a s 1Gbps 1us 3Gbps\nlink s a 2Gbps 1us\nlink b s 1Gbps 1us\n",
    );
    assert_eq!(graph.unwrap().downlinks(), [5_000_000_000, 1_000_000_000]);
}
