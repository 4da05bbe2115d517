//! A client of Wellspring servers: fetches an object from all its holders at once, puts an object to many hosts.
//!
//! [`Client`] fetches and puts objects and whole directories, by multicast where there is a group. What it shares
//! with servers lies in the crate [`wellspring_net`], and below that the [`driver`], which runs the [`protocols`]
//! over one socket.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod byte_range;
mod client;
mod error;
mod fetch;
mod holders;
mod narrow;
mod order;
mod paths;
mod put;
mod replicas;
mod report;
mod resolution;
mod sink;
mod stat;
mod stream;
mod survey;
mod tree;
mod update;

#[cfg(feature = "simulation")]
pub use wellspring_net::simulation;
pub use wellspring_net::{ConfigError, driver, protocols, socket, store};
use wellspring_net::{
    clock, disk, manifest, pages, random, requester, resume, store_messages, task,
};
// Their types stand in signatures here.
pub use wellspring_net::{
    wellspring_core, wellspring_transport, wellspring_trust, wellspring_wire,
};
pub use {wellspring_codec, wellspring_net};

pub use byte_range::{ByteRange, NotARange};
pub(crate) use client::timeout_ms;
pub use client::{
    Client, ClientConfig, Cut, DEFAULT_INITIAL_WINDOW, DEFAULT_LTTP_BLOCK_SYMBOLS,
    DEFAULT_LTTP_SYMBOL_SIZE, DEFAULT_SYMBOL_SIZE, DEFAULT_SYMBOLS_PER_BLOCK, FetchOptions,
    FetchProtocol, LONG_SYMBOL_SIZE, MAX_FURTHER_ADDRESSES, PutOptions, Target,
};
pub use error::{FetchError, PutError};
pub use report::{
    FetchReport, LttpReport, PartReport, ProtocolReport, PutReport, ReceiverReport, ReceiverState,
    ReplicaReport, ReplicaState, ScdpReport,
};
pub use stat::ObjectStat;
pub use survey::{ClassEcho, DEFAULT_DATAGRAM_LEN, DatagramLens, Greeting, RoundTrips};
pub use tree::{
    HearPut, LinksOut, PutTreeOptions, PutTreeReport, Swapped, TreeChange, TreeDisagreement,
    TreeError, TreeFilter, TreeListing, TreeOptions, TreeReceiver, TreeReport,
};
pub use update::{BlockProgress, ReceiverProgress, SenderProgress, Update, Updates};
pub use wellspring_codec::lt::Method;
pub use wellspring_core::Priority;
pub use wellspring_net::{Host, HostError, HostTrouble, NotAHost};
