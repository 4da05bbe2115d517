//! Fetches from several senders by the configuration that is shipped.

use wellspring_experiments::run::{Outcome, run};
use wellspring_experiments::scenario::Plan;

/// A fetch of 100 MB from three hosts, all on links of 1 Gbit/s, with `more` in the scenario; not by host 3, which
/// is what `more` speaks of.
fn fetch(more: &str, settings: &[(&str, &str)]) -> Outcome {
    let text = format!(
        "name = \"senders\"\n[topology]\nkind = \"single-switch\"\nhosts = 4\ndelay = \"20us\"\n\
         [switch]\noverflow = \"drop\"\nbuffer = \"512KB\"\n\
         [protocol]\nconfiguration = \"shipped\"\nfabric = \"shared\"\ndecode = \"none\"\n\
         [workload]\nkind = \"storage\"\nsessions = 1\nlambda = 1000.0\nsize = \"100MB\"\n\
         replicas = 3\nwrites = 0.0\nplacement = \"random\"\n{more}"
    );
    let mut plan = Plan::parse(&text).unwrap();
    for (key, value) in settings {
        plan.set(key, value).unwrap();
    }
    let scenario = plan.scenarios().unwrap().remove(0);
    let outcomes = (1..).map(|seed| run(&scenario, seed, &mut |_| {}).unwrap());
    let mut wanted = outcomes.skip_while(|outcome| outcome.foreground().any(|flow| flow.host == 3));
    wanted.next().expect("host 3 is not the client of every seed")
}

#[test]
fn whatever_happens_to_one_of_three_senders_a_fetch_runs_at_the_line() {
    let link = |at: &str, kind: &str| {
        format!("[[events]]\nat = \"{at}\"\nkind = \"{kind}\"\nnodes = [\"host3\", \"switch0\"]\n")
    };
    let slow = "[[topology.links]]\nbetween = [\"host3\", \"switch0\"]\nrate = \"100Mbps\"\n";
    let killed = link("200ms", "link-down");
    let frozen = link("200ms", "link-down") + &link("500ms", "link-up");
    for (name, more) in [("healthy", ""), ("slow", slow), ("killed", &killed), ("frozen", &frozen)]
    {
        let outcome = fetch(more, &[]);
        let flow = outcome.foreground().next().expect("one fetch");
        let goodput = flow.goodput() / 1e6;
        assert!(goodput >= 900.0, "{name}: {goodput} Mbit/s");
        assert!(flow.account.decoded_blocks <= 5, "{name}: {:?}", flow.account);
    }
}

/// Pieces of one size from all three: a slow host sends fewer of them, and the others more.
#[test]
fn a_read_in_pieces_takes_from_each_host_what_it_can_send() {
    let slow = "[[topology.links]]\nbetween = [\"host3\", \"switch0\"]\nrate = \"20Mbps\"\n\
                reverse_rate = \"1Gbps\"\n";
    let took = |read_by: &str| {
        let settings = [
            ("protocol.name", "ndp"),
            ("workload.read_by", read_by),
            ("workload.size", "20MB"),
            ("switch.overflow", "trim"),
            ("switch.buffer", "30KB"),
        ];
        let outcome = fetch(slow, &settings);
        let flow = outcome.foreground().next().expect("one fetch");
        assert_eq!(flow.reason, None, "{read_by}");
        assert_eq!(flow.bytes, 20_000_000);
        flow.completion().expect("it is complete")
    };
    let (pieces, parts) = (took("pieces"), took("parts"));
    assert!(parts > 2.6, "a third over the slow link: {parts} s");
    // The last two pieces over the slow link take 0.12 s.
    assert!(pieces < 0.36, "{pieces} s");
}
