//! Scenario files: a network, a protocol and a workload, and what a sweep varies of them.
//!
//! A [`Plan`] is what a file says; it leads to [`Scenario`]s, whose every key is checked. The papers' own are in the
//! [`catalogue`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod bounds;
pub mod catalogue;
mod check;
mod check_protocol;
mod check_switch;
mod long_link;
mod network;
mod plan;
mod protocol;
pub mod quantity;
mod sizes;
pub mod trace;
mod unused;
mod workload;

pub use bounds::{MAX_SPAN, ScenarioError};
pub use long_link::{Appliances, CodeKind, RELAY};
pub use network::{
    Event, EventKind, MulticastKind, OverflowKind, Shape, SlowLink, SprayingKind, Switch, Topology,
    TopologyKind, VictimKind,
};
pub use plan::Plan;
pub use protocol::{
    Beside, Configuration, CongestionKind, DecodeKind, FabricKind, Halves, LtDecoder, Lttp,
    Protocol, ProtocolName, Stragglers, Tcp,
};
pub use workload::{Background, Placement, ReadBy, Sizes, Workload, WriteBy};

use crate::quantity::Span;
use serde::{Deserialize, Serialize};
use wellspring_core::Duration;
use wellspring_fabric::{Overflow, PortConfig, Spraying};

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
    /// The protocol.
    #[serde(default)]
    pub protocol: Protocol,
    /// Maelstrom's appliances at both ends of a long link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appliances: Option<Appliances>,
    /// TCP for some of the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// What is measured.
    pub workload: Workload,
    /// What else goes on.
    #[serde(default)]
    pub background: Background,
    /// Failures and repairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// How often and how long.
    #[serde(default)]
    pub run: Run,
    /// The keys that its plan varies, and their values here.
    #[serde(skip)]
    pub swept: Vec<(String, String)>,
}

/// How often and how long.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Simulated time after which a run is broken off.
    pub limit: Span,
    /// Simulated time without an event of any request after which a run is called stuck.
    pub patience: Span,
    /// Events of one instant in random order, by this seed.
    pub shuffle_ties: Option<u32>,
    /// Queues are looked at that often; never if not given.
    pub sample: Option<Span>,
}

impl Default for Run {
    fn default() -> Self {
        Run {
            seeds: vec![1, 2, 3, 4, 5],
            limit: Span(Duration::from_secs(1_000)),
            patience: Span(Duration::from_secs(10)),
            shuffle_ties: None,
            sample: None,
        }
    }
}

impl Scenario {
    /// The protocols: one, or two.
    fn protocols(&self) -> impl Iterator<Item = &Protocol> {
        core::iter::once(&self.protocol).chain(self.beside.as_ref().map(|beside| &beside.protocol))
    }

    fn has_tcp(&self) -> bool {
        self.protocols().any(|protocol| protocol.name.is_tcp())
    }

    /// Whether packets may be lost, not only trimmed.
    pub fn loses_packets(&self) -> bool {
        let Switch { overflow, control_packets, .. } = &self.switch;
        self.topology.loss().is_some()
            || !self.events.is_empty()
            || *overflow == OverflowKind::Drop
            || self.has_tcp()
            || control_packets.is_some()
            || self.protocol.fabric != FabricKind::Trimming
    }

    /// Every switch port. TCP's packets are dropped where others' would be cut.
    pub fn port(&self) -> PortConfig {
        let classes = self.protocols().map(Protocol::data_classes).max().unwrap_or(1);
        let mut port = self.switch.port(classes);
        if self.has_tcp() {
            port.overflow = Overflow::Drop;
        }
        port
    }

    /// Length of what is left of a trimmed packet \[bytes\].
    pub fn trimmed_len(&self) -> u16 {
        self.switch.trim_size.map_or(self.protocol.trimmed_header().into(), |size| size.0 as u16)
    }

    /// How packets choose among equal paths.
    pub fn spraying(&self) -> Spraying {
        let keeps_a_path = |protocol: &Protocol| {
            protocol.paths == Some(1) || (protocol.name.is_tcp() && !protocol.tcp.sprayed)
        };
        match self.protocols().any(keeps_a_path) {
            true => Spraying::Flow,
            false => self.switch.spraying(),
        }
    }

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
