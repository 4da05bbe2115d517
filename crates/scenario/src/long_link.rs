//! A long link between two hosts, Maelstrom's appliances at its ends, and what such a scenario can have.

use super::bounds::{Check, must};
use super::{EventKind, Protocol, Scenario, Switch, Topology, TopologyKind, Workload};
use crate::quantity::BitRate;
use serde::{Deserialize, Serialize};
use wellspring_codec::interleave::Parameters;
use wellspring_core::Rate;

/// The node in the middle of a long link: the one that can fail.
pub const RELAY: &str = "relay";

/// A pair of Maelstrom's appliances.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Appliances {
    /// Which code.
    pub code: CodeKind,
    /// For `layers`: packets for which each layer makes a repair.
    pub rate: u8,
    /// For `layers`: the interleave of each.
    pub interleaves: Vec<u16>,
}

/// Codes of appliances.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeKind {
    /// A sliding window that follows the loss: what `wellspring maelstrom up` has without options.
    Adaptive,
    /// The paper's layers, which stay as they are.
    Layers,
}

impl Default for Appliances {
    fn default() -> Self {
        Appliances { code: CodeKind::Adaptive, rate: 8, interleaves: vec![1, 20, 40] }
    }
}

impl Topology {
    /// The text of a long link's network, which `Graph::parse` reads: a host and a router at each end, and the relay.
    pub(super) fn long_link(&self) -> String {
        let (rate, half) = (self.rate, self.delay.0.as_picos() / 2);
        format!(
            "host host0 host1\nswitch site0 {RELAY} site1\n\
             link host0 site0 {rate} 0ps\nlink site0 {RELAY} {rate} {half}ps\n\
             link {RELAY} site1 {rate} {half}ps\nlink site1 host1 {rate} 0ps\n"
        )
    }
}

impl Scenario {
    /// Whether a long link has what it can have, and only it has what is its own.
    pub(super) fn check_long_link(&self) -> Check {
        let (is_long, name) = (self.topology.kind == TopologyKind::LongLink, self.protocol.name);
        must(
            is_long == name.is_of_long_link(),
            "protocol.name",
            &name.as_str(),
            if is_long {
                "tcp-reno, tcp-cubic or tcp-bbr: topology.kind is long-link"
            } else {
                "another: tcp-reno, tcp-cubic and tcp-bbr need topology.kind long-link"
            },
        )?;
        if !is_long {
            let none = self.appliances.is_none();
            let expected = "left out unless topology.kind is long-link";
            return must(none, "appliances", &"there", expected);
        }
        let Topology { kind, rate, delay, data_loss, control_loss, .. } = self.topology;
        let plain = Topology { kind, rate, delay, data_loss, control_loss, ..Topology::default() };
        let others = "only kind, rate, delay, data_loss and control_loss of a long link";
        must(self.topology == plain, "topology", &"more than these", others)?;
        let bounds = [1, 10_000].map(|mbps| BitRate(Rate::from_mbps(mbps)));
        let fits = (bounds[0]..=bounds[1]).contains(&rate);
        must(fits, "topology.rate", &rate, "between 1 Mbit/s and 10 Gbit/s for a long link")?;
        let expected = "topology.data_loss: a long link loses what it loses of all packets";
        must(data_loss == control_loss, "topology.control_loss", &control_loss, expected)?;
        let Switch { buffer_packets, .. } = self.switch;
        let plain = Switch { buffer_packets, ..Switch::default() };
        let only = "only buffer_packets for a long link";
        must(self.switch == plain, "switch", &"more than that", only)?;
        let fits = (1..=1_000_000).contains(&buffer_packets);
        let expected = "between 1 and 1,000,000 for a long link";
        must(fits, "switch.buffer_packets", &buffer_packets, expected)?;
        let plain = Protocol { name, ..Protocol::default() };
        must(self.protocol == plain, "protocol", &"more than a name", "only name for a long link")?;
        self.check_use_of_long_link()
    }

    fn check_use_of_long_link(&self) -> Check {
        let expected = "single, from 0 to 1, on a long link";
        let Workload::Single { from: 0, to: 1, size } = self.workload else {
            return must(false, "workload.kind", &"another", expected);
        };
        // Every packet is remembered to the end.
        let expected = "at most 1 GB on a long link";
        must(size.0 <= 1_000_000_000, "workload.size", &size, expected)?;
        let alone = self.beside.is_none() && self.background.fraction == 0.0;
        must(alone, "beside or background", &"there", "left out with a long link")?;
        let plain = self.run.sample.is_none() && self.run.shuffle_ties.is_none();
        let key = "run.sample or run.shuffle_ties";
        must(plain, key, &"there", "left out with a long link")?;
        for event in &self.events {
            let is_node = matches!(event.kind, EventKind::NodeDown | EventKind::NodeUp);
            let is_relay = is_node && event.nodes == [RELAY];
            let got = format!("{:?}", event.nodes);
            let expected = format!("[\"{RELAY}\"] of a long link, and kind node-down or node-up");
            must(is_relay, "events.nodes", &got, expected)?;
        }
        let Some(Appliances { rate, interleaves, .. }) = &self.appliances else { return Ok(()) };
        let code = Parameters::new(*rate, interleaves);
        let got = format!("{rate}, {interleaves:?}");
        let expected = "such that there is a code";
        must(code.is_ok(), "appliances.rate or appliances.interleaves", &got, expected)
    }
}

#[cfg(test)]
mod tests {
    use crate::{CodeKind, Plan, Scenario};

    const LONG: &str = "[topology]\nkind = \"long-link\"\nrate = \"100Mbit/s\"\ndelay = \"25ms\"\n";
    const CUBIC: &str = "[protocol]\nname = \"tcp-cubic\"\n";
    const SINGLE: &str = "[workload]\nkind = \"single\"\nfrom = 0\nto = 1\nsize = \"1MB\"\n";

    fn parsed(text: &str) -> Result<Scenario, String> {
        let plan =
            Plan::parse(&format!("name = \"x\"\n{text}")).map_err(|error| error.to_string())?;
        Ok(plan.scenarios().unwrap().remove(0))
    }

    #[test]
    fn a_long_link_has_hosts_sites_and_a_relay_and_perhaps_appliances() {
        let event = "[[events]]\nat = \"1ms\"\nkind = \"node-down\"\nnodes = [\"relay\"]\n";
        let alone = parsed(&format!("{LONG}{CUBIC}{SINGLE}{event}")).unwrap();
        let graph = alone.topology.build().unwrap();
        assert_eq!((graph.hosts(), graph.nodes(), alone.appliances.clone()), (2, 5, None));
        alone.events[0].fault(&graph).unwrap();
        let with = parsed(&format!("{LONG}{CUBIC}{SINGLE}[appliances]\n")).unwrap();
        assert_eq!(with.appliances.as_ref().unwrap().code, CodeKind::Adaptive);
        assert_ne!(with.hash(), Scenario { appliances: None, ..with.clone() }.hash());
    }

    #[test]
    fn what_a_long_link_cannot_have_is_refused_by_name() {
        for (text, key) in [
            (format!("{LONG}{SINGLE}"), "protocol.name is scdp"),
            (format!("{CUBIC}{SINGLE}"), "protocol.name is tcp-cubic"),
            (format!("{SINGLE}[appliances]\n"), "appliances is there"),
            (format!("{LONG}hosts = 3\n{CUBIC}{SINGLE}"), "topology is more"),
            (format!("{LONG}data_loss = 0.1\n{CUBIC}{SINGLE}"), "topology.control_loss"),
            (format!("{}{CUBIC}{SINGLE}", LONG.replace("100M", "100k")), "topology.rate"),
            (format!("{LONG}[switch]\nmark_packets = 3\n{CUBIC}{SINGLE}"), "switch is more"),
            (format!("{LONG}[switch]\nbuffer_packets = 0\n{CUBIC}{SINGLE}"), "switch.buffer"),
            (format!("{LONG}{CUBIC}window = 3\n{SINGLE}"), "protocol is more"),
            (format!("{LONG}{CUBIC}{}", SINGLE.replace("to = 1", "to = 2")), "workload.kind"),
            (format!("{LONG}{CUBIC}{}", SINGLE.replace("1MB", "2GB")), "workload.size"),
            (format!("{LONG}{CUBIC}{SINGLE}[run]\nsample = \"1ms\"\n"), "run.sample"),
            (
                format!(
                    "{LONG}{CUBIC}{SINGLE}[[events]]\nat = \"1s\"\nkind = \"node-down\"\n\
                     nodes = [\"host0\"]\n"
                ),
                "events.nodes",
            ),
            (
                format!("{LONG}{CUBIC}{SINGLE}[appliances]\ninterleaves = []\n"),
                "appliances.interleaves",
            ),
        ] {
            let error = parsed(&text).unwrap_err();
            assert!(error.contains(key), "{text}: {error}");
        }
    }
}
