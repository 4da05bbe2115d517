//! Choice of the next sender to pull from, and of the block and number of symbols.

use wellspring_core::{HostId, Time};
use wellspring_wire::scdp::Pull;

use super::Receiver;
use super::flow::Liveness;
use crate::scdp::{Config, Share};

/// A pull to send, and what it costs on the receiver's link.
pub(in crate::scdp) struct Grant {
    pub sender: HostId,
    /// The path to it.
    pub path: u16,
    pub pull: Pull,
    /// Symbols newly granted.
    pub symbols: u32,
}

impl Receiver {
    /// Whether a pull that asks for nothing is due.
    pub(in crate::scdp) fn owes_sign_of_life(&self) -> bool {
        !self.over && self.keepalive.is_some()
    }

    /// Whether a pull could be sent, pace permitting.
    pub(in crate::scdp) fn wants_pull(&self) -> bool {
        if self.over || self.keepalive.is_some() {
            return !self.over;
        }
        if self.blocks.is_streaming() {
            return self.flows.iter().any(|f| f.group && self.group_wants(f));
        }
        self.flows.iter().any(|f| f.spare() > 0) && self.blocks.wants()
    }

    /// The next pull: the next sender with room in its window is granted symbols of the lowest
    /// block that wants some of it, at most what the switches hold of a run.
    pub(in crate::scdp) fn next_pull(&mut self, now: Time, config: &Config) -> Option<Grant> {
        if self.over {
            return None;
        }
        if let Some(index) = self.keepalive.take() {
            if self.flows[index].group {
                return Some(self.group_pull(now, index, 0, config));
            }
            return Some(self.pull(now, index, self.blocks.floor(), 0));
        }
        if self.blocks.is_streaming() {
            return self.next_group_pull(now, config);
        }
        let flows = self.flows.len();
        let index =
            (0..flows).map(|i| (self.turn + i) % flows).find(|&i| self.flows[i].spare() > 0)?;
        if self.blocks.is_directed() {
            return self.directed_pull(now, index, config);
        }
        let share = Share { index: index as u8, count: self.shares };
        let may_come = |i: u8| {
            matches!(self.flows[usize::from(i)].liveness, Liveness::Live | Liveness::Awaited)
        };
        let Some((sbn, wanted)) = self.blocks.next_wanting(share, may_come) else {
            self.flows.iter_mut().for_each(|f| f.set_window_limited(false));
            return None;
        };
        self.turn = (index + 1) % flows;
        let flow = &mut self.flows[index];
        let symbols = wanted.min(flow.spare()).min(flow.run_limit());
        let counted = flow.is_trusted();
        flow.grant(now, (sbn, 0), symbols, counted);
        flow.set_window_limited(flow.spare() == 0);
        flow.rearm(config);
        self.blocks.ask(sbn, index as u8, symbols, counted);
        Some(self.pull(now, index, sbn, symbols))
    }

    /// The next pull for that sender, of several directed senders.
    fn directed_pull(&mut self, now: Time, index: usize, config: &Config) -> Option<Grant> {
        let flows = self.flows.len();
        let flow = &self.flows[index];
        let most = flow.spare().min(flow.run_limit());
        let Some((sbn, first, symbols)) = self.blocks.next_task(most) else {
            self.flows.iter_mut().for_each(|f| f.set_window_limited(false));
            return None;
        };
        self.turn = (index + 1) % flows;
        let flow = &mut self.flows[index];
        let counted = flow.is_trusted();
        flow.grant(now, (sbn, first), symbols, counted);
        flow.set_window_limited(flow.spare() == 0);
        flow.rearm(config);
        if counted {
            self.blocks.assign(sbn, first, symbols);
        }
        let mut grant = self.pull(now, index, sbn, symbols);
        grant.pull.first = Some(first);
        Some(grant)
    }

    /// Whether credits were granted for all that is to come, to the end of the object.
    pub(super) fn all_asked_for(&self, index: usize) -> bool {
        if !self.blocks.is_streaming() {
            return self.blocks.all_asked_for();
        }
        let in_flight = self.flows[index].in_flight();
        self.blocks.reaches_the_end() && self.blocks.outstanding(in_flight + 1) <= in_flight
    }

    pub(super) fn pull(&mut self, now: Time, index: usize, sbn: u32, symbols: u32) -> Grant {
        let fin = self.all_asked_for(index);
        let flow = &mut self.flows[index];
        flow.last_pull = now;
        let pull = Pull {
            sbn: sbn.min(self.object.source_blocks - 1),
            granted: flow.granted(),
            floor: self.blocks.floor(),
            run: symbols.clamp(1, u32::from(u16::MAX)) as u16,
            epoch: flow.epoch,
            fin,
            first: None,
        };
        Grant { sender: flow.host, path: flow.path, pull, symbols }
    }
}
