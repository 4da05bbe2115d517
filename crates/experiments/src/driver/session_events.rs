//! Session events, and their effect on requests.

use super::{Driver, Due, ENDLESS, Endless};
use crate::adapter::{ActionsOf, Adapter, SessionEvent, multicast_group};
use crate::record::{Arrival, Timeout};
use wellspring_core::{HostId, SessionId, Time};

/// The most timeouts that are kept.
const MAX_TIMEOUTS: usize = 1 << 20;

impl<A: Adapter> Driver<A> {
    /// Takes in an endpoint's event of a session.
    pub(super) fn on_session_event(
        &mut self,
        now: Time,
        host: u32,
        (id, event): (SessionId, SessionEvent),
        actions: &mut ActionsOf<A>,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let (place, to) = (session.operation, session.leg.to);
        let Some(operation) = self.operations.get_mut(place as usize) else { return };
        if !operation.endless.is_background() {
            self.heard_at = now;
        }
        match event {
            SessionEvent::Accepted => {
                if !operation.chain.is_empty() {
                    let next = operation.chain.remove(0);
                    let bytes = operation.record.bytes;
                    self.unicast(place, (to, next), bytes, actions);
                }
            }
            SessionEvent::Progress(bytes) => {
                operation.arrived = operation.arrived.saturating_add(bytes);
                let measured = now.as_secs_f64() >= operation.record.start;
                match operation.endless {
                    Endless::Flow | Endless::Timed(_) if measured => {
                        operation.record.bytes += bytes
                    }
                    _ => {}
                }
                if let Endless::Timed(_) = operation.endless {
                    let protocol = operation.record.protocol;
                    let (session, at) = (id.0, now.as_secs_f64());
                    self.timeline.push(Arrival { session, protocol, at, bytes });
                }
            }
            SessionEvent::TimedOut { window, in_flight } => {
                let at = now.as_secs_f64();
                if self.timeouts.len() < MAX_TIMEOUTS {
                    self.timeouts.push(Timeout { at, session: id.0, window, in_flight });
                }
            }
            SessionEvent::Received(account) => {
                let sum = &mut operation.record.account;
                sum.trimmed += account.trimmed;
                sum.redundant += account.redundant;
                sum.decoded_blocks += account.decoded_blocks;
                let (ends, more) = ((session.leg.from, to), operation.unasked.0 > 0);
                self.settle(now, id, &[host], actions);
                if more {
                    self.next_piece(place, ends, actions);
                }
            }
            SessionEvent::Failed(reason) if session.receivers.contains(&host) => {
                operation.fail(reason);
                self.settle(now, id, &[host], actions);
            }
            SessionEvent::Failed(reason) => {
                // A receiver goes on with the other senders.
                session.senders = session.senders.saturating_sub(1);
                if session.senders == 0 {
                    operation.fail(reason);
                    let receivers = session.receivers.clone();
                    self.settle(now, id, &receivers, actions);
                }
            }
            SessionEvent::LeavesGroup => {
                session.members.retain(|member| *member != host);
                let members: Vec<HostId> = session.members.iter().copied().map(HostId).collect();
                actions.remove_group(multicast_group(id));
                if !members.is_empty() {
                    actions.create_group(multicast_group(id), HostId(session.leg.from), members);
                }
            }
            SessionEvent::Lost(receiver, reason) => {
                // A single sender reports the same of itself.
                if session.group && session.receivers.contains(&receiver.0) {
                    operation.fail(reason);
                    self.settle(now, id, &[receiver.0], actions);
                }
            }
        }
    }

    /// Receivers of a session are done (or lost).
    fn settle(&mut self, now: Time, id: SessionId, receivers: &[u32], actions: &mut ActionsOf<A>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let before = session.receivers.len();
        session.receivers.retain(|receiver| !receivers.contains(receiver));
        let settled = (before - session.receivers.len()) as u32;
        let (place, group) = (session.operation, session.group);
        if session.receivers.is_empty() {
            self.sessions.remove(&id);
            if group {
                actions.remove_group(multicast_group(id));
            }
        }
        let Some(operation) = self.operations.get_mut(place as usize) else { return };
        operation.pending = operation.pending.saturating_sub(settled);
        let is_write = operation.record.kind == "write";
        let waits_for = if is_write { self.scenario.workload.not_waited_for() } else { 0 };
        if operation.pending > waits_for {
            return;
        }
        if operation.pending > 0 && operation.endless == Endless::No {
            // The rest goes on without an event.
            self.sessions.retain(|_, session| session.operation != place);
        }
        match operation.endless {
            Endless::No => self.finish(now, place),
            Endless::Timed(_) if operation.record.failed => self.finish(now, place),
            Endless::Timed(end) => {
                let (from, to) = (operation.record.host, operation.record.peer);
                operation.pending = 1;
                let session = self.unicast(place, (from, to), ENDLESS, actions);
                self.schedule(end, Due::Cancel(session));
            }
            Endless::Storage => {
                if now.as_secs_f64() >= operation.record.start {
                    operation.record.bytes += self.scenario.background.storage.map_or(0, |s| s.0);
                }
                self.storage_turn(place, actions);
            }
            Endless::Flow => {
                let (from, to) = (operation.record.host, operation.record.peer);
                operation.pending = 1;
                self.unicast(place, (from, to), ENDLESS, actions);
            }
        }
    }
}
