//! Validation of scenarios.

use super::{
    Background, Beside, Configuration, CongestionKind, FabricKind, OverflowKind, Protocol,
    ProtocolName, Run, Scenario, Sizes, Switch, Tcp, Topology, TopologyKind, Workload, WriteBy,
};
use crate::quantity::{Size, Span};
use core::fmt;
use std::borrow::Cow;
use wellspring_codec::lt::RobustSoliton;
use wellspring_core::Duration;
use wellspring_fabric::Spraying;
use wellspring_sim::WireModel;
use wellspring_sim::topology::Graph;

/// A value that no simulation can be made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// The key.
    pub key: Cow<'static, str>,
    /// Its value.
    pub got: String,
    /// What it can be.
    pub expected: Cow<'static, str>,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but must be {}", self.key, self.got, self.expected)
    }
}

impl core::error::Error for ScenarioError {}

/// The largest network \[hosts\]: k = 128 has half a million.
const MAX_HOSTS: u64 = 1 << 20;
/// The most switches and links of a network: k = 160 has 32,000 and 3 million.
const MAX_SWITCHES: u64 = 1 << 18;
const MAX_LINKS: u64 = 1 << 22;
/// The most memory that tables of routes may take \[bytes\].
const MAX_TABLES: u64 = 1 << 30;
/// The longest simulated time: time is a circle of 213 days.
pub(crate) const MAX_SPAN: Duration = Duration::from_secs(86_400 * 30);
/// The largest transfer \[bytes\].
const MAX_SIZE: u64 = 1 << 40;

type Check = Result<(), ScenarioError>;

/// Paths of a session, at most.
const MAX_PATHS: u16 = 64;

fn must(
    holds: bool,
    key: &'static str,
    got: &dyn fmt::Display,
    expected: impl Into<Cow<'static, str>>,
) -> Check {
    if holds {
        Ok(())
    } else {
        Err(ScenarioError { key: key.into(), got: got.to_string(), expected: expected.into() })
    }
}

fn span(key: &'static str, span: Span) -> Check {
    must(span.0 <= MAX_SPAN, key, &span, "at most 30 days")
}

fn size(key: &'static str, size: Size) -> Check {
    must((1..=MAX_SIZE).contains(&size.0), key, &size, "between 1 byte and 2^40")
}

fn share(key: &'static str, share: f64) -> Check {
    must((0.0..=1.0).contains(&share), key, &share, "between 0 and 1")
}

/// Requests that arrive in the course of a run: each leaves a record of some 100 bytes.
fn count(key: &'static str, count: u32) -> Check {
    must((1..=10_000_000).contains(&count), key, &count, "between 1 and 10,000,000")
}

/// Requests that are all made at the start.
fn few(key: &'static str, count: u32) -> Check {
    must((1..=100_000).contains(&count), key, &count, "between 1 and 100,000")
}

fn rate(key: &'static str, lambda: f64) -> Check {
    must(lambda > 0.0 && lambda <= 1e12, key, &lambda, "above 0 and at most 1e12 a second")
}

impl Scenario {
    /// Whether a simulation can be made of it.
    ///
    /// # Errors
    /// The first value that is out of bounds.
    pub fn check(&self) -> Check {
        self.topology.check()?;
        self.switch.check()?;
        self.protocol.check()?;
        if let Some(beside) = &self.beside {
            beside.check()?;
            self.protocol.check_beside_tcp()?;
        }
        self.check_switches_serve_protocols()?;
        self.workload.check()?;
        self.background.check()?;
        for event in &self.events {
            span("events.at", event.at)?;
        }
        self.run.check()?;
        match self.topology.kind {
            // What a graph's text says shows once it is built.
            TopologyKind::Graph => Ok(()),
            _ => self.check_hosts(self.topology.hosts()),
        }
    }

    /// Whether the switches do what the protocols rely on: without it DCTCP is NewReno, and a receiver
    /// that waits for trimmed headers recovers by timeouts alone.
    fn check_switches_serve_protocols(&self) -> Check {
        let marked =
            |protocol: &Protocol| matches!(protocol.name, ProtocolName::Dctcp | ProtocolName::Pias);
        must(
            self.switch.mark_packets.is_some() || !self.protocols().any(marked),
            "switch.mark_packets",
            &"not set",
            "set for dctcp and pias: without ECN marks they are NewReno",
        )?;
        let expects_trims =
            self.protocol.name.is_coded() && self.protocol.fabric == FabricKind::Trimming;
        must(
            self.switch.overflow == OverflowKind::Trim || !expects_trims,
            "switch.overflow",
            &"drop",
            "trim for scdp and polyraptor, or protocol.fabric must be shared or dedicated",
        )?;
        let Protocol { name, paths, .. } = self.protocol;
        let chosen = matches!(self.switch.spraying(), Spraying::Label | Spraying::Hash);
        let allowed = |paths| (1..=MAX_PATHS).contains(&paths) && (paths == 1 || chosen);
        must(
            paths.is_none_or(|paths| name.is_coded() && allowed(paths)),
            "protocol.paths",
            &paths.unwrap_or(0),
            "for scdp and polyraptor, 1, or up to 64 where switch.spraying is label or hash",
        )?;
        let is_ndp = matches!(name, ProtocolName::Ndp | ProtocolName::NdpPlus);
        let by_group =
            matches!(self.workload, Workload::Storage { write_by: WriteBy::Multicast, .. });
        must(
            is_ndp || name.is_coded() || !by_group,
            "workload.write_by",
            &"multicast",
            "another for protocols that know no groups: TCP and LTTP",
        )?;
        let waits_for_trims = expects_trims
            && self.protocol.configuration == Configuration::Paper
            && self.protocol.gap_threshold.is_none();
        must(
            self.switch.trim_groups || !waits_for_trims,
            "switch.trim_groups",
            &"false",
            "true for a receiver that waits for trimmed headers, or protocol.gap_threshold must be set",
        )
    }

    /// Whether so many hosts are enough for the workload.
    ///
    /// # Errors
    /// They are not.
    pub(crate) fn check_hosts(&self, all: u64) -> Check {
        let Background { fraction, exclusive, storage, .. } = self.background;
        let background = ((fraction * all as f64) as u64).min(all);
        if storage.is_some() && fraction > 0.0 {
            let enough = background > Background::REPLICAS.into();
            let (key, expected) = ("background.fraction", "4 hosts or more for background.storage");
            must(enough, key, &fraction, expected)?;
        }
        let (key, expected) = ("background.fraction", "0, or such that 2 hosts or more run it");
        must(fraction == 0.0 || background >= 2, key, &fraction, expected)?;
        let free = if exclusive { all - background } else { all };
        let enough = |needed: u64, of: &str| {
            let expected = format!("at least {needed}{of}");
            must(free >= needed, "the number of hosts outside the background", &free, expected)
        };
        match &self.workload {
            Workload::Single { from, to, .. } => {
                must(u64::from(*from) < all, "workload.from", from, "a host")?;
                must(u64::from(*to) < all, "workload.to", to, "a host")?;
                must(from != to, "workload.to", to, "another host than workload.from")
            }
            Workload::Trace { matrix } => {
                let last = matrix.last_host();
                must(
                    u64::from(last) < all,
                    "workload.matrix",
                    &format!("host {last}"),
                    "hosts that there are",
                )
            }
            Workload::Storage { replicas, .. } => {
                enough(u64::from(*replicas) + 1, ": a client, and workload.replicas others")
            }
            Workload::Outcast { near, far, .. } => {
                let of = ": two receivers, workload.near, and every third of others workload.far";
                enough(u64::from(*near) + 3 * u64::from(*far), of)
            }
            _ => enough(2, ""),
        }
    }

    /// Whether routes in this network fit in memory, also while something is down.
    ///
    /// # Errors
    /// They do not.
    pub(crate) fn check_tables(&self, graph: &Graph) -> Check {
        if self.topology.kind == TopologyKind::FatTree && self.events.is_empty() {
            return Ok(());
        }
        let len = graph.table_len();
        must(
            len <= MAX_TABLES,
            "the size of the network's routing tables",
            &format!("{len} bytes"),
            "at most 2^30 bytes: the nodes times the switches that have hosts of their own; only \
             a Fat-Tree without events needs no tables",
        )
    }
}

impl Beside {
    fn check(&self) -> Check {
        let Beside { share, protocol } = self;
        let part = *share > 0.0 && *share < 1.0;
        must(part, "beside.share", share, "above 0 and below 1")?;
        let name = protocol.name;
        let tcp = "tcp-newreno, dctcp or pias";
        must(name.is_tcp(), "beside.protocol.name", &name.as_str(), tcp)?;
        let within = |error: ScenarioError| ScenarioError {
            key: format!("beside.{}", error.key).into(),
            ..error
        };
        protocol.check().map_err(within)
    }
}

impl Protocol {
    fn check(&self) -> Check {
        let protocol = self;
        for (key, window) in [
            ("protocol.window", protocol.window),
            ("protocol.window_per_sender", protocol.window_per_sender),
        ] {
            // A byte of SCDP's options.
            must((1..=255).contains(&window), key, &window, "between 1 and 255")?;
        }
        must(
            (33..=200).contains(&protocol.header),
            "protocol.header",
            &protocol.header,
            "between 33 and 200 bytes",
        )?;
        must(
            protocol.packet > u16::from(protocol.header),
            "protocol.packet",
            &protocol.packet,
            "more than protocol.header",
        )?;
        must(
            (1..=56_403).contains(&protocol.block_symbols),
            "protocol.block_symbols",
            &protocol.block_symbols,
            "between 1 and 56,403",
        )?;
        must(protocol.overhead <= 64, "protocol.overhead", &protocol.overhead, "at most 64")?;
        must(protocol.burst > 0, "protocol.burst", &protocol.burst, "1 or more")?;
        if let Some(stragglers) = protocol.stragglers {
            span("protocol.stragglers.silent_for", stragglers.silent_for)?;
            span("protocol.stragglers.patience", stragglers.patience)?;
            span("protocol.stragglers.judge_over", stragglers.judge_over)?;
            must(
                stragglers.judge_over.0 > Duration::ZERO,
                "protocol.stragglers.judge_over",
                &stragglers.judge_over,
                "above 0",
            )?;
            span("protocol.stragglers.unheard_for", stragglers.unheard_for)?;
        }
        must(
            protocol.thresholds.is_sorted() && protocol.thresholds.len() <= 7,
            "protocol.thresholds",
            &format!("{:?}", protocol.thresholds),
            "at most 7 sizes in ascending order",
        )?;
        let lttp = &protocol.lttp;
        let (overhead, parameters) = (lttp.code_overhead, (lttp.c, lttp.delta));
        must(
            (0.0..=1_000.0).contains(&overhead),
            "protocol.lttp.code_overhead",
            &overhead,
            "between 0 and 1,000",
        )?;
        // 4,096 is the most that the codec's tables of the distribution hold.
        let k = protocol.block_symbols.min(4_096);
        must(
            RobustSoliton::new(k, lttp.c, lttp.delta).is_ok(),
            "protocol.lttp.c or protocol.lttp.delta",
            &format!("{parameters:?}"),
            "such that there is a robust soliton distribution",
        )?;
        let ascending = protocol.decode_curve.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let finite =
            protocol.decode_curve.iter().all(|(x, y)| x.is_finite() && (0.0..1e9).contains(y));
        must(
            ascending && finite,
            "protocol.decode_curve",
            &format!("{:?}", protocol.decode_curve),
            "points of ascending symbols, and microseconds from 0 to 10^9",
        )?;
        must(
            protocol.min_timeout.0 > Duration::ZERO,
            "protocol.min_timeout",
            &protocol.min_timeout,
            "above 0",
        )?;
        span("protocol.min_timeout", protocol.min_timeout)?;
        must(
            protocol.congestion == CongestionKind::default()
                || protocol.fabric == FabricKind::Shared,
            "protocol.congestion",
            &protocol.congestion.algorithm(),
            "left out unless `fabric` is shared: the window is fixed",
        )?;
        protocol.tcp.check()
    }

    /// Whether it can share its switches with TCP, for which they drop.
    fn check_beside_tcp(&self) -> Check {
        let is_scdp = matches!(self.name, ProtocolName::Scdp | ProtocolName::Polyraptor);
        let (fits, got) = match self.fabric {
            FabricKind::Shared => (true, "shared"),
            FabricKind::Trimming => (!is_scdp, "trimming"),
            FabricKind::Dedicated => (!is_scdp, "dedicated"),
        };
        let expected = "shared with a TCP beside it: switches drop then, and are not SCDP's alone";
        must(fits, "protocol.fabric", &got, expected)
    }
}

impl Tcp {
    fn check(&self) -> Check {
        if let Some(window) = self.initial_window {
            let key = "protocol.tcp.initial_window";
            must((1..=1_000).contains(&window), key, &window, "between 1 and 1,000")?;
        }
        let window = self.receive_window.0;
        let key = "protocol.tcp.receive_window";
        must((1_000..=1 << 30).contains(&window), key, &window, "between 1 KB and 1 GiB")?;
        for (key, timeout) in [
            ("protocol.tcp.min_timeout", self.min_timeout),
            ("protocol.tcp.initial_timeout", self.initial_timeout),
        ] {
            must(timeout.0 > Duration::ZERO, key, &timeout, "above 0")?;
            let longest = Duration::from_secs(60);
            must(timeout.0 <= longest, key, &timeout, "at most 60 seconds")?;
        }
        if let Some(delay) = self.delayed_ack {
            // RFC 5681 §4.2.
            let most = Duration::from_millis(500);
            must(delay.0 <= most, "protocol.tcp.delayed_ack", &delay, "at most 500 ms")?;
        }
        let gain = self.gain > 0.0 && self.gain <= 1.0;
        must(gain, "protocol.tcp.gain", &self.gain, "above 0 and at most 1")?;
        let key = "protocol.tcp.min_window";
        must((1..=100).contains(&self.min_window), key, &self.min_window, "between 1 and 100")
    }
}

impl Topology {
    /// Number of hosts; 0 for a graph's text.
    pub fn hosts(&self) -> u64 {
        match self.kind {
            TopologyKind::FatTree => self.fat_tree().map_or(0, |tree| {
                u64::from(tree.pods) * u64::from(tree.tors_per_pod) * u64::from(tree.hosts_per_tor)
            }),
            TopologyKind::SingleSwitch => self.hosts.into(),
            TopologyKind::Dumbbell => u64::from(self.hosts) * 2,
            TopologyKind::Graph => 0,
        }
    }

    fn check(&self) -> Check {
        if let Some(shape) = self.shape {
            let sides = shape.sides();
            let fits = sides.iter().all(|side| (1..=4_096).contains(side));
            must(fits, "topology.shape", &format!("{sides:?}"), "numbers from 1 to 4,096")?;
        } else if self.kind == TopologyKind::FatTree {
            let fits = self.k.is_multiple_of(2) && (2..=160).contains(&self.k);
            must(fits, "topology.k", &self.k, "even, and between 2 and 160")?;
        }
        if self.kind != TopologyKind::Graph {
            let hosts = self.hosts();
            let fits = (2..=MAX_HOSTS).contains(&hosts);
            must(fits, "the number of hosts", &hosts, "between 2 and 2^20")?;
        }
        if let Some(shape) = self.shape {
            let [pods, tors, hosts, aggs, cores] = shape.sides().map(u64::from);
            let switches = pods * (tors + aggs) + aggs * cores;
            must(
                switches <= MAX_SWITCHES,
                "the number of switches of topology.shape",
                &switches,
                "at most 2^18",
            )?;
            let links = pods * (tors * (hosts + aggs) + aggs * cores);
            must(
                links <= MAX_LINKS,
                "the number of links of topology.shape",
                &links,
                "at most 2^22",
            )?;
        }
        must(
            self.delay.0 <= Duration::from_secs(10),
            "topology.delay",
            &self.delay,
            "at most 10 seconds",
        )?;
        share("topology.data_loss", self.data_loss)?;
        share("topology.control_loss", self.control_loss)?;
        span("topology.convergence", self.convergence)
    }
}

impl Switch {
    fn check(&self) -> Check {
        must(self.control_weight > 0, "switch.control_weight", &self.control_weight, "above 0")?;
        let Some(len) = self.trim_size else { return Ok(()) };
        let most = u64::from(WireModel::MAX_TRIMMED);
        must(
            len.0 >= 33 && len.0 <= most && (len.0 < 256 || len.0 % 4 == 0),
            "switch.trim_size",
            &len,
            "between 33 and 1,020 bytes, and a multiple of 4 from 256 on",
        )
    }
}

impl Workload {
    fn check(&self) -> Check {
        match self {
            Workload::Permutation { size: bytes } => size("workload.size", *bytes),
            Workload::Single { size: bytes, .. } => size("workload.size", *bytes),
            Workload::Incast { senders, size: bytes, jitter, rounds } => {
                few("workload.senders", *senders)?;
                few("workload.rounds", *rounds)?;
                let all = senders.saturating_mul(*rounds);
                count("workload.senders times workload.rounds", all)?;
                span("workload.jitter", *jitter)?;
                size("workload.size", *bytes)
            }
            Workload::Outcast { near, far, size: bytes, jitter } => {
                few("workload.near", *near)?;
                few("workload.far", *far)?;
                span("workload.jitter", *jitter)?;
                size("workload.size", *bytes)
            }
            Workload::Convergence { flows, interval, duration } => {
                few("workload.flows", *flows)?;
                span("workload.interval", *interval)?;
                must(duration.0 > Duration::ZERO, "workload.duration", duration, "above 0")?;
                span("workload.duration", *duration)
            }
            Workload::Flows { sessions, lambda, sizes } => {
                count("workload.sessions", *sessions)?;
                rate("workload.lambda", *lambda)?;
                sizes.check()
            }
            Workload::Trace { matrix } => {
                count("the flows of workload.matrix", matrix.flows.len() as u32)?;
                matrix.flows.iter().try_for_each(|flow| size("workload.matrix", Size(flow.bytes)))
            }
            Workload::Storage {
                sessions, lambda, size: bytes, replicas, writes, quorum, ..
            } => {
                let asked = quorum.unwrap_or(*replicas);
                must(
                    (1..=*replicas).contains(&asked),
                    "workload.quorum",
                    &asked,
                    "between 1 and workload.replicas",
                )?;
                count("workload.sessions", *sessions)?;
                rate("workload.lambda", *lambda)?;
                size("workload.size", *bytes)?;
                share("workload.writes", *writes)?;
                // A byte of SCDP's options.
                must((1..=64).contains(replicas), "workload.replicas", replicas, "between 1 and 64")
            }
        }
    }
}

impl Sizes {
    fn check(&self) -> Check {
        match self {
            Sizes::Fixed(bytes) => size("workload.sizes.fixed", *bytes),
            Sizes::Points(points) => {
                let rising = points.windows(2).all(|p| p[0].0 <= p[1].0 && p[0].1 <= p[1].1);
                let last = points.last().copied().unwrap_or_default();
                let bounded = points.iter().all(|p| p.0 >= 0.0 && p.1 >= 0.0);
                must(
                    rising && bounded && last.1 == 1.0 && last.0 <= MAX_SIZE as f64,
                    "workload.sizes.points",
                    &format!("{points:?}"),
                    "rising bytes and cumulative probabilities, the last of which is 1",
                )
            }
            _ => Ok(()),
        }
    }
}

impl Background {
    fn check(&self) -> Check {
        share("background.fraction", self.fraction)?;
        if let Some(bytes) = self.storage {
            size("background.storage", bytes)?;
        }
        span("background.warmup", self.warmup)
    }
}

impl Run {
    fn check(&self) -> Check {
        must(!self.seeds.is_empty(), "run.seeds", &"empty", "one seed at least")?;
        span("run.limit", self.limit)?;
        span("run.patience", self.patience)?;
        let often = |sample: Span| sample.0 >= Duration::from_nanos(100);
        if let Some(sample) = self.sample {
            span("run.sample", sample)?;
            must(often(sample), "run.sample", &sample, "at least 100 ns")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Plan;

    fn refused(lines: &str, key: &str) {
        let text = format!("name = \"x\"\n{lines}");
        let error = Plan::parse(&text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(key), "{lines}: {error}");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let single = "[workload]\nkind = \"single\"\nfrom = 0\nto = 1\nsize = \"1MB\"\n";
        for (lines, key) in [
            ("[topology]\nk = 3\n", "topology.k"),
            ("[topology]\nk = 4294967294\n", "topology.k"),
            ("[topology]\nkind = \"single-switch\"\nhosts = 1\n", "number of hosts"),
            ("[topology]\ndelay = \"1e9s\"\n", "topology.delay"),
            (
                "[topology.shape]\npods = 4000\ntors_per_pod = 4000\nhosts_per_tor = 4000\n\
                 aggs_per_pod = 1\ncores_per_agg = 1\n",
                "number of hosts",
            ),
            ("[protocol]\nwindow = 0\n", "protocol.window"),
            ("[protocol]\npacket = 60\n", "protocol.packet"),
            ("[protocol]\nburst = 0\n", "protocol.burst"),
            ("[protocol]\ncongestion = \"cubic\"\n", "protocol.congestion"),
            ("[protocol]\nthresholds = [\"1MB\", \"1KB\"]\n", "protocol.thresholds"),
            ("[protocol]\ntcp = { initial_window = 0 }\n", "protocol.tcp.initial_window"),
            ("[protocol]\ntcp = { receive_window = \"1B\" }\n", "protocol.tcp.receive_window"),
            ("[protocol]\ntcp = { min_timeout = \"0s\" }\n", "protocol.tcp.min_timeout"),
            ("[protocol]\ntcp = { delayed_ack = \"1s\" }\n", "protocol.tcp.delayed_ack"),
            ("[protocol]\ntcp = { gain = 0.0 }\n", "protocol.tcp.gain"),
            ("[protocol]\ntcp = { min_window = 0 }\n", "protocol.tcp.min_window"),
            ("[background]\nfraction = 1.5\n", "background.fraction"),
            ("[background]\nfraction = nan\n", "background.fraction"),
            ("[run]\nseeds = []\n", "run.seeds"),
            ("[run]\nlimit = \"1e9s\"\n", "run.limit"),
            ("[run]\nsample = \"1ps\"\n", "run.sample"),
        ] {
            refused(&format!("{lines}{single}"), key);
        }
        for (lines, key) in [
            ("[protocol]\nname = \"dctcp\"\n", "switch.mark_packets"),
            ("[protocol]\nname = \"pias\"\n", "switch.mark_packets"),
            (
                "[beside]\nshare = 0.5\nprotocol = { name = \"dctcp\" }\n[protocol]\nname = \"ndp\"\n",
                "switch.mark_packets",
            ),
            ("[switch]\noverflow = \"drop\"\n", "switch.overflow"),
            (
                "[protocol]\nname = \"polyraptor\"\n[switch]\noverflow = \"drop\"\n",
                "switch.overflow",
            ),
        ] {
            refused(&format!("{lines}{single}"), key);
        }
        for lines in [
            "[protocol]\nname = \"dctcp\"\n[switch]\nmark_packets = 10\n",
            "[protocol]\nfabric = \"shared\"\n[switch]\noverflow = \"drop\"\n",
            "[protocol]\nname = \"ndp\"\n[switch]\noverflow = \"drop\"\n",
        ] {
            Plan::parse(&format!("name = \"x\"\n{lines}{single}")).unwrap();
        }
        let storage = "[background]\nfraction = 0.01\nstorage = \"4MB\"\n";
        refused(&format!("{storage}{single}"), "background.fraction");
        refused(&single.replace("to = 1", "to = 250"), "workload.to");
        refused(&single.replace("to = 1", "to = 0"), "workload.to");
        refused(&single.replace("1MB", "0B"), "workload.size");
        let flows = "[workload]\nkind = \"flows\"\nsessions = 1\n";
        refused(&format!("{flows}lambda = 0.0\nsizes = \"web-search\""), "workload.lambda");
        for points in ["[]", "[[5.0, 0.5]]", "[[5.0, 0.5], [1.0, 1.0]]"] {
            let text = format!("{flows}lambda = 1.0\nsizes = {{ points = {points} }}");
            refused(&text, "workload.sizes.points");
        }
    }
}
