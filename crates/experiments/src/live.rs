//! A run that is stepped and looked at while it goes: every packet, queue and request.
//!
//! Looking changes nothing: a run in steps has the digest of one by [`run`](crate::run::run).

use crate::adapter::{Adapter, Lttp, Ndp, Scdp, Tcp};
pub use crate::look::{Live, PacketKind, PacketOnLink, PortState, Traffic};
use crate::record::FlowRecord;
use crate::run::{Ending, SimulatorOf, ending, prepare};
use crate::scenario::{ProtocolName, Scenario, TopologyKind};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use wellspring_core::{Ecn, Endpoint, Frame, Header, SessionId, Time};
use wellspring_sim::topology::{EgressId, Graph, NodeId};
use wellspring_sim::{Counters, TapPoint};
use wellspring_transport::lttp::LttpHeader;
use wellspring_transport::ndp::NdpHeader;
use wellspring_transport::tcp::TcpHeader;
use wellspring_wire::scdp::ScdpHeader;

/// Begins a run in steps.
///
/// # Errors
/// As for [`run`](crate::run::run); and two protocols in one scenario are not looked at.
pub fn start(scenario: &Scenario, seed: u64) -> Result<Box<dyn Live>> {
    if scenario.beside.is_some() {
        bail!("a run in steps has one protocol: leave out `beside`");
    }
    if scenario.topology.kind == TopologyKind::LongLink {
        return start_long_link(scenario, seed);
    }
    Ok(match scenario.protocol.name {
        ProtocolName::Scdp | ProtocolName::Polyraptor => {
            Box::new(Stepped::<Scdp>::new(scenario, seed)?)
        }
        ProtocolName::Lttp => Box::new(Stepped::<Lttp>::new(scenario, seed)?),
        ProtocolName::Ndp | ProtocolName::NdpPlus => Box::new(Stepped::<Ndp>::new(scenario, seed)?),
        ProtocolName::TcpNewReno | ProtocolName::Dctcp | ProtocolName::Pias => {
            Box::new(Stepped::<Tcp>::new(scenario, seed)?)
        }
        name @ (ProtocolName::TcpReno | ProtocolName::TcpCubic | ProtocolName::TcpBbr) => {
            bail!("{} needs topology.kind long-link", name.as_str())
        }
    })
}

#[cfg(feature = "long-link")]
fn start_long_link(scenario: &Scenario, seed: u64) -> Result<Box<dyn Live>> {
    Ok(Box::new(crate::long_link::Stepped::new(scenario, seed)?))
}

#[cfg(not(feature = "long-link"))]
fn start_long_link(_: &Scenario, _: u64) -> Result<Box<dyn Live>> {
    bail!("{}", crate::run::NO_LONG_LINK)
}

/// What a header says of its packet's payload.
enum Content {
    /// A packet of that number, or that begins at that byte.
    Numbered(u64),
    /// A symbol of a systematic code.
    Symbol { sbn: u32, esi: u32 },
    /// A symbol of an LT code.
    Coded,
    /// A request for more.
    Pull,
    /// Anything else.
    Control,
}

trait Visible: Header {
    fn content(&self) -> Content;
}

impl Visible for ScdpHeader {
    fn content(&self) -> Content {
        match self {
            ScdpHeader::Symbol(symbol) => Content::Symbol { sbn: symbol.sbn, esi: symbol.esi },
            ScdpHeader::Pull(_) => Content::Pull,
            ScdpHeader::Close(_) => Content::Control,
        }
    }
}

impl Visible for NdpHeader {
    fn content(&self) -> Content {
        match self {
            NdpHeader::Data(data) => Content::Numbered(data.number.into()),
            NdpHeader::Pull { .. } => Content::Pull,
            _ => Content::Control,
        }
    }
}

impl Visible for TcpHeader {
    fn content(&self) -> Content {
        match self {
            TcpHeader::Data { offset, .. } => Content::Numbered(*offset),
            TcpHeader::Ack { .. } | TcpHeader::Reset => Content::Control,
        }
    }
}

impl Visible for LttpHeader {
    fn content(&self) -> Content {
        match self {
            LttpHeader::Symbol { .. } => Content::Coded,
            _ => Content::Control,
        }
    }
}

/// What a tap has seen.
#[derive(Debug, Default)]
struct Seen {
    traffic: Traffic,
    /// Numbered packets sent, and whether more than once.
    numbered: BTreeMap<(SessionId, u64), bool>,
}

impl Seen {
    fn sent<H: Visible>(&mut self, frame: &Frame<H>) {
        match frame.header.content() {
            Content::Numbered(number) => {
                let known = self.numbered.contains_key(&(frame.session, number));
                self.numbered.insert((frame.session, number), known);
                let sum = if known { &mut self.traffic.again } else { &mut self.traffic.first };
                *sum += 1;
            }
            Content::Symbol { .. } | Content::Coded => self.traffic.first += 1,
            Content::Pull | Content::Control => {}
        }
    }

    fn received<H: Header>(&mut self, host: u32, frame: &Frame<H>) {
        let payload = u64::from(frame.payload_len);
        if let Some(sum) = self.traffic.received.get_mut(host as usize) {
            *sum += payload;
        }
        if let Some(sum) = self.traffic.sent.get_mut(frame.source.0 as usize) {
            *sum += payload;
        }
    }
}

/// A run of one protocol.
struct Stepped<A: Adapter> {
    sim: SimulatorOf<A>,
    graph: Graph,
    limit: Time,
    seen: Arc<Mutex<Seen>>,
    ending: Option<Ending>,
}

impl<A: Adapter> Stepped<A>
where
    <A::Endpoint as Endpoint>::Header: Visible,
{
    fn new(scenario: &Scenario, seed: u64) -> Result<Self> {
        let (graph, mut sim) = prepare::<A>(scenario, seed)?;
        let none = vec![0; graph.hosts() as usize];
        let traffic = Traffic { sent: none.clone(), received: none, ..Traffic::default() };
        let seen = Arc::new(Mutex::new(Seen { traffic, numbered: BTreeMap::new() }));
        let taps = seen.clone();
        sim.set_tap(move |_, point, frame| {
            let mut seen = taps.lock().unwrap_or_else(PoisonError::into_inner);
            match point {
                TapPoint::Sent(_) => seen.sent(frame),
                TapPoint::Received(host) => seen.received(host.0, frame),
            }
        });
        let limit = Time::ZERO + scenario.run.limit.0;
        Ok(Stepped { sim, graph, limit, seen, ending: None })
    }

    fn kind(&self, frame: &Frame<<A::Endpoint as Endpoint>::Header>) -> PacketKind {
        let content = frame.header.content();
        let is_payload = !matches!(content, Content::Pull | Content::Control);
        if is_payload && frame.trimmed {
            return PacketKind::Trimmed;
        }
        if is_payload && frame.ecn == Ecn::Marked {
            return PacketKind::Marked;
        }
        match content {
            Content::Numbered(number) => {
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                match seen.numbered.get(&(frame.session, number)) {
                    Some(true) => PacketKind::Again,
                    _ => PacketKind::Data,
                }
            }
            Content::Symbol { sbn, esi } => {
                let source = self.sim.application().source_symbols(frame.session, sbn);
                match source.is_some_and(|source| esi >= source) {
                    true => PacketKind::Repair,
                    false => PacketKind::Data,
                }
            }
            Content::Coded => PacketKind::Repair,
            Content::Pull => PacketKind::Pull,
            Content::Control => PacketKind::Control,
        }
    }
}

impl<A: Adapter> Live for Stepped<A>
where
    <A::Endpoint as Endpoint>::Header: Visible,
{
    fn run_to(&mut self, until: Time, max_events: u64) -> Option<Ending> {
        let last_event = self.sim.counters().events.saturating_add(max_events);
        while self.ending.is_none() {
            let events = last_event.saturating_sub(self.sim.counters().events);
            let patient_until = self.sim.application().patient_until().unwrap_or(self.limit);
            let until = until.earlier_of(self.limit);
            let status = self.sim.run_until(until.earlier_of(patient_until), events);
            self.ending = ending::<A>(&self.sim, status, self.limit);
            if events == 0 || self.sim.now().has_reached(until) {
                break;
            }
        }
        self.ending
    }

    fn now(&self) -> Time {
        self.sim.now()
    }

    fn counters(&self) -> Counters {
        self.sim.counters()
    }

    fn traffic(&self) -> Traffic {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).traffic.clone()
    }

    fn packets(&mut self, see: &mut dyn FnMut(PacketOnLink)) {
        let mut on_link = Vec::new();
        for node in 0..self.graph.nodes() {
            for port in self.sim.ports(NodeId(node)) {
                self.sim.on_link(port, |packet| on_link.push((port.0, packet)));
            }
        }
        for (port, packet) in on_link {
            let (kind, session) = (self.kind(&packet.frame), packet.frame.session.0);
            see(PacketOnLink { port, share: packet.share, kind, session });
        }
    }

    fn ports(&mut self, see: &mut dyn FnMut(PortState)) {
        for node in 0..self.graph.nodes() {
            for port in self.sim.ports(NodeId(node)) {
                let (data, _, control) = self.sim.queue_depth(port);
                see(PortState {
                    port: port.0,
                    node,
                    peer: self.sim.peer(port).0,
                    is_up: self.sim.is_up(port),
                    data,
                    control,
                    counters: self.sim.port_counters(port),
                });
            }
        }
    }

    fn longest_queue(&mut self) -> u32 {
        let switches = self.graph.hosts()..self.graph.nodes();
        let ports: Vec<EgressId> =
            switches.flat_map(|node| self.sim.ports(NodeId(node)).collect::<Vec<_>>()).collect();
        ports.into_iter().map(|port| self.sim.queue_depth(port).0).max().unwrap_or(0)
    }

    fn requests(&self, see: &mut dyn FnMut(&FlowRecord)) {
        self.sim.application().requests().for_each(see);
    }

    fn refused(&self) -> Option<String> {
        self.sim.application().refused.clone()
    }
}
