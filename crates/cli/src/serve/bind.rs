//! The address that a server listens at.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use wellspring_net::DEFAULT_PORT;

/// Parses `ADDR:PORT` or `ADDR`; an IPv6 address may have a zone, which link-local ones need: `[fe80::1%eth0]:4711`.
pub(super) fn parse(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DEFAULT_PORT)))
        .or_else(|| in_zone(text))
        .ok_or_else(|| {
            "write ADDR:PORT or ADDR, such as 0.0.0.0:4711, [::]:4711 or [fe80::1%eth0]:4711; names are no addresses"
                .to_owned()
        })
}

/// An address in the zone of an interface that there is.
fn in_zone(text: &str) -> Option<SocketAddr> {
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => {
            rest.rsplit_once("]:").and_then(|(ip, port)| Some((ip, port.parse().ok()?)))?
        }
        None => (text, DEFAULT_PORT),
    };
    let (ip, _) = address.split_once('%')?;
    // The system's resolver is for names, too.
    ip.parse::<IpAddr>().ok()?;
    (address, port).to_socket_addrs().ok()?.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_lack_the_port_and_may_have_a_zone() {
        for (text, address) in [
            ("10.0.0.1:9", "10.0.0.1:9"),
            ("10.0.0.1", "10.0.0.1:4711"),
            ("::", "[::]:4711"),
            ("[::1]:0", "[::1]:0"),
        ] {
            assert_eq!(parse(text), Ok(address.parse().expect("an address")), "{text}");
        }
        for text in ["[fe80::1%lo]:9", "[fe80::1%1]:9", "fe80::1%lo"] {
            let SocketAddr::V6(address) = parse(text).expect("an address") else {
                panic!("{text} is an IPv6 address")
            };
            assert_eq!((address.scope_id(), address.ip().to_string()), (1, "fe80::1".to_owned()));
        }
        for text in ["localhost", "localhost:9", ":9", "[fe80::1%none]:9", "a%lo", "10.0.0.1:x", ""]
        {
            assert!(parse(text).expect_err("no address").contains("write ADDR:PORT"), "{text}");
        }
    }
}
