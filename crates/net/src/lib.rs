//! The real transport: SCDP endpoints on UDP sockets, objects, replicas and groups.
//!
//! [`Server`] sends and takes the files of a directory; [`Client`] fetches an object from all its
//! holders at once and puts an object to many hosts, by multicast where there is a group. Below
//! them lies the [`driver`], which runs the protocol over sockets for whoever brings the bytes.
//! [`LttpServer`] and [`LttpClient`] do the same by LTTP: a contiguous share from each server.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address;
mod client;
pub mod driver;
mod lttp;
pub mod payload;
pub mod protocols;
mod random;
mod server;
pub mod socket;
pub mod store;

pub use address::{DEFAULT_PORT, Host, NotAHost};
pub use client::{
    Client, ClientConfig, Cut, DEFAULT_INITIAL_WINDOW, DEFAULT_SYMBOL_SIZE,
    DEFAULT_SYMBOLS_PER_BLOCK, FetchError, FetchOptions, FetchReport, HostError, PutError,
    PutOptions, PutReport, ReceiverReport, ReceiverState, ReplicaReport, ReplicaState, Target,
    Update, Updates,
};
pub use lttp::{
    DEFAULT_LTTP_BLOCK_SYMBOLS, DEFAULT_LTTP_SYMBOL_SIZE, LostServer, LttpClient, LttpClientConfig,
    LttpOptions, LttpReport, LttpServer, LttpServerConfig, LttpServerEvent, LttpSettings,
    LttpStatistics, Method, ShareReport,
};
pub use server::{BindError, LONGEST_WAIT, Server, ServerConfig, ServerEvent};
