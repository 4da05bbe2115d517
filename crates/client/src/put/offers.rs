//! Offering an object to all hosts at once.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::task::JoinSet;
use tokio::time::Instant;
use wellspring_core::{Priority, SessionId};
use wellspring_wire::control::{Cookie, Geometry, Offer, PutState, Request};

use wellspring_wire::scdp::Mode;

use super::super::order::OLD_VERSION;
use super::super::replicas::{Standing, resolve};
use super::super::requester::{Answer, AskError, Requester};
use super::super::{Client, HostError, PutError, Update, Updates, timeout_ms};
use crate::Host;
use crate::manifest::object_of;
use crate::store::Digest;
use crate::store_messages;
use wellspring_net::{HostTrouble, NO_ANSWER};

/// Once a member of a group has accepted, others are waited for this long: it expects symbols soon.
const GRACE: Duration = Duration::from_secs(3);
/// The same where each is sent to on its own: a host that refuses does so within a round trip, and one that is silent
/// is asked on while the others are sent to.
const GRACE_ALONE: Duration = Duration::from_millis(500);
/// Runs of blocks of which a host may say that it has them; what it has beyond, it does not ask for.
const MAX_HELD_RUNS: usize = 8_192;

/// What a host said to an offer.
#[derive(Clone, Debug)]
pub(super) struct Offered {
    pub host: String,
    pub address: Option<SocketAddr>,
    pub session: SessionId,
    pub accepted: bool,
    /// It has the object already.
    pub complete: bool,
    /// Blocks that it has, ascending.
    pub held: Vec<Range<u32>>,
    pub refused: Option<String>,
    /// What kind of trouble that is.
    pub trouble: HostTrouble,
}

/// What is offered, and how.
#[derive(Clone)]
pub(super) struct Offering {
    pub name: String,
    pub size: u64,
    pub digest: Digest,
    pub group: Option<SocketAddr>,
    pub geometry: Geometry,
    pub overwrite: bool,
    pub resume: bool,
    pub priority: Priority,
    pub timeout: Duration,
}

impl Offering {
    /// Whether hosts are to pull it behind all others. Members of a group, which would wait for each other, are not.
    pub(super) fn is_background(&self) -> bool {
        self.group.is_none() && self.priority.is_background()
    }

    fn message(&self, session: SessionId) -> Offer<'_> {
        Offer {
            session,
            name: store_messages::asked(&self.name),
            size: self.size,
            digest: self.digest.0,
            mode: if self.group.is_some() { Mode::OneToMany } else { Mode::Unicast },
            group: self.group,
            geometry: self.geometry,
            overwrite: self.overwrite,
            resume: self.resume,
            background: self.is_background(),
            timeout_ms: timeout_ms(self.timeout),
        }
    }
}

/// The hosts' addresses, and a session for each; with a group, one session for all.
pub(super) async fn receivers(client: &Client, hosts: &[Host], group: bool) -> Vec<Offered> {
    let common = SessionId(crate::random::number() as u32);
    let mut receivers = Vec::with_capacity(hosts.len());
    for replica in resolve(&client.requester, hosts, client.config.timeout).await {
        let session = if group { common } else { SessionId(crate::random::number() as u32) };
        let refused = match replica.standing {
            Standing::Unused(reason) => Some(reason),
            _ => None,
        };
        let (host, address, trouble) = (replica.host, replica.address, replica.trouble);
        receivers.push(Offered {
            host,
            address,
            session,
            accepted: false,
            complete: false,
            held: Vec::new(),
            refused,
            trouble,
        });
    }
    receivers
}

/// What a host that takes the object has of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// All, verified and in place.
    Complete,
    /// These blocks, ascending.
    Blocks(Vec<Range<u32>>),
}

/// What hosts were offered that have not answered yet.
pub(super) type Asked = JoinSet<(usize, Result<Taken, AskError>)>;

/// Offers the object to all hosts, each under its own session. Returns when enough of them have answered; without a
/// group those that are silent, or verify what they have, are asked on.
pub(super) async fn offer_all(
    client: &Client,
    mut offered: Vec<Offered>,
    offer: &Offering,
    needed: usize,
    updates: &Updates,
) -> Result<(Vec<Offered>, Asked), PutError> {
    let timeout = client.config.timeout;
    let mut asked = JoinSet::new();
    let pending = Pending::default();
    for (index, host) in offered.iter().enumerate() {
        let Some(address) = host.address.filter(|_| host.refused.is_none()) else { continue };
        let requester = client.requester.clone();
        let (session, offer) = (host.session, offer.clone());
        let (pending, updates, name) = (pending.clone(), updates.clone(), host.host.clone());
        asked.spawn(async move {
            let verifying = |done, total| {
                pending.note(index);
                updates.tell(Update::Hashing { host: Some(name.clone()), done, total });
            };
            let told = ask(&requester, address, session, &offer, (timeout, &verifying)).await;
            (index, told)
        });
    }
    collect(&mut asked, &mut offered, (offer, needed), &pending).await;
    for host in &offered {
        if let Some(reason) = &host.refused {
            updates.tell(Update::Lost { host: host.host.clone(), reason: reason.clone() });
        }
    }
    let hopeful = |o: &&Offered| o.accepted || (o.refused.is_none() && o.address.is_some());
    if offered.iter().filter(hopeful).count() >= needed {
        return Ok((offered, asked));
    }
    let complaint = |o: &Offered| {
        let reason = o.refused.clone().unwrap_or_else(|| NO_ANSWER.to_owned());
        HostError { host: o.host.clone(), reason, trouble: o.trouble }
    };
    let hosts = offered.iter().filter(|o| !o.accepted).map(complaint).collect();
    Err(PutError::NotAccepted { needed, hosts })
}

/// Hosts that have said that they are verifying what they have.
#[derive(Clone, Default)]
struct Pending(Arc<Mutex<BTreeSet<usize>>>);

impl Pending {
    fn note(&self, host: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host);
    }

    fn has(&self, host: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&host)
    }
}

/// How long the first host that accepts waits for the others. Members of a group all begin at once, so those without
/// which it would be too few are waited for almost as long as it stays.
fn patience(offered: &[Offered], (offer, needed): (&Offering, usize)) -> Duration {
    match offered.iter().filter(|o| o.accepted).count() {
        _ if offer.group.is_none() => GRACE_ALONE,
        accepted if accepted < needed => GRACE.max(offer.timeout * 9 / 10),
        _ => GRACE,
    }
}

async fn collect(
    asked: &mut Asked,
    offered: &mut [Offered],
    (offer, needed): (&Offering, usize),
    pending: &Pending,
) {
    let mut first = None;
    loop {
        let next = match first {
            Some(first) => {
                let until: Instant = first + patience(offered, (offer, needed));
                tokio::time::timeout_at(until, asked.join_next()).await
            }
            None => Ok(asked.join_next().await),
        };
        match next {
            Ok(Some(Ok((index, told)))) => {
                offered[index].hear(told, offer.is_background());
                if offered[index].accepted {
                    first.get_or_insert_with(Instant::now);
                }
            }
            Ok(Some(Err(_))) => {}
            Ok(None) => return,
            Err(_) => break,
        }
    }
    if offer.group.is_none() {
        return; // Each has a session of its own, which begins when it is ready.
    }
    let silent = |o: &&mut Offered| !o.accepted && o.refused.is_none();
    for (index, host) in offered.iter_mut().enumerate().filter(|(_, host)| silent(host)) {
        if pending.has(index) {
            host.refused = Some("has not verified in time what it has of the object".to_owned());
        } else {
            host.refused = Some("no answer in time".to_owned());
            host.trouble = HostTrouble::Silent;
        }
    }
    asked.abort_all();
}

impl Offered {
    /// Takes in what a host has said.
    pub(super) fn hear(&mut self, told: Result<Taken, AskError>, is_background: bool) {
        match told {
            Ok(Taken::Complete) => (self.accepted, self.complete) = (true, true),
            Ok(Taken::Blocks(held)) => (self.accepted, self.held) = (true, held),
            Err(error) => {
                self.trouble = error.trouble();
                self.refused = Some(match error {
                    AskError::NoAnswer(_) if is_background => format!("{error}; {OLD_VERSION}"),
                    error => error.to_string(),
                });
            }
        }
    }
}

/// Offers to one host, and asks what it has of the object.
async fn ask(
    requester: &Requester,
    address: SocketAddr,
    session: SessionId,
    offer: &Offering,
    (timeout, verifying): (Duration, &(dyn Fn(u64, u64) + Send + Sync)),
) -> Result<Taken, AskError> {
    let request = Request::Offer(offer.message(session));
    match requester.ask(address, &request, Cookie::NONE, timeout, verifying).await? {
        Answer::Status { state: PutState::Complete, .. } => return Ok(Taken::Complete),
        Answer::Status { blocks_done: 0, .. } => return Ok(Taken::Blocks(Vec::new())),
        Answer::Status { .. } => {}
        _ => return Err(AskError::Nonsense),
    }
    let blocks = object_of(offer.size, &offer.geometry, offer.digest.tag()).source_blocks;
    let mut held: Vec<Range<u32>> = Vec::new();
    while held.len() < MAX_HELD_RUNS {
        let from = held.last().map_or(0, |run| run.end);
        let request = Request::Held { session, from };
        match requester.ask(address, &request, Cookie::NONE, timeout, &|_, _| {}).await? {
            Answer::Held(runs) => match (runs.first(), runs.last()) {
                (Some(first), Some(last)) if first.start >= from && last.end <= blocks => {
                    held.extend(runs);
                }
                (None, None) => break,
                _ => return Err(AskError::Nonsense),
            },
            _ => return Err(AskError::Nonsense),
        }
    }
    if held.iter().map(|run| run.end - run.start).sum::<u32>() >= blocks {
        return Err(AskError::Nonsense); // then it would be complete
    }
    Ok(Taken::Blocks(held))
}

/// The blocks that are in both of two ascending lists of runs.
pub(super) fn in_both(a: &[Range<u32>], b: &[Range<u32>]) -> Vec<Range<u32>> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(of_a), Some(of_b)) = (a.peek(), b.peek()) {
        let run = of_a.start.max(of_b.start)..of_a.end.min(of_b.end);
        let (end_of_a, end_of_b) = (of_a.end, of_b.end);
        if !run.is_empty() {
            both.push(run);
        }
        if end_of_a <= end_of_b {
            a.next();
        } else {
            b.next();
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_both_are_those_of_each() {
        let (a, b) = ([0..3, 5..9, 12..20], [1..6, 8..13, 14..15, 19..30]);
        let expected = vec![1..3, 5..6, 8..9, 12..13, 14..15, 19..20];
        assert_eq!(in_both(&a, &b), expected);
        assert_eq!(in_both(&b, &a), expected);
        assert_eq!(in_both(&a, &[]), Vec::<Range<u32>>::new());
    }
}
