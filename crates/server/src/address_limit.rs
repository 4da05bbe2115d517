//! Limits for one address, so that it cannot have everything.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Addresses counted at one time; beyond, all further ones share one count.
const MAX_ADDRESSES: usize = 4_096;
const MINUTE: Duration = Duration::from_secs(60);

/// Whom a client counts as: its IPv4 address, or its IPv6 network of 64 bits, which is what one
/// subscriber has.
pub(super) fn source_of(client: SocketAddr) -> IpAddr {
    match client.ip() {
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => Ipv6Addr::from(u128::from(ip) & !u128::from(u64::MAX)).into(),
        },
        v4 => v4,
    }
}

/// Places for what clients have at one time: so many in all, and so many for one address. Memory is
/// bounded by the places.
#[derive(Debug)]
pub(super) struct Places {
    /// What has a place, for the text of a refusal.
    what: &'static str,
    limit: usize,
    limit_an_address: usize,
    taken: Mutex<BTreeMap<IpAddr, usize>>,
    /// Places taken since the beginning.
    given: AtomicU64,
    /// A place came back.
    freed: Notify,
}

/// A place, until dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    source: IpAddr,
}

/// There is no place, by one of the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Full {
    what: &'static str,
    limit: usize,
    /// Whose limit it is; that of all together if absent.
    source: Option<IpAddr>,
}

impl Full {
    /// Whether it is the limit of its client's address.
    pub(super) fn is_of_address(&self) -> bool {
        self.source.is_some()
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Full { what, limit, source } = self;
        match source {
            Some(source) => write!(f, "{source} has {limit} {what} already"),
            None => write!(f, "there are {limit} {what} already; try again later"),
        }
    }
}

impl Places {
    pub(super) fn new(what: &'static str, limit: usize, limit_an_address: usize) -> Arc<Self> {
        Arc::new(Places {
            what,
            limit,
            limit_an_address,
            taken: Mutex::default(),
            given: AtomicU64::new(0),
            freed: Notify::new(),
        })
    }

    /// Takes a place for a client.
    ///
    /// # Errors
    /// The limit that forbids it.
    pub(super) fn take(self: &Arc<Self>, client: SocketAddr) -> Result<Place, Full> {
        let (what, source) = (self.what, source_of(client));
        let mut taken = self.lock();
        if taken.values().sum::<usize>() >= self.limit {
            return Err(Full { what, limit: self.limit, source: None });
        }
        let limit = self.limit_an_address;
        if taken.get(&source).is_some_and(|own| *own >= limit) || limit == 0 {
            return Err(Full { what, limit, source: Some(source) });
        }
        *taken.entry(source).or_default() += 1;
        self.given.fetch_add(1, Ordering::Relaxed);
        Ok(Place { places: Arc::clone(self), source })
    }

    /// How many each address has.
    pub(super) fn by_address(&self) -> BTreeMap<IpAddr, usize> {
        self.lock().clone()
    }

    /// Places that are taken.
    pub(super) fn taken(&self) -> usize {
        self.lock().values().sum()
    }

    /// Places that were taken since the beginning.
    pub(super) fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// Waits until no place is taken.
    pub(super) async fn idle(&self) {
        loop {
            let freed = self.freed.notified();
            if self.taken() == 0 {
                return;
            }
            freed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(own) = taken.get_mut(&self.source) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.source);
            }
        }
        drop(taken);
        self.places.freed.notify_waiters();
    }
}

/// Counts what addresses do in the current minute.
#[derive(Debug, Default)]
pub(super) struct MinuteCount {
    began: Option<Instant>,
    counts: BTreeMap<Option<IpAddr>, usize>,
}

impl MinuteCount {
    /// Counts one more of a client's.
    ///
    /// # Errors
    /// It has had `limit` in this minute.
    pub(super) fn take(
        &mut self,
        what: &'static str,
        client: SocketAddr,
        limit: usize,
        now: Instant,
    ) -> Result<(), Full> {
        if self.began.is_none_or(|began| now.duration_since(began) >= MINUTE) {
            self.began = Some(now);
            self.counts.clear();
        }
        let source = Some(source_of(client));
        let known = self.counts.len() < MAX_ADDRESSES || self.counts.contains_key(&source);
        let count = self.counts.entry(if known { source } else { None }).or_default();
        if *count >= limit {
            return Err(Full { what, limit, source });
        }
        *count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn ports_and_the_addresses_of_a_network_count_as_one() {
        assert_eq!(source_of(at("192.0.2.1:5")), source_of(at("[::ffff:192.0.2.1]:6")));
        assert_eq!(source_of(at("[2001:db8::1]:5")), source_of(at("[2001:db8::ffff:2]:6")));
        assert_ne!(source_of(at("[2001:db8::1]:5")), source_of(at("[2001:db8:0:1::1]:5")));
        assert_ne!(source_of(at("192.0.2.1:5")), source_of(at("192.0.2.2:5")));
    }

    #[test]
    fn an_address_has_so_many_a_minute_and_memory_is_bounded() {
        let (mut count, began) = (MinuteCount::default(), Instant::now());
        let mut taken =
            |client, at| count.take("x", client, 2, began + Duration::from_secs(at)).is_ok();
        let (one, two) = (at("192.0.2.1:5"), at("192.0.2.2:5"));
        assert!(taken(one, 0) && taken(one, 1) && !taken(at("192.0.2.1:6"), 2));
        assert!(taken(two, 3), "another");
        assert!(taken(one, 60) && taken(one, 61) && !taken(one, 62), "the next minute");
        for host in 0..20_000_u32 {
            taken(SocketAddr::new(IpAddr::V4(host.into()), 7), 63);
        }
        assert!(count.counts.len() <= MAX_ADDRESSES + 1, "{}", count.counts.len());
    }
    #[test]
    fn places_have_a_limit_in_all_and_one_an_address_and_come_back() {
        let places = Places::new("sends", 3, 2);
        let (one, other) = (at("192.0.2.1:5"), at("192.0.2.1:6"));
        let first = places.take(one).expect("free");
        let _second = places.take(other).expect("free");
        let full = places.take(one).expect_err("two of that address");
        assert_eq!(full.to_string(), "192.0.2.1 has 2 sends already");
        let _third = places.take(at("192.0.2.2:5")).expect("another address");
        let full = places.take(at("192.0.2.3:5")).expect_err("three in all");
        assert_eq!(full.to_string(), "there are 3 sends already; try again later");
        drop(first);
        let again = places.take(one).expect("free again");
        drop(again);
        assert_eq!(places.lock().len(), 2, "nothing is kept of who has none");
        assert!(Places::new("sends", 3, 0).take(one).is_err());
    }
}
