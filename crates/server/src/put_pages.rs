//! Pages of the manifests of objects that are taken, asked for while they arrive.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use wellspring_core::SessionId;
use wellspring_wire::control::RefusalCode;

use super::handler::Handler;
use super::taking::Putter;
use crate::manifest::PageId;
use crate::pages::Pages;
use crate::requester::AskError;
use crate::resume::Answered;
use crate::store::PartFile;

/// How often it is looked how far an object has come.
const TICK: Duration = Duration::from_millis(100);

/// An object that is taken.
pub(super) struct Taken {
    pub(super) session: SessionId,
    pub(super) putter: Putter,
    pub(super) size: u64,
    /// Gone when the object is in place, or is given up.
    pub(super) part: Weak<PartFile>,
}

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
            for question in pages.next(done..self.size, |_| true) {
                asked.spawn(self.putter.ask(question));
            }
            tokio::select! {
                biased;
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

    /// Takes a page; false if the object is given up.
    fn take(
        &self,
        handler: &Arc<Handler>,
        pages: &mut Pages,
        page: PageId,
        answer: Result<Vec<u8>, AskError>,
    ) -> bool {
        match answer {
            Ok(nodes) => {
                if pages.answered(page, &nodes).is_ok() {
                    return true;
                }
                let reason = "the manifest that was sent does not fit the digest".to_owned();
                handler.give_up_put(self.session, RefusalCode::BadDigest, reason);
                false
            }
            // The session judges whether its sender is gone.
            Err(_) => {
                pages.unanswered(page);
                true
            }
        }
    }
}
