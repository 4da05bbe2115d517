//! CUBIC that answers congestion and not random loss.
//!
//! The window grows and shrinks as in RFC 9438. Whether a loss is congestion
//! is decided as in TCP Veno (Fu and Liew, IEEE JSAC 21(2), 2003), by how much waits in the queue: where
//! a full queue drops, the packets that come just before and after a drop have waited as long as any. A loss
//! while the queue is short is taken for random and leaves the window alone. For a fountain code it costs
//! nothing else either, since any later symbol makes up for it. So beside TCP, where losses come from full
//! queues, this is CUBIC; on a lossy path it fills the link.
//!
//! Round trips also get longer where a host is not run for a while. So a queue is long only if all packets of two
//! rounds have waited. What arrives at once, after a gap much longer than usual, has waited for the host, and does not count
//! for the longest queue. (One pause of 30 ms taken for a queue made every loss of the next 20 s look random, while the
//! neighbour's queue of 5 ms was full.)
//!
//! Queues too short to be seen in round trips are detected by the share of packets lost. Marks are always
//! congestion.
//!
//! Slow start ends when its own queue shows (see `slow_start`), or by a large share of losses. A few do not end it:
//! a session that comes to a queue full of others' packets loses some at once, and CUBIC's growth from there takes a
//! minute to a fair share at 60 ms.
//!
//! A session that yields to others does not wait for losses: a queue so long that a loss would be congestion shrinks its
//! window, once a round trip. Beside flows that fill the queue it gets little, and alone it keeps the queue short and the
//! link in use. The idea is that of LEDBAT (RFC 6817), which measures delays one way.

use wellspring_core::{Duration, Time};

use super::filter::{LeastRtt, WindowedMax};
use super::slow_start::{SlowStart, Step};
use super::{CongestionController, Cubic, Delivery};

/// How long the least round trip holds. Beside other traffic the queue empties rarely.
const LEAST_RTT_WINDOW: Duration = Duration::from_secs(30);
/// How long the longest queue holds: a few cycles of the traffic beside us.
const QUEUE_WINDOW: Duration = Duration::from_secs(20);
/// Round trips of which the least shows the queue's length: jitter raises some of them, a queue all.
const RECENT: usize = 8;
/// A loss is congestion if the queue is at least that part of the longest seen ...
const CONGESTED_PART: u64 = 2;
/// ... and of the least round trip: less is noise.
const NOISE_PART: u64 = 16;
/// Packets over which the share of losses is averaged.
const LOSS_HORIZON: f64 = 256.0;
/// A gap between arrivals so many times as long as usual is a pause of a host.
const PAUSE_GAPS: u64 = 8;
/// A greater share of losses is congestion, whatever the queue: a policer, or a queue of a few packets.
const MAX_RANDOM_LOSS: f64 = 0.12;
/// The controller.
#[derive(Clone, Copy, Debug)]
pub struct Veno {
    growth: Cubic,
    slow_start: SlowStart,
    least: LeastRtt,
    recent: [Duration; RECENT],
    next_recent: usize,
    /// Longest round trip, of the least of a few \[ps\]. The least round trip may be forgotten and rise, and
    /// the longest queue must then be counted from there.
    longest: WindowedMax,
    pauses: Pauses,
    round: Round,
    /// Share of packets lost lately.
    loss_share: f64,
    /// What was asked for before so many packets had been delivered belongs to slow start, which was answered.
    settled_from: u64,
    /// Packets that had been delivered when the last one was asked for.
    asked_after: u64,
    /// If it yields to others: the window has been reduced for packets asked for before so many had been delivered.
    yielded_at: Option<u64>,
}

/// Arrivals, and the gaps between them.
#[derive(Clone, Copy, Default, Debug)]
struct Pauses {
    last: Option<Time>,
    /// The usual gap, smoothed.
    usual: Duration,
    /// Packets that had been delivered at the end of the last pause: those asked for before have waited for it.
    ended_after: u64,
}

impl Pauses {
    /// A packet arrived. Returns whether it has waited for a host that was not run.
    fn on_delivered(&mut self, delivery: &Delivery) -> bool {
        let before = self.last.replace(delivery.now);
        let gap = before.map_or(Duration::ZERO, |before| delivery.now.since(before));
        // What is read at one time has no gaps.
        if gap > Duration::ZERO {
            let longest = self.usual * PAUSE_GAPS;
            if self.usual == Duration::ZERO {
                self.usual = gap;
            } else if gap > longest {
                self.ended_after = delivery.delivered;
            }
            self.usual = (self.usual * 7 + gap.min(self.usual * PAUSE_GAPS)) / 8;
        }
        delivery.delivered_before < self.ended_after
    }
}

/// A round of packets: it ends with the first packet asked for after its start.
#[derive(Clone, Copy, Default, Debug)]
struct Round {
    /// Packets delivered before.
    start: u64,
    /// Its shortest round trip, and that of the round before.
    least: Option<Duration>,
    before: Option<Duration>,
}

impl Round {
    /// A packet came through.
    fn on_delivered(&mut self, delivery: &Delivery) {
        if delivery.delivered_before >= self.start {
            *self = Round { start: delivery.delivered, least: None, before: self.least };
        }
        self.least = Some(self.least.map_or(delivery.rtt, |least| least.min(delivery.rtt)));
    }
}

impl Veno {
    /// A window that starts at `initial` packets in slow start and never passes `max`.
    pub fn new(initial: u32, max: u32) -> Self {
        Veno {
            growth: Cubic::new(initial, max),
            slow_start: SlowStart::default(),
            least: LeastRtt::new(LEAST_RTT_WINDOW),
            recent: [Duration::ZERO; RECENT],
            next_recent: 0,
            longest: WindowedMax::new(QUEUE_WINDOW),
            pauses: Pauses::default(),
            round: Round::default(),
            loss_share: 0.0,
            settled_from: 0,
            asked_after: 0,
            yielded_at: None,
        }
    }

    /// The round trip of the last packets: zero until there are enough.
    fn recent(&self) -> Duration {
        self.recent.iter().copied().min().unwrap_or(Duration::ZERO)
    }

    /// How long round trips have been at least, in the round before too.
    fn sustained(&self) -> Duration {
        [self.round.least, self.round.before]
            .into_iter()
            .flatten()
            .fold(self.recent(), Duration::min)
    }

    fn is_congested(&self) -> bool {
        if self.loss_share > MAX_RANDOM_LOSS {
            return true;
        }
        if self.growth.in_slow_start() {
            return false;
        }
        let Some(least) = self.least.get() else { return true };
        let queue = self.sustained().saturating_sub(least);
        let longest = Duration::from_picos(self.longest.get()).saturating_sub(least);
        queue * CONGESTED_PART >= longest && queue * NOISE_PART >= least
    }

    /// Whether it yields to others, and does so now.
    fn is_in_the_way(&self, delivery: &Delivery) -> bool {
        self.yielded_at.is_some_and(|at| delivery.delivered_before >= at) && self.is_congested()
    }

    fn reduce(&mut self) {
        if let Some(window) =
            self.slow_start.window_before().filter(|_| self.growth.in_slow_start())
        {
            self.growth.set_window(window);
        }
        self.growth.reduce();
        self.answer_losses();
    }

    /// What was lost is answered: it does not count for the losses to come.
    fn answer_losses(&mut self) {
        self.loss_share = self.loss_share.min(MAX_RANDOM_LOSS / 2.0);
    }
}

impl CongestionController for Veno {
    fn window(&self) -> u32 {
        self.growth.window()
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.growth.pace()
    }

    fn on_delivered(&mut self, delivery: &Delivery) {
        let &Delivery { now, rtt, .. } = delivery;
        self.growth.note_round_trip(rtt);
        self.least.update(now, rtt);
        self.recent[self.next_recent] = rtt;
        self.next_recent = (self.next_recent + 1) % RECENT;
        self.round.on_delivered(delivery);
        if !self.pauses.on_delivered(delivery) {
            self.longest.update(now, self.recent().as_picos());
        }
        self.loss_share -= self.loss_share / LOSS_HORIZON;
        self.asked_after = delivery.delivered_before;
        if self.growth.in_slow_start() {
            let step = self.slow_start.on_delivered(delivery, self.growth.exact_window());
            match step {
                Step::Grow(packets) => self.growth.grow(packets),
                Step::Set(window) => self.growth.set_window(window),
                Step::End(window) => {
                    self.growth.set_window(window);
                    self.growth.end_slow_start();
                    self.settled_from = delivery.delivered;
                }
            }
        } else if self.is_in_the_way(delivery) {
            self.growth.reduce();
            self.yielded_at = Some(delivery.delivered);
        } else if delivery.window_limited {
            self.growth.grow_on_delivered(now, rtt);
        }
    }

    fn on_pushed(&mut self, now: Time) {
        self.growth.grow_on_delivered(now, Duration::ZERO);
    }

    fn on_lost(&mut self, _now: Time, recovering: bool) -> bool {
        if self.asked_after < self.settled_from {
            return false;
        }
        self.loss_share += (1.0 - self.loss_share) / LOSS_HORIZON;
        let reduces = !recovering && self.is_congested();
        if reduces {
            self.reduce();
        }
        reduces
    }

    fn on_spurious_loss(&mut self) {
        self.loss_share = (self.loss_share - 1.0 / LOSS_HORIZON).max(0.0);
    }

    fn on_marked(&mut self, _now: Time, recovering: bool) -> bool {
        if !recovering {
            self.reduce();
        }
        !recovering
    }

    fn on_persistent_congestion(&mut self, _now: Time) {
        self.growth.restart();
        self.slow_start = SlowStart::default();
        self.answer_losses();
    }

    fn set_part(&mut self, part: f64) {
        self.growth.set_part(part);
    }

    fn yield_to_others(&mut self) {
        self.yielded_at = self.yielded_at.or(Some(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets with these round trips, a millisecond apart.
    fn deliver(veno: &mut Veno, start: u64, millis: impl IntoIterator<Item = u64>) {
        for (packet, rtt) in (start..).zip(millis) {
            let at = Duration::from_millis(packet);
            deliver_at(veno, packet, at, Duration::from_millis(rtt), packet.saturating_sub(rtt));
        }
    }

    /// One packet.
    fn deliver_at(veno: &mut Veno, packet: u64, at: Duration, rtt: Duration, asked_after: u64) {
        veno.on_delivered(&Delivery {
            now: Time::ZERO + at,
            rtt,
            delivered: packet + 1,
            delivered_before: asked_after,
            rate: 1_000.0,
            in_flight: 100,
            window_limited: false,
        });
    }

    /// Past slow start, which only a large share of losses ends.
    fn settled(window: u32) -> Veno {
        let mut veno = Veno::new(window, 1_000);
        veno.growth.end_slow_start();
        veno
    }

    fn is_reduced(veno: &mut Veno) -> bool {
        veno.on_lost(Time::ZERO, false)
    }

    #[test]
    fn losses_are_congestion_while_the_queue_is_long_and_random_while_it_is_short() {
        let mut veno = settled(100);
        deliver(&mut veno, 0, [100; 20]);
        assert!(!is_reduced(&mut veno), "nothing waits");
        deliver(&mut veno, 20, (100..180).chain([180; 500]));
        assert!(is_reduced(&mut veno), "the longest queue so far");
        assert_eq!(veno.window(), 70);
        deliver(&mut veno, 600, [120; 20]);
        assert!(!is_reduced(&mut veno), "a quarter of it");
        deliver(&mut veno, 620, [150; 100]);
        assert!(!is_reduced(&mut veno), "not for two rounds");
        deliver(&mut veno, 720, [150; 400]);
        assert!(is_reduced(&mut veno), "more than half of it");
        assert!(!veno.on_lost(Time::ZERO, true), "answered");
    }

    #[test]
    fn a_host_that_is_not_run_for_a_while_is_no_queue() {
        let mut veno = settled(100);
        deliver(&mut veno, 0, [10; 30]);
        // The queue is full at 15 ms.
        deliver(&mut veno, 30, [15; 60]);
        assert!(is_reduced(&mut veno));
        // What was on its way waits in the host for 60 ms.
        for packet in 90..105 {
            let (now, rtt) = (Duration::from_millis(150), Duration::from_millis(165 - packet));
            deliver_at(&mut veno, packet, now, rtt, packet - 15);
        }
        for packet in 105..165 {
            let rtt = Duration::from_millis(15);
            deliver_at(&mut veno, packet, Duration::from_millis(packet + 46), rtt, packet - 15);
        }
        assert!(is_reduced(&mut veno), "{veno:?}");
    }

    #[test]
    fn jitter_is_no_queue() {
        let mut veno = settled(100);
        deliver(&mut veno, 0, (0..1_000).map(|packet| 100 + packet % 8 * 10));
        assert!(!is_reduced(&mut veno));
    }

    #[test]
    fn a_large_share_of_losses_is_congestion() {
        let mut veno = settled(1_000);
        deliver(&mut veno, 0, [100; 20]);
        let mut reduced = |part: usize| {
            let mut reductions = 0;
            for packet in 0..2_000 {
                if packet % part == 0 {
                    reductions += usize::from(is_reduced(&mut veno));
                } else {
                    deliver(&mut veno, packet as u64, [100]);
                }
            }
            reductions
        };
        assert_eq!(reduced(20), 0, "5 %");
        assert!(reduced(5) > 2, "20 %");
    }

    #[test]
    fn marks_are_congestion_whatever_waits() {
        let mut veno = settled(100);
        deliver(&mut veno, 0, [100; 20]);
        assert!(veno.on_marked(Time::ZERO, false));
        assert_eq!(veno.window(), 70);
    }

    #[test]
    fn a_few_losses_do_not_end_slow_start() {
        let mut veno = Veno::new(100, 1_000);
        deliver(&mut veno, 0, 100..180);
        assert!(!is_reduced(&mut veno));
        let reductions = (0..40).filter(|_| is_reduced(&mut veno)).count();
        assert!(reductions > 0 && !veno.growth.in_slow_start());
    }
}
