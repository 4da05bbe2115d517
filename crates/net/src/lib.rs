//! Objects, replicas and groups: a server of files, and a client that fetches and puts them.
//!
//! [`Server`] sends and takes the files of a directory; [`Client`] fetches an object from all its
//! holders at once and puts an object to many hosts, by multicast where there is a group. Below
//! them lies the [`driver`], a crate of its own, which runs the [`protocols`] over one socket for
//! whoever brings the bytes.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address;
mod client;
mod clock;
mod disk;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod key_files;
mod manifest;
mod server;
mod store_messages;

pub use wellspring_driver as driver;
pub use wellspring_store as store;
// Their types stand in signatures here.
pub use {
    wellspring_codec, wellspring_core, wellspring_transport, wellspring_trust, wellspring_wire,
};

#[cfg(feature = "simulation")]
pub use wellspring_driver::simulation;
pub use wellspring_driver::{ConfigError, protocols, socket};
use wellspring_driver::{random, task};

pub use address::{DEFAULT_PORT, Host, NotAHost};
pub use client::{
    BlockProgress, ByteRange, ClassEcho, Client, ClientConfig, Cut, DEFAULT_DATAGRAM_LEN,
    DEFAULT_INITIAL_WINDOW, DEFAULT_LTTP_BLOCK_SYMBOLS, DEFAULT_LTTP_SYMBOL_SIZE,
    DEFAULT_SYMBOL_SIZE, DEFAULT_SYMBOLS_PER_BLOCK, DatagramLens, FetchError, FetchOptions,
    FetchProtocol, FetchReport, Greeting, HostError, HostTrouble, LttpReport, Method, NotARange,
    ObjectStat, PartReport, ProtocolReport, PutError, PutOptions, PutReport, PutTreeOptions,
    PutTreeReport, ReceiverProgress, ReceiverReport, ReceiverState, ReplicaReport, ReplicaState,
    RoundTrips, ScdpReport, SenderProgress, Target, TreeChange, TreeError, TreeFilter, TreeListing,
    TreeOptions, TreeReceiver, TreeReport, Update, Updates,
};
pub use key_files::{KeyDirectory, KeyFileError};
pub use server::{
    BindError, LONGEST_WAIT, LttpLimits, MAX_PATHS, Permissions, QuotaRefusals, ReceivedObjects,
    ReloadError, Server, ServerConfig, ServerCounters, ServerEvent, Settings, Transfers,
};
