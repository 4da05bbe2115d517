//! Pages of the manifest, asked for while the object arrives.

use wellspring_wire::control::RefusalCode;

use super::{Joined, Run};
use crate::FetchError;
use crate::manifest::PageId;
use crate::pages::{Question, first_answer};
use crate::replicas::Standing;
use crate::requester::AskError;
use crate::sink::Sink;

impl Run {
    /// Asks for the pages of the manifest that are needed next.
    pub(super) fn ask_for_pages(&mut self) {
        let done = *match &self.sink {
            Sink::File(part) => part.contiguous(),
            Sink::Stream { scratch, .. } => scratch.contiguous(),
        }
        .borrow();
        let missing = done..self.wanted.held().end;
        let (shares, replicas) = (&self.shares, &self.replicas);
        let is_live = |share: usize| replicas[shares[share]].is_live();
        for question in self.pages.next(missing, is_live) {
            let (share, page) = (question.share, question.page);
            let questions = self.pages.with_others(question, is_live);
            let ask = |Question { share, page, cookie }| {
                let (order, address) = (self.order.clone(), replicas[shares[share]].address);
                let answer = async move {
                    let address = address.ok_or(AskError::PortClosed)?;
                    order.page(address, page, &cookie).await
                };
                (share, answer)
            };
            let questions = questions.into_iter().map(ask).collect();
            self.tasks.spawn(async move {
                let answer = first_answer(questions).await;
                let (share, answer) = answer.unwrap_or((share, Err(AskError::Stopped)));
                Joined::Page(share, page, answer)
            });
        }
    }

    /// Takes a page, or notes that a replica cannot give it.
    pub(super) fn on_page(
        &mut self,
        share: usize,
        page: PageId,
        answer: Result<Vec<u8>, AskError>,
    ) -> Result<(), FetchError> {
        match answer {
            Ok(bytes) => match self.pages.answered(page, &bytes) {
                Ok(()) => {
                    self.handle.check_again(self.order.session)?;
                    self.ask_for_pages();
                }
                Err(_) => {
                    let reason = "sent a manifest that does not fit the object's digest".to_owned();
                    self.exclude(share, Standing::Excluded(reason))?;
                }
            },
            // Asked for again with the next tick, of another replica if there is one.
            Err(
                AskError::NoAnswer(_)
                | AskError::PortClosed
                | AskError::Unreachable(_)
                | AskError::Stopped,
            ) => {
                self.pages.unanswered(page);
            }
            Err(AskError::Refused { code: RefusalCode::Busy, .. }) => self.pages.unanswered(page),
            Err(error) => {
                self.pages.unanswered(page);
                self.replicas[self.shares[share]].trouble = error.trouble();
                let reason = format!("gives no manifest of the object ({error})");
                self.exclude(share, Standing::Unused(reason))?;
            }
        }
        Ok(())
    }
}
