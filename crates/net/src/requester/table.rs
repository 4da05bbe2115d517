//! Requests under way, and what comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use wellspring_wire::control::{Cookie, Parsed, Reply, parse};

use super::answer::{Answer, AskError, Echo};
use crate::addresses::{FurtherAddresses, Routes};
use crate::canonical;
use crate::driver::{ControlMessage, KeyTrouble};
use crate::narrow_paths::NarrowPaths;
use crate::socket::Unreached;
use crate::store::Digest;

/// Addresses with closed ports remembered, and silent ones.
const MAX_CLOSED: usize = 256;
/// Addresses known to have answered, at most.
const MAX_ANSWERED: usize = 4_096;
/// Attempts reported to have met a closed port after which it counts as closed: 300 ms after the first, or 1.5 s at an
/// address that has answered before. Whoever forges the reports defeats a server that takes longer to answer.
const REPORTS: u32 = 3;
const REPORTS_OF_KNOWN: u32 = 5;
/// Reports that there is no way to an address, after which no more than `REPORTS` attempts are made.
const REPORTS_OF_NO_WAY: u32 = 2;
/// Attempts after which one report is enough, 3.5 s after the first. Linux as a router counts a report twice against its
/// limit of one a second: to who asks once a second it sends those at the beginning and then none, and one of them may be
/// lost, or come before the request that it is to end.
const ATTEMPTS_OF_ONE_REPORT: u32 = 6;

/// What has come back.
pub(super) struct Heard {
    pub(super) says: Says,
    /// The port that it came to, if another may have been asked by.
    pub(super) leads_there: Option<u8>,
    pub(super) from: Option<SocketAddr>,
}

impl Heard {
    fn no(error: AskError) -> Self {
        Heard { says: Says::Final(Err(error)), leads_there: None, from: None }
    }
}

/// What a reply says, kept beyond its datagram.
pub(super) enum Says {
    Final(Result<Answer, AskError>),
    Challenge(Cookie),
    Pending { done: u64, total: u64 },
}

/// Requests under way.
#[derive(Default)]
pub struct Table {
    pub(super) waiting: Mutex<BTreeMap<u64, Waiter>>,
    /// Addresses whose ports were closed when something was sent there last.
    pub(super) closed: Mutex<BTreeSet<SocketAddr>>,
    /// Addresses from which nothing has come since a request to them was given up.
    pub(super) silent: Mutex<BTreeSet<SocketAddr>>,
    /// Addresses that have answered, the first so many.
    pub(super) answered: Mutex<BTreeSet<SocketAddr>>,
    pub(super) further: Mutex<FurtherAddresses>,
    /// Paths that were found to be narrow.
    pub(super) narrow: NarrowPaths,
}

pub(super) struct Waiter {
    pub(super) asked: SocketAddr,
    /// Its other addresses, one of which may have been asked instead.
    pub(super) routes: Routes,
    /// If it was asked by one path after the other.
    pub(super) by_any_path: bool,
    /// How often it was sent.
    pub(super) attempts: u32,
    /// How often the port was reported closed after it was sent, and the last attempt that was so reported.
    pub(super) closed: u32,
    pub(super) reported: u32,
    /// How often the network has reported that there is no way, and why.
    pub(super) no_way: Option<(u32, Unreached)>,
    pub(super) sender: oneshot::Sender<Heard>,
}

impl Table {
    /// Handles a datagram that may be a reply. Anything else is ignored, and so is a reply to a request that was
    /// not sent to that host.
    pub fn take_in(&self, message: &ControlMessage) {
        if let Some(trouble) = message.trouble {
            return self.on_trouble(canonical(message.from), trouble);
        }
        match message.unreached {
            None => {}
            Some(Unreached::PortClosed) => return self.on_closed_port(canonical(message.from)),
            Some(why) => return self.on_no_way(canonical(message.from), why),
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
        lock(&self.silent).remove(&from);
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

    /// The network reports that there is no way to an address. Routers report few of the attempts, and a host that is off
    /// is reported after seconds, for all of them at once.
    fn on_no_way(&self, address: SocketAddr, why: Unreached) {
        for waiter in lock(&self.waiting).values_mut().filter(|waiter| waiter.asked == address) {
            let reports = waiter.no_way.map_or(0, |(reports, _)| reports);
            waiter.no_way = Some((reports + 1, why));
        }
    }

    /// Why a request is given up that several attempts have brought no answer, but reports that there is no way. To an
    /// address that has answered before, the way may be cut for a while, and is waited for.
    pub(super) fn no_way(&self, nonce: u64) -> Option<AskError> {
        let waiting = lock(&self.waiting);
        let waiter = waiting.get(&nonce).filter(|waiter| waiter.attempts >= REPORTS)?;
        let enough = match waiter.attempts {
            ATTEMPTS_OF_ONE_REPORT.. => 1,
            _ => REPORTS_OF_NO_WAY,
        };
        let (_, why) = waiter.no_way.filter(|(reports, _)| *reports >= enough)?;
        let known = lock(&self.answered).contains(&waiter.asked);
        (!known).then_some(AskError::Unreachable(why))
    }

    /// The first address of a host that is reached by this one, too; this one, if none is.
    pub fn first_address(&self, of: SocketAddr) -> SocketAddr {
        let of = canonical(of);
        lock(&self.further).first_address(of).unwrap_or(of)
    }

    /// A request to an address was given up, since nothing came back.
    pub(super) fn on_silence(&self, address: SocketAddr) {
        let mut silent = lock(&self.silent);
        if silent.len() < MAX_CLOSED {
            silent.insert(address);
        }
    }

    /// Whether an address has answered, and been neither closed nor silent since.
    pub fn answers(&self, address: SocketAddr) -> bool {
        let address = canonical(address);
        lock(&self.answered).contains(&address)
            && !lock(&self.silent).contains(&address)
            && !self.is_closed(address)
    }

    /// Whether nobody listened at an address when something was sent there last.
    pub fn is_closed(&self, address: SocketAddr) -> bool {
        lock(&self.closed).contains(&canonical(address))
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a request out of the table when nobody waits for it any more.
pub(super) struct Waiting<'a> {
    pub(super) table: &'a Table,
    pub(super) nonce: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.table.waiting).remove(&self.nonce);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4711);

    /// After so many attempts and reports, whether a request to a host is given up; it has answered before, or not.
    fn is_given_up(attempts: u32, reports: u32, has_answered: bool) -> bool {
        let table = Table::default();
        let waiter = Waiter {
            asked: HOST,
            routes: Routes::default(),
            by_any_path: false,
            attempts,
            closed: 0,
            reported: 0,
            no_way: None,
            sender: oneshot::channel().0,
        };
        lock(&table.waiting).insert(1, waiter);
        if has_answered {
            lock(&table.answered).insert(HOST);
        }
        for _ in 0..reports {
            table.on_no_way(HOST, Unreached::NoWay);
        }
        matches!(table.no_way(1), Some(AskError::Unreachable(Unreached::NoWay)))
    }

    #[test]
    fn few_reports_that_there_is_no_way_are_believed_after_more_attempts() {
        let given_up = [(2, 2), (3, 1), (3, 2), (5, 1), (6, 1), (60, 0)]
            .map(|(attempts, reports)| is_given_up(attempts, reports, false));
        assert_eq!(given_up, [false, false, true, false, true, false]);
        assert!(!is_given_up(60, 60, true), "its way may be cut for a while");
    }
}
