//! How requests become sessions of a protocol.

mod beside;
mod lttp;
mod tcp;

pub use beside::BesideTcp;
pub use lttp::Lttp;
pub use tcp::Tcp;

use crate::record::Reason;
use crate::scenario::{FabricKind, Protocol, ProtocolName, Scenario};
use wellspring_core::{Class, Endpoint, Frame, GroupId, HostId, Rate, Seed, SessionId};
use wellspring_sim::Actions;
use wellspring_transport::{ndp, scdp};
use wellspring_wire::scdp::{HEADER_WITH_OPTIONS_LEN, emit};

/// What a session's endpoints tell, whatever the protocol.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum News {
    /// A receiver has heard of it.
    Accepted,
    /// A receiver has so many more bytes.
    Progress(u64),
    /// A receiver has it all.
    Received(Account),
    /// A sender's retransmission timer went off, by congestion window and data in flight \[bytes\].
    TimedOut {
        /// Congestion window before it.
        window: u64,
        /// Sent and not acknowledged.
        in_flight: u64,
    },
    /// It ended without success, at a receiver or a sender.
    Failed(Reason),
    /// A sender has given this receiver up.
    Lost(HostId, Reason),
}

/// What a receiver counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Trimmed headers.
    pub trimmed: u64,
    /// Packets that arrived for nothing.
    pub needless: u64,
    /// Blocks that took the decoder.
    pub decoded_blocks: u32,
}

/// A protocol as experiments use it.
pub trait Adapter {
    /// One host of it.
    type Endpoint: Endpoint + core::fmt::Debug;

    /// By a scenario.
    fn new(scenario: &Scenario, seed: Seed) -> Self;
    /// The endpoint of a host whose links carry so much towards it.
    fn endpoint(&self, host: HostId, link: Rate) -> Self::Endpoint;
    /// Bytes of a packet's headers that its frames do not account for.
    fn overhead(&self) -> u8;
    /// One sender, one receiver.
    fn unicast(&self, leg: Leg, actions: &mut ActionsOf<Self>);
    /// One sender, several receivers; false if the protocol cannot.
    fn one_to_many(&self, leg: Leg, to: &[u32], actions: &mut ActionsOf<Self>) -> bool;
    /// Several senders, one receiver; false if the protocol cannot.
    fn many_to_one(&self, leg: Leg, from: &[u32], actions: &mut ActionsOf<Self>) -> bool;
    /// Ends a session early at its sender.
    fn cancel(&self, leg: Leg, actions: &mut ActionsOf<Self>);
    /// A frame's header as bytes behind UDP, for captures.
    fn header_bytes(&self, frame: &FrameOf<Self>) -> Vec<u8>;
    /// What an event says, and of which session.
    fn news(&self, event: <Self::Endpoint as Endpoint>::Event) -> Option<(SessionId, News)>;
    /// Why a command was refused, for people.
    fn describe(error: &<Self::Endpoint as Endpoint>::CommandError) -> String;
    /// How far an endpoint is with a session, in a line.
    fn brief(endpoint: &Self::Endpoint, session: SessionId) -> String;
    /// Symbols of a block of an object of so many bytes, for the latency of decoding.
    fn block_symbols(&self, bytes: u64, sbn: u32) -> u32;
}

/// The actions of a protocol's application.
pub type ActionsOf<A> = Actions<<<A as Adapter>::Endpoint as Endpoint>::Command>;

/// The frames of a protocol.
pub type FrameOf<A> = Frame<<<A as Adapter>::Endpoint as Endpoint>::Header>;

/// A session to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leg {
    /// Its number, not used before.
    pub session: SessionId,
    /// Sender (not used by many-to-one).
    pub from: u32,
    /// Receiver (not used by one-to-many).
    pub to: u32,
    /// Size \[bytes\].
    pub bytes: u64,
    /// Background: in the lowest class (SCDP §V-A), where there are several.
    pub background: bool,
    /// Of the TCP beside the scenario's protocol.
    pub beside: bool,
}

/// Where losses are inferred: packets by which spraying over short queues reorders.
const REORDERING: u32 = 32;

/// SCDP and Polyraptor.
#[derive(Debug)]
pub struct Scdp {
    protocol: Protocol,
    /// Senders have to outlast their receivers' patience.
    loses_packets: bool,
}

impl Scdp {
    fn object(&self, session: SessionId, bytes: u64) -> scdp::ObjectInfo {
        let Protocol { block_symbols, .. } = self.protocol;
        let tag = session.0.into();
        scdp::ObjectInfo::new(bytes, self.protocol.payload(), block_symbols, tag)
    }

    /// The class of all its symbols, if it does not sink with what is sent.
    fn class(&self, leg: Leg) -> Option<Class> {
        let Protocol { thresholds, by_final_size, .. } = &self.protocol;
        let lowest = self.protocol.data_classes();
        let by_size = || {
            let sunk = thresholds.iter().filter(|threshold| threshold.0 <= leg.bytes).count();
            (1 + sunk).min(lowest.into()) as Class
        };
        match (leg.background, by_final_size) {
            (true, _) => Some(lowest),
            (false, true) => Some(by_size()),
            (false, false) => None,
        }
    }

    fn send(&self, leg: Leg, role: scdp::Role, window: u16) -> scdp::Command {
        scdp::Command::Send(scdp::SendSession {
            session: leg.session,
            object: self.object(leg.session, leg.bytes),
            role,
            initial_window: window.min(255) as u8,
            class: self.class(leg),
            resume: None,
        })
    }
}

impl Adapter for Scdp {
    type Endpoint = scdp::Endpoint;

    fn new(scenario: &Scenario, _seed: Seed) -> Self {
        Scdp { protocol: scenario.protocol.clone(), loses_packets: scenario.loses_packets() }
    }

    fn endpoint(&self, host: HostId, link: Rate) -> scdp::Endpoint {
        let mut config = scdp::Config::new(host, self.protocol.pace(link));
        config.overhead_per_symbol = self.protocol.header.into();
        config.overhead = self.protocol.overhead;
        config.reckon_control = self.protocol.reckon_control;
        config.fabric = match self.protocol.fabric {
            FabricKind::Trimming => scdp::Fabric::Trimming,
            FabricKind::Shared => scdp::Fabric::Shared { reordering_threshold: REORDERING },
            FabricKind::Dedicated => scdp::Fabric::Dedicated {
                reordering_threshold: REORDERING,
                window: self.protocol.window.into(),
            },
        };
        config.min_timeout = self.protocol.min_timeout.0;
        if self.loses_packets {
            config.release_after = config.peer_timeout;
        }
        config.demotion_thresholds = match self.protocol.name {
            ProtocolName::Polyraptor => Vec::new(),
            _ => self.protocol.thresholds.iter().map(|size| size.0).collect(),
        };
        // The paper leaves stragglers to the application (SCDP §IV-D); here it waits.
        config.stragglers.detach = false;
        config.limits.symbols_per_block = self.protocol.block_symbols.max(1_024);
        scdp::Endpoint::new(config)
    }

    fn overhead(&self) -> u8 {
        self.protocol.header.saturating_sub(32)
    }

    fn unicast(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        let receiver = HostId(leg.to);
        let role = scdp::Role::Unicast { receiver, share: scdp::Share::WHOLE };
        actions.command(HostId(leg.from), self.send(leg, role, self.protocol.window));
    }

    fn one_to_many(&self, leg: Leg, to: &[u32], actions: &mut ActionsOf<Self>) -> bool {
        let group = GroupId(leg.session.0 & 0x7fff_ffff);
        let members: Vec<_> = to.iter().map(|host| HostId(*host)).collect();
        actions.create_group(group, HostId(leg.from), members.clone());
        let role = scdp::Role::OneToMany { group, members };
        actions.command(HostId(leg.from), self.send(leg, role, self.protocol.window));
        true
    }

    fn many_to_one(&self, leg: Leg, from: &[u32], actions: &mut ActionsOf<Self>) -> bool {
        for (index, sender) in from.iter().enumerate() {
            let share = scdp::Share { index: index as u8, count: from.len() as u8 };
            let role = scdp::Role::Unicast { receiver: HostId(leg.to), share };
            let window = self.protocol.window_per_sender;
            actions.command(HostId(*sender), self.send(leg, role, window));
        }
        true
    }

    fn cancel(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        let Leg { session, from, .. } = leg;
        actions.command(HostId(from), scdp::Command::Cancel { session });
    }

    /// The bytes that are sent over UDP, without an object's digest, which simulated ones lack.
    fn header_bytes(&self, frame: &FrameOf<Self>) -> Vec<u8> {
        let mut bytes = [0; HEADER_WITH_OPTIONS_LEN];
        let symbol_size = self.protocol.payload();
        let len = emit(frame.session, &frame.header, &[0; 32], symbol_size, &mut bytes);
        bytes[..len].to_vec()
    }

    fn news(&self, event: scdp::Event) -> Option<(SessionId, News)> {
        match event {
            scdp::Event::Accepted { session, .. } => Some((session, News::Accepted)),
            scdp::Event::BlockComplete { session, .. } => {
                let symbols = u64::from(self.protocol.block_symbols);
                let bytes = symbols * u64::from(self.protocol.payload());
                Some((session, News::Progress(bytes)))
            }
            scdp::Event::Received { session, stats } => {
                let account = Account {
                    trimmed: stats.senders.iter().map(|sender| sender.trimmed).sum(),
                    needless: stats.senders.iter().map(|sender| sender.needless).sum(),
                    decoded_blocks: stats.decoded_blocks,
                };
                Some((session, News::Received(account)))
            }
            scdp::Event::Failed { session, reason } => {
                let reason = match reason {
                    scdp::FailReason::Closed(_) => Reason::Closed,
                    scdp::FailReason::Exhausted => Reason::Exhausted,
                    _ => Reason::PeerLost,
                };
                Some((session, News::Failed(reason)))
            }
            scdp::Event::ReceiverLost { session, receiver, reason } => {
                let reason = reason.map_or(Reason::PeerLost, |_| Reason::Closed);
                Some((session, News::Lost(receiver, reason)))
            }
            _ => None,
        }
    }

    fn describe(error: &scdp::CommandError) -> String {
        error.to_string()
    }

    fn brief(endpoint: &scdp::Endpoint, session: SessionId) -> String {
        let blocks = match endpoint.progress(session) {
            Some((done, all)) => format!("has {done} of {all} blocks of it"),
            None => "does not receive it".to_owned(),
        };
        format!("{blocks}, {} sessions open", endpoint.sessions())
    }

    fn block_symbols(&self, bytes: u64, sbn: u32) -> u32 {
        self.object(SessionId(0), bytes).symbols_in_block(sbn)
    }
}

/// NDP and NDP+.
#[derive(Debug)]
pub struct Ndp {
    protocol: Protocol,
    paths: u16,
    seed: Seed,
}

/// Path labels where the number of equal paths is not known: few remain unused at any switch.
const PATHS: u16 = 64;
/// Packets between two [`News::Progress`].
const NDP_PROGRESS: u32 = 64;

impl Adapter for Ndp {
    type Endpoint = ndp::Endpoint;

    fn new(scenario: &Scenario, seed: Seed) -> Self {
        Ndp {
            protocol: scenario.protocol.clone(),
            paths: scenario
                .topology
                .fat_tree()
                .map_or(PATHS, |tree| tree.paths().min(u16::MAX.into()) as u16),
            seed,
        }
    }

    fn endpoint(&self, host: HostId, link: Rate) -> ndp::Endpoint {
        let mut config = ndp::Config::new(host, self.protocol.pace(link), self.seed);
        config.payload = self.protocol.payload();
        config.overhead_per_packet = self.protocol.header.into();
        config.initial_window = self.protocol.window;
        config.min_timeout = self.protocol.min_timeout.0;
        config.paths = self.paths;
        config.progress_every = NDP_PROGRESS;
        let thresholds = || self.protocol.thresholds.iter().map(|size| size.0).collect();
        config.priority = match (self.protocol.name, self.protocol.by_final_size) {
            (ProtocolName::NdpPlus, false) => ndp::Priority::BytesSent(thresholds()),
            (ProtocolName::NdpPlus, true) => ndp::Priority::FinalSize(thresholds()),
            _ => ndp::Priority::One,
        };
        ndp::Endpoint::new(config)
    }

    fn overhead(&self) -> u8 {
        self.protocol.header.saturating_sub(28)
    }

    fn unicast(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        let lowest = self.protocol.data_classes();
        let flow = ndp::SendFlow {
            session: leg.session,
            receiver: HostId(leg.to),
            transfer_len: leg.bytes,
            initial_window: None,
            class: leg.background.then_some(lowest),
        };
        actions.command(HostId(leg.from), ndp::Command::Send(flow));
    }

    fn one_to_many(&self, _: Leg, _: &[u32], _: &mut ActionsOf<Self>) -> bool {
        false
    }

    fn many_to_one(&self, _: Leg, _: &[u32], _: &mut ActionsOf<Self>) -> bool {
        false
    }

    fn cancel(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        let Leg { session, from, .. } = leg;
        actions.command(HostId(from), ndp::Command::Cancel { session });
    }

    /// NDP has no byte layout: a letter for the kind, the trimmed flag, then session and number.
    fn header_bytes(&self, frame: &FrameOf<Self>) -> Vec<u8> {
        let (kind, number) = match frame.header {
            ndp::NdpHeader::Data(data) => (b'D', data.number),
            ndp::NdpHeader::Ack { number, .. } => (b'A', number),
            ndp::NdpHeader::Nack { number } => (b'N', number),
            ndp::NdpHeader::Pull { granted } => (b'P', granted),
            ndp::NdpHeader::Done => (b'F', 0),
            ndp::NdpHeader::Close => (b'C', 0),
        };
        let mut bytes = vec![kind, u8::from(frame.trimmed), 0, 0];
        bytes.extend_from_slice(&frame.session.0.to_be_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes
    }

    fn news(&self, event: ndp::Event) -> Option<(SessionId, News)> {
        match event {
            ndp::Event::Accepted { session, .. } => Some((session, News::Accepted)),
            ndp::Event::Progress { session, .. } => {
                let bytes = u64::from(NDP_PROGRESS) * u64::from(self.protocol.payload());
                Some((session, News::Progress(bytes)))
            }
            ndp::Event::Received { session, stats, .. } => {
                let account = Account {
                    trimmed: stats.trimmed,
                    needless: stats.duplicates,
                    decoded_blocks: 0,
                };
                Some((session, News::Received(account)))
            }
            ndp::Event::Failed { session, reason } => {
                let reason = match reason {
                    ndp::FailReason::PeerLost => Reason::PeerLost,
                    ndp::FailReason::Closed => Reason::Closed,
                };
                Some((session, News::Failed(reason)))
            }
            ndp::Event::Sent { .. } => None,
        }
    }

    fn describe(error: &ndp::CommandError) -> String {
        error.to_string()
    }

    fn brief(endpoint: &ndp::Endpoint, _session: SessionId) -> String {
        format!("{} flows open", endpoint.open_flows())
    }

    fn block_symbols(&self, _bytes: u64, _sbn: u32) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn background_travels_in_the_lowest_class_and_sizes_choose_where_asked_for() {
        let classes = |settings: &[(&str, &str)]| {
            let mut plan = catalogue::plan("scdp-7").unwrap().without_sweep();
            for (key, value) in settings {
                plan.set(key, value).unwrap();
            }
            let scdp = Scdp::new(&plan.scenarios().unwrap()[0], Seed(1));
            let leg = Leg {
                session: SessionId(1),
                from: 0,
                to: 1,
                bytes: 4_000_000,
                background: false,
                beside: false,
            };
            [scdp.class(leg), scdp.class(Leg { background: true, ..leg })]
        };
        assert_eq!(classes(&[]), [None, Some(5)]);
        assert_eq!(classes(&[("protocol.by_final_size", "true")]), [Some(4), Some(5)]);
        assert_eq!(classes(&[("protocol.name", "polyraptor")]), [None, Some(1)]);
    }
}
