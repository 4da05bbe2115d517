//! Asking receivers how far they are.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::task::JoinSet;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use wellspring_core::SessionId;
use wellspring_wire::control::{Cookie, PutState, RefusalCode, Request};

use super::super::requester::{Answer, Requester};

/// Pause between two questions while blocks arrive, and when all have.
const PAUSE: Duration = Duration::from_millis(200);
const SHORT_PAUSE: Duration = Duration::from_millis(20);

/// What a receiver says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    Receiving {
        done: u32,
        total: u32,
    },
    /// As `Receiving`, but it wants to be sent to on its own.
    LeftGroup {
        done: u32,
        total: u32,
    },
    Complete {
        total: u32,
    },
    Failed(String),
}

/// One task a receiver, each of which asks until there is a final answer.
pub(super) struct Watchers {
    requester: Requester,
    timeout: Duration,
    tasks: JoinSet<()>,
    each: BTreeMap<usize, (Arc<Notify>, AbortHandle)>,
    told: mpsc::UnboundedSender<(usize, Seen)>,
    heard: mpsc::UnboundedReceiver<(usize, Seen)>,
}

impl Watchers {
    pub(super) fn new(requester: Requester, timeout: Duration) -> Self {
        let (told, heard) = mpsc::unbounded_channel();
        Watchers { requester, timeout, tasks: JoinSet::new(), each: BTreeMap::new(), told, heard }
    }

    pub(super) fn watch(&mut self, index: usize, address: SocketAddr, session: SessionId) {
        let hurry = Arc::new(Notify::new());
        let (requester, timeout) = (self.requester.clone(), self.timeout);
        let (told, hurried) = (self.told.clone(), Arc::clone(&hurry));
        let task = self.tasks.spawn(async move {
            loop {
                let seen = look(&requester, address, session, timeout).await;
                let pause = match &seen {
                    Seen::Receiving { done, total } if done == total && *total > 0 => SHORT_PAUSE,
                    Seen::Receiving { .. } | Seen::LeftGroup { .. } => PAUSE,
                    Seen::Complete { .. } | Seen::Failed(_) => Duration::MAX,
                };
                if told.send((index, seen)).is_err() || pause == Duration::MAX {
                    return;
                }
                // Whichever comes first: both mean to look again.
                let _ = tokio::time::timeout(pause, hurried.notified()).await;
            }
        });
        self.each.insert(index, (hurry, task));
    }

    /// Something happened to that receiver: look at once.
    pub(super) fn hurry(&self, index: usize) {
        if let Some((hurry, _)) = self.each.get(&index) {
            hurry.notify_one();
        }
    }

    pub(super) fn stop(&mut self, index: usize) {
        if let Some((_, task)) = self.each.remove(&index) {
            task.abort();
        }
    }

    pub(super) async fn next(&mut self) -> Option<(usize, Seen)> {
        self.heard.recv().await
    }
}

async fn look(
    requester: &Requester,
    address: SocketAddr,
    session: SessionId,
    timeout: Duration,
) -> Seen {
    let status = Request::Status { session };
    match requester.ask(address, &status, Cookie::NONE, timeout, &|_, _| {}).await {
        Ok(Answer::Status { state, blocks_done, blocks_total }) => match state {
            PutState::Receiving => Seen::Receiving { done: blocks_done, total: blocks_total },
            PutState::LeftGroup => Seen::LeftGroup { done: blocks_done, total: blocks_total },
            PutState::Complete => Seen::Complete { total: blocks_total },
            PutState::Failed(RefusalCode::Changed) => Seen::Failed(
                "the directory there was changed while it was put: put it again".to_owned(),
            ),
            PutState::Failed(code) => Seen::Failed(code.to_string()),
            PutState::Unknown => Seen::Failed("has forgotten the object (restarted?)".to_owned()),
        },
        Ok(_) => Seen::Failed("an answer that makes no sense".to_owned()),
        Err(error) => Seen::Failed(error.to_string()),
    }
}
