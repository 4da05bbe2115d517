//! Clients that have quotas, and what these forbid.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use wellspring_trust::{Identity, Quota};

use super::super::address_limit::source_of;

/// Files that are accounted for, at most: each takes its name and about a hundred bytes of memory.
pub(super) const MAX_FILES: usize = 1_000_000;

/// A client that has a quota.
#[derive(Clone, Debug)]
pub(in super::super) struct Account {
    /// The key's fingerprint, or the address.
    pub(super) owner: Arc<str>,
    /// As people know it.
    pub(super) shown: String,
    pub(super) quota: Quota,
}

impl Account {
    /// That of a key, or where there are no keys of an address; `None` if it has no quota.
    pub(in super::super) fn of(
        identity: Option<&Identity>,
        client: SocketAddr,
        of_addresses: Quota,
    ) -> Option<Self> {
        let (owner, shown, quota) = match identity {
            Some(Identity { name, fingerprint, rights }) => {
                (fingerprint.to_string(), format!("key {name}"), rights.quota)
            }
            None => {
                let source = source_of(client).to_string();
                (source.clone(), source, of_addresses)
            }
        };
        (!quota.is_none()).then(|| Account { owner: owner.into(), shown, quota })
    }

    /// Whether what is kept of its puts is counted.
    pub(in super::super) fn counts_what_is_kept(&self) -> bool {
        self.quota.bytes.is_some() || self.quota.files.is_some()
    }

    /// Files that it may have.
    pub(in super::super) fn max_files(&self) -> Option<u64> {
        self.quota.files.map(NonZeroU64::get)
    }
}

/// A quota that forbids something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum Exceeded {
    Sessions {
        shown: String,
        limit: u64,
    },
    Bytes {
        shown: String,
        quota: Quota,
        has: u64,
        wanted: u64,
    },
    Files {
        shown: String,
        limit: u64,
        has: u64,
        wanted: u64,
    },
    /// That of all clients together.
    Accounted,
    /// None: what is kept is not known.
    Unread {
        reason: String,
    },
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = "or ask the server's operator for more";
        match self {
            Exceeded::Sessions { shown, limit } => write!(
                f,
                "quota max-sessions={limit} of {shown} is used up: wait until a transfer ends, {more}"
            ),
            Exceeded::Bytes { shown, quota, has, wanted } => write!(
                f,
                "quota {quota} of {shown}: it has {has} bytes there, and {wanted} more are too many; remove some, {more}"
            ),
            Exceeded::Files { shown, limit, has, wanted } => write!(
                f,
                "quota max-files={limit} of {shown}: it has {has} there, and {wanted} more are too many; remove some, {more}"
            ),
            Exceeded::Unread { reason } => {
                write!(
                    f,
                    "the server cannot read what is kept of whom ({reason}); tell its operator"
                )
            }
            Exceeded::Accounted => write!(
                f,
                "the server keeps accounts of {MAX_FILES} files already; ask its operator to remove some"
            ),
        }
    }
}
