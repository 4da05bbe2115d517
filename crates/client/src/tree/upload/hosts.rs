//! The hosts to which a tree is put, and how far each is.

use std::time::Duration;

use super::super::put_report::TreeReceiver;
use crate::Host;
use crate::store::tree::listing::Lacks;
use crate::{HostError, HostTrouble, ReceiverState};

/// How often a host that was lost on the way is tried again.
const TRIES: u32 = 3;

/// A host, and how far it is.
pub(super) struct Receiver {
    pub host: Host,
    pub lacks: Lacks,
    pub state: State,
    /// Files that it lacked when it was first asked, and their length \[bytes\].
    pub lacked: Option<(u64, u64)>,
    pub removed: u64,
    /// How often it was lost.
    lost: u32,
}

pub(super) enum State {
    Live,
    Complete(Duration),
    /// `again` says whether it is worth another round.
    Failed {
        error: HostError,
        again: bool,
    },
}

impl Receiver {
    pub(super) fn new(host: &Host) -> Self {
        let lacks = Lacks::default();
        let host = host.clone();
        Receiver { host, lacks, state: State::Live, lacked: None, removed: 0, lost: 0 }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, State::Live)
    }

    /// It takes no more part in this round; one that fell out on the way, or of whose directory somebody else has made
    /// another one meanwhile, is tried again a few times.
    pub(super) fn fail(&mut self, reason: String, trouble: HostTrouble, on_the_way: bool) {
        let again = on_the_way && self.lost < TRIES;
        self.lost += 1;
        let error = HostError { host: self.host.to_string(), reason, trouble };
        self.state = State::Failed { error, again };
    }

    /// Takes part again, if it is worth a try.
    pub(super) fn revive(&mut self) {
        if matches!(self.state, State::Failed { again: true, .. }) {
            self.state = State::Live;
        }
    }

    /// What it has is not the tree any more.
    pub(super) fn go_back(&mut self) {
        if matches!(self.state, State::Complete(_)) {
            self.state = State::Live;
        }
    }

    pub(super) fn report(&self) -> TreeReceiver {
        let (lacked_files, lacked_bytes) = self.lacked.unwrap_or_default();
        TreeReceiver {
            host: self.host.to_string(),
            state: match &self.state {
                State::Live => ReceiverState::Unfinished,
                State::Complete(after) => ReceiverState::Complete(*after),
                State::Failed { error, .. } => ReceiverState::Failed(error.reason.clone()),
            },
            lacked_files,
            lacked_bytes,
            removed: self.removed,
        }
    }
}
