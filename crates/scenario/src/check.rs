//! Validation of scenarios.

use super::bounds::{Check, MAX_SIZE, count, few, must, rate, share, size, span};
use super::{
    Background, Configuration, FabricKind, OverflowKind, Protocol, ProtocolName, Run, Scenario,
    Sizes, Switch, Topology, TopologyKind, Workload, WriteBy,
};
use crate::quantity::{Size, Span};
use wellspring_core::Duration;
use wellspring_fabric::Spraying;
use wellspring_sim::WireModel;
use wellspring_sim::topology::Graph;

/// The largest network \[hosts\]: k = 128 has half a million.
const MAX_HOSTS: u64 = 1 << 20;
/// The most switches and links of a network: k = 160 has 32,000 and 3 million.
const MAX_SWITCHES: u64 = 1 << 18;
const MAX_LINKS: u64 = 1 << 22;
/// The most memory that tables of routes may take \[bytes\].
const MAX_TABLES: u64 = 1 << 30;

/// Paths of a session, at most.
const MAX_PATHS: u16 = 64;

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
        self.check_long_link()?;
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
        self.check_marks()?;
        self.check_drops()?;
        let expects_trims =
            self.protocol.name.is_coded() && self.protocol.fabric == FabricKind::Trimming;
        must(
            self.switch.overflow == OverflowKind::Trim || !expects_trims,
            "switch.overflow",
            &"drop",
            "trim for scdp and polyraptor, or protocol.fabric must be shared or dedicated",
        )?;
        let Protocol { name, paths, keys, .. } = self.protocol;
        let left = u64::from(self.protocol.trimmed_header());
        must(
            !keys || self.switch.trim_size.is_none_or(|size| size.0 >= left),
            "switch.trim_size",
            &self.switch.trim_size.unwrap_or(Size(0)),
            "8 bytes more than protocol.header, or more: with protocol.keys the header's tag must be left",
        )?;
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
    pub fn check_hosts(&self, all: u64) -> Check {
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
    pub fn check_tables(&self, graph: &Graph) -> Check {
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

impl Topology {
    /// Number of hosts; 0 for a graph's text.
    pub fn hosts(&self) -> u64 {
        match self.kind {
            TopologyKind::FatTree => self.fat_tree().map_or(0, |tree| {
                u64::from(tree.pods) * u64::from(tree.tors_per_pod) * u64::from(tree.hosts_per_tor)
            }),
            TopologyKind::SingleSwitch => self.hosts.into(),
            TopologyKind::Dumbbell => u64::from(self.hosts) * 2,
            TopologyKind::LongLink => 2,
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
        self.check_links()?;
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
    use crate::Plan;

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
            ("[protocol]\nname = \"tcp-newreno\"\nkeys = true\n", "protocol.keys"),
            ("[protocol]\npacket = 90\nkeys = true\n", "protocol.packet"),
            ("[switch]\ntrim_size = \"71B\"\n[protocol]\nkeys = true\n", "switch.trim_size"),
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
