//! TCP for some of the requests, beside another protocol.

use wellspring_core::Duration;
use wellspring_experiments::results::RunRow;
use wellspring_experiments::run::{Ending, run};
use wellspring_experiments::scenario::catalogue;
use wellspring_experiments::scenario::quantity::Span;
use wellspring_experiments::scenario::{Plan, Scenario};
use wellspring_experiments::stats::mean;

/// `protocol` and `beside` are what stands in these tables.
fn parse(protocol: &str, beside: &str) -> anyhow::Result<Scenario> {
    let text = format!(
        "name = \"two\"\n[topology]\nk = 4\n[switch]\noverflow = \"drop\"\nspraying = \"flow\"\nmark_packets = 10\n\
         [protocol]\n{protocol}\n[beside]\n{beside}\n\
         [background]\nfraction = 0.25\nwarmup = \"2ms\"\n\
         [workload]\nkind = \"storage\"\nsessions = 20\nlambda = 500.0\nsize = \"400KB\"\nreplicas = 3\n\
         writes = 0.5\nwrite_by = \"daisy-chain\"\nread_by = \"multi-block\"\n"
    );
    Ok(Plan::parse(&text)?.scenarios()?.remove(0))
}

fn named(protocol: &str) -> String {
    format!("name = \"{protocol}\"\nfabric = \"shared\"")
}

/// A run checks by itself that no packet went missing.
#[test]
fn tcp_runs_beside_every_protocol_with_its_share_of_the_requests() {
    for protocol in ["scdp", "polyraptor", "lttp", "ndp", "ndp+", "dctcp"] {
        let beside = "share = 0.25\nprotocol = { name = \"tcp-newreno\", header = 54 }";
        let scenario = parse(&named(protocol), beside).unwrap();
        let [first, again, other] =
            [1, 1, 2].map(|seed| run(&scenario, seed, &mut |_| {}).unwrap());
        assert_eq!(first.ending, Ending::Complete, "{protocol}: {:?}", first.stuck);
        assert!(first.incomplete().is_empty(), "{protocol}");
        assert_eq!(first.counters, again.counters, "{protocol}");
        assert_ne!(first.counters.digest, other.counters.digest, "{protocol}");
        let of = |name| first.foreground().filter(|flow| flow.protocol.as_str() == name).count();
        assert_eq!((of(protocol), of("tcp-newreno")), (15, 5));
        let mut background = first.flows.iter().filter(|flow| flow.kind == "background");
        assert!(background.all(|flow| flow.protocol.as_str() == protocol && !flow.beside));
    }
}

/// Also where both have the same name.
#[test]
fn a_row_tells_what_is_of_the_protocol_and_what_of_the_tcp_beside_it() {
    for (protocol, beside) in [("lttp", "dctcp"), ("dctcp", "dctcp")] {
        let tcp = format!("share = 0.25\nprotocol = {{ name = \"{beside}\", header = 54 }}");
        let mut scenario = parse(&named(protocol), &tcp).unwrap();
        let outcome = run(&scenario, 1, &mut |_| {}).unwrap();
        let row = RunRow::new(&scenario, &outcome);
        assert_eq!((row.protocol.as_str(), row.beside.as_str()), (protocol, beside));
        assert_eq!((row.requests, row.completed), (20, 20));
        assert_eq!((row.beside_requests, row.beside_completed, row.beside_failed), (5, 5, 0));
        let goodput = |beside: bool| {
            let flows = outcome.foreground().filter(|flow| flow.beside == beside);
            mean(&flows.map(|flow| flow.goodput() / 1e9).collect::<Vec<_>>())
        };
        assert_eq!(
            [row.goodput_mean, row.beside_goodput_mean],
            [false, true].map(|of| Some(goodput(of)))
        );
        assert!(row.fct_mean > Some(0.0) && row.beside_fct_mean > Some(0.0));
        assert!(row.beside_fct_p99 > row.beside_fct_mean);

        scenario.run.limit = Span(Duration::from_millis(20));
        let row = RunRow::new(&scenario, &run(&scenario, 1, &mut |_| {}).unwrap());
        let of_tcp = format!(" beside, over {beside}, still under way at run.limit");
        assert!(row.missing.contains(&of_tcp), "{}", row.missing);
        assert!(row.missing.contains(" still under way at run.limit; "), "{}", row.missing);
        // Also of those that were not made: a quarter.
        assert_eq!((row.requests, row.beside_requests), (20, 5));
        let not_made = format!(" beside, over {beside}, not made before the run ended");
        assert!(row.missing.contains(&not_made), "{}", row.missing);
    }
}

#[test]
fn what_cannot_be_beside_is_refused_by_its_key() {
    let fine = "share = 0.5\nprotocol = { name = \"dctcp\" }";
    let lttp = named("lttp");
    for (protocol, beside, key) in [
        (lttp.as_str(), "share = 0.0\nprotocol = { name = \"dctcp\" }", "beside.share is 0"),
        (&lttp, "share = 0.5\nprotocol = { name = \"ndp\" }", "beside.protocol.name is ndp"),
        (
            &lttp,
            "share = 0.5\nprotocol = { name = \"pias\", packet = 20 }",
            "beside.protocol.packet is 20",
        ),
        (&lttp, "share = 0.5", "protocol"),
        ("name = \"scdp\"", fine, "protocol.fabric is trimming, but must be shared with a TCP"),
        (
            "name = \"polyraptor\"\nfabric = \"dedicated\"",
            fine,
            "protocol.fabric is dedicated, but must be shared with a TCP",
        ),
    ] {
        let error = parse(protocol, beside).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

/// LTTP Fig. 10: a change of this digest is a change of behaviour.
#[test]
fn the_digest_is_pinned() {
    let mut plan = catalogue::plan("lttp-10-beside-tcp").unwrap();
    plan.set("workload.duration", "100ms").unwrap();
    let outcome = run(&plan.scenarios().unwrap()[0], 1, &mut |_| {}).unwrap();
    assert_eq!(format!("{:016x}", outcome.counters.digest), "3ce8d4ae629b8a08");
}
