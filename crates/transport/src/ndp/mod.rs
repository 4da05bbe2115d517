//! NDP (Handley et al., SIGCOMM 2017): receiver-driven transport for fabrics that trim; and, with
//! demotion by bytes sent, the SCDP paper's NDP+ (SCDP §V).
//!
//! # How it works
//! A sender pushes an *initial window* of packets at line rate. The receiver acknowledges each
//! packet (ACK), answers each trimmed header (NACK), and for either puts a *pull* into the one
//! pull queue of its host, which releases pulls at the pace at which data can arrive. A pull lets
//! the sender send one packet: first what a NACK asked for again, then new data.
//!
//! # What is never lost
//! Every flow ends under any loss, duplication and reordering of any packets:
//! - Of the packets that are neither acknowledged nor NACKed in time, one is sent again at once,
//!   without a pull; it reports how many others are missing, and the receiver pulls each of them
//!   again. So what was lost is replaced in the window, at the receiver's pace.
//! - Pulls are numbered cumulatively; a receiver that hears nothing although it has no pull left
//!   to send repeats the last one.
//! - A pull that finds nothing to send keeps: the NACK it belongs to comes behind it.
//! - A finished receiver remembers the flow for a while and acknowledges what comes again.
//!
//! A flow to a multicast group ([`GroupTransfer`]) repeats to all what one member asks for again. It is an
//! extension, for comparison with SCDP.
//!
//! Both sides give up on a peer that stays silent for [`Config::peer_timeout`].

mod config;
mod endpoint;
mod group;
mod receiver;
mod seen;
mod sender;

pub use crate::Priority;
pub use crate::transfer::{CommandError, FailReason, SendTransfer};
pub use config::Config;
pub use endpoint::{Command, Endpoint, Event};
pub use group::GroupTransfer;
pub use receiver::ReceiveStats;
pub use sender::SendStats;
pub use wellspring_wire::ndp::{Data, NdpHeader};
