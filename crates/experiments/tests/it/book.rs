//! Agreement of the book with scenario files.

use std::collections::BTreeSet;
use toml::{Table, Value};
use wellspring_experiments::results::{FLOW_COLUMNS, RunRow};
use wellspring_experiments::scenario::Plan;

const PAGE: &str = include_str!("../../../../docs/src/scenarios.md");

/// Every key that is left out where it has its default.
const FULL: &str = r#"
    name = "full"
    about = "all keys"
    [topology]
    kind = "fat-tree"
    uplink_rate = "1Gbps"
    shape = { pods = 2, tors_per_pod = 2, hosts_per_tor = 2, aggs_per_pod = 1, cores_per_agg = 1 }
    links = [{ between = ["tor0", "agg0"], rate = "1Gbps", reverse_rate = "1Gbps" }]
    data_loss = 0.1
    control_loss = 0.1
    [switch]
    buffer = "1MB"
    mark_packets = 1
    control_packets = 1
    trim_size = "128B"
    trim_groups = false
    [protocol]
    fabric = "shared"
    keys = true
    configuration = "shipped"
    gap_threshold = 32
    stragglers = { detach = true }
    decode_curve = [[1.0, 1.0]]
    pull_rate = "1Gbps"
    tcp = { initial_window = 2, delayed_ack = "40ms" }
    [beside]
    share = 0.5
    protocol = { name = "dctcp" }
    [background]
    fraction = 0.5
    storage = "1MB"
    [run]
    sample = "1ms"
    shuffle_ties = 1
    [[events]]
    at = "1ms"
    kind = "link-down"
    nodes = ["tor0", "agg0"]
"#;

/// The keys of a long link, which no other network has.
const LONG_LINK: &str = r#"
    name = "long"
    topology = { kind = "long-link" }
    protocol = { name = "tcp-cubic" }
    appliances = { code = "layers" }
    workload = { kind = "single", from = 0, to = 1, size = "1KB" }
"#;

const WORKLOADS: [&str; 7] = [
    "kind = \"permutation\"\nsize = \"1KB\"",
    "kind = \"single\"\nfrom = 0\nto = 1\nsize = \"1KB\"",
    "kind = \"incast\"\nsenders = 1\nsize = \"1KB\"\nrounds = 2",
    "kind = \"outcast\"\nnear = 1\nfar = 1\nsize = \"1KB\"",
    "kind = \"convergence\"\nflows = 1\ninterval = \"1s\"\nduration = \"1s\"",
    "kind = \"flows\"\nsessions = 1\nlambda = 1.0\nsizes = { points = [[1.0, 1.0]] }",
    "kind = \"storage\"\nsessions = 1\nlambda = 1.0\nsize = \"1KB\"\nreplicas = 1\nwrites = 1.0\nquorum = 1",
];

/// All keys of a table and of the tables in it.
fn keys(table: &Table, into: &mut BTreeSet<String>) {
    for (key, value) in table {
        into.insert(key.clone());
        let inner = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for value in inner.iter().filter_map(Value::as_table) {
            keys(value, into);
        }
    }
}

#[test]
fn every_key_of_a_scenario_is_in_the_book() {
    let mut all = BTreeSet::new();
    let full = WORKLOADS.map(|workload| format!("{FULL}[workload]\n{workload}\n"));
    for text in full.into_iter().chain([LONG_LINK.to_owned()]) {
        let scenario = Plan::parse(&text).unwrap().scenarios().unwrap().remove(0);
        keys(&Table::try_from(&scenario).unwrap(), &mut all);
    }
    assert!(all.len() > 70, "{}: {all:?}", all.len());
    // Those of files and graphs only.
    all.extend(["graph", "graph_file", "matrix", "matrix_file", "file"].map(str::to_owned));
    for key in all {
        let named = [format!("`{key}`"), format!("[{key}]"), format!("{{ {key} =")];
        assert!(named.iter().any(|name| PAGE.contains(name)), "`{key}` is not in scenarios.md");
    }
}

#[test]
fn every_column_is_in_the_book() {
    let row = serde_json::to_value(RunRow::default()).unwrap();
    let runs = row.as_object().unwrap().keys().cloned();
    for column in runs.chain(FLOW_COLUMNS.map(str::to_owned)) {
        assert!(PAGE.contains(&format!("`{column}`")), "`{column}` is not in scenarios.md");
    }
}

/// The examples of the page can be run.
#[test]
fn the_books_own_files_are_read() {
    let example = |start: &str| {
        let (_, rest) = PAGE.split_once(start).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let network = example("```text\nhost");
    write("net.txt", &format!("host{network}"));
    write("sizes.txt", &example("  ```text\n  # bytes").replacen("  cumulative", "# ", 1));
    write(
        "mine.toml",
        "name = \"mine\"\n[topology]\nkind = \"graph\"\ngraph_file = \"net.txt\"\n[workload]\n\
         kind = \"flows\"\nsessions = 20\nlambda = 1000.0\nsizes = { file = \"sizes.txt\" }\n",
    );
    let plan = Plan::read(&folder.path().join("mine.toml")).unwrap();
    let graph = plan.scenarios().unwrap()[0].topology.build().unwrap();
    assert_eq!((graph.hosts(), graph.switches()), (3, 2));
    let smallest = example("```toml\n");
    assert_eq!(Plan::parse(&smallest).unwrap().scenarios().unwrap().len(), 1);
    let burst = example("```toml\nname = \"burst\"\n");
    let plan = Plan::parse(&format!("name = \"burst\"\n{burst}")).unwrap();
    assert_eq!(plan.scenarios().unwrap()[0].events.len(), 2);
}
