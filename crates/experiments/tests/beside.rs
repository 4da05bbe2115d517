//! TCP for some of the requests, beside another protocol.

use wellspring_experiments::catalogue;
use wellspring_experiments::run::{Ending, run};
use wellspring_experiments::scenario::{Plan, Scenario};

fn parse(protocol: &str, beside: &str) -> anyhow::Result<Scenario> {
    let text = format!(
        "name = \"two\"\n[topology]\nk = 4\n[switch]\noverflow = \"drop\"\nspraying = \"flow\"\n\
         [protocol]\nname = \"{protocol}\"\nfabric = \"shared\"\n[beside]\n{beside}\n\
         [background]\nfraction = 0.25\nwarmup = \"2ms\"\n\
         [workload]\nkind = \"storage\"\nsessions = 40\nlambda = 500.0\nsize = \"400KB\"\nreplicas = 3\n\
         writes = 0.5\nwrite_by = \"daisy-chain\"\nread_by = \"multi-block\"\n"
    );
    Ok(Plan::parse(&text)?.scenarios()?.remove(0))
}

#[test]
fn tcp_runs_beside_every_protocol_with_its_share_of_the_requests() {
    for protocol in ["scdp", "polyraptor", "lttp", "dctcp"] {
        let beside = "share = 0.25\nprotocol = { name = \"tcp-newreno\", header = 54 }";
        let scenario = parse(protocol, beside).unwrap();
        let [first, again] = [(); 2].map(|()| run(&scenario, 1, &mut |_| {}).unwrap());
        assert_eq!(first.ending, Ending::Complete, "{protocol}: {:?}", first.stuck);
        assert!(first.incomplete().is_empty(), "{protocol}");
        assert_eq!(first.counters, again.counters, "{protocol}");
        let of = |name| first.foreground().filter(|flow| flow.protocol.as_str() == name).count();
        assert_eq!((of(protocol), of("tcp-newreno")), (30, 10));
        let mut background = first.flows.iter().filter(|flow| flow.kind == "background");
        assert!(background.all(|flow| flow.protocol.as_str() == protocol));
    }
}

#[test]
fn what_cannot_be_beside_is_refused_by_its_key() {
    for (beside, key) in [
        ("share = 0.0\nprotocol = { name = \"dctcp\" }", "beside.share is 0"),
        ("share = 0.5\nprotocol = { name = \"ndp\" }", "beside.protocol.name is ndp"),
        (
            "share = 0.5\nprotocol = { name = \"pias\", packet = 20 }",
            "beside.protocol.packet is 20",
        ),
        ("share = 0.5", "protocol"),
    ] {
        let error = parse("lttp", beside).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

/// LTTP Fig. 10: a change of this digest is a change of behaviour.
#[test]
fn the_digest_is_pinned() {
    let mut plan = catalogue::plan("lttp-10-beside-tcp").unwrap();
    plan.set("workload.duration", "100ms").unwrap();
    let outcome = run(&plan.scenarios().unwrap()[0], 1, &mut |_| {}).unwrap();
    assert_eq!(format!("{:016x}", outcome.counters.digest), "7b31e1c711f82e1b");
}
