//! Turns of sessions by priority.

use alloc::collections::VecDeque;
use wellspring_core::Priority;

/// Turns of higher levels for one of a lower level, while both have something to do. Without any, a session at the other
/// end would be taken for gone, and what is put would lose the place that is held for it.
const TURNS_OF_THE_HIGHER: u32 = 16;

const LEVELS: usize = Priority::ALL.len();

/// Queues of members (small dense indices), one for each priority.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    queues: [VecDeque<u32>; LEVELS],
    /// Turns of higher levels since the last one of this level.
    passed_over: [u32; LEVELS],
}

/// Which of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level(usize);

impl From<Priority> for Level {
    fn from(priority: Priority) -> Self {
        Level(priority as usize)
    }
}

impl Levels {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// The level whose turn it is: the highest at which somebody waits, unless a lower one was passed over often enough.
    pub(crate) fn next_level(&self) -> Option<Level> {
        let mut waiting = (0..LEVELS).filter(|&level| !self.queues[level].is_empty());
        let highest = waiting.next()?;
        let due = waiting.find(|&level| self.passed_over[level] >= TURNS_OF_THE_HIGHER);
        Some(Level(due.unwrap_or(highest)))
    }

    /// A member of that level has a turn.
    pub(crate) fn took_turn(&mut self, Level(taken): Level) {
        self.passed_over[taken] = 0;
        for lower in taken + 1..LEVELS {
            if !self.queues[lower].is_empty() {
                self.passed_over[lower] += 1;
            }
        }
    }

    pub(crate) fn queue(&mut self, Level(level): Level) -> &mut VecDeque<u32> {
        &mut self.queues[level]
    }

    /// Takes a member out, whatever its level.
    pub(crate) fn remove(&mut self, member: u32) {
        for queue in &mut self.queues {
            queue.retain(|waiting| *waiting != member);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Who has the turns, where all that wait go on waiting.
    fn turns(waiting: &[(u32, Priority)], count: usize) -> Vec<u32> {
        let mut levels = Levels::default();
        for (member, priority) in waiting {
            levels.queue((*priority).into()).push_back(*member);
        }
        let turn = |_| {
            let level = levels.next_level().expect("somebody waits");
            let member = levels.queue(level).pop_front().expect("of a level at which they do");
            levels.queue(level).push_back(member);
            levels.took_turn(level);
            member
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn the_highest_level_goes_first_and_those_below_have_a_turn_now_and_then() {
        let waiting = [(1, Priority::Background), (2, Priority::Normal), (3, Priority::Urgent)];
        let turns = turns(&waiting, 36);
        assert_eq!(turns[..18], [&[3; 16][..], &[2, 1]].concat());
        let count = |member| turns.iter().filter(|turn| **turn == member).count();
        assert_eq!((count(3), count(2), count(1)), (32, 2, 2), "{turns:?}");
    }

    #[test]
    fn one_level_alone_goes_round() {
        for priority in Priority::ALL {
            let waiting = [(4, priority), (7, priority), (5, priority)];
            assert_eq!(turns(&waiting, 7), [4, 7, 5, 4, 7, 5, 4]);
        }
    }

    #[test]
    fn who_leaves_has_no_turn() {
        let mut levels = Levels::default();
        levels.queue(Priority::Background.into()).push_back(3);
        levels.remove(3);
        assert!(levels.is_empty() && levels.next_level().is_none());
    }
}
