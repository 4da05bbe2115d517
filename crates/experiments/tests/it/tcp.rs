//! TCP and DCTCP in scenarios.

use wellspring_experiments::run::{Outcome, run};
use wellspring_experiments::scenario::Plan;
use wellspring_experiments::scenario::catalogue;

/// One of Wellspring's scenarios, with some of its keys set.
fn outcome(name: &str, settings: &[(&str, &str)]) -> Outcome {
    let mut plan = catalogue::plan(name).unwrap().without_sweep();
    for (key, value) in settings {
        plan.set(key, value).unwrap();
    }
    run(&plan.scenarios().unwrap()[0], 1, &mut |_| {}).unwrap()
}

fn last(outcome: &Outcome) -> f64 {
    outcome.foreground().filter_map(|flow| flow.end).fold(0.0, f64::max)
}

/// These move when TCP, the switches or the random streams do: "Results changed" in the changelog
/// says why.
#[test]
fn digests_are_the_same_on_every_machine() {
    let digest = |name, senders| outcome(name, &[("workload.senders", senders)]).counters.digest;
    assert_eq!([digest("lttp-6-tcp", "12"), digest("lttp-6-tcp", "36")], NEWRENO);
    assert_eq!([digest("lttp-7-dctcp", "12"), digest("lttp-7-dctcp", "36")], DCTCP);
}

const NEWRENO: [u64; 2] = [18_140_247_376_539_233_824, 870_941_866_967_463_532];
const DCTCP: [u64; 2] = [3_481_011_709_277_388_145, 17_379_021_216_521_872_066];

/// All senders wait for the slowest before they begin again, so one timeout is paid by all.
#[test]
fn rounds_begin_when_the_last_block_of_the_one_before_is_there() {
    let rounds = outcome("lttp-6-tcp", &[("workload.senders", "8"), ("workload.rounds", "3")]);
    assert_eq!(rounds.foreground().count(), 24);
    let flows: Vec<_> = rounds.foreground().collect();
    for pair in flows.chunks(8).collect::<Vec<_>>().windows(2) {
        let end = pair[0].iter().filter_map(|flow| flow.end).fold(0.0, f64::max);
        let start = pair[1].iter().map(|flow| flow.start).fold(f64::INFINITY, f64::min);
        assert!((0.0..20e-6).contains(&(start - end)), "{start} {end}");
    }
    let one = outcome("lttp-6-tcp", &[("workload.senders", "8")]);
    let ratio = last(&rounds) / last(&one);
    assert!((2.8..3.3).contains(&ratio), "{ratio}");
    for protocol in ["scdp", "ndp"] {
        let settings =
            [("protocol.name", protocol), ("workload.senders", "10"), ("workload.rounds", "3")];
        assert_eq!(outcome("scdp-12a", &settings).foreground().count(), 30, "{protocol}");
    }
}

#[test]
fn dctcp_is_marked_and_newreno_is_not() {
    let marked = |protocol| {
        let outcome = outcome("lttp-7-dctcp", &[("protocol.name", protocol)]);
        assert!(outcome.foreground().all(|flow| flow.end.is_some()));
        outcome.counters.marked
    };
    assert!(marked("dctcp") > 100);
    assert_eq!(marked("tcp-newreno"), 0);
}

#[test]
fn timeouts_are_told_with_what_senders_were_at() {
    let collapsed =
        outcome("lttp-6-tcp", &[("workload.senders", "45"), ("protocol.packet", "1064")]);
    assert!(!collapsed.timeouts.is_empty());
    for timeout in &collapsed.timeouts {
        assert!(timeout.at > 0.2 && timeout.window >= 1_024 && timeout.in_flight > 0);
        assert!(timeout.session < 45);
    }
    assert!(outcome("lttp-6-tcp", &[("workload.senders", "4")]).timeouts.is_empty());
}

/// A switch that cuts packets drops TCP's, and does not reorder them unless configured to.
#[test]
fn tcp_runs_where_other_protocols_are_trimmed_and_sprayed() {
    let run = |sprayed: &str| {
        let text = format!(
            "name = \"test\"\n[topology]\nk = 4\n[protocol]\nname = \"tcp-newreno\"\n\
             tcp = {{ sprayed = {sprayed}, min_timeout = \"5ms\" }}\n[workload]\n\
             kind = \"permutation\"\nsize = \"1MB\"\n"
        );
        let scenario = Plan::parse(&text).unwrap().scenarios().unwrap().remove(0);
        run(&scenario, 1, &mut |_| {}).unwrap()
    };
    let [flow, sprayed] = ["false", "true"].map(run);
    for outcome in [&flow, &sprayed] {
        assert!(outcome.foreground().all(|flow| flow.end.is_some()));
        assert_eq!(outcome.counters.trimmed, 0);
    }
    let redundant = |outcome: &Outcome| -> u64 {
        outcome.foreground().map(|flow| flow.account.redundant).sum()
    };
    assert!(redundant(&sprayed) > 2 * redundant(&flow), "disorder is taken for loss");
}

#[test]
fn delayed_acks_are_half_as_many_and_late_ones_wait() {
    let one = |delayed: &[(&str, &str)]| {
        let settings = [&[("workload.senders", "1")], delayed].concat();
        let outcome = outcome("lttp-6-tcp", &settings);
        (outcome.counters.delivered, last(&outcome))
    };
    let (plain, plain_end) = one(&[]);
    let (delayed, delayed_end) = one(&[("protocol.tcp.delayed_ack", "40ms")]);
    // 64 segments and their ACKs, but for those that are under way when the last segment arrives.
    assert!((118..=128).contains(&plain) && delayed < plain * 8 / 10, "{plain} {delayed}");
    // The window grows by half as much, and nobody waits for the timer.
    assert!(delayed_end > plain_end && delayed_end < plain_end * 2.0, "{delayed_end}");
}
