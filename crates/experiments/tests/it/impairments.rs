//! Networks that lose packets, fail or are slow.

use wellspring_experiments::record::Reason;
use wellspring_experiments::results::RunRow;
use wellspring_experiments::run::{Ending, Outcome, run};
use wellspring_experiments::scenario::{Plan, Scenario};

fn scenario(text: &str) -> Scenario {
    let plan = Plan::parse(&format!("name = \"test\"\n{text}")).unwrap();
    plan.scenarios().unwrap().remove(0)
}

fn outcome(text: &str) -> Outcome {
    run(&scenario(text), 1, &mut |_| {}).unwrap()
}

fn completed(outcome: &Outcome) -> usize {
    outcome.foreground().filter(|flow| flow.end.is_some()).count()
}

#[test]
fn all_requests_complete_although_a_packet_in_twenty_is_lost() {
    let storage = "kind = \"storage\"\nsessions = 20\nlambda = 200.0\nsize = \"300KB\"\n\
                   replicas = 3\nwrites = 0.5\n";
    let flows = "kind = \"flows\"\nsessions = 40\nlambda = 200.0\nsizes = { fixed = \"300KB\" }\n";
    for (workload, requests) in [(flows, 40), (storage, 20)] {
        for protocol in ["scdp", "polyraptor", "ndp", "ndp+"] {
            let outcome = outcome(&format!(
                "[topology]\nk = 4\ndata_loss = 0.05\ncontrol_loss = 0.05\n\
                 [protocol]\nname = \"{protocol}\"\n[workload]\n{workload}"
            ));
            assert_eq!(completed(&outcome), requests, "{protocol}: {:?}", outcome.incomplete());
            assert_eq!((outcome.ending, outcome.not_made), (Ending::Complete, 0));
        }
    }
}

/// Every host but the client has a replica; one of them dies.
#[test]
fn a_read_goes_on_without_a_replica_that_dies() {
    let read = |dead: &str| {
        let events: String = dead
            .split_whitespace()
            .map(|host| {
                format!("[[events]]\nat = \"2ms\"\nkind = \"node-down\"\nnodes = [\"{host}\"]\n")
            })
            .collect();
        outcome(&format!(
            "[topology]\nkind = \"single-switch\"\nhosts = 4\n[workload]\nkind = \"storage\"\n\
             sessions = 1\nlambda = 1e6\nsize = \"5MB\"\nreplicas = 3\nwrites = 0.0\n\
             placement = \"random\"\n[run]\npatience = \"20s\"\n{events}"
        ))
    };
    let client = read("").foreground().next().map(|flow| flow.host).unwrap();
    let others: Vec<_> =
        (0..4).filter(|host| *host != client).map(|host| format!("host{host}")).collect();
    for replica in &others {
        let outcome = read(replica);
        assert_eq!(completed(&outcome), 1, "{replica}: {:?}", outcome.incomplete());
        assert_eq!(outcome.incomplete().len(), 0);
    }
    let outcome = read(&others.join(" "));
    assert_eq!((completed(&outcome), outcome.ending), (0, Ending::Complete));
    assert_eq!(outcome.incomplete().into_iter().collect::<Vec<_>>(), [(Reason::PeerLost, 1)]);
}

/// 50 kbit/s: a packet takes a quarter of a second, a block 24 seconds.
#[test]
fn a_slow_transfer_is_not_stuck_and_looking_at_it_changes_nothing() {
    for protocol in ["scdp", "ndp"] {
        let slow = |run: &str| {
            outcome(&format!(
                "[topology]\nkind = \"single-switch\"\nhosts = 2\nrate = \"50kbps\"\n\
                 [protocol]\nname = \"{protocol}\"\n[workload]\nkind = \"single\"\nfrom = 0\n\
                 to = 1\nsize = \"250KB\"\n[run]\npatience = \"3s\"\n{run}"
            ))
        };
        let plain = slow("");
        assert_eq!((completed(&plain), plain.ending), (1, Ending::Complete), "{protocol}");
        for sample in ["7ms", "1s", "1000s"] {
            let sampled = slow(&format!("sample = \"{sample}\"\n"));
            assert_eq!(sampled.flows, plain.flows, "{protocol}, {sample}");
            assert_eq!(sampled.counters.digest, plain.counters.digest, "{protocol}, {sample}");
        }
    }
}

#[test]
fn a_run_is_broken_off_when_patience_ends_however_often_it_is_looked_at() {
    // The receiver is gone for good; the background keeps the event list busy.
    for background in ["", "[background]\nfraction = 0.5\nexclusive = false\nwarmup = \"1ms\"\n"] {
        let ends: Vec<_> = ["", "sample = \"1ms\"\n", "sample = \"70ms\"\n"]
            .map(|sample| {
                let outcome = outcome(&format!(
                    "[topology]\nk = 4\n[workload]\nkind = \"single\"\nfrom = 0\nto = 15\n\
                     size = \"3MB\"\n[run]\npatience = \"50ms\"\n{sample}{background}\
                     [[events]]\nat = \"5ms\"\nkind = \"link-down\"\n\
                     nodes = [\"host15\", \"tor7\"]\n"
                ));
                assert_eq!(outcome.ending, Ending::Stuck);
                assert_eq!(outcome.incomplete().get(&Reason::Stuck), Some(&1));
                outcome.simulated
            })
            .into();
        assert!(ends[0] > 0.055 && ends[0] < 0.056, "{ends:?}");
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    }
}

#[test]
fn requests_that_the_limit_cut_off_are_not_called_stuck() {
    let text = |lambda: f64, limit: &str| {
        format!(
            "[topology]\nkind = \"single-switch\"\nhosts = 4\n[workload]\nkind = \"flows\"\n\
             sessions = 10\nlambda = {lambda:?}\nsizes = {{ fixed = \"10MB\" }}\n\
             [run]\nlimit = \"{limit}\"\n"
        )
    };
    let limited = |lambda: f64, limit: &str| outcome(&text(lambda, limit));
    // None arrives before the limit.
    let none = limited(1e-3, "1s");
    assert_eq!((none.ending, none.not_made, none.flows.len()), (Ending::Limit, 10, 0));
    assert_eq!(none.stuck, None);
    let row = RunRow::new(&scenario(&text(1e-3, "1s")), &none);
    assert_eq!((row.requests, row.completed), (10, 0));
    let statistics = [row.goodput_mean, row.fct_mean, row.fct_p99_100kb, row.decoded_share];
    assert_eq!(statistics, [None; 4], "nothing is no time of 0");
    // All arrive, none completes.
    let cut = limited(1e6, "20ms");
    assert_eq!((cut.ending, cut.not_made, cut.stuck), (Ending::Limit, 0, None));
    assert_eq!(cut.flows.iter().filter(|f| f.reason == Some(Reason::Limit)).count(), 10);
}

/// A block that takes longer to decode than anything may last does not come out at once.
#[test]
fn decoding_that_takes_for_ever_is_not_instant() {
    let outcome = outcome(
        "[topology]\nk = 4\n[workload]\nkind = \"incast\"\nsenders = 14\nsize = \"100KB\"\n\
         [protocol]\ndecode = \"curve\"\ndecode_curve = [[1.0, 0.0], [1.000001, 999999999.0]]\n\
         [run]\nlimit = \"5s\"\n",
    );
    assert!(outcome.counters.trimmed > 0 && completed(&outcome) < 14);
    let decoded = |flow: &&wellspring_experiments::record::FlowRecord| {
        flow.end.is_some() && flow.account.decoded_blocks > 0
    };
    assert_eq!(outcome.foreground().filter(decoded).count(), 0);
}

/// Fast enough to send more than any single session holds.
#[test]
fn timed_flows_last_as_long_as_they_are_to() {
    let outcome = outcome(
        "[topology]\nkind = \"single-switch\"\nhosts = 2\nrate = \"1000Gbps\"\ndelay = \"10ns\"\n\
         [protocol]\nname = \"ndp\"\npacket = 65000\nwindow = 20\n[workload]\n\
         kind = \"convergence\"\nflows = 1\ninterval = \"0s\"\nduration = \"200ms\"\n",
    );
    let flow = outcome.foreground().next().unwrap();
    assert!(flow.completion() == Some(0.2) && flow.bytes > 23_000_000_000, "{flow:?}");
    assert!(outcome.incomplete().is_empty());
}
