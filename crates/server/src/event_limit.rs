//! Rate limit of events: strangers must not fill the operator's disk with what he is told.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use wellspring_wire::control::RefusalCode;

use super::ServerEvent;
use super::address_limit::MinuteCount;

/// What events that a stranger can bring about for a packet or two are limited to: one in so much
/// time, after so many at once.
const CHEAP: (Duration, u32) = (Duration::from_millis(100), 50);
/// The same for events of transfers, which take a proof of address and some round trips.
const DEAR: (Duration, u32) = (Duration::from_millis(1), 1_000);

/// Events of transfers of one address in a minute.
const OF_ADDRESS: usize = 1_200;
/// Other log lines that one address brings about in a minute.
const LINES_OF_ADDRESS: usize = 30;

/// Stands for a client of which it is not known who it is.
pub(super) const ANYBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// What events are counted by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Reason {
    Hashing,
    Transfer,
    Refused(RefusalCode),
}

/// A token bucket for each reason, and what addresses have had in this minute.
pub(super) struct EventLimit {
    buckets: Mutex<BTreeMap<Reason, Bucket>>,
    transfers: Mutex<MinuteCount>,
    lines: Mutex<(MinuteCount, u64)>,
}

struct Bucket {
    /// When the bucket is full again.
    full_at: Instant,
    /// Events not told since one was.
    suppressed: u64,
    /// Events not told.
    left_out: u64,
    /// Events so far, told or not.
    events: u64,
}

impl EventLimit {
    pub(super) fn new() -> Self {
        EventLimit {
            buckets: Mutex::default(),
            transfers: Mutex::default(),
            lines: Mutex::default(),
        }
    }

    /// Counts an event and says what to tell at that moment: nothing, the event, or first how many
    /// of its reason were left out.
    pub(super) fn pass(
        &self,
        event: &ServerEvent,
        code: Option<RefusalCode>,
        now: Instant,
    ) -> Option<Option<ServerEvent>> {
        let (reason, what, (interval, burst)) = match (event, code) {
            (_, Some(code)) => (Reason::Refused(code), format!("refused ({code})"), CHEAP),
            (ServerEvent::Hashing { .. }, _) => (Reason::Hashing, "hashing".to_owned(), CHEAP),
            _ => (Reason::Transfer, "of transfers".to_owned(), DEAR),
        };
        let is_beyond = reason == Reason::Transfer
            && event.client().is_some_and(|client| !self.is_within(client, now));
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Bucket { full_at: now, suppressed: 0, left_out: 0, events: 0 };
        let bucket = buckets.entry(reason).or_insert(new);
        bucket.events += 1;
        let full_at = bucket.full_at.max(now);
        if is_beyond || full_at.duration_since(now) > interval * (burst - 1) {
            (bucket.suppressed, bucket.left_out) = (bucket.suppressed + 1, bucket.left_out + 1);
            return None;
        }
        bucket.full_at = full_at + interval;
        let count = std::mem::take(&mut bucket.suppressed);
        Some((count > 0).then_some(ServerEvent::Suppressed { what, count }))
    }

    /// Whether an address may have one more event of transfers told in this minute.
    fn is_within(&self, client: SocketAddr, now: Instant) -> bool {
        let mut counts = self.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        counts.take("events", client, OF_ADDRESS, now).is_ok()
    }

    /// Whether a line that a client has brought about is logged; and how many were left out before, of all clients.
    pub(super) fn pass_line(&self, client: SocketAddr, now: Instant) -> Option<u64> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (counts, suppressed) = &mut *lines;
        match counts.take("lines", client, LINES_OF_ADDRESS, now) {
            Ok(()) => Some(std::mem::take(suppressed)),
            Err(_) => {
                *suppressed += 1;
                None
            }
        }
    }

    /// Events so far that were not told.
    pub(super) fn left_out(&self) -> u64 {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.values().map(|bucket| bucket.left_out).sum()
    }

    /// Refusals so far, by code, told or not.
    pub(super) fn refusals(&self) -> BTreeMap<RefusalCode, u64> {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = |(reason, bucket): (&Reason, &Bucket)| match reason {
            Reason::Refused(code) => Some((*code, bucket.events)),
            _ => None,
        };
        buckets.iter().filter_map(refused).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_of_in_numbers() {
        let limit = EventLimit::new();
        let event = ServerEvent::Refused {
            name: "x".to_owned(),
            client: "192.0.2.1:7".parse().expect("an address"),
            reason: String::new(),
        };
        let began = Instant::now();
        let (mut told, mut left_out) = (0, 0);
        let mut pass = |code, ms| {
            let passed = limit.pass(&event, Some(code), began + Duration::from_millis(ms));
            told += u64::from(passed.is_some());
            if let Some(Some(ServerEvent::Suppressed { count, .. })) = passed {
                left_out += count;
            }
            passed.is_some()
        };
        let lines = (0..10_000).filter(|i| pass(RefusalCode::NotFound, i / 10)).count();
        assert!((50..=61).contains(&lines), "{lines} lines in a second");
        assert!(pass(RefusalCode::NotFound, 60_000));
        assert!(pass(RefusalCode::NotFound, 60_000));
        assert_eq!(left_out + told, 10_002);
        assert_eq!(limit.left_out(), left_out);
        let busy = limit.pass(&event, Some(RefusalCode::Busy), began);
        assert!(matches!(busy, Some(None)), "another reason");
        assert_eq!(limit.refusals()[&RefusalCode::NotFound], 10_002);
    }

    #[test]
    fn one_address_does_not_fill_the_log_with_its_transfers_nor_with_other_lines() {
        let limit = EventLimit::new();
        let began = Instant::now();
        let client = |host: u8| SocketAddr::from(([192, 0, 2, host], 7));
        let sent = |host, ms| {
            let (name, reason) = ("x".to_owned(), String::new());
            let event = ServerEvent::SendFailed { name, client: client(host), reason };
            limit.pass(&event, None, began + Duration::from_millis(ms))
        };
        // A hundred a second.
        let told = (0..6_000).filter(|n| sent(1, n * 9).is_some()).count();
        assert_eq!(told, OF_ADDRESS);
        let Some(Some(ServerEvent::Suppressed { count, .. })) = sent(2, 54_000) else {
            panic!("another address has its own, and the rest is counted")
        };
        assert_eq!(count, 4_800);
        assert!(sent(1, 60_000).is_some(), "the next minute");
        let line = |host| limit.pass_line(client(host), began);
        assert_eq!((0..100).filter(|_| line(1).is_some()).count(), LINES_OF_ADDRESS);
        assert_eq!(line(2), Some(70));
    }
}
