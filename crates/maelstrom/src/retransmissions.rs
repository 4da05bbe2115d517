//! Retransmissions of TCP among the packets that arrive.
//!
//! Of each flow the highest sequence number is known, and what it was half a round trip ago. What comes below the
//! first may be a retransmission, or have been overtaken. What comes below the second is one: no path puts packets in
//! another order by so much, and no host retransmits sooner. A flow that loses its place to another begins anew when it is seen again.

use wellspring_core::{Duration, Time};

use crate::segment::Segment;

/// Flows that are known at most.
const FLOWS: usize = 1_024;
/// A stamp says nothing of what comes back so long after it.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Segments of a connection are no further apart \[bytes\]: 1 Gbit/s for 134 ms. A receiver believes the time stamp of what
/// lies in its window, so strangers who must guess its place are not to be believed here from further away.
const WINDOW: u32 = 1 << 24;

/// A sequence number, and when it was the highest.
type Mark = (u32, Time);

/// What is known of a flow, one way.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    /// The hash of its addresses and ports.
    key: u64,
    /// The highest sequence number of its data.
    highest: u32,
    /// The newest stamp of what came below that, and when it came.
    stamp: Option<(u32, Time)>,
    /// Highest sequence numbers of before, half a round trip apart at least.
    before: [Mark; 2],
    /// When the newest retransmission came.
    retransmitted: Option<Time>,
}

/// Flows whose data passes.
#[derive(Debug)]
pub(crate) struct Retransmissions(Box<[Known]>);

impl Retransmissions {
    pub(crate) fn new() -> Self {
        Retransmissions(vec![Known::default(); FLOWS].into())
    }

    /// A segment has arrived by itself, over a path of that round trip, if it is known.
    pub(crate) fn on_arrival(
        &mut self,
        now: Time,
        segment: &Segment,
        round_trip: Option<Duration>,
    ) {
        let Some(flow) = self.note(now, segment) else { return };
        let Some(half) = round_trip.map(|round_trip| round_trip / 2) else { return };
        let [older, newer] = flow.before;
        if now.has_reached(older.1 + half) && !is_before(older.0, segment.sequence) {
            flow.retransmitted = Some(now);
        } else if flow.highest == segment.sequence && now.has_reached(newer.1 + half) {
            flow.before = [newer, (segment.sequence, now)];
        }
    }

    /// A segment was brought back; it may be a retransmission itself.
    pub(crate) fn on_recovered(&mut self, now: Time, segment: &Segment) {
        self.note(now, segment);
    }

    /// The newest stamp of a flow's retransmissions, unless that is of long ago.
    pub(crate) fn newest_stamp(&self, now: Time, segment: &Segment) -> Option<u32> {
        let fresh = |&(_, at): &(u32, Time)| (at + REMEMBERED).is_after(now);
        self.known(segment.flow.key)?.stamp.filter(fresh).map(|(stamp, _)| stamp)
    }

    /// When the newest retransmission of a flow came.
    pub(crate) fn newest_of(&self, flow: u64) -> Option<Time> {
        self.known(flow)?.retransmitted
    }

    fn known(&self, flow: u64) -> Option<&Known> {
        Some(&self.0[place_of(flow)]).filter(|known| known.key == flow)
    }

    /// What is known of the segment's flow, if it is no new one.
    fn note(&mut self, now: Time, segment: &Segment) -> Option<&mut Known> {
        let &Segment { flow, sequence, stamp } = segment;
        let known = &mut self.0[place_of(flow.key)];
        let above = sequence.wrapping_sub(known.highest) as i32;
        // What is further away is of a new connection, or a stranger's.
        if known.key != flow.key || above.unsigned_abs() > WINDOW {
            let before = [(sequence, now); 2];
            *known = Known { key: flow.key, highest: sequence, before, ..Known::default() };
            return None;
        }
        if above > 0 {
            known.highest = sequence;
        } else if let Some(stamp) = stamp {
            let fresh = known.stamp.filter(|&(_, at)| (at + REMEMBERED).is_after(now));
            if fresh.is_none_or(|(newest, _)| is_before(newest, stamp.value)) {
                known.stamp = Some((stamp.value, now));
            }
        }
        Some(known)
    }
}

fn place_of(flow: u64) -> usize {
    flow as usize % FLOWS
}

/// Whether the first of two numbers that wrap is before the second.
pub(crate) fn is_before(first: u32, second: u32) -> bool {
    (first.wrapping_sub(second) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;

    const ROUND_TRIP: Option<Duration> = Some(Duration::from_millis(100));

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn segment(key: u64, sequence: u32) -> Segment {
        Segment { flow: Flow { key, segment_at: 20 }, sequence, stamp: None }
    }

    /// A flow that sends a packet a millisecond for a second, from that number on.
    fn steady(first: u32) -> Retransmissions {
        let mut seen = Retransmissions::new();
        for n in 0..1_000 {
            seen.on_arrival(at(n), &segment(7, first.wrapping_add(n as u32 * 1_000)), ROUND_TRIP);
        }
        seen
    }

    #[test]
    fn what_is_half_a_round_trip_behind_is_a_retransmission() {
        for first in [0, 0u32.wrapping_sub(500_000)] {
            let mut seen = steady(first);
            assert_eq!(seen.newest_of(7), None, "nothing was");
            let mut arrives = |now, n: u32, flow| {
                let segment = segment(flow, first.wrapping_add(n * 1_000));
                seen.on_arrival(at(now), &segment, ROUND_TRIP);
                seen.newest_of(7)
            };
            // The path puts packets in another order, by up to half a round trip.
            for overtaken in 951..999 {
                assert_eq!(arrives(1_000, overtaken, 7), None, "{overtaken}");
            }
            assert_eq!(arrives(1_000, 899, 7), Some(at(1_000)));
            assert_eq!(arrives(1_001, 1_001, 7), Some(at(1_000)), "what is new is none");
            assert_eq!(arrives(1_002, 500, 7), Some(at(1_002)));
            assert_eq!(arrives(1_003, 500, 8), Some(at(1_002)), "of another flow");
        }
    }

    #[test]
    fn what_is_brought_back_is_no_retransmission() {
        let mut seen = steady(0);
        seen.on_recovered(at(1_000), &segment(7, 500_000));
        assert_eq!(seen.newest_of(7), None);
    }

    #[test]
    fn nothing_is_known_without_a_round_trip_nor_of_a_stranger_far_away() {
        let mut seen = steady(0);
        seen.on_arrival(at(1_000), &segment(7, 500_000), None);
        assert_eq!(seen.newest_of(7), None);
        for far in [2 * WINDOW, 0u32.wrapping_sub(2 * WINDOW)] {
            let mut seen = steady(0);
            seen.on_arrival(at(1_000), &segment(7, far), ROUND_TRIP);
            seen.on_arrival(at(1_001), &segment(7, far.wrapping_sub(1)), ROUND_TRIP);
            assert_eq!(seen.newest_of(7), None, "{far}");
        }
    }
}
