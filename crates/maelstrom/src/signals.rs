//! Signals of congestion: packets that a full queue dropped and that stay lost, so that hosts learn of it.
//!
//! A host that has lost packets sends less from a round trip on, and the queue goes down during another. Whatever it loses
//! meanwhile tells it nothing new, and would make it send less a second time: so it is brought back. It is the same with
//! marks, to which hosts answer once a round trip (RFC 3168 §6.1.2). A retransmission says that a host has learnt of a loss,
//! whatever it was that nobody brought back.

use wellspring_core::{Duration, Time};

use crate::flow::Flow;

/// Flows that are known at most: one whose place another takes may be told twice.
const FLOWS: usize = 256;

/// When flows were last told of congestion.
#[derive(Debug)]
pub(crate) struct Signals {
    /// By the hash of a flow.
    told: Box<[Option<(u64, Time)>]>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Signals { told: vec![None; FLOWS].into() }
    }

    /// Whether the flow of a packet is to learn of congestion by its loss: it has not learnt of any within the time that it
    /// takes to answer. `retransmitted` says when the newest retransmission of a flow came.
    pub(crate) fn is_due(
        &mut self,
        now: Time,
        packet: &[u8],
        retransmitted: impl FnOnce(u64) -> Option<Time>,
        answered_in: Duration,
    ) -> bool {
        // What is in no flow is told each time.
        let Some(Flow { key, .. }) = Flow::of(packet) else { return true };
        let answers = |since: Time| now.is_before(since + answered_in);
        let told = &mut self.told[key as usize % FLOWS];
        if told.is_some_and(|(of, at)| of == key && answers(at))
            || retransmitted(key).is_some_and(answers)
        {
            return false;
        }
        *told = Some((key, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_is_told_once_in_the_time_of_an_answer() {
        let packet = |port: u8| {
            let mut bytes = vec![0x45; 40];
            bytes[6..8].fill(0);
            bytes[20..24].copy_from_slice(&[0, port, 0, 80]);
            bytes
        };
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let mut signals = Signals::new();
        let mut due = |ms, port| {
            let retransmitted = |flow| (flow == Flow::of(&packet(3))?.key).then_some(at(100));
            signals.is_due(at(ms), &packet(port), retransmitted, Duration::from_millis(200))
        };
        assert!(due(0, 1) && due(0, 2) && !due(1, 1) && !due(199, 1) && !due(199, 2));
        assert!(due(200, 1) && !due(399, 1) && due(400, 1));
        assert!(!due(100, 3) && !due(299, 3) && due(300, 3));
        let mut fragment = packet(1);
        fragment[6] = 0x20;
        assert!((0..3).all(|_| signals.is_due(
            at(400),
            &fragment,
            |_| None,
            Duration::from_secs(1)
        )));
    }
}
