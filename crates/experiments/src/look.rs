//! Interface of a run in steps: its packets, ports, traffic and requests at one moment.

use crate::outcome::Ending;
use crate::record::FlowRecord;
use wellspring_core::Time;
use wellspring_sim::{Counters, PortCounters};

/// What a packet is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PacketKind {
    /// Data, or a source symbol, sent for the first time.
    Data = 0,
    /// A repair symbol, or any symbol of an LT code.
    Repair = 1,
    /// Data that was sent before.
    Again = 2,
    /// What a switch left of a packet: its header.
    Trimmed = 3,
    /// A request for more packets.
    Pull = 4,
    /// Acknowledgements, reports and ends.
    Control = 5,
    /// Data that a switch has marked (ECN).
    Marked = 6,
}

/// A packet on a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PacketOnLink {
    /// The port that sends it.
    pub port: u32,
    /// The part of its way that is behind it, 0 to 1.
    pub share: f32,
    /// What it is for.
    pub kind: PacketKind,
    /// Its session.
    pub session: u32,
}

/// A port and what waits there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortState {
    /// Number of the port.
    pub port: u32,
    /// Its node.
    pub node: u32,
    /// The node at the other end of its link.
    pub peer: u32,
    /// Whether the link is up.
    pub is_up: bool,
    /// Data packets that wait.
    pub data: u32,
    /// Control packets that wait.
    pub control: u32,
    /// What it has done so far.
    pub counters: PortCounters,
}

/// What hosts have sent and received so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Payload that arrived anywhere, by the host that sent it \[bytes\].
    pub sent: Vec<u64>,
    /// Payload that arrived, by the host that received it \[bytes\].
    pub received: Vec<u64>,
    /// Symbols, and packets with payload that hosts sent for the first time.
    pub first: u64,
    /// Packets with payload that hosts sent once more; symbols of a code are never sent twice.
    pub again: u64,
    /// Packets that appliances brought back.
    pub recovered: u64,
}

/// A run in steps.
pub trait Live {
    /// Runs up to and including `until`, or for about `max_events` events; tells how it ended, once
    /// it has.
    fn run_to(&mut self, until: Time, max_events: u64) -> Option<Ending>;
    /// The time run up to.
    fn now(&self) -> Time;
    /// Counts of the network.
    fn counters(&self) -> Counters;
    /// What hosts have sent and received.
    fn traffic(&self) -> Traffic;
    /// All packets on links.
    fn packets(&mut self, see: &mut dyn FnMut(PacketOnLink));
    /// All ports.
    fn ports(&mut self, see: &mut dyn FnMut(PortState));
    /// The most data packets that wait at a switch port.
    fn longest_queue(&mut self) -> u32;
    /// All requests made so far, those that have ended first.
    fn requests(&self, see: &mut dyn FnMut(&FlowRecord));
    /// Why the run cannot be, if an endpoint refused a command.
    fn refused(&self) -> Option<String>;
}
