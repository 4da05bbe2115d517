//! LTTP's claims on simulated networks as inequalities, and pinned digests.

use wellspring_experiments::catalogue;
use wellspring_experiments::run::{Ending, Outcome, run};
use wellspring_experiments::scenario::{Plan, Scenario};

fn scenario(name: &str, settings: &[(&str, &str)]) -> Scenario {
    let mut plan = catalogue::plan(name).unwrap().without_sweep();
    for (key, value) in settings {
        plan.set(key, value).unwrap();
    }
    plan.scenarios().unwrap().remove(0)
}

fn outcome(scenario: &Scenario, seed: u64) -> Outcome {
    let outcome = run(scenario, seed, &mut |_| {}).unwrap();
    assert_eq!(outcome.ending, Ending::Complete, "{:?}", outcome.stuck);
    assert!(outcome.incomplete().is_empty());
    outcome
}

/// Goodput of blocks of so many bytes that begin together \[Mbit/s\].
fn goodput(outcome: &Outcome) -> f64 {
    let bytes: u64 = outcome.foreground().map(|flow| flow.bytes).sum();
    let last = outcome.foreground().filter_map(|flow| flow.completion()).fold(0.0, f64::max);
    bytes as f64 * 8.0 / last / 1e6
}

#[test]
fn every_workload_completes_and_has_one_answer() {
    let workloads = [
        "kind = \"permutation\"\nsize = \"300KB\"",
        "kind = \"incast\"\nsenders = 12\nsize = \"70KB\"\njitter = \"10us\"",
        "kind = \"flows\"\nsessions = 40\nlambda = 2000.0\nsizes = { fixed = \"100KB\" }",
        "kind = \"storage\"\nsessions = 20\nlambda = 500.0\nsize = \"400KB\"\nreplicas = 3\n\
         writes = 0.5\nwrite_by = \"daisy-chain\"\nread_by = \"multi-block\"",
        "kind = \"convergence\"\nflows = 3\ninterval = \"10ms\"\nduration = \"40ms\"",
    ];
    for workload in workloads {
        let text = format!(
            "name = \"smoke\"\n[topology]\nk = 4\n[switch]\noverflow = \"drop\"\nspraying = \"flow\"\n\
             [protocol]\nname = \"lttp\"\n[background]\nfraction = 0.25\nwarmup = \"2ms\"\n\
             [run]\nlimit = \"60s\"\npatience = \"10s\"\n[workload]\n{workload}"
        );
        let scenario = Plan::parse(&text).unwrap().scenarios().unwrap().remove(0);
        let first = outcome(&scenario, 1);
        assert!(first.foreground().count() > 0, "{workload}");
        assert_eq!(outcome(&scenario, 1).counters, first.counters, "{workload}");
    }
}

/// LTTP §V-C, Fig. 5: 112 and 790 Mbit/s.
#[test]
fn the_improved_decoder_is_what_fills_the_link() {
    let of = |decoder| {
        let settings = [("protocol.lttp.decoder", decoder)];
        goodput(&outcome(&scenario("lttp-5", &settings), 1))
    };
    let (standard, improved, elimination) = (of("standard"), of("improved"), of("elimination"));
    assert!((690.0..770.0).contains(&improved), "{improved}");
    assert!(standard < 0.3 * improved, "{standard} {improved}");
    assert!((850.0..930.0).contains(&elimination), "{elimination}");
}

/// LTTP §V-E: goodput does not fall as servers are added.
#[test]
fn there_is_no_collapse_up_to_45_servers() {
    for size in ["64KiB", "256KiB"] {
        let of = |senders| {
            let settings = [("workload.size", size), ("workload.senders", senders)];
            goodput(&outcome(&scenario("lttp-6", &settings), 1))
        };
        let (few, many) = (of("6"), of("45"));
        assert!(many > 0.9 * few, "{size}: {few} {many}");
    }
}

#[test]
fn blocks_come_whole_over_links_that_lose_one_packet_in_twenty() {
    let settings = [
        ("topology.data_loss", "0.05"),
        ("topology.control_loss", "0.05"),
        ("workload.senders", "5"),
        ("workload.size", "1MiB"),
    ];
    let lossy = outcome(&scenario("lttp-5", &settings), 3);
    assert_eq!(lossy.foreground().count(), 5);
    assert!(lossy.counters.dropped_by_rule > 100);
}

/// LTTP §V-A with the constants as they were: a change of these digests is a change of behaviour.
#[test]
fn digests_are_pinned() {
    let digest = |name, settings: &[(&str, &str)]| {
        format!("{:016x}", outcome(&scenario(name, settings), 1).counters.digest)
    };
    assert_eq!(digest("lttp-6", &[]), "b01a19970dfcde74");
    assert_eq!(digest("lttp-9", &[]), "c39589fa80ca70fd");
    assert_eq!(digest("lttp-ns2", &[("workload.senders", "20")]), "2edb05ff916fda9c");
}
