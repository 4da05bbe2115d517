//! Traffic traces, in the format of htsim's connection matrices.
//!
//! ```text
//! Nodes 16
//! 0->1 id 1 start 0 size 2000000 send_done_trigger 1
//! 1->2 id 2 trigger 1 size 2000000
//! trigger id 1 oneshot
//! ```
//!
//! Starts are picoseconds, sizes bytes. A trigger fires when flows that name it end, at their sender or receiver: here both
//! are the moment at which the receiver has everything. `oneshot` starts its flows at the first of these ends, `multishot`
//! one flow at each, `barrier` all of them behind `count` ends.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wellspring_core::Duration;

/// Flows, and what starts them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Trace {
    text: String,
    /// In the order of the file.
    pub flows: Vec<TraceFlow>,
    triggers: BTreeMap<u32, Trigger>,
}

/// A flow of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceFlow {
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// Size \[bytes\], 1 or more.
    pub bytes: u64,
    /// When it starts; `None` for one that a trigger starts.
    pub start: Option<Duration>,
    /// Triggers that fire when it ends.
    fires: Vec<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Trigger {
    /// The flows that it starts, in the order of the file.
    flows: VecDeque<u32>,
    kind: Option<Kind>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    OneShot,
    MultiShot,
    Barrier(u32),
}

impl Trigger {
    /// The flows that start when another flow that fires it has ended.
    fn fire(&mut self) -> Vec<u32> {
        match &mut self.kind {
            Some(Kind::MultiShot) => self.flows.pop_front().into_iter().collect(),
            Some(Kind::Barrier(left)) if *left > 1 => {
                *left -= 1;
                Vec::new()
            }
            _ => self.flows.drain(..).collect(),
        }
    }
}

impl Trace {
    /// Reads a connection matrix.
    ///
    /// # Errors
    /// The line that is none, or what is missing.
    pub fn parse(text: &str) -> Result<Trace> {
        let mut trace =
            Trace { text: text.to_owned(), flows: Vec::new(), triggers: BTreeMap::new() };
        // Counts before the flows: `Nodes`, `Connections`, `Triggers`.
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let parsed = match words.as_slice() {
                [] => Ok(()),
                [first, ..] if first.starts_with('#') => Ok(()),
                [of @ ("Nodes" | "Connections" | "Triggers"), count] => {
                    integer(count).and_then(|count| once(of, counts.insert(*of, count).is_none()))
                }
                ["Failures", "0"] => Ok(()),
                ["trigger", rest @ ..] => trace.trigger(rest),
                [pair, rest @ ..] if pair.contains("->") => trace.flow(pair, rest),
                _ => Err(anyhow::anyhow!("`{line}` is neither a flow nor a trigger")),
            };
            parsed.with_context(|| format!("line {} of the connection matrix", number + 1))?;
        }
        ensure!(
            !trace.flows.is_empty(),
            "the connection matrix has no flow: SOURCE->DESTINATION start ... size ..."
        );
        if let Some(nodes) = counts.get("Nodes") {
            let last = trace.last_host();
            ensure!(
                last < *nodes,
                "the connection matrix names host {last}, but has {nodes} nodes"
            );
        }
        let triggers = trace.triggers.values().filter(|trigger| trigger.kind.is_some()).count();
        for (of, has) in [("Connections", trace.flows.len()), ("Triggers", triggers)] {
            let said = counts.get(of).map_or(has, |count| *count as usize);
            ensure!(
                said == has,
                "the connection matrix has {has} lines of them, but says `{of} {said}`: is it whole?"
            );
        }
        trace.check_triggers()?;
        Ok(trace)
    }

    /// The highest number of a host.
    pub fn last_host(&self) -> u32 {
        self.flows.iter().map(|flow| flow.from.max(flow.to)).max().unwrap_or(0)
    }

    /// A flow has ended: those that start now.
    pub fn ended(&mut self, flow: u32) -> Vec<u32> {
        let fires =
            self.flows.get(flow as usize).map(|flow| flow.fires.clone()).unwrap_or_default();
        let fired = fires.iter().filter_map(|id| self.triggers.get_mut(id).map(Trigger::fire));
        fired.flatten().collect()
    }

    /// Whether flows wait for others to end.
    pub fn awaits(&self) -> bool {
        self.triggers.values().any(|trigger| !trigger.flows.is_empty())
    }

    fn flow(&mut self, pair: &str, words: &[&str]) -> Result<()> {
        let (from, to) = pair.split_once("->").context("SOURCE->DESTINATION")?;
        let (from, to) = (host(from)?, host(to)?);
        ensure!(from != to, "a flow from host {from} to itself");
        let number = self.flows.len() as u32;
        let mut flow = TraceFlow { from, to, bytes: 0, start: None, fires: Vec::new() };
        let mut trigger = None;
        let mut seen = BTreeSet::new();
        for pair in words.chunks(2) {
            let [key, value] = pair else { bail!("`{}` without a value", pair[0]) };
            once(key, seen.insert(*key))?;
            match *key {
                "id" => {}
                "size" => flow.bytes = integer(value)?,
                "start" => flow.start = Some(start(value)?),
                "trigger" => trigger = Some(integer(value)?),
                "send_done_trigger" | "recv_done_trigger" => flow.fires.push(integer(value)?),
                _ => bail!(
                    "`{key}` is not known: id, start, size, trigger, send_done_trigger, recv_done_trigger"
                ),
            }
        }
        ensure!(
            flow.bytes > 0,
            "a size above 0 is needed: flows without an end are `kind = \"convergence\"`"
        );
        match (flow.start, trigger) {
            (Some(_), None) => {}
            (None, Some(id)) => self.triggers.entry(id).or_default().flows.push_back(number),
            (None, None) => bail!("neither a start nor a trigger"),
            (Some(_), Some(_)) => bail!("both a start and a trigger"),
        }
        self.flows.push(flow);
        Ok(())
    }

    fn trigger(&mut self, words: &[&str]) -> Result<()> {
        let (mut id, mut count, mut kind) = (None, None, None);
        let mut words = words.iter();
        let mut seen = BTreeSet::new();
        while let Some(word) = words.next() {
            once(word, seen.insert(*word))?;
            match *word {
                "id" => id = Some(integer(words.next().context("id without a value")?)?),
                "count" => count = Some(integer(words.next().context("count without a value")?)?),
                "oneshot" | "multishot" | "barrier" if kind.is_some() => {
                    bail!("one of oneshot, multishot and barrier, not `{word}` too")
                }
                "oneshot" => kind = Some(Kind::OneShot),
                "multishot" => kind = Some(Kind::MultiShot),
                "barrier" => kind = Some(Kind::Barrier(1)),
                _ => bail!("`{word}` is not known: id, count, oneshot, multishot, barrier"),
            }
        }
        let kind = match kind.context("oneshot, multishot or barrier")? {
            Kind::Barrier(_) => Kind::Barrier(count.context("a barrier needs a count")?),
            kind => kind,
        };
        let trigger = self.triggers.entry(id.context("a trigger without an id")?).or_default();
        ensure!(trigger.kind.replace(kind).is_none(), "a trigger is there twice");
        Ok(())
    }

    /// Every flow starts at some time, if all that start end.
    fn check_triggers(&self) -> Result<()> {
        let named = self.flows.iter().flat_map(|flow| &flow.fires);
        for id in self.triggers.keys().chain(named) {
            let known = self.triggers.get(id).is_some_and(|trigger| trigger.kind.is_some());
            ensure!(known, "trigger {id} is named, but there is no line `trigger id {id} ...`");
        }
        let mut trial = self.clone();
        let starts = self.flows.iter().enumerate().filter(|(_, flow)| flow.start.is_some());
        let mut under_way: Vec<u32> = starts.map(|(number, _)| number as u32).collect();
        while let Some(flow) = under_way.pop() {
            under_way.extend(trial.ended(flow));
        }
        ensure!(
            !trial.awaits(),
            "some flows of the connection matrix never start: nothing fires their triggers"
        );
        Ok(())
    }
}

impl TryFrom<String> for Trace {
    type Error = String;

    fn try_from(text: String) -> Result<Trace, String> {
        Trace::parse(&text).map_err(|error| format!("{error:#}"))
    }
}

impl From<Trace> for String {
    fn from(trace: Trace) -> String {
        trace.text
    }
}

/// What is said twice has no last word.
fn once(what: &str, is_first: bool) -> Result<()> {
    ensure!(is_first, "`{what}` is given twice");
    Ok(())
}

fn host(text: &str) -> Result<u32> {
    text.parse().with_context(|| format!("`{text}` is no host number"))
}

fn integer<T: core::str::FromStr>(text: &str) -> Result<T> {
    text.parse().ok().with_context(|| format!("`{text}` is no whole number in range"))
}

/// Picoseconds, which htsim's tools also write with a fraction or an exponent.
fn start(text: &str) -> Result<Duration> {
    let picos: f64 =
        text.parse().ok().with_context(|| format!("`{text}` is no time in picoseconds"))?;
    ensure!((0.0..1e18).contains(&picos), "a start between 0 and 10^18 picoseconds, not {text}");
    Ok(Duration::from_picos(picos as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: &str = "# three in a row, and two behind all of them\nNodes 6\nConnections 5\nTriggers 3\n\
        0->1 id 1 start 1e6 size 1000 send_done_trigger 1\n\
        1->2 id 2 trigger 1 size 2000 recv_done_trigger 2\n\
        2->3 id 3 start 0 size 3000 send_done_trigger 2\n\
        3->4 id 4 trigger 2 size 4000 send_done_trigger 3\n\
        4->5 id 5 trigger 3 size 5000\n\
        trigger id 1 oneshot\ntrigger id 2 barrier count 2\ntrigger id 3 multishot\n";

    #[test]
    fn triggers_start_what_waits_for_them() {
        let mut trace = Trace::parse(CHAIN).unwrap();
        let sizes: Vec<u64> = trace.flows.iter().map(|flow| flow.bytes).collect();
        assert_eq!(sizes, [1_000, 2_000, 3_000, 4_000, 5_000]);
        let starts: Vec<_> =
            trace.flows.iter().map(|flow| flow.start.map(Duration::as_picos)).collect();
        assert_eq!(starts, [Some(1_000_000), None, Some(0), None, None]);
        assert_eq!(trace.ended(2), [0_u32; 0], "a barrier of two");
        assert_eq!(trace.ended(0), [1]);
        assert_eq!(trace.ended(0), [0_u32; 0], "once");
        assert!(trace.awaits());
        assert_eq!(trace.ended(1), [3]);
        assert_eq!(trace.ended(3), [4]);
        assert!(!trace.awaits());
    }

    #[test]
    fn what_is_no_connection_matrix_is_refused_with_its_line() {
        for (text, why) in [
            ("", "no flow"),
            ("Nodes 2\n0->2 start 0 size 1", "2 nodes"),
            ("0->1 start 0 size 0", "above 0"),
            ("0->1 start 0", "above 0"),
            ("0->1 size 5", "neither a start nor a trigger"),
            ("0->1 start 0 trigger 1 size 5", "both"),
            ("0->1 start -4 size 5", "between 0"),
            ("0->1 start 0 size 5 prio 3", "`prio` is not known"),
            ("0->0 start 0 size 5", "itself"),
            ("0->1 start 0 size 5 send_done_trigger 7", "trigger 7"),
            ("0->1 trigger 7 size 5\ntrigger id 7 oneshot", "never start"),
            ("0->1 start 0 size 5\ntrigger id 7 barrier", "count"),
            ("0->1 start 0 size 5\nFailures 3", "neither a flow"),
            ("a->1 start 0 size 5", "`a` is no host"),
            ("Connections 7\n0->1 start 0 size 5", "says `Connections 7`"),
            ("Connections x\n0->1 start 0 size 5", "no whole number"),
            ("Triggers 1\n0->1 start 0 size 5", "says `Triggers 1`"),
            ("Nodes 2\nNodes 3\n0->1 start 0 size 5", "`Nodes` is given twice"),
            ("0->1 start 0 size 1000 size 2000", "`size` is given twice"),
            ("0->1 start 0 size 5 start 9", "`start` is given twice"),
            ("trigger id 1 id 2 oneshot", "`id` is given twice"),
            ("trigger id 1 oneshot multishot", "not `multishot` too"),
        ] {
            let error = format!("{:#}", Trace::parse(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
