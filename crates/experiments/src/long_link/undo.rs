//! Undo of a reduction of the window: as Linux has it, only when nothing of the episode was lost.
//!
//! Either each packet that was sent again is reported to have come twice (RFC 3708); or what advances the acknowledgements
//! left before anything was sent again (Eifel, RFC 3522, by time stamps), and nothing that was sent again is under way. Such an
//! acknowledgement alone tells of one packet: others of the window may be lost all the same.

use wellspring_core::Time;

use super::control::Control;

/// What a recovery may have to take back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// The controller of before.
    pub control: Control,
    /// The first packet of the episode.
    from: u64,
    /// Packets sent again and not reported to have come twice; none before any was sent again.
    repeats: Option<u64>,
    first_repeat: Option<Time>,
}

impl Undo {
    /// At the beginning of an episode, while so many packets are under way that an earlier one has sent again.
    pub fn new(control: Control, from: u64, under_way: u64) -> Self {
        let repeats = Some(under_way).filter(|&repeats| repeats > 0);
        Undo { control, from, repeats, first_repeat: None }
    }

    /// A packet is sent again.
    pub fn on_repeat(&mut self, now: Time) {
        self.repeats = Some(self.repeats.unwrap_or(0) + 1);
        self.first_repeat.get_or_insert(now);
    }

    /// A packet is reported to have come twice.
    pub fn on_duplicate(&mut self, number: u64) {
        if let Some(repeats) = &mut self.repeats
            && number >= self.from
        {
            *repeats = repeats.saturating_sub(1);
        }
    }

    /// Whether all that was sent again had come.
    pub fn all_were_duplicates(&self) -> bool {
        self.repeats == Some(0)
    }

    /// Whether what has advanced the acknowledgements, and left then, left before anything was sent again.
    pub fn is_original(&self, left: Time) -> bool {
        self.first_repeat.is_none_or(|first| left.is_before(first))
    }
}
