//! Acknowledgements at a sender.

use super::Sender;
use crate::tcp::config::{Config, Congestion};
use wellspring_core::Time;

/// What an ACK was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tcp) enum Ack {
    /// It acknowledges what was never sent.
    Impossible,
    /// It is older than others that came.
    Stale,
    /// Data was acknowledged, or the same again.
    Taken,
    /// Everything is acknowledged.
    Complete,
}

/// Duplicate ACKs that mean a loss (RFC 5681 §3.2).
const DUPLICATE_ACKS: u32 = 3;

impl Sender {
    /// An ACK of everything before `next`, with or without ECN-echo.
    pub fn on_ack(&mut self, now: Time, next: u64, echo: bool, config: &Config) -> Ack {
        if next > self.highest {
            return Ack::Impossible;
        }
        // A receiver that was reset, and opened anew by what came behind, says nothing else for ever.
        if next < self.unacknowledged {
            return Ack::Stale;
        }
        self.last_heard = now;
        let acked = next - self.unacknowledged;
        self.on_echo(next, acked, echo, config);
        if acked == 0 {
            if self.flight() > 0 {
                self.on_duplicate();
            }
            return Ack::Taken;
        }
        self.unacknowledged = next;
        self.next = self.next.max(next);
        // Were it the segment that a duplicate ACK wanted, it has come.
        self.repeat = false;
        self.timer.on_acked(now, next);
        if !self.recovering {
            self.on_new(acked, echo);
            self.timer.restart(now, config);
        } else if self.recover.is_some_and(|recover| next < recover) {
            self.on_partial(now, acked, config);
        } else {
            self.window.leave_recovery(self.flight());
            self.recovering = false;
            self.timer.restart(now, config);
        }
        (self.duplicate_acks, self.limited) = (0, 0);
        if self.flight() == 0 {
            self.timer.stop();
        }
        if next == self.total { Ack::Complete } else { Ack::Taken }
    }

    /// New data outside recovery. An ACK that says congestion does not open the window (RFC 3168
    /// §6.1.2).
    fn on_new(&mut self, acked: u64, echo: bool) {
        if !echo {
            self.window.on_acked(acked);
        }
    }

    /// RFC 8257 §3.3; while a loss is being recovered from, that has cut the window already.
    fn on_echo(&mut self, next: u64, acked: u64, echo: bool, config: &Config) {
        let Congestion::Dctcp { min_window, .. } = config.congestion else { return };
        let Some(alpha) = &mut self.alpha else { return };
        if let Some(part) = alpha.on_ack(next, acked, echo, self.highest)
            && !self.recovering
        {
            self.window.cut(part, min_window.max(1).into());
            self.stats.cuts += 1;
        }
    }

    /// The third duplicate ACK begins a recovery, unless it may be about segments that a recovery
    /// or a timeout before it sent again (RFC 6582 §3.2, step 2); in one, each sends a segment more.
    fn on_duplicate(&mut self) {
        if self.recovering {
            self.window.inflate();
            return;
        }
        self.duplicate_acks += 1;
        if self.duplicate_acks != DUPLICATE_ACKS
            || self.recover.is_some_and(|recover| self.unacknowledged <= recover)
        {
            return;
        }
        self.window.enter_recovery(self.flight() - self.limited.min(self.flight()));
        if let Some(alpha) = &mut self.alpha {
            alpha.on_loss(self.highest);
        }
        (self.recovering, self.partial, self.repeat) = (true, false, true);
        self.recover = Some(self.highest);
        self.stats.fast_retransmits += 1;
    }

    /// A partial ACK: the next hole is sent again at once (RFC 6582 §3.2, step 3). Only the first
    /// restarts the timer ("Impatient", §3.2).
    fn on_partial(&mut self, now: Time, acked: u64, config: &Config) {
        self.window.on_partial(acked);
        self.repeat = true;
        if !self.partial {
            self.partial = true;
            self.timer.restart(now, config);
        }
    }
}
