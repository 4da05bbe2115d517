//! Networks from text, whose links are not all alike.

use wellspring_experiments::run::{Outcome, run};
use wellspring_experiments::scenario::Plan;

fn outcome(graph: &str, lines: &str) -> Outcome {
    let text = format!(
        "name = \"test\"\n[topology]\nkind = \"graph\"\ngraph = \"\"\"\n{graph}\"\"\"\n{lines}"
    );
    let plan = Plan::parse(&text).unwrap();
    run(&plan.scenarios().unwrap().remove(0), 1, &mut |_| {}).unwrap()
}

fn goodputs(outcome: &Outcome) -> Vec<f64> {
    outcome.foreground().map(|flow| flow.goodput() / 1e9).collect()
}

#[test]
fn pulls_keep_the_pace_of_the_hosts_own_links() {
    let single = "[workload]\nkind = \"single\"\nfrom = 0\nto = 1\nsize = \"20MB\"\n";
    for protocol in ["scdp", "ndp"] {
        let lines = format!("[protocol]\nname = \"{protocol}\"\ndecode = \"none\"\n{single}");
        let fast = "host a b\nswitch s\nlink a s 10Gbps 1us\nlink b s 10Gbps 1us\n";
        let fast = outcome(fast, &lines);
        assert!(goodputs(&fast)[0] > 9.0, "{protocol}: {:?}", goodputs(&fast));
        let used = fast.downlink_utilisation;
        assert!((0.4..=0.55).contains(&used), "{protocol}: {used} of two downlinks");
        // The receiver's link is slow: pulls ten times as fast would be trimmed for ever.
        let slow = "host a b\nswitch s\nlink a s 1Gbps 1us\nlink b s 100Mbps 1us 1Gbps\n";
        let reversed = slow.replace("100Mbps 1us 1Gbps", "1Gbps 1us 100Mbps");
        for (graph, least) in [(slow, 0.9), (&reversed, 0.09)] {
            let outcome = outcome(graph, &lines);
            assert!(goodputs(&outcome)[0] > least, "{protocol}: {:?}", goodputs(&outcome));
            assert!(outcome.counters.trimmed < 30, "{protocol}: {:?}", outcome.counters);
        }
    }
}

/// Two flows over two paths, by their labels: over one of the paths each would get half.
#[test]
fn labels_take_all_paths_of_a_graph() {
    let graph = "host a b c d\nswitch s t x y\nlink a s 1Gbps 1us\nlink b s 1Gbps 1us\n\
                 link c t 1Gbps 1us\nlink d t 1Gbps 1us\nlink s x 1Gbps 1us\nlink s y 1Gbps 1us\n\
                 link x t 1Gbps 1us\nlink y t 1Gbps 1us\n";
    for protocol in ["scdp", "ndp"] {
        let lines = format!(
            "[switch]\nspraying = \"label\"\n[protocol]\nname = \"{protocol}\"\n\
             [workload]\nkind = \"permutation\"\nsize = \"5MB\"\n[run]\nseeds = [1]\n"
        );
        let outcome = outcome(graph, &lines);
        let slowest = goodputs(&outcome).into_iter().fold(f64::MAX, f64::min);
        assert!(slowest > 0.7, "{protocol}: {:?}", goodputs(&outcome));
    }
}

/// A source on two switches, one of which loses its way to the destination.
#[test]
fn a_host_with_two_links_survives_the_failure_of_one_way() {
    let graph = "host a b\nswitch s t u\nlink a s 1Gbps 1us\nlink a t 1Gbps 1us\n\
                 link s u 1Gbps 1us\nlink t u 1Gbps 1us\nlink b u 1Gbps 1us\n";
    for protocol in ["scdp", "ndp"] {
        let outcome = outcome(
            graph,
            &format!(
                "[protocol]\nname = \"{protocol}\"\n[workload]\nkind = \"single\"\nfrom = 0\n\
                 to = 1\nsize = \"20MB\"\n\
                 [[events]]\nat = \"20ms\"\nkind = \"link-down\"\nnodes = [\"s\", \"u\"]\n"
            ),
        );
        assert!(goodputs(&outcome)[0] > 0.85, "{protocol}: {:?}", goodputs(&outcome));
    }
}
