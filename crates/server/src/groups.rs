//! Multicast groups that a server joins for its clients.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Multicast groups whose addresses begin with the same bits, such as `239.0.0.0/8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupRange {
    first: IpAddr,
    bits: u8,
}

/// A text that is no range of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadRange;

impl fmt::Display for BadRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write a range of multicast groups such as 239.1.0.0/16 or ff15::/16, or one group",
        )
    }
}

impl std::error::Error for BadRange {}

/// The bits of an address, the first ones first, and how many there are.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (v6.into(), 128),
    }
}

impl GroupRange {
    /// Those that nobody assigns: 239.0.0.0/8, which are for use within a site, and of IPv6 the temporary ones of a link, of
    /// what is administered as one, of a site and of an organisation. What routers and services announce is in none.
    pub fn usual() -> Vec<Self> {
        let v4 = GroupRange { first: Ipv4Addr::new(239, 0, 0, 0).into(), bits: 8 };
        let v6 = [0xff12, 0xff14, 0xff15, 0xff18].map(|first| GroupRange {
            first: Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).into(),
            bits: 16,
        });
        [v4].into_iter().chain(v6).collect()
    }

    /// Whether it has a group.
    pub fn contains(self, group: IpAddr) -> bool {
        let ((own, len), (other, of)) = (bits(self.first), bits(group.to_canonical()));
        let differ = own ^ other;
        len == of && (self.bits == 0 || differ >> (128 - u32::from(self.bits)) == 0)
    }
}

impl FromStr for GroupRange {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse().map_err(|_| BadRange)?)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| BadRange)?;
        let all = bits(first).1;
        let least = if first.is_ipv4() { 4 } else { 8 };
        let range = GroupRange { first, bits: len.unwrap_or(all) };
        // With fewer bits it would have other addresses than those of groups.
        let is_one = first.is_multicast() && (least..=all).contains(&range.bits);
        if is_one { Ok(range) } else { Err(BadRange) }
    }
}

impl fmt::Display for GroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(ranges: &[GroupRange], group: &str) -> bool {
        let group = group.parse().expect("an address");
        ranges.iter().any(|range| range.contains(group))
    }

    #[test]
    fn usual_groups_are_those_that_nobody_assigns() {
        let usual = GroupRange::usual();
        for group in ["239.1.2.3", "239.255.47.11", "ff12::4711", "ff15::82:1", "ff18::1"] {
            assert!(any(&usual, group), "{group}");
        }
        for group in ["224.0.0.251", "224.0.1.1", "232.1.1.1", "ff02::1", "ff05::1:3", "ff1e::1"] {
            assert!(!any(&usual, group), "{group}");
        }
    }

    #[test]
    fn a_range_is_read_and_shown_and_has_what_begins_like_it() {
        let range = |text: &str| text.parse::<GroupRange>();
        let some = [range("239.1.0.0/16").expect("a range"), range("ff15::7").expect("a group")];
        assert_eq!(some.map(|range| range.to_string()), ["239.1.0.0/16", "ff15::7/128"]);
        assert!(any(&some, "239.1.255.255") && any(&some, "::ffff:239.1.2.3"));
        assert!(any(&some, "ff15::7") && !any(&some, "ff15::8") && !any(&some, "239.2.0.0"));
        assert!(any(&[range("224.0.0.0/4").expect("all")], "232.1.2.3"));
        for text in ["10.0.0.0/8", "239.0.0.0/3", "239.0.0.0/33", "ff00::/7", "239.1", "x/8", ""] {
            assert_eq!(range(text), Err(BadRange), "{text}");
        }
    }
}
