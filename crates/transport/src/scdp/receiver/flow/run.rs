//! The credits that one pull carries: as many as the switches' queues take in a row.
//!
//! The symbols that one pull asks for come as fast as their sender's link is. Where that is faster
//! than the receiver's, a run that is longer than the queue between them is cut down to what the
//! queue holds, and the receiver's link, which was booked for all of it, is idle for the rest. The
//! paper's pulls carry one credit and know nothing of it. So what is trimmed halves the runs, once
//! for all that was in flight, and [`CALM`] runs of which nothing was trimmed make them longer by one.
//!
//! Where switches drop, a run that is too long loses symbols in a row, its last; a lossy path loses them here and
//! there. So losses halve the runs, too, where as many as a third are of neighbours. Congestion control cannot do that:
//! a queue that is shorter than a run is not to be seen in round trips.

use crate::scdp::Config;

/// Runs without a trimmed symbol before they get longer by one. A decision: one run in so many may be
/// too long, which costs a symbol or two.
const CALM: u32 = 32;

/// From three quarters of a length that lost symbols on, runs get longer so many times more slowly.
const WARY: u32 = 8;

/// Losses next to another one that show a queue too short for runs, if they are one part in so many of all losses,
/// counted over no more than so many. Of losses that are random, at 10 % one in ten is next to another.
const ADJACENT: u32 = 3;
const ADJACENT_PART: u32 = 3;
const LOSSES: u32 = 24;

/// A share of losses next to another one that is congestion, and the symbols over which it is averaged. Bursts of
/// losses on a long link are such, too, but so many would be rare.
const OVERFLOW: f64 = 0.02;
const SHARE_HORIZON: f64 = 1_024.0;

/// Losses make runs no shorter: no queue is that short, and a host that wakes up late then would ask for less than a
/// path carries.
pub(super) const LEAST_BY_LOSS: u32 = 4;

/// The length of runs, of one sender.
#[derive(Debug)]
pub(super) struct Run {
    limit: u32,
    most: u32,
    /// Symbols that came whole since the limit was last changed.
    calm: u32,
    /// What happens to credits up to this number was decided before the limit was last changed.
    judged: u32,
    /// The length at which they get longer slowly.
    wary_at: u32,
    /// Losses counted, those next to another one, and the last.
    lost: u32,
    adjacent: u32,
    last_lost: u32,
    /// Share of symbols lost lately that came next to another one.
    share: f64,
}

impl Run {
    pub(super) fn new(config: &Config) -> Self {
        let most = u32::from(config.burst.max(1));
        Run {
            limit: most,
            most,
            calm: 0,
            judged: 0,
            wary_at: 0,
            lost: 0,
            adjacent: 0,
            last_lost: 0,
            share: 0.0,
        }
    }

    /// Credits that a pull may carry.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// The symbol of that number has come, or what was left of it; numbers to `granted` are out.
    pub(super) fn on_answer(&mut self, number: u32, granted: u32, trimmed: bool) {
        if number <= self.judged {
            return;
        }
        if trimmed {
            self.shorten(1, granted);
            return;
        }
        self.share -= self.share / SHARE_HORIZON;
        self.calm = self.calm.saturating_add(1);
        let wary = if self.limit == self.wary_at { WARY } else { 1 };
        if self.calm >= CALM * wary * self.limit && self.limit < self.most {
            (self.limit, self.calm) = (self.limit + 1, 0);
        }
    }

    /// The symbol of that number is lost, as those behind it show; numbers to `granted` are out. Whether that is the
    /// doing of a queue too short, as are many losses in rows.
    pub(super) fn on_lost(&mut self, number: u32, granted: u32) -> bool {
        let adjacent = number == self.last_lost.wrapping_add(1);
        self.last_lost = number;
        self.lost += 1;
        self.share -= self.share / SHARE_HORIZON;
        if adjacent {
            self.adjacent += 1;
            self.share += 1.0 / SHARE_HORIZON;
        }
        let in_rows = self.adjacent >= ADJACENT && self.adjacent * ADJACENT_PART >= self.lost;
        if number > self.judged && in_rows {
            self.wary_at = self.limit * 3 / 4;
            self.shorten(LEAST_BY_LOSS, granted);
        }
        if self.lost >= LOSSES {
            (self.lost, self.adjacent) = (0, 0);
        }
        adjacent && self.share >= OVERFLOW
    }

    /// Credits that may leave at once. Where next to none are lost in rows, a host that wakes up late asks for all
    /// that it would have asked for in time.
    pub(super) fn at_once(&self) -> u32 {
        if self.share < OVERFLOW / 4.0 { self.most } else { self.limit }
    }

    /// Whether fewer credits may leave at once than the host would have it.
    pub(super) fn is_short(&self) -> bool {
        self.at_once() < self.most
    }

    fn shorten(&mut self, least: u32, granted: u32) {
        self.limit = (self.limit / 2).max(least).min(self.limit);
        (self.calm, self.judged) = (0, granted);
    }

    /// The sender numbers anew.
    pub(super) fn restart(&mut self) {
        (self.calm, self.judged) = (0, 0);
        (self.lost, self.adjacent, self.last_lost) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use wellspring_core::{HostId, Rate};

    use super::*;

    fn run(burst: u16) -> Run {
        Run::new(&Config { burst, ..Config::new(HostId(0), Rate::from_mbps(1_000)) })
    }

    #[test]
    fn what_is_trimmed_halves_runs_once_for_all_that_was_out() {
        let mut run = run(32);
        run.on_answer(7, 40, true);
        run.on_answer(40, 60, true);
        assert_eq!(run.limit(), 16);
        for number in (100..).step_by(10).take(9) {
            run.on_answer(number, number, true);
        }
        assert_eq!(run.limit(), 1);
    }

    #[test]
    fn calm_makes_runs_longer_up_to_what_they_were() {
        let mut run = run(4);
        run.on_answer(1, 8, true);
        for number in 9..9 + CALM * 2 {
            assert_eq!(run.limit(), 2);
            run.on_answer(number, number + 8, false);
        }
        assert_eq!(run.limit(), 3);
        for number in 1_000..2_000 {
            run.on_answer(number, number + 8, false);
        }
        assert_eq!(run.limit(), 4);
    }

    #[test]
    fn losses_in_a_row_halve_runs_and_random_ones_hardly_ever() {
        let mut run = run(32);
        for number in 10..20 {
            assert!(!run.on_lost(number, 30), "ten losses are few");
        }
        assert_eq!(run.limit(), 16, "once for all that was out");
        for start in [100, 200, 300, 400] {
            for lost in 0..4 {
                run.on_lost(start + lost, start + 50);
            }
        }
        assert_eq!(run.limit(), LEAST_BY_LOSS);
        let rows = (500..2_500).filter(|number| number % 20 < 3);
        assert!(rows.fold(false, |_, number| run.on_lost(number, number + 50)), "three in twenty");
        for percent in [1, 5] {
            let mut random = wellspring_core::Seed(percent).stream("losses");
            let mut run = self::run(32);
            let mut least = run.limit();
            for number in 1..100_000 {
                if random.below(100) < percent {
                    assert!(!run.on_lost(number, number + 50), "random losses are no congestion");
                } else {
                    run.on_answer(number, number + 50, false);
                }
                least = least.min(run.limit());
            }
            assert!(least >= 8, "{percent} %: {least}");
        }
    }

    #[test]
    fn who_numbers_anew_is_heard() {
        let mut run = run(4);
        run.on_answer(1_000, 2_000, true);
        run.restart();
        run.on_answer(1, 8, true);
        assert_eq!(run.limit(), 1);
    }
}
