//! Transfers that run, for an operator who looks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::SessionProgress;
use crate::protocols::Account;

/// A transfer that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RunningTransfer {
    /// Its number among the transfers of its direction and protocol, in the order in which they began.
    pub number: u64,
    /// The other host.
    pub client: SocketAddr,
    /// The object, or the part of a tree.
    pub name: String,
    /// Which way it goes.
    pub direction: Direction,
    /// By which protocol.
    pub protocol: Protocol,
    /// How far it is.
    pub state: TransferState,
    /// The object's length; 0 while it is not known \[bytes\].
    pub size: u64,
    /// Of a put, the bytes in place; of a fetch, the bytes sent, up to the object's length \[bytes\].
    pub done: u64,
    /// Symbols that were sent or that came, of use or not \[bytes\].
    pub moved: u64,
    /// Of a put: blocks in place, and all.
    pub blocks: Option<(u64, u64)>,
    /// Whether it comes by multicast.
    pub multicast: bool,
    /// The protocol's counters; of SCDP alone.
    pub account: Option<Account>,
}

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// A client fetches.
    Send,
    /// A client puts.
    Receive,
}

/// The protocol of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// SCDP.
    Scdp,
    /// NDP.
    Ndp,
    /// LTTP.
    Lttp,
}

/// How far a transfer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferState {
    /// Files are being opened.
    Opening,
    /// What an earlier put has left is being verified.
    Checking,
    /// Symbols go or come.
    Moving,
    /// All bytes are there, and are being verified and synced.
    Verifying,
}

/// Parts of objects that LTTP sends, by their numbers.
#[derive(Default)]
pub(super) struct RunningParts(Mutex<Parts>);

#[derive(Default)]
struct Parts {
    begun: u64,
    all: BTreeMap<u64, Part>,
}

struct Part {
    client: SocketAddr,
    name: String,
    progress: SessionProgress,
    symbol_size: u16,
}

/// A part that is sent, until this is dropped.
pub(super) struct RunningPart<'a> {
    parts: &'a RunningParts,
    number: u64,
}

impl Drop for RunningPart<'_> {
    fn drop(&mut self) {
        self.parts.locked().all.remove(&self.number);
    }
}

impl RunningParts {
    fn locked(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a part, until what is returned is dropped.
    pub(super) fn add(
        &self,
        client: SocketAddr,
        name: &str,
        progress: SessionProgress,
        symbol_size: u16,
    ) -> RunningPart<'_> {
        let mut parts = self.locked();
        parts.begun += 1;
        let number = parts.begun;
        parts.all.insert(number, Part { client, name: name.to_owned(), progress, symbol_size });
        RunningPart { parts: self, number }
    }

    /// Those that are sent, `limit` at most.
    pub(super) fn running(&self, limit: usize) -> Vec<RunningTransfer> {
        let parts = self.locked();
        let all = parts.all.iter().take(limit);
        all.map(|(number, part)| {
            let size = part.progress.transfer_len();
            let moved = part.progress.symbols() * u64::from(part.symbol_size);
            RunningTransfer {
                number: *number,
                client: part.client,
                name: part.name.clone(),
                direction: Direction::Send,
                protocol: Protocol::Lttp,
                state: TransferState::Moving,
                size,
                done: moved.min(size),
                moved,
                blocks: None,
                multicast: false,
                account: None,
            }
        })
        .collect()
    }
}
