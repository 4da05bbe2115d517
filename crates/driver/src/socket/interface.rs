//! Naming a network interface.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::str::FromStr;

use socket2::SockRef;

use super::sys;

/// A network interface, by whatever the user knows of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Interface {
    /// Its name, such as `eth0`.
    Name(String),
    /// An address of it.
    Address(IpAddr),
    /// Its index.
    Index(u32),
}

impl Interface {
    /// The interface's index.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such interface; what the system says if it
    /// cannot list them.
    pub fn index(&self) -> io::Result<u32> {
        if let Interface::Index(index) = self {
            return Ok(*index);
        }
        sys::interfaces()?
            .into_iter()
            .find(|i| match self {
                Interface::Name(name) => i.name == *name,
                Interface::Address(address) => i.address == Some(*address),
                Interface::Index(_) => false,
            })
            .map(|i| i.index)
            .ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, format!("no network interface {self}"))
            })
    }
}

const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// What is taken for the MTU where the system does not say it of a path \[bytes\].
#[cfg(not(target_os = "linux"))]
const ETHERNET_MTU: usize = 1_500;

/// The address that multicast to `group` leaves this host from, by that interface or (`None`) by the
/// routing table's choice. Receivers know a sender by its address: a socket that sends by multicast
/// and by unicast is best bound to this one.
///
/// # Errors
/// There is no such interface, it has no address of the group's family, or there is no route.
pub fn source_towards(group: SocketAddr, interface: Option<&Interface>) -> io::Result<IpAddr> {
    let fits = |ip: &IpAddr| ip.is_ipv4() == group.is_ipv4();
    let routed = routed_towards(group, interface)?;
    match interface {
        Some(Interface::Address(ip)) if fits(ip) => Ok(*ip),
        Some(interface) => {
            let index = interface.index()?;
            sys::interfaces()?
                .into_iter()
                .filter(|i| i.index == index)
                .find_map(|i| i.address.filter(fits))
                .ok_or_else(|| {
                    let message = format!("interface {interface} has no address of that family");
                    io::Error::new(io::ErrorKind::AddrNotAvailable, message)
                })
        }
        None => Ok(routed.local_addr()?.ip()),
    }
}

/// The largest UDP payload that the path to a host carries unfragmented, as far as this host knows:
/// its own link's MTU, or less if a router has complained \[bytes\].
///
/// # Errors
/// There is no route.
pub fn largest_payload_towards(to: SocketAddr) -> io::Result<usize> {
    let socket = routed_towards(to, None)?;
    let v4 = matches!(crate::address::canonical(to), SocketAddr::V4(_));
    #[cfg(target_os = "linux")]
    let mtu = sys::path_mtu(socket.as_raw_fd(), v4)?;
    #[cfg(not(target_os = "linux"))]
    let mtu = {
        let _ = socket;
        ETHERNET_MTU
    };
    let headers = UDP_HEADER + if v4 { IPV4_HEADER } else { IPV6_HEADER };
    Ok(mtu.saturating_sub(headers))
}

/// A socket of its own for asking about the route to an address (of a group, by that interface):
/// connecting it sends nothing.
fn routed_towards(to: SocketAddr, interface: Option<&Interface>) -> io::Result<UdpSocket> {
    let to = crate::address::canonical(to);
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    if let Some(interface) = interface {
        if to.is_ipv4() {
            #[cfg(target_os = "linux")]
            sys::set_multicast_interface_v4(socket.as_raw_fd(), interface.index()?)?;
            #[cfg(not(target_os = "linux"))]
            super::plain::set_multicast_interface_v4(&SockRef::from(&socket), interface.index()?)?;
        } else {
            SockRef::from(&socket).set_multicast_if_v6(interface.index()?)?;
        }
    }
    socket.connect(to)?;
    Ok(socket)
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interface::Name(name) => f.write_str(name),
            Interface::Address(address) => address.fmt(f),
            Interface::Index(index) => write!(f, "number {index}"),
        }
    }
}

/// An address if it reads as one, otherwise a name.
impl FromStr for Interface {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.parse() {
            Ok(address) => Interface::Address(address),
            Err(_) => Interface::Name(text.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_carries_its_mtu_less_the_headers() {
        let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("loopback");
        let mtu: usize = mtu.trim().parse().expect("a number");
        let v4_mtu = mtu.min(65_535); // IPv4 cannot say more
        let v4 = largest_payload_towards("127.0.0.1:9".parse().expect("address"));
        assert_eq!(v4.expect("route"), v4_mtu - 28);
        let mapped = largest_payload_towards("[::ffff:127.0.0.1]:9".parse().expect("address"));
        assert_eq!(mapped.expect("route"), v4_mtu - 28, "IPv4 in IPv6 clothes");
        // Machines without IPv6 have no route; all others say so.
        if let Ok(v6) = largest_payload_towards("[::1]:9".parse().expect("address")) {
            assert_eq!(v6, mtu - 48);
        }
    }
}
