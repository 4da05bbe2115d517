//! Scenario files that ask for the impossible, or for more than a machine holds: each is refused in
//! words that name the value and its bound.

use std::fmt::Write;
use wellspring_experiments::run::run;
use wellspring_experiments::scenario::Plan;

const SINGLE: &str = "[workload]\nkind = \"single\"\nfrom = 0\nto = 1\nsize = \"1MB\"\n";
const HUGE: &str = "[topology.shape]\npods = 2\ntors_per_pod = 1\nhosts_per_tor = 1\n";
const THREE: &str = "host a b c\nswitch s\nlink a s 1Gbps 1us\nlink b s 1Gbps 1us\n";

/// What a scenario is refused for, when read or when run.
fn refusal(text: &str) -> String {
    let text = format!("name = \"test\"\n{text}");
    let refused = Plan::parse(&text).and_then(|plan| {
        let scenarios = plan.scenarios()?;
        run(&scenarios[0], 1, &mut |_| {})
    });
    let error = refused.map(|outcome| outcome.counters).unwrap_err();
    // As the command prints it.
    format!("{error:#}")
}

fn graph(text: &str, rest: &str) -> String {
    format!("[topology]\nkind = \"graph\"\ngraph = \"\"\"\n{text}\"\"\"\n{rest}")
}

fn line_of_switches(count: usize, hosts: usize) -> String {
    let mut text = String::new();
    for n in 0..count {
        writeln!(text, "switch s{n}").unwrap();
        if n > 0 {
            writeln!(text, "link s{} s{n} 1Gbps 1us", n - 1).unwrap();
        }
    }
    for n in 0..hosts {
        let at = n * (count - 1) / (hosts - 1);
        writeln!(text, "host h{n}\nlink h{n} s{at} 1Gbps 1us").unwrap();
    }
    text
}

#[test]
fn what_no_machine_holds_is_refused_by_name_and_bound() {
    let fan: String = "link a s 1Gbps 1us\n".repeat(1_024);
    let sweep: String = (0..8)
        .map(|n| {
            let values: Vec<_> = (0..9).map(|n| format!("\"{n}us\"")).collect();
            format!("\"k{n}\" = [{}]\n", values.join(", "))
        })
        .collect();
    let event = |kind: &str, nodes: &str| {
        format!(
            "[topology]\nk = 4\n{SINGLE}[[events]]\nat = \"1ms\"\nkind = \"{kind}\"\n\
             nodes = [{nodes}]\n"
        )
    };
    let workload = |text: &str| format!("[topology]\nk = 4\n[workload]\n{text}");
    for (text, words) in [
        (
            "[topology]\nk = 4\n[protocol]\nname = \"tcp-newreno\"\n[workload]\nkind = \"storage\"\n\
             sessions = 1\nlambda = 1.0\nsize = \"1MB\"\nreplicas = 3\nwrites = 1.0\nwrite_by = \"multicast\"\n"
                .to_owned(),
            "workload.write_by is multicast",
        ),
        (format!("{HUGE}aggs_per_pod = 4096\ncores_per_agg = 4096\n{SINGLE}"), "at most 2^18"),
        (
            "[topology.shape]\npods = 1\ntors_per_pod = 4096\nhosts_per_tor = 1\n\
             aggs_per_pod = 4096\ncores_per_agg = 1\n"
                .to_owned()
                + SINGLE,
            "at most 2^22",
        ),
        (format!("{SINGLE}[sweep]\n{sweep}"), "43046721 scenarios, but at most 100000"),
        (
            workload("kind = \"incast\"\nsenders = 100000000\nsize = \"1KB\"\n"),
            "workload.senders is 100000000, but must be between 1 and 100,000",
        ),
        (
            workload("kind = \"outcast\"\nnear = 1\nfar = 100000000\nsize = \"1KB\"\n"),
            "workload.far is 100000000",
        ),
        (
            workload("kind = \"outcast\"\nnear = 2\nfar = 5\nsize = \"1KB\"\n"),
            "hosts outside the background is 16, but must be at least 17: two receivers, workload.near",
        ),
        (
            workload("kind = \"outcast\"\nnear = 3\nfar = 4\nsize = \"1KB\"\n"),
            "two hosts in a rack, 3 in other racks of its pod (workload.near) and 10 in other pods \
             (every third sends, workload.far), outside the background: there are two, 2 and 12",
        ),
        (
            workload("kind = \"outcast\"\nnear = 1\nfar = 1\nsize = \"1KB\"\n")
                .replace("k = 4", "k = 2"),
            "hosts outside the background is 2, but must be at least 4",
        ),
        (
            workload(
                "kind = \"storage\"\nsessions = 1\nlambda = 1.0\nsize = \"1KB\"\nreplicas = 16\n\
                 writes = 0.5\n",
            ),
            "hosts outside the background is 16, but must be at least 17: a client, and",
        ),
        (
            workload("kind = \"permutation\"\nsize = \"1KB\"\n[background]\nfraction = 0.9\n")
                .replace("k = 4", "kind = \"single-switch\"\nhosts = 10"),
            "hosts outside the background is 1, but must be at least 2",
        ),
        (
            workload("kind = \"permutation\"\nsize = \"1KB\"\n[background]\nfraction = 0.1\n"),
            "background.fraction is 0.1, but must be 0, or such that 2 hosts or more run it",
        ),
        (
            workload(
                "kind = \"convergence\"\nflows = 100000000\ninterval = \"1ms\"\nduration = \"1s\"\n",
            ),
            "workload.flows is 100000000",
        ),
        (
            workload("kind = \"convergence\"\nflows = 1\ninterval = \"1ms\"\nduration = \"0s\"\n"),
            "workload.duration is 0ps, but must be above 0",
        ),
        (
            workload(
                "kind = \"flows\"\nsessions = 100000000\nlambda = 1e12\nsizes = { fixed = \"1KB\" }\n",
            ),
            "workload.sessions is 100000000, but must be between 1 and 10,000,000",
        ),
        (
            "[topology]\nkind = \"single-switch\"\nhosts = 8\n[workload]\nkind = \"outcast\"\n\
             near = 2\nfar = 2\nsize = \"1KB\"\n"
                .to_owned(),
            "outcast\" needs a Fat-Tree",
        ),
        (
            "[topology]\nkind = \"single-switch\"\nhosts = 4\n[workload]\nkind = \"incast\"\n\
             senders = 3\nsize = \"1TB\"\n[run]\nsample = \"100ns\"\n"
                .to_owned(),
            "run.sample = 0.100us makes more than 20000000 entries",
        ),
        (graph(&line_of_switches(40_000, 30_000), SINGLE), "at most 2^30 bytes"),
        (graph(&line_of_switches(300, 2), SINGLE), "paths of more than 253 hops"),
        (graph(&format!("{THREE}link c s 1Gbps 11s\n"), SINGLE), "at most 10 s, not 11.000s"),
        (
            graph(&format!("{THREE}link c s 1kbps 1us\n"), SINGLE),
            "`1kbps` is not a rate of 2 kbit/s",
        ),
        (graph(&format!("{THREE}{fan}"), SINGLE), "a host has at most 1024 links"),
        (format!("[topology]\nk = 4\nrate = \"1862bps\"\n{SINGLE}"), "a rate of 2 kbit/s or more"),
        (format!("[topology]\nk = 4\n{SINGLE}[protocol]\ndecode_rate = \"1bps\"\n"), "2 kbit/s"),
        (event("link-down", "\"tor0\", \"agg7\""), "no link between `tor0` and `agg7`"),
        (event("link-up", "\"host0\", \"host1\""), "no link between `host0` and `host1`"),
    ] {
        let error = refusal(&text);
        let shown: String = text.chars().take(300).collect();
        assert!(error.contains(words), "{shown}\n{error}");
    }
}

#[test]
fn paths_as_long_as_tables_tell_are_routed() {
    let text = graph(&line_of_switches(252, 2), SINGLE);
    let plan = Plan::parse(&format!("name = \"test\"\n{text}")).unwrap();
    let outcome = run(&plan.scenarios().unwrap()[0], 1, &mut |_| {}).unwrap();
    assert!(outcome.incomplete().is_empty() && outcome.counters.dropped() == 0);
}

#[test]
fn endless_and_special_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let read = |text: &str| {
        std::fs::write(&file, format!("name = \"test\"\n{text}")).unwrap();
        format!("{:#}", Plan::read(&file).map(|_| ()).unwrap_err())
    };
    let graph = format!("[topology]\nkind = \"graph\"\ngraph_file = \"/dev/zero\"\n{SINGLE}");
    let sizes = "[workload]\nkind = \"flows\"\nsessions = 1\nlambda = 1.0\n\
                 sizes = { file = \"/dev/zero\" }\n";
    assert!(read(&graph).contains("/dev/zero is no regular file"));
    assert!(read(sizes).contains("/dev/zero is no regular file"));
    assert!(read(&graph.replace("/dev/zero", ".")).contains("is no regular file"));
    let long = std::fs::File::create(folder.path().join("long.txt")).unwrap();
    long.set_len((64 << 20) + 1).unwrap();
    let error = read(&graph.replace("/dev/zero", "long.txt"));
    assert!(error.contains("long.txt is longer than 67108864 bytes"), "{error}");
}
