//! Socket options.

use std::io;
use std::mem::size_of;
use std::os::fd::RawFd;
use std::ptr;

use super::control::Plain;

/// Sets an integer socket option.
pub(super) fn set_option(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set_plain(fd, level, name, &value)
}

/// Chooses the interface of outgoing IPv4 multicast by index.
pub(in crate::socket) fn set_multicast_interface_v4(fd: RawFd, index: u32) -> io::Result<()> {
    let any = libc::in_addr { s_addr: 0 };
    let request =
        libc::ip_mreqn { imr_multiaddr: any, imr_address: any, imr_ifindex: index as libc::c_int };
    set_plain(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
}

fn set_plain<T: Plain>(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of a live value.
    let outcome = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has a program choose which of the sockets at an address and port gets a datagram, by the order in which they were
/// bound. `fd` is one of them.
pub(in crate::socket) fn set_chooser(fd: RawFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = program.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program points at as many instructions as it says, alive during the call; the kernel only reads and
    // copies them.
    let outcome = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            ptr::from_ref(&program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an integer socket option.
pub(super) fn option(fd: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into a live integer.
    let outcome =
        unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    if outcome == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Datagrams that the system dropped because a socket's buffer was full, since it was opened.
pub(in crate::socket) fn dropped(fd: RawFd) -> io::Result<u32> {
    // The last of the values of `linux/sock_diag.h`, SK_MEMINFO_DROPS.
    let mut values = [0_u32; 9];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into a live array of integers.
    let outcome = unsafe {
        let to = values.as_mut_ptr().cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, to, &raw mut len)
    };
    match outcome {
        0 if len as usize == size_of_val(&values) => Ok(values[8]),
        0 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}
