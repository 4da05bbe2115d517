//! Sessions that have symbols to send: runs by priority, round robin among equals.

use alloc::vec::Vec;
use wellspring_core::Priority;

use crate::levels::{Level, Levels};

/// Sending sessions with something to send.
#[derive(Debug, Default)]
pub(super) struct Ready {
    levels: Levels,
    /// At which level a session waits, by place.
    waits_at: Vec<Option<Level>>,
    /// Symbols that the session under way may still send in a row, and its level.
    run: Option<(u16, Level)>,
}

impl Ready {
    /// A session's place is in use.
    pub(super) fn make_room(&mut self, place: u32) {
        if place as usize >= self.waits_at.len() {
            self.waits_at.resize(place as usize + 1, None);
        }
    }

    /// Puts a session behind those of its priority, unless it is there already.
    pub(super) fn enqueue(&mut self, place: u32, priority: Priority) {
        let level = Level::from(priority);
        match self.waits_at[place as usize].replace(level) {
            Some(before) if before == level => return,
            // An earlier session of that place is over, and was of another priority.
            Some(before) => {
                self.levels.remove(place);
                self.run = self.run.filter(|(_, under_way)| *under_way != before);
            }
            None => {}
        }
        self.levels.queue(level).push_back(place);
    }

    /// Whose turn it is: a run is not broken off.
    pub(super) fn current(&mut self) -> Option<(u32, Level)> {
        let level = self.run.map_or_else(|| self.levels.next_level(), |(_, level)| Some(level))?;
        self.levels.queue(level).front().map(|&place| (place, level))
    }

    /// The session whose turn it is has sent a symbol. Runs are `burst` long.
    pub(super) fn sent(&mut self, level: Level, burst: u16) {
        let left = self.run.map_or_else(
            || {
                self.levels.took_turn(level);
                burst.max(1)
            },
            |(left, _)| left,
        );
        self.run = (left > 1).then_some((left - 1, level));
        if self.run.is_none() {
            self.levels.queue(level).rotate_left(1);
        }
    }

    /// The session whose turn it is has nothing to send.
    pub(super) fn leave(&mut self, level: Level) {
        if let Some(place) = self.levels.queue(level).pop_front() {
            self.waits_at[place as usize] = None;
        }
        self.run = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who sends, in runs of two symbols, where all that are ready stay so.
    fn order(ready: &mut Ready, symbols: usize) -> Vec<u32> {
        let symbol = |_| {
            let (place, level) = ready.current().expect("somebody is ready");
            ready.sent(level, 2);
            place
        };
        (0..symbols).map(symbol).collect()
    }

    fn ready(sessions: &[(u32, Priority)]) -> Ready {
        let mut ready = Ready::default();
        for (place, priority) in sessions {
            ready.make_room(*place);
            ready.enqueue(*place, *priority);
        }
        ready
    }

    #[test]
    fn equals_take_turns_run_by_run() {
        let mut ready = ready(&[(0, Priority::Normal), (1, Priority::Normal)]);
        assert_eq!(order(&mut ready, 7), [0, 0, 1, 1, 0, 0, 1]);
        ready.enqueue(0, Priority::Normal);
        let (place, level) = ready.current().expect("both are ready");
        assert_eq!(place, 1, "within its run");
        ready.leave(level);
        assert_eq!(order(&mut ready, 4), [0; 4]);
    }

    #[test]
    fn a_place_of_a_session_that_is_over_has_the_priority_of_the_next_one() {
        let mut ready = ready(&[(0, Priority::Background), (1, Priority::Background)]);
        assert_eq!(order(&mut ready, 1), [0]);
        ready.enqueue(0, Priority::Normal);
        assert_eq!(order(&mut ready, 32), [0; 32]);
        assert_eq!(order(&mut ready, 4), [1, 1, 0, 0]);
    }

    #[test]
    fn a_session_in_the_background_has_one_run_in_seventeen() {
        let mut ready = ready(&[(0, Priority::Background), (1, Priority::Normal)]);
        let order = order(&mut ready, 68);
        assert_eq!(order[..32], [1; 32]);
        assert_eq!(order[32..36], [0, 0, 1, 1]);
        assert_eq!(order.iter().filter(|place| **place == 0).count(), 4);
    }
}
