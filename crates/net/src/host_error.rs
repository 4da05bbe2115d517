//! The trouble with one host.

use std::fmt;

/// A host and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostError {
    /// The host, as the caller named it.
    pub host: String,
    /// What is wrong.
    pub reason: String,
    /// What kind of trouble that is.
    pub trouble: HostTrouble,
}

/// A kind of trouble with a host: what can be done about it differs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum HostTrouble {
    /// It did not answer: it, its server or the network between may be down.
    Silent,
    /// It is there, and nobody listens at that port.
    PortClosed,
    /// Its name has no address.
    Unresolved,
    /// It has no object of that name.
    NotFound,
    /// Keys, or rights of keys, are in the way.
    Keys,
    /// It is another machine, and there are no keys here: it was not spoken to in clear.
    Clear,
    /// It does not take objects from this client, or does not let what is there be replaced.
    NotAllowed,
    /// It has no room for the object, or no more for this client.
    NoRoom,
    /// What is there has changed since it was listed or looked at, or is being replaced.
    Changed,
    /// Anything else: the reason says it all.
    #[default]
    Other,
}

/// The reason of a host that did not answer.
pub const NO_ANSWER: &str = "no answer";

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.host, self.reason)
    }
}
