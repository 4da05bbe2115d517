//! Choice of the send that ends for one that finds no place.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a send keeps its place, however little it gets on: a few repetitions of what was lost.
pub(super) const YOUNG: Duration = Duration::from_secs(10);

/// A send that has got on more slowly of late gives its place to a new one that finds none \[bytes/s\].
const LEAST_PACE: u64 = 16 << 10;

/// How long ago "of late" begins, at least, for a send that is older.
const LATELY: Duration = Duration::from_secs(20);

/// How far a send was at its beginning or some time ago, and after that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    began: Instant,
    /// Symbols sent, and when they were counted; the older first.
    counted: [(u64, Instant); 2],
}

impl Marks {
    /// A send begins that pushes so many symbols before anybody asks for one.
    pub(super) fn new(pushed: u64, now: Instant) -> Self {
        Marks { began: now, counted: [(pushed, now); 2] }
    }

    /// It has sent so many symbols.
    pub(super) fn count(&mut self, symbols: u64, now: Instant) {
        let [_, last] = self.counted;
        if now.saturating_duration_since(last.1) >= LATELY {
            self.counted = [last, (symbols.max(last.0), now)];
        }
    }

    /// Its pace of late, now that it has sent so many symbols of that length \[bytes/s\]; `None` while it is young.
    pub(super) fn pace(&self, symbols: u64, symbol_size: u16, now: Instant) -> Option<u64> {
        let [(before, since), _] = self.counted;
        let bytes = symbols.saturating_sub(before).saturating_mul(symbol_size.into());
        let seconds = now.saturating_duration_since(since).as_secs().max(1);
        (now.saturating_duration_since(self.began) >= YOUNG).then(|| bytes / seconds)
    }
}

/// Which send is to end for a new one of an address, of these with their paces and addresses: the slowest if it hardly gets
/// on, else the slowest of the address that has the most places, if it has them still when the new one has one more.
/// Where the address has as many as it may have, it is one of its own.
pub(super) fn victim<K: Copy + Ord>(
    sends: &[(u64, K, IpAddr)],
    places: &BTreeMap<IpAddr, usize>,
    (source, is_own): (IpAddr, bool),
) -> Option<K> {
    let stalled =
        |(pace, _, of): &&(u64, K, IpAddr)| *pace < LEAST_PACE && (!is_own || *of == source);
    if let Some((_, key, _)) = sends.iter().filter(stalled).min() {
        return Some(*key);
    }
    let has = |address: IpAddr| places.get(&address).copied().unwrap_or(0);
    let own = has(source);
    let richer = sends.iter().filter(|(_, _, of)| !is_own && has(*of) > own + 1);
    richer.max_by_key(|(pace, key, of)| (has(*of), Reverse((*pace, *key)))).map(|(_, key, _)| *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_pushed_or_sent_long_ago_is_no_pace() {
        let start = Instant::now();
        let at = |second| start + SECOND * second;
        let mut marks = Marks::new(12, start);
        assert_eq!(marks.pace(12, 1_000, at(9)), None, "young");
        assert_eq!(marks.pace(12, 1_000, at(10)), Some(0), "nobody has asked for a symbol");
        assert_eq!(marks.pace(1_012, 1_000, at(10)), Some(100_000));
        for second in (15..=60).step_by(15) {
            marks.count(1_000_012, at(second));
        }
        assert_eq!(marks.pace(1_000_012, 1_000, at(60)), Some(0), "all of it is long ago");
    }

    #[test]
    fn the_send_that_stalls_gives_way_then_one_of_an_address_with_more_than_its_share() {
        let host = |n: u8| IpAddr::from([192, 0, 2, n]);
        let fast = LEAST_PACE * 100;
        let sends = [(fast, 1, host(1)), (fast * 2, 2, host(1)), (fast / 2, 3, host(2))];
        let places = BTreeMap::from([(host(1), 2), (host(2), 1)]);
        let of = |sends: &[_], source| victim(sends, &places, source);
        assert_eq!(of(&sends, (host(3), false)), Some(1), "the slower one of who has two");
        assert_eq!(of(&sends, (host(2), false)), None, "would only change who has two");
        assert_eq!(of(&sends, (host(1), true)), None, "its own are in use");
        let mut stalling = sends;
        stalling[2].0 = LEAST_PACE - 1;
        assert_eq!(of(&stalling, (host(3), false)), Some(3));
        assert_eq!(of(&stalling, (host(1), true)), None, "it is another's");
        assert_eq!(of(&stalling, (host(2), true)), Some(3), "its own");
    }
}
