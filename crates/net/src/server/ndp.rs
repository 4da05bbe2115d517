//! Objects on their way out by NDP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_core::SessionId;
use wellspring_transport::ndp::{ReceiveStats, SendStats};
use wellspring_wire::control::{RefusalCode, StartNdp};

use super::cookie::Purpose;
use super::requests::{Handler, Outcome, Refusal, Shown, lock};
use super::{ServerEvent, SessionReport};
use crate::driver::SessionEvent;
use crate::store::Digest;

/// Transfers under way: to whom, and of what.
pub(super) type Transfers = BTreeMap<SessionId, (SocketAddr, String)>;

impl Handler {
    /// Answers a request to send an object by NDP.
    pub(super) fn start_ndp(&self, shown: Shown, start: &StartNdp<'_>) -> Result<Outcome, Refusal> {
        let Shown { client, cookie } = shown;
        let session = start.session;
        let endpoint = self.handle.ndp();
        if start.payload != endpoint.payload {
            let text = format!("packets of {} bytes (only {})", start.payload, endpoint.payload);
            return Err(Refusal::new(RefusalCode::Unsupported, text));
        }
        let open = lock(&self.ndp).get(&session).cloned();
        match open {
            Some((of, name)) if of == client && name == start.name.as_str() => {
                return Ok(Outcome::Accepted);
            }
            Some(_) => {
                return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
            }
            None => {}
        }
        let purpose = Purpose::StartNdp {
            name: start.name.as_str(),
            digest: Digest(start.digest),
            payload: start.payload,
        };
        if !self.jar.spend(client, cookie, purpose) {
            return Ok(Outcome::Challenge(self.jar.bake(client, purpose)));
        }
        let outcome = self.open_ndp(client, start);
        if !matches!(outcome, Ok(Outcome::Accepted)) {
            self.jar.give_back(cookie);
        }
        outcome
    }

    fn open_ndp(&self, client: SocketAddr, start: &StartNdp<'_>) -> Result<Outcome, Refusal> {
        let session = start.session;
        let endpoint = self.handle.ndp();
        let held = match self.held(start.name.as_str(), start.digest)? {
            Ok(held) if held.size > 0 => held,
            Ok(_) => {
                let text = "an empty object needs no transfer";
                return Err(Refusal::new(RefusalCode::Unsupported, text));
            }
            Err(answer) => return Ok(answer),
        };
        let mut transfers = lock(&self.ndp);
        match transfers.get(&session) {
            Some(open) if *open == (client, held.name.to_string()) => return Ok(Outcome::Accepted),
            Some(_) => {
                return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
            }
            None if transfers.len() >= self.config.max_sends => {
                let limit = self.config.max_sends;
                let text = format!("{limit} objects are being sent already; try again later");
                return Err(Refusal::new(RefusalCode::Busy, text));
            }
            None => {}
        }
        let reports = self.reports.clone();
        let events = Box::new(move |event| {
            // Nobody listens only when the server is going away.
            let _ = reports.send(SessionReport::Ndp { session, event });
        });
        endpoint
            .send(session, held.size, Arc::new(held.source), client, events)
            .map_err(|error| Refusal::new(RefusalCode::Failed, error.to_string()))?;
        let name = held.name.to_string();
        transfers.insert(session, (client, name.clone()));
        drop(transfers);
        self.tell(ServerEvent::Sending { name, client, share: (0, 1), resumed: false });
        Ok(Outcome::Accepted)
    }

    pub(super) fn on_ndp_event(
        &self,
        session: SessionId,
        event: SessionEvent<ReceiveStats, SendStats>,
    ) {
        if !event.is_last() {
            return;
        }
        let Some((client, name)) = lock(&self.ndp).remove(&session) else { return };
        match event {
            SessionEvent::Sent { stats } => self.tell(ServerEvent::SentNdp { name, client, stats }),
            SessionEvent::Failed(failure) => {
                self.tell(ServerEvent::SendFailed { name, client, reason: failure.to_string() });
            }
            _ => {}
        }
    }
}
