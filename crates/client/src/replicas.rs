//! Finding the holders of an object.

use std::net::SocketAddr;
use std::time::Duration;

use crate::task::JoinSet;
use tokio::time::Instant;
use wellspring_transport::scdp::SenderStats;
use wellspring_wire::control::{Cookie, Geometry, Request};

use super::client::Frames;
use super::requester::{Answer, AskError, Requester};
use super::{
    Cut, FetchError, FetchOptions, FetchProtocol, HostError, ReplicaReport, ReplicaState,
    SenderProgress, Update, Updates,
};
use crate::Host;
use crate::resolution::address_of;
use crate::store::{Digest, StoreError};
use crate::store_messages;
use wellspring_net::addresses::{Told, heard};
use wellspring_net::{HostTrouble, NO_ANSWER, canonical};

/// Replicas of one fetch, at most: shares are numbered by a byte.
const MAX_REPLICAS: usize = 255;
/// Once a replica has answered, others are waited for this long: at least, at most.
const GRACE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Objects for which further addresses are of use: they take longer than learning of these \[bytes\].
pub(super) const WORTH_FURTHER: u64 = 1 << 20;

/// Where a replica stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Asked, without an answer yet.
    Asked,
    /// Asked, and nobody listens there.
    Closed,
    /// Sends, as far as is known.
    Live,
    /// Was lost, and why.
    Lost(String),
    /// Not used, and why.
    Unused(String),
    /// Its bytes were wrong: not used any more, and why.
    Excluded(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub host: String,
    pub address: Option<SocketAddr>,
    pub standing: Standing,
    /// What kind of trouble made it unused.
    pub trouble: HostTrouble,
    /// It has a share of the symbols, and so an entry in the protocol's counters.
    pub has_share: bool,
    /// Numbering epoch of its session.
    pub epoch: u8,
    /// An attempt to win it (back) is under way.
    pub joining: bool,
    pub losses: u32,
    pub returns: u32,
    /// Its symbols that turned out to be altered.
    pub altered: u64,
    /// Its symbols, once they have been counted.
    pub stats: Option<SenderStats>,
    /// For asking it to send, once.
    pub cookie: Cookie,
    /// Which instance of the server answered last.
    pub instance: Option<u32>,
    /// Where else it can be reached.
    pub further: Vec<SocketAddr>,
}

impl Replica {
    pub(crate) fn takes_part(&self) -> bool {
        !matches!(self.standing, Standing::Unused(_) | Standing::Excluded(_))
    }

    /// Whether it has the object.
    pub(crate) fn is_live(&self) -> bool {
        self.standing == Standing::Live
    }

    pub(crate) fn complaint(&self) -> HostError {
        let (reason, trouble) = match &self.standing {
            Standing::Asked => (NO_ANSWER.to_owned(), HostTrouble::Silent),
            Standing::Closed => (AskError::PortClosed.to_string(), HostTrouble::PortClosed),
            Standing::Live => ("was serving".to_owned(), HostTrouble::Other),
            Standing::Lost(reason) | Standing::Excluded(reason) => {
                (reason.clone(), HostTrouble::Other)
            }
            Standing::Unused(reason) => (reason.clone(), self.trouble),
        };
        HostError { host: self.host.clone(), reason, trouble }
    }

    /// Its part in a fetch under way, by the protocol's counters.
    pub(crate) fn progress(&self, stats: &SenderStats) -> SenderProgress {
        let is_live = self.is_live();
        let state = if is_live { "sends".to_owned() } else { self.complaint().reason };
        SenderProgress {
            host: self.host.clone(),
            is_live,
            state,
            useful: stats.useful,
            redundant: stats.redundant,
            lost: stats.lost + stats.trimmed,
            asked: stats.granted,
            silent: Duration::from_nanos(stats.silent.as_nanos()),
        }
    }

    /// Its entry in the report of a fetch that has succeeded, and whose requests went by `requester`.
    pub(crate) fn report(self, requester: &Requester) -> ReplicaReport {
        let is_closed = self.address.is_some_and(|address| requester.is_closed(address));
        let state = match self.standing {
            Standing::Live => ReplicaState::Served,
            Standing::Asked if is_closed => ReplicaState::Unused(AskError::PortClosed.to_string()),
            Standing::Asked => ReplicaState::Unused(NO_ANSWER.to_owned()),
            Standing::Closed => ReplicaState::Unused(AskError::PortClosed.to_string()),
            Standing::Lost(reason) => ReplicaState::Lost(reason),
            Standing::Unused(reason) => ReplicaState::Unused(reason),
            Standing::Excluded(reason) => ReplicaState::Excluded(reason),
        };
        let Replica { host, address, losses, returns, altered, stats, .. } = self;
        ReplicaReport { host, address, state, losses, returns, altered, stats }
    }
}

/// What was found.
pub(crate) struct Found {
    pub replicas: Vec<Replica>,
    pub size: u64,
    pub digest: Digest,
    /// How the hosts were told that it is to be cut, if it is sent by SCDP.
    pub geometry: Geometry,
}

/// What a host holds.
#[derive(Clone, Copy)]
pub(super) struct HeldObject {
    pub size: u64,
    pub digest: Digest,
    /// For asking it to send, once.
    pub cookie: Cookie,
    pub instance: u32,
}

/// What a host answered about the object, or why it did not.
type InfoAnswer = (usize, Result<HeldObject, AskError>);

/// What becomes of a host that answers later than others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Late {
    /// It can join the transfer under way, or is not needed: others do not wait for it for long.
    Joins,
    /// It would be left out: all wait for it.
    IsLeftOut,
}

/// Asks all hosts at once; returns when all have answered, or a short while after the first if
/// those that are late can join.
pub(crate) async fn find(
    requester: &Requester,
    hosts: &[Host],
    options: &FetchOptions,
    (timeout, late, most_further): (Duration, Late, u8),
) -> Result<Found, FetchError> {
    options.cut.check()?;
    let updates = &options.updates;
    match hosts.len() {
        0 => return Err(FetchError::NoHosts),
        got if got > MAX_REPLICAS => {
            return Err(FetchError::TooManyHosts { got, limit: MAX_REPLICAS });
        }
        _ => {}
    }
    let began_asking = Instant::now();
    let mut replicas = resolve(requester, hosts, timeout).await;
    let (cut, frames) = match options.protocol {
        // The blocks of a range are those of its cut.
        FetchProtocol::Scdp if options.range.is_none() => (options.cut, Frames::Jumbo),
        FetchProtocol::Scdp => (options.cut, Frames::Ethernet),
        _ => (Cut::default(), Frames::Ethernet),
    };
    let addresses = replicas.iter().filter_map(|r| r.address);
    let mut geometry = cut.geometry(addresses, requester, frames);
    if replicas.iter().filter(|r| r.takes_part()).count() > 1 {
        geometry.initial_window = geometry.initial_window.div_ceil(2);
    }
    let (mut asked, mut told) = (JoinSet::new(), Vec::new());
    for (index, replica) in replicas.iter().enumerate() {
        if let Some(address) = replica.address.filter(|_| replica.takes_part()) {
            let (requester, name) = (requester.clone(), options.asked().to_owned());
            let (host, updates) = (replica.host.clone(), updates.clone());
            if most_further > 0 && options.protocol == FetchProtocol::Scdp {
                told.push((index, requester.ask_for_addresses(address)));
            }
            asked.spawn(async move {
                let answer =
                    info(&requester, address, (&name, geometry), timeout, &host, &updates).await;
                (index, answer)
            });
        }
    }
    let began = (late == Late::Joins).then_some(began_asking);
    let held = collect(&mut asked, &mut replicas, options.digest, began).await;
    let Some(&(_, size, digest)) = held.first() else {
        return Err(FetchError::NoReplica(replicas.iter().map(Replica::complaint).collect()));
    };
    if held.iter().any(|&(_, s, d)| (s, d) != (size, digest)) {
        let replicas = held.iter().map(|&(i, s, d)| (replicas[i].host.clone(), s, d)).collect();
        return Err(FetchError::Differ { name: options.asked().to_owned(), replicas });
    }
    if size > options.longest {
        return Err(StoreError::TooLarge { got: size, limit: options.longest }.into());
    }
    for replica in replicas.iter().filter(|r| !r.takes_part()) {
        let HostError { host, reason, .. } = replica.complaint();
        updates.tell(Update::Lost { host, reason });
    }
    if most_further > 0 && options.protocol == FetchProtocol::Scdp {
        told.retain(|_| size >= WORTH_FURTHER);
        gather_addresses(&mut replicas, told, began_asking.elapsed()).await;
    }
    Ok(Found { replicas, size, digest, geometry })
}

/// Gathers the further addresses of each replica: those that it tells of, for which those that have not told yet are
/// waited for as long as they have taken for their answers, and those of others that turn out to be the same server.
async fn gather_addresses(
    replicas: &mut [Replica],
    told: Vec<(usize, Told)>,
    round_trip: Duration,
) {
    let until = Instant::now() + round_trip.min(GRACE.0);
    for (index, told) in told {
        if let Ok(addresses) = tokio::time::timeout_at(until, heard(told)).await {
            replicas[index].further = addresses;
        }
    }
    for later in 1..replicas.len() {
        let (before, rest) = replicas.split_at_mut(later);
        let same = before.iter_mut().find(|r| r.is_live() && r.instance == rest[0].instance);
        let (Some(same), Some(address), true) = (same, rest[0].address, rest[0].is_live()) else {
            continue;
        };
        let address = canonical(address);
        if !same.further.contains(&address) {
            same.further.push(address);
        }
        rest[0].standing = Standing::Unused(format!("is the same server as {}", same.host));
    }
}

pub(crate) async fn resolve(
    requester: &Requester,
    hosts: &[Host],
    timeout: Duration,
) -> Vec<Replica> {
    let mut replicas: Vec<Replica> = Vec::with_capacity(hosts.len());
    let mut lookups = JoinSet::new();
    for (index, host) in hosts.iter().cloned().enumerate() {
        let requester = requester.clone();
        lookups.spawn(async move { (index, address_of(&requester, &host, timeout).await) });
    }
    let mut addresses = vec![Err(String::new()); hosts.len()];
    while let Some(Ok((index, address))) = lookups.join_next().await {
        addresses[index] = address;
    }
    for (host, address) in hosts.iter().zip(addresses) {
        let (address, mut standing) = match address {
            Ok(address) => (Some(address), Standing::Asked),
            Err(reason) => (None, Standing::Unused(reason)),
        };
        let trouble = if address.is_none() { HostTrouble::Unresolved } else { HostTrouble::Other };
        if let Some(same) = replicas.iter().find(|r| address.is_some() && r.address == address) {
            standing = Standing::Unused(format!("is the same as {}", same.host));
        }
        let host = host.to_string();
        let replica = Replica {
            host,
            address,
            standing,
            trouble,
            has_share: false,
            epoch: 0,
            joining: false,
            losses: 0,
            returns: 0,
            altered: 0,
            stats: None,
            cookie: Cookie::NONE,
            instance: None,
            further: Vec::new(),
        };
        replicas.push(replica);
    }
    replicas
}

/// Waits for answers, for all of them unless told when asking `began`, and notes where each replica
/// stands; returns who holds what.
async fn collect(
    asked: &mut JoinSet<InfoAnswer>,
    replicas: &mut [Replica],
    wanted: Option<Digest>,
    began: Option<Instant>,
) -> Vec<(usize, u64, Digest)> {
    let mut held = Vec::new();
    let mut until = None;
    loop {
        let next = match until {
            Some(until) => tokio::time::timeout_at(until, asked.join_next()).await,
            None => Ok(asked.join_next().await),
        };
        let Ok(Some(answered)) = next else { break };
        let Ok((index, answer)) = answered else { continue };
        match answer {
            Ok(found) if wanted.is_none_or(|wanted| wanted == found.digest) => {
                replicas[index].standing = Standing::Live;
                replicas[index].cookie = found.cookie;
                replicas[index].instance = Some(found.instance);
                held.push((index, found.size, found.digest));
                if let Some(began) = began.filter(|_| until.is_none()) {
                    let grace = (began.elapsed() / 2).clamp(GRACE.0, GRACE.1);
                    until = Some(Instant::now() + grace);
                }
            }
            Ok(found) => {
                let reason = format!("holds other bytes (digest {})", found.digest);
                replicas[index].standing = Standing::Unused(reason);
            }
            // May come late.
            Err(AskError::NoAnswer(_) | AskError::Unreachable(_)) if !held.is_empty() => {}
            // May listen again.
            Err(AskError::PortClosed) => replicas[index].standing = Standing::Closed,
            Err(error) => {
                replicas[index].trouble = error.trouble();
                replicas[index].standing = Standing::Unused(error.to_string());
            }
        }
    }
    held.sort_unstable();
    held
}

pub(super) async fn info(
    requester: &Requester,
    address: SocketAddr,
    (name, geometry): (&str, Geometry),
    patience: Duration,
    host: &str,
    updates: &Updates,
) -> Result<HeldObject, AskError> {
    let pending = |done, total| {
        updates.tell(Update::Hashing { host: Some(host.to_owned()), done, total });
    };
    let request = Request::Info { name: store_messages::asked(name), geometry };
    match requester.ask(address, &request, Cookie::NONE, patience, &pending).await? {
        Answer::Info { size, digest, cookie, instance } => {
            Ok(HeldObject { size, digest, cookie, instance })
        }
        _ => Err(AskError::Nonsense),
    }
}
