//! Options and account of a tree that is put.

use std::net::SocketAddr;
use std::time::Duration;

use super::options::TreeOptions;
use crate::report::ReceiverState;
use crate::store::Digest;
use crate::store::tree::listing::SkipReason;
use crate::store::tree::{LinksOut, TreeChange};
use crate::{HostError, HostTrouble};
use wellspring_driver::setters;

/// Hears what is done to the directory, or in a dry run would be, and at which hosts.
pub type HearPut = dyn Fn(TreeChange, &[String]) + Send + Sync;

/// Where a tree is put, and how. Its [`directory`](TreeOptions::directory) is the one at the hosts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PutTreeOptions {
    /// The tree.
    pub tree: TreeOptions,
    /// Replace files and links that differ (servers must allow it).
    pub overwrite: bool,
    /// Hosts swap the whole directory when all of the tree is there, instead of file by file.
    pub atomic: bool,
    /// The multicast group and port to send by; without one each host is sent to on its own.
    pub group: Option<SocketAddr>,
    /// Succeed if so many hosts have the tree; `None`: all.
    pub quorum: Option<usize>,
    /// What becomes of links that lead out of the tree here.
    pub links_out: LinksOut,
}

setters! {
    PutTreeOptions {
        overwrite: bool,
        atomic: bool,
        group: Option<SocketAddr>,
        quorum: Option<usize>,
        links_out: LinksOut,
    }
}

impl PutTreeOptions {
    /// To each host on its own, all of which must get it; nothing is replaced, and links that lead out are skipped.
    pub fn new(tree: TreeOptions) -> Self {
        PutTreeOptions {
            tree,
            overwrite: false,
            atomic: false,
            group: None,
            quorum: None,
            links_out: LinksOut::Skipped,
        }
    }
}

/// A host to which a tree was put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeReceiver {
    /// The host, as the caller named it.
    pub host: String,
    /// Its state at the end.
    pub state: ReceiverState,
    /// Files that it lacked when it was first asked.
    pub lacked_files: u64,
    /// Their length \[bytes\].
    pub lacked_bytes: u64,
    /// What it has removed, or would: directories that it was told to remove, and that have something it does not list, stay.
    pub removed: u64,
}

/// Account of a tree that was put.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PutTreeReport {
    /// Regular files of the tree.
    pub files: u64,
    /// Their length \[bytes\].
    pub bytes: u64,
    /// Files that were sent. To hosts that lack different files they are sent apart, and count for each.
    pub sent_files: u64,
    /// Their length \[bytes\].
    pub sent_bytes: u64,
    /// What was left out, and why: the first hundred.
    pub skipped: Vec<(String, SkipReason)>,
    /// How much was left out.
    pub skipped_count: u64,
    /// Digest of the tree's listing.
    pub digest: Option<Digest>,
    /// All of it.
    pub elapsed: Duration,
    /// How often it was begun again.
    pub begun_again: u32,
    /// How many hosts must have the tree.
    pub needed: usize,
    /// Symbols sent, over all sessions; a multicast symbol counts once.
    pub symbols_sent: u64,
    /// One entry a host named.
    pub receivers: Vec<TreeReceiver>,
}

impl PutTreeReport {
    /// Hosts that have the tree.
    pub fn complete(&self) -> usize {
        let complete = |r: &&TreeReceiver| matches!(r.state, ReceiverState::Complete(_));
        self.receivers.iter().filter(complete).count()
    }

    /// Hosts that do not have it, and why.
    pub fn unfinished(&self) -> Vec<HostError> {
        let error = |r: &TreeReceiver| match &r.state {
            ReceiverState::Complete(_) => None,
            ReceiverState::Failed(reason) => Some((r.host.clone(), reason.clone())),
            ReceiverState::Unfinished => Some((r.host.clone(), "not finished".to_owned())),
        };
        let errors = self.receivers.iter().filter_map(error);
        errors
            .map(|(host, reason)| HostError { host, reason, trouble: HostTrouble::Other })
            .collect()
    }
}
