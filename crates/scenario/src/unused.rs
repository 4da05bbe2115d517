//! Keys that have no effect in a scenario: they are refused, as its results would be recorded under them.

use super::bounds::{Check, ScenarioError, must};
use super::{Topology, TopologyKind};
use toml::{Table, Value};

/// A table, a key of it, the key that it has no effect without, and what that must be.
const NEEDS: [[&str; 4]; 3] = [
    ["topology", "hosts", "kind", "single-switch or dumbbell"],
    ["topology", "graph", "kind", "graph"],
    ["background", "storage", "fraction", "the share of the hosts that write and read"],
];

/// Whether a scenario's tables give what each key needs.
///
/// # Errors
/// The first key that has no effect.
pub(super) fn check_needs(scenario: &Table) -> Check {
    for [table, key, other, what] in NEEDS {
        let Some(Value::Table(keys)) = scenario.get(table) else { continue };
        if keys.contains_key(key) && !keys.contains_key(other) {
            return Err(ScenarioError {
                key: format!("{table}.{other}").into(),
                got: "not given".to_owned(),
                expected: format!(
                    "{what}, or {table}.{key} has no effect: set it, or leave that out"
                )
                .into(),
            });
        }
    }
    Ok(())
}

impl Topology {
    /// Whether a graph is of that kind, and all that is set of links applies to those of its kind.
    ///
    /// # Errors
    /// The first key that does not.
    pub(super) fn check_links(&self) -> Check {
        let is_graph = self.kind == TopologyKind::Graph;
        let expected = "graph, or topology.graph must be left out";
        must(is_graph || self.graph.is_empty(), "topology.kind", &"another", expected)?;
        if self.kind == TopologyKind::SingleSwitch {
            let expected = "left out for a single switch, whose links all have topology.rate";
            return unset("topology.uplink_rate", self.uplink_rate.as_ref(), expected);
        }
        if !is_graph {
            return Ok(());
        }
        let default = Topology::default();
        let of_graph = "left out for kind graph, where each link has its own in the graph's text";
        unset("topology.uplink_rate", self.uplink_rate.as_ref(), of_graph)?;
        must(self.rate == default.rate, "topology.rate", &self.rate, of_graph)?;
        must(self.delay == default.delay, "topology.delay", &self.delay, of_graph)
    }
}

fn unset(
    key: &'static str,
    value: Option<&impl core::fmt::Display>,
    expected: &'static str,
) -> Check {
    value.map_or(Ok(()), |value| must(false, key, value, expected))
}

#[cfg(test)]
mod tests {
    use crate::Plan;

    const SINGLE: &str = "[workload]\nkind = \"single\"\nfrom = 0\nto = 1\nsize = \"1MB\"\n";
    const GRAPH: &str =
        "[topology]\nkind = \"graph\"\ngraph = \"host a b\\nlink a b 1Gbit/s 1us\"\n";

    fn refused(lines: &str) -> Option<String> {
        let plan = Plan::parse(&format!("name = \"x\"\n{lines}{SINGLE}"));
        plan.err().map(|error| error.to_string())
    }

    #[test]
    fn what_has_no_effect_is_refused_by_name() {
        let graph = |line: &str| format!("{GRAPH}{line}\n");
        for (lines, key) in [
            ("[topology]\nhosts = 2\n".to_owned(), "topology.kind is not given"),
            ("[topology]\ngraph = \"host a b\"\n".to_owned(), "topology.kind is not given"),
            ("[background]\nstorage = \"4MB\"\n".to_owned(), "background.fraction is not given"),
            (GRAPH.replace("\"graph\"", "\"single-switch\""), "topology.kind is another"),
            (graph("delay = \"1us\""), "topology.delay"),
            (graph("rate = \"10Gbit/s\""), "topology.rate"),
            (graph("uplink_rate = \"10Gbit/s\""), "topology.uplink_rate"),
            (
                "[topology]\nkind = \"single-switch\"\nuplink_rate = \"10Gbit/s\"\n".to_owned(),
                "topology.uplink_rate",
            ),
        ] {
            let error = refused(&lines).unwrap_or_default();
            assert!(error.starts_with(key), "{lines}: {error}");
        }
    }

    #[test]
    fn kinds_are_swept_with_the_keys_of_each() {
        let swept = "[sweep]\n\"topology.kind\" = [\"fat-tree\", \"single-switch\"]\n";
        assert_eq!(refused(&format!("[topology]\nk = 4\nhosts = 9\n{swept}")), None);
        assert_eq!(refused("[background]\nfraction = 0.0\nstorage = \"4MB\"\n"), None);
        assert_eq!(refused(GRAPH), None);
    }

    /// As a worker is sent it: with every key.
    #[test]
    fn a_scenario_in_full_is_read_again() {
        for lines in ["", GRAPH, "[topology]\nkind = \"single-switch\"\n"] {
            let plan = Plan::parse(&format!("name = \"x\"\n{lines}{SINGLE}")).unwrap();
            let scenario = plan.scenarios().unwrap().remove(0);
            let again = Plan::parse(&toml::to_string(&scenario).unwrap()).unwrap();
            assert_eq!(again.scenarios().unwrap(), [scenario]);
        }
    }
}
