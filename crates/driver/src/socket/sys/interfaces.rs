//! Network interfaces and their addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// An address of a network interface.
pub(in crate::socket) struct InterfaceAddress {
    pub name: String,
    pub index: u32,
    pub address: Option<IpAddr>,
}

/// The host's network interfaces, one entry an address.
pub(in crate::socket) fn interfaces() -> io::Result<Vec<InterfaceAddress>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: getifaddrs writes one pointer, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = list;
    // SAFETY: the list getifaddrs made stays valid until freeifaddrs: `at` walks its nodes, names
    // are C strings, addresses are null or as long as their family says (read unaligned).
    unsafe {
        while let Some(node) = at.as_ref() {
            let name = std::ffi::CStr::from_ptr(node.ifa_name);
            let address = match node.ifa_addr.as_ref().map(|a| libc::c_int::from(a.sa_family)) {
                Some(libc::AF_INET) => {
                    let a = ptr::read_unaligned(node.ifa_addr.cast::<libc::sockaddr_in>());
                    Some(IpAddr::from(Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr))))
                }
                Some(libc::AF_INET6) => {
                    let a = ptr::read_unaligned(node.ifa_addr.cast::<libc::sockaddr_in6>());
                    Some(IpAddr::from(Ipv6Addr::from(a.sin6_addr.s6_addr)))
                }
                _ => None,
            };
            let index = libc::if_nametoindex(node.ifa_name);
            found.push(InterfaceAddress {
                name: name.to_string_lossy().into_owned(),
                index,
                address,
            });
            at = node.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    Ok(found)
}
