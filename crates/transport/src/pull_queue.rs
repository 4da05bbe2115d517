//! The one queue of pulls a host has, and its pace (SCDP §IV-C; NDP has the same).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use wellspring_core::{Duration, Rate, Time};

/// Who may pull next, round robin, no faster than the answers fit through the host's own link.
#[derive(Debug)]
pub struct PullQueue {
    link_rate: Rate,
    /// Members that want to pull, each at most once.
    waiting: VecDeque<u32>,
    queued: Vec<bool>,
    /// The link is spoken for until then; `None` when that is past.
    busy_until: Option<Time>,
    /// How far the pacer may run ahead of its schedule after being asked late: a real driver
    /// wakes up later than asked, and must not lose rate by it.
    slack: Duration,
}

impl PullQueue {
    /// An empty queue in front of a link of that rate. `slack` is how much unused time may be
    /// made up for in a burst (zero in simulation).
    pub fn new(link_rate: Rate, slack: Duration) -> Self {
        PullQueue {
            link_rate,
            waiting: VecDeque::new(),
            queued: Vec::new(),
            busy_until: None,
            slack,
        }
    }

    /// Puts a member (a small dense index) at the end of the queue, unless it waits already.
    pub fn enqueue(&mut self, member: u32) {
        let index = member as usize;
        if index >= self.queued.len() {
            self.queued.resize(index + 1, false);
        }
        if !self.queued[index] {
            self.queued[index] = true;
            self.waiting.push_back(member);
        }
    }

    /// Takes the next member if the link is free at `now`.
    pub fn next(&mut self, now: Time) -> Option<u32> {
        if self.busy_until.is_some_and(|until| until > now) {
            return None;
        }
        let member = self.waiting.pop_front()?;
        self.queued[member as usize] = false;
        Some(member)
    }

    /// Books the link for the answers to a pull: so many bytes on the wire.
    pub fn book(&mut self, now: Time, bytes: u64) {
        let earliest = now - self.slack;
        let start = self.busy_until.map_or(now, |until| until.max(earliest));
        self.busy_until = Some(start + self.link_rate.time_for(bytes));
    }

    /// When the next member may pull; `None` when nobody waits.
    pub fn deadline(&self) -> Option<Time> {
        if self.waiting.is_empty() {
            return None;
        }
        self.busy_until
    }

    /// Forgets an instant that is past (see [`Time`]).
    pub fn forget_past(&mut self, now: Time) {
        if self.busy_until.is_some_and(|until| until + self.slack < now) {
            self.busy_until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn members_take_turns_at_link_rate() {
        let mut queue = PullQueue::new(Rate::from_mbps(1_000), Duration::ZERO);
        queue.enqueue(3);
        queue.enqueue(5);
        queue.enqueue(3);
        let mut now = Time::ZERO;
        let mut order = Vec::new();
        for _ in 0..6 {
            let member = queue.next(now).expect("somebody waits");
            order.push(member);
            queue.book(now, 1_500);
            queue.enqueue(member);
            assert_eq!(queue.next(now), None, "the link is booked");
            now = queue.deadline().expect("somebody waits");
        }
        assert_eq!(order, [3, 5, 3, 5, 3, 5]);
        assert_eq!(now, Time::ZERO + Duration::from_micros(6 * 12));
    }

    #[test]
    fn a_late_caller_makes_up_for_no_more_than_the_slack() {
        let mut queue = PullQueue::new(Rate::from_mbps(1_000), Duration::from_micros(24));
        queue.enqueue(0);
        let mut now = Time::ZERO;
        queue.book(now, 1_500);
        now = now + Duration::from_micros(1_012);
        let mut burst = 0;
        while queue.next(now).is_some() {
            queue.book(now, 1_500);
            queue.enqueue(0);
            burst += 1;
        }
        assert_eq!(burst, 3, "two owed by the slack, one on time");
    }
}
