//! System calls that the standard library and `socket2` do not offer: the crate's only `unsafe`.
//!
//! Everything here is about one thing: filling C structures with pointers into memory that
//! outlives the call. Nothing else of the crate sees a pointer.
#![allow(
    unsafe_code,
    reason = "sendmmsg, recvmmsg, control messages and interface lists have no safe wrapper"
)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Room for the control messages of one datagram: segment size, traffic class and packet info,
/// each in its header and alignment.
const CONTROL_LEN: usize = 128;

/// One datagram's control messages, aligned as `cmsghdr` asks.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; CONTROL_LEN]);

const _: () = assert!(align_of::<libc::cmsghdr>() <= 8);

/// What goes with a datagram (or a GSO batch) on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendMeta {
    pub to: SocketAddr,
    /// Source address, if it is to be chosen.
    pub local: Option<IpAddr>,
    /// The IP traffic class byte: DSCP and ECN.
    pub traffic_class: u8,
    /// Bytes of each datagram when there are several in the buffer.
    pub segment: Option<u16>,
}

/// What came with a datagram (or a GRO batch).
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveMeta {
    pub from: SocketAddr,
    pub local: Option<IpAddr>,
    pub interface: u32,
    pub traffic_class: u8,
    pub len: usize,
    /// Bytes of each datagram; the last may be shorter.
    pub segment: usize,
    pub truncated: bool,
}

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

fn is_v4(address: &SocketAddr) -> bool {
    match address {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(a) => a.ip().to_ipv4_mapped().is_some(),
    }
}

/// Plain C values that may travel as bytes: every bit pattern is valid and there is no padding
/// that is read.
trait Plain: Copy {}
impl Plain for libc::c_int {}
impl Plain for u16 {}
impl Plain for libc::in_pktinfo {}
impl Plain for libc::in6_pktinfo {}
impl Plain for libc::ip_mreqn {}
impl Plain for libc::sock_extended_err {}

struct ControlWriter<'a> {
    control: &'a mut Control,
    used: usize,
}

impl ControlWriter<'_> {
    fn push<T: Plain>(&mut self, level: libc::c_int, kind: libc::c_int, value: &T) {
        let size = size_of::<T>() as libc::c_uint;
        // SAFETY: both only compute with the size.
        let (space, len) = unsafe { (libc::CMSG_SPACE(size), libc::CMSG_LEN(size)) };
        let end = self.used + space as usize;
        assert!(end <= CONTROL_LEN, "CONTROL_LEN holds every combination of messages");
        let at = self.control.0[self.used..end].as_mut_ptr().cast::<libc::cmsghdr>();
        // SAFETY: `at` is inside the buffer with `space` bytes behind it (checked above), and
        // aligned: the buffer is aligned to 8 and `space` is a multiple of the alignment.
        // CMSG_DATA lies `space - padding` bytes inside; the value is written unaligned.
        unsafe {
            (*at).cmsg_level = level;
            (*at).cmsg_type = kind;
            (*at).cmsg_len = len as _;
            ptr::write_unaligned(libc::CMSG_DATA(at).cast::<T>(), *value);
        }
        self.used = end;
    }
}

/// Writes a socket address as the kernel wants it.
fn to_storage(address: &SocketAddr, v6_socket: bool) -> (libc::sockaddr_storage, libc::socklen_t) {
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
fn from_storage(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
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

/// An empty message header: `msghdr` has private padding on some systems.
fn empty_message() -> libc::msghdr {
    // SAFETY: msghdr is plain data; null pointers with zero lengths are valid in it.
    unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() }
}

/// Sends datagrams or GSO batches with one call; returns how many were taken (at least one).
/// At most [`SEND_BATCH`] are looked at.
pub(super) fn send_many(
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

/// Messages in one [`send_many`], at most.
pub(super) const SEND_BATCH: usize = 16;

/// Messages in one [`receive_many`], at most.
pub(super) const RECEIVE_BATCH: usize = 16;

/// Receives datagrams or GRO batches into `buffers` without waiting; `found` takes what came with
/// each. Returns how many buffers were filled; a datagram from no internet address is left out
/// of `found`'s view by a length of 0.
pub(super) fn receive_many(
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
pub(super) fn take_report(fd: RawFd) -> Option<(Option<SocketAddr>, i32)> {
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

/// The value of a control message, if it is long enough to hold one.
///
/// # Safety
/// `at` points at a control message that lies whole in a live buffer.
unsafe fn read<T: Plain>(at: *const libc::cmsghdr) -> Option<T> {
    // SAFETY: by this function's contract the message has cmsg_len bytes; `T` is plain data, so
    // any bytes are a value, and the read does not ask for alignment.
    unsafe {
        // C libraries differ in the type of cmsg_len.
        let needed = u64::from(libc::CMSG_LEN(size_of::<T>() as libc::c_uint));
        ((*at).cmsg_len as u64 >= needed)
            .then(|| ptr::read_unaligned(libc::CMSG_DATA(at).cast::<T>()))
    }
}

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
pub(super) fn set_multicast_interface_v4(fd: RawFd, index: u32) -> io::Result<()> {
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
pub(super) fn dropped(fd: RawFd) -> io::Result<u32> {
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

/// An address of a network interface.
pub(super) struct InterfaceAddress {
    pub name: String,
    pub index: u32,
    pub address: Option<IpAddr>,
}

/// The host's network interfaces, one entry an address.
pub(super) fn interfaces() -> io::Result<Vec<InterfaceAddress>> {
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

/// A timer that becomes readable, finer than epoll's milliseconds.
pub(super) fn timer_create() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a valid result is a new descriptor that nobody else owns.
    unsafe {
        match libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Sets a timer to go off once, after `span` (zero: never).
pub(super) fn timer_set(fd: RawFd, span: std::time::Duration) -> io::Result<()> {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::timespec {
        tv_sec: span.as_secs().try_into().unwrap_or(i32::MAX.into()),
        tv_nsec: span.subsec_nanos().into(),
    };
    let setting = libc::itimerspec { it_interval: never, it_value: value };
    // SAFETY: the kernel reads one live itimerspec; the old setting is not asked for.
    match unsafe { libc::timerfd_settime(fd, 0, &raw const setting, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
