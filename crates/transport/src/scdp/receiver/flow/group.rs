//! Numbers of a group's flow, which run on without the grants of this receiver.

use super::{Answer, Credit, CreditState, Flow, LAST};

/// How far ahead of what was granted here a group's numbers are believed: others may have been granted so many.
const MAX_AHEAD: u32 = 65_536;

impl Flow {
    /// Skips ahead to a number of the group that was sent without our asking. Credits in flight that it has overtaken
    /// are seen to be lost by that, as by any other.
    pub(in crate::scdp::receiver) fn skip_to(&mut self, number: u32, trimmed: bool) {
        debug_assert!(self.granted() < number && !self.is_far_ahead(number));
        if !trimmed || self.reordering_threshold.is_none() {
            self.highest = self.highest.max(number);
        }
        if self.in_flight == 0 {
            self.credits.clear();
            self.first = number + 1;
        } else {
            let missing = number - self.granted();
            let credit = Credit {
                sbn: 0,
                esi: 0,
                state: CreditState::Settled,
                begins_pull: true,
                granted_at: self.last_heard,
                delivered_before: self.delivered,
                delivered_at: self.delivered_at,
                delivered_granted_at: self.delivered_granted_at,
            };
            self.credits.extend(core::iter::repeat_n(credit, missing as usize));
        }
    }

    /// Whether a packet of that number, which is that answer, can be the first of it that comes. Of a packet that was
    /// trimmed anybody on the path can send further copies, which look the same.
    pub(in crate::scdp::receiver) fn is_first(&mut self, number: u32, answer: Answer) -> bool {
        let settles = matches!(answer, Answer::Settles(_));
        match self.group {
            false => settles || answer == Answer::Late,
            true if self.is_far_ahead(number) => false,
            true => self.come.take(number) || settles,
        }
    }

    /// Whether a group's number is so far ahead that it is not believed. Where one in flight is waited for, all
    /// numbers behind it are kept account of: it is far ahead, too, of a window and what is believed beyond.
    pub(in crate::scdp::receiver) fn is_far_ahead(&self, number: u32) -> bool {
        let most_kept = self.most + MAX_AHEAD;
        number > LAST
            || number.saturating_sub(self.granted()) > MAX_AHEAD
            || number.saturating_sub(self.first) >= most_kept
    }
}

#[cfg(test)]
mod tests {
    use wellspring_core::{HostId, Rate, Time};

    use super::*;
    use crate::scdp::receiver::flow::{Liveness, MAX_IN_FLIGHT};
    use crate::scdp::{Config, Fabric};

    /// A group's flow of which so many symbols were pushed.
    fn flow(pushed: u32) -> Flow {
        let fabric = Fabric::Shared { reordering_threshold: 3 };
        let config = Config { fabric, ..Config::new(HostId(0), Rate::from_mbps(1_000)) };
        let mut flow = Flow::new(Time::ZERO, HostId(1), pushed, &config);
        flow.group = true;
        (0..pushed).for_each(|esi| flow.grant_pushed(Time::ZERO, (0, esi), false));
        flow
    }

    /// A header of that number comes, of a symbol that was trimmed. Whether it is believed.
    fn header(flow: &mut Flow, number: u32) -> bool {
        let answer = flow.answer(Time::ZERO, number, true);
        let is_believed = flow.is_first(number, answer);
        if is_believed && answer == Answer::NeverGranted {
            flow.skip_to(number, true);
        }
        is_believed
    }

    #[test]
    fn headers_that_skip_ahead_take_no_more_memory_than_a_window_and_what_is_believed_beyond() {
        let mut flow = flow(12);
        assert!((0..100).any(|step| !header(&mut flow, 200 + step * MAX_AHEAD)));
        let most = (MAX_IN_FLIGHT + MAX_AHEAD) as usize;
        assert!(flow.credits.len() <= most, "{}", flow.credits.len());
        assert_eq!(flow.in_flight, 12);
    }

    #[test]
    fn numbers_end_before_they_overflow() {
        let mut flow = flow(0);
        flow.liveness = Liveness::Live;
        let mut number = 0_u32;
        while header(&mut flow, number.saturating_add(MAX_AHEAD)) {
            number += MAX_AHEAD;
        }
        assert!(!header(&mut flow, u32::MAX));
        assert!(header(&mut flow, LAST - 1));
        assert_eq!(flow.spare(), 1);
        flow.grant(Time::ZERO, (0, 0), 1, false);
        assert_eq!((flow.granted(), flow.spare()), (LAST, 0));
        assert!(header(&mut flow, LAST) && !header(&mut flow, u32::MAX));
        assert_eq!((flow.settled_below(), flow.spare()), (u32::MAX, 0));
    }

    #[test]
    fn a_header_speaks_of_the_oldest_credit_in_flight_that_ends_so() {
        let mut flow = flow(600);
        assert_eq!(flow.number_like(700), Some(188));
        for number in [188, 444] {
            assert_eq!(flow.number_like(188), Some(number));
            flow.answer(Time::ZERO, number, false);
        }
        assert_eq!((flow.number_like(188), flow.number_like(700)), (None, None));
        flow.answer(Time::ZERO, 1, false);
        assert_eq!(flow.settled_below(), 2);
        assert_eq!((flow.number_like(1), flow.number_like(0x1001)), (Some(257), Some(257)));
        assert_eq!((flow.number_like(513), flow.number_like(0)), (Some(513), Some(256)));
    }
}
