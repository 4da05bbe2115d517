//! Offering an object to all hosts at once.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use wellspring_core::SessionId;
use wellspring_wire::control::{Cookie, Geometry, Offer, PutState, Request};

use wellspring_wire::scdp::Mode;

use super::super::replicas::{Standing, resolve};
use super::super::requester::{Answer, AskError, Requester};
use super::super::{Client, HostError, PutError, Update, Updates, timeout_ms};
use crate::address::Host;
use crate::store::{Digest, ObjectName};
use crate::store_messages;

/// Once a host has accepted, others are waited for this long: it expects symbols soon.
const GRACE: Duration = Duration::from_secs(3);

/// What a host said to an offer.
#[derive(Clone, Debug)]
pub(super) struct Offered {
    pub host: String,
    pub address: Option<SocketAddr>,
    pub session: SessionId,
    pub accepted: bool,
    /// It has the object already.
    pub complete: bool,
    pub refused: Option<String>,
}

/// What is offered, and how.
#[derive(Clone)]
pub(super) struct Offering {
    pub name: ObjectName,
    pub size: u64,
    pub digest: Digest,
    pub group: Option<SocketAddr>,
    pub geometry: Geometry,
    pub overwrite: bool,
    pub timeout: Duration,
}

impl Offering {
    fn message(&self, session: SessionId) -> Offer<'_> {
        Offer {
            session,
            name: store_messages::name(&self.name),
            size: self.size,
            digest: self.digest.0,
            mode: if self.group.is_some() { Mode::OneToMany } else { Mode::Unicast },
            group: self.group,
            geometry: self.geometry,
            overwrite: self.overwrite,
            timeout_ms: timeout_ms(self.timeout),
        }
    }
}

/// The hosts' addresses, and a session for each; with a group, one session for all.
pub(super) async fn receivers(hosts: &[Host], group: bool, timeout: Duration) -> Vec<Offered> {
    let common = SessionId(crate::random::number() as u32);
    let mut receivers = Vec::with_capacity(hosts.len());
    for replica in resolve(hosts, timeout).await {
        let session = if group { common } else { SessionId(crate::random::number() as u32) };
        let refused = match replica.standing {
            Standing::Unused(reason) => Some(reason),
            _ => None,
        };
        let (host, address) = (replica.host, replica.address);
        receivers.push(Offered {
            host,
            address,
            session,
            accepted: false,
            complete: false,
            refused,
        });
    }
    receivers
}

/// Offers the object to all hosts, each under its own session.
pub(super) async fn offer_all(
    client: &Client,
    mut offered: Vec<Offered>,
    offer: &Offering,
    needed: usize,
    updates: &Updates,
) -> Result<Vec<Offered>, PutError> {
    let timeout = client.config.timeout;
    let mut asked = JoinSet::new();
    for (index, host) in offered.iter().enumerate() {
        let Some(address) = host.address.filter(|_| host.refused.is_none()) else { continue };
        let requester = client.requester.clone();
        let (session, offer) = (host.session, offer.clone());
        asked.spawn(async move {
            let told = ask(&requester, address, session, &offer, timeout).await;
            (index, told)
        });
    }
    collect(&mut asked, &mut offered).await;
    for host in &offered {
        if let Some(reason) = &host.refused {
            updates.tell(Update::Lost { host: host.host.clone(), reason: reason.clone() });
        }
    }
    if offered.iter().filter(|o| o.accepted).count() >= needed {
        return Ok(offered);
    }
    let complaint = |o: &Offered| {
        let reason = o.refused.clone().unwrap_or_else(|| "no answer".to_owned());
        HostError { host: o.host.clone(), reason }
    };
    let hosts = offered.iter().filter(|o| !o.accepted).map(complaint).collect();
    Err(PutError::NotAccepted { needed, hosts })
}

async fn collect(asked: &mut JoinSet<(usize, Result<bool, AskError>)>, offered: &mut [Offered]) {
    let mut until = None;
    loop {
        let next = match until {
            Some(until) => tokio::time::timeout_at(until, asked.join_next()).await,
            None => Ok(asked.join_next().await),
        };
        let Ok(Some(told)) = next else { break };
        let Ok((index, told)) = told else { continue };
        match told {
            Ok(complete) => {
                offered[index].accepted = true;
                offered[index].complete = complete;
                until.get_or_insert_with(|| Instant::now() + GRACE);
            }
            Err(error) => offered[index].refused = Some(error.to_string()),
        }
    }
    for host in offered.iter_mut().filter(|o| !o.accepted && o.refused.is_none()) {
        host.refused = Some("no answer in time".to_owned());
    }
}

/// Offers to one host; true if it turns out to have the object.
async fn ask(
    requester: &Requester,
    address: SocketAddr,
    session: SessionId,
    offer: &Offering,
    timeout: Duration,
) -> Result<bool, AskError> {
    let request = Request::Offer(offer.message(session));
    match requester.ask(address, &request, Cookie::NONE, timeout, &|_, _| {}).await? {
        Answer::Accepted => {}
        _ => return Err(AskError::Nonsense),
    }
    // Told at once if nothing needs to be sent.
    let status = Request::Status { session };
    match requester.ask(address, &status, Cookie::NONE, timeout, &|_, _| {}).await? {
        Answer::Status { state, .. } => Ok(state == PutState::Complete),
        _ => Err(AskError::Nonsense),
    }
}
