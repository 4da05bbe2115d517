//! Pages of manifests, answered.

use std::fs::File;
use std::sync::Arc;

use wellspring_wire::control::{RefusalCode, Reply};

use super::answer::{Outcome, Owner, Refusal, Shown};
use super::cookie::Purpose;
use super::digests::{Begin, Known, Page, ToRead};
use super::handler::{Handler, lock};
use super::page_turns::PageQuestion;
use crate::driver::ControlMessage;
use crate::manifest::PageId;
use crate::store::tree::listing::TreeName;
use crate::store::{Digest, FileSource, Fingerprint, StoreError};

impl Handler {
    /// Answers a request for a page of an object's manifest.
    pub(super) fn manifest(
        self: &Arc<Self>,
        (shown, message, nonce): (Shown<'_>, &ControlMessage, u64),
        name: &str,
        digest: Digest,
        (log, index): (u8, u64),
    ) -> Result<Outcome, Refusal> {
        let Shown { client, cookie, .. } = shown;
        let purpose = Purpose::Manifest { name, digest };
        let allowed = self.jar.is_good(client, cookie, purpose);
        let found = match TreeName::is_one(name) {
            true => {
                self.tree_file(name, digest).or_else(|| self.sent_to(shown.owner(), name, digest))
            }
            false => match self.object_file(shown, name, digest, allowed)? {
                Ok(found) => found,
                Err(Some(outcome)) => return Ok(outcome),
                Err(None) => return Ok(Outcome::Challenge(self.jar.bake(client, purpose))),
            },
        };
        let Some((file, fingerprint)) = found else {
            return Err(Refusal::new(RefusalCode::Changed, format!("{name} has changed")));
        };
        let size = fingerprint.size();
        let page = PageId::of(log, index);
        let page = page.filter(|page| page.node_len < size && !page.range(size).is_empty());
        let Some(page) = page else {
            return Err(Refusal::new(RefusalCode::Unsupported, "no such page of the manifest"));
        };
        let of = allowed.then_some(shown.source());
        let found = self.digests.page(&file, fingerprint, digest, page, of);
        match found.map_err(StoreError::from)? {
            Page::Nodes(nodes) => Ok(Outcome::Manifest(nodes)),
            Page::Pending => Ok(Outcome::Pending { done: 0, total: size }),
            Page::Unknown => Ok(Outcome::Challenge(self.jar.bake(client, purpose))),
            Page::ToRead => {
                let (name, asked) = (name.to_owned(), message.clone());
                let with = ToRead { file, name, asked, nonce };
                Ok(self.ask_to_read(PageQuestion { client, page: (digest, page), size, with }))
            }
        }
    }

    /// Has a page read in its turn, by this thread if that is now. Whoever reads it answers.
    fn ask_to_read(self: &Arc<Self>, question: PageQuestion<ToRead>) -> Outcome {
        let total = question.size;
        let mut turns = self.digests.page_turns();
        let waits = turns.ask(question);
        // Of an address that has rested, too: its clients ask again.
        let next = turns.next(crate::clock::now());
        drop(turns);
        if let Some(question) = next {
            self.read_page(question);
        }
        if waits { Outcome::Nothing } else { Outcome::Pending { done: 0, total } }
    }

    /// Reads a page, answers who has asked for it, and has those read whose turn it is then.
    fn read_page(self: &Arc<Self>, question: PageQuestion<ToRead>) {
        let PageQuestion { client, page, size, with } = question;
        let ToRead { file, name, asked, nonce } = with;
        let read = self.digests.read_page(&file, size, page);
        let next: Vec<_> = {
            let mut turns = self.digests.page_turns();
            let now = crate::clock::now();
            turns.end(client, now);
            std::iter::from_fn(|| turns.next(now)).collect()
        };
        for question in next {
            let handler = Arc::clone(self);
            crate::task::spawn_blocking(move || handler.read_page(question));
        }
        match read {
            Ok(Some(nodes)) => {
                self.reply(&asked, nonce, &Reply::Manifest { nodes: nodes.as_flattened() });
            }
            // Not one of those that are read.
            Ok(None) => {}
            Err(error) => self.refuse(&asked, nonce, name, StoreError::from(error).into()),
        }
    }

    /// The file of an object of that digest; or what is to be answered instead, nothing if that is a
    /// challenge.
    #[expect(clippy::type_complexity, reason = "taken apart where it is called, and nowhere else")]
    fn object_file(
        &self,
        shown: Shown<'_>,
        name: &str,
        digest: Digest,
        allowed: bool,
    ) -> Result<Result<Option<(File, Fingerprint)>, Option<Outcome>>, Refusal> {
        let name = self.name_to_serve(name)?;
        let owner = shown.owner();
        let begin = allowed.then_some(Begin::of(shown.source()));
        let opened = self.store.open_object(&name);
        let known = opened.map(|(file, fingerprint)| {
            let known = self.digests.of(&file, fingerprint, begin);
            (file, fingerprint, known)
        });
        match known {
            Ok((file, fingerprint, Known::Digest(found))) if found == digest => {
                Ok(Ok(Some((file, fingerprint))))
            }
            Ok((_, fingerprint, Known::Pending(done))) => {
                Ok(Err(Some(Outcome::Pending { done, total: fingerprint.size() })))
            }
            Ok((_, _, Known::Failed(reason))) => Err(Refusal::new(RefusalCode::Failed, reason)),
            Ok((_, _, Known::Unknown)) => Ok(Err(None)),
            // What the name leads to is another file now, or none.
            Ok((_, _, Known::Digest(_))) => Ok(Ok(self.sent_to(owner, name.as_str(), digest))),
            Err(error) => match self.sent_to(owner, name.as_str(), digest) {
                Some(sent) => Ok(Ok(Some(sent))),
                None => Err(error.into()),
            },
        }
    }

    /// The open file of an object that is being sent to a client.
    fn sent_to(&self, owner: Owner, name: &str, digest: Digest) -> Option<(File, Fingerprint)> {
        let source: Arc<FileSource> = lock(&self.sends).source(owner, name)?;
        (source.digest() == digest).then(|| source.file()).flatten()
    }
}
