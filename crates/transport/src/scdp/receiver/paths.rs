//! Further paths to the senders of a session: each a flow of its own, with a window, timers and losses of its own.
//!
//! A path that loses symbols takes fewer, one that is dead is probed like a silent sender while its host is heard by
//! another, and the symbols it was to bring are asked for elsewhere. So congestion on one path is not taken for
//! congestion on all.

use alloc::vec::Vec;
use wellspring_core::{HostId, Time};

use super::Receiver;
use super::flow::{Flow, Liveness};
use crate::scdp::{CommandError, Config, SenderStats};

/// Flows of a session, at most: senders and further paths to them.
const MAX_FLOWS: usize = 255;
/// The part of a flow's share for one of `n` paths is `n` to the power of minus this. 1 would do if every window met
/// loss events in proportion to its packets, but a queue that overflows drops packets of small windows less often than
/// once each: measured beside CUBIC in virtual time, at 2 to 50 ms.
const COUPLING: f64 = 1.4;

impl Receiver {
    /// Uses another path to a sender, or that path anew.
    pub(in crate::scdp) fn add_path(
        &mut self,
        now: Time,
        (sender, path): (HostId, u16),
        config: &Config,
    ) -> Result<(), CommandError> {
        if !self.blocks.is_directed() {
            return Err(CommandError::Invalid(
                "a session whose senders are not directed has one path",
            ));
        }
        let first = self.flow_by(sender, 0).ok_or(CommandError::NoSuchSender(sender))?;
        // What is agreed on before a sender is lost is to be agreed on again once it is back.
        if self.flows[first].liveness == Liveness::Lost {
            return Err(CommandError::Invalid("a path to a sender that is lost"));
        }
        let epoch = self.flows[first].epoch;
        if let Some(index) = self.flow_by(sender, path) {
            self.flows[index].renew(now, epoch, |lost| {
                if lost.counted {
                    self.blocks.give_back(lost.sbn, lost.esi);
                }
            });
            self.flows[index].rearm(config);
        } else if self.flows.len() >= MAX_FLOWS {
            let (got, limit) = (self.flows.len() as u64 + 1, MAX_FLOWS as u64);
            return Err(CommandError::OverLimit { what: "paths of a session", got, limit });
        } else {
            let mut flow = Flow::beside(&self.flows[first], now, path, config);
            if self.priority.is_background() {
                flow.yield_to_others();
            }
            flow.rearm(config);
            self.flows.push(flow);
        }
        self.couple_paths();
        Ok(())
    }

    /// The paths to a host that are in use share what one flow would take of a bottleneck, in case it is the same
    /// (as RFC 6356 requires of multipath TCP).
    pub(super) fn couple_paths(&mut self) {
        if self.flows.iter().all(|flow| flow.path == 0) {
            return;
        }
        for index in 0..self.flows.len() {
            let host = self.flows[index].host;
            let paths = self.flows.iter().filter(|f| f.host == host && f.is_controlled()).count();
            self.flows[index].set_part(part_of(paths));
        }
    }

    /// The flow of that path to a host.
    pub(super) fn flow_by(&self, host: HostId, path: u16) -> Option<usize> {
        self.flows.iter().position(|flow| flow.host == host && flow.path == path)
    }

    /// Every path to a sender.
    pub(in crate::scdp) fn paths(&self) -> impl Iterator<Item = (HostId, u16)> + '_ {
        self.flows.iter().map(|flow| (flow.host, flow.path))
    }

    /// A further path is there no more, until it is added again.
    pub(super) fn leave_path(&mut self, host: HostId, path: u16) {
        if let Some(index) = self.flow_by(host, path) {
            self.forget_credits(index);
            self.flows[index].liveness = Liveness::Lost;
            self.couple_paths();
        }
    }

    /// The further paths to a host are there no more.
    pub(super) fn leave_paths(&mut self, host: HostId) {
        for index in 0..self.flows.len() {
            let Flow { host: of, path, .. } = self.flows[index];
            if of == host && path > 0 {
                self.leave_path(host, path);
            }
        }
    }

    /// Whether the host of a flow was heard lately by another path, be that silent at the moment.
    pub(super) fn is_heard_elsewhere(&self, now: Time, index: usize) -> bool {
        let flow = &self.flows[index];
        self.flows.iter().any(|other| {
            let same_host = other.host == flow.host && other.path != flow.path;
            same_host && other.liveness != Liveness::Lost && other.is_heard(now)
        })
    }

    /// The account of each sender, over all paths to it.
    pub(super) fn sender_stats(&self, now: Time) -> Vec<SenderStats> {
        let first = self.flows.iter().filter(|flow| flow.path == 0);
        let mut senders: Vec<SenderStats> = first.map(|flow| flow.stats(now)).collect();
        for path in self.flows.iter().filter(|flow| flow.path > 0) {
            if let Some(sender) = senders.iter_mut().find(|sender| sender.host == path.host) {
                sender.add(&path.stats(now));
            }
        }
        senders
    }
}

/// The part of a flow's share that one of so many paths takes.
fn part_of(paths: usize) -> f64 {
    libm::pow(paths.max(1) as f64, -COUPLING)
}
