//! The sending side of a transfer.

mod acknowledged;
#[cfg(test)]
mod tests;

pub(super) use acknowledged::Ack;

use super::alpha::Alpha;
use super::config::{Config, Congestion};
use super::header::TcpHeader;
use super::timer::RetransmissionTimer;
use super::window::CongestionWindow;
use crate::transfer::{Key, SendTransfer};
use wellspring_core::{Class, Destination, Ecn, Frame, Time};

/// The account of a transfer at its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendStats {
    /// Segments sent, repeats included.
    pub sent: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Recoveries that three duplicate ACKs began.
    pub fast_retransmits: u64,
    /// Times the retransmission timer went off.
    pub timeouts: u64,
    /// Times marks cut the window.
    pub cuts: u64,
}

/// What a sender was at when its retransmission timer went off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeoutState {
    /// cwnd before it \[bytes\].
    pub window: u64,
    /// Sent and not acknowledged \[bytes\].
    pub in_flight: u64,
}

/// What a deadline of a sender came to.
pub(super) enum Deadline {
    /// It was not due.
    Early,
    /// The retransmission timer went off.
    TimedOut(TimeoutState),
    /// The receiver has been silent for too long.
    PeerLost,
}

/// A transfer at its sender.
#[derive(Debug)]
pub(super) struct Sender {
    total: u64,
    path: u16,
    fixed_class: Option<Class>,
    /// SND.UNA.
    unacknowledged: u64,
    /// SND.NXT: the next byte to send, taken back to SND.UNA by a timeout.
    next: u64,
    /// The end of what was ever sent.
    highest: u64,
    window: CongestionWindow,
    timer: RetransmissionTimer,
    alpha: Option<Alpha>,
    duplicate_acks: u32,
    /// Sent because of duplicate ACKs since the last new one (RFC 3042) \[bytes\].
    limited: u64,
    /// Whether fast recovery is under way.
    recovering: bool,
    /// Whether a partial ACK has come in it.
    partial: bool,
    /// What was out when the last recovery or timeout began (RFC 6582); nothing at first.
    recover: Option<u64>,
    /// The first unacknowledged segment is to be sent again.
    repeat: bool,
    /// SND.UNA at the last timeout.
    timed_out_at: Option<u64>,
    last_heard: Time,
    pub stats: SendStats,
}

impl Sender {
    pub fn new(now: Time, config: &Config, transfer: &SendTransfer) -> Sender {
        let number = (u64::from(config.host.0) << 32) | u64::from(transfer.session.0);
        let alpha = match config.congestion {
            Congestion::NewReno => None,
            Congestion::Dctcp { gain, .. } => Some(Alpha::new(gain)),
        };
        Sender {
            total: transfer.transfer_len.max(1),
            path: config.seed.numbered_stream("tcp path", number).below(1 << 16) as u16,
            unacknowledged: 0,
            next: 0,
            highest: 0,
            window: CongestionWindow::new(config),
            timer: RetransmissionTimer::default(),
            fixed_class: transfer.class,
            alpha,
            duplicate_acks: 0,
            limited: 0,
            recovering: false,
            partial: false,
            recover: None,
            repeat: false,
            timed_out_at: None,
            last_heard: now,
            stats: SendStats::default(),
        }
    }

    /// FlightSize \[bytes\]: all that was sent and is not acknowledged.
    fn flight(&self) -> u64 {
        self.highest - self.unacknowledged
    }

    /// The end of the segment that starts at `offset`: segments keep to one grid, so that those
    /// sent again are the same.
    fn segment_end(&self, offset: u64, config: &Config) -> u64 {
        let segment = config.segment();
        (offset - offset % segment).saturating_add(segment).min(self.total)
    }

    /// Whether a segment could be sent now.
    pub fn can_send(&self, config: &Config) -> bool {
        self.repeat || self.fitting(config).is_some()
    }

    /// The end of the next segment, if the windows have room for it. Between RFC 5681's cwnd and
    /// RFC 3042's lies a segment for each of the first two duplicate ACKs, for new data only.
    fn fitting(&self, config: &Config) -> Option<u64> {
        if self.next >= self.total {
            return None;
        }
        let end = self.segment_end(self.next, config);
        let is_new = self.next == self.highest;
        let duplicates = u64::from(self.duplicate_acks.min(2));
        let limited = match config.limited_transmit && is_new && !self.recovering {
            true => duplicates * config.segment(),
            false => 0,
        };
        let window = self.window.bytes().saturating_add(limited).min(config.receive_window);
        (end - self.unacknowledged <= window.max(config.segment())).then_some(end)
    }

    /// The next segment, if one may be sent.
    pub fn transmit(&mut self, now: Time, to: Key, config: &Config) -> Option<Frame<TcpHeader>> {
        let (offset, end) = if self.repeat {
            self.repeat = false;
            (self.unacknowledged, self.segment_end(self.unacknowledged, config))
        } else {
            let range = (self.next, self.fitting(config)?);
            self.next = range.1;
            range
        };
        let is_new = offset >= self.highest;
        self.stats.sent += 1;
        self.stats.retransmitted += u64::from(!is_new);
        if is_new {
            let window = self.window.bytes();
            if !self.recovering && end - self.unacknowledged > window {
                self.limited += end - offset;
            }
            self.highest = end;
        }
        self.timer.on_sent(now, end, is_new, config);
        Some(Frame {
            source: config.host,
            destination: Destination::Host(to.0),
            session: to.1,
            payload_len: (end - offset) as u16,
            path: self.path,
            class: self.fixed_class.unwrap_or_else(|| config.priority.class(offset, self.total)),
            // Retransmissions too, against RFC 3168 §6.1.5: as in the implementations that DCTCP is
            // known by.
            ecn: if config.congestion.reads_marks() { Ecn::Capable } else { Ecn::NotCapable },
            trimmed: false,
            header: TcpHeader::Data { offset, total: self.total },
        })
    }

    /// When something is due: a retransmission, or giving the receiver up.
    pub fn deadline(&self, config: &Config) -> Time {
        let lost = self.last_heard + config.peer_timeout;
        self.timer.deadline().map_or(lost, |due| due.earlier_of(lost))
    }

    /// Acts on a deadline: after a timeout everything unacknowledged is sent again, from a window of
    /// one segment on (RFC 5681 §3.1, RFC 6298 §5.4 to 5.6, RFC 6582 §4).
    pub fn on_deadline(&mut self, now: Time, config: &Config) -> Deadline {
        if now.has_reached(self.last_heard + config.peer_timeout) {
            return Deadline::PeerLost;
        }
        if self.timer.deadline().is_none_or(|due| due.is_after(now)) {
            return Deadline::Early;
        }
        let state = TimeoutState { window: self.window.bytes(), in_flight: self.flight() };
        let again = self.timed_out_at == Some(self.unacknowledged);
        self.window.on_timeout(self.flight() - self.limited.min(self.flight()), again);
        self.timed_out_at = Some(self.unacknowledged);
        self.timer.back_off();
        if let Some(alpha) = &mut self.alpha {
            alpha.on_loss(self.highest);
        }
        (self.recover, self.recovering, self.repeat) = (Some(self.highest), false, false);
        (self.duplicate_acks, self.limited) = (0, 0);
        self.next = self.unacknowledged;
        self.stats.timeouts += 1;
        Deadline::TimedOut(state)
    }
}
