//! Slow start that ends when the window builds a queue of its own.
//!
//! Longer round trips end slow start before packets are lost (HyStart, RFC 9406). But beside other traffic they grow
//! by the others' doing too, and who leaves slow start too early takes a minute to a fair share at 60 ms. So here they
//! begin a test: what was sent too much leaves the queue, and the window becomes what the path then delivers in its shortest
//! round trip, and grows by 15 % a round trip. The sender whose window fills the path gets no
//! more by that, only longer round trips: seen twice, slow start ends. Who has a small share of the path gets about as much
//! more, and goes on with slow start.

use wellspring_core::Duration;

use super::Delivery;

/// Growth of the round trip that begins a test (RFC 9406 §4.3).
const THRESHOLD_DIVISOR: u64 = 8;
const LEAST_THRESHOLD: Duration = Duration::from_millis(2);
const MAX_THRESHOLD: Duration = Duration::from_millis(16);
/// Packets of which the least round trip counts, at least and at most: a quarter of the window. Runs of packets make
/// the round trips of their last packets longer.
const SAMPLES: (u32, u32) = (8, 32);
/// Growth by packet in a test.
const TEST_GROWTH: f64 = 0.15;
/// A window that grew by less shows nothing.
const LEAST_GROWTH: f64 = 1.1;
/// Growth of the rate as a part of that of the window: below the first, slow start ends; above the second, it goes on.
const FULL: f64 = 0.6;
const FREE: f64 = 0.8;
/// The window behind slow start: so much of the last, as after a loss (RFC 9438 §4.6), but no less than so many times
/// what fills the path.
const BETA: f64 = 0.7;
const HEADROOM: f64 = 1.125;

/// What a delivery does to the window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Step {
    /// So many packets more.
    Grow(f64),
    /// It is so long now.
    Set(f64),
    /// So long, and slow start is over.
    End(f64),
}

/// What slow start does.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The window doubles each round.
    Doubling,
    /// What was sent too much leaves the queue. The window was so long, and so much had been delivered in a round trip.
    Draining { window: f64, flight: f64 },
    /// So many rounds of a test, what the last judged of them was like, and whether the rate has failed to grow once.
    Testing { rounds: u32, reference: Option<Mean>, doubted: bool },
}

/// The mean of a round.
#[derive(Clone, Copy, Debug)]
struct Mean {
    /// Packets in flight.
    flight: f64,
    /// Delivery rate \[packets/s\].
    rate: f64,
}

/// The packets of a round trip: it ends with the first packet asked for after its start.
#[derive(Clone, Copy, Default, Debug)]
struct Round {
    /// Packets delivered before.
    start: u64,
    packets: f64,
    /// Sums over the packets.
    flights: f64,
    secs: f64,
    /// Delivery rate of its last packet \[packets/s\].
    last_rate: f64,
    least: Option<Duration>,
}

/// The state of slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowStart {
    phase: Phase,
    round: Round,
    /// The shortest round trip, and that from which growth counts.
    least: Option<Duration>,
    base: Option<Duration>,
    /// The shortest round trips of the last packets: of this group of packets so far, and of the group before.
    recent: (Duration, Duration),
    samples: u32,
}

impl Default for SlowStart {
    fn default() -> Self {
        SlowStart {
            phase: Phase::Doubling,
            round: Round::default(),
            least: None,
            base: None,
            recent: (Duration::ZERO, Duration::ZERO),
            samples: 0,
        }
    }
}

impl SlowStart {
    /// A packet came through.
    pub(super) fn on_delivered(&mut self, delivery: &Delivery, window: f64) -> Step {
        let recent = self.note(delivery, window);
        let base = self.base.unwrap_or(delivery.rtt);
        let flight = delivery.delivered.saturating_sub(delivery.delivered_before) as f64;
        let ended = delivery.delivered_before >= self.round.start && self.round.packets > 0.0;
        let round = if ended { Some(self.next_round(delivery)) } else { None };
        self.round.add(flight, delivery.rtt);
        match (&mut self.phase, round) {
            (Phase::Doubling, _) => {
                let threshold = (base / THRESHOLD_DIVISOR).max(LEAST_THRESHOLD).min(MAX_THRESHOLD);
                if recent < base + threshold {
                    return growth(delivery, 1.0);
                }
                self.next_round(delivery);
                self.phase = Phase::Draining { window, flight };
                // What is in flight, without what of it waits in the queue.
                let part = base.as_secs_f64() / recent.as_secs_f64();
                let unqueued = f64::from(delivery.in_flight) * part;
                Step::Set(unqueued.max(flight).min(window))
            }
            (&mut Phase::Draining { window: before, flight: least }, Some(round)) => {
                // A host that was not run for a while shows long round trips, and no rate.
                let full = round.last_rate * base.as_secs_f64();
                self.phase = Phase::Testing { rounds: 0, reference: None, doubted: false };
                Step::Set(full.max(least).min(before))
            }
            (Phase::Testing { rounds, reference, doubted }, Some(round)) => {
                *rounds += 1;
                let mean = round.mean();
                let Some(before) = *reference else {
                    if *rounds >= 2 {
                        *reference = Some(mean);
                    }
                    return growth(delivery, TEST_GROWTH);
                };
                let grown = mean.flight / before.flight;
                if grown < LEAST_GROWTH {
                    return growth(delivery, TEST_GROWTH);
                }
                *reference = Some(mean);
                let gained = (mean.rate / before.rate - 1.0) / (grown - 1.0);
                if gained < FULL && !core::mem::replace(doubted, true) {
                    return growth(delivery, TEST_GROWTH);
                }
                if gained < FULL {
                    let least = self.least.unwrap_or(base).as_secs_f64();
                    let full = HEADROOM * mean.rate * least;
                    return Step::End(full.max(BETA * mean.flight).min(window));
                }
                if gained > FREE {
                    self.phase = Phase::Doubling;
                    self.base = round.least;
                }
                growth(delivery, TEST_GROWTH)
            }
            (Phase::Draining { .. }, None) => Step::Grow(0.0),
            (Phase::Testing { rounds: 0, .. }, None) => Step::Grow(0.0),
            (Phase::Testing { .. }, None) => growth(delivery, TEST_GROWTH),
        }
    }

    /// The window before it was cut for a test that has not begun.
    pub(super) fn window_before(&self) -> Option<f64> {
        match self.phase {
            Phase::Draining { window, .. } => Some(window),
            _ => None,
        }
    }

    /// Takes note of a round trip. Returns the least of the last.
    fn note(&mut self, delivery: &Delivery, window: f64) -> Duration {
        let rtt = delivery.rtt;
        let least = |so_far: Option<Duration>| Some(so_far.map_or(rtt, |least| least.min(rtt)));
        (self.least, self.base) = (least(self.least), least(self.base));
        let group = ((window / 4.0) as u32).clamp(SAMPLES.0, SAMPLES.1);
        if self.samples >= group {
            self.recent = (rtt, self.recent.0);
            self.samples = 0;
        }
        self.samples += 1;
        self.recent.0 = if self.samples == 1 { rtt } else { self.recent.0.min(rtt) };
        self.recent.0.min(self.recent.1)
    }

    /// Begins a round. Returns the one before.
    fn next_round(&mut self, delivery: &Delivery) -> Round {
        let next = Round { start: delivery.delivered, ..Round::default() };
        core::mem::replace(&mut self.round, next)
    }
}

impl Round {
    fn add(&mut self, flight: f64, rtt: Duration) {
        self.packets += 1.0;
        self.flights += flight;
        self.secs += rtt.as_secs_f64();
        self.last_rate = flight / rtt.as_secs_f64();
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
    }

    fn mean(&self) -> Mean {
        Mean { flight: self.flights / self.packets, rate: self.flights / self.secs }
    }
}

/// Growth by a packet that was delivered, if the window is in use.
fn growth(delivery: &Delivery, packets: f64) -> Step {
    Step::Grow(if delivery.window_limited { packets } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use wellspring_core::Time;

    /// The packets that a path of 100 ms holds; as many wait in front of it.
    const PATH: f64 = 1_000.0;
    const PER_MS: f64 = PATH / 100.0;

    /// Slow start on a path where `others` packets of other senders are in flight all the time. Returns the longest
    /// flight, and the window at its end, if it ends within `rounds` round trips.
    fn run(others: f64, rounds: u32) -> (f64, Option<f64>) {
        let (mut slow_start, mut window, mut longest) = (SlowStart::default(), 12.0_f64, 0.0_f64);
        // When each packet in flight arrives and was asked for \[ms\], and what had been delivered then.
        let mut flight: VecDeque<(f64, f64, u64)> = VecDeque::new();
        let (mut delivered, mut now) = (0, 0.0);
        while now < f64::from(rounds) * 100.0 {
            while (flight.len() as f64) < window.floor() {
                let queue = (flight.len() as f64 + others - PATH).max(0.0);
                let share = flight.len() as f64 / (flight.len() as f64 + others).max(1.0);
                // One's own packets leave at the share's rate.
                let spacing = 1.0 / (PER_MS * share.max(1e-3)).min(PER_MS);
                let last = flight.back().map_or(0.0, |(arrives, ..)| arrives + spacing);
                let base = now + 100.0 + queue / PER_MS;
                flight.push_back((
                    if others > 0.0 { base } else { last.max(now + 100.0) },
                    now,
                    delivered,
                ));
            }
            longest = longest.max(flight.len() as f64);
            let (arrives, asked, delivered_before) = flight.pop_front().expect("it is never empty");
            now = now.max(arrives);
            delivered += 1;
            let step = slow_start.on_delivered(
                &Delivery {
                    now: Time::ZERO,
                    rtt: Duration::from_micros(((now - asked) * 1e3) as u64),
                    delivered,
                    delivered_before,
                    rate: 0.0,
                    in_flight: flight.len() as u32,
                    window_limited: true,
                },
                window,
            );
            match step {
                Step::Grow(packets) => window += packets,
                Step::Set(packets) => window = packets,
                Step::End(packets) => return (longest, Some(packets)),
            }
        }
        (longest, None)
    }

    #[test]
    fn alone_it_ends_with_a_full_path_before_a_queue_of_one_product_overflows() {
        let (longest, end) = run(0.0, 30);
        assert!(longest < 2.2 * PATH, "{longest}");
        let end = end.expect("it ends");
        assert!((PATH..1.4 * PATH).contains(&end), "{end}");
    }

    #[test]
    fn beside_others_it_goes_on_to_about_half() {
        let others = 1.5 * PATH;
        let (longest, _) = run(others, 25);
        assert!(longest > 0.5 * others, "{longest}");
    }
}
