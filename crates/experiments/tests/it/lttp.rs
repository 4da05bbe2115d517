//! LTTP's claims on simulated networks as inequalities, and pinned digests.

use wellspring_experiments::run::{Ending, Outcome, run};
use wellspring_experiments::scenario::catalogue;
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

/// Over 80 ms, where one packet in a hundred is lost, TFRC's equation leaves 1.7 Mbit/s of 100.
#[test]
fn a_congestion_controller_that_tells_random_losses_apart_fills_a_long_link() {
    let rate = |congestion: Option<&str>, loss: f64| {
        let chosen =
            congestion.map(|name| format!("congestion = \"{name}\"\n")).unwrap_or_default();
        let text = format!(
            "name = \"long\"\n[topology]\nkind = \"dumbbell\"\nhosts = 1\nrate = \"1Gbit/s\"\n\
             uplink_rate = \"100Mbit/s\"\ndelay = \"13.33ms\"\ndata_loss = {loss}\n[switch]\nbuffer = \"1MB\"\n\
             overflow = \"drop\"\n[protocol]\nname = \"lttp\"\nblock_symbols = 4096\n[protocol.lttp]\n\
             decoder = \"fixed\"\ncode_overhead = 0.02\n{chosen}[run]\nlimit = \"1000s\"\n\
             [workload]\nkind = \"incast\"\nsenders = 1\nsize = \"20MB\""
        );
        let scenario = Plan::parse(&text).unwrap().scenarios().unwrap().remove(0);
        goodput(&outcome(&scenario, 1))
    };
    let tfrc = rate(None, 0.0033);
    assert!(tfrc < 3.0, "{tfrc}");
    for congestion in ["veno", "bbr"] {
        for loss in [0.0, 0.0033, 0.0167] {
            let rate = rate(Some(congestion), loss);
            assert!((35.0..85.0).contains(&rate), "{congestion} at {loss}: {rate}");
        }
    }
    let cubic = rate(Some("cubic"), 0.0033);
    assert!(cubic < 5.0, "every loss is congestion to it: {cubic}");
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
