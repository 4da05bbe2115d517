//! The network of a scenario.

use crate::quantity::{BitRate, Size, Span};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use wellspring_core::{Duration, Rate};
use wellspring_fabric::{ControlQueue, Limit, Overflow, PortConfig, Sharing, Spraying, Victim};
use wellspring_sim::topology::{FatTree, Graph, dumbbell, single_switch};
use wellspring_sim::{Fault, LossRule, Multicast};

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
    /// A Fat-Tree's shape instead of `k`: over-subscribed ones, for instance.
    pub shape: Option<Shape>,
    /// Text of a network (see `Graph::parse`), for kind `graph`. A scenario file may give
    /// `graph_file` instead, a path from its own folder.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub graph: String,
    /// Links with another rate than the rest (degraded links, asymmetry).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SlowLink>,
    /// Probability that a link loses a packet with payload, on each hop.
    #[serde(skip_serializing_if = "is_zero")]
    pub data_loss: f64,
    /// Probability that a link loses a packet without payload (pulls, trimmed headers), on each
    /// hop.
    #[serde(skip_serializing_if = "is_zero")]
    pub control_loss: f64,
    /// How long routing takes to notice a failure or a repair. Until then packets are sent into
    /// what is down, and lost.
    pub convergence: Span,
}

/// A Fat-Tree's shape: see [`FatTree`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the same as in the simulator")]
pub struct Shape {
    pub pods: u32,
    pub tors_per_pod: u32,
    pub hosts_per_tor: u32,
    pub aggs_per_pod: u32,
    pub cores_per_agg: u32,
}

impl Shape {
    /// All numbers, in the order of the fields.
    pub(super) fn sides(self) -> [u32; 5] {
        let Shape { pods, tors_per_pod, hosts_per_tor, aggs_per_pod, cores_per_agg } = self;
        [pods, tors_per_pod, hosts_per_tor, aggs_per_pod, cores_per_agg]
    }
}

/// A link with a rate of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowLink {
    /// The names of its ends: `["tor0", "agg1"]` (see `Graph::node`).
    pub between: [String; 2],
    /// Rate.
    pub rate: BitRate,
    /// Rate from the second to the first; the same if not given.
    pub reverse_rate: Option<BitRate>,
}

/// A failure or a repair.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When, in simulated time.
    pub at: Span,
    /// What.
    pub kind: EventKind,
    /// The node, or the two ends of the link: `["agg0"]`, `["tor0", "agg1"]`.
    pub nodes: Vec<String>,
}

/// See [`Fault`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the same as in the simulator")]
pub enum EventKind {
    LinkDown,
    LinkUp,
    NodeDown,
    NodeUp,
}

impl Event {
    /// The fault it is in that network.
    ///
    /// # Errors
    /// No such node or link, or not as many nodes as the kind takes.
    pub fn fault(&self, graph: &Graph) -> Result<Fault> {
        let node = |name: &String| {
            graph.node(name).with_context(|| format!("events: no node is called `{name}`"))
        };
        let link = |a: &String, b: &String| {
            let ends = (node(a)?, node(b)?);
            if !graph.has_link(ends.0, ends.1) {
                bail!("events: there is no link between `{a}` and `{b}`");
            }
            Ok(ends)
        };
        Ok(match (self.kind, &self.nodes[..]) {
            (EventKind::LinkDown, [a, b]) => link(a, b).map(|(a, b)| Fault::LinkDown(a, b))?,
            (EventKind::LinkUp, [a, b]) => link(a, b).map(|(a, b)| Fault::LinkUp(a, b))?,
            (EventKind::NodeDown, [a]) => Fault::NodeDown(node(a)?),
            (EventKind::NodeUp, [a]) => Fault::NodeUp(node(a)?),
            (EventKind::LinkDown | EventKind::LinkUp, nodes) => {
                bail!("events: a link has two ends, not {}", nodes.len())
            }
            (_, nodes) => bail!("events: one node, not {}", nodes.len()),
        })
    }
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
    /// Two hosts at the ends of one long link, with today's TCP, and perhaps Maelstrom's appliances.
    LongLink,
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
            shape: None,
            graph: String::new(),
            links: Vec::new(),
            data_loss: 0.0,
            control_loss: 0.0,
            convergence: Span(Duration::ZERO),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_true(flag: &bool) -> bool {
    *flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(probability: &f64) -> bool {
    *probability == 0.0
}

impl Topology {
    /// What links lose at random, if anything.
    pub fn loss(&self) -> Option<LossRule> {
        let rule = LossRule { data: self.data_loss, control: self.control_loss };
        (rule != LossRule::default()).then_some(rule)
    }

    /// The Fat-Tree's shape, if it is one.
    pub fn fat_tree(&self) -> Option<FatTree> {
        let shaped = |shape: Shape| FatTree {
            pods: shape.pods,
            tors_per_pod: shape.tors_per_pod,
            hosts_per_tor: shape.hosts_per_tor,
            aggs_per_pod: shape.aggs_per_pod,
            cores_per_agg: shape.cores_per_agg,
        };
        (self.kind == TopologyKind::FatTree)
            .then(|| self.shape.map_or_else(|| FatTree::k_ary(self.k), shaped))
    }

    /// The network.
    ///
    /// # Errors
    /// The text of a network cannot be read.
    pub fn build(&self) -> Result<Graph> {
        let (rate, delay) = (self.rate.0, self.delay.0);
        let uplink = self.uplink_rate.map_or(rate, |rate| rate.0);
        let mut graph = match (self.kind, self.fat_tree()) {
            (TopologyKind::FatTree, tree) => {
                tree.unwrap_or(FatTree::PAPER).build(rate, uplink, delay)
            }
            (TopologyKind::SingleSwitch, _) => single_switch(self.hosts, rate, delay),
            (TopologyKind::Dumbbell, _) => dumbbell(self.hosts, rate, delay, uplink, delay),
            (TopologyKind::LongLink, _) => {
                Graph::parse(&self.long_link()).context("the network of a long link")?
            }
            (TopologyKind::Graph, _) => Graph::parse(&self.graph).context("topology.graph")?,
        };
        for SlowLink { between: [a, b], rate, reverse_rate } in &self.links {
            let node = |name: &String| {
                graph.node(name).with_context(|| format!("topology.links: no node `{name}`"))
            };
            let (from, to) = (node(a)?, node(b)?);
            let reverse = reverse_rate.unwrap_or(*rate);
            if !graph.set_rate(from, to, rate.0, reverse.0) {
                bail!("topology.links: there is no link between `{a}` and `{b}`");
            }
        }
        Ok(graph)
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
    /// What becomes of a packet that finds the buffer full.
    pub overflow: OverflowKind,
    /// Which packet is trimmed.
    pub victim: VictimKind,
    /// Length of what is left of a trimmed packet; that of its header if not given. Switches as sold leave 128
    /// bytes or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim_size: Option<Size>,
    /// Whether the packets of groups are trimmed. Switches as sold drop them.
    #[serde(skip_serializing_if = "is_true")]
    pub trim_groups: bool,
    /// Data packets that wait when those that arrive are marked (ECN); none are if not given.
    pub mark_packets: Option<u32>,
    /// Control packets for one data packet while both wait.
    pub control_weight: u32,
    /// Control packets a port holds; unlimited if not given.
    pub control_packets: Option<u32>,
    /// How packets choose among equal paths.
    pub spraying: SprayingKind,
    /// How groups' packets travel.
    pub multicast: MulticastKind,
}

/// See [`Overflow`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the same as in the fabric")]
pub enum OverflowKind {
    Trim,
    Drop,
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

/// See [`Multicast`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the same as in the simulator")]
pub enum MulticastKind {
    Sprayed,
    OneTree,
}

impl Default for Switch {
    fn default() -> Self {
        Switch {
            buffer_packets: 20,
            buffer: None,
            split: false,
            overflow: OverflowKind::Trim,
            victim: VictimKind::Arriving,
            trim_size: None,
            trim_groups: true,
            mark_packets: None,
            control_weight: 9,
            control_packets: None,
            spraying: SprayingKind::Random,
            multicast: MulticastKind::Sprayed,
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
        let victim = match self.victim {
            VictimKind::Arriving => Victim::Arriving,
            VictimKind::ArrivingOrLast => Victim::ArrivingOrLast,
            VictimKind::LowestClass => Victim::LowestClass,
        };
        port.overflow = match self.overflow {
            OverflowKind::Trim => Overflow::Trim(victim),
            OverflowKind::Drop => Overflow::Drop,
        };
        port.ecn_threshold = self.mark_packets.map_or(Limit::Unlimited, Limit::Packets);
        port
    }

    /// See [`Multicast`].
    pub fn multicast(&self) -> Multicast {
        match self.multicast {
            MulticastKind::Sprayed => Multicast::Sprayed,
            MulticastKind::OneTree => Multicast::OneTree,
        }
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
