//! A sender's rate (RFC 5348 §4).

use super::{Report, Stamp, equation, span};
use alloc::collections::VecDeque;
use libm::sqrt;
use wellspring_core::{Duration, Time};

/// The longest time between two packets, `t_mbi` \[s\] (§4.3).
const T_MBI: f64 = 64.0;
/// q of §4.3: the weight of the old round trip.
const Q: f64 = 0.9;
/// The nofeedback timer before a round trip is known \[s\] (§4.2).
const FIRST_NOFEEDBACK: f64 = 2.0;
/// Reports of two round trips that are remembered: one a round trip and a few of losses.
const MAX_RATES: usize = 8;

/// What a rate is computed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateConfig {
    /// s \[bytes\].
    pub segment_size: u32,
    /// Whether packets are spaced by the momentary round trip, too (§4.5).
    pub prevent_oscillation: bool,
    /// How late the sender may be woken, `t_gran` (§4.6): packets it did not send within such a span
    /// it catches up, and silence of the receiver is not noticed within ten of them. Zero where the
    /// clock is exact.
    pub granularity: Duration,
}

/// The sending side of a flow's rate control.
#[derive(Debug)]
pub struct RateSender {
    config: RateConfig,
    /// s \[bytes\].
    s: f64,
    /// X, the allowed rate \[bytes/s\].
    x: f64,
    /// `X_inst` \[bytes/s\].
    x_inst: f64,
    /// p.
    p: f64,
    /// R \[s\].
    rtt: Option<f64>,
    /// `R_sqmean`.
    rtt_root: f64,
    /// `X_recv_set` with the times of its entries \[bytes/s\].
    received: VecDeque<(f64, Time)>,
    /// When X was last doubled, `tld`.
    doubled: Time,
    nofeedback: Time,
    next_number: u32,
    /// Nominal time of the last packet, and of the next one.
    last_send: Time,
    next_send: Time,
}

impl RateSender {
    /// Of a flow that begins now: a packet a second until the first report (§4.2).
    pub fn new(now: Time, config: RateConfig) -> Self {
        let s = f64::from(config.segment_size.max(1));
        RateSender {
            config,
            s,
            x: s,
            x_inst: s,
            p: 0.0,
            rtt: None,
            rtt_root: 0.0,
            received: VecDeque::with_capacity(MAX_RATES + 1),
            doubled: now,
            nofeedback: now + span(FIRST_NOFEEDBACK),
            next_number: 0,
            last_send: now,
            next_send: now,
        }
    }

    /// X \[bytes/s\].
    pub fn rate(&self) -> f64 {
        self.x
    }

    /// R, once a report came.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.map(span)
    }

    /// p, as last reported.
    pub fn loss_event_rate(&self) -> f64 {
        self.p
    }

    /// When the next packet may go.
    pub fn next_send(&self) -> Time {
        self.next_send
    }

    /// When the nofeedback timer goes off.
    pub fn nofeedback_deadline(&self) -> Time {
        self.nofeedback
    }

    /// Books the packet that goes now: its stamp, if one may (§4.6). What a busy link did not let
    /// go is not caught up beyond [`RateConfig::granularity`]: there are no bursts.
    pub fn poll_stamp(&mut self, now: Time) -> Option<Stamp> {
        if now.is_before(self.next_send) {
            return None;
        }
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        // The nominal time, which a waking up that comes late does not move; but there are no bursts.
        let granularity = self.config.granularity;
        self.last_send = self.next_send.later_of(now - self.interval().max(granularity));
        self.next_send = (self.last_send + self.interval()).later_of(now - granularity);
        Some(Stamp { number, sent: now, rtt: self.rtt().unwrap_or(Duration::ZERO) })
    }

    /// `t_ipi`.
    fn interval(&self) -> Duration {
        span(self.s / self.x_inst)
    }

    /// `W_init` \[bytes\] (§4.2).
    fn initial_window(&self) -> f64 {
        (4.0 * self.s).min((2.0 * self.s).max(4_380.0))
    }

    /// Takes in a report (§4.3). One that cannot be true is ignored: false.
    pub fn on_report(&mut self, now: Time, report: &Report) -> bool {
        let sample = now.since(report.echo).saturating_sub(report.delay);
        if report.echo.is_after(now) || sample == Duration::ZERO || sample > Duration::from_secs(60)
        {
            return false;
        }
        let sample = sample.as_secs_f64();
        let first = self.rtt.is_none();
        let rtt = self.rtt.map_or(sample, |rtt| Q * rtt + (1.0 - Q) * sample);
        self.rtt = Some(rtt);
        self.rtt_root =
            if first { sqrt(sample) } else { Q * self.rtt_root + (1.0 - Q) * sqrt(sample) };
        self.p = report.p();
        if first {
            // The set is {infinity}, and the rate W_init / R.
            self.x = self.initial_window() / rtt;
            self.doubled = now;
        } else {
            self.note_rate(now, report.receive_rate as f64, rtt);
            self.update_rate(now, rtt);
        }
        self.x_inst = self.x;
        if self.config.prevent_oscillation {
            self.x_inst = (self.x * self.rtt_root / sqrt(sample)).max(self.s / T_MBI);
        }
        self.next_send = (self.last_send + self.interval()).later_of(now - self.config.granularity);
        self.restart_nofeedback(now);
        true
    }

    /// "Update `X_recv_set`": entries older than two round trips go.
    fn note_rate(&mut self, now: Time, rate: f64, rtt: f64) {
        self.received.retain(|(_, at)| now.since(*at) <= span(2.0 * rtt));
        if self.received.len() == MAX_RATES {
            self.received.pop_front();
        }
        self.received.push_back((rate, now));
    }

    fn greatest_received(&self) -> f64 {
        self.received.iter().fold(0.0, |most, (rate, _)| most.max(*rate))
    }

    /// `recv_limit` \[bytes/s\]: none before there is a rate.
    fn receive_limit(&self) -> f64 {
        if self.received.is_empty() { f64::INFINITY } else { 2.0 * self.greatest_received() }
    }

    /// Step 4 of §4.3.
    fn update_rate(&mut self, now: Time, rtt: f64) {
        let limit = self.receive_limit();
        if self.p > 0.0 {
            let equation = equation::throughput(self.s, rtt, self.p);
            self.x = equation.min(limit).max(self.s / T_MBI);
        } else if now.since(self.doubled) >= span(rtt) {
            self.x = (2.0 * self.x).min(limit).max(self.initial_window() / rtt);
            self.doubled = now;
        }
    }

    fn restart_nofeedback(&mut self, now: Time) {
        let two_packets = 2.0 * self.s / self.x;
        let lasts =
            self.rtt.map_or(two_packets.max(FIRST_NOFEEDBACK), |rtt| (4.0 * rtt).max(two_packets));
        self.nofeedback = now + span(lasts).max(self.config.granularity * 10);
    }

    /// The nofeedback timer has gone off, if it has (§4.4): the rate is halved.
    pub fn on_timeout(&mut self, now: Time) {
        if now.is_before(self.nofeedback) {
            return;
        }
        let least = self.s / T_MBI;
        match self.rtt {
            Some(rtt) if self.p > 0.0 => {
                let equation = equation::throughput(self.s, rtt, self.p);
                let received = self.greatest_received();
                let limit = if equation > 2.0 * received { received } else { equation / 2.0 };
                self.received.clear();
                self.received.push_back((limit.max(least) / 2.0, now));
                self.update_rate(now, rtt);
            }
            _ => self.x = (self.x / 2.0).max(least),
        }
        self.x_inst = self.x;
        self.restart_nofeedback(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: RateConfig =
        RateConfig { segment_size: 1_000, prevent_oscillation: false, granularity: Duration::ZERO };

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn report(echo: u64, rate: u64, p: f64) -> Report {
        let loss_event_rate = Report::encode_loss(p);
        Report { echo: at(echo), delay: Duration::ZERO, receive_rate: rate, loss_event_rate }
    }

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-6
    }

    #[test]
    fn a_flow_begins_with_a_packet_a_second_and_four_packets_a_round_trip() {
        let mut sender = RateSender::new(at(0), CONFIG);
        assert_eq!(sender.poll_stamp(at(0)).unwrap().rtt, Duration::ZERO);
        assert_eq!(sender.poll_stamp(at(999)), None);
        assert_eq!(sender.nofeedback_deadline(), at(2_000));
        assert!(sender.on_report(at(100), &report(0, 0, 0.0)));
        // W_init = min(4 s, max(2 s, 4380)) = 4,000 bytes.
        assert!(near(sender.rate(), 40_000.0));
        // 25 ms behind the first, which is past.
        assert_eq!(sender.next_send(), at(100));
        assert_eq!(sender.nofeedback_deadline(), at(500));
        assert_eq!(sender.rtt(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn a_sender_woken_late_catches_up_within_its_granularity_and_no_more() {
        let config = RateConfig { granularity: Duration::from_millis(100), ..CONFIG };
        let mut sender = RateSender::new(at(0), config);
        sender.poll_stamp(at(0)).unwrap();
        // 40,000 bytes/s: a packet every 25 ms.
        assert!(sender.on_report(at(100), &report(0, 0, 0.0)));
        let sent = |sender: &mut RateSender, now| {
            core::iter::from_fn(|| sender.poll_stamp(now)).take(100).count()
        };
        assert_eq!(sent(&mut sender, at(100)), 4, "nominally at 25, 50, 75 and 100 ms");
        assert_eq!(sent(&mut sender, at(150)), 2);
        assert_eq!(sent(&mut sender, at(950)), 5, "no more than 100 ms ago");
        assert_eq!(sender.nofeedback_deadline(), at(1_100), "ten times 100 ms and not 4 R");
    }

    /// §4.6: a rate that changes between two packets moves the second one.
    #[test]
    fn a_new_rate_counts_from_the_last_packet() {
        let mut sender = RateSender::new(at(0), CONFIG);
        sender.poll_stamp(at(0)).unwrap();
        sender.on_report(at(100), &report(0, 0, 0.0));
        sender.poll_stamp(at(100)).unwrap();
        assert_eq!(sender.next_send(), at(125));
        sender.on_report(at(201), &report(101, 40_000, 0.0));
        sender.poll_stamp(at(201)).unwrap();
        let twice = sender.next_send().since(at(201)).as_micros();
        assert!((12_499..=12_501).contains(&twice), "{twice}");
        // A link that is busy for a second makes no burst behind it.
        sender.poll_stamp(at(1_201)).unwrap();
        assert_eq!(sender.poll_stamp(at(1_202)).map(|stamp| stamp.number), Some(4));
        assert_eq!(sender.poll_stamp(at(1_203)), None);
    }

    #[test]
    fn slow_start_doubles_once_a_round_trip_up_to_twice_what_arrives() {
        let mut sender = RateSender::new(at(0), CONFIG);
        sender.on_report(at(100), &report(0, 0, 0.0));
        sender.on_report(at(150), &report(50, 40_000, 0.0));
        assert!(near(sender.rate(), 40_000.0), "a round trip has not passed");
        sender.on_report(at(200), &report(100, 40_000, 0.0));
        assert!(near(sender.rate(), 80_000.0));
        sender.on_report(at(300), &report(200, 50_000, 0.0));
        assert!(near(sender.rate(), 100_000.0), "twice X_recv");
        // Two round trips later the older, greater rates are forgotten.
        for (time, rate) in [(400, 10_000), (501, 10_000), (602, 10_000)] {
            sender.on_report(at(time), &report(time - 100, rate, 0.0));
        }
        assert!(near(sender.rate(), 40_000.0), "not below W_init / R: {}", sender.rate());
    }

    #[test]
    fn losses_make_the_equation_hold_within_twice_what_arrives() {
        let mut sender = RateSender::new(at(0), CONFIG);
        sender.on_report(at(100), &report(0, 0, 0.0));
        sender.on_report(at(200), &report(100, 1_000_000, 0.01));
        let equation = equation::throughput(1_000.0, 0.1, 0.01);
        assert!(near(sender.rate(), equation), "{} {equation}", sender.rate());
        sender.on_report(at(500), &report(400, 20_000, 0.01));
        assert!(near(sender.rate(), 40_000.0));
    }

    #[test]
    fn round_trips_are_smoothed_by_a_tenth() {
        let mut sender = RateSender::new(at(0), CONFIG);
        sender.on_report(at(100), &report(0, 0, 0.0));
        sender.on_report(at(400), &report(200, 10_000, 0.0));
        assert!(near(sender.rtt().unwrap().as_secs_f64(), 0.11));
    }

    #[test]
    fn oscillation_is_prevented_by_the_momentary_round_trip() {
        let config = RateConfig { prevent_oscillation: true, ..CONFIG };
        let mut sender = RateSender::new(at(0), config);
        sender.on_report(at(100), &report(0, 0, 0.0));
        sender.on_report(at(500), &report(100, 1_000_000, 0.01));
        let mean = 0.9 * 0.1_f64.sqrt() + 0.1 * 0.4_f64.sqrt();
        let expected = sender.rate() * mean / 0.4_f64.sqrt();
        assert!(near(sender.x_inst, expected));
    }

    #[test]
    fn silence_halves_the_rate_again_and_again() {
        let mut sender = RateSender::new(at(0), CONFIG);
        sender.on_report(at(100), &report(0, 0, 0.0));
        sender.on_timeout(at(499));
        assert!(near(sender.rate(), 40_000.0));
        sender.on_timeout(at(500));
        assert!(near(sender.rate(), 20_000.0));
        sender.on_report(at(600), &report(500, 1_000_000, 0.01));
        let equation = sender.rate();
        let deadline = sender.nofeedback_deadline();
        sender.on_timeout(deadline);
        assert!(near(sender.rate(), equation / 2.0));
        // Where the receive rate limits, it is what is halved.
        sender.on_report(at(1_500), &report(1_400, 20_000, 0.01));
        assert!(near(sender.rate(), 40_000.0));
        let deadline = sender.nofeedback_deadline();
        sender.on_timeout(deadline);
        assert!(near(sender.rate(), 20_000.0));
        for _ in 0..40 {
            let deadline = sender.nofeedback_deadline();
            sender.on_timeout(deadline);
        }
        assert!(near(sender.rate(), 1_000.0 / 64.0), "a packet in 64 s");
    }

    #[test]
    fn a_flow_without_any_report_slows_down() {
        let mut sender = RateSender::new(at(0), CONFIG);
        sender.on_timeout(at(2_000));
        assert!(near(sender.rate(), 500.0));
        assert_eq!(sender.nofeedback_deadline(), at(6_000));
    }

    #[test]
    fn reports_that_cannot_be_true_are_ignored() {
        let mut sender = RateSender::new(at(0), CONFIG);
        assert!(!sender.on_report(at(100), &report(200, 0, 0.0)));
        let delay = Duration::from_secs(5);
        assert!(!sender.on_report(at(100), &Report { delay, ..report(0, 0, 0.0) }));
        assert!(!sender.on_report(at(100_000), &report(0, 0, 0.0)));
        assert!(near(sender.rate(), 1_000.0));
    }
}
