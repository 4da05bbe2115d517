//! VLANs of ports on the command line.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use clap::Args;
use wellspring_appliance::switch::{DEFAULT_VLAN, PortVlans};
use wellspring_console::exit::Failed;

/// A port, and VLANs of it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct OfPort {
    interface: String,
    vlans: BTreeSet<u16>,
}

/// VLANs (IEEE 802.1Q).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "VLANs")]
pub struct VlanArgs {
    /// Access port: frames without tags, in this VLAN. When VLANs are used, ports that are not named are in VLAN 1.
    #[arg(long, value_name = "INTERFACE=VLAN", value_parser = parse)]
    access: Vec<OfPort>,
    /// Trunk port: frames with tags of these VLANs, such as port1=10,20-29.
    #[arg(long, value_name = "INTERFACE=VLANS", value_parser = parse)]
    trunk: Vec<OfPort>,
    /// The VLAN of a trunk's frames without tags; without one, the trunk does not take them.
    #[arg(long, value_name = "INTERFACE=VLAN", value_parser = parse)]
    native: Vec<OfPort>,
}

impl VlanArgs {
    /// The VLANs of each interface, if any port has some.
    pub fn of(&self, interfaces: &[String]) -> Result<Option<Vec<PortVlans>>, Failed> {
        let options =
            [("--access", &self.access), ("--trunk", &self.trunk), ("--native", &self.native)];
        for (option, ports) in options {
            check(option, ports, interfaces)?;
        }
        if options.iter().all(|(_, ports)| ports.is_empty()) {
            return Ok(None);
        }
        let ports = interfaces.iter().map(|interface| self.of_port(interface));
        ports.collect::<Result<_, _>>().map(Some)
    }

    fn of_port(&self, interface: &str) -> Result<PortVlans, Failed> {
        let find = |ports: &[OfPort]| {
            ports.iter().find(|port| port.interface == interface).map(|port| port.vlans.clone())
        };
        let one = |option: &str, vlans: Option<BTreeSet<u16>>| match vlans {
            Some(vlans) if vlans.len() > 1 => {
                Err(Failed::usage(format!("{option} {interface}: more than one VLAN"))
                    .hint("A port that is in several VLANs is a trunk: --trunk."))
            }
            vlans => Ok(vlans.and_then(|vlans| vlans.first().copied())),
        };
        let (access, trunk) = (one("--access", find(&self.access))?, find(&self.trunk));
        let native = one("--native", find(&self.native))?;
        match (access, trunk, native) {
            (Some(_), Some(_), _) => {
                Err(Failed::usage(format!("{interface} is access port and trunk"))
                    .hint("A port is one or the other."))
            }
            (_, None, Some(_)) => Err(Failed::usage(format!("{interface} is no trunk"))
                .hint("--native is for trunks; the VLAN of an access port is given by --access.")),
            (access, None, None) => Ok(PortVlans::Access(access.unwrap_or(DEFAULT_VLAN))),
            (None, Some(tagged), native) => Ok(PortVlans::Trunk { tagged, native }),
        }
    }
}

/// Refuses interfaces that are no ports, and ports that are named twice.
fn check(option: &str, ports: &[OfPort], interfaces: &[String]) -> Result<(), Failed> {
    for (i, OfPort { interface, .. }) in ports.iter().enumerate() {
        if !interfaces.contains(interface) {
            return Err(Failed::usage(format!("{option} {interface}: not a port of this switch"))
                .hint("Name the interface among the ports, too."));
        }
        if ports[..i].iter().any(|port| port.interface == *interface) {
            return Err(Failed::usage(format!("{option} names {interface} twice")));
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<OfPort, String> {
    let form = || "write INTERFACE=VLAN, such as port1=10".to_owned();
    let (interface, list) = text.rsplit_once('=').ok_or_else(form)?;
    let mut vlans = BTreeSet::new();
    for part in list.split(',') {
        vlans.extend(range(part).ok_or_else(|| format!("`{part}`: {}", form()))?);
    }
    Ok(OfPort { interface: interface.to_owned(), vlans })
}

/// One VLAN, or a range of them; the switch refuses those that are none.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read() {
        let vlans = |text| parse(text).map(|port| port.vlans.into_iter().collect::<Vec<_>>());
        assert_eq!(vlans("a=10,20-22"), Ok(vec![10, 20, 21, 22]));
        assert_eq!(parse("a=b=1").map(|port| port.interface), Ok("a=b".to_owned()));
        for bad in ["a", "a=", "a=1-", "a=2-1", "a=x", "a=1,,2", "a=70000", "10"] {
            assert!(vlans(bad).is_err(), "{bad}");
        }
    }
}
