//! Digests: names of packets for which no repair is made, so that their loss is seen all the same.
//!
//! While the code is off the send side names the packets that leave, four bytes each, and the receive
//! side looks which of them have arrived. That costs less than a hundredth of a full link's bytes, and
//! the first losses are known a few milliseconds after they should have arrived. Where packets are
//! small or few, runs of them go without a digest, so that the cost stays within its budget.

use std::collections::VecDeque;

use wellspring_codec::interleave::PacketName;
use wellspring_core::{Duration, Time};

use crate::auth::{HEADER_LEN, TAG_LEN};
use crate::wire::SHORT_NAME_LEN;

/// Packets in a digest, at most.
const MOST: usize = 64;
/// How long a packet waits for its digest, if the budget allows.
const DELAY: Duration = Duration::from_millis(5);
/// How long it waits at most: so often there is a digest while packets leave, whatever it costs.
const LONGEST_DELAY: Duration = Duration::from_millis(50);
/// Bytes of packets for each byte of digests.
const BUDGET: u64 = 128;
/// What a digest has besides names, with headers of IP and UDP \[bytes\].
const OVERHEAD: u64 = (28 + HEADER_LEN + TAG_LEN) as u64;

/// What a digest costs on the link \[bytes\].
fn cost(names: usize) -> u64 {
    OVERHEAD + (names * SHORT_NAME_LEN) as u64
}

/// Collects the names of packets that leave.
#[derive(Debug, Default)]
pub(crate) struct Digester {
    names: Vec<PacketName>,
    /// Number of the first of them, counting those that were or will be in a digest.
    first: u32,
    /// When the first of them left.
    since: Time,
    last_sent: Option<Time>,
    /// Bytes that may be spent, times [`BUDGET`].
    credit: u64,
}

impl Digester {
    /// A packet leaves. Whether a digest is to be sent now.
    pub(crate) fn add(&mut self, now: Time, name: PacketName, len: usize) -> bool {
        if self.names.is_empty() {
            self.since = now;
        }
        self.names.push(name);
        self.credit = (self.credit + len as u64).min(4 * BUDGET * cost(MOST));
        if self.names.len() < MOST {
            return false;
        }
        if self.affordable() || self.overdue(now) {
            return true;
        }
        self.names.clear();
        false
    }

    /// When [`Digester::due`] may be true.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let first = *self.names.first().map(|_| &self.since)?;
        Some(first + if self.affordable() { DELAY } else { LONGEST_DELAY })
    }

    /// Whether a digest is to be sent after a pause.
    pub(crate) fn due(&self, now: Time) -> bool {
        self.poll_timeout().is_some_and(|at| now.has_reached(at))
    }

    /// Hands out what a digest has: the number of the first packet, and all their names.
    pub(crate) fn take(&mut self, now: Time, emit: impl FnOnce(u32, &[PacketName])) {
        if self.names.is_empty() {
            return;
        }
        emit(self.first, &self.names);
        self.first = self.first.wrapping_add(self.names.len() as u32);
        self.credit = self.credit.saturating_sub(BUDGET * cost(self.names.len()));
        self.last_sent = Some(now);
        self.names.clear();
    }

    fn affordable(&self) -> bool {
        self.credit >= BUDGET * cost(self.names.len())
    }

    fn overdue(&self, now: Time) -> bool {
        self.last_sent.is_none_or(|sent| now.has_reached(sent + LONGEST_DELAY))
    }
}

/// Places of a bucket.
const WAYS: usize = 4;
/// Buckets of [`Arrivals`], a power of two: thousands of packets may come between one and its digest.
const BUCKETS: usize = 1 << 12;

/// Short names of the packets that arrived last.
#[derive(Debug)]
struct Arrivals {
    /// The newest first; an empty place has another bucket's name.
    buckets: Vec<[u32; WAYS]>,
}

impl Arrivals {
    fn new() -> Self {
        let empty = |bucket: usize| [(bucket as u32).wrapping_add(1); WAYS];
        Arrivals { buckets: (0..BUCKETS).map(empty).collect() }
    }

    fn bucket(name: u32) -> usize {
        name as usize & (BUCKETS - 1)
    }

    fn add(&mut self, name: u32) {
        let bucket = &mut self.buckets[Self::bucket(name)];
        bucket.rotate_right(1);
        bucket[0] = name;
    }

    fn has(&self, name: u32) -> bool {
        self.buckets[Self::bucket(name)].contains(&name)
    }
}

/// How long a packet may come after its digest: where packets and digests wait in different queues.
const GRACE: Duration = Duration::from_millis(3);
/// Packets that a digest names left no longer before it than this; its own way is theirs.
const NAMED_WITHIN: Duration = Duration::from_millis(60);
/// Packets that are waited for, at most.
const AWAITED: usize = 4 * MOST;

/// A packet that a digest names.
#[derive(Clone, Copy, Debug)]
struct Named {
    number: u32,
    name: u32,
    arrived: bool,
    /// When it counts as lost.
    due: Time,
}

/// Looks which packets of digests have arrived.
#[derive(Debug)]
pub(crate) struct DigestReader {
    arrivals: Arrivals,
    /// Packets that were named and are not judged yet, in order.
    named: VecDeque<Named>,
    /// Those of them that have not arrived.
    awaited: usize,
    /// Until then what digests name may have passed unseen.
    blind_until: Option<Time>,
}

impl DigestReader {
    pub(crate) fn new() -> Self {
        DigestReader {
            arrivals: Arrivals::new(),
            named: VecDeque::new(),
            awaited: 0,
            blind_until: None,
        }
    }

    /// The peer began anew, and so do its numbers.
    pub(crate) fn restart(&mut self) {
        self.named.clear();
        self.awaited = 0;
    }

    /// A packet arrives.
    pub(crate) fn on_packet(&mut self, name: PacketName) {
        let name = crate::wire::short_name(name);
        self.arrivals.add(name);
        if self.awaited == 0 {
            return;
        }
        if let Some(late) = self.named.iter_mut().find(|named| !named.arrived && named.name == name)
        {
            late.arrived = true;
            self.awaited -= 1;
        }
    }

    /// Packets may have passed unseen.
    pub(crate) fn on_unseen(&mut self, now: Time) {
        self.blind_until = Some(now + NAMED_WITHIN);
    }

    /// A digest arrives that names these.
    pub(crate) fn on_digest(&mut self, now: Time, packets: impl Iterator<Item = (u32, u32)>) {
        let blind = self.blind_until.is_some_and(|until| now.is_before(until));
        for (number, name) in packets {
            let arrived = blind || self.arrivals.has(name);
            self.awaited += usize::from(!arrived);
            self.named.push_back(Named { number, name, arrived, due: now + GRACE });
        }
    }

    /// Hands out packets that are judged, in order: their number, and whether they arrived.
    pub(crate) fn judge(&mut self, now: Time, mut record: impl FnMut(u32, bool)) {
        self.blind_until = self.blind_until.filter(|&until| now.is_before(until));
        while let Some(&Named { number, arrived, due, .. }) = self.named.front()
            && (arrived || now.has_reached(due) || self.named.len() > AWAITED)
        {
            self.named.pop_front();
            self.awaited -= usize::from(!arrived);
            record(number, arrived);
        }
    }

    /// When the next packet is judged that has not arrived.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.named.front().map(|named| named.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    /// Bytes of digests for each byte of packets, and the longest wait of a packet for its digest.
    fn spent(len: usize, gap: u64, packets: u64) -> (f64, u64) {
        let mut digester = Digester::default();
        let (mut bytes, mut since, mut longest) = (0, None, 0);
        for n in 0..packets {
            let now = n * gap;
            since.get_or_insert(now);
            let full = digester.add(at(now), PacketName(n << 32), len);
            if full || digester.due(at(now)) {
                digester.take(at(now), |_, names| bytes += cost(names.len()));
                longest = longest.max(now - since.take().expect("one left"));
            } else if digester.names.is_empty() {
                since = None;
            }
        }
        (bytes as f64 / (packets * len as u64) as f64, longest)
    }

    #[test]
    fn digests_keep_to_their_budget() {
        let (full, wait) = spent(1_500, 120, 100_000);
        assert!(full < 0.01 && wait <= 8_000, "a full link: {full}, {wait} us");
        let (acknowledgements, _) = spent(52, 240, 100_000);
        assert!(acknowledgements < 0.05, "twenty digests a second at most: {acknowledgements}");
        let (thin, wait) = spent(200, 20_000, 10_000);
        assert!(thin < 0.6 && wait <= 60_000, "a thin stream: {thin}, {wait} us");
    }

    #[test]
    fn packets_are_judged_by_whether_they_came() {
        let mut reader = DigestReader::new();
        let name = |n: u32| PacketName(u64::from(n.wrapping_mul(0x9e37_79b9)) << 32);
        let short = |n: u32| crate::wire::short_name(name(n));
        for n in (0..60).filter(|n| n % 10 != 3) {
            reader.on_packet(name(n));
        }
        reader.on_digest(at(0), (0..64).map(|n| (n, short(n))));
        // Those that the digest has overtaken are no loss.
        for n in 60..64 {
            reader.on_packet(name(n));
        }
        let mut lost = Vec::new();
        let mut judged = 0;
        reader.judge(at(0), |_, _| judged += 1);
        assert_eq!((judged, reader.poll_timeout()), (3, Some(at(3_000))));
        reader.judge(at(3_000), |number, arrived| lost.extend((!arrived).then_some(number)));
        assert_eq!(lost, [3, 13, 23, 33, 43, 53]);
        assert_eq!((reader.poll_timeout(), reader.awaited), (None, 0));
    }

    #[test]
    fn what_passed_unseen_months_ago_hides_no_loss() {
        let mut reader = DigestReader::new();
        reader.on_unseen(at(0));
        reader.judge(at(60_000), |_, _| {});
        let months = at(0).plus_nanos(107 * 86_400 * 1_000_000_000);
        reader.on_digest(months, [(7, 7)].into_iter());
        let mut judged = Vec::new();
        reader.judge(months + GRACE, |number, arrived| judged.push((number, arrived)));
        assert_eq!(judged, [(7, false)]);
    }

    #[test]
    fn memory_is_bounded_whatever_is_named() {
        let mut reader = DigestReader::new();
        for round in 0..1_000_u32 {
            reader.on_digest(at(0), (0..255).map(|n| (round * 255 + n, n)));
            reader.judge(at(0), |_, _| {});
            assert!(reader.named.len() <= AWAITED && reader.awaited <= AWAITED);
        }
    }
}
