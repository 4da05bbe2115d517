//! Stages that fetches by all protocols have in common: before bytes move, and after.

use std::time::Duration;

use tokio::time::Instant;

use super::replicas::{Found, Late, find};
use super::sink::{Bytes, Sink};
use super::{Client, FetchError, FetchOptions, Target, Update, Updates};
use crate::address::Host;
use crate::store::Digest;

/// A fetch under way.
pub(crate) struct Stages<'a> {
    updates: &'a Updates,
    size: u64,
    digest: Digest,
    began: Instant,
    preparing: Duration,
}

/// How long a fetch took.
pub(crate) struct Times {
    /// All of it.
    pub elapsed: Duration,
    /// Of that, finding the replicas.
    pub preparing: Duration,
    /// Of that, verifying, syncing, renaming.
    pub finishing: Duration,
}

impl<'a> Stages<'a> {
    /// Finds the replicas, which must agree.
    pub(crate) async fn find(
        client: &Client,
        hosts: &[Host],
        options: &'a FetchOptions,
        late: Late,
    ) -> Result<(Stages<'a>, Found), FetchError> {
        let (began, timeout) = (Instant::now(), client.config.timeout);
        let found = find(&client.requester, hosts, options, (timeout, late)).await?;
        let (updates, preparing) = (&options.updates, began.elapsed());
        let Found { size, digest, .. } = found;
        Ok((Stages { updates, size, digest, began, preparing }, found))
    }

    /// Opens the destination, and says that bytes begin to move, from those hosts.
    pub(crate) async fn open(
        &self,
        target: Target,
        bytes: Bytes,
        symbol_size: u16,
        hosts: Vec<String>,
    ) -> Result<Sink, FetchError> {
        let Stages { size, digest, .. } = *self;
        let sink = Sink::open(target, size, digest, bytes).await?;
        self.updates.tell(Update::Started { size, symbol_size, digest, hosts });
        Ok(sink)
    }

    /// All bytes are there: verifies them, and has them in place.
    pub(crate) async fn finish(self, sink: Sink) -> Result<Times, FetchError> {
        self.updates.tell(Update::Verifying);
        let finishing = Instant::now();
        sink.finish().await?;
        let (elapsed, preparing) = (self.began.elapsed(), self.preparing);
        Ok(Times { elapsed, preparing, finishing: finishing.elapsed() })
    }
}
