//! TCP as experiments use it.

use super::{Account, ActionsOf, Adapter, FrameOf, Leg, SessionEvent, transfer};
use crate::scenario::{Protocol, ProtocolName, Scenario};
use wellspring_core::{HostId, Rate, Seed, SessionId};
use wellspring_transport::tcp;

/// Bytes between two [`SessionEvent::Progress`].
const PROGRESS: u64 = 100_000;

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

    /// Not TCP's own layout, which captures put behind UDP: a letter for the kind, ECN-echo, then
    /// session and sequence number.
    fn header_bytes(&self, frame: &FrameOf<Self>) -> Vec<u8> {
        let (kind, echo, number) = match frame.header {
            tcp::TcpHeader::Data { offset, .. } => (b'D', false, offset),
            tcp::TcpHeader::Ack { next, echo } => (b'A', echo, next),
            tcp::TcpHeader::Reset => (b'R', false, 0),
        };
        let mut bytes = vec![kind, u8::from(echo), 0, 0];
        bytes.extend_from_slice(&frame.session.0.to_be_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes
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
