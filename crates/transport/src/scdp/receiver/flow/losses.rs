//! Credits that are given up for lost.

use wellspring_core::Time;

use super::run::LEAST_BY_LOSS;
use super::spurious::LostCredit;
use super::{CreditState, Flow, Settled, Window};
use crate::congestion::CongestionController;
use crate::scdp::Config;

impl Flow {
    /// The next credit that a gap in the numbers gives up for lost.
    pub(in crate::scdp::receiver) fn next_gap(
        &mut self,
        now: Time,
        config: &Config,
    ) -> Option<Settled> {
        let threshold = self.reordering_threshold?;
        self.drop_settled_front();
        if self.credits.is_empty() || self.first.saturating_add(threshold) > self.highest {
            return None;
        }
        let settled = self.lose_gap(now);
        self.rearm(config);
        Some(settled)
    }

    /// Gives up the first credit in flight, since one behind it was answered.
    pub(super) fn lose_gap(&mut self, now: Time) -> Settled {
        let number = self.first;
        let lost_with_pull = number <= self.lost_pull;
        if !lost_with_pull && let Some(last) = self.last_of_lost_pull() {
            self.lost_pull = last;
        }
        let settled = self.lose_front(false);
        if !lost_with_pull {
            self.on_lost(now, number, false);
        }
        settled
    }

    /// The last credit of the pull that granted the first in flight, if none of a long run was answered, though one
    /// behind them was. Then the pull was lost, on its way to the sender: one packet, and no queue that is
    /// too short for the run. Such a queue takes its first symbols.
    fn last_of_lost_pull(&self) -> Option<u32> {
        let run =
            1 + self.credits.iter().skip(1).take_while(|credit| !credit.begins_pull).count() as u32;
        let last = self.first + run - 1;
        let unanswered =
            || self.credits.iter().take(run as usize).all(|c| c.state != CreditState::Settled);
        let begins = self.credits.front().is_some_and(|credit| credit.begins_pull);
        (begins && run > LEAST_BY_LOSS && last < self.highest && unanswered()).then_some(last)
    }

    /// Gives up all credits in flight. Calls `for_each` with each.
    pub(in crate::scdp::receiver) fn give_up(&mut self, mut for_each: impl FnMut(Settled)) {
        self.drop_settled_front();
        while !self.credits.is_empty() {
            for_each(Settled { silent: true, ..self.lose_front(false) });
            self.drop_settled_front();
        }
        self.deadline = None;
    }

    /// The credit of that number was given up. The window is reduced once for all that was in flight, if the
    /// congestion controller takes it for congestion.
    pub(super) fn on_lost(&mut self, now: Time, number: u32, by_timeout: bool) {
        let pulled = !by_timeout && number > self.pushed;
        let overflow = pulled && self.run.on_lost(number, self.granted());
        let Window::Controlled(controller) = &mut self.window else { return };
        let before = **controller;
        // Timeouts in a row are one silence, which the first has answered.
        let recovering = number <= self.recovery_point || (by_timeout && self.timeouts > 0);
        let reduced = if overflow {
            controller.on_marked(now, recovering)
        } else {
            controller.on_lost(now, recovering)
        };
        if reduced {
            self.given_up.reduce(before, by_timeout, self.timeouts > 1);
            self.recovery_point = self.granted();
        }
    }

    pub(super) fn lose_front(&mut self, by_timeout: bool) -> Settled {
        let credit = self.credits.pop_front().expect("the caller saw a credit in flight");
        self.given_up.push(LostCredit { number: self.first, by_timeout });
        self.calm_losses = self.calm_losses.saturating_add(1);
        self.first += 1;
        self.in_flight -= 1;
        self.stats.lost += 1;
        Settled::of(&credit, by_timeout)
    }

    pub(super) fn drop_settled_front(&mut self) {
        while self.credits.front().is_some_and(|c| c.state == CreditState::Settled) {
            self.credits.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use wellspring_core::{Duration, HostId, Rate};

    use super::*;
    use crate::scdp::Fabric;
    use crate::scdp::receiver::flow::Answer;

    const RUN: u32 = 32;
    const RUNS: u32 = 8;

    /// The window before and after, of a flow that was granted eight runs of which the symbols `lost` did not come.
    fn windows(lost: impl Fn(u32) -> bool) -> (u32, u32) {
        let fabric = Fabric::Shared { reordering_threshold: 3 };
        let config = Config { fabric, ..Config::new(HostId(0), Rate::from_mbps(1_000)) };
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut flow = Flow::new(at(0), HostId(1), RUN * RUNS, &config);
        let window = |flow: &Flow| match &flow.window {
            Window::Controlled(controller) => controller.window(),
            Window::Fixed(window) => *window,
        };
        let before = window(&flow);
        for run in 0..u64::from(RUNS) {
            flow.grant(at(run), (0, 0), RUN, true);
        }
        for number in (1..=RUN * RUNS).filter(|&number| !lost(number)) {
            let now = at(200 + u64::from((number - 1) / RUN));
            assert!(matches!(flow.answer(now, number, false), Answer::Settles(_)), "{number}");
            while flow.next_gap(now, &config).is_some() {}
        }
        (before, window(&flow))
    }

    #[test]
    fn a_pull_that_is_lost_is_one_loss() {
        let (before, after) = windows(|number| (2 * RUN + 1..=3 * RUN).contains(&number));
        assert!(after >= before, "{before} {after}");
    }

    #[test]
    fn runs_whose_ends_are_lost_show_a_short_queue() {
        let (before, after) = windows(|number| (number - 1) % RUN >= 8);
        assert!(after < before, "{before} {after}");
    }
}
