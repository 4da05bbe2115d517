//! Errors of transfers.

use std::fmt;
use std::io;

use super::byte_range::ByteRange;
use crate::ConfigError;
use crate::driver::{Failure, HandleError};
use crate::store::{Digest, StoreError};
use wellspring_net::{HostError, HostTrouble};

fn list(f: &mut fmt::Formatter<'_>, hosts: &[HostError]) -> fmt::Result {
    hosts.iter().try_for_each(|host| write!(f, "\n  {host}"))
}

/// Why a fetch fails.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// No host was named.
    NoHosts,
    /// More hosts than shares.
    TooManyHosts {
        /// How many.
        got: usize,
        /// The limit.
        limit: usize,
    },
    /// No host that was named has the object.
    NoReplica(Vec<HostError>),
    /// Hosts hold different bytes under the name; none was asked for any.
    Differ {
        /// The object.
        name: String,
        /// Each host's size \[bytes\] and digest.
        replicas: Vec<(String, u64, Digest)>,
    },
    /// Every replica was lost on the way.
    NoReplicaLeft {
        /// What happened to each.
        hosts: Vec<HostError>,
        /// How much had arrived \[bytes\].
        done: u64,
        /// Of how much \[bytes\].
        size: u64,
    },
    /// The object has none of the bytes that are wanted.
    NoSuchRange {
        /// The bytes.
        range: ByteRange,
        /// The object's length \[bytes\].
        size: u64,
    },
    /// The object has changed since the fetch began.
    Changed,
    /// A range is wanted by a protocol that fetches only whole objects.
    RangeByProtocol,
    /// A priority is wanted of a protocol that has none.
    PriorityByProtocol,
    /// A setting makes no sense.
    Config(ConfigError),
    /// Symbols or blocks as large, or as many of them, are not possible.
    Geometry,
    /// The object cannot be kept here, or its digest is wrong.
    Store(StoreError),
    /// The writer given takes no more.
    Write(io::Error),
    /// The transfer failed here.
    Session(Failure),
    /// The driver does not do as asked.
    Driver(HandleError),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::NoHosts => f.write_str("no host was named"),
            FetchError::TooManyHosts { got, limit } => write!(f, "{got} hosts (limit {limit})"),
            FetchError::NoReplica(hosts) => {
                let changes = |host: &HostError| host.trouble == HostTrouble::Changed;
                let what = if !hosts.is_empty() && hosts.iter().all(changes) {
                    "what the hosts have keeps changing"
                } else {
                    "no host has the object"
                };
                write!(f, "{what}:")?;
                list(f, hosts)
            }
            FetchError::Differ { name, replicas } => {
                write!(f, "the replicas of {name} differ, so none was used:")?;
                replicas.iter().try_for_each(|(host, size, digest)| {
                    write!(f, "\n  {host}: {size} bytes, digest {digest}")
                })
            }
            FetchError::NoReplicaLeft { hosts, done, size } => {
                write!(f, "no replica is left, {done} of {size} bytes had arrived:")?;
                list(f, hosts)
            }
            FetchError::NoSuchRange { range, size } => {
                write!(f, "the object has {size} bytes, and none in the range {range}")
            }
            FetchError::Changed => f.write_str("the object has changed since the fetch began"),
            FetchError::RangeByProtocol => f.write_str("ranges of bytes are fetched by SCDP alone"),
            FetchError::PriorityByProtocol => f.write_str("priorities are for SCDP alone"),
            FetchError::Config(error) => error.fmt(f),
            FetchError::Geometry => f.write_str("symbols or blocks of that size are not possible"),
            FetchError::Store(error) => error.fmt(f),
            FetchError::Write(error) => write!(f, "cannot write the object out: {error}"),
            FetchError::Session(failure) => write!(f, "the transfer failed: {failure}"),
            FetchError::Driver(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FetchError::Store(error) => Some(error),
            FetchError::Write(error) => Some(error),
            FetchError::Session(failure) => Some(failure),
            FetchError::Driver(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StoreError> for FetchError {
    fn from(error: StoreError) -> Self {
        FetchError::Store(error)
    }
}

impl From<HandleError> for FetchError {
    fn from(error: HandleError) -> Self {
        FetchError::Driver(error)
    }
}

/// Why a put fails.
#[derive(Debug)]
#[non_exhaustive]
pub enum PutError {
    /// No host was named.
    NoHosts,
    /// More hosts than a group holds.
    TooManyHosts {
        /// How many.
        got: usize,
        /// The limit.
        limit: usize,
    },
    /// The quorum is not between one and the number of hosts.
    BadQuorum {
        /// The quorum.
        got: usize,
        /// The number of hosts.
        hosts: usize,
    },
    /// A setting makes no sense.
    Config(ConfigError),
    /// The file cannot be read.
    Read(io::Error),
    /// Too few hosts take the object; nothing of it was sent.
    NotAccepted {
        /// How many must.
        needed: usize,
        /// Why the others do not.
        hosts: Vec<HostError>,
    },
    /// Too few hosts ended up with the object.
    Incomplete(Box<super::PutReport>),
    /// The driver does not do as asked.
    Driver(HandleError),
}

impl fmt::Display for PutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PutError::NoHosts => f.write_str("no host was named"),
            PutError::TooManyHosts { got, limit } => write!(f, "{got} hosts (limit {limit})"),
            PutError::BadQuorum { got, hosts } => {
                write!(f, "a quorum of {got} with {hosts} hosts")
            }
            PutError::Config(error) => error.fmt(f),
            PutError::Read(error) => write!(f, "cannot read the file: {error}"),
            PutError::NotAccepted { needed, hosts } => {
                write!(f, "fewer than {needed} hosts take the object; nothing of it was sent:")?;
                list(f, hosts)
            }
            PutError::Incomplete(report) => {
                let complete = report.complete();
                write!(f, "{complete} hosts have the object, {} must:", report.needed)?;
                list(f, &report.unfinished())
            }
            PutError::Driver(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PutError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PutError::Read(error) => Some(error),
            PutError::Driver(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for PutError {
    fn from(error: io::Error) -> Self {
        PutError::Read(error)
    }
}

impl From<HandleError> for PutError {
    fn from(error: HandleError) -> Self {
        PutError::Driver(error)
    }
}

impl From<ConfigError> for FetchError {
    fn from(error: ConfigError) -> Self {
        FetchError::Config(error)
    }
}

impl From<ConfigError> for PutError {
    fn from(error: ConfigError) -> Self {
        PutError::Config(error)
    }
}
