//! LTTP as experiments use it.

use super::{Account, ActionsOf, Adapter, FrameOf, Leg, SessionEvent};
use crate::scenario::{Protocol, Scenario};
use wellspring_core::{HostId, Rate, Seed, SessionId};
use wellspring_transport::lttp;

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
        config.overhead_per_packet = self.protocol.header.into();
        config.block_symbols = self.protocol.block_symbols;
        config.prevent_oscillation = self.protocol.lttp.prevent_oscillation;
        config.discounting = self.protocol.lttp.discounting;
        config.progress_every = PROGRESS;
        lttp::Endpoint::new(config)
    }

    fn overhead(&self) -> u8 {
        self.protocol.header.saturating_sub(24)
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

    /// LTTP has no byte layout here: a letter for the kind, then session, block and symbol.
    fn header_bytes(&self, frame: &FrameOf<Self>) -> Vec<u8> {
        let (kind, block, symbol) = match frame.header {
            lttp::LttpHeader::Request => (b'Q', 0, 0),
            lttp::LttpHeader::Parameters(parameters) => (b'P', parameters.blocks(), 0),
            lttp::LttpHeader::Symbol { sbn, esi, .. } => (b'D', sbn, esi),
            lttp::LttpHeader::Report(_) => (b'R', 0, 0),
            lttp::LttpHeader::Stop { next } => (b'S', next, 0),
            lttp::LttpHeader::Stopped { next } => (b'T', next, 0),
            lttp::LttpHeader::Close => (b'C', 0, 0),
        };
        let mut bytes = vec![kind, 0, 0, 0];
        for number in [frame.session.0, block, symbol] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes
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
