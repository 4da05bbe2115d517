//! Progress of a run: requests under way and left, and when it counts as stuck.

use super::{Driver, Endless, LOOKS_IN_PATIENCE, Operation};
use crate::adapter::Adapter;
use crate::record::{FlowRecord, Reason};
use std::collections::BTreeMap;
use wellspring_core::{SessionId, Time};

impl<A: Adapter> Driver<A> {
    /// Requests of the foreground under way that are to end, and the first of their sessions.
    fn under_way(&self) -> impl Iterator<Item = (SessionId, &Operation)> {
        let mut sessions: BTreeMap<u32, SessionId> = BTreeMap::new();
        for (session, entry) in &self.sessions {
            sessions.entry(entry.operation).or_insert(*session);
        }
        sessions.into_iter().filter_map(|(place, session)| {
            let operation = self.operations.get(place as usize)?;
            (operation.endless == Endless::No).then_some((session, operation))
        })
    }

    /// How much of the requests under way has arrived, in requests.
    pub fn parts(&self) -> f64 {
        let open = self.operations.iter().filter(|(_, o)| o.endless == Endless::No);
        open.map(|(_, o)| (o.arrived as f64 / o.expected().max(1) as f64).min(1.0)).sum()
    }

    /// Requests under way, oldest first and a line each, to be shown when a run is stuck; and the
    /// session and both ends of the oldest.
    pub fn stuck(&self) -> (Vec<String>, Option<(SessionId, [u32; 2])>) {
        let mut open: Vec<_> = self.under_way().collect();
        open.sort_by(|(_, a), (_, b)| a.record.start.total_cmp(&b.record.start));
        let line = |(session, operation): &(SessionId, &Operation)| {
            let FlowRecord { kind, protocol, host, peer, start, .. } = &operation.record;
            let protocol = protocol.as_str();
            let (all, arrived) = (operation.expected(), operation.arrived);
            format!(
                "{kind} {host} - {peer} over {protocol}, session {}, since {start:.6} s: {} of {all} bytes left, at {} \
                 of {} receivers",
                session.0,
                all.saturating_sub(arrived),
                operation.pending,
                operation.receivers,
            )
        };
        let ends = open.first().map(|(session, o)| (*session, [o.record.host, o.record.peer]));
        (open.iter().map(line).collect(), ends)
    }

    /// Until when the requests under way, or the next where there are none, may be silent before
    /// they count as stuck; `None` if there is no next.
    pub fn patient_until(&self) -> Option<Time> {
        let patience = self.scenario.run.patience.0;
        let since = if self.open_requests > 0 { Some(self.heard_at) } else { self.next_due() };
        since.map(|since| since + patience + patience / LOOKS_IN_PATIENCE)
    }

    /// Requests not made yet.
    pub fn not_made(&self) -> u32 {
        self.outstanding - self.open_requests
    }

    /// Of these, those that would have been made over the TCP beside the scenario's protocol.
    pub fn not_made_beside(&self) -> u32 {
        self.beside_among(self.made, self.not_made())
    }

    /// Moves what still runs into the records: endless flows end now, requests for `reason`.
    pub fn close(&mut self, now: Time, reason: Reason) {
        for operation in self.operations.drain() {
            let mut record = operation.record;
            match operation.endless {
                Endless::No => record.reason = record.reason.or(Some(reason)),
                _ => record.end = Some(now.as_secs_f64()),
            }
            self.records.push(record);
        }
    }
}
