//! Pages of manifests, answered.

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_wire::control::RefusalCode;

use super::answer::{Outcome, Refusal, Shown};
use super::cookie::Purpose;
use super::digests::Known;
use super::handler::{Handler, lock};
use crate::manifest::PageId;
use crate::store::{Digest, FileSource, Fingerprint, StoreError};

impl Handler {
    /// Answers a request for a page of an object's manifest.
    pub(super) fn manifest(
        &self,
        shown: Shown,
        name: &str,
        digest: Digest,
        (log, index): (u8, u64),
    ) -> Result<Outcome, Refusal> {
        let Shown { client, cookie } = shown;
        let name = self.name_to_serve(name)?;
        let purpose = Purpose::Manifest { name: name.as_str(), digest };
        let allowed = self.jar.is_good(client, cookie, purpose);
        let begin: Option<&dyn Fn()> = if allowed { Some(&|| {}) } else { None };
        let opened = self.store.open_object(&name);
        let known = opened.map(|(file, fingerprint)| {
            let known = self.digests.of(&file, fingerprint, begin);
            (file, fingerprint, known)
        });
        let (file, fingerprint) = match known {
            Ok((file, fingerprint, Known::Digest(found))) if found == digest => (file, fingerprint),
            Ok((_, fingerprint, Known::Pending(done))) => {
                return Ok(Outcome::Pending { done, total: fingerprint.size() });
            }
            Ok((_, _, Known::Failed(reason))) => {
                return Err(Refusal::new(RefusalCode::Failed, reason));
            }
            Ok((_, _, Known::Unknown)) => {
                return Ok(Outcome::Challenge(self.jar.bake(client, purpose)));
            }
            // What the name leads to is another file now, or none.
            Ok((_, _, Known::Digest(_))) | Err(_) => match self.sent_to(client, &name, digest) {
                Some(sent) => sent,
                None => return Err(self.not_held(&name, known.err())),
            },
        };
        let size = fingerprint.size();
        let page = PageId::of(log, index);
        let page = page.filter(|page| page.node_len < size && !page.range(size).is_empty());
        let Some(page) = page else {
            return Err(Refusal::new(RefusalCode::Unsupported, "no such page of the manifest"));
        };
        let nodes = self.digests.page(&file, fingerprint, digest, page, allowed);
        match nodes.map_err(StoreError::from)? {
            Some(nodes) => Ok(Outcome::Manifest(nodes)),
            None if allowed => Ok(Outcome::Pending { done: 0, total: size }),
            None => Ok(Outcome::Challenge(self.jar.bake(client, purpose))),
        }
    }

    /// The open file of an object that is being sent to a client.
    fn sent_to(
        &self,
        client: SocketAddr,
        name: &crate::store::ObjectName,
        digest: Digest,
    ) -> Option<(File, Fingerprint)> {
        let source: Arc<FileSource> = lock(&self.sends).source(client, name.as_str())?;
        (source.digest() == digest).then(|| source.file()).flatten()
    }

    fn not_held(&self, name: &crate::store::ObjectName, error: Option<StoreError>) -> Refusal {
        match error {
            Some(error) => error.into(),
            None => Refusal::new(RefusalCode::Changed, format!("{name} has changed")),
        }
    }
}
