//! An object that a client offers, and the client as the one who has its manifest.

use std::net::SocketAddr;
use std::time::Duration;

use wellspring_core::{Priority, SessionId};
use wellspring_transport::scdp::ObjectInfo;
use wellspring_wire::control::{Offer, Request};

use super::ServerEvent;
use super::answer::Owner;
use crate::manifest::Manifest;
use crate::pages::{Pages, Question};
use crate::requester::{Answer, AskError, Requester};
use crate::resume::Answered;
use crate::store::{Digest, Existing, ObjectName};
use crate::store_messages;
use crate::task::Boxed;

/// How long a client's answer is waited for; then the page is asked for again as long as the object
/// is being taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// An object that is to be taken, as it was offered.
#[derive(Clone)]
pub(super) struct Taking {
    pub(super) session: SessionId,
    pub(super) owner: Owner,
    pub(super) name: ObjectName,
    pub(super) size: u64,
    pub(super) digest: Digest,
    pub(super) group: Option<SocketAddr>,
    pub(super) existing: Existing,
    /// It is a file of a tree, and may come in the place of what is no object.
    pub(super) is_of_tree: bool,
    pub(super) initial_window: u8,
    pub(super) priority: Priority,
    pub(super) timeout_ms: u32,
    /// What the operator is told that it is, if that is told.
    pub(super) shown: Option<String>,
}

impl Taking {
    pub(super) fn new(owner: Owner, name: ObjectName, offer: &Offer<'_>) -> Self {
        Taking {
            session: offer.session,
            owner,
            name,
            size: offer.size,
            digest: Digest(offer.digest),
            group: offer.group,
            existing: if offer.overwrite { Existing::Replace } else { Existing::Keep },
            is_of_tree: false,
            initial_window: offer.geometry.initial_window,
            priority: Priority::background_if(offer.background),
            timeout_ms: offer.timeout_ms,
            shown: Some(offer.name.to_string()),
        }
    }

    /// It is being taken; `resumed` bytes were here. Nothing is told of it if it has no name for people.
    pub(super) fn event(&self, resumed: u64) -> Option<ServerEvent> {
        let name = self.shown.clone()?;
        Some(ServerEvent::Receiving {
            name,
            client: self.owner.client,
            size: self.size,
            multicast: self.group.is_some(),
            resumed,
        })
    }

    /// Its manifest, of which nothing is known.
    pub(super) fn pages(&self, object: &ObjectInfo) -> Pages {
        Pages::new(Manifest::new(self.digest, self.size, object.block_len), self.size, 1)
    }

    /// Who has its manifest.
    pub(super) fn putter(&self, requester: &Requester) -> Putter {
        Putter {
            requester: requester.clone(),
            client: self.owner.client,
            name: self.name.clone(),
            digest: self.digest,
        }
    }
}

/// The client that puts an object, as the one who has its manifest.
#[derive(Clone)]
pub(super) struct Putter {
    pub(super) requester: Requester,
    pub(super) client: SocketAddr,
    pub(super) name: ObjectName,
    pub(super) digest: Digest,
}

impl Putter {
    /// Asks for a page.
    pub(super) fn ask(&self, question: Question) -> Boxed<'static, Answered> {
        self.ask_long(question, |_, _| {})
    }

    /// As [`ask`](Self::ask); `pending` is told how far the client says that it is with the answer.
    pub(super) fn ask_long(
        &self,
        question: Question,
        pending: impl Fn(u64, u64) + Send + Sync + 'static,
    ) -> Boxed<'static, Answered> {
        let Putter { requester, client, name, digest } = self.clone();
        Box::pin(async move {
            let Question { page, cookie, .. } = question;
            let request = Request::Manifest {
                name: store_messages::name(&name),
                digest: digest.0,
                log: page.log(),
                index: page.index,
            };
            let mut cookie = *cookie.lock().await;
            let answer = requester.ask_with(client, &request, &mut cookie, PATIENCE, &pending);
            let nodes = match answer.await {
                Ok(Answer::Manifest(nodes)) => Ok(nodes),
                Ok(_) => Err(AskError::Nonsense),
                Err(error) => Err(error),
            };
            (page, nodes)
        })
    }
}
