//! Maelstrom (NSDI 2008) without I/O: forward error correction that hides packet loss on a long link.
//!
//! An appliance stands at each end of the link and watches the packets that pass. The [`SendSide`]
//! of one mixes those that leave into repairs, which follow them; the [`ReceiveSide`] of the other
//! watches what arrives and, with the repairs, brings back what did not. Neither touches the
//! packets themselves: when an appliance stops, traffic flows on, unprotected.
//!
//! A packet is known by its [`Identity`], which both ends compute from its bytes (§4.6). Repairs
//! travel in authenticated datagrams ([`PresharedKey`]), so that nobody else can inject packets. How
//! long a packet may be so that its repair fits the link is the [`MtuPlan`]'s to say. The receive
//! side measures loss ([`LossReport`]), the send side may follow it ([`Limits`]).
//!
//! Several appliances of a site may share the addresses that they protect ([`Failover`]). In split
//! mode (§4.2) the appliances relay connections over [`trunk`]s. A [`PacketCache`] serves hosts that lose
//! datagrams themselves (§4.5), a [`Bundler`] carries small packets together (§4.8).
//!
//! The code itself is `wellspring_codec::interleave`. Time is an argument; sockets are in
//! `wellspring-appliance`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod accept;
mod adaptive;
mod arrival;
mod assignment;
mod auth;
mod batch;
mod blind_spots;
mod bundle;
mod bundle_hello;
mod cache;
mod choice;
mod code;
mod deadline;
mod diagnosis;
mod digest;
mod drop_reason;
mod failover;
mod flow;
mod gcm;
mod hello;
mod hold;
mod identity;
mod loss_counts;
mod loss_frequency;
mod loss_report;
mod meter;
mod mtu;
mod named;
mod partitions;
mod post;
mod queue_delay;
mod queue_samples;
mod receive;
mod repair_kind;
mod retransmissions;
mod segment;
mod send;
mod send_config;
mod signals;
mod time_stamps;
mod trunk;
mod wire;

pub use arrival::{Arrival, CongestionLoss, ReceiveConfig, ReceiveCounters};
pub use assignment::MAX_APPLIANCES;
#[doc(hidden)]
pub use auth::seal_datagram;
pub use auth::{HEADER_LEN, KEY_LEN, PresharedKey, SessionId, TAG_LEN};
pub use batch::Batch;
pub use bundle::{BundleCounters, Bundler, Unbundled, Unbundler};
pub use bundle_hello::BundleHello;
pub use cache::{CacheCounters, PacketCache, Wanted};
pub use choice::{Limits, Losses, choose, choose_blocks, choose_sliding};
pub use code::{Code, Family, SlidingCode};
pub use diagnosis::{Cause, Hearing};
pub use drop_reason::DropReason;
pub use failover::{Failover, FailoverConfig, FailoverCounters};
pub use hello::MAX_HELLO_LEN;
pub use hold::Recovered;
pub use identity::{Identity, Namer, Unprotected, Volatile, restore};
pub use loss_report::LossReport;
pub use mtu::{MtuError, MtuPlan};
pub use partitions::{MAX_PARTITIONS, Partitions};
pub use receive::ReceiveSide;
pub use send::SendSide;
pub use send_config::{SendConfig, SendCounters};
pub use trunk::{
    GREETING_LEN, MAX_TRUNK_DATA, MAX_TRUNK_FRAME, TrunkError, TrunkFrame, TrunkOpener,
    TrunkSealer, trunk, trunk_greeting,
};
pub use wire::{INGREDIENT_LEN, REPORT_LEN, VERSION, is_repair};

#[cfg(test)]
mod block_tests;
#[cfg(test)]
mod congestion_tests;
#[cfg(test)]
mod deadline_tests;
#[cfg(test)]
mod failover_tests;
#[cfg(test)]
mod outer_tests;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;
