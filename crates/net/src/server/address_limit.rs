//! Limits for one address, so that it cannot have everything.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

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

/// Counts what addresses do in the current minute.
#[derive(Debug, Default)]
pub(super) struct MinuteCount {
    began: Option<Instant>,
    counts: BTreeMap<Option<IpAddr>, usize>,
}

impl MinuteCount {
    /// Counts one more of a client's; false if it has had `limit` in this minute.
    pub(super) fn take(&mut self, client: SocketAddr, limit: usize, now: Instant) -> bool {
        if self.began.is_none_or(|began| now.duration_since(began) >= MINUTE) {
            self.began = Some(now);
            self.counts.clear();
        }
        let source = Some(source_of(client));
        let known = self.counts.len() < MAX_ADDRESSES || self.counts.contains_key(&source);
        let count = self.counts.entry(if known { source } else { None }).or_default();
        let allowed = *count < limit;
        *count += usize::from(allowed);
        allowed
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
        let mut taken = |client, at| count.take(client, 2, began + Duration::from_secs(at));
        let (one, two) = (at("192.0.2.1:5"), at("192.0.2.2:5"));
        assert!(taken(one, 0) && taken(one, 1) && !taken(at("192.0.2.1:6"), 2));
        assert!(taken(two, 3), "another");
        assert!(taken(one, 60) && taken(one, 61) && !taken(one, 62), "the next minute");
        for host in 0..20_000_u32 {
            taken(SocketAddr::new(IpAddr::V4(host.into()), 7), 63);
        }
        assert!(count.counts.len() <= MAX_ADDRESSES + 1, "{}", count.counts.len());
    }
}
