//! TCP as experiments use it.

use super::{Account, ActionsOf, Adapter, FrameOf, Leg, SessionEvent, transfer};
use crate::scenario::{Halves, Protocol, ProtocolName, Scenario};
use wellspring_core::{HostId, Rate, Seed, SessionId};
use wellspring_sim::pcapng::{TcpHeader, Transport, client_port, flags};
use wellspring_transport::tcp;

/// Bytes between two [`SessionEvent::Progress`].
const PROGRESS: u64 = 100_000;
/// The port of receivers in captures: iperf's.
const SINK: u16 = 5_001;

/// TCP NewReno, DCTCP and PIAS.
#[derive(Debug)]
pub struct Tcp {
    protocol: Protocol,
    seed: Seed,
}

impl Adapter for Tcp {
    type Endpoint = tcp::Endpoint;

    fn new(scenario: &Scenario, seed: Seed) -> Self {
        Tcp { protocol: scenario.protocol.clone(), seed }
    }

    fn endpoint(&self, host: HostId, _link: Rate) -> tcp::Endpoint {
        let settings = &self.protocol.tcp;
        let congestion = match self.protocol.name {
            ProtocolName::Dctcp | ProtocolName::Pias => tcp::Congestion::Dctcp {
                gain: settings.gain,
                min_window: settings.min_window.into(),
            },
            _ => tcp::Congestion::NewReno,
        };
        let mut config = tcp::Config::new(host, congestion, self.seed);
        config.segment_size = self.protocol.payload();
        config.initial_window = settings.initial_window.map(u32::from);
        config.receive_window = settings.receive_window.0;
        config.initial_timeout = settings.initial_timeout.0;
        config.min_timeout = settings.min_timeout.0;
        config.delayed_ack = settings.delayed_ack.map(|delay| delay.0);
        config.limited_transmit = settings.limited_transmit;
        config.halves = match settings.halves {
            Halves::Flight => tcp::Halves::Flight,
            Halves::Window => tcp::Halves::Window,
        };
        config.progress_every = PROGRESS;
        config.priority = transfer::priority(&self.protocol);
        tcp::Endpoint::new(config)
    }

    fn overhead(&self) -> u8 {
        self.protocol.header.saturating_sub(20)
    }

    fn unicast(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        transfer::send(leg, &self.protocol, actions);
    }

    fn cancel(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        transfer::cancel(leg, actions);
    }

    /// Offsets stand for sequence numbers as they would behind a SYN.
    fn captured(&self, frame: &FrameOf<Self>) -> Transport {
        let (data, ack) = ([client_port(frame.session), SINK], [SINK, client_port(frame.session)]);
        let number = |offset: u64| (offset + 1) as u32;
        let (ports, sequence, acknowledgement, flags) = match frame.header {
            tcp::TcpHeader::Data { offset, .. } => (data, number(offset), 1, flags::ACK),
            tcp::TcpHeader::Ack { next, echo } => {
                let echo = if echo { flags::ECE } else { 0 };
                (ack, 1, number(next), flags::ACK | echo)
            }
            tcp::TcpHeader::Reset => (data, 1, 0, flags::RST),
        };
        let [source_port, destination_port] = ports;
        Transport::Tcp(TcpHeader {
            source_port,
            destination_port,
            sequence,
            acknowledgement,
            flags,
        })
    }

    fn session_event(&self, event: tcp::Event) -> Option<(SessionId, SessionEvent)> {
        match event {
            tcp::Event::TimedOut { session, state } => {
                let tcp::TimeoutState { window, in_flight } = state;
                Some((session, SessionEvent::TimedOut { window, in_flight }))
            }
            event => transfer::session_event(event, |stats| Account {
                redundant: stats.duplicates,
                ..Account::default()
            }),
        }
    }

    fn brief(endpoint: &tcp::Endpoint, _session: SessionId) -> String {
        format!("{} transfers open", endpoint.open_transfers())
    }
}
