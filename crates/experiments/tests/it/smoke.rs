//! Small runs of every protocol and workload: all requests complete.

use wellspring_experiments::run::run;
use wellspring_experiments::scenario::Plan;

#[test]
fn every_protocol_completes_every_workload() {
    let workloads = [
        "kind = \"permutation\"\nsize = \"300KB\"",
        "kind = \"incast\"\nsenders = 12\nsize = \"70KB\"\njitter = \"10us\"",
        "kind = \"outcast\"\nnear = 1\nfar = 3\nsize = \"200KB\"",
        "kind = \"flows\"\nsessions = 60\nlambda = 2000.0\nsizes = { fixed = \"100KB\" }",
        "kind = \"storage\"\nsessions = 40\nlambda = 500.0\nsize = \"400KB\"\nreplicas = 3\n\
         writes = 0.5\nwrite_by = \"daisy-chain\"\nread_by = \"multi-block\"",
        "kind = \"convergence\"\nflows = 3\ninterval = \"10ms\"\nduration = \"40ms\"",
    ];
    for workload in workloads {
        for protocol in ["scdp", "polyraptor", "ndp", "ndp+", "tcp-newreno", "dctcp", "pias"] {
            let text = format!(
                "name = \"smoke\"\n[topology]\nk = 4\n[switch]\nmark_packets = 10\n[protocol]\nname = \"{protocol}\"\n\
                 tcp = {{ min_timeout = \"5ms\", initial_timeout = \"5ms\" }}\n[background]\nfraction = 0.25\nwarmup = \"2ms\"\n\
                 [run]\nlimit = \"10s\"\npatience = \"1s\"\n[workload]\n{workload}"
            );
            let scenario = Plan::parse(&text).unwrap().scenarios().unwrap().remove(0);
            let outcome = run(&scenario, 1, &mut |_| {}).unwrap();
            assert!(outcome.stuck.is_none(), "{protocol} is stuck in {workload}");
            let done = outcome.foreground().filter(|flow| flow.end.is_some()).count();
            assert_eq!(done, outcome.foreground().count(), "{protocol} in {workload}");
            assert!(done > 0, "{protocol} in {workload}");
            let again = run(&scenario, 1, &mut |_| {}).unwrap();
            assert_eq!(again.counters, outcome.counters, "{protocol} in {workload}");
        }
    }
}
