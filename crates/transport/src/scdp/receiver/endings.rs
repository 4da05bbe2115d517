//! Silences, losses of senders, their return, and the end of a session that fails.

use wellspring_core::{Duration, HostId, Time};
use wellspring_wire::scdp::CloseReason;

use super::Receiver;
use super::flow::{Flow, Liveness};
use crate::scdp::context::Context;
use crate::scdp::{Config, Event, FailReason};

impl Receiver {
    pub(super) fn fail(&mut self, cx: &mut Context<'_>, reason: FailReason) {
        if !self.over {
            self.over = true;
            cx.events.push_back(Event::Failed { session: self.session, reason });
        }
    }

    /// A sender closed the session.
    pub(in crate::scdp) fn on_close(
        &mut self,
        cx: &mut Context<'_>,
        (source, path): (HostId, u16),
        reason: CloseReason,
    ) {
        if path > 0 && reason == CloseReason::UnknownSession {
            // The sender knows nothing of that path (any more).
            return self.leave_path(source, path);
        }
        let Some(index) = self.flow_by(source, 0) else { return };
        // A sender not heard from yet may not know the session yet.
        if matches!(self.flows[index].liveness, Liveness::Lost | Liveness::Awaited)
            && reason == CloseReason::UnknownSession
        {
            return;
        }
        self.forget_credits(index);
        self.lose_sender(cx, index, Some(reason));
    }

    pub(super) fn lose_sender(
        &mut self,
        cx: &mut Context<'_>,
        index: usize,
        reason: Option<CloseReason>,
    ) {
        let (session, sender) = (self.session, self.flows[index].host);
        self.leave_paths(sender);
        let was_lost = self.flows[index].liveness == Liveness::Lost;
        self.flows[index].liveness = Liveness::Lost;
        cx.events.push_back(Event::SenderLost { session, sender, reason });
        if !self.has_lost_all() {
            return;
        }
        match (reason, self.grace) {
            // Not put off by who closes again and again.
            (Some(_), Some(_)) if was_lost && self.abandoned.is_some() => {}
            (Some(reason), Some(grace)) => {
                self.abandoned = Some((cx.now + grace, FailReason::Closed(reason)));
            }
            _ => self.fail(cx, reason.map_or(FailReason::PeersLost, FailReason::Closed)),
        }
    }

    /// A flow was silent for too long. A further path is one path less, if the sender is not lost already.
    fn lose_flow(&mut self, cx: &mut Context<'_>, index: usize) {
        let Flow { host, path, .. } = self.flows[index];
        let first = self.flow_by(host, 0).map(|first| self.flows[first].liveness);
        if path > 0 && first.is_some_and(|liveness| liveness != Liveness::Lost) {
            self.leave_path(host, path);
        } else {
            self.lose_sender(cx, index, None);
        }
    }

    fn has_lost_all(&self) -> bool {
        self.flows.iter().all(|f| f.liveness == Liveness::Lost)
    }

    /// Gives up all credits of a flow, without calling it loss.
    pub(super) fn forget_credits(&mut self, index: usize) {
        let blocks = &mut self.blocks;
        self.flows[index].give_up(|lost| {
            if lost.counted {
                blocks.give_back(lost.sbn, lost.esi);
            }
        });
    }

    /// A sender given up for lost is back in a new epoch. False if it is no sender of this
    /// session.
    pub(in crate::scdp) fn on_sender_back(
        &mut self,
        now: Time,
        sender: HostId,
        epoch: u8,
        config: &Config,
    ) -> bool {
        let Some(index) = self.flow_by(sender, 0) else { return false };
        if epoch <= self.flows[index].epoch {
            // Its symbols were here first. Granting anew from 1 would stall it: it believes the highest
            // number that was granted, and waits for higher ones.
            return true;
        }
        self.leave_paths(sender);
        self.forget_credits(index);
        self.blocks.forget_share(index as u8);
        self.blocks.restart_stream();
        self.flows[index].restart(now, epoch);
        self.flows[index].rearm(config);
        true
    }

    /// Acts on deadlines of the flows.
    pub(in crate::scdp) fn on_timeout(&mut self, cx: &mut Context<'_>) {
        if let Some((at, reason)) = self.abandoned
            && cx.now.has_reached(at)
        {
            self.abandoned = None;
            // Not if one is back.
            if self.has_lost_all() {
                self.fail(cx, reason);
            }
        }
        for index in 0..self.flows.len() {
            let before = self.flows[index].liveness;
            let blocks = &mut self.blocks;
            self.flows[index].on_time(cx.now);
            if let Some(oldest) = self.flows[index].probe(cx.now, cx.config) {
                blocks.give_back(oldest.sbn, oldest.esi);
            }
            let in_group = self.flows[index].group;
            if in_group && self.flows[index].owes_probe() && self.wants_no_more(index) {
                // The last pull may be lost.
                self.keepalive = Some(index);
            }
            let spared = self.is_heard_elsewhere(cx.now, index);
            let blocks = &mut self.blocks;
            let silent = self.flows[index].on_deadline(cx.now, cx.config, spared, |lost| {
                // Of several senders another one sends what a silent one was directed to.
                let elsewhere = lost.silent && blocks.is_directed();
                if lost.counted && elsewhere {
                    blocks.give_back(lost.sbn, lost.esi);
                } else if lost.counted {
                    blocks.settle(lost.sbn);
                }
                if !in_group && !elsewhere {
                    blocks.note_loss(lost.sbn);
                }
            });
            self.resolve_stream(index);
            if silent {
                self.blocks.doubt_stream();
            }
            if before != self.flows[index].liveness {
                self.couple_paths();
            }
            let flow = &self.flows[index];
            if flow.liveness == Liveness::Lost && before != Liveness::Lost {
                self.lose_flow(cx, index);
            } else if flow.liveness == Liveness::Live
                && cx.now.has_reached(flow.last_pull + self.sign_of_life(flow))
            {
                self.flows[index].last_pull = cx.now;
                self.keepalive = Some(index);
            }
        }
        self.check_exhausted(cx);
    }

    /// A group whose symbols hardly ever arrive ends here, instead of asking for what no pull can
    /// say.
    pub(super) fn check_exhausted(&mut self, cx: &mut Context<'_>) {
        if self.blocks.is_exhausted() {
            self.fail(cx, FailReason::Exhausted);
        }
    }

    /// When `on_timeout` is due.
    pub(in crate::scdp) fn deadline(&self) -> Option<Time> {
        if self.over {
            return None;
        }
        let flows = self.flows.iter().flat_map(|f| {
            let alive = (f.liveness == Liveness::Live).then(|| f.last_pull + self.sign_of_life(f));
            // The pace matters only to who has something to ask for.
            let paced = f.paced_until().filter(|_| self.blocks.wants() || f.group);
            f.deadline().into_iter().chain(alive).chain(paced)
        });
        Time::earliest(flows.chain(self.abandoned.map(|(at, _)| at)))
    }

    /// How long nothing may be asked of a sender before it gets a sign of life. A group's sender goes on without
    /// those that it takes for gone.
    fn sign_of_life(&self, flow: &Flow) -> Duration {
        if flow.group {
            self.keepalive_interval.min(self.group_keepalive)
        } else {
            self.keepalive_interval
        }
    }
}
