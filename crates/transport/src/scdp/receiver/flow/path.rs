//! A flow as one of several paths to a host.

use wellspring_core::Time;

use super::{Flow, Liveness, Settled, Window};
use crate::congestion::CongestionController;
use crate::scdp::Config;

/// Credits that may be in flight on another path to a host, at first (RFC 6928).
const NEW_PATH_WINDOW: u32 = 10;

impl Flow {
    /// Another path to the host of `first`, from which nothing was pushed: it may be used at once.
    pub(in crate::scdp::receiver) fn beside(
        first: &Flow,
        now: Time,
        path: u16,
        config: &Config,
    ) -> Self {
        let window = match first.window {
            Window::Fixed(window) => window,
            Window::Controlled(_) => NEW_PATH_WINDOW,
        };
        let mut flow = Flow::new(now, first.host, window, config);
        (flow.path, flow.peer_timeout) = (path, first.peer_timeout);
        (flow.epoch, flow.liveness) = (first.epoch, Liveness::Live);
        flow
    }

    /// A path is there again. If its sender numbers in another epoch, the credits in flight are given up; calls
    /// `for_each` with each.
    pub(in crate::scdp::receiver) fn renew(
        &mut self,
        now: Time,
        epoch: u8,
        for_each: impl FnMut(Settled),
    ) {
        if self.epoch != epoch {
            self.give_up(for_each);
            self.restart(now, epoch);
        }
        if self.liveness != Liveness::Suspect {
            self.liveness = Liveness::Live;
        }
    }

    /// Whether its window is a congestion controller's and in use.
    pub(in crate::scdp::receiver) fn is_controlled(&self) -> bool {
        self.liveness == Liveness::Live && matches!(self.window, Window::Controlled(_))
    }

    /// What others want of the path is left to them.
    pub(in crate::scdp::receiver) fn yield_to_others(&mut self) {
        if let Window::Controlled(controller) = &mut self.window {
            controller.yield_to_others();
        }
    }

    /// The path takes that part of the share of a bottleneck that is the host's.
    pub(in crate::scdp::receiver) fn set_part(&mut self, part: f64) {
        if let Window::Controlled(controller) = &mut self.window {
            controller.set_part(part);
        }
    }
}
