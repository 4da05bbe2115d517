//! Requests that are repeated until they are answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use wellspring_wire::control::{
    Abilities, Cookie, Parsed, Probe, PutState, RefusalCode, Reply, Request, emit_request, parse,
};

use super::host_error::{HostTrouble, NO_ANSWER};
use crate::addresses::{FurtherAddresses, Routes, Told, usable};
use crate::canonical;
use crate::driver::{ControlMessage, KeyTrouble, OutgoingControl};
use crate::narrow_paths::NarrowPaths;
use crate::protocols::DriverHandle;
use crate::store::Digest;

/// Pause before a request is first repeated; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Pauses before asking again for an answer that takes time: the first, and the longest.
const PENDING_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// Challenges in a row, at most: a server that goes on challenging does not follow the protocol.
const MAX_CHALLENGES: u32 = 4;

/// How long a server is asked for its further addresses; whoever does not say is asked again by the next transfer.
const ADDRESSES_PATIENCE: Duration = Duration::from_secs(2);

/// Addresses with closed ports remembered.
const MAX_CLOSED: usize = 256;
/// Addresses known to have answered, at most.
const MAX_ANSWERED: usize = 4_096;
/// Attempts reported to have met a closed port after which it counts as closed: 300 ms after the first, or 1.5 s at an
/// address that has answered before. Whoever forges the reports defeats a server that takes longer to answer.
const REPORTS: u32 = 3;
const REPORTS_OF_KNOWN: u32 = 5;

/// A final answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The host has the object.
    Info {
        /// Its length \[bytes\].
        size: u64,
        /// Its digest.
        digest: Digest,
        /// For asking the host to send it, once.
        cookie: Cookie,
        /// Which life of the host it is.
        instance: u32,
    },
    /// What was asked for is done, or begun.
    Accepted,
    /// Nodes of a manifest, one behind the other.
    Manifest(Vec<u8>),
    /// Runs of blocks that were there before.
    Held(Vec<Range<u32>>),
    /// How far an object is that is put.
    Status {
        /// Its state.
        state: PutState,
        /// Blocks that are there.
        blocks_done: u32,
        /// All its blocks.
        blocks_total: u32,
    },
    /// A probe was answered.
    Probed(Echo),
    /// By which other addresses the server is reached.
    Addresses(Vec<SocketAddr>),
}

/// How a probe arrived, and how its reply did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Echo {
    /// Traffic class of the probe when it arrived there.
    pub class_there: u8,
    /// Traffic class of the reply when it arrived here.
    pub class_here: u8,
    /// Largest UDP payload that the path back seems to carry \[bytes\].
    pub largest_back: u16,
    /// The host's clock \[us\].
    pub clock_us: u64,
    /// What the host's sockets can do.
    pub abilities: Abilities,
    /// The rights of this host's key there, as text.
    pub rights: String,
}

/// How a request leaves.
#[derive(Clone, Copy)]
struct Leaves {
    path: Option<u8>,
    class: Option<u8>,
    /// Pause before it is first repeated.
    first_pause: Duration,
}

/// Why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskError {
    /// Nothing came for so long.
    NoAnswer(Duration),
    /// The host is there, and nobody listens at that port.
    PortClosed,
    /// The server says no.
    Refused {
        /// Why.
        code: RefusalCode,
        /// Why, in words; may be empty.
        text: String,
    },
    /// The server's answer makes no sense.
    Nonsense,
    /// Keys are in the way.
    Keys(KeyTrouble),
    /// Our driver has stopped.
    Stopped,
}

impl AskError {
    /// What kind of trouble with the host it is.
    pub fn trouble(&self) -> HostTrouble {
        match self {
            AskError::NoAnswer(_) => HostTrouble::Silent,
            AskError::PortClosed => HostTrouble::PortClosed,
            AskError::Refused { code: RefusalCode::NotFound | RefusalCode::BadName, .. } => {
                HostTrouble::NotFound
            }
            AskError::Keys(_) => HostTrouble::Keys,
            AskError::Refused { .. } | AskError::Nonsense | AskError::Stopped => HostTrouble::Other,
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoAnswer(after) => {
                write!(f, "{NO_ANSWER} within {:.1} s", after.as_secs_f64())
            }
            AskError::PortClosed => f.write_str("nobody listens at that port (connection refused)"),
            AskError::Refused { code, text } if text.is_empty() => write!(f, "refused: {code}"),
            AskError::Refused { text, .. } => write!(f, "refused: {text}"),
            AskError::Keys(trouble) => trouble.fmt(f),
            AskError::Nonsense => f.write_str("an answer that makes no sense"),
            AskError::Stopped => f.write_str("the socket is closed"),
        }
    }
}

/// What has come back.
struct Heard {
    says: Says,
    /// The port that it came to, if another may have been asked by.
    leads_there: Option<u8>,
    from: Option<SocketAddr>,
}

impl Heard {
    fn no(error: AskError) -> Self {
        Heard { says: Says::Final(Err(error)), leads_there: None, from: None }
    }
}

/// What a reply says, kept beyond its datagram.
enum Says {
    Final(Result<Answer, AskError>),
    Challenge(Cookie),
    Pending { done: u64, total: u64 },
}

/// Requests under way.
#[derive(Default)]
pub struct Table {
    waiting: Mutex<BTreeMap<u64, Waiter>>,
    /// Addresses whose ports were closed when something was sent there last.
    closed: Mutex<BTreeSet<SocketAddr>>,
    /// Addresses that have answered, the first so many.
    answered: Mutex<BTreeSet<SocketAddr>>,
    further: Mutex<FurtherAddresses>,
    /// Paths that were found to be narrow.
    narrow: NarrowPaths,
}

struct Waiter {
    asked: SocketAddr,
    /// Its other addresses, one of which may have been asked instead.
    routes: Routes,
    /// If it was asked by one path after the other.
    by_any_path: bool,
    /// How often it was sent.
    attempts: u32,
    /// How often the port was reported closed after it was sent, and the last attempt that was so reported.
    closed: u32,
    reported: u32,
    sender: oneshot::Sender<Heard>,
}

impl Table {
    /// Handles a datagram that may be a reply. Anything else is ignored, and so is a reply to a request that was
    /// not sent to that host.
    pub fn take_in(&self, message: &ControlMessage) {
        if let Some(trouble) = message.trouble {
            return self.on_trouble(canonical(message.from), trouble);
        }
        if message.bytes.is_empty() {
            return self.on_closed_port(canonical(message.from));
        }
        let Ok(Parsed::Reply { nonce, reply }) = parse(&message.bytes) else { return };
        let from = canonical(message.from);
        let mut waiting = lock(&self.waiting);
        let was_asked = |waiter: &Waiter| waiter.asked == from || waiter.routes.holds(from);
        if !waiting.get(&nonce).is_some_and(was_asked) {
            return;
        }
        let Some(Waiter { sender, by_any_path, .. }) = waiting.remove(&nonce) else { return };
        drop(waiting);
        let leads_there = by_any_path.then_some(message.port);
        lock(&self.closed).remove(&from);
        let mut answered = lock(&self.answered);
        if answered.len() < MAX_ANSWERED {
            answered.insert(from);
        }
        drop(answered);
        let says = match reply {
            Reply::Info { cookie, size, digest, instance } => {
                let digest = Digest(digest);
                Says::Final(Ok(Answer::Info { size, digest, cookie, instance }))
            }
            Reply::Challenge { cookie } => Says::Challenge(cookie),
            Reply::Pending { done, total } => Says::Pending { done, total },
            Reply::Accepted => Says::Final(Ok(Answer::Accepted)),
            Reply::Manifest { nodes } => Says::Final(Ok(Answer::Manifest(nodes.to_vec()))),
            Reply::Held { runs } => Says::Final(Ok(Answer::Held(runs.iter().collect()))),
            Reply::Refused { code, text } => {
                Says::Final(Err(AskError::Refused { code, text: text.to_owned() }))
            }
            Reply::Status { state, blocks_done, blocks_total } => {
                Says::Final(Ok(Answer::Status { state, blocks_done, blocks_total }))
            }
            Reply::Probe(reply) => Says::Final(Ok(Answer::Probed(Echo {
                class_there: reply.class,
                class_here: message.class,
                largest_back: reply.largest_back,
                clock_us: reply.clock_us,
                abilities: reply.abilities,
                rights: reply.rights.to_owned(),
            }))),
            Reply::Addresses { addresses } => {
                Says::Final(Ok(Answer::Addresses(addresses.iter().collect())))
            }
        };
        // Whoever asked may have given up since.
        let _ = sender.send(Heard { says, leads_there, from: Some(from) });
    }

    /// Keys keep requests from reaching an address.
    fn on_trouble(&self, address: SocketAddr, trouble: KeyTrouble) {
        let mut waiting = lock(&self.waiting);
        let asked = waiting.iter().filter(|(_, waiter)| waiter.asked == address);
        let asked: Vec<u64> = asked.map(|(nonce, _)| *nonce).collect();
        for waiter in asked.iter().filter_map(|nonce| waiting.remove(nonce)) {
            // Whoever asked may have given up since.
            let _ = waiter.sender.send(Heard::no(AskError::Keys(trouble)));
        }
    }

    /// The network reports that nobody listens at an address, which anybody can forge. A closed port reports each attempt,
    /// so one report an attempt counts, and a request fails when several attempts in a row had a report and no
    /// answer: more of them at an address that has answered before.
    fn on_closed_port(&self, address: SocketAddr) {
        let mut closed = lock(&self.closed);
        if closed.len() < MAX_CLOSED {
            closed.insert(address);
        }
        drop(closed);
        let known = lock(&self.answered).contains(&address);
        let enough = if known { REPORTS_OF_KNOWN } else { REPORTS };
        let mut waiting = lock(&self.waiting);
        let mut believed = Vec::new();
        for (nonce, waiter) in waiting.iter_mut().filter(|(_, w)| w.asked == address) {
            if waiter.reported < waiter.attempts {
                (waiter.reported, waiter.closed) = (waiter.attempts, waiter.closed + 1);
            }
            if waiter.closed >= enough {
                believed.push(*nonce);
            }
        }
        for waiter in believed.iter().filter_map(|nonce| waiting.remove(nonce)) {
            let _ = waiter.sender.send(Heard::no(AskError::PortClosed));
        }
    }

    /// The first address of a host that is reached by this one, too; this one, if none is.
    pub fn first_address(&self, of: SocketAddr) -> SocketAddr {
        let of = canonical(of);
        lock(&self.further).first_address(of).unwrap_or(of)
    }

    /// Whether nobody listened at an address when something was sent there last.
    pub fn is_closed(&self, address: SocketAddr) -> bool {
        lock(&self.closed).contains(&canonical(address))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a request out of the table when nobody waits for it any more.
struct Waiting<'a> {
    table: &'a Table,
    nonce: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.table.waiting).remove(&self.nonce);
    }
}

/// Asks servers, through the driver's socket. Clones share everything.
#[derive(Clone)]
pub struct Requester {
    handle: DriverHandle,
    table: Arc<Table>,
}

impl Requester {
    /// Asks through that driver; who reads its control messages gives them to the table.
    pub fn new(handle: DriverHandle, table: Arc<Table>) -> Self {
        Requester { handle, table }
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
                Err(_) if Instant::now() >= give_up => return Err(AskError::NoAnswer(patience)),
                Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }
}
