//! Addresses on both sides of the long link.

use std::net::IpAddr;

use ipnet::IpNet;

/// Addresses of the other site, of the peer and of this site's appliances.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// Behind the other appliance; everybody if there are none.
    pub remote: Vec<IpNet>,
    /// The other appliance.
    pub peer: IpAddr,
    /// Where this site's appliances are sent datagrams, and the port of this partition's.
    pub own: Vec<IpAddr>,
    pub port: u16,
}

impl Addresses {
    /// Whether an address is on the other side of the link.
    pub(crate) fn is_theirs(&self, address: IpAddr) -> bool {
        let local = match address {
            IpAddr::V4(a) => a.is_multicast() || a.is_broadcast() || a.is_link_local(),
            IpAddr::V6(a) => a.is_multicast() || a.is_unicast_link_local(),
        };
        let remote = || self.remote.is_empty() || self.remote.iter().any(|p| p.contains(&address));
        !local && (address == self.peer || remote())
    }
}

/// Reads a prefix such as `10.2.0.0/16` or `2001:db8:2::/48`; an address alone is a prefix of one.
///
/// # Errors
/// What to write instead.
pub fn parse_prefix(text: &str) -> Result<IpNet, String> {
    text.parse()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| "write a prefix such as 10.2.0.0/16 or 2001:db8:2::/48".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_single_addresses_are_read() {
        let holds = |prefix: &str, address: &str| {
            let prefix = parse_prefix(prefix).expect("a prefix");
            prefix.contains(&address.parse::<IpAddr>().expect("an address"))
        };
        assert!(holds("10.2.0.0/16", "10.2.255.1") && !holds("10.2.0.0/16", "10.3.0.1"));
        assert!(holds("0.0.0.0/0", "255.1.2.3") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("10.0.0.7", "10.0.0.7") && !holds("10.0.0.7", "10.0.0.6"));
        assert!(holds("2001:db8:2::/48", "2001:db8:2:ffff::1") && holds("::/0", "ff02::1"));
        for bad in ["", "10.0.0.0/33", "::/129", "x/8", "10.0.0.0/-1"] {
            assert!(parse_prefix(bad).is_err(), "{bad}");
        }
    }
}
