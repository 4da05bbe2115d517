//! A receiver's measurements and reports (RFC 5348 §6).

use super::losses::LossHistory;
use super::{Report, Stamp, equation};
use alloc::collections::VecDeque;
use wellspring_core::{Duration, Time};

/// Arrivals that are remembered for `X_recv`: a flow of more packets a round trip is measured over
/// so many.
const MAX_ARRIVALS: usize = 4_096;

/// The receiving side of a flow's rate control.
#[derive(Debug)]
pub struct RateReceiver {
    /// s \[bytes\].
    segment_size: f64,
    history: LossHistory,
    /// Times of the packets of the last round trip.
    arrivals: VecDeque<Time>,
    last: Option<(Stamp, Time)>,
    /// The greatest `X_recv` so far \[bytes/s\]: `X_target` of §6.3.1.
    greatest_rate: f64,
    /// p of the last report, `p_prev`.
    reported: f64,
    /// Packets since the last report, and when that was.
    unreported: u32,
    reported_at: Option<Time>,
    /// The feedback timer; unset before the first packet and while nothing comes.
    timer: Option<Time>,
    due: bool,
}

impl RateReceiver {
    /// Of a flow of segments of so many bytes; `discounting` as in §5.5.
    pub fn new(segment_size: u32, discounting: bool) -> Self {
        RateReceiver {
            segment_size: segment_size.max(1).into(),
            history: LossHistory::new(discounting),
            arrivals: VecDeque::new(),
            last: None,
            greatest_rate: 0.0,
            reported: 0.0,
            unreported: 0,
            reported_at: None,
            timer: None,
            due: false,
        }
    }

    /// Takes in a data packet (§6.1): a report may be due at once.
    pub fn on_packet(&mut self, now: Time, stamp: Stamp) {
        let first = self.last.is_none();
        let newest =
            self.last.is_none_or(|(last, _)| (stamp.number.wrapping_sub(last.number) as i32) > 0);
        if newest {
            self.last = Some((stamp, now));
        }
        if self.arrivals.len() == MAX_ARRIVALS {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(now);
        self.unreported = self.unreported.saturating_add(1);
        let rtt = self.rtt();
        let target = self.greatest_rate.max(self.receive_rate(now));
        let (size, seconds) = (self.segment_size, rtt.as_secs_f64());
        // §6.3.1: the interval at which the equation allows the greatest rate that arrived; half a
        // packet a round trip where none was measured.
        let first_interval = || {
            let target = if target > 0.0 { target } else { size / seconds.max(1e-12) / 2.0 };
            1.0 / equation::loss_event_rate(size, seconds, target)
        };
        self.history.on_packet(now, stamp.number, rtt, first_interval);
        // The timer is unset when it last expired and no packet had come: senders slower than a packet a
        // round trip get a report for each.
        let lost_more = self.history.loss_event_rate() > self.reported;
        if first || lost_more || self.timer.is_none_or(|at| now.has_reached(at)) {
            self.due = true;
        }
    }

    /// The feedback timer has gone off, if it has (§6.2).
    pub fn on_timeout(&mut self, now: Time) {
        if self.timer.is_some_and(|at| now.has_reached(at)) {
            self.due |= self.unreported > 0;
            self.timer = None;
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub fn deadline(&self) -> Option<Time> {
        self.timer.filter(|_| !self.due)
    }

    /// Whether [`poll_report`](Self::poll_report) has one.
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// The report that is due, if one is.
    pub fn poll_report(&mut self, now: Time) -> Option<Report> {
        if !core::mem::take(&mut self.due) {
            return None;
        }
        let (stamp, arrived) = self.last?;
        let rate = self.receive_rate(now);
        self.greatest_rate = self.greatest_rate.max(rate);
        self.reported = self.history.loss_event_rate();
        (self.unreported, self.reported_at) = (0, Some(now));
        let rtt = self.rtt();
        self.timer = (rtt > Duration::ZERO).then(|| now + rtt);
        Some(Report {
            echo: stamp.sent,
            delay: now.since(arrived),
            receive_rate: rate as u64,
            loss_event_rate: Report::encode_loss(self.reported),
        })
    }

    /// p.
    pub fn loss_event_rate(&self) -> f64 {
        self.history.loss_event_rate()
    }

    /// Packets that did not come, so far.
    pub fn packets_lost(&self) -> u64 {
        self.history.packets_lost()
    }

    /// Has a report be due.
    pub fn ask(&mut self) {
        self.due = self.last.is_some();
    }

    /// The sender's round trip, as its last packet says.
    pub fn rtt(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |(stamp, _)| stamp.rtt.min(Duration::from_secs(60)))
    }

    /// `X_recv` \[bytes/s\]: what came within the last round trip (§6.2); 0 before one is known.
    fn receive_rate(&mut self, now: Time) -> f64 {
        let rtt = self.rtt();
        if rtt == Duration::ZERO {
            return 0.0;
        }
        // One end of the round trip counts, not both: a timer that a packet set goes off when one
        // that is a round trip behind is about to come, and n packets a round trip are to count as n.
        let one_comes_now = self.arrivals.back() == Some(&now);
        let is_old = |age: Duration| age > rtt || (age == rtt && one_comes_now);
        while self.arrivals.front().is_some_and(|at| is_old(now.since(*at))) {
            self.arrivals.pop_front();
        }
        let (packets, over) = match (self.arrivals.front(), self.reported_at) {
            (Some(first), _) if self.arrivals.len() == MAX_ARRIVALS => {
                (self.arrivals.len(), now.since(*first))
            }
            // A receiver that comes to its report late, all packets being older than a round trip,
            // has not received nothing: the sender would all but stop.
            (None, Some(at)) => (self.unreported as usize, now.since(at).max(rtt)),
            _ => (self.arrivals.len(), rtt),
        };
        packets as f64 * self.segment_size / over.as_secs_f64().max(1e-12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    fn stamp(number: u32, micros: u64, rtt: u64) -> Stamp {
        Stamp { number, sent: at(micros), rtt: Duration::from_micros(rtt) }
    }

    #[test]
    fn the_first_packet_is_reported_at_once_and_then_one_report_comes_a_round_trip() {
        let mut receiver = RateReceiver::new(1_000, true);
        assert_eq!(receiver.poll_report(at(0)), None);
        receiver.on_packet(at(50), stamp(0, 0, 0));
        let report = receiver.poll_report(at(50)).unwrap();
        let expected =
            Report { echo: at(0), delay: Duration::ZERO, receive_rate: 0, loss_event_rate: 0 };
        assert_eq!(report, expected);
        let mut reports = std::vec::Vec::new();
        for number in 1..=40_u32 {
            let now = 100 + u64::from(number) * 10;
            receiver.on_timeout(at(now));
            receiver.on_packet(at(now), stamp(number, now - 50, 100));
            reports.extend(receiver.poll_report(at(now)));
        }
        // The first packet with a round trip, and one for every 100 us.
        assert_eq!(reports.len(), 4);
        // Ten packets of 1,000 bytes in 100 us.
        assert_eq!(reports[2].receive_rate, 100_000_000);
    }

    #[test]
    fn a_report_tells_how_long_it_waited() {
        let mut receiver = RateReceiver::new(1_000, true);
        receiver.on_packet(at(50), stamp(0, 0, 100));
        receiver.poll_report(at(50)).unwrap();
        receiver.on_packet(at(120), stamp(1, 70, 100));
        assert_eq!(receiver.poll_report(at(120)), None);
        assert_eq!(receiver.deadline(), Some(at(150)));
        receiver.on_timeout(at(149));
        assert_eq!(receiver.poll_report(at(149)), None);
        receiver.on_timeout(at(150));
        let report = receiver.poll_report(at(150)).unwrap();
        assert_eq!((report.echo, report.delay), (at(70), Duration::from_micros(30)));
    }

    #[test]
    fn a_loss_is_reported_at_once_and_begins_at_the_rate_that_arrived() {
        let mut receiver = RateReceiver::new(1_000, true);
        for number in 0..30_u32 {
            let now = u64::from(number) * 10;
            receiver.on_timeout(at(now));
            receiver.on_packet(at(now), stamp(number, now, 100));
            receiver.poll_report(at(now));
        }
        for number in [31_u32, 32] {
            let now = u64::from(number) * 10;
            receiver.on_packet(at(now), stamp(number, now, 100));
            receiver.poll_report(at(now));
        }
        receiver.on_packet(at(330), stamp(33, 330, 100));
        let p = receiver.poll_report(at(330)).unwrap().p();
        // X_target: ten packets a round trip of 100 us.
        let rate = equation::throughput(1_000.0, 1e-4, p);
        assert!((rate / 1e8 - 1.0).abs() < 1e-3, "{rate}");
    }

    #[test]
    fn a_report_that_comes_late_tells_the_rate_since_the_last_one() {
        let mut receiver = RateReceiver::new(1_000, true);
        receiver.on_packet(at(0), stamp(0, 0, 100));
        receiver.poll_report(at(0)).unwrap();
        for number in 1..=5_u32 {
            let now = u64::from(number) * 20;
            receiver.on_packet(at(now), stamp(number, now, 100));
        }
        receiver.on_timeout(at(1_000));
        // Five packets of 1,000 bytes in a millisecond.
        assert_eq!(receiver.poll_report(at(1_000)).unwrap().receive_rate, 5_000_000);
    }

    #[test]
    fn a_timer_without_packets_rests_until_the_next_packet() {
        let mut receiver = RateReceiver::new(1_000, true);
        receiver.on_packet(at(50), stamp(0, 0, 100));
        receiver.poll_report(at(50)).unwrap();
        receiver.on_timeout(at(150));
        assert_eq!((receiver.poll_report(at(150)), receiver.deadline()), (None, None));
        receiver.on_packet(at(400), stamp(1, 350, 100));
        assert!(receiver.poll_report(at(400)).is_some());
    }
}
