//! Network interfaces: index, MTU and state.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::sys;

/// An interface of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub name: String,
    pub index: u32,
    pub mtu: usize,
    pub up: bool,
    /// The bridge or bond it is part of.
    pub master: Option<String>,
}

impl Interface {
    /// The interface of that name, or none.
    pub(crate) fn find(name: &str) -> io::Result<Option<Self>> {
        let Some(index) = sys::interface_index(name) else { return Ok(None) };
        let socket = any_socket()?;
        let master = Path::new("/sys/class/net").join(name).join("master");
        let master = std::fs::read_link(master).ok();
        let master = master.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Ok(Some(Interface {
            name: name.to_owned(),
            index,
            mtu: sys::interface_mtu(socket.as_fd(), name)?,
            up: sys::interface_is_up(socket.as_fd(), name)?,
            master,
        }))
    }
}

/// The name of an interface, and which one had it when sockets were opened.
#[derive(Debug)]
pub(crate) struct InterfaceName {
    pub name: String,
    pub index: Option<u32>,
}

impl InterfaceName {
    pub(crate) fn new(name: &str) -> Self {
        InterfaceName { name: name.to_owned(), index: sys::interface_index(name) }
    }

    /// Whether it is gone, or another has its name: sockets are deaf then, and must be opened again.
    pub(crate) fn has_changed(&self) -> bool {
        sys::interface_index(&self.name) != self.index
    }

    /// Whether the interface is there with what was opened on it. One that has been made anew is only when `open` has opened
    /// all again; what fails is tried again the next time.
    pub(crate) fn keep_open(&mut self, open: impl FnOnce(&str) -> io::Result<()>) -> bool {
        let now = InterfaceName::new(&self.name);
        if now.index != self.index {
            // One that comes back as it was, from another namespace, has no sockets either.
            self.index = None;
            if now.index.is_some() && open(&self.name).is_ok() {
                *self = now;
            }
        }
        self.index.is_some()
    }
}

/// A socket to ask about interfaces with.
pub(crate) fn any_socket() -> io::Result<OwnedFd> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    Ok(socket.into())
}

/// Prefixes of the networks that an interface is in, by the kernel's routes.
pub(crate) fn networks(name: &str) -> Vec<IpNet> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let v4 = ipv4_networks(&read("/proc/net/route"), name);
    v4.into_iter().chain(ipv6_networks(&read("/proc/net/ipv6_route"), name)).collect()
}

/// Routes without a gateway in the text of `/proc/net/route`: interface, destination, gateway, ..., mask as the
/// eighth field, in hexadecimal digits of little-endian words.
fn ipv4_networks(text: &str, name: &str) -> Vec<IpNet> {
    let network = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let word = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok().map(u32::swap_bytes);
        let len = word(7)?.count_ones() as u8;
        let on_link = *fields.first()? == name && word(2)? == 0 && len > 0;
        let net = Ipv4Net::new(Ipv4Addr::from(word(1)?), len).ok()?;
        on_link.then_some(IpNet::V4(net))
    };
    text.lines().filter_map(network).collect()
}

/// The same of `/proc/net/ipv6_route`: destination, its length, ..., next hop as the fifth field, ..., interface.
fn ipv6_networks(text: &str, name: &str) -> Vec<IpNet> {
    let network = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let word = |at: usize| u128::from_str_radix(fields.get(at)?, 16).ok();
        let len = u8::try_from(word(1)?).ok()?;
        let address = Ipv6Addr::from(word(0)?);
        let local = address.is_unicast_link_local() || address.is_multicast();
        let on_link = *fields.last()? == name && word(4)? == 0 && len > 0 && !local;
        let net = Ipv6Net::new(address, len).ok()?;
        on_link.then_some(IpNet::V6(net))
    };
    text.lines().filter_map(network).collect()
}

/// Whether this machine forwards IPv4 and IPv6.
pub(crate) fn forwarding() -> (bool, bool) {
    let on = |path: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    (on("/proc/sys/net/ipv4/ip_forward"), on("/proc/sys/net/ipv6/conf/all/forwarding"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_anew_is_opened_again_until_that_succeeds() {
        let mut lo = InterfaceName::new("lo");
        assert!(lo.keep_open(|_| panic!("it is open")));
        lo.index = lo.index.map(|index| index + 1_000);
        assert!(!lo.keep_open(|_| Err(io::ErrorKind::AddrNotAvailable.into())));
        let mut opened = 0;
        for _ in 0..2 {
            assert!(lo.keep_open(|name| {
                assert_eq!(name, "lo");
                opened += 1;
                Ok(())
            }));
        }
        assert_eq!(opened, 1);
        let mut gone = InterfaceName { name: "none of these".into(), index: Some(1) };
        assert!(!gone.keep_open(|_| panic!("there is nothing to open")));
    }

    #[test]
    fn networks_are_read_from_the_kernels_tables() {
        let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                  lan\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  lan\t0001510A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                  wan\t0000510A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(ipv4_networks(v4, "lan"), ["10.81.1.0/24".parse::<IpNet>().expect("one")]);
        let zeros = "0".repeat(32);
        let v6 = format!(
            "fd820001{} 40 {zeros} 00 {zeros} 00000100 00000001 00000000 00000001      lan\n\
             fe80{} 40 {zeros} 00 {zeros} 00000100 00000001 00000000 00000001      lan\n\
             {zeros} 00 {zeros} 00 fd82{}1 00000400 00000001 00000000 00000003      lan\n",
            "0".repeat(24),
            "0".repeat(28),
            "0".repeat(27)
        );
        assert_eq!(ipv6_networks(&v6, "lan"), ["fd82:1::/64".parse::<IpNet>().expect("one")]);
        assert!(ipv4_networks("", "lan").is_empty() && ipv6_networks("x y", "lan").is_empty());
    }
}
