//! TCP-friendly rate control (TFRC, RFC 5348): a sender's rate from what its receiver reports.
//!
//! Two state machines without clock or packets: [`RateSender`] says when the next packet may go,
//! [`RateReceiver`] measures and says when a report is due. Names are the RFC's: X is the allowed
//! rate, `X_recv` what arrives, p the loss event rate, R the round trip, s the segment size.
//!
//! | RFC 5348 | where |
//! |---|---|
//! | §3.1 throughput equation, and its inverse for §6.3.1 | [`throughput`], [`loss_event_rate`] |
//! | §3.2 what data packets and reports carry | [`Stamp`], [`Report`] |
//! | §4.2 to §4.6, §4.5 as an option | [`RateSender`] |
//! | §5.1 to §5.5, §5.5 as an option | [`LossHistory`] |
//! | §6.1 to §6.3 | [`RateReceiver`] |
//!
//! Left out: data-limited intervals (§4.3), because who streams encoding symbols always has the
//! next one; ECN.

mod equation;
mod losses;
mod receiver;
mod sender;

pub use equation::{loss_event_rate, throughput};
pub use losses::LossHistory;
pub use receiver::RateReceiver;
pub use sender::{RateConfig, RateSender};

use wellspring_core::{Duration, Time};

/// What a data packet carries for rate control (RFC 5348 §3.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Sequence number of the flow, one up for each packet; it may wrap.
    pub number: u32,
    /// When it was sent, by the sender's clock.
    pub sent: Time,
    /// The sender's estimate of the round trip, zero before there is one.
    pub rtt: Duration,
}

/// What a receiver reports (RFC 5348 §3.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// [`Stamp::sent`] of the last data packet, `t_recvdata`.
    pub echo: Time,
    /// Time from its arrival to this report, `t_delay`.
    pub delay: Duration,
    /// `X_recv` \[bytes/s\].
    pub receive_rate: u64,
    /// p, in units of 2^-32: 0 as long as no loss was seen.
    pub loss_event_rate: u32,
}

impl Report {
    /// p as it travels: at least one unit once there was a loss.
    pub(crate) fn encode_loss(p: f64) -> u32 {
        if p > 0.0 { (p.min(1.0) * f64::from(u32::MAX)).max(1.0) as u32 } else { 0 }
    }

    /// p as a number.
    pub fn p(&self) -> f64 {
        f64::from(self.loss_event_rate) / f64::from(u32::MAX)
    }
}

/// Seconds as a span: no less than nothing, no more than an hour.
pub(crate) fn span(seconds: f64) -> Duration {
    Duration::from_picos((seconds.clamp(0.0, 3_600.0) * 1e12) as u64)
}
