//! Validation of marks and drops: what DCTCP, NDP and LTTP need of switches.

use super::bounds::{Check, must};
use super::{OverflowKind, Protocol, ProtocolName, Scenario, TopologyKind};
use wellspring_fabric::Spraying;

impl Scenario {
    /// Whether packets are marked for who relies on it: in a port that is full before it marks, none that is kept is.
    pub(super) fn check_marks(&self) -> Check {
        let relies = |protocol: &&Protocol| {
            matches!(protocol.name, ProtocolName::Dctcp | ProtocolName::Pias)
        };
        let Some(protocol) = self.protocols().find(relies) else { return Ok(()) };
        let key = "switch.mark_packets";
        let Some(threshold) = self.switch.mark_packets else {
            let expected = "set for dctcp and pias: without ECN marks they are NewReno";
            return must(false, key, &"not set", expected);
        };
        let held = match self.switch.buffer {
            Some(bytes) => bytes.0 / u64::from(protocol.packet),
            None => self.switch.buffer_packets.into(),
        };
        let expected = format!(
            "below the {held} packets that a port holds: no packet of dctcp or pias is marked else"
        );
        must(u64::from(threshold) < held, key, &threshold, expected)
    }

    /// Whether NDP's packets are trimmed and LTTP's dropped in order: the one waits for headers, the other
    /// knows none, and takes gaps for losses. With a TCP beside them switches drop.
    pub(super) fn check_drops(&self) -> Check {
        let is_ndp = matches!(self.protocol.name, ProtocolName::Ndp | ProtocolName::NdpPlus);
        let drops = self.switch.overflow == OverflowKind::Drop;
        must(
            !is_ndp || !drops || self.beside.is_some(),
            "switch.overflow",
            &"drop",
            "trim for ndp and ndp+, which detect dropped packets by timeouts only",
        )?;
        if self.protocol.name != ProtocolName::Lttp {
            return Ok(());
        }
        must(
            drops || self.beside.is_some(),
            "switch.overflow",
            &"trim",
            "drop for lttp, which knows no trimmed headers",
        )?;
        let has_many = matches!(self.topology.kind, TopologyKind::FatTree | TopologyKind::Graph);
        must(
            !has_many || self.spraying() == Spraying::Flow,
            "switch.spraying",
            &"not flow",
            "flow for lttp, which takes packets that overtake each other for losses",
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::Plan;

    fn parsed(lines: &str) -> Result<(), String> {
        let text = format!(
            "name = \"x\"\n{lines}[workload]\nkind = \"single\"\nfrom = 0\nto = 1\nsize = \"1MB\"\n"
        );
        Plan::parse(&text).map(|_| ()).map_err(|error| error.to_string())
    }

    fn refused(lines: &str, key: &str) {
        let error = parsed(lines).unwrap_err();
        assert!(error.contains(key), "{lines}: {error}");
    }

    #[test]
    fn a_port_that_is_full_before_it_marks_is_refused() {
        for name in ["dctcp", "pias"] {
            let of = |switch: &str| format!("[protocol]\nname = \"{name}\"\n[switch]\n{switch}\n");
            for switch in [
                "buffer_packets = 1\nmark_packets = 1",
                "mark_packets = 20",
                "mark_packets = 10000",
                "buffer = \"15KB\"\nmark_packets = 10",
            ] {
                refused(&of(switch), "switch.mark_packets");
            }
            for switch in [
                "buffer_packets = 2\nmark_packets = 1",
                "mark_packets = 19",
                "buffer = \"16500B\"\nmark_packets = 10",
            ] {
                parsed(&of(switch)).unwrap();
            }
        }
        parsed("[switch]\nmark_packets = 20\n").unwrap();
    }

    #[test]
    fn receivers_that_wait_for_trims_refuse_switches_that_drop() {
        let beside = "[beside]\nshare = 0.5\nprotocol = { name = \"tcp-newreno\" }\n";
        for name in ["ndp", "ndp+"] {
            let text = format!("[protocol]\nname = \"{name}\"\n[switch]\noverflow = \"drop\"\n");
            refused(&text, "switch.overflow");
            parsed(&format!("{text}{beside}")).unwrap();
        }
    }

    #[test]
    fn lttp_refuses_switches_that_trim_or_spray() {
        let lttp = "[protocol]\nname = \"lttp\"\n";
        let drop = "[switch]\noverflow = \"drop\"\n";
        refused(&format!("{lttp}[switch]\nspraying = \"flow\"\n"), "switch.overflow");
        refused(&format!("{lttp}{drop}"), "switch.spraying");
        parsed(&format!("{lttp}{drop}spraying = \"flow\"\n")).unwrap();
        let one_switch = "[topology]\nkind = \"single-switch\"\nhosts = 2\n";
        parsed(&format!("{lttp}{drop}{one_switch}")).unwrap();
    }
}
