//! Host names and addresses as users write them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

/// The UDP port of servers unless told otherwise.
pub const DEFAULT_PORT: u16 = 4711;

/// Every address, `[::]`, is every one of IPv4 on a system without IPv6; others are what they are.
pub fn without_missing_ipv6(bind: SocketAddr) -> SocketAddr {
    let has_ipv6 = || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    if bind.ip() != Ipv6Addr::UNSPECIFIED || has_ipv6() {
        return bind;
    }
    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), bind.port())
}

/// A host as a person names it: `name`, `name:port`, `192.0.2.1:port`, `2001:db8::1` or
/// `[2001:db8::1]:port`. Without a port it is [`DEFAULT_PORT`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Host {
    name: String,
    port: u16,
}

/// The text does not name a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAHost(String);

impl fmt::Display for NotAHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` names no host; write NAME, NAME:PORT or [IPV6]:PORT", self.0)
    }
}

impl std::error::Error for NotAHost {}

impl Host {
    /// The host's name or address, without the port.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host's addresses, in the resolver's order.
    ///
    /// # Errors
    /// The resolver's.
    pub async fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((self.name.as_str(), self.port)).await?.collect())
    }
}

impl From<SocketAddr> for Host {
    fn from(address: SocketAddr) -> Self {
        Host { name: address.ip().to_string(), port: address.port() }
    }
}

impl FromStr for Host {
    type Err = NotAHost;
    fn from_str(text: &str) -> Result<Self, NotAHost> {
        let wrong = || NotAHost(text.to_owned());
        if text.parse::<Ipv6Addr>().is_ok() {
            return Ok(Host { name: text.to_owned(), port: DEFAULT_PORT });
        }
        let (name, port) = if let Some(rest) = text.strip_prefix('[') {
            let (name, tail) = rest.split_once(']').ok_or_else(wrong)?;
            name.split('%').next().unwrap_or(name).parse::<Ipv6Addr>().map_err(|_| wrong())?;
            let port = match tail {
                "" => None,
                tail => Some(tail.strip_prefix(':').ok_or_else(wrong)?),
            };
            (name, port)
        } else {
            match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            }
        };
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse).map_err(|_| wrong())?;
        let odd = |c: char| c.is_whitespace() || c.is_control() || "/,[]".contains(c);
        if name.is_empty() || port == 0 || name.contains(odd) {
            return Err(wrong());
        }
        Ok(Host { name: name.to_owned(), port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_ports() {
        for (text, shown) in [
            ("a.example", "a.example:4711"),
            ("a.example:5", "a.example:5"),
            ("192.0.2.1", "192.0.2.1:4711"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("2001:db8::1", "[2001:db8::1]:4711"),
            ("[2001:db8::1]", "[2001:db8::1]:4711"),
            ("[::1]:9", "[::1]:9"),
        ] {
            let host: Host = text.parse().expect(text);
            assert_eq!(host.to_string(), shown);
            assert_eq!(shown.parse(), Ok(host));
        }
    }

    #[test]
    fn what_names_no_host_is_refused() {
        for text in
            ["", ":5", "a:b", "a:0", "a:70000", "[::1", "[::1]x", "[a]:1", "a b", "a/b", "::g"]
        {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
    }
}
