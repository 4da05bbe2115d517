//! Scenario files.

use crate::quantity::{BitRate, Size, Span};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use wellspring_core::{Duration, Rate};
use wellspring_fabric::{ControlQueue, Limit, Overflow, PortConfig, Sharing, Spraying, Victim};
use wellspring_sim::topology::{FatTree, Graph, dumbbell, single_switch};

/// One experiment: a network, a protocol, a workload.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name: the paper's figure, as a rule.
    pub name: String,
    /// What it shows, in a line.
    #[serde(default)]
    pub about: String,
    /// The network.
    #[serde(default)]
    pub topology: Topology,
    /// Every switch port.
    #[serde(default)]
    pub switch: Switch,
    /// The protocol of all hosts.
    #[serde(default)]
    pub protocol: Protocol,
    /// What is measured.
    pub workload: Workload,
    /// What else goes on.
    #[serde(default)]
    pub background: Background,
    /// How often and how long.
    #[serde(default)]
    pub run: Run,
}

/// The network.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Topology {
    /// Which one.
    pub kind: TopologyKind,
    /// k of a k-ary Fat-Tree.
    pub k: u32,
    /// Hosts of a single switch, pairs of a dumbbell.
    pub hosts: u32,
    /// Rate of host links.
    pub rate: BitRate,
    /// Rate of the other links; that of host links if not given.
    pub uplink_rate: Option<BitRate>,
    /// Propagation delay of every link (SCDP §V: 10 us; its curves imply 5 us or less).
    pub delay: Span,
    /// Text of a network (see `Graph::parse`), for kind `graph`.
    pub graph: String,
}

/// Kinds of networks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyKind {
    /// k-ary Fat-Tree.
    FatTree,
    /// All hosts on one switch.
    SingleSwitch,
    /// Pairs across one bottleneck link.
    Dumbbell,
    /// From text.
    Graph,
}

impl Default for Topology {
    fn default() -> Self {
        Topology {
            kind: TopologyKind::FatTree,
            k: 10,
            hosts: 2,
            rate: BitRate(Rate::from_mbps(1_000)),
            uplink_rate: None,
            delay: Span(Duration::from_micros(10)),
            graph: String::new(),
        }
    }
}

impl Topology {
    /// The Fat-Tree's shape, if it is one.
    pub fn fat_tree(&self) -> Option<FatTree> {
        (self.kind == TopologyKind::FatTree).then(|| FatTree::k_ary(self.k))
    }

    /// The network.
    ///
    /// # Errors
    /// The text of a network cannot be read.
    pub fn build(&self) -> Result<Graph> {
        let (rate, delay) = (self.rate.0, self.delay.0);
        let uplink = self.uplink_rate.map_or(rate, |rate| rate.0);
        Ok(match self.kind {
            TopologyKind::FatTree => FatTree::k_ary(self.k).build(rate, uplink, delay),
            TopologyKind::SingleSwitch => single_switch(self.hosts, rate, delay),
            TopologyKind::Dumbbell => dumbbell(self.hosts, rate, delay, uplink, delay),
            TopologyKind::Graph => Graph::parse(&self.graph).context("topology.graph")?,
        })
    }
}

/// Every switch port.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    /// Data packets a port holds (SCDP §V: 20).
    pub buffer_packets: u32,
    /// Limit in bytes instead.
    pub buffer: Option<Size>,
    /// Whether each class has that limit for itself.
    pub split: bool,
    /// Which packet is trimmed.
    pub victim: VictimKind,
    /// Control packets for one data packet while both wait.
    pub control_weight: u32,
    /// Control packets a port holds; unlimited if not given.
    pub control_packets: Option<u32>,
    /// How packets choose among equal paths.
    pub spraying: SprayingKind,
}

/// See [`Victim`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the same as in the fabric")]
pub enum VictimKind {
    Arriving,
    ArrivingOrLast,
    LowestClass,
}

/// See [`Spraying`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the same as in the fabric")]
pub enum SprayingKind {
    Random,
    Label,
    Hash,
    Flow,
}

impl Default for Switch {
    fn default() -> Self {
        Switch {
            buffer_packets: 20,
            buffer: None,
            split: false,
            victim: VictimKind::Arriving,
            control_weight: 9,
            control_packets: None,
            spraying: SprayingKind::Random,
        }
    }
}

impl Switch {
    /// The port with that many data classes.
    pub fn port(&self, data_classes: u8) -> PortConfig {
        let limit = self.buffer.map_or(Limit::Packets(self.buffer_packets), |b| Limit::Bytes(b.0));
        let mut port = PortConfig::trimming_classes(limit, data_classes);
        let control = self.control_packets.map_or(Limit::Unlimited, Limit::Packets);
        port.control = Some(ControlQueue { limit: control, weight: self.control_weight });
        port.sharing = if self.split { Sharing::Split } else { Sharing::Shared };
        port.overflow = Overflow::Trim(match self.victim {
            VictimKind::Arriving => Victim::Arriving,
            VictimKind::ArrivingOrLast => Victim::ArrivingOrLast,
            VictimKind::LowestClass => Victim::LowestClass,
        });
        port
    }

    /// See [`Spraying`].
    pub fn spraying(&self) -> Spraying {
        match self.spraying {
            SprayingKind::Random => Spraying::Random,
            SprayingKind::Label => Spraying::Label,
            SprayingKind::Hash => Spraying::Hash,
            SprayingKind::Flow => Spraying::Flow,
        }
    }
}

/// The protocol of all hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Protocol {
    /// Which one.
    pub name: ProtocolName,
    /// Initial window \[packets\] (SCDP §V: 12).
    pub window: u16,
    /// Initial window of each sender of a many-to-one session \[packets\] (SCDP §V: 6).
    pub window_per_sender: u16,
    /// A full data packet on the wire \[bytes\].
    pub packet: u16,
    /// Of these, headers; also what a trimmed or control packet is on the wire \[bytes\].
    pub header: u8,
    /// Symbols in a block (SCDP §V: 100).
    pub block_symbols: u32,
    /// Symbols beyond K aimed at after a loss (SCDP §IV-C: 2).
    pub overhead: u32,
    /// MLFQ thresholds (SCDP §V: 10 KB, 100 KB, 1 MB, 10 MB).
    pub thresholds: Vec<Size>,
    /// NDP+ only: by a flow's whole size instead of bytes sent.
    pub by_final_size: bool,
    /// Decoding speed of receivers (SCDP §V-C: "roughly 1.3 Gbps"); none is no latency.
    pub decode_rate: Option<BitRate>,
    /// Decoding latency by block size instead: (symbols, microseconds) points, linear between.
    pub decode_curve: Vec<(f64, f64)>,
    /// Shortest timeout.
    pub min_timeout: Span,
}

/// Protocols.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum ProtocolName {
    /// SCDP.
    #[serde(rename = "scdp")]
    Scdp,
    /// SCDP with two queues and no MLFQ.
    #[serde(rename = "polyraptor")]
    Polyraptor,
    /// NDP.
    #[serde(rename = "ndp")]
    Ndp,
    /// NDP with MLFQ.
    #[serde(rename = "ndp+")]
    NdpPlus,
}

impl ProtocolName {
    /// Whether one session reaches several receivers, or draws on several senders.
    pub fn is_coded(self) -> bool {
        matches!(self, ProtocolName::Scdp | ProtocolName::Polyraptor)
    }

    /// As in scenario files.
    pub fn as_str(self) -> &'static str {
        match self {
            ProtocolName::Scdp => "scdp",
            ProtocolName::Polyraptor => "polyraptor",
            ProtocolName::Ndp => "ndp",
            ProtocolName::NdpPlus => "ndp+",
        }
    }
}

impl Default for Protocol {
    fn default() -> Self {
        Protocol {
            name: ProtocolName::Scdp,
            window: 12,
            window_per_sender: 6,
            packet: 1_500,
            header: 64,
            block_symbols: 100,
            overhead: 2,
            thresholds: [10_000, 100_000, 1_000_000, 10_000_000].map(Size).to_vec(),
            by_final_size: false,
            decode_rate: Some(BitRate(Rate::from_mbps(1_300))),
            decode_curve: Vec::new(),
            min_timeout: Span(Duration::from_millis(2)),
        }
    }
}

impl Protocol {
    /// Payload of a full packet \[bytes\].
    pub fn payload(&self) -> u16 {
        self.packet.saturating_sub(u16::from(self.header)).max(1)
    }

    /// Data classes of switch ports.
    pub fn data_classes(&self) -> u8 {
        match self.name {
            ProtocolName::Ndp | ProtocolName::Polyraptor => 1,
            ProtocolName::Scdp | ProtocolName::NdpPlus => {
                (self.thresholds.len() + 1).min(PortConfig::MAX_CLASSES.into()) as u8
            }
        }
    }
}

/// What is measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// Every host sends to one other, and no two to the same.
    Permutation {
        /// Size of each transfer.
        size: Size,
    },
    /// One transfer.
    Single {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// Size.
        size: Size,
    },
    /// Synchronised senders to one receiver.
    Incast {
        /// Number of senders, at random hosts.
        senders: u32,
        /// Size of each block.
        size: Size,
        /// Starts are spread evenly over so much time.
        #[serde(default = "zero")]
        jitter: Span,
    },
    /// Near and far senders to two receivers in one rack (SCDP Fig. 12c).
    Outcast {
        /// Senders in the same pod, to the first receiver.
        near: u32,
        /// Senders in other pods, to the second.
        far: u32,
        /// Size of each transfer.
        size: Size,
    },
    /// Flows to one receiver that start one after another and then stop.
    Convergence {
        /// Number of flows.
        flows: u32,
        /// Time between starts.
        interval: Span,
        /// How long each flow runs.
        duration: Span,
    },
    /// Transfers between random hosts, arriving as a Poisson process.
    Flows {
        /// Number of transfers.
        sessions: u32,
        /// Arrivals a second, over the whole network.
        lambda: f64,
        /// Sizes.
        sizes: Sizes,
    },
    /// A storage system's reads or writes of replicated blocks (SCDP §V-A).
    Storage {
        /// Number of requests.
        sessions: u32,
        /// Requests a second, over the whole network.
        lambda: f64,
        /// Size of a block.
        size: Size,
        /// Replicas of each.
        replicas: u32,
        /// Share of writes; the others are reads.
        writes: f64,
        /// Where replicas are.
        #[serde(default)]
        placement: Placement,
        /// How protocols without multicast write.
        #[serde(default)]
        write_by: WriteBy,
        /// How protocols without many-to-one sessions read.
        #[serde(default)]
        read_by: ReadBy,
    },
}

fn zero() -> Span {
    Span(Duration::ZERO)
}

/// Sizes of transfers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// All alike.
    Fixed(Size),
    /// SCDP Table I, web search, within each row's range log-uniform and the last row fitted to
    /// the mean of 1.6 MB.
    WebSearch,
    /// SCDP Table I, data mining; mean 7.4 MB.
    DataMining,
    /// The PIAS authors' web search table.
    PiasWebSearch,
    /// The PIAS authors' data mining table.
    PiasDataMining,
    /// (bytes, cumulative probability) points; linear between.
    Points(Vec<(f64, f64)>),
}

/// Where replicas are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// HDFS's default for clients that are no data nodes (SCDP §V-A): a random node, then two
    /// nodes of one other rack.
    #[default]
    Hdfs,
    /// Random hosts outside the client's rack (Polyraptor §3).
    OutsideRack,
    /// Random hosts.
    Random,
}

/// How protocols without multicast write several replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBy {
    /// A copy to each (SCDP Fig. 4a).
    #[default]
    MultiUnicast,
    /// From replica to replica, each as soon as it receives (SCDP Fig. 4b).
    DaisyChain,
}

/// How protocols without many-to-one sessions read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadBy {
    /// All from the replica in the client's rack or a random one (SCDP Fig. 4d).
    #[default]
    Single,
    /// As many blocks as replicas, each a part of the size, each from such a replica.
    MultiBlock,
    /// A part from every replica (the Polyraptor poster's emulation).
    Parts,
}

/// What else goes on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Background {
    /// Share of the hosts that run endless flows in a ring (the SCDP authors' models).
    pub fraction: f64,
    /// Whether these hosts are left out of the foreground (ditto).
    pub exclusive: bool,
    /// Instead of endless flows: endless reads and writes of such blocks between those hosts,
    /// one after another (SCDP §V-D).
    pub storage: Option<Size>,
    /// How long the background runs before the foreground starts.
    pub warmup: Span,
}

impl Default for Background {
    fn default() -> Self {
        Background {
            fraction: 0.0,
            exclusive: true,
            storage: None,
            warmup: Span(Duration::from_millis(100)),
        }
    }
}

/// How often and how long.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Simulated time after which a run is broken off.
    pub limit: Span,
    /// Simulated time without any progress after which a run is called stuck.
    pub patience: Span,
    /// Events of one instant in random order, by this seed.
    pub shuffle_ties: Option<u32>,
}

impl Default for Run {
    fn default() -> Self {
        Run {
            seeds: vec![1, 2, 3, 4, 5],
            limit: Span(Duration::from_secs(1_000)),
            patience: Span(Duration::from_secs(10)),
            shuffle_ties: None,
        }
    }
}

impl Scenario {
    /// Digest of everything that can move a result, seeds aside: 16 hexadecimal digits.
    pub fn hash(&self) -> String {
        let mut bare = self.clone();
        bare.run.seeds.clear();
        bare.about.clear();
        let text = toml::to_string(&bare).unwrap_or_default();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        format!("{hash:016x}")
    }
}

/// A scenario file: a scenario, and what varies.
#[derive(Clone, Debug)]
pub struct Plan {
    base: Table,
    sweep: Vec<(String, Vec<Value>)>,
}

impl Plan {
    /// Reads a scenario file. Its table `[sweep]` maps keys (`"protocol.name"`) to lists of
    /// values; all combinations are run.
    ///
    /// # Errors
    /// Not TOML, or not a scenario.
    pub fn parse(text: &str) -> Result<Plan> {
        let mut base: Table = text.parse().context("not TOML")?;
        let sweep = match base.remove("sweep") {
            None => Vec::new(),
            Some(Value::Table(table)) => table
                .into_iter()
                .map(|(key, values)| match values {
                    Value::Array(values) if !values.is_empty() => Ok((key, values)),
                    _ => bail!("sweep.{key} is not a list of values"),
                })
                .collect::<Result<_>>()?,
            Some(_) => bail!("`sweep` is not a table"),
        };
        let plan = Plan { base, sweep };
        plan.scenarios()?;
        Ok(plan)
    }

    /// Sets a key (`workload.sessions`) to a value in TOML, or to a string if it is not TOML;
    /// such a key is no longer swept.
    ///
    /// # Errors
    /// The key goes through something that is no table.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut t| t.remove("v"));
        self.sweep.retain(|(swept, _)| swept != key);
        set(&mut self.base, key, parsed.unwrap_or_else(|| Value::String(value.to_owned())))
    }

    /// All combinations.
    ///
    /// # Errors
    /// One of them is no scenario.
    pub fn scenarios(&self) -> Result<Vec<Scenario>> {
        let mut tables = vec![self.base.clone()];
        for (key, values) in &self.sweep {
            let mut next = Vec::with_capacity(tables.len() * values.len());
            for table in &tables {
                for value in values {
                    let mut table = table.clone();
                    set(&mut table, key, value.clone())?;
                    next.push(table);
                }
            }
            tables = next;
        }
        tables.into_iter().map(|table| Value::Table(table).try_into().map_err(Into::into)).collect()
    }
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<()> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            match inner {
                Value::Table(inner) => set(inner, rest, value),
                _ => bail!("`{first}` is not a table"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        name = "x"
        [topology]
        k = 4
        delay = "5us"
        [workload]
        kind = "incast"
        senders = 3
        size = "70KB"
        [sweep]
        "protocol.name" = ["scdp", "ndp"]
        "workload.senders" = [1, 2, 3]
    "#;

    #[test]
    fn a_plan_is_every_combination() {
        let mut plan = Plan::parse(TEXT).unwrap();
        assert_eq!(plan.scenarios().unwrap().len(), 6);
        plan.set("workload.senders", "9").unwrap();
        plan.set("topology.delay", "1us").unwrap();
        let scenarios = plan.scenarios().unwrap();
        assert_eq!(scenarios.len(), 2);
        assert_eq!(scenarios[0].topology.delay.0, Duration::from_micros(1));
        assert_ne!(scenarios[0].hash(), scenarios[1].hash());
    }

    #[test]
    fn a_scenario_survives_a_round_trip() {
        let scenario = Plan::parse(TEXT).unwrap().scenarios().unwrap().remove(0);
        let text = toml::to_string(&scenario).unwrap();
        assert_eq!(Plan::parse(&text).unwrap().scenarios().unwrap(), [scenario]);
    }

    #[test]
    fn misspelt_keys_are_errors() {
        assert!(Plan::parse(&TEXT.replace("delay", "dellay")).is_err());
        assert!(Plan::parse(&TEXT.replace("size", "sise")).is_err());
    }
}
