//! Pages of manifests, answered.

use std::fs::File;
use std::sync::Arc;

use wellspring_wire::control::RefusalCode;

use super::answer::{Outcome, Owner, Refusal, Shown};
use super::cookie::Purpose;
use super::digests::{Begin, Known};
use super::handler::{Handler, lock};
use crate::manifest::PageId;
use crate::store::tree::listing::TreeName;
use crate::store::{Digest, FileSource, Fingerprint, StoreError};

impl Handler {
    /// Answers a request for a page of an object's manifest.
    pub(super) fn manifest(
        &self,
        shown: Shown<'_>,
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
        let nodes =
            self.digests.page(&file, fingerprint, digest, page, allowed.then_some(shown.source()));
        match nodes.map_err(StoreError::from)? {
            Some(nodes) => Ok(Outcome::Manifest(nodes)),
            None if allowed => Ok(Outcome::Pending { done: 0, total: size }),
            None => Ok(Outcome::Challenge(self.jar.bake(client, purpose))),
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
