//! Receiver of a transfer's data: selective acknowledgements and time stamps.

use wellspring_core::{Duration, Time};

/// Blocks of an acknowledgement, at most: three, beside time stamps.
const BLOCKS: usize = 3;
/// Unit of time stamps.
const TICK: Duration = Duration::from_millis(1);

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// All before that packet is here.
    pub next: u64,
    /// What is here beyond it, the newest first: first packet, and the one behind the last.
    pub blocks: [(u64, u64); BLOCKS],
    /// The packet that came was here already.
    pub duplicate: Option<u64>,
    /// When the packet left whose time stamp is echoed: the first since the last acknowledgement that came in order (RFC 7323
    /// §4.3).
    pub echo: Time,
}

/// Where the data of a transfer arrives.
#[derive(Debug, Default)]
pub struct Receiver {
    next: u64,
    /// Ranges beyond, the one that grew last first.
    ranges: Vec<(u64, u64)>,
    /// In-order packets that are not acknowledged.
    waiting: u32,
    /// The next packet that the last acknowledgement asked for.
    asked: u64,
    /// The time stamp to echo.
    recent: Time,
}

impl Receiver {
    /// All packets before this one are here.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether an acknowledgement waits for a second packet.
    pub fn waits(&self) -> bool {
        self.waiting > 0
    }

    /// Takes in a packet that left then. Whether it is to be acknowledged at once: in order, every second one is.
    pub fn on_packet(&mut self, number: u64, sent: Time) -> Option<Ack> {
        let is_here = number < self.next
            || self.ranges.iter().any(|&(start, end)| (start..end).contains(&number));
        if (sent + TICK).is_before(self.recent) {
            // Its time stamp is of long ago: it counts as of an earlier round of the sequence numbers (RFC 7323 §5.3).
            return Some(self.ack((number < self.next).then_some(number)));
        }
        if number <= self.asked {
            self.recent = self.recent.later_of(sent);
        }
        if is_here {
            return Some(self.ack(Some(number)));
        }
        let (mut start, mut end) = (number, number + 1);
        self.ranges.retain(|&(a, b)| {
            let touches = b == start || a == end;
            if touches {
                (start, end) = (start.min(a), end.max(b));
            }
            !touches
        });
        if start == self.next {
            self.next = end;
            self.waiting += 1;
            let hurry = end - start > 1 || !self.ranges.is_empty() || self.waiting >= 2;
            return hurry.then(|| self.ack(None));
        }
        self.ranges.insert(0, (start, end));
        Some(self.ack(None))
    }

    /// An acknowledgement now, perhaps of a packet that was here already.
    pub fn ack(&mut self, duplicate: Option<u64>) -> Ack {
        (self.waiting, self.asked) = (0, self.next);
        let blocks = std::array::from_fn(|n| self.ranges.get(n).copied().unwrap_or((0, 0)));
        Ack { next: self.next, blocks, duplicate, echo: self.recent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn an_acknowledgement_echoes_the_first_packet_in_order_since_the_last_one() {
        let mut receiver = Receiver::default();
        assert!(receiver.on_packet(0, at(10)).is_none() && receiver.waits());
        let ack = receiver.on_packet(1, at(11)).expect("every second");
        assert_eq!((ack.next, ack.echo), (2, at(10)));
        // What comes out of order is not echoed; what fills the gap is.
        let ack = receiver.on_packet(3, at(13)).expect("a gap");
        assert_eq!((ack.next, ack.blocks[0], ack.echo), (2, (3, 4), at(10)));
        let ack = receiver.on_packet(2, at(99)).expect("the gap is filled");
        assert_eq!((ack.next, ack.duplicate, ack.echo), (4, None, at(99)));
        assert_eq!(receiver.on_packet(2, at(100)).expect("at once").duplicate, Some(2));
    }

    #[test]
    fn a_packet_that_left_long_before_what_came_in_order_is_not_taken() {
        let mut receiver = Receiver::default();
        receiver.on_packet(3, at(3));
        receiver.on_packet(0, at(99));
        let ack = receiver.on_packet(1, at(1)).expect("at once");
        assert_eq!((ack.next, ack.duplicate, ack.echo), (1, None, at(99)));
        assert_eq!(receiver.on_packet(1, at(99)).expect("a gap is left").next, 2);
    }
}
