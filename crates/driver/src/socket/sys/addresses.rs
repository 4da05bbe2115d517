//! Socket addresses as the kernel has them.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

/// Writes a socket address as the kernel wants it.
pub(super) fn to_storage(
    address: &SocketAddr,
    v6_socket: bool,
) -> (libc::sockaddr_storage, libc::socklen_t) {
    let address = match (address, v6_socket) {
        (SocketAddr::V4(a), true) => {
            SocketAddr::V6(SocketAddrV6::new(a.ip().to_ipv6_mapped(), a.port(), 0, 0))
        }
        _ => *address,
    };
    let converted = socket2::SockAddr::from(address);
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    // SAFETY: `converted` holds `len()` valid bytes, no more than a sockaddr_storage, which is
    // plain data and valid when zeroed.
    let storage = unsafe {
        ptr::copy_nonoverlapping(
            converted.as_ptr().cast::<u8>(),
            storage.as_mut_ptr().cast::<u8>(),
            converted.len() as usize,
        );
        storage.assume_init()
    };
    (storage, converted.len())
}

/// Reads a socket address the kernel wrote; v4-mapped addresses become IPv4.
pub(super) fn from_storage(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is a sockaddr_in, which is smaller than the
            // storage and asks for no greater alignment.
            let a = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(a.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for sockaddr_in6.
            let a = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let (ip, port) = (Ipv6Addr::from(a.sin6_addr.s6_addr), u16::from_be(a.sin6_port));
            Some(match ip.to_ipv4_mapped() {
                Some(v4) => SocketAddrV4::new(v4, port).into(),
                None => SocketAddrV6::new(ip, port, 0, a.sin6_scope_id).into(),
            })
        }
        _ => None,
    }
}

/// Whether a destination takes the kernel's IPv4 path.
pub(super) fn is_v4(address: &SocketAddr) -> bool {
    match address {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(a) => a.ip().to_ipv4_mapped().is_some(),
    }
}
