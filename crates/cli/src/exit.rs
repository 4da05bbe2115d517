//! Exit statuses and what is said with them.

use std::fmt;

use wellspring_net::store::StoreError;
use wellspring_net::{BindError, FetchError, PutError};

use crate::output::StdoutError;

pub const DONE: u8 = 0;
pub const OTHER: u8 = 1;
pub const USAGE: u8 = 2;
pub const TOO_FEW_SYMBOLS: u8 = 3;
pub const NO_HOST: u8 = 4;
pub const REPLICAS_DIFFER: u8 = 5;
pub const REPLICAS_LOST: u8 = 6;
pub const BAD_DIGEST: u8 = 7;
pub const TARGET_EXISTS: u8 = 8;
pub const TOO_FEW_RECEIVERS: u8 = 9;
pub const CONTRADICTION: u8 = 10;
pub const INTERRUPTED: u8 = 130;

/// A command that did not succeed.
#[derive(Debug)]
pub struct Failed {
    /// The exit status.
    pub status: u8,
    /// What went wrong; absent if it has been said.
    pub message: Option<String>,
    /// What can be done about it.
    pub hint: Option<String>,
}

impl Failed {
    pub fn new(status: u8, message: impl Into<String>) -> Self {
        Failed { status, message: Some(message.into()), hint: None }
    }

    pub fn other(message: impl Into<String>) -> Self {
        Failed::new(OTHER, message)
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Failed::new(USAGE, message)
    }

    pub fn target_exists(target: impl fmt::Display) -> Self {
        Failed::new(TARGET_EXISTS, format!("{target} exists"))
            .hint("Choose another name by -o, or replace it by --force.")
    }

    pub fn no_folder(folder: impl fmt::Display) -> Self {
        Failed::other(format!("no directory {folder}"))
            .hint("Make the directory first, or choose another by -o.")
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn interrupted() -> Self {
        Failed::new(INTERRUPTED, "interrupted; nothing is left behind")
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Failed::other(error.to_string())
    }
}

impl From<StdoutError> for Failed {
    fn from(error: StdoutError) -> Self {
        if error.is_closed() {
            return Failed { status: DONE, message: None, hint: None };
        }
        Failed::other(error.to_string())
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        error
            .downcast::<StdoutError>()
            .map_or_else(|error| Failed::other(format!("{error:#}")), Failed::from)
    }
}

impl From<wellspring_codec::Error> for Failed {
    fn from(error: wellspring_codec::Error) -> Self {
        Failed::other(error.to_string())
    }
}

impl From<FetchError> for Failed {
    fn from(error: FetchError) -> Self {
        let message = error.to_string();
        let failed = |status| Failed::new(status, message.clone());
        match &error {
            FetchError::NoReplica(_) => failed(NO_HOST).hint(
                "Check the hosts' names and ports and the object's name; is `wellspring serve` \
                 running there, and does a firewall let UDP through?",
            ),
            FetchError::Differ { .. } => failed(REPLICAS_DIFFER).hint(
                "Name only hosts that hold the same bytes, or say which bytes you want by --digest.",
            ),
            FetchError::NoReplicaLeft { .. } => failed(REPLICAS_LOST)
                .hint("Start one of them again and repeat the command; --timeout waits longer."),
            FetchError::Geometry => failed(USAGE)
                .hint("Choose --symbol-size and --block-symbols so that a block has at most 8 MiB."),
            FetchError::Store(StoreError::BadDigest { .. }) => failed(BAD_DIGEST).hint(
                "A replica sent other bytes than it announced: its file may have changed, or its \
                 memory may be at fault. Nothing was written.",
            ),
            FetchError::Store(StoreError::Exists(target)) => Failed::target_exists(target),
            FetchError::Store(StoreError::NoParent(folder)) => Failed::no_folder(folder),
            _ => failed(OTHER),
        }
    }
}

impl From<PutError> for Failed {
    fn from(error: PutError) -> Self {
        let message = error.to_string();
        let failed = |status| Failed::new(status, message.clone());
        match &error {
            PutError::NotAccepted { .. } => failed(NO_HOST).hint(
                "Hosts take objects when they run `wellspring serve --allow-put`; an object of \
                 that name is replaced only with --force here and --allow-overwrite there.",
            ),
            PutError::Incomplete(_) => failed(TOO_FEW_RECEIVERS)
                .hint("Repeat the command: hosts that have the object already are done at once."),
            PutError::BadQuorum { .. } | PutError::TooManyHosts { .. } => failed(USAGE),
            _ => failed(OTHER),
        }
    }
}

impl From<BindError> for Failed {
    fn from(error: BindError) -> Self {
        let failed = Failed::other(error.to_string());
        match error {
            BindError::Socket(_, error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                failed.hint("Another server runs there: choose another port by --bind ADDR:PORT.")
            }
            _ => failed,
        }
    }
}
