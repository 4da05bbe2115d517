//! LTTP as experiments use it.

use super::{Account, ActionsOf, Adapter, FrameOf, Leg, SessionEvent};
use crate::scenario::{Protocol, Scenario};
use wellspring_core::{HostId, Rate, Seed, SessionId};
use wellspring_sim::pcapng::{Transport, client_port};
use wellspring_transport::lttp::{self, LttpHeader, Parameters};
use wellspring_wire::control::Name;
use wellspring_wire::lttp::{
    Cookie, Datagram, Geometry, Message, SYMBOL_HEADER_LEN, emit_header, emit_message,
};

/// Symbols between two [`SessionEvent::Progress`].
const PROGRESS: u32 = 16;

/// LTTP: a transfer is a session of its own, asked for by its receiver.
#[derive(Debug)]
pub struct Lttp {
    protocol: Protocol,
    seed: Seed,
}

impl Adapter for Lttp {
    type Endpoint = lttp::Endpoint;

    fn new(scenario: &Scenario, seed: Seed) -> Self {
        Lttp { protocol: scenario.protocol.clone(), seed }
    }

    fn endpoint(&self, host: HostId, _link: Rate) -> lttp::Endpoint {
        let mut config = lttp::Config::new(host, self.seed);
        config.symbol_size = self.protocol.payload();
        config.overhead_per_packet = self.protocol.headers().into();
        config.block_symbols = self.protocol.block_symbols;
        config.prevent_oscillation = self.protocol.lttp.prevent_oscillation;
        config.discounting = self.protocol.lttp.discounting;
        config.congestion = self.protocol.lttp.congestion.map(|kind| kind.algorithm());
        config.progress_every = PROGRESS;
        lttp::Endpoint::new(config)
    }

    fn overhead(&self) -> u8 {
        self.protocol.headers().saturating_sub(24)
    }

    fn unicast(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        let Leg { session, from, to, bytes, .. } = leg;
        let offer = lttp::Command::Offer { session, client: HostId(to), transfer_len: bytes };
        actions.command(HostId(from), offer);
        actions.command(HostId(to), lttp::Command::Request { session, server: HostId(from) });
    }

    fn cancel(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        let Leg { session, from, .. } = leg;
        actions.command(HostId(from), lttp::Command::Cancel { session });
    }

    fn captured(&self, frame: &FrameOf<Self>) -> Transport {
        let cookie = Cookie(frame.session.0.into());
        let datagram = |datagram: &Datagram<'_>| {
            let mut bytes = [0; SYMBOL_HEADER_LEN];
            let len = emit_header(cookie, datagram, &mut bytes);
            Transport::Udp(bytes[..len].to_vec())
        };
        match frame.header {
            LttpHeader::Symbol { stamp, sbn, esi } => datagram(&Datagram::Symbol {
                sbn,
                esi,
                number: stamp.number,
                sent: stamp.sent,
                rtt: stamp.rtt,
                payload: &[],
            }),
            LttpHeader::Report(report) => datagram(&Datagram::Report {
                echo: report.echo,
                delay: report.delay,
                receive_rate: report.receive_rate,
                loss_event_rate: report.loss_event_rate,
            }),
            LttpHeader::Request => message(frame, true, &request()),
            LttpHeader::Parameters(Parameters { transfer_len, symbol_size, block_symbols }) => {
                let geometry = Geometry { symbol_size, block_symbols };
                message(frame, false, &Message::Parameters { transfer_len, geometry })
            }
            LttpHeader::Stop { next } => message(frame, true, &Message::Stop { next }),
            LttpHeader::Stopped { next } => message(frame, false, &Message::Stopped { next }),
            LttpHeader::Close => message(frame, true, &Message::Close),
        }
    }

    fn session_event(&self, event: lttp::Event) -> Option<(SessionId, SessionEvent)> {
        match event {
            lttp::Event::Accepted { session, .. } => Some((session, SessionEvent::Accepted)),
            lttp::Event::Progress { session, bytes } => {
                Some((session, SessionEvent::Progress(bytes)))
            }
            lttp::Event::Received { session, stats, .. } => {
                let account = Account {
                    redundant: stats.redundant + stats.duplicates,
                    decoded_blocks: u32::try_from(stats.attempts).unwrap_or(u32::MAX).min(1),
                    ..Account::default()
                };
                Some((session, SessionEvent::Received(account)))
            }
            lttp::Event::Failed { session, reason } => {
                Some((session, SessionEvent::Failed(reason.into())))
            }
            _ => None,
        }
    }

    fn brief(endpoint: &lttp::Endpoint, _session: SessionId) -> String {
        format!("{} sessions open", endpoint.open_sessions())
    }

    fn block_symbols(&self, bytes: u64, sbn: u32) -> u32 {
        let parameters = lttp::Parameters {
            transfer_len: bytes,
            symbol_size: self.protocol.payload(),
            block_symbols: self.protocol.block_symbols,
        };
        parameters.symbols_in_block(sbn)
    }
}

/// A message of the control channel, which is a TCP connection of its own.
fn message(frame: &FrameOf<Lttp>, from_client: bool, message: &Message<'_>) -> Transport {
    let mut bytes = Vec::new();
    emit_message(message, &mut bytes);
    Transport::Message { client_port: client_port(frame.session), from_client, bytes }
}

/// Simulated objects have neither name nor digest, and are asked for whole.
fn request() -> Message<'static> {
    Message::Request {
        name: Name::new("simulated").expect("a name"),
        digest: [0; 32],
        offset: 0,
        len: u64::MAX,
        geometry: Geometry { symbol_size: 1, block_symbols: 1 },
        timeout_ms: 0,
    }
}
