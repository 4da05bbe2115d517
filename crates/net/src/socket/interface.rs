//! Naming a network interface.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use super::glue;

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
        glue::interfaces()?
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

/// The address that multicast to `group` leaves this host from, by that interface or (`None`) by the
/// routing table's choice. Receivers know a sender by its address: a socket that sends by multicast
/// and by unicast is best bound to this one.
///
/// # Errors
/// There is no such interface, it has no address of the group's family, or there is no route.
pub fn source_towards(group: SocketAddr, interface: Option<&Interface>) -> io::Result<IpAddr> {
    let fits = |ip: &IpAddr| ip.is_ipv4() == group.is_ipv4();
    match interface {
        Some(Interface::Address(ip)) if fits(ip) => Ok(*ip),
        Some(interface) => {
            let index = interface.index()?;
            glue::interfaces()?
                .into_iter()
                .filter(|i| i.index == index)
                .find_map(|i| i.address.filter(fits))
                .ok_or_else(|| {
                    let message = format!("interface {interface} has no address of that family");
                    io::Error::new(io::ErrorKind::AddrNotAvailable, message)
                })
        }
        None => {
            let any = if group.is_ipv4() {
                IpAddr::V4(Ipv4Addr::UNSPECIFIED)
            } else {
                IpAddr::V6(Ipv6Addr::UNSPECIFIED)
            };
            // Connecting a datagram socket sends nothing: it only asks for the route.
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(group)?;
            Ok(socket.local_addr()?.ip())
        }
    }
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
