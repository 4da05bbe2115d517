//! The receiving side of a transfer.

use super::config::Config;
use super::header::TcpHeader;
use super::ranges::{Inserted, Ranges};
use wellspring_core::{DropReason, Time};

/// The account of a transfer at its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiveStats {
    /// Bytes received, each once.
    pub bytes: u64,
    /// Segments that brought nothing new.
    pub duplicates: u64,
    /// Segments that came marked.
    pub marked: u64,
}

/// What a segment calls for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Answer {
    /// An ACK that was put off, as it would have been before this segment (RFC 8257 §3.2).
    pub before: Option<TcpHeader>,
    /// An ACK.
    pub ack: Option<TcpHeader>,
    /// Why it is of no use, if so.
    pub drop: Option<DropReason>,
    /// Bytes after which progress is reported.
    pub progress: Option<u64>,
    /// The transfer is complete by it.
    pub complete: bool,
}

/// A transfer at its receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    total: u64,
    ranges: Ranges,
    /// DCTCP.CE: whether the last segment came marked.
    congested: bool,
    /// Segments since the last ACK.
    unanswered: u32,
    /// When an ACK is due at the latest.
    ack_due: Option<Time>,
    reported: u64,
    pub done: bool,
    last_arrival: Time,
    pub stats: ReceiveStats,
}

impl Receiver {
    /// A receiver opened by a segment, and when it is first due.
    pub fn new(now: Time, total: u64, config: &Config) -> (Receiver, Time) {
        let receiver = Receiver {
            total,
            ranges: Ranges::default(),
            congested: false,
            unanswered: 0,
            ack_due: None,
            reported: 0,
            done: false,
            last_arrival: now,
            stats: ReceiveStats::default(),
        };
        let due = receiver.deadline(config);
        (receiver, due)
    }

    /// The most ranges kept beyond a hole: as if every other segment of the window were lost.
    fn most_ranges(config: &Config) -> usize {
        let most = config.receive_window / (2 * config.segment());
        most.clamp(16, 1 << 14) as usize
    }

    fn ack(&self) -> TcpHeader {
        TcpHeader::Ack { next: self.ranges.next(), echo: self.congested }
    }

    /// Takes a segment in; `None` if it contradicts the transfer.
    pub fn on_segment(
        &mut self,
        now: Time,
        (offset, len, total): (u64, u16, u64),
        marked: bool,
        config: &Config,
    ) -> Option<Answer> {
        let end = offset.checked_add(len.into()).filter(|end| *end <= self.total)?;
        if total != self.total || len == 0 {
            return None;
        }
        self.last_arrival = now;
        let mut answer = Answer { before: self.note_mark(marked), ..Answer::default() };
        let (was_hole, before) = (self.ranges.has_hole(), self.ranges.next());
        let fits = end - before.min(end) <= config.receive_window;
        let inserted = match fits {
            true => self.ranges.insert(offset, end, Self::most_ranges(config)),
            false => Inserted::TooMany,
        };
        match inserted {
            Inserted::Duplicate => {
                self.stats.duplicates += 1;
                answer.drop = Some(DropReason::Duplicate);
            }
            Inserted::TooMany => answer.drop = Some(DropReason::OverLimit),
            Inserted::New(bytes) => self.stats.bytes += bytes,
        }
        answer.complete = !self.done && self.ranges.next() == self.total;
        self.done |= answer.complete;
        answer.progress = self.progress(config);
        // What is out of order, fills a hole or was there is answered at once (RFC 5681 §4.2).
        let in_order = matches!(inserted, Inserted::New(_)) && !was_hole && !self.ranges.has_hole();
        answer.ack = self.ack_or_wait(now, in_order && !self.done, config);
        Some(answer)
    }

    /// Follows RFC 8257 §3.2: when marks begin or end, an ACK that was put off is sent as it stood.
    fn note_mark(&mut self, marked: bool) -> Option<TcpHeader> {
        self.stats.marked += u64::from(marked);
        let before = (marked != self.congested && self.unanswered > 0).then(|| self.ack());
        if before.is_some() {
            (self.unanswered, self.ack_due) = (0, None);
        }
        self.congested = marked;
        before
    }

    fn progress(&mut self, config: &Config) -> Option<u64> {
        let bytes = self.stats.bytes - self.reported;
        let due = config.progress_every > 0 && bytes >= config.progress_every;
        due.then(|| {
            self.reported += bytes;
            bytes
        })
    }

    /// An ACK at once, or by a delay where that is configured and may be (RFC 5681 §4.2).
    fn ack_or_wait(&mut self, now: Time, may_wait: bool, config: &Config) -> Option<TcpHeader> {
        self.unanswered += 1;
        match config.delayed_ack {
            Some(delay) if may_wait && self.unanswered < 2 => {
                self.ack_due = Some(now + delay);
                None
            }
            _ => Some(self.answer_now()),
        }
    }

    fn answer_now(&mut self) -> TcpHeader {
        (self.unanswered, self.ack_due) = (0, None);
        self.ack()
    }

    /// The ACK that was put off, if its time has come.
    pub fn overdue(&mut self, now: Time) -> Option<TcpHeader> {
        self.ack_due.filter(|due| now.has_reached(*due)).map(|_| self.answer_now())
    }

    /// When an ACK is due, or the transfer to be forgotten.
    pub fn deadline(&self, config: &Config) -> Time {
        let forget = self.forgotten_at(config);
        self.ack_due.map_or(forget, |due| due.earlier_of(forget))
    }

    /// When the transfer is forgotten: a finished one outlives its sender's patience, so that no
    /// late segment opens it anew.
    pub fn forgotten_at(&self, config: &Config) -> Time {
        self.last_arrival + config.peer_timeout * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Congestion;
    use wellspring_core::{Duration, HostId, Seed};

    const TOTAL: u64 = 10_000;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn config(delay: Option<u64>) -> Config {
        let mut config = Config::new(HostId(1), Congestion::DCTCP, Seed(1));
        config.segment_size = 1_000;
        config.delayed_ack = delay.map(Duration::from_millis);
        config
    }

    fn receiver() -> Receiver {
        Receiver::new(Time::ZERO, TOTAL, &config(None)).0
    }

    fn ack(segments: u64, echo: bool) -> Option<TcpHeader> {
        Some(TcpHeader::Ack { next: segments * 1_000, echo })
    }

    fn segment(number: u64) -> (u64, u16, u64) {
        (number * 1_000, 1_000, TOTAL)
    }

    #[test]
    fn every_second_segment_is_acknowledged_or_one_after_the_delay() {
        let (mut receiver, config) = (receiver(), config(Some(40)));
        let mut take = |millis, number| {
            receiver.on_segment(at(millis), segment(number), false, &config).unwrap().ack
        };
        assert_eq!([take(0, 0), take(1, 1), take(2, 2)], [None, ack(2, false), None]);
        assert_eq!(receiver.deadline(&config), at(42));
        assert_eq!(receiver.overdue(at(41)), None);
        assert_eq!(receiver.overdue(at(42)), ack(3, false));
        assert_eq!(receiver.overdue(at(43)), None);
    }

    #[test]
    fn disorder_holes_filled_duplicates_and_the_end_are_acknowledged_at_once() {
        let (mut receiver, config) = (receiver(), config(Some(40)));
        let mut take = |number| {
            let answer = receiver.on_segment(at(0), segment(number), false, &config).unwrap();
            (answer.ack, answer.drop, answer.complete)
        };
        assert_eq!(take(1), (ack(0, false), None, false));
        assert_eq!(take(0), (ack(2, false), None, false));
        assert_eq!(take(0), (ack(2, false), Some(DropReason::Duplicate), false));
        for number in [2, 4, 6, 8] {
            take(number);
        }
        for number in [3, 5, 7] {
            assert_eq!(take(number).0, ack(number + 2, false));
        }
        assert_eq!(take(9), (ack(10, false), None, true));
        assert_eq!(take(9), (ack(10, false), Some(DropReason::Duplicate), false));
        assert_eq!(receiver.stats.bytes, TOTAL);
    }

    /// RFC 8257 §3.2: where marks begin or end within a delayed ACK, each part is answered with its
    /// own echo, so that the sender counts marked bytes.
    #[test]
    fn an_ack_put_off_goes_out_when_marks_begin_or_end() {
        let (mut receiver, config) = (receiver(), config(Some(40)));
        let mut take = |number, marked| {
            let answer = receiver.on_segment(at(0), segment(number), marked, &config).unwrap();
            (answer.before, answer.ack)
        };
        assert_eq!(take(0, false), (None, None));
        assert_eq!(take(1, true), (ack(1, false), None));
        assert_eq!(take(2, true), (None, ack(3, true)));
        assert_eq!(take(3, false), (None, None), "nothing was put off");
        assert_eq!(take(4, false), (None, ack(5, false)));
    }

    #[test]
    fn what_contradicts_the_transfer_or_its_window_is_not_taken() {
        let (mut receiver, mut config) = (receiver(), config(None));
        config.receive_window = 4_000;
        for (offset, len, total) in [(9_500, 1_000, TOTAL), (0, 0, TOTAL), (0, 100, TOTAL + 1)] {
            assert_eq!(receiver.on_segment(at(0), (offset, len, total), false, &config), None);
        }
        assert_eq!(receiver.on_segment(at(0), (u64::MAX, 9, TOTAL), false, &config), None);
        let beyond = receiver.on_segment(at(0), segment(4), false, &config).unwrap();
        assert_eq!((beyond.ack, beyond.drop), (ack(0, false), Some(DropReason::OverLimit)));
        assert_eq!(receiver.stats.bytes, 0);
    }
}
