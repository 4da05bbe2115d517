//! Many datagrams by one call: `sendmmsg`, `recvmmsg`, and the queue of errors.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;
use std::ptr;

use super::addresses::{from_storage, is_v4, to_storage};
use super::control::{CONTROL_LEN, Control, ControlWriter, read};
use crate::socket::meta::{RECEIVE_BATCH, ReceiveMeta, SEND_BATCH, SendMeta};

/// Fills the control messages of one datagram; returns how many bytes they take.
fn fill_control(control: &mut Control, meta: &SendMeta) -> usize {
    let mut writer = ControlWriter { control, used: 0 };
    let class = libc::c_int::from(meta.traffic_class);
    // A v4-mapped destination takes the kernel's IPv4 path, whatever the socket's own family.
    if is_v4(&meta.to) {
        writer.push(libc::IPPROTO_IP, libc::IP_TOS, &class);
    } else {
        writer.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class);
    }
    match meta.local {
        Some(IpAddr::V4(address)) if is_v4(&meta.to) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from(address).to_be() },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            writer.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        }
        Some(IpAddr::V6(address)) if !is_v4(&meta.to) => {
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr { s6_addr: address.octets() },
                ipi6_ifindex: 0,
            };
            writer.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
        _ => {}
    }
    if let Some(segment) = meta.segment {
        writer.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment);
    }
    writer.used
}

/// An empty message header: `msghdr` has private padding on some systems.
fn empty_message() -> libc::msghdr {
    // SAFETY: msghdr is plain data; null pointers with zero lengths are valid in it.
    unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() }
}

/// Sends datagrams or GSO batches with one call; returns how many were taken (at least one).
/// At most [`SEND_BATCH`] are looked at.
pub(in crate::socket) fn send_many(
    fd: RawFd,
    v6_socket: bool,
    messages: &[(SendMeta, &[u8])],
) -> io::Result<usize> {
    let count = messages.len().min(SEND_BATCH);
    let mut controls = [Control([0; CONTROL_LEN]); SEND_BATCH];
    let mut names = [const { MaybeUninit::<libc::sockaddr_storage>::uninit() }; SEND_BATCH];
    let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; SEND_BATCH];
    let mut headers = [libc::mmsghdr { msg_hdr: empty_message(), msg_len: 0 }; SEND_BATCH];
    for (i, (meta, bytes)) in messages[..count].iter().enumerate() {
        let (name, name_len) = to_storage(&meta.to, v6_socket);
        let name: *mut libc::sockaddr_storage = names[i].write(name);
        vectors[i] = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast::<libc::c_void>(),
            iov_len: bytes.len(),
        };
        let control_len = fill_control(&mut controls[i], meta);
        let message = &mut headers[i].msg_hdr;
        message.msg_name = name.cast();
        message.msg_namelen = name_len;
        message.msg_iov = &raw mut vectors[i];
        message.msg_iovlen = 1;
        message.msg_control = controls[i].0.as_mut_ptr().cast();
        message.msg_controllen = control_len as _;
    }
    // SAFETY: the first `count` headers point at names, vectors and controls that live in this
    // frame, and the vectors at the caller's bytes, which the kernel only reads.
    let sent = unsafe {
        libc::sendmmsg(fd, headers.as_mut_ptr(), count as libc::c_uint, libc::MSG_NOSIGNAL as _)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives datagrams or GRO batches into `buffers` without waiting; `found` takes what came with
/// each. Returns how many buffers were filled; a datagram from no internet address is left out
/// of `found`'s view by a length of 0.
pub(in crate::socket) fn receive_many(
    fd: RawFd,
    buffers: &mut [Box<[u8]>],
    found: &mut Vec<ReceiveMeta>,
) -> io::Result<usize> {
    let count = buffers.len().min(RECEIVE_BATCH);
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; RECEIVE_BATCH];
    let mut names = [const { MaybeUninit::<libc::sockaddr_storage>::zeroed() }; RECEIVE_BATCH];
    let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; RECEIVE_BATCH];
    let mut headers = [libc::mmsghdr { msg_hdr: empty_message(), msg_len: 0 }; RECEIVE_BATCH];
    for (i, buffer) in buffers[..count].iter_mut().enumerate() {
        vectors[i] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let message = &mut headers[i].msg_hdr;
        message.msg_name = names[i].as_mut_ptr().cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        message.msg_iov = &raw mut vectors[i];
        message.msg_iovlen = 1;
        message.msg_control = controls[i].as_mut_ptr().cast();
        message.msg_controllen = CONTROL_LEN as _;
    }
    // SAFETY: the first `count` headers point at names, vectors and controls that live in this
    // frame and at the caller's buffers, each borrowed exclusively, with their true lengths.
    let filled = unsafe {
        libc::recvmmsg(
            fd,
            headers.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        )
    };
    let filled = usize::try_from(filled).map_err(|_| io::Error::last_os_error())?;
    found.clear();
    for (header, name) in headers[..filled].iter().zip(&names) {
        // SAFETY: zeroed, then written by the kernel: plain data, valid either way.
        let name = unsafe { name.assume_init_ref() };
        // SAFETY: the kernel has filled this header's control buffer, which is still alive.
        found.push(unsafe { received(header, name) });
    }
    Ok(filled)
}

/// Takes one report out of a socket's error queue (ip(7), `IP_RECVERR`): where the datagram went
/// that an ICMP message is about, and the error it stands for. `None` if there is no report.
pub(in crate::socket) fn take_report(fd: RawFd) -> Option<(Option<SocketAddr>, i32)> {
    let mut control = Control([0; CONTROL_LEN]);
    let mut name = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    // Of the datagram itself nothing is wanted.
    let mut payload = [0_u8; 1];
    let mut vector = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    let mut message = empty_message();
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_LEN as _;
    // SAFETY: the header points at a name, a vector and a control buffer that live in this frame,
    // each borrowed exclusively, with their true lengths.
    let got =
        unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    if got < 0 {
        return None;
    }
    // SAFETY: zeroed, then written by the kernel: plain data, valid either way.
    let to = from_storage(unsafe { name.assume_init_ref() });
    let mut errno = 0;
    // SAFETY: the kernel has filled the control buffer and set msg_controllen to what it wrote; the
    // CMSG functions stay within, and `read` checks each message's own length.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const message);
        while !at.is_null() {
            let kind = ((*at).cmsg_level, (*at).cmsg_type);
            if matches!(
                kind,
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            ) && let Some(report) = read::<libc::sock_extended_err>(at)
                && matches!(report.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6)
            {
                errno = report.ee_errno as i32;
            }
            at = libc::CMSG_NXTHDR(&raw const message, at);
        }
    }
    Some((to, errno))
}

/// Reads what came with one message.
///
/// # Safety
/// `header` was filled by `recvmmsg` and its control buffer is alive.
unsafe fn received(header: &libc::mmsghdr, name: &libc::sockaddr_storage) -> ReceiveMeta {
    let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let from = from_storage(name);
    let len = if from.is_some() { header.msg_len as usize } else { 0 };
    let mut meta = ReceiveMeta {
        from: from.unwrap_or(nowhere),
        local: None,
        interface: 0,
        traffic_class: 0,
        len,
        segment: len,
        truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
    };
    // SAFETY: by this function's contract; the CMSG functions stay within msg_controllen, which
    // the kernel set to what it wrote, and `read` checks each message's own length.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const header.msg_hdr);
        while !at.is_null() {
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    // The kernel writes an int here, where UDP_SEGMENT takes a u16.
                    let segment = read::<libc::c_int>(at).unwrap_or(0);
                    meta.segment = usize::try_from(segment).unwrap_or(0);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    // One byte on receive, an int on send.
                    meta.traffic_class = *libc::CMSG_DATA(at);
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    meta.traffic_class = read::<libc::c_int>(at).unwrap_or(0) as u8;
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    if let Some(info) = read::<libc::in_pktinfo>(at) {
                        let address = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr));
                        meta.local = Some(address.into());
                        meta.interface = info.ipi_ifindex as u32;
                    }
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    if let Some(info) = read::<libc::in6_pktinfo>(at) {
                        let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                        // An IPv4 datagram on a dual socket brings both kinds of packet info.
                        meta.local.get_or_insert(match address.to_ipv4_mapped() {
                            Some(v4) => v4.into(),
                            None => address.into(),
                        });
                        meta.interface = info.ipi6_ifindex;
                    }
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(&raw const header.msg_hdr, at);
        }
    }
    if meta.segment == 0 {
        meta.segment = meta.len;
    }
    meta
}
