//! The credits that one pull carries: as many as the switches' queues take in a row.
//!
//! The symbols that one pull asks for come as fast as their sender's link is. Where that is faster
//! than the receiver's, a run that is longer than the queue between them is cut down to what the
//! queue holds, and the receiver's link, which was booked for all of it, is idle for the rest. The
//! paper's pulls carry one credit and know nothing of it. So what is trimmed halves the runs, once
//! for all that was in flight, and [`CALM`] runs of which nothing was trimmed make them longer by one.

use crate::scdp::Config;

/// Runs without a trimmed symbol before they get longer by one. A decision: one run in so many may be
/// too long, which costs a symbol or two.
const CALM: u32 = 32;

/// The length of runs, of one sender.
#[derive(Debug)]
pub(super) struct Run {
    limit: u32,
    most: u32,
    /// Symbols that came whole since the limit was last changed.
    calm: u32,
    /// What happens to credits up to this number was decided before the limit was last changed.
    judged: u32,
}

impl Run {
    pub(super) fn new(config: &Config) -> Self {
        let most = u32::from(config.burst.max(1));
        Run { limit: most, most, calm: 0, judged: 0 }
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
            (self.limit, self.calm, self.judged) = ((self.limit / 2).max(1), 0, granted);
            return;
        }
        self.calm = self.calm.saturating_add(1);
        if self.calm >= CALM * self.limit && self.limit < self.most {
            (self.limit, self.calm) = (self.limit + 1, 0);
        }
    }

    /// The sender numbers anew.
    pub(super) fn restart(&mut self) {
        (self.calm, self.judged) = (0, 0);
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
    fn who_numbers_anew_is_heard() {
        let mut run = run(4);
        run.on_answer(1_000, 2_000, true);
        run.restart();
        run.on_answer(1, 8, true);
        assert_eq!(run.limit(), 1);
    }
}
