//! The rate that a congestion controller chooses at the client, in place of TFRC's.
//!
//! The controller counts what arrives, as it does for SCDP. The client tells its server by the loss event rate at which
//! the equation allows the chosen rate (RFC 5348 §3.1, inverted as §6.3.1 does for the first loss): so any sender of RFC 5348
//! follows, and sends no faster than twice what arrives. Receivers that choose the rate are those of TFMCC (RFC 4654).

use crate::congestion::{Algorithm, CongestionController, Controller, Delivery};
use crate::tfrc::{Report, Stamp, loss_event_rate};
use alloc::collections::VecDeque;
use wellspring_core::{Duration, Time};

/// Packets of TFRC's first round trip (RFC 5348 §4.2).
const INITIAL_WINDOW: u32 = 4;
/// Packets in flight at most: 10 Gbit/s over 600 ms.
const MAX_WINDOW: u32 = 1 << 20;
/// Moments of a round trip of which it is known what had arrived by then.
const MOMENTS: u64 = 16;
/// So many round trips without a packet are an outage (RFC 9002 §7.6: three timeouts).
const OUTAGE: u64 = 6;
/// The least outage \[ms\]: a host may not be run for a while.
const LEAST_OUTAGE: u64 = 200;
/// Reports a round trip: a window that is told once a round trip has its effect two of them later, where controllers
/// expect one.
const REPORTS: u64 = 8;
/// But not more often than that.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);
/// Losses that are told of one packet's arrival at most.
const MAX_LOSSES: u64 = 1_024;

/// A rate chosen by a congestion controller.
#[derive(Debug)]
pub(super) struct ChosenRate {
    controller: Controller,
    /// s \[bytes\].
    segment_size: f64,
    delivered: u64,
    lost: u64,
    /// When so many packets had arrived, a part of a round trip apart.
    moments: VecDeque<(Time, u64)>,
    /// The least round trip that the server told, and the least difference of both clocks.
    least_rtt: Duration,
    least_delay: Option<i128>,
    last: Option<Time>,
    /// What is lost before then was sent before the server could know of the last reduction.
    answered_until: Option<Time>,
    /// When the server was to know of the rate last.
    told: Option<Time>,
}

impl ChosenRate {
    pub(super) fn new(algorithm: Algorithm, segment_size: u32) -> Self {
        ChosenRate {
            controller: Controller::new(algorithm, INITIAL_WINDOW, MAX_WINDOW),
            segment_size: segment_size.max(1).into(),
            delivered: 0,
            lost: 0,
            moments: VecDeque::new(),
            least_rtt: Duration::ZERO,
            least_delay: None,
            last: None,
            answered_until: None,
            told: None,
        }
    }

    /// Takes in a packet, and how many were lost so far; whether the server is to know at once.
    pub(super) fn on_packet(&mut self, now: Time, stamp: Stamp, lost: u64) -> bool {
        let before = self.last.replace(now);
        self.delivered += 1;
        if stamp.rtt == Duration::ZERO {
            // Nothing is measured yet.
            self.lost = lost;
            return false;
        }
        let rtt = self.round_trip(now, stamp);
        let outage = (stamp.rtt * OUTAGE).max(Duration::from_millis(LEAST_OUTAGE));
        if before.is_some_and(|before| now.since(before) > outage) {
            self.controller.on_persistent_congestion(now);
            self.moments.clear();
        }
        let (began, delivered_before) = self.moment(now, rtt);
        let packets = self.delivered - delivered_before;
        let in_flight = u32::try_from(packets).unwrap_or(u32::MAX);
        self.controller.on_delivered(&Delivery {
            now,
            rtt,
            delivered: self.delivered,
            delivered_before,
            rate: packets as f64 / now.since(began).as_secs_f64().max(1e-9),
            in_flight,
            // The server may not yet know of a window that has grown.
            window_limited: in_flight.saturating_mul(2) >= self.controller.window(),
        });
        let losses = lost.saturating_sub(self.lost).min(MAX_LOSSES);
        self.lost = lost;
        let mut is_reduced = false;
        for _ in 0..losses {
            let recovering = self.answered_until.is_some_and(|until| now.is_before(until));
            if self.controller.on_lost(now, recovering) {
                self.answered_until = Some(now + rtt);
                is_reduced = true;
            }
        }
        let interval = (stamp.rtt / REPORTS).max(LEAST_INTERVAL).min(stamp.rtt);
        let tells = is_reduced || self.told.is_none_or(|told| now.since(told) >= interval);
        if tells {
            self.told = Some(now);
        }
        tells
    }

    /// A packet's round trip: the server's least one, and how much longer than the fastest this one took to come. The
    /// clocks need not agree.
    fn round_trip(&mut self, now: Time, stamp: Stamp) -> Duration {
        if self.least_rtt == Duration::ZERO || stamp.rtt < self.least_rtt {
            self.least_rtt = stamp.rtt;
        }
        let picos = |time: Time| i128::from(time.since(Time::ZERO).as_picos());
        let delay = picos(now) - picos(stamp.sent);
        let least = self.least_delay.map_or(delay, |least| least.min(delay));
        self.least_delay = Some(least);
        let waited = u64::try_from(delay - least).unwrap_or(u64::MAX);
        self.least_rtt + Duration::from_picos(waited).min(Duration::from_secs(60))
    }

    /// A moment a round trip ago or a little more, and what had arrived by then: whoever sent this packet knew of that.
    fn moment(&mut self, now: Time, rtt: Duration) -> (Time, u64) {
        let apart = rtt / MOMENTS;
        if self.moments.back().is_none_or(|(at, _)| now.since(*at) >= apart) {
            self.moments.push_back((now, self.delivered - 1));
        }
        while self.moments.len() > 4 * MOMENTS as usize
            || self.moments.get(1).is_some_and(|(at, _)| now.since(*at) >= rtt)
        {
            self.moments.pop_front();
        }
        self.moments.front().copied().unwrap_or((now, self.delivered))
    }

    /// Writes the chosen rate into a report.
    pub(super) fn report(&self, rtt: Duration, report: Report) -> Report {
        let seconds = rtt.as_secs_f64();
        if seconds <= 0.0 {
            return report;
        }
        let by_window = f64::from(self.controller.window()) / seconds;
        let packets = self.controller.pacing_rate().map_or(by_window, |pace| pace.min(by_window));
        let p = loss_event_rate(self.segment_size, seconds, packets * self.segment_size);
        Report { loss_event_rate: Report::encode_loss(p), ..report }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfrc::{RateConfig, RateSender, throughput};

    const RTT: Duration = Duration::from_millis(100);

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    /// The server's clock is ten seconds ahead.
    fn stamp(number: u32, sent: u64) -> Stamp {
        Stamp { number, sent: at(sent + 10_000_000), rtt: RTT }
    }

    fn rate(chosen: &ChosenRate) -> f64 {
        let empty =
            Report { echo: Time::ZERO, delay: Duration::ZERO, receive_rate: 0, loss_event_rate: 0 };
        throughput(1_000.0, RTT.as_secs_f64(), chosen.report(RTT, empty).p())
    }

    #[test]
    fn the_rate_in_a_report_is_the_window_a_round_trip() {
        for algorithm in Algorithm::ALL {
            let chosen = ChosenRate::new(algorithm, 1_000);
            assert!((rate(&chosen) / 40_000.0 - 1.0).abs() < 0.01, "{algorithm}");
        }
    }

    #[test]
    fn random_losses_do_not_slow_down_a_rate_that_makes_no_queue() {
        let mut chosen = ChosenRate::new(Algorithm::Veno, 1_000);
        let mut lost = 0;
        for number in 0..20_000_u32 {
            let sent = u64::from(number) * 100;
            match number % 50 {
                0 => lost += 1,
                _ => drop(chosen.on_packet(at(sent + 50_000), stamp(number, sent), lost)),
            }
        }
        // 9,800 packets a second came: 980 are in flight, and the window goes on growing from there.
        assert!(rate(&chosen) > 9e6, "{}", rate(&chosen));
        let mut cubic = ChosenRate::new(Algorithm::Cubic, 1_000);
        for number in 0..2_000_u32 {
            let sent = u64::from(number) * 100;
            cubic.on_packet(at(sent + 50_000), stamp(number, sent), u64::from(number / 50));
        }
        assert!(rate(&cubic) < 1e6, "every loss is congestion: {}", rate(&cubic));
    }

    #[test]
    fn a_queue_that_fills_and_loses_reduces_the_rate() {
        let mut chosen = ChosenRate::new(Algorithm::Veno, 1_000);
        let mut reduced = 0;
        for number in 0..8_000_u64 {
            let (sent, queue) = (number * 100, (number * 20).min(60_000));
            let lost = if number > 4_000 { (number - 4_000) / 4 } else { 0 };
            let stamp = stamp(number as u32, sent);
            let before = rate(&chosen);
            chosen.on_packet(at(sent + 50_000 + queue), stamp, lost);
            reduced += u32::from(number > 4_000 && rate(&chosen) < 0.8 * before);
        }
        // A quarter is lost for four tenths of a second, which are two or three round trips.
        assert!((2..=4).contains(&reduced), "{reduced}");
    }

    #[test]
    fn after_an_outage_the_rate_begins_anew() {
        let mut chosen = ChosenRate::new(Algorithm::Veno, 1_000);
        for number in 0..10_000_u32 {
            let sent = u64::from(number) * 100;
            chosen.on_packet(at(sent + 50_000), stamp(number, sent), 0);
        }
        let before = rate(&chosen);
        chosen.on_packet(at(5_000_000), stamp(10_000, 4_950_000), 0);
        assert!(rate(&chosen) < before / 10.0, "{before} {}", rate(&chosen));
    }

    #[test]
    fn a_sender_of_rfc_5348_follows() {
        let config = RateConfig {
            segment_size: 1_000,
            prevent_oscillation: false,
            granularity: Duration::ZERO,
        };
        let mut sender = RateSender::new(at(0), config);
        let mut chosen = ChosenRate::new(Algorithm::Veno, 1_000);
        let empty = |echo: u64, receive_rate: u64| Report {
            echo: at(echo),
            delay: Duration::ZERO,
            receive_rate,
            loss_event_rate: 0,
        };
        assert!(sender.on_report(at(100_000), &empty(0, 0)));
        for round in 1..8_u64 {
            let first = 4 << round;
            for number in first..2 * first {
                let sent = round * 100_000 + (number - first) * 100_000 / first;
                let stamp = Stamp { number: number as u32, sent: at(sent), rtt: RTT };
                chosen.on_packet(at(sent + 50_000), stamp, 0);
            }
            let (now, arrived) = (round * 100_000 + 100_000, first * 10_000);
            let report = chosen.report(RTT, empty(now - 100_000, arrived));
            assert!(sender.on_report(at(now), &report));
            assert!(sender.rate() <= 2.0 * arrived as f64 + 1.0);
            assert!((sender.rate() / rate(&chosen).min(2.0 * arrived as f64) - 1.0).abs() < 0.01);
        }
        assert!(sender.rate() > 1e6, "{}", sender.rate());
    }
}
