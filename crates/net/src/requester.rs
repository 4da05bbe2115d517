//! Requests that are repeated until they are answered.

mod answer;
mod table;

use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use wellspring_wire::control::{Cookie, Probe, Request, emit_request};

pub use self::answer::{Answer, AskError, Echo};
pub use self::table::Table;
use self::table::{Says, Waiter, Waiting, lock};
use crate::addresses::{FurtherAddresses, Routes, Told, usable};
use crate::canonical;
use crate::driver::{ControlMessage, OutgoingControl};
use crate::narrow_paths::NarrowPaths;
use crate::protocols::DriverHandle;

/// Pause before a request is first repeated; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Pauses before asking again for an answer that takes time: the first, and the longest.
const PENDING_PAUSE: (Duration, Duration) =
    (Duration::from_micros(500), Duration::from_millis(100));
/// Challenges in a row, at most: a server that goes on challenging does not follow the protocol.
const MAX_CHALLENGES: u32 = 4;

/// How long a server is asked for its further addresses; whoever does not say is asked again by the next transfer.
const ADDRESSES_PATIENCE: Duration = Duration::from_secs(2);

/// How a request leaves.
#[derive(Clone, Copy)]
struct Leaves {
    path: Option<u8>,
    class: Option<u8>,
    /// Pause before it is first repeated.
    first_pause: Duration,
}

/// Asks servers, through the driver's socket. Clones share everything.
#[derive(Clone)]
pub struct Requester {
    handle: DriverHandle,
    table: Arc<Table>,
    only_loopback: bool,
}

impl Requester {
    /// Asks through that driver; who reads its control messages gives them to the table.
    pub fn new(handle: DriverHandle, table: Arc<Table>) -> Self {
        Requester { handle, table, only_loopback: false }
    }

    /// Asks this machine alone: whoever answered in another's place would get all that is sent in clear.
    #[must_use]
    pub fn only_loopback(self) -> Self {
        Requester { only_loopback: true, ..self }
    }

    /// Whether that address may be asked.
    pub fn may_ask(&self, address: SocketAddr) -> bool {
        !self.only_loopback || address.ip().to_canonical().is_loopback()
    }

    /// What sealing adds to each datagram \[bytes\].
    pub fn sealing_overhead(&self) -> u16 {
        self.handle.sealing_overhead()
    }

    /// The paths that were found to be narrow.
    pub fn narrow_paths(&self) -> &NarrowPaths {
        &self.table.narrow
    }

    /// Takes in a datagram that may be a reply.
    pub fn take_in(&self, message: &ControlMessage) {
        self.table.take_in(message);
    }

    /// Whether an address has answered, and been neither closed nor silent since.
    pub fn answers(&self, address: SocketAddr) -> bool {
        self.table.answers(address)
    }

    /// Whether nobody listened at an address when something was sent there last.
    pub fn is_closed(&self, address: SocketAddr) -> bool {
        self.table.is_closed(address)
    }

    /// Repeats a request until it is answered, or until nothing was heard for `patience`. `cookie` is the one that
    /// was given for this request, or none. While the server replies that it is still working, the request
    /// waits, and `pending` is called with the progress.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn ask(
        &self,
        to: SocketAddr,
        request: &Request<'_>,
        mut cookie: Cookie,
        patience: Duration,
        pending: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Answer, AskError> {
        self.ask_with(to, request, &mut cookie, patience, pending).await
    }

    /// As [`ask`](Self::ask); a cookie that the server gives is left in `cookie`, for the next
    /// request of the kind.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn ask_with(
        &self,
        to: SocketAddr,
        request: &Request<'_>,
        cookie: &mut Cookie,
        patience: Duration,
        pending: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Answer, AskError> {
        self.ask_by(to, request, (cookie, None), patience, pending).await
    }

    /// As [`ask_with`](Self::ask_with), by that path alone.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn ask_by(
        &self,
        to: SocketAddr,
        request: &Request<'_>,
        (cookie, path): (&mut Cookie, Option<u8>),
        patience: Duration,
        pending: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Answer, AskError> {
        let to = canonical(to);
        let mut give_up = Instant::now() + patience;
        let mut challenges = 0;
        let mut pause = PENDING_PAUSE.0;
        let leaves = Leaves { path, class: None, first_pause: FIRST_PAUSE };
        loop {
            match self.ask_once(to, request, (*cookie, leaves), give_up, patience).await? {
                Says::Final(answer) => return answer,
                Says::Challenge(given) => {
                    *cookie = given;
                    challenges += 1;
                    if challenges > MAX_CHALLENGES {
                        return Err(AskError::Nonsense);
                    }
                }
                Says::Pending { done, total } => {
                    pending(done, total);
                    challenges = 0;
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PENDING_PAUSE.1);
                    give_up = Instant::now() + patience;
                }
            }
        }
    }

    /// Sends a probe in that traffic class, once, and waits so long for its reply.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn probe(
        &self,
        to: SocketAddr,
        (probe, class): (Probe, u8),
        patience: Duration,
    ) -> Result<Echo, AskError> {
        let leaves = Leaves { path: Some(0), class: Some(class), first_pause: patience };
        let (give_up, request) = (Instant::now() + patience, Request::Probe(probe));
        let with = (Cookie::NONE, leaves);
        match self.ask_once(canonical(to), &request, with, give_up, patience).await? {
            Says::Final(Ok(Answer::Probed(echo))) => Ok(echo),
            Says::Final(Err(error)) => Err(error),
            _ => Err(AskError::Nonsense),
        }
    }

    /// The cookie that a server answers a request with that comes without one, by the path that leads there.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn challenge(
        &self,
        to: SocketAddr,
        request: &Request<'_>,
        patience: Duration,
    ) -> Result<Cookie, AskError> {
        let leaves = Leaves { path: Some(0), class: None, first_pause: FIRST_PAUSE };
        let (give_up, with) = (Instant::now() + patience, (Cookie::NONE, leaves));
        match self.ask_once(canonical(to), request, with, give_up, patience).await? {
            Says::Challenge(cookie) => Ok(cookie),
            Says::Final(Err(error)) => Err(error),
            _ => Err(AskError::Nonsense),
        }
    }

    /// A server is reached by that address, too, by the path of that number: requests that begin nothing may go there.
    pub fn add_route(&self, server: SocketAddr, address: SocketAddr, path: u8) {
        self.further().add_route(canonical(server), canonical(address), path);
    }

    /// Asks a server for its further addresses, unless it has been asked.
    pub fn ask_for_addresses(&self, server: SocketAddr) -> Told {
        let server = canonical(server);
        let mut further = self.further();
        if let Some(told) = further.told(server) {
            return told;
        }
        let (tell, told) = further.ask(server);
        let requester = self.clone();
        crate::task::spawn(async move {
            let request = Request::Addresses;
            let answer =
                requester.ask(server, &request, Cookie::NONE, ADDRESSES_PATIENCE, &|_, _| {});
            match answer.await {
                // Nobody may wait for it.
                Ok(Answer::Addresses(told)) => drop(tell.send(Some(usable(server, told)))),
                _ => requester.further().forget(server),
            }
        });
        told
    }

    /// Further addresses of servers.
    fn further(&self) -> MutexGuard<'_, FurtherAddresses> {
        lock(&self.table.further)
    }

    /// Repeats one request until anything comes back.
    async fn ask_once(
        &self,
        to: SocketAddr,
        request: &Request<'_>,
        (cookie, Leaves { path, class, first_pause }): (Cookie, Leaves),
        give_up: Instant,
        patience: Duration,
    ) -> Result<Says, AskError> {
        if !self.may_ask(to) {
            return Err(AskError::Clear);
        }
        let nonce = crate::random::number();
        let mut bytes = Vec::new();
        emit_request(nonce, cookie, request, &mut bytes);
        let (sender, mut receiver) = oneshot::channel();
        // What begins nothing may be asked by any path, until one leads there.
        let begins_nothing = matches!(
            request,
            Request::Info { .. } | Request::Manifest { .. } | Request::Status { .. }
        );
        let by_any_path = path.is_none() && begins_nothing;
        // The paths of a session that is open keep their numbers.
        let finds_first = by_any_path && matches!(request, Request::Info { .. });
        let routes = if by_any_path { self.further().routes(to) } else { Routes::default() };
        let (attempts, closed, reported) = (0, 0, 0);
        let waiter = Waiter {
            asked: to,
            routes: routes.clone(),
            by_any_path,
            attempts,
            closed,
            reported,
            no_way: None,
            sender,
        };
        lock(&self.table.waiting).insert(nonce, waiter);
        let _waiting = Waiting { table: &self.table, nonce };
        let (mut pause, mut attempt) = (first_pause, 0_u8);
        loop {
            let bytes = bytes.clone();
            let first = (to, path.unwrap_or(attempt % self.handle.ports()));
            let (address, path) = routes.attempt(attempt).unwrap_or(first);
            let message = OutgoingControl {
                to: address,
                path,
                port: None,
                local: None,
                class,
                bytes,
                via: None,
            };
            attempt = if by_any_path { attempt.wrapping_add(1) } else { 0 };
            if let Some(waiter) = lock(&self.table.waiting).get_mut(&nonce) {
                waiter.attempts += 1;
            }
            match self.handle.send_control(message) {
                // A full queue is a loss like any other: asked again in a moment.
                Ok(()) | Err(crate::driver::HandleError::Busy) => {}
                Err(_) => return Err(AskError::Stopped),
            }
            let until = give_up.min(Instant::now() + pause);
            match timeout_at(until, &mut receiver).await {
                Ok(Ok(heard)) => {
                    let is_first = finds_first && heard.from == Some(to);
                    if let Some(port) = heard.leads_there.filter(|_| attempt > 1 && is_first) {
                        self.handle.set_first_port(to, port);
                    }
                    if let (true, Some(from)) = (by_any_path, heard.from) {
                        self.further().answered(to, from);
                    }
                    return Ok(heard.says);
                }
                Ok(Err(_)) => return Err(AskError::Stopped),
                Err(_) if Instant::now() >= give_up => {
                    self.table.on_silence(to);
                    return Err(AskError::NoAnswer(patience));
                }
                Err(_) => {
                    if let Some(error) = self.table.no_way(nonce) {
                        return Err(error);
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}
