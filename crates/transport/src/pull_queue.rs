//! The one queue of pulls a host has, and its pace (SCDP §IV-C; NDP has the same).

use alloc::vec::Vec;
use wellspring_core::{Duration, Priority, Rate, Time};

use crate::levels::Levels;

/// Who may pull next: by priority, round robin among equals, no faster than the answers fit through the host's own link.
#[derive(Debug)]
pub struct PullQueue {
    link_rate: Rate,
    /// Members that want to pull, each at most once.
    waiting: Levels,
    queued: Vec<bool>,
    /// When the next pull is due: the link is spoken for until then. `None` when that is past and
    /// no member waits.
    due: Option<Time>,
    /// When a member was last taken.
    left: Option<Time>,
    /// How late pulls may leave without the pace losing by it.
    slack: Duration,
    /// Whether time in which no member waited is made up for likewise.
    idle_counts: bool,
}

impl PullQueue {
    /// An empty queue in front of a link of that rate.
    ///
    /// Pulls leave late: the interface is busy with a packet, or the driver wakes up later than
    /// asked. What waited meanwhile makes up for it, back to back, for at most `slack`; without
    /// that a host which also sends would pull at less than its link's rate. Time in which nobody
    /// waited is not made up for.
    pub fn new(link_rate: Rate, slack: Duration) -> Self {
        let (waiting, queued) = (Levels::default(), Vec::new());
        PullQueue { link_rate, waiting, queued, due: None, left: None, slack, idle_counts: false }
    }

    /// The same for a driver that moves packets in batches. It also hears late of what came, so who waits
    /// only now may have had reason to all along: idle time is made up for, too, for at most `slack`.
    pub fn batched(link_rate: Rate, slack: Duration) -> Self {
        PullQueue { idle_counts: true, ..Self::new(link_rate, slack) }
    }

    /// The slack of a host whose interface sends packet by packet \[eight packets of 1,500 bytes\].
    pub fn packets_late(link_rate: Rate) -> Duration {
        link_rate.time_for(8 * 1_500)
    }

    /// Pulls run at that rate from now on.
    pub fn set_rate(&mut self, link_rate: Rate) {
        self.link_rate = link_rate;
    }

    /// The same, but what was booked at the old rate is not waited for: at a low one that can be long.
    pub fn begin_anew(&mut self, now: Time, link_rate: Rate) {
        self.set_rate(link_rate);
        self.due = self.due.map(|due| due.earlier_of(now));
    }

    /// Puts a member (a small dense index) at the end of those of its priority, unless it waits already.
    pub fn enqueue(&mut self, now: Time, member: u32, priority: Priority) {
        // Who wants to pull again at the instant of its pull has waited all along.
        if self.waiting.is_empty() && self.left != Some(now) && !self.idle_counts {
            self.due = Some(self.due.map_or(now, |due| due.later_of(now)));
        }
        let index = member as usize;
        if index >= self.queued.len() {
            self.queued.resize(index + 1, false);
        }
        if !self.queued[index] {
            self.queued[index] = true;
            self.waiting.queue(priority.into()).push_back(member);
        }
    }

    /// Takes a member out that will not pull.
    pub fn forget(&mut self, member: u32) {
        let queued = self.queued.get_mut(member as usize).map(core::mem::take);
        if queued == Some(true) {
            self.waiting.remove(member);
        }
    }

    /// Takes the next member if the link is free at `now`. Its pull leaves now.
    pub fn next(&mut self, now: Time) -> Option<u32> {
        if self.due.is_some_and(|due| due.is_after(now)) {
            return None;
        }
        let level = self.waiting.next_level()?;
        let member = self.waiting.queue(level).pop_front()?;
        self.waiting.took_turn(level);
        self.queued[member as usize] = false;
        self.left = Some(now);
        Some(member)
    }

    /// Books the link for so many bytes on the wire: the answers to a pull that leaves now, or packets that
    /// came beside them.
    pub fn book(&mut self, now: Time, bytes: u64) {
        let start = self.due.map_or(now, |due| due.later_of(now - self.slack));
        self.due = Some(start + self.link_rate.time_for(bytes));
    }

    /// When the next member may pull; `None` when no member waits.
    pub fn deadline(&self) -> Option<Time> {
        if self.waiting.is_empty() { None } else { self.due }
    }

    /// Forgets an instant that is past (see [`Time`]).
    pub fn forget_past(&mut self, now: Time) {
        let kept = if self.idle_counts { self.slack } else { Duration::ZERO };
        if self.waiting.is_empty() && self.due.is_some_and(|due| (due + kept).is_before(now)) {
            (self.due, self.left) = (None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn micros(n: u64) -> Time {
        Time::ZERO + Duration::from_micros(n)
    }

    #[test]
    fn members_take_turns_at_link_rate() {
        let mut queue = PullQueue::new(Rate::from_mbps(1_000), Duration::ZERO);
        let mut now = Time::ZERO;
        for member in [3, 5, 3] {
            queue.enqueue(now, member, Priority::Normal);
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let member = queue.next(now).expect("somebody waits");
            order.push(member);
            queue.book(now, 1_500);
            queue.enqueue(now, member, Priority::Normal);
            assert_eq!(queue.next(now), None, "the link is booked");
            now = queue.deadline().expect("somebody waits");
        }
        assert_eq!(order, [3, 5, 3, 5, 3, 5]);
        assert_eq!(now, micros(6 * 12));
    }

    /// Members of all priorities want to pull all the time.
    #[test]
    fn urgent_members_pull_first_and_no_member_is_starved() {
        let mut queue = PullQueue::new(Rate::from_mbps(1_000), Duration::ZERO);
        let priority = |member: u32| Priority::ALL[member as usize];
        let mut now = Time::ZERO;
        for member in [2, 1, 0] {
            queue.enqueue(now, member, priority(member));
        }
        let mut pulls = [0; 3];
        for pull in 0..180 {
            let member = queue.next(now).expect("somebody waits");
            assert!(pull > 0 || member == 0, "the urgent one is the first");
            pulls[member as usize] += 1;
            queue.book(now, 1_500);
            queue.enqueue(now, member, priority(member));
            now = queue.deadline().expect("somebody waits");
        }
        assert_eq!(pulls, [160, 10, 10]);
        queue.forget(0);
        queue.forget(1);
        assert_eq!((queue.next(now), queue.next(now)), (Some(2), None));
    }

    /// How many pulls leave back to back at `now`, with somebody always waiting.
    fn burst(queue: &mut PullQueue, now: Time) -> u32 {
        let mut burst = 0;
        while let Some(member) = queue.next(now) {
            queue.book(now, 1_500);
            queue.enqueue(now, member, Priority::Normal);
            burst += 1;
        }
        burst
    }

    #[test]
    fn pulls_that_leave_late_make_up_for_no_more_than_the_slack() {
        let mut queue = PullQueue::new(Rate::from_mbps(1_000), Duration::from_micros(24));
        queue.enqueue(Time::ZERO, 0, Priority::Normal);
        assert_eq!(burst(&mut queue, Time::ZERO), 1);
        assert_eq!(burst(&mut queue, micros(1_012)), 3, "two owed by the slack, one on time");
    }

    #[test]
    fn another_rate_counts_at_once() {
        let mut queue = PullQueue::batched(Rate::from_mbps(1), Duration::ZERO);
        queue.enqueue(Time::ZERO, 0, Priority::Normal);
        assert_eq!(burst(&mut queue, Time::ZERO), 1);
        assert_eq!(queue.deadline(), Some(micros(12_000)));
        queue.begin_anew(micros(100), Rate::from_mbps(1_000));
        assert_eq!(burst(&mut queue, micros(100)), 1);
        assert_eq!(queue.deadline(), Some(micros(112)));
        queue.begin_anew(micros(200), Rate::from_mbps(1));
        assert_eq!(burst(&mut queue, micros(200)), 1);
        assert_eq!(queue.deadline(), Some(micros(12_200)));
    }

    #[test]
    fn packets_that_come_beside_the_answers_put_pulls_off() {
        let mut queue = PullQueue::new(Rate::from_mbps(1_000), Duration::from_micros(96));
        queue.enqueue(Time::ZERO, 0, Priority::Normal);
        assert_eq!(burst(&mut queue, Time::ZERO), 1);
        queue.book(micros(3), 125);
        assert_eq!(queue.deadline(), Some(micros(13)), "twelve for the answer, one for the packet");
    }

    #[test]
    fn time_in_which_nobody_waited_is_not_made_up_for() {
        let mut queue = PullQueue::new(Rate::from_mbps(1_000), Duration::from_micros(24));
        queue.enqueue(Time::ZERO, 0, Priority::Normal);
        assert_eq!(queue.next(Time::ZERO), Some(0));
        queue.book(Time::ZERO, 1_500);
        queue.enqueue(micros(1_012), 0, Priority::Normal);
        assert_eq!(burst(&mut queue, micros(1_012)), 1);
    }

    #[test]
    fn a_driver_of_batches_makes_up_for_idle_time_too() {
        let mut queue = PullQueue::batched(Rate::from_mbps(1_000), Duration::from_micros(24));
        queue.enqueue(Time::ZERO, 0, Priority::Normal);
        assert_eq!(queue.next(Time::ZERO), Some(0));
        queue.book(Time::ZERO, 1_500);
        queue.forget_past(micros(30));
        queue.enqueue(micros(36), 0, Priority::Normal);
        assert_eq!(burst(&mut queue, micros(36)), 3, "two owed by the slack, one on time");
    }

    #[test]
    fn an_interface_that_is_always_busy_for_a_while_costs_no_pulls() {
        let mut queue = PullQueue::new(Rate::from_mbps(1_000), Duration::from_micros(96));
        queue.enqueue(Time::ZERO, 0, Priority::Normal);
        // Asked at 0, 20, 40, ...: twelve microseconds a pull are 50 in 600 all the same.
        let pulls: u32 = (0..=30).map(|turn| burst(&mut queue, micros(20 * turn))).sum();
        assert_eq!(pulls, 51);
    }
}
