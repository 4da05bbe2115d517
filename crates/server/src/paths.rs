//! Requests of clients to use another path in a session: from another of their ports, where routers choose paths by a hash
//! of addresses and ports, or between other addresses of the two hosts.

use wellspring_core::SessionId;
use wellspring_wire::control::{Addresses, Cookie, RefusalCode, Reply};

use super::answer::{Outcome, Owner, Refusal, Shown};
use super::cookie::Purpose;
use super::handler::{Handler, lock};
use crate::driver::ControlMessage;
use crate::protocols::At;

impl Handler {
    /// Tells a client of this host's addresses, beside the one that it knows. It needs no cookie: the answer is no longer
    /// than the question.
    pub(super) fn answer_addresses(&self, message: &ControlMessage, nonce: u64) {
        let written = Addresses::write(self.config.further_addresses.iter().copied());
        let addresses = Addresses::new(&written).expect("written like that");
        self.reply(message, nonce, &Reply::Addresses { addresses });
    }

    /// Sends to the client of a put where it is now, if that has changed: its key shows who it is.
    pub(super) fn follow_client(&self, session: SessionId, owner: Owner) {
        let moved = lock(&self.puts).follow(session, owner);
        if let Some(before) = moved {
            // A driver that has stopped has ended its sessions.
            let _ = self.handle.move_peer(before, owner.client);
            // The object's manifest is asked for there.
            self.requester.add_route(before, owner.client, 0);
        }
    }

    /// Answers a request to use another path. It comes by that path, whose address the cookie proves.
    pub(super) fn add_path(
        &self,
        shown: Shown<'_>,
        (session, path): (SessionId, u8),
        token: Cookie,
    ) -> Result<Outcome, Refusal> {
        let Shown { client, cookie, .. } = shown;
        let limit = self.config.driver.scdp.paths;
        if path == 0 || u16::from(path) >= limit {
            let text = format!("path {path} of a session (limit {limit} paths)");
            return Err(Refusal::new(RefusalCode::Unsupported, text));
        }
        let sends = lock(&self.sends).owner(session);
        let owner = sends.or_else(|| lock(&self.puts).owner(session));
        // Whose number another key has seen in the clear header of a symbol is none of its sessions, whatever its address.
        let Some(Owner { client: known, .. }) = owner.filter(|owner| owner.key == shown.key) else {
            return Err(Refusal::new(RefusalCode::NotFound, "no such session"));
        };
        let purpose = Purpose::Path { session, path };
        // Of others nothing shows that the session is theirs, unless they have heard what was sent to its own address.
        if known.ip() != client.ip() && !self.jar.is_good(known, token, purpose) {
            let text = "a path from another address than the session's";
            return Err(Refusal::new(RefusalCode::NotAllowed, text));
        }
        let steering = self.handle.steering();
        if steering.of(known.ip()) != steering.of(client.ip()) {
            let text = "another event loop of this server has that address: of a client's addresses, only those in one loop are \
                        paths of a session (serve --loops)";
            return Err(Refusal::new(RefusalCode::Unsupported, text));
        }
        if !self.jar.is_good(client, cookie, purpose) {
            return Ok(Outcome::Challenge(self.jar.bake(client, purpose)));
        }
        self.handle
            .add_path(session, (known, At::Shown(client)), path.into())
            .map_err(Refusal::failed)?;
        if lock(&self.puts).add_path(session, client) {
            // The object's manifest is asked for there if its client is not heard at its first address any more.
            self.requester.add_route(known, client, 0);
        }
        Ok(Outcome::Accepted)
    }
}
