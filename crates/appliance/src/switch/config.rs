//! Configuration of a switch.

use wellspring_fabric::{ControlQueue, Limit, Overflow, PortConfig, Sharing, Victim};

use super::frame::Marking;
use super::recorder::CaptureConfig;
use super::snooping::SnoopingConfig;
use super::vlan::PortVlans;

/// How a switch treats frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// What each port sends at \[bit/s\]; as fast as the machine if none.
    pub rate: Option<u64>,
    /// The most data that waits at a port.
    pub queue: QueueLimit,
    /// What does not fit is trimmed, not dropped.
    pub trim: bool,
    /// Frames whose transport reads marks are marked when so many wait.
    pub mark_at: Option<u32>,
    /// What waits in the queue of headers and control packets of a port, at most \[bytes\].
    pub control_queue: u64,
    /// What trimming leaves of an IP packet \[bytes\]: at least IP's and UDP's headers and 16.
    pub keep: usize,
    /// Which DSCPs mean what.
    pub marking: Marking,
    /// VLANs of each port, in the order of the interfaces; without them tags are not looked at.
    pub vlans: Option<Vec<PortVlans>>,
    /// Packets of a multicast group go to the ports that asked for it; without this they go to all.
    pub snooping: Option<SnoopingConfig>,
    /// Record frames into a file.
    pub capture: Option<CaptureConfig>,
    /// Threads that the ports are divided among.
    pub threads: usize,
    /// Run before all other programs: without it frames are late on a busy machine.
    pub first: bool,
}

/// The most data that waits at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// So many frames.
    Frames(u32),
    /// So many bytes on the wire.
    Bytes(u64),
}

impl Default for SwitchConfig {
    /// 1 Gbit/s and 20 packets a port, as in the SCDP paper's simulations (§V), trimmed. Data classes are as many as
    /// [`Marking`] has DSCPs for symbols.
    fn default() -> Self {
        SwitchConfig {
            rate: Some(1_000_000_000),
            queue: QueueLimit::Frames(20),
            trim: true,
            mark_at: None,
            control_queue: 256 << 10,
            keep: 64,
            marking: Marking::default(),
            vlans: None,
            snooping: None,
            capture: None,
            threads: 1,
            first: true,
        }
    }
}

impl SwitchConfig {
    pub(super) fn port(&self) -> PortConfig {
        let classes = self.marking.symbols.len().clamp(1, PortConfig::MAX_CLASSES.into()) as u8;
        let control =
            ControlQueue { limit: Limit::Bytes(self.control_queue), ..ControlQueue::PAPER };
        PortConfig {
            control: self.trim.then_some(control),
            data_classes: if self.trim { classes } else { 1 },
            data_limit: match self.queue {
                QueueLimit::Frames(frames) => Limit::Packets(frames),
                QueueLimit::Bytes(bytes) => Limit::Bytes(bytes),
            },
            sharing: Sharing::Shared,
            overflow: if self.trim { Overflow::Trim(Victim::Arriving) } else { Overflow::Drop },
            ecn_threshold: self.mark_at.map_or(Limit::Unlimited, Limit::Packets),
        }
    }

    /// Threads for so many ports on this machine: one on a small machine, a quarter of a larger one's processors.
    pub fn threads_for(ports: usize) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (processors / 4).clamp(1, ports.max(1))
    }
}
