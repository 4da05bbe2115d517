//! Refusal of settings and interfaces that make no switch.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::config::{QueueLimit, SwitchConfig};
use super::egress::{LEAST, WIRE_OVERHEAD};
use super::ports::PortSet;
use super::vlan::{PortVlans, VLAN_RANGE};
use crate::interface::{Interface, networks};

/// Headers of IPv4 and UDP, and SCDP's name of a packet: what trimming leaves at least \[bytes\].
pub const LEAST_KEPT: usize = 20 + 8 + 16;
/// Ethernet's header with a VLAN tag \[bytes\].
pub(super) const LINK_HEADER: usize = 18;
/// The shortest limit of a capture: descriptions of all ports, and some frames \[bytes\].
const LEAST_CAPTURE: u64 = 64 << 10;
/// Type of an Ethernet interface in `/sys/class/net/NAME/type` (`ARPHRD_ETHER`).
const ETHERNET: &str = "1";

/// A reason not to start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Too few or too many ports.
    Ports {
        /// Those named.
        got: usize,
        /// The most.
        limit: usize,
    },
    /// An interface is named twice.
    Twice(String),
    /// There is no such interface.
    NoInterface(String),
    /// The interface has no Ethernet frames: the loopback interface, a tunnel.
    NotEthernet(String),
    /// The interface has an address, so this machine is reached by it.
    HasAddress {
        /// The interface.
        interface: String,
        /// A network that it is in.
        network: String,
    },
    /// The interface is a part of a bridge or bond, which forwards its frames.
    PartOf {
        /// The interface.
        interface: String,
        /// The bridge or bond.
        master: String,
    },
    /// A queue that a frame of the interfaces does not fit into.
    QueueBelowFrame {
        /// Its length \[bytes\].
        got: u64,
        /// The longest frame \[bytes on the wire\].
        frame: u64,
    },
    /// The queue of headers and control packets is such.
    ControlQueueBelowFrame {
        /// Its length \[bytes\].
        got: u64,
        /// The longest frame \[bytes on the wire\].
        frame: u64,
    },
    /// Trimmed packets would lack headers.
    KeepsTooLittle {
        /// The length of a trimmed packet \[bytes\].
        got: usize,
        /// The least \[bytes\].
        limit: usize,
    },
    /// No packet is longer than a trimmed one.
    TrimsNothing {
        /// The length of a trimmed packet \[bytes\].
        got: usize,
        /// The longest packet \[bytes\].
        mtu: usize,
    },
    /// The ECN threshold is not below the length of the queue: only packets that do not fit would be marked.
    MarksTooLate {
        /// The threshold \[packets\].
        got: u32,
        /// The packets that fit.
        limit: u64,
    },
    /// Threads without a port, or none at all.
    Threads {
        /// Those asked for.
        got: usize,
        /// The ports.
        ports: usize,
    },
    /// A capture that would hold next to nothing.
    CaptureTooSmall {
        /// The longest that the file may become \[bytes\].
        got: u64,
        /// The least \[bytes\].
        limit: u64,
    },
    /// A capture of no port.
    CapturesNothing,
    /// Not a VLAN.
    Vlan(u16),
    /// A trunk without a VLAN.
    EmptyTrunk(String),
}

impl Refusal {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Refusal::Ports { .. } => {
                "Name at least two interfaces, and no more than a switch has ports."
            }
            Refusal::Twice(_) => "Name each interface once.",
            Refusal::NoInterface(_) => "`ip link` lists the interfaces of this network namespace.",
            Refusal::NotEthernet(_) => "Use Ethernet interfaces, such as one end of a veth pair.",
            Refusal::HasAddress { .. } => {
                "All that this machine hears there would be forwarded to the other ports. Name interfaces without \
                 addresses, or take them away by `ip addr flush dev INTERFACE` if you do not reach the machine by it."
            }
            Refusal::PartOf { .. } => {
                "Take it out by `ip link set INTERFACE nomaster`, or name another."
            }
            Refusal::QueueBelowFrame { .. } => {
                "Make --queue-bytes longer, or the interfaces' MTU shorter."
            }
            Refusal::ControlQueueBelowFrame { .. } => {
                "Make --control-queue longer, or the interfaces' MTU shorter."
            }
            Refusal::KeepsTooLittle { .. } => "Leave --keep as it is, or make it longer.",
            Refusal::TrimsNothing { .. } => {
                "Make --keep shorter than the packets, or drop them by --drop."
            }
            Refusal::MarksTooLate { .. } => "Make --mark-at smaller, or the queue longer.",
            Refusal::Threads { .. } => {
                "Each thread needs a port: give --threads from 1 to the number of ports."
            }
            Refusal::CaptureTooSmall { .. } => "Make --capture-limit longer.",
            Refusal::CapturesNothing => "Name a port by --capture-ports.",
            Refusal::Vlan(_) => "VLANs are 1 to 4094.",
            Refusal::EmptyTrunk(_) => "Name the trunk's VLANs, such as --trunk INTERFACE=10,20-29.",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Ports { got, limit } => write!(f, "{got} ports: a switch has 2 to {limit}"),
            Refusal::Twice(name) => write!(f, "`{name}` is named twice"),
            Refusal::NoInterface(name) => write!(f, "no interface `{name}`"),
            Refusal::NotEthernet(name) => write!(f, "`{name}` is not an Ethernet interface"),
            Refusal::HasAddress { interface, network } => {
                write!(
                    f,
                    "`{interface}` has an address in {network}: this machine is reached by it"
                )
            }
            Refusal::PartOf { interface, master } => {
                write!(f, "`{interface}` is a part of `{master}`, which forwards its frames")
            }
            Refusal::QueueBelowFrame { got, frame } => {
                write!(f, "a queue of {got} bytes: a frame of the interfaces has up to {frame}")
            }
            Refusal::ControlQueueBelowFrame { got, frame } => {
                write!(
                    f,
                    "a control queue of {got} bytes: a frame of the interfaces has up to {frame}"
                )
            }
            Refusal::KeepsTooLittle { got, limit } => {
                write!(f, "a trimmed packet of {got} bytes: its headers have {limit}")
            }
            Refusal::TrimsNothing { got, mtu } => {
                write!(f, "a trimmed packet of {got} bytes: whole ones have at most {mtu}")
            }
            Refusal::MarksTooLate { got, limit } => {
                write!(f, "an ECN threshold of {got} packets: the queue has room for {limit}")
            }
            Refusal::Threads { got, ports } => write!(f, "{got} threads for {ports} ports"),
            Refusal::CaptureTooSmall { got, limit } => {
                write!(f, "a capture of {got} bytes: it has at least {limit}")
            }
            Refusal::CapturesNothing => write!(f, "a capture of no port"),
            Refusal::Vlan(vlan) => write!(f, "{vlan} is not a VLAN"),
            Refusal::EmptyTrunk(name) => write!(f, "the trunk `{name}` carries no VLAN"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Why a switch does not start.
#[derive(Debug)]
pub enum OpenError {
    /// What was asked for makes no switch.
    Refused(Refusal),
    /// The file of a capture cannot be made.
    Capture(PathBuf, io::Error),
    /// The system does not let it.
    System(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        OpenError::System(error)
    }
}

impl From<Refusal> for OpenError {
    fn from(refusal: Refusal) -> Self {
        OpenError::Refused(refusal)
    }
}

/// The interfaces of those names, if they can be ports of a switch.
pub(super) fn interfaces(names: &[String]) -> Result<Vec<Interface>, OpenError> {
    if !(2..=PortSet::MOST).contains(&names.len()) {
        return Err(Refusal::Ports { got: names.len(), limit: PortSet::MOST }.into());
    }
    if let Some((_, name)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        return Err(Refusal::Twice(name.clone()).into());
    }
    names.iter().map(|name| interface(name)).collect()
}

fn interface(name: &str) -> Result<Interface, OpenError> {
    let found = Interface::find(name)?;
    let interface = found.ok_or_else(|| Refusal::NoInterface(name.to_owned()))?;
    let kind = fs::read_to_string(Path::new("/sys/class/net").join(name).join("type"));
    // Without /sys of this namespace the ring's frames tell.
    if kind.is_ok_and(|kind| kind.trim() != ETHERNET) {
        return Err(Refusal::NotEthernet(name.to_owned()).into());
    }
    if let Some(network) = networks(name).first() {
        let (interface, network) = (name.to_owned(), network.to_string());
        return Err(Refusal::HasAddress { interface, network }.into());
    }
    if let Some(master) = &interface.master {
        return Err(Refusal::PartOf { interface: name.to_owned(), master: master.clone() }.into());
    }
    Ok(interface)
}

/// Checks the settings against each other and against interfaces of these MTUs \[bytes\].
pub(super) fn settings(
    config: &SwitchConfig,
    names: &[String],
    mtus: &[usize],
) -> Result<(), Refusal> {
    let longest = mtus.iter().copied().max().unwrap_or(0);
    let frame = (longest + LINK_HEADER) as u64 + u64::from(WIRE_OVERHEAD);
    let room = match config.queue {
        QueueLimit::Frames(frames) => u64::from(frames),
        QueueLimit::Bytes(got) if got < frame => {
            return Err(Refusal::QueueBelowFrame { got, frame });
        }
        QueueLimit::Bytes(bytes) => bytes / u64::from(LEAST + WIRE_OVERHEAD),
    };
    if let Some(got) = config.mark_at.filter(|mark_at| u64::from(*mark_at) >= room) {
        return Err(Refusal::MarksTooLate { got, limit: room });
    }
    if config.trim {
        if config.control_queue < frame {
            return Err(Refusal::ControlQueueBelowFrame { got: config.control_queue, frame });
        }
        if config.keep < LEAST_KEPT {
            return Err(Refusal::KeepsTooLittle { got: config.keep, limit: LEAST_KEPT });
        }
        if config.keep >= longest {
            return Err(Refusal::TrimsNothing { got: config.keep, mtu: longest });
        }
    }
    if !(1..=names.len()).contains(&config.threads) {
        return Err(Refusal::Threads { got: config.threads, ports: names.len() });
    }
    if let Some(capture) = &config.capture {
        if capture.limit < LEAST_CAPTURE {
            return Err(Refusal::CaptureTooSmall { got: capture.limit, limit: LEAST_CAPTURE });
        }
        if capture.ports == PortSet::NONE {
            return Err(Refusal::CapturesNothing);
        }
    }
    let vlans = config.vlans.iter().flatten();
    vlans.zip(names).try_for_each(|(vlans, name)| of_vlans(vlans, name))
}

fn of_vlans(vlans: &PortVlans, name: &str) -> Result<(), Refusal> {
    if let PortVlans::Trunk { tagged, .. } = vlans
        && tagged.is_empty()
    {
        return Err(Refusal::EmptyTrunk(name.to_owned()));
    }
    match vlans.all().find(|vlan| !VLAN_RANGE.contains(vlan)) {
        Some(vlan) => Err(Refusal::Vlan(vlan)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn refused(change: impl FnOnce(&mut SwitchConfig)) -> Option<Refusal> {
        let mut config = SwitchConfig::default();
        change(&mut config);
        settings(&config, &["a".to_owned(), "b".to_owned()], &[1_500, 1_400]).err()
    }

    #[test]
    fn settings_that_make_no_switch_are_refused() {
        assert_eq!(refused(|_| {}), None);
        // 1,500 bytes, 18 of header and tag, 24 of preamble, checksum and gap.
        let frame = 1_542;
        let queue = |bytes| refused(|config| config.queue = QueueLimit::Bytes(bytes));
        assert_eq!(queue(1_541), Some(Refusal::QueueBelowFrame { got: 1_541, frame }));
        assert_eq!(queue(1_542), None);
        let control = |bytes| refused(|config| config.control_queue = bytes);
        assert_eq!(control(1_541), Some(Refusal::ControlQueueBelowFrame { got: 1_541, frame }));
        assert_eq!(control(1_542), None);
        let keep = |bytes| refused(|config| config.keep = bytes);
        assert_eq!(keep(43), Some(Refusal::KeepsTooLittle { got: 43, limit: 44 }));
        assert_eq!((keep(44), keep(1_499)), (None, None));
        assert_eq!(keep(1_500), Some(Refusal::TrimsNothing { got: 1_500, mtu: 1_500 }));
        let mark = |packets| refused(|config| config.mark_at = Some(packets));
        assert_eq!((mark(0), mark(19)), (None, None));
        assert_eq!(mark(20), Some(Refusal::MarksTooLate { got: 20, limit: 20 }));
        let mark_in_bytes = refused(|config| {
            config.queue = QueueLimit::Bytes(8_400);
            config.mark_at = Some(100);
        });
        assert_eq!(mark_in_bytes, Some(Refusal::MarksTooLate { got: 100, limit: 100 }));
        let threads = |threads| refused(|config| config.threads = threads);
        assert_eq!(threads(0), Some(Refusal::Threads { got: 0, ports: 2 }));
        assert_eq!((threads(2), threads(3)), (None, Some(Refusal::Threads { got: 3, ports: 2 })));
    }

    #[test]
    fn vlans_that_are_none_are_refused() {
        let access = |vlan| {
            refused(|config| {
                config.vlans = Some(vec![PortVlans::Access(1), PortVlans::Access(vlan)]);
            })
        };
        assert_eq!((access(1), access(4_094)), (None, None));
        assert_eq!(
            (access(0), access(4_095)),
            (Some(Refusal::Vlan(0)), Some(Refusal::Vlan(4_095)))
        );
        let empty = PortVlans::Trunk { tagged: BTreeSet::new(), native: Some(1) };
        let trunk = refused(|config| config.vlans = Some(vec![empty, PortVlans::Access(1)]));
        assert_eq!(trunk, Some(Refusal::EmptyTrunk("a".into())));
    }

    #[test]
    fn interfaces_that_make_no_switch_are_refused() {
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let refusal = |list: &[&str]| match interfaces(&names(list)) {
            Err(OpenError::Refused(refusal)) => refusal,
            other => panic!("{list:?}: {other:?}"),
        };
        assert_eq!(refusal(&["a"]), Refusal::Ports { got: 1, limit: 64 });
        assert_eq!(refusal(&["a", "b", "a"]), Refusal::Twice("a".into()));
        assert_eq!(refusal(&["no-such", "b"]), Refusal::NoInterface("no-such".into()));
        assert_eq!(refusal(&["lo", "b"]), Refusal::NotEthernet("lo".into()));
        let many: Vec<String> = (0..65).map(|port| format!("p{port}")).collect();
        let error = interfaces(&many).err();
        assert!(
            matches!(error, Some(OpenError::Refused(Refusal::Ports { got: 65, .. }))),
            "{error:?}"
        );
    }
}
