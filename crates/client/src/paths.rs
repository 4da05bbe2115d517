//! Further paths of a session to a host: one for each port of this host beside the first, and as many to each further
//! address of the host.

use std::net::SocketAddr;
use std::time::Duration;

use crate::task::JoinSet;
use wellspring_core::SessionId;
use wellspring_wire::control::{Cookie, RefusalCode, Request};

use super::Client;
use crate::driver::MAX_PORTS;
use crate::protocols::{At, DriverHandle};
use crate::requester::{Answer, AskError, Requester};
use wellspring_net::addresses::heard;

/// Pause before a path is asked for again of a host that is there.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause before a path by which nothing comes is tried again; for further addresses it doubles up to the longest.
const LONG_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a further address is asked with one token, which is good for ten seconds.
const TOKEN_PATIENCE: Duration = Duration::from_secs(4);
/// Times that a host may know nothing of the session before it is believed: it is just opening it, or was lost.
const MAX_UNKNOWN: u32 = 100;

/// Tries to open the paths of a session to a host. Dropping it ends the trying; paths that are open stay.
pub(super) struct Paths(JoinSet<()>);

impl Paths {
    /// Begins to open all paths in a session: by the ports of this host, and to those addresses.
    pub(super) fn open(
        opener: &PathOpener,
        session: SessionId,
        host: SocketAddr,
        further: &[SocketAddr],
    ) -> Self {
        let mut paths = Self::by_ports(opener, session, host);
        for (path, address) in opener.paths_to(further) {
            paths.0.spawn(opener.clone().open_further(session, (host, address, path), false));
        }
        paths
    }

    /// The same, to the addresses that the host tells of. Only the sender of a session may ask so late.
    pub(super) fn open_as_told(opener: &PathOpener, session: SessionId, host: SocketAddr) -> Self {
        let mut paths = Self::by_ports(opener, session, host);
        if opener.further == 0 {
            return paths;
        }
        let opener = opener.clone();
        paths.0.spawn(async move {
            let further = heard(opener.requester.ask_for_addresses(host)).await;
            let mut tasks = JoinSet::new();
            for (path, address) in opener.paths_to(&further) {
                tasks.spawn(opener.clone().open_further(session, (host, address, path), true));
            }
            while tasks.join_next().await.is_some() {}
        });
        paths
    }

    fn by_ports(opener: &PathOpener, session: SessionId, host: SocketAddr) -> Self {
        let mut tasks = JoinSet::new();
        for path in 1..opener.ports {
            tasks.spawn(opener.clone().open(session, (host, path)));
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
    further: u8,
}

impl PathOpener {
    pub(super) fn of(client: &Client) -> Self {
        PathOpener {
            requester: client.requester.clone(),
            handle: client.driver.handle(),
            timeout: client.config.timeout,
            ports: client.config.driver.ports,
            further: client.config.further_addresses,
        }
    }

    /// Numbers of the paths to further addresses, each of which has a port; as many as may be used.
    fn paths_to(&self, further: &[SocketAddr]) -> Vec<(u8, SocketAddr)> {
        let may_ask = |address: &&SocketAddr| self.requester.may_ask(**address);
        let each = further.iter().filter(may_ask).take(self.further.into());
        let all = each.flat_map(|address| (0..self.ports).map(|_| *address));
        let paths: Vec<_> = (self.ports..MAX_PORTS).zip(all).collect();
        if let Some((last, _)) = paths.last() {
            // A driver that has stopped has no sessions.
            let _ = self.handle.open_ports(last + 1);
        }
        paths
    }

    /// Asks by the path until the host agrees, or does not want to.
    async fn open(self, session: SessionId, (host, path): (SocketAddr, u8)) {
        let request = Request::Path { session, path, token: Cookie::NONE };
        let (mut cookie, mut unknown) = (Cookie::NONE, 0);
        loop {
            let shown = (&mut cookie, Some(path));
            let asked = self.requester.ask_by(host, &request, shown, self.timeout, &|_, _| {});
            let answer = asked.await;
            if answer == Ok(Answer::Accepted) {
                let _ = self.handle.add_path(session, (host, At::ItsAddress), path.into());
                return;
            }
            match pause_after(answer, LONG_PAUSE, &mut unknown) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return,
            }
        }
    }

    /// Asks at a further address of the host until it agrees, or does not want to. A host that receives pulls as soon as
    /// it has agreed, so a sender (`sends`) must know the path before.
    async fn open_further(
        self,
        session: SessionId,
        (host, address, path): (SocketAddr, SocketAddr, u8),
        sends: bool,
    ) {
        let add = || self.handle.add_path(session, (host, At::Other(address)), path.into());
        if sends {
            let _ = add();
        }
        let (mut unknown, mut long_pause) = (0, LONG_PAUSE);
        loop {
            let answer = self.ask_further(session, (host, address, path)).await;
            if answer == Ok(Answer::Accepted) {
                self.requester.add_route(host, address, path);
                let _ = add();
                return;
            }
            match pause_after(answer, long_pause, &mut unknown) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return,
            }
            long_pause = (long_pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn ask_further(
        &self,
        session: SessionId,
        (host, address, path): (SocketAddr, SocketAddr, u8),
    ) -> Result<Answer, AskError> {
        // This host may have another address there, too: then the token shows that the session is its.
        let own = Request::Path { session, path, token: Cookie::NONE };
        let token = self.requester.challenge(host, &own, self.timeout).await?;
        let request = Request::Path { session, path, token };
        let mut cookie = Cookie::NONE;
        let shown = (&mut cookie, Some(path));
        self.requester.ask_by(address, &request, shown, TOKEN_PATIENCE, &|_, _| {}).await
    }
}

/// How long to wait before a path is asked for again; `None` if the host does not want it.
fn pause_after(
    answer: Result<Answer, AskError>,
    long: Duration,
    unknown: &mut u32,
) -> Option<Duration> {
    match answer {
        Err(AskError::NoAnswer(_) | AskError::PortClosed | AskError::Unreachable(_)) => Some(long),
        Err(AskError::Refused { code: RefusalCode::Busy, .. }) => Some(PAUSE),
        // A session that is not open yet, or a token that was on its way for too long.
        Err(AskError::Refused {
            code: RefusalCode::NotFound | RefusalCode::NotAllowed, ..
        }) if *unknown < MAX_UNKNOWN => {
            *unknown += 1;
            Some(PAUSE)
        }
        answer => {
            tracing::debug!(?answer, "no further path");
            None
        }
    }
}
