//! The sending side of a session.

use super::config::Config;
use super::header::{LttpHeader, Parameters};
use super::order::Order;
use crate::tfrc::{RateConfig, RateSender, Report, Stamp};
use wellspring_core::{Duration, HostId, SessionId, Time};

/// The account of a session at its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendStats {
    /// Symbols sent.
    pub sent: u64,
    /// Source symbols of the transfer: what is sent beyond is redundancy, or lost.
    pub source: u64,
    /// Reports that came.
    pub reports: u64,
    /// Times that the rate was halved because none came.
    pub silences: u64,
}

/// A session at its server.
#[derive(Debug)]
pub(super) struct Server {
    pub session: SessionId,
    pub client: HostId,
    pub parameters: Parameters,
    pub path: u16,
    /// Whether it stands in line for the link.
    pub ready: bool,
    /// Unset until the request comes.
    rate: Option<RateSender>,
    order: Order,
    last_heard: Time,
    /// A client silent for that long is lost.
    peer_timeout: Duration,
    pub stats: SendStats,
}

impl Server {
    pub fn new(
        now: Time,
        (client, session): (HostId, SessionId),
        parameters: Parameters,
        path: u16,
        peer_timeout: Duration,
    ) -> Self {
        let source = parameters.symbols();
        Server {
            session,
            client,
            parameters,
            path,
            ready: false,
            rate: None,
            order: Order::default(),
            last_heard: now,
            peer_timeout,
            stats: SendStats { source, ..SendStats::default() },
        }
    }

    /// The client asks: streaming begins with the first request.
    pub fn on_request(&mut self, now: Time, config: &Config) {
        self.last_heard = now;
        self.rate.get_or_insert_with(|| {
            let rate = RateConfig {
                segment_size: config.segment_size(self.parameters.symbol_size),
                prevent_oscillation: config.prevent_oscillation,
                granularity: config.granularity,
            };
            RateSender::new(now, rate)
        });
    }

    /// The client reports; false if that makes no sense.
    pub fn on_report(&mut self, now: Time, report: &Report) -> bool {
        let Some(rate) = &mut self.rate else { return false };
        if !rate.on_report(now, report) {
            return false;
        }
        self.last_heard = now;
        self.stats.reports += 1;
        true
    }

    /// The client has the blocks below `next`; true if these are all.
    pub fn on_stop(&mut self, now: Time, next: u32) -> bool {
        self.last_heard = now;
        let round_trip = self.rate.as_ref().and_then(RateSender::rtt);
        self.order.on_stop(now, next, round_trip, &self.parameters);
        self.order.sbn() >= self.parameters.blocks()
    }

    /// The first block that is not stopped.
    pub fn floor(&self) -> u32 {
        self.order.sbn()
    }

    /// When a symbol may go, if any is to.
    pub fn next_send(&self) -> Option<Time> {
        self.rate.as_ref().map(RateSender::next_send)
    }

    /// The next symbol, if one may go now.
    pub fn poll_symbol(&mut self, now: Time, config: &Config) -> Option<LttpHeader> {
        let stamp: Stamp = self.rate.as_mut()?.poll_stamp(now)?;
        let (sbn, esi) = self.order.next(now, &self.parameters, config);
        self.stats.sent += 1;
        Some(LttpHeader::Symbol { stamp, sbn, esi })
    }

    /// When [`on_timeout`](Self::on_timeout) is due, sending aside.
    pub fn deadline(&self) -> Time {
        let lost_peer = self.last_heard + self.peer_timeout;
        let nofeedback = self.rate.as_ref().map(RateSender::nofeedback_deadline);
        nofeedback.map_or(lost_peer, |at| at.earlier_of(lost_peer))
    }

    /// A deadline has come; false if the client is lost.
    pub fn on_timeout(&mut self, now: Time) -> bool {
        if now.has_reached(self.last_heard + self.peer_timeout) {
            return false;
        }
        if let Some(rate) = &mut self.rate
            && now.has_reached(rate.nofeedback_deadline())
        {
            rate.on_timeout(now);
            self.stats.silences += 1;
        }
        true
    }

    /// X \[bytes/s\], once streaming.
    pub fn rate(&self) -> Option<f64> {
        self.rate.as_ref().map(RateSender::rate)
    }
}
