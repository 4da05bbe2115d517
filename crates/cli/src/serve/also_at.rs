//! Further addresses that a server tells its clients of.

use std::net::{IpAddr, SocketAddr};

use wellspring_console::exit::Failed;
use wellspring_net::wellspring_wire::control::MAX_ADDRESSES;

/// An address of this host, with a port if it is not that of `--bind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AlsoAt(IpAddr, Option<u16>);

/// Reads `ADDR` or `ADDR:PORT`.
pub(super) fn parse(text: &str) -> Result<AlsoAt, String> {
    let with_port = |at: SocketAddr| AlsoAt(at.ip(), Some(at.port()));
    let address = text.parse().map(|ip| AlsoAt(ip, None)).or_else(|_| text.parse().map(with_port));
    let AlsoAt(ip, port) = address.map_err(|_| "write an address, or address:port".to_owned())?;
    if ip.is_unspecified() || ip.is_multicast() || port == Some(0) {
        return Err("it is not an address of one host".to_owned());
    }
    Ok(AlsoAt(ip, port))
}

/// What clients of a server that is bound to `bind` are told.
///
/// # Errors
/// There are too many, or the server is not heard at one.
pub(super) fn addresses(also_at: &[AlsoAt], bind: SocketAddr) -> Result<Vec<SocketAddr>, Failed> {
    if also_at.len() > MAX_ADDRESSES {
        let text = format!("--also-at: {} addresses, but at most {MAX_ADDRESSES}", also_at.len());
        return Err(Failed::usage(text));
    }
    let address = |AlsoAt(ip, port): &AlsoAt| {
        let port = port.unwrap_or(bind.port());
        if port == 0 {
            let text = format!("--also-at {ip}: give --bind a port, or write {ip}:PORT");
            return Err(Failed::usage(text));
        }
        if !bind.ip().is_unspecified() && bind.ip() != *ip {
            let text = format!(
                "--also-at {ip}: this server is bound to {} and not heard there; --bind 0.0.0.0:{port} or [::]:{port} is \
                 heard at every address",
                bind.ip()
            );
            return Err(Failed::usage(text));
        }
        Ok(SocketAddr::new(*ip, port))
    };
    also_at.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_servers_port_unless_they_have_one() {
        let told = |text: &str, bind: &str| {
            let at: Vec<_> = text.split(',').map(|at| parse(at).expect("an address")).collect();
            let bind = bind.parse().expect("an address");
            addresses(&at, bind)
                .map(|all| all.iter().map(SocketAddr::to_string).collect::<Vec<_>>())
        };
        let all = told("10.0.0.1,10.0.1.1:9,fd00::1,[fd00::2]:8", "[::]:4711").ok();
        let expected = ["10.0.0.1:4711", "10.0.1.1:9", "[fd00::1]:4711", "[fd00::2]:8"];
        assert_eq!(all.expect("heard"), expected);
        assert!(told("10.0.0.1", "10.0.0.1:7").is_ok());
        assert!(told("10.0.1.1", "10.0.0.1:7").is_err(), "not heard there");
        assert!(told("10.0.1.1", "0.0.0.0:0").is_err(), "at what port?");
        assert!(told(&["10.0.0.1"; 9].join(","), "0.0.0.0:7").is_err(), "too many");
        for text in ["0.0.0.0", "224.0.0.1", "10.0.0.1:0", "a.example"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
