//! Requests of clients to use another of their ports in a session: another path, where routers choose paths by a hash of
//! addresses and ports.

use wellspring_core::SessionId;
use wellspring_wire::control::RefusalCode;

use super::answer::{Outcome, Refusal, Shown};
use super::cookie::Purpose;
use super::handler::{Handler, lock};

impl Handler {
    /// Answers a request to use another path. It comes by that path, whose address the cookie proves.
    pub(super) fn add_path(
        &self,
        shown: Shown<'_>,
        session: SessionId,
        path: u8,
    ) -> Result<Outcome, Refusal> {
        let Shown { client, cookie, .. } = shown;
        let limit = self.config.driver.scdp.paths;
        if path == 0 || u16::from(path) >= limit {
            let text = format!("path {path} of a session (limit {limit} paths)");
            return Err(Refusal::new(RefusalCode::Unsupported, text));
        }
        let sends = lock(&self.sends).client(session);
        let Some(known) = sends.or_else(|| lock(&self.puts).client(session)) else {
            return Err(Refusal::new(RefusalCode::NotFound, "no such session"));
        };
        // Of others nothing shows that the session is theirs.
        if known.ip() != client.ip() {
            let text = "a path from another address than the session's";
            return Err(Refusal::new(RefusalCode::NotAllowed, text));
        }
        let purpose = Purpose::Path { session, path };
        if !self.jar.is_good(client, cookie, purpose) {
            return Ok(Outcome::Challenge(self.jar.bake(client, purpose)));
        }
        self.handle
            .add_path(session, (known, Some(client)), path.into())
            .map_err(Refusal::failed)?;
        Ok(Outcome::Accepted)
    }
}
