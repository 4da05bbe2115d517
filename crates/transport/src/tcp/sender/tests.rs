//! The rules of the RFCs, one by one, on a sender by itself.

use super::*;
use std::vec::Vec;
use wellspring_core::{Duration, HostId, Seed, SessionId};

const MSS: u64 = 1_000;
const KEY: Key = (HostId(1), SessionId(1));

/// A sender of `segments` segments with an initial window of `window`, and a clock.
struct Bench {
    sender: Sender,
    config: Config,
    now: Time,
}

impl Bench {
    fn new(segments: u64, window: u32, adapt: impl Fn(&mut Config)) -> Bench {
        let mut config = Config::new(HostId(0), Congestion::NewReno, Seed(1));
        config.segment_size = MSS as u16;
        config.initial_window = Some(window);
        config.min_timeout = Duration::from_millis(200);
        adapt(&mut config);
        let transfer = SendTransfer {
            session: KEY.1,
            receiver: KEY.0,
            transfer_len: segments * MSS,
            class: None,
        };
        let sender = Sender::new(Time::ZERO, &config, &transfer);
        Bench { sender, config, now: Time::ZERO }
    }

    /// Everything that may be sent now, as numbers of segments.
    fn sent(&mut self) -> Vec<u64> {
        let mut segments = Vec::new();
        while let Some(frame) = self.sender.transmit(self.now, KEY, &self.config) {
            let TcpHeader::Data { offset, .. } = frame.header else { panic!("{frame:?}") };
            segments.push(offset / MSS);
        }
        segments
    }

    /// An ACK, a millisecond later, that waits for segment `next`.
    fn ack(&mut self, next: u64) -> Ack {
        self.marked_ack(next, false)
    }

    fn marked_ack(&mut self, next: u64, echo: bool) -> Ack {
        self.now = self.now + Duration::from_millis(1);
        self.sender.on_ack(self.now, next * MSS, echo, &self.config)
    }

    fn duplicates(&mut self, count: usize, next: u64) -> Vec<u64> {
        let mut segments = Vec::new();
        for _ in 0..count {
            self.ack(next);
            segments.extend(self.sent());
        }
        segments
    }

    /// Lets the retransmission timer go off: after how long, in milliseconds.
    fn time_out(&mut self) -> u64 {
        let due = self.sender.deadline(&self.config);
        let waited = due.since(self.now).as_micros() / 1_000;
        self.now = due;
        let deadline = self.sender.on_deadline(self.now, &self.config);
        assert!(matches!(deadline, Deadline::TimedOut(_)));
        waited
    }

    fn window(&self) -> u64 {
        self.sender.window.bytes() / MSS
    }
}

#[test]
fn slow_start_sends_two_segments_for_each_acknowledged() {
    let mut bench = Bench::new(100, 2, |_| {});
    assert_eq!(bench.sent(), [0, 1]);
    bench.ack(1);
    assert_eq!(bench.sent(), [2, 3]);
    bench.ack(2);
    assert_eq!(bench.sent(), [4, 5]);
    // An ACK of two segments counts for one.
    bench.ack(4);
    assert_eq!(bench.sent(), [6, 7, 8]);
    assert_eq!(bench.window(), 5);
}

#[test]
fn the_receive_window_bounds_what_is_in_flight() {
    let mut bench = Bench::new(100, 10, |config| config.receive_window = 4_000);
    assert_eq!(bench.sent(), [0, 1, 2, 3]);
    bench.ack(1);
    assert_eq!(bench.sent(), [4]);
}

/// RFC 5681 §3.2 and RFC 3042: with ten in flight and the first lost, the first two duplicates send
/// one new segment each, the third repeats the lost one, and of further ones those send that have
/// inflated the window beyond what is out.
#[test]
fn three_duplicate_acks_repeat_the_first_segment() {
    let mut bench = Bench::new(100, 10, |_| {});
    bench.sent();
    assert_eq!(bench.duplicates(2, 0), [10, 11]);
    assert_eq!(bench.duplicates(1, 0), [0]);
    // ssthresh is half of ten, without the two that limited transmit sent.
    assert_eq!(bench.window(), 8);
    assert_eq!(bench.duplicates(8, 0), [12, 13, 14, 15]);
    // All is acknowledged that was out then: the window is half of ten, or four and one.
    bench.ack(12);
    assert_eq!(bench.window(), 5);
    assert_eq!(bench.sent(), [16]);
    let stats = bench.sender.stats;
    assert_eq!((stats.retransmitted, stats.fast_retransmits, stats.timeouts), (1, 1, 0));
}

#[test]
fn without_limited_transmit_duplicates_send_nothing_new() {
    let mut bench = Bench::new(100, 10, |config| config.limited_transmit = false);
    bench.sent();
    assert_eq!(bench.duplicates(3, 0), [0]);
}

/// RFC 6582 §3.2: every partial ACK repeats the next hole at once, the first alone restarts the
/// timer, and there is one halving for all holes.
#[test]
fn partial_acks_repeat_one_hole_each() {
    let mut bench = Bench::new(100, 10, |_| {});
    bench.sent();
    bench.ack(1);
    bench.sent();
    // 1, 4 and 7 are lost.
    assert_eq!(bench.duplicates(3, 1), [12, 13, 1]);
    assert_eq!(bench.duplicates(5, 1), []);
    let window = bench.window();
    bench.ack(4);
    let restarted = bench.sender.deadline(&bench.config);
    // Three were acknowledged, one is put back, which leaves room for a new one.
    assert_eq!(bench.window(), window - 2);
    assert_eq!(bench.sent(), [4, 14]);
    bench.ack(7);
    assert_eq!(bench.sent(), [7, 15]);
    assert_eq!(bench.sender.deadline(&bench.config), restarted, "Impatient");
    bench.ack(14);
    assert!(!bench.sender.recovering);
    let stats = bench.sender.stats;
    assert_eq!((stats.retransmitted, stats.fast_retransmits, stats.timeouts), (3, 1, 0));
}

/// RFC 6298 §5: a loss window of one segment, everything again from there, and twice the timeout.
#[test]
fn a_timeout_starts_over_with_one_segment_and_doubles() {
    let mut bench = Bench::new(100, 8, |_| {});
    bench.sent();
    bench.ack(2);
    bench.sent();
    assert_eq!(bench.time_out(), 200);
    assert_eq!(bench.sent(), [2]);
    assert_eq!(bench.sender.window.bytes(), MSS);
    for doubled in [400, 800] {
        assert_eq!(bench.time_out(), doubled);
        assert_eq!(bench.sent(), [2]);
    }
    // Slow start up to half of the nine that were out: what came meanwhile is skipped.
    bench.ack(5);
    assert_eq!(bench.sent(), [5, 6]);
    bench.ack(11);
    assert_eq!(bench.sent(), [11, 12, 13]);
    // Karn: only new data measures a round trip, and ends the doubling.
    assert_eq!(bench.sender.timer.timeout(&bench.config), Duration::from_millis(1_600));
    bench.ack(12);
    assert_eq!(bench.sender.timer.timeout(&bench.config), Duration::from_millis(200));
}

/// RFC 6582 §3.2, step 2: segments repeated after a timeout bring duplicate ACKs that mean no loss.
#[test]
fn duplicates_of_what_a_timeout_repeats_begin_no_recovery() {
    let mut bench = Bench::new(100, 8, |_| {});
    bench.sent();
    bench.time_out();
    bench.sent();
    bench.ack(2);
    bench.sent();
    bench.duplicates(5, 2);
    assert_eq!(bench.sender.stats.fast_retransmits, 0);
    // Beyond what was out at the timeout they count again.
    bench.ack(8);
    bench.sent();
    bench.ack(9);
    bench.sent();
    bench.duplicates(3, 9);
    assert_eq!(bench.sender.stats.fast_retransmits, 1);
}

#[test]
fn acks_of_the_future_and_of_the_past_change_nothing() {
    let mut bench = Bench::new(100, 4, |_| {});
    bench.sent();
    assert_eq!(bench.ack(5), Ack::Impossible);
    assert_eq!(bench.ack(3), Ack::Taken);
    let window = bench.window();
    assert_eq!(bench.ack(2), Ack::Stale);
    assert_eq!((bench.window(), bench.sender.duplicate_acks), (window, 0));
    let mut short = Bench::new(2, 4, |_| {});
    assert_eq!(short.sent(), [0, 1]);
    assert_eq!(short.ack(2), Ack::Complete);
}

/// RFC 8257 §3.3: the first mark halves, as alpha begins at 1; a window's marks cut once; an echo
/// does not open the window.
#[test]
fn marks_cut_the_window_once_by_half_of_alpha() {
    let mut bench = Bench::new(1_000, 16, |config| {
        config.congestion = Congestion::Dctcp { gain: 0.5, min_window: 2 };
    });
    bench.sent();
    // Alpha is (1 - 0.5) * 1 + 0.5 * 1: still 1.
    bench.marked_ack(1, true);
    assert_eq!(bench.sender.window.bytes(), 8 * MSS);
    bench.marked_ack(2, true);
    assert_eq!(bench.sender.window.bytes(), 8 * MSS, "once a window");
    bench.ack(3);
    // Congestion avoidance from the cut on: a segment over the window.
    assert_eq!(bench.sender.window.bytes(), 8 * MSS + MSS / 8);
    bench.ack(16);
    bench.sent();
    assert_eq!((bench.sender.stats.cuts, bench.sender.stats.timeouts), (1, 0));
    // Of the sixteen segments after the first, the second and the last are marked: alpha is 0.5 and
    // half of an eighth, and the mark takes half of alpha.
    let before = bench.sender.window.bytes();
    bench.marked_ack(17, true);
    let alpha = 0.5 + 0.5 * 2.0 / 16.0;
    let part = bench.sender.window.bytes() as f64 / before as f64;
    assert!((part - (1.0 - alpha / 2.0)).abs() < 0.001, "{part}");
}

/// PIAS: a segment's class is that of the bytes before it, also when it is sent again.
#[test]
fn segments_sink_with_the_bytes_before_them() {
    let classes = |priority: &crate::Priority, class| {
        let mut bench = Bench::new(6, 10, |config| config.priority = priority.clone());
        bench.sender.fixed_class = class;
        let first: Vec<u8> =
            core::iter::from_fn(|| bench.sender.transmit(bench.now, KEY, &bench.config))
                .map(|frame| frame.class)
                .collect();
        bench.time_out();
        let again = bench.sender.transmit(bench.now, KEY, &bench.config).map(|frame| frame.class);
        (first, again)
    };
    let sinking = crate::Priority::BytesSent(std::vec![2_000, 5_000]);
    assert_eq!(classes(&sinking, None), (std::vec![1, 1, 2, 2, 2, 3], Some(1)));
    assert_eq!(classes(&sinking, Some(3)), (std::vec![3; 6], Some(3)));
    assert_eq!(classes(&crate::Priority::One, None), (std::vec![1; 6], Some(1)));
}

#[test]
fn newreno_does_not_hear_marks() {
    let mut bench = Bench::new(100, 4, |_| {});
    bench.sent();
    bench.marked_ack(1, true);
    // But no echo opens the window.
    assert_eq!((bench.window(), bench.sender.stats.cuts), (4, 0));
}
