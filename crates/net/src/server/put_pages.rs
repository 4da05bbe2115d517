//! Pages of the manifests of objects that are taken, asked for while they arrive.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use wellspring_core::SessionId;
use wellspring_wire::control::{RefusalCode, Request};

use super::handler::Handler;
use crate::client::pages::{Pages, Question};
use crate::client::requester::{Answer, AskError};
use crate::manifest::PageId;
use crate::store::{Digest, ObjectName, PartFile};
use crate::store_messages;

/// How often it is looked how far an object has come.
const TICK: Duration = Duration::from_millis(100);
/// How long a client's answer is waited for; then the page is asked for again as long as the object
/// is being taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// An object that is taken.
pub(super) struct Taken {
    pub(super) session: SessionId,
    pub(super) client: SocketAddr,
    pub(super) name: ObjectName,
    pub(super) digest: Digest,
    pub(super) size: u64,
    /// Gone when the object is in place, or is given up.
    pub(super) part: Weak<PartFile>,
}

type Answered = (PageId, Result<Answer, AskError>);

impl Taken {
    /// Has the pages come as they are needed.
    pub(super) async fn follow(self, handler: Arc<Handler>, mut pages: Pages) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asked: JoinSet<Answered> = JoinSet::new();
        loop {
            let Some(part) = self.part.upgrade() else { return };
            let done = *part.contiguous().borrow();
            drop(part);
            if done >= self.size {
                return;
            }
            for question in pages.next(done, |_| true) {
                self.ask(&handler, question, &mut asked);
            }
            tokio::select! {
                Some(Ok((page, answer))) = asked.join_next() => {
                    if !self.take(&handler, &mut pages, page, answer) {
                        return;
                    }
                }
                // Should a page have come while a worker had its block.
                _ = ticks.tick() => {}
            }
            if handler.handle.check_again(self.session).is_err() {
                return;
            }
        }
    }

    fn ask(&self, handler: &Arc<Handler>, question: Question, asked: &mut JoinSet<Answered>) {
        let (requester, client) = (handler.requester.clone(), self.client);
        let (name, digest) = (self.name.clone(), self.digest);
        asked.spawn(async move {
            let Question { page, cookie, .. } = question;
            let request = Request::Manifest {
                name: store_messages::name(&name),
                digest: digest.0,
                log: page.log(),
                index: page.index,
            };
            let mut cookie = *cookie.lock().await;
            let answer =
                requester.ask_with(client, &request, &mut cookie, PATIENCE, &|_, _| {}).await;
            (page, answer)
        });
    }

    /// Takes a page; false if the object is given up.
    fn take(
        &self,
        handler: &Arc<Handler>,
        pages: &mut Pages,
        page: PageId,
        answer: Result<Answer, AskError>,
    ) -> bool {
        match answer {
            Ok(Answer::Manifest(nodes)) => {
                if pages.answered(page, &nodes).is_ok() {
                    return true;
                }
                let reason = "the manifest that was sent does not fit the digest".to_owned();
                handler.give_up_put(self.session, RefusalCode::BadDigest, reason);
                false
            }
            // The session judges whether its sender is gone.
            _ => {
                pages.unanswered(page);
                true
            }
        }
    }
}
