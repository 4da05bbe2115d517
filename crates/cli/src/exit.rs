//! Exit statuses of transfers and codes, and the hints that go with the library's errors.

use std::fmt;

use wellspring_console::exit::{Failed, USAGE};
use wellspring_net::store::StoreError;
use wellspring_net::{BindError, FetchError, PutError};

pub const TOO_FEW_SYMBOLS: u8 = 3;
pub const NO_HOST: u8 = 4;
pub const REPLICAS_DIFFER: u8 = 5;
pub const REPLICAS_LOST: u8 = 6;
pub const BAD_DIGEST: u8 = 7;
pub const TARGET_EXISTS: u8 = 8;
pub const TOO_FEW_RECEIVERS: u8 = 9;
pub const CONTRADICTION: u8 = 10;

pub fn target_exists(target: impl fmt::Display) -> Failed {
    Failed::new(TARGET_EXISTS, format!("{target} exists"))
        .hint("Choose another name by -o, or replace it by --force.")
}

pub fn no_folder(folder: impl fmt::Display) -> Failed {
    Failed::other(format!("no directory {folder}"))
        .hint("Make the directory first, or choose another by -o.")
}

pub fn of_fetch(error: &FetchError) -> Failed {
    let failed = |status| Failed::new(status, error.to_string());
    match error {
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
        FetchError::Store(StoreError::Exists(target)) => target_exists(target),
        FetchError::Store(StoreError::NoParent(folder)) => no_folder(folder),
        _ => Failed::other(error.to_string()),
    }
}

pub fn of_put(error: &PutError) -> Failed {
    let failed = |status| Failed::new(status, error.to_string());
    match error {
        PutError::NotAccepted { .. } => failed(NO_HOST).hint(
            "Hosts take objects when they run `wellspring serve --allow-put`; an object of \
             that name is replaced only with --force here and --allow-overwrite there.",
        ),
        PutError::Incomplete(_) => failed(TOO_FEW_RECEIVERS)
            .hint("Repeat the command: hosts that have the object already are done at once."),
        PutError::BadQuorum { .. } | PutError::TooManyHosts { .. } => failed(USAGE),
        _ => Failed::other(error.to_string()),
    }
}

pub fn of_bind(error: &BindError) -> Failed {
    let failed = Failed::other(error.to_string());
    match error {
        BindError::Socket(_, error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            failed.hint("Another server runs there: choose another port by --bind ADDR:PORT.")
        }
        _ => failed,
    }
}
