//! TCP as a baseline: NewReno, and DCTCP (RFC 8257), as bulk transfers of a known length.
//!
//! # What of which RFC
//! - RFC 5681: slow start (§3.1, equation 2, an ACK counts for a segment at most), congestion
//!   avoidance (equation 3), loss window of a segment and ssthresh of half the flight (equation
//!   4), which stays when the same segment times out again; fast retransmit and fast recovery
//!   (§3.2); delayed ACKs (§4.2), an option. Not: restart after idle times (§4.1; a transfer has
//!   none).
//! - RFC 6582: NewReno's partial ACKs, deflated windows, option 1 on leaving, "Impatient" timer
//!   (§3.2), no second recovery from the same window (§3.2 step 2 and §4). Not: the heuristics of §4.1.
//! - RFC 6298: all of §2 to §5 but for a clock's granularity, one sample a round trip, Karn's rule.
//! - RFC 3042: limited transmit. RFC 6928: the initial window.
//! - RFC 8257: the receiver's echo with delayed ACKs (§3.2), alpha over windows of data and cuts by
//!   it (§3.3), losses as NewReno (§3.5: "MUST"). CWR is not sent: this echo does not wait for it.
//!
//! Not here: SACK, timestamps, flow control beyond a fixed window, Nagle's rule, and the handshake:
//! connections count as open, as in the simulations they are held against. Each data segment
//! carries the transfer's length instead.
//!
//! # Endings
//! Every transfer ends under any loss, duplication and reordering: what is not acknowledged is sent
//! again by the retransmission timer, a finished receiver remembers the transfer and answers what
//! comes again, and both sides give up on a peer that stays silent for [`Config::peer_timeout`].

mod alpha;
mod config;
mod endpoint;
mod header;
mod ranges;
mod receiver;
mod sender;
mod timer;
mod window;

pub use crate::transfer::{Command, CommandError, FailReason, SendTransfer};
pub use config::{Config, Congestion, Halves};
pub use endpoint::{Endpoint, Event};
pub use header::TcpHeader;
pub use receiver::ReceiveStats;
pub use sender::{SendStats, TimeoutState};
