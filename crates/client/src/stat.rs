//! Length and digest of an object at a host, without its bytes.

use super::replicas::{Late, find};
use super::{Client, FetchError, FetchOptions};
use crate::Host;
use crate::store::{Digest, ObjectName};

/// An object as a host has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectStat {
    /// Its length \[bytes\].
    pub size: u64,
    /// Its digest, which the host computes if it does not know it.
    pub digest: Digest,
}

impl Client {
    /// Asks a host for the length and the digest of an object.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn stat(&self, host: &Host, name: &ObjectName) -> Result<ObjectStat, FetchError> {
        let options = FetchOptions::new(name.clone());
        let hosts = std::slice::from_ref(host);
        let patience = (self.config.timeout, Late::IsLeftOut, 0);
        let found = find(&self.requester, hosts, &options, patience).await?;
        Ok(ObjectStat { size: found.size, digest: found.digest })
    }
}
