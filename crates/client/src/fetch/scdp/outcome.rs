//! Outcomes of the sessions of a fetch.

use wellspring_transport::scdp::ReceiveStats;

use crate::FetchError;
use crate::replicas::Replica;
use crate::sink::Sink;

/// What came of a fetch.
pub(super) struct Fetched {
    pub(super) stats: ReceiveStats,
    pub(super) replicas: Vec<Replica>,
    pub(super) sink: Sink,
    /// What an earlier fetch had left of the object \[bytes\].
    pub(super) resumed: u64,
}

/// Why an object is not fetched.
pub(super) enum Unfetched {
    Failed(FetchError),
    /// Symbols were too long for a path, and none came.
    Narrow(Sink),
}

impl From<FetchError> for Unfetched {
    fn from(error: FetchError) -> Self {
        Unfetched::Failed(error)
    }
}
