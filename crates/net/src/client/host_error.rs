//! The complaint about one host.

use std::fmt;

/// A host and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostError {
    /// The host, as the caller named it.
    pub host: String,
    /// What is wrong.
    pub reason: String,
}

/// How the reason of a host that did not answer begins.
pub(crate) const NO_ANSWER: &str = "no answer";

impl HostError {
    /// Whether the host did not answer: it, its server or the network between may be down. Else it
    /// said what is wrong, or has no address.
    pub fn is_silent(&self) -> bool {
        self.reason.starts_with(NO_ANSWER)
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.host, self.reason)
    }
}
