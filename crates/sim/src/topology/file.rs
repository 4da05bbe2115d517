//! Networks from text.

use super::graph::{Graph, Link, NodeId};
use crate::units::{parse_duration, parse_rate};
use core::fmt;
use std::collections::BTreeMap;
use wellspring_core::Duration;

/// The longest link.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// Links of a host: each has its own trees of a multicast group, numbered in 16 bits.
const MAX_HOST_LINKS: u32 = 1_024;

/// A line that is no part of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl core::error::Error for GraphError {}

impl Graph {
    /// Reads a network, one item a line, `#` before comments:
    ///
    /// ```text
    /// host   NAME ...
    /// switch NAME ...
    /// link   NAME NAME RATE DELAY [REVERSE-RATE]     # link h1 s1 1Gbit/s 10us
    /// ```
    ///
    /// Hosts and switches are numbered in the order they appear. A host with several links is
    /// multi-homed: it sends over those that lead to the destination, in turn. Hosts do not forward
    /// for others: a link between two hosts is for these two.
    ///
    /// # Errors
    /// The first line that cannot be understood.
    pub fn parse(text: &str) -> Result<Graph, GraphError> {
        let lines = text.lines().enumerate().map(|(index, line)| {
            let content = line.split('#').next().unwrap_or_default();
            (index + 1, content.split_whitespace().collect::<Vec<_>>())
        });
        let lines: Vec<_> = lines.filter(|(_, words)| !words.is_empty()).collect();
        let mut names: BTreeMap<&str, (bool, u32)> = BTreeMap::new();
        let mut counts = [0_u32; 2];
        for (line, words) in &lines {
            let is_switch = match words[0] {
                "host" => false,
                "switch" => true,
                "link" => continue,
                other => return Err(error(*line, format!("`{other}` is no host, switch or link"))),
            };
            for &name in &words[1..] {
                let count = &mut counts[usize::from(is_switch)];
                if names.insert(name, (is_switch, *count)).is_some() {
                    return Err(error(*line, format!("`{name}` is there twice")));
                }
                *count += 1;
            }
        }
        let mut graph = Graph::new(counts[0], counts[1]);
        graph.names = names
            .iter()
            .map(|(name, (is_switch, index))| {
                let first = if *is_switch { counts[0] } else { 0 };
                ((*name).to_owned(), NodeId(first + index))
            })
            .collect();
        let mut host_links = vec![0_u32; counts[0] as usize];
        for (line, words) in lines.iter().filter(|(_, words)| words[0] == "link") {
            let link = parse_link(*line, words, &names, counts[0])?;
            for end in [link.a, link.b] {
                let Some(count) = host_links.get_mut(end.0 as usize) else { continue };
                *count += 1;
                if *count > MAX_HOST_LINKS {
                    return Err(error(*line, format!("a host has at most {MAX_HOST_LINKS} links")));
                }
            }
            graph.add_link(link);
        }
        Ok(graph)
    }
}

fn parse_link(
    line: usize,
    words: &[&str],
    names: &BTreeMap<&str, (bool, u32)>,
    hosts: u32,
) -> Result<Link, GraphError> {
    let &[_, a, b, rate, delay, ref reverse @ ..] = words else {
        return Err(error(line, "a link needs two ends, a rate and a delay".into()));
    };
    let node = |name: &str| match names.get(name) {
        Some((false, index)) => Ok(NodeId(*index)),
        Some((true, index)) => Ok(NodeId(hosts + index)),
        None => Err(error(line, format!("`{name}` is no host or switch"))),
    };
    let (a, b) = (node(a)?, node(b)?);
    if a == b {
        return Err(error(line, "a link from a node to itself".into()));
    }
    let rate = parse_rate(rate).map_err(|e| error(line, e.to_string()))?;
    let delay = parse_duration(delay).map_err(|e| error(line, e.to_string()))?;
    if delay > MAX_DELAY {
        return Err(error(line, format!("a link's delay is at most 10 s, not {delay}")));
    }
    let reverse_rate = match reverse {
        [] => rate,
        [rate] => parse_rate(rate).map_err(|e| error(line, e.to_string()))?,
        _ => return Err(error(line, "too many words".into())),
    };
    Ok(Link { a, b, rate, reverse_rate, delay })
}

fn error(line: usize, message: String) -> GraphError {
    GraphError { line, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_a_network() {
        let text = "# two hosts\nhost a b\nswitch s\nlink a s 1Gbit/s 10us\n\
                    link b s 10Gbps 1us 1Gbps # asymmetric\n";
        let graph = Graph::parse(text).unwrap();
        assert_eq!((graph.hosts(), graph.switches(), graph.links().len()), (2, 1, 2));
        assert_eq!(graph.links()[1].a, NodeId(1));
        assert_ne!(graph.links()[1].rate, graph.links()[1].reverse_rate);
        assert_eq!((graph.node("s"), graph.node("switch0")), (Some(NodeId(2)), Some(NodeId(2))));
        assert_eq!(
            (graph.node("b"), graph.node("c"), graph.node("host2")),
            (Some(NodeId(1)), None, None)
        );
    }

    #[test]
    fn errors_name_their_line() {
        for text in
            ["host a\nrouter b", "host a a", "host a\nlink a b 1Gbps 1us", "host a\nlink a a 1Gbps"]
        {
            let line = Graph::parse(text).unwrap_err().line;
            assert_eq!(line, text.lines().count(), "{text}");
        }
    }
}
