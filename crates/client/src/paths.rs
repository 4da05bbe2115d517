//! Further paths of a session to a host: one for each port of this host beside the first.

use std::net::SocketAddr;
use std::time::Duration;

use crate::task::JoinSet;
use wellspring_core::SessionId;
use wellspring_wire::control::{Cookie, RefusalCode, Request};

use super::Client;
use super::requester::{Answer, AskError, Requester};
use crate::protocols::DriverHandle;

/// Pause before a path is asked for again of a host that is there.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause before a path by which nothing comes is tried again.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// Times that a host may know nothing of the session before it is believed: it is just opening it, or was lost.
const MAX_UNKNOWN: u32 = 100;

/// Tries to open the paths of a session to a host. Dropping it ends the trying; paths that are open stay.
pub(super) struct Paths(#[expect(dead_code, reason = "held for its tasks")] JoinSet<()>);

impl Paths {
    /// Begins to open all paths in a session.
    pub(super) fn open(client: &PathOpener, session: SessionId, host: SocketAddr) -> Self {
        let mut tasks = JoinSet::new();
        for path in 1..client.ports {
            tasks.spawn(client.clone().open(session, (host, path)));
        }
        Paths(tasks)
    }
}

/// What opening paths takes.
#[derive(Clone)]
pub(super) struct PathOpener {
    requester: Requester,
    handle: DriverHandle,
    timeout: Duration,
    ports: u8,
}

impl PathOpener {
    pub(super) fn of(client: &Client) -> Self {
        PathOpener {
            requester: client.requester.clone(),
            handle: client.driver.handle(),
            timeout: client.config.timeout,
            ports: client.config.driver.ports,
        }
    }

    /// Asks by the path until the host agrees, or does not want to.
    async fn open(self, session: SessionId, (host, path): (SocketAddr, u8)) {
        let request = Request::Path { session, path };
        let (mut cookie, mut unknown) = (Cookie::NONE, 0);
        loop {
            let shown = (&mut cookie, Some(path));
            let asked = self.requester.ask_by(host, &request, shown, self.timeout, &|_, _| {});
            let pause = match asked.await {
                Ok(Answer::Accepted) => {
                    // A driver that has stopped has no sessions.
                    let _ = self.handle.add_path(session, (host, None), path.into());
                    return;
                }
                Err(AskError::NoAnswer(_)) => LONG_PAUSE,
                Err(AskError::Refused { code: RefusalCode::Busy, .. }) => PAUSE,
                Err(AskError::Refused { code: RefusalCode::NotFound, .. }) => {
                    unknown += 1;
                    if unknown == MAX_UNKNOWN {
                        return;
                    }
                    PAUSE
                }
                answer => {
                    tracing::debug!(%host, path, ?answer, "no further path");
                    return;
                }
            };
            tokio::time::sleep(pause).await;
        }
    }
}
