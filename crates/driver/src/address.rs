//! Socket addresses in one form.

use std::net::SocketAddr;

/// The same address in one form: IPv4 as itself, not as IPv6 that holds it.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        std::net::IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        _ => address,
    }
}
