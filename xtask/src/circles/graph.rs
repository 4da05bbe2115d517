//! Strongly connected components of a small directed graph.

use std::collections::{BTreeMap, BTreeSet};

/// Sets of nodes that reach each other, of two or more.
pub fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|node| (node.as_str(), reachable(edges, node))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (node, from_here) in &reached {
        if !from_here.contains(node) || found.iter().any(|circle| circle.contains(*node)) {
            continue;
        }
        let back = |other: &&&str| reached.get(**other).is_some_and(|set| set.contains(node));
        found.push(from_here.iter().filter(back).map(|&other| other.to_owned()).collect());
    }
    found.retain(|circle| circle.len() > 1);
    found
}

/// The nodes that a walk of at least one edge from `start` reaches.
fn reachable<'a>(edges: &'a BTreeMap<String, BTreeSet<String>>, start: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = vec![start];
    while let Some(node) = open.pop() {
        for next in edges.get(node).into_iter().flatten() {
            if seen.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in pairs {
            edges.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        circles(&edges).into_iter().map(|circle| circle.into_iter().collect()).collect()
    }

    #[test]
    fn a_chain_has_no_circle_and_a_ring_is_one() {
        assert!(found(&[("a", "b"), ("b", "c"), ("a", "c")]).is_empty());
        assert_eq!(found(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]), [["a", "b", "c"]]);
    }

    #[test]
    fn two_rings_are_two_circles_and_a_node_that_names_itself_is_none() {
        let pairs = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c"), ("e", "e")];
        assert_eq!(found(&pairs), [["a", "b"], ["c", "d"]]);
    }
}
