//! Length and digest of an object, without its bytes.

use super::replicas::{Late, find};
use super::{Client, FetchError, FetchOptions};
use crate::Host;
use crate::store::{Digest, ObjectName};
use crate::task::Boxed;

/// An object as hosts have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectStat {
    /// Its length \[bytes\].
    pub size: u64,
    /// Its digest, which hosts compute if they do not know it.
    pub digest: Digest,
}

impl Client {
    /// Asks hosts for the length and the digest of an object, in which all that have it must agree.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn stat<'a>(
        &'a self,
        hosts: &'a [Host],
        name: &'a ObjectName,
    ) -> Boxed<'a, Result<ObjectStat, FetchError>> {
        Box::pin(async move {
            let options = FetchOptions::new(name.clone());
            let patience = (self.config.timeout, Late::IsLeftOut, 0);
            let found = find(&self.requester, hosts, &options, patience).await?;
            Ok(ObjectStat { size: found.size, digest: found.digest })
        })
    }
}
