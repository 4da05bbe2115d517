//! Addresses of the remote site.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses with the same first bits: `10.2.0.0/16`, `2001:db8:2::/48`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// Whether it is one of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether an address belongs to it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differ = u32::from(ours) ^ u32::from(theirs);
                differ.checked_shr(32 - u32::from(self.len)).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differ = u128::from(ours) ^ u128::from(theirs);
                differ.checked_shr(128 - u32::from(self.len)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}`: write a prefix such as 10.2.0.0/16 or 2001:db8:2::/48");
        let (address, len) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len = if len.is_empty() { most } else { len.parse().map_err(|_| bad())? };
        if len > most { Err(bad()) } else { Ok(Prefix { address, len }) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_what_shares_their_bits() {
        let holds = |prefix: &str, address: &str| {
            let prefix: Prefix = prefix.parse().expect("a prefix");
            prefix.contains(address.parse().expect("an address"))
        };
        assert!(holds("10.2.0.0/16", "10.2.255.1"));
        assert!(!holds("10.2.0.0/16", "10.3.0.1"));
        assert!(holds("0.0.0.0/0", "255.1.2.3"));
        assert!(!holds("0.0.0.0/0", "::1"));
        assert!(holds("10.0.0.7", "10.0.0.7"));
        assert!(!holds("10.0.0.7", "10.0.0.6"));
        assert!(holds("2001:db8:2::/48", "2001:db8:2:ffff::1"));
        assert!(holds("::/0", "ff02::1"));
        for bad in ["", "10.0.0.0/33", "::/129", "x/8", "10.0.0.0/-1"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }
}
