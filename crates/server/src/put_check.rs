//! Blocks that an earlier offer of an object has left, verified before the object is taken.

use std::sync::Arc;

use tokio::sync::watch;
use wellspring_transport::scdp::ObjectInfo;
use wellspring_wire::control::RefusalCode;

use super::ServerEvent;
use super::answer::Refusal;
use super::checking::{Checking, Steps};
use super::handler::{Handler, lock};
use super::puts::Stage;
use super::taking::{Putter, Taking};
use crate::pages::Question;
use crate::requester::AskError;
use crate::resume::{Answered, Holders, Left};
use crate::store::PartFile;
use crate::task::Boxed;

/// The client that offers an object, while it is verified what is there of it.
struct Offerer {
    putter: Putter,
    steps: Arc<Steps>,
    over: watch::Receiver<bool>,
}

impl Holders for Offerer {
    fn is_live(&self, _: usize) -> bool {
        !*self.over.borrow()
    }

    fn ask(&self, question: Question) -> Boxed<'static, Answered> {
        let (page, mut over) = (question.page, self.over.clone());
        let (steps, open) = (Arc::clone(&self.steps), self.steps.question());
        let works = Arc::clone(&steps);
        let asked = self.putter.ask_long(question, move |hashed, _| works.pending(hashed));
        Box::pin(async move {
            let _open = open;
            tokio::select! {
                biased;
                answered = asked => {
                    if answered.1.is_ok() {
                        steps.answered();
                    }
                    answered
                }
                _ = over.wait_for(|over| *over) => (page, Err(AskError::Stopped)),
            }
        })
    }

    fn looked_at(&self, done: u64) {
        self.steps.look_at(done);
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }
}

impl Handler {
    /// Verifies what is left of an object, beside other requests, and takes the object then. Its client
    /// is told to ask again until that is done.
    pub(super) fn check_left(
        self: &Arc<Self>,
        taking: Taking,
        object: ObjectInfo,
        part: Arc<PartFile>,
    ) {
        let (checking, steps, over) = Checking::begin(crate::clock::now());
        match lock(&self.puts).get_mut(taking.session) {
            Some(put) => put.stage = Stage::Checking(checking),
            None => return,
        }
        let handler = Arc::clone(self);
        crate::task::spawn(async move {
            let mut pages = taking.pages(&object);
            let held = {
                let putter = taking.putter(&handler.requester);
                let holders = Offerer { putter, steps, over: over.clone() };
                let turns = Some(&handler.checks);
                let left = Left { part: &part, object: &object, holders: &holders, turns };
                left.blocks(&mut pages).await
            };
            let is_over = *over.borrow();
            let begun = crate::task::spawn_blocking(move || {
                if is_over {
                    // Free before the other offer is asked for again.
                    drop(part);
                    return handler.end_checked(&taking);
                }
                if let Err(refusal) = handler.take_up(&taking, object, part, pages, held) {
                    handler.refuse_checked(&taking, refusal);
                }
            });
            // A panic ends the process's session with it: there is nothing left to begin.
            let _ = begun.await;
        });
    }

    /// The verification was ended.
    fn end_checked(&self, taking: &Taking) {
        let given_up = lock(&self.puts).get_mut(taking.session).and_then(|put| put.given_up.take());
        let (code, text) =
            given_up.unwrap_or_else(|| (RefusalCode::Failed, "was given up".to_owned()));
        self.refuse_checked(taking, Refusal { code, text });
    }

    /// An object cannot be taken after all.
    fn refuse_checked(&self, taking: &Taking, refusal: Refusal) {
        let Refusal { code, text } = refusal;
        lock(&self.puts).end(taking.session, Stage::Failed(code));
        let (name, client) = (taking.shown.clone(), taking.owner.client);
        let event = name.map(|name| ServerEvent::ReceiveFailed { name, client, reason: text });
        self.tell_if(event);
    }
}
