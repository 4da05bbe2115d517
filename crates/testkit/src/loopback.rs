//! Loopback addresses that no other test has.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// An address of 127.0.0.0/8 for one server, with port 0: other processes get others.
///
/// Where all tests bind 127.0.0.1, the port of a server that was killed may be given to a server of another test, and
/// the client under test finds it there. It is never 127.0.0.1; addresses repeat in a process after 254 calls.
pub fn own_address() -> SocketAddr {
    static CALLS: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    // 127.0 to 127.15 are left to addresses that are written out in tests.
    let ip = Ipv4Addr::new(127, 16 + high % 240, low, 1 + CALLS.fetch_add(1, Relaxed) % 254);
    (ip, 0).into()
}

#[cfg(test)]
mod tests {
    use super::own_address;

    #[test]
    fn a_port_that_was_freed_is_not_taken_by_the_next_server() {
        let gone = std::net::UdpSocket::bind(own_address()).expect("loopback has a whole network");
        let mut taken = gone.local_addr().expect("bound");
        drop(gone);
        let other = own_address();
        assert_ne!(other.ip(), taken.ip());
        taken.set_ip(other.ip());
        assert!(std::net::UdpSocket::bind(taken).is_ok(), "another address has ports of its own");
    }
}
