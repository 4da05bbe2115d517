//! Groups by the configuration that is shipped: on switches that drop or do not trim groups, with loss, and with a
//! member that is slower than the others.

use wellspring_experiments::run::{Outcome, run};
use wellspring_experiments::scenario::Plan;

/// A write of 100 MB to three hosts at 1 Gbit/s.
fn write(settings: &[(&str, &str)], slow: &str, seed: u64) -> Outcome {
    let text = format!(
        "name = \"groups\"\n[topology]\nkind = \"single-switch\"\nhosts = 4\ndelay = \"20us\"\n{slow}\
         [switch]\noverflow = \"drop\"\nbuffer = \"512KB\"\n\
         [protocol]\nconfiguration = \"shipped\"\nfabric = \"shared\"\ndecode = \"none\"\n\
         [workload]\nkind = \"storage\"\nsessions = 1\nlambda = 1000.0\nsize = \"100MB\"\n\
         replicas = 3\nwrites = 1.0\nplacement = \"random\"\n"
    );
    let mut plan = Plan::parse(&text).unwrap();
    for (key, value) in settings {
        plan.set(key, value).unwrap();
    }
    run(&plan.scenarios().unwrap().remove(0), seed, &mut |_| {}).unwrap()
}

/// When it was complete, in seconds since its beginning.
fn took(outcome: &Outcome) -> f64 {
    let flow = outcome.foreground().next().expect("one write");
    flow.end.expect("it is complete") - flow.start
}

const SLOW: &str = "[[topology.links]]\nbetween = [\"host3\", \"switch0\"]\nrate = \"2Mbps\"\n";

#[test]
fn a_write_to_three_takes_little_more_than_the_line_whatever_is_lost() {
    for (fabric, groups) in [("shared", "true"), ("dedicated", "true"), ("trimming", "false")] {
        for (loss, most) in [("0.0", 0.92), ("0.005", 0.97), ("0.025", 1.05)] {
            let overflow = if fabric == "trimming" { "trim" } else { "drop" };
            let settings = [
                ("protocol.fabric", fabric),
                ("switch.overflow", overflow),
                ("switch.trim_groups", groups),
                ("topology.data_loss", loss),
                ("topology.control_loss", loss),
            ];
            let took = took(&write(&settings, "", 1));
            assert!(took <= most, "{fabric}, loss {loss}: {took} s of {most}");
        }
    }
}

#[test]
fn a_slow_member_costs_a_quorum_a_tenth() {
    for fabric in ["shared", "trimming"] {
        let overflow = if fabric == "trimming" { "trim" } else { "drop" };
        let settings = [
            ("workload.quorum", "2"),
            ("protocol.fabric", fabric),
            ("switch.overflow", overflow),
            ("switch.trim_groups", "false"),
        ];
        let mut tried = 0;
        for seed in 1..=3 {
            let with = write(&settings, SLOW, seed);
            if with.foreground().any(|flow| flow.host == 3) {
                continue; // the slow one is the sender
            }
            let (with, without) = (took(&with), took(&write(&settings, "", seed)));
            assert!(with <= 1.1 * without, "{fabric}, seed {seed}: {with} s, without it {without}");
            tried += 1;
        }
        assert!(tried > 0, "the slow one is always the sender");
    }
}

#[test]
fn a_slow_member_that_is_waited_for_sets_the_pace_of_its_group() {
    let waits = [("protocol.stragglers.detach", "false"), ("workload.quorum", "2")];
    let smaller = [("workload.size", "2MB"), ("workload.quorum", "2")];
    let seed = (1..)
        .find(|&seed| write(&smaller, "", seed).foreground().all(|flow| flow.host != 3))
        .expect("some host writes");
    let waited = took(&write(&[waits, smaller].concat(), SLOW, seed));
    let detached = took(&write(&smaller, SLOW, seed));
    assert!(waited > 20.0 * detached, "{waited} s against {detached}");
}

/// Left in the group, it was sent the others' packets over its own link, which trimmed what it was sent itself; its
/// pulls then got slower and slower, and it took ten times as long.
#[test]
fn a_detached_member_has_most_of_its_link_where_groups_are_not_trimmed() {
    let slow = "[[topology.links]]\nbetween = [\"switch0\", \"host3\"]\nrate = \"100Mbps\"\n";
    let settings = [
        ("protocol.fabric", "trimming"),
        ("switch.overflow", "trim"),
        ("switch.trim_groups", "false"),
        ("switch.buffer", "30KB"),
        ("workload.size", "20MB"),
    ];
    for seed in 1..=6 {
        let outcome = write(&settings, slow, seed);
        let flow = outcome.foreground().next().expect("one write");
        if flow.host == 3 {
            continue; // the slow one is the sender
        }
        assert_eq!(flow.reason, None, "seed {seed}");
        let took = took(&outcome);
        assert!(took < 2.1, "seed {seed}: {took} s, 1.7 s of which its link needs");
    }
}
