//! SCDP and Polyraptor as experiments use them.

use super::{Account, ActionsOf, Adapter, FrameOf, Leg, SessionEvent, multicast_group};
use crate::record::Reason;
use crate::scenario::{Configuration, FabricKind, Protocol, ProtocolName, Scenario};
use wellspring_core::{Class, HostId, Priority, Rate, Seed, SessionId};
use wellspring_sim::pcapng::Transport;
use wellspring_transport::scdp;
use wellspring_wire::scdp::{HEADER_WITH_OPTIONS_LEN, Mode, emit};

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
            priority: Priority::Normal,
        })
    }
}

impl Scdp {
    /// Paths of a session.
    fn paths(&self) -> u16 {
        self.protocol.paths.unwrap_or(1)
    }

    /// Tells the receiver who will send.
    fn announce(&self, leg: Leg, from: &[u32], mode: Mode, actions: &mut ActionsOf<Self>) {
        let Protocol { window, window_per_sender, .. } = self.protocol;
        let window = if mode == Mode::Unicast { window } else { window_per_sender };
        let receive = scdp::ReceiveSession {
            session: leg.session,
            object: self.object(leg.session, leg.bytes),
            mode,
            senders: from.iter().map(|sender| HostId(*sender)).collect(),
            initial_window: window.min(255) as u8,
            complete: Vec::new(),
            priority: Priority::Normal,
        };
        actions.command(HostId(leg.to), scdp::Command::Receive(receive));
    }

    /// Tells both ends of each path but the first.
    fn add_paths(&self, leg: Leg, from: &[u32], actions: &mut ActionsOf<Self>) {
        let session = leg.session;
        for &sender in from {
            for path in 1..self.paths() {
                for (host, peer) in [(sender, leg.to), (leg.to, sender)] {
                    let peer = HostId(peer);
                    let add = scdp::Command::AddPath { session, peer, path };
                    actions.command(HostId(host), add);
                }
            }
        }
    }
}

impl Adapter for Scdp {
    type Endpoint = scdp::Endpoint;

    fn new(scenario: &Scenario, _seed: Seed) -> Self {
        Scdp { protocol: scenario.protocol.clone(), loses_packets: scenario.loses_packets() }
    }

    fn endpoint(&self, host: HostId, link: Rate) -> scdp::Endpoint {
        let protocol = &self.protocol;
        let is_shipped = protocol.configuration == Configuration::Shipped;
        let mut config = match protocol.configuration {
            Configuration::Paper => scdp::Config::new(host, protocol.pace(link)),
            Configuration::Shipped => scdp::Config::shipped(host, protocol.pace(link)),
        };
        config.overhead_per_symbol = protocol.headers().into();
        let shipped_threshold = match config.fabric {
            scdp::Fabric::Shared { reordering_threshold } => Some(reordering_threshold),
            _ => None,
        };
        let reordering_threshold = shipped_threshold.unwrap_or(REORDERING);
        config.fabric = match protocol.fabric {
            FabricKind::Trimming => scdp::Fabric::Trimming,
            FabricKind::Shared => scdp::Fabric::Shared { reordering_threshold },
            FabricKind::Dedicated => {
                let window = if is_shipped { config.max_window } else { protocol.window.into() };
                scdp::Fabric::Dedicated { reordering_threshold, window }
            }
        };
        if !is_shipped {
            config.overhead = protocol.overhead;
            config.reckon_control = protocol.reckon_control;
            config.burst = protocol.burst;
            config.min_timeout = protocol.min_timeout.0;
            // The paper leaves stragglers to the application (SCDP §IV-D); here it waits.
            config.stragglers.detach = false;
        }
        if let Some(stragglers) = protocol.stragglers {
            config.stragglers = stragglers.policy();
        }
        config.gap_threshold = protocol.gap_threshold.or(config.gap_threshold);
        if self.paths() > 1 {
            (config.paths, config.directed) = (self.paths(), true);
        }
        config.congestion = self.protocol.congestion.algorithm();
        if self.loses_packets {
            config.release_after = config.peer_timeout;
        }
        config.demotion_thresholds = match self.protocol.name {
            ProtocolName::Polyraptor => Vec::new(),
            _ => self.protocol.thresholds.iter().map(|size| size.0).collect(),
        };
        config.limits.symbols_per_block = self.protocol.block_symbols.max(1_024);
        scdp::Endpoint::new(config)
    }

    fn overhead(&self) -> u8 {
        self.protocol.headers().saturating_sub(32)
    }

    fn unicast(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        let receiver = HostId(leg.to);
        let role = scdp::Role::Unicast { receiver, share: scdp::Share::WHOLE };
        let several = self.paths() > 1;
        if several {
            self.announce(leg, &[leg.from], Mode::Unicast, actions);
        }
        actions.command(HostId(leg.from), self.send(leg, role, self.protocol.window));
        if several {
            self.add_paths(leg, &[leg.from], actions);
        }
    }

    fn one_to_many(&self, leg: Leg, to: &[u32], actions: &mut ActionsOf<Self>) -> bool {
        let group = multicast_group(leg.session);
        let members: Vec<_> = to.iter().map(|host| HostId(*host)).collect();
        actions.create_group(group, HostId(leg.from), members.clone());
        let role = scdp::Role::OneToMany { group, members, held: Vec::new() };
        actions.command(HostId(leg.from), self.send(leg, role, self.protocol.window));
        true
    }

    fn many_to_one(&self, leg: Leg, from: &[u32], actions: &mut ActionsOf<Self>) -> bool {
        let several = self.paths() > 1;
        if several || self.protocol.configuration == Configuration::Shipped {
            // Over UDP sessions are announced before they begin: pulls can say who sends what.
            self.announce(leg, from, Mode::ManyToOne, actions);
        }
        for (index, sender) in from.iter().enumerate() {
            let share = scdp::Share { index: index as u8, count: from.len() as u8 };
            let role = scdp::Role::Unicast { receiver: HostId(leg.to), share };
            let window = self.protocol.window_per_sender;
            actions.command(HostId(*sender), self.send(leg, role, window));
        }
        if several {
            self.add_paths(leg, from, actions);
        }
        true
    }

    fn cancel(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        let Leg { session, from, .. } = leg;
        actions.command(HostId(from), scdp::Command::Cancel { session });
    }

    /// The bytes that are sent over UDP, without an object's digest, which simulated ones lack.
    fn captured(&self, frame: &FrameOf<Self>) -> Transport {
        let mut bytes = [0; HEADER_WITH_OPTIONS_LEN];
        let symbol_size = self.protocol.payload();
        let len = emit(frame.session, &frame.header, &[0; 32], symbol_size, &mut bytes);
        Transport::Udp(bytes[..len].to_vec())
    }

    fn session_event(&self, event: scdp::Event) -> Option<(SessionId, SessionEvent)> {
        match event {
            scdp::Event::Accepted { session, .. } => Some((session, SessionEvent::Accepted)),
            scdp::Event::BlockComplete { session, .. } => {
                let symbols = u64::from(self.protocol.block_symbols);
                let bytes = symbols * u64::from(self.protocol.payload());
                Some((session, SessionEvent::Progress(bytes)))
            }
            scdp::Event::Received { session, stats } => {
                let account = Account {
                    trimmed: stats.senders.iter().map(|sender| sender.trimmed).sum(),
                    redundant: stats.senders.iter().map(|sender| sender.redundant).sum(),
                    decoded_blocks: stats.decoded_blocks,
                };
                Some((session, SessionEvent::Received(account)))
            }
            scdp::Event::Failed { session, reason } => {
                let reason = match reason {
                    scdp::FailReason::Closed(_) => Reason::Closed,
                    scdp::FailReason::Exhausted => Reason::Exhausted,
                    _ => Reason::PeerLost,
                };
                Some((session, SessionEvent::Failed(reason)))
            }
            scdp::Event::MovedToUnicast { session } => Some((session, SessionEvent::LeavesGroup)),
            scdp::Event::ReceiverLost { session, receiver, reason } => {
                let reason = reason.map_or(Reason::PeerLost, |_| Reason::Closed);
                Some((session, SessionEvent::Lost(receiver, reason)))
            }
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::catalogue;

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
