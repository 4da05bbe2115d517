//! System calls without a safe wrapper: the crate's only `unsafe`.
//!
//! A packet socket's receive ring, which is memory shared with the kernel; batches of datagrams;
//! socket options and requests that take a structure. Nothing else of the crate sees a pointer.
#![allow(
    unsafe_code,
    reason = "packet rings, sendmmsg, ppoll and interface requests have no safe wrapper"
)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use socket2::SockAddr;
use wellspring_codec::kernels::prefetch;

/// Datagrams in one system call, at most.
pub(crate) const SEND_BATCH: usize = 64;

/// How the kernel aligns what stands before a packet in a ring's frame.
const ALIGNMENT: usize = 16;
/// Where the packet's link-layer address stands in a frame.
const ADDRESS_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(ALIGNMENT);
/// What a frame has besides the packet, with some room for the link's header \[bytes\].
pub(crate) const FRAME_OVERHEAD: usize =
    (ADDRESS_AT + size_of::<libc::sockaddr_ll>() + 64).next_multiple_of(ALIGNMENT);

/// What a packet socket is to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum See {
    /// IP packets both ways, without the link's header.
    Packets,
    /// Frames that come in, whoever they are for, with the link's header.
    Frames,
}

/// Opens a packet socket that sees nothing yet.
pub(crate) fn packet_socket(see: See) -> io::Result<OwnedFd> {
    let kind = match see {
        See::Packets => libc::SOCK_DGRAM,
        See::Frames => libc::SOCK_RAW,
    };
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds a packet socket to an interface; `all` lets it see packets of every protocol, otherwise it
/// only sends.
pub(crate) fn bind_packet(fd: BorrowedFd<'_>, index: u32, all: bool) -> io::Result<()> {
    // SAFETY: plain data, for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = if all { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
    address.sll_ifindex = index as libc::c_int;
    // SAFETY: the address is alive and as long as stated.
    check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })
}

/// Structures that may go to the kernel as bytes: plain C values.
pub(crate) trait Plain: Copy {}
impl Plain for libc::c_int {}
impl Plain for libc::tpacket_req {}
impl Plain for libc::packet_mreq {}

/// Sets a socket option.
pub(crate) fn set_option<T: Plain>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value is alive and as long as stated.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
}

/// Lets a socket receive only what a program takes; the rest is dropped without an answer.
pub(crate) fn attach_filter(fd: BorrowedFd<'_>, code: &[libc::sock_filter]) -> io::Result<()> {
    let len = code.len().try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len, filter: code.as_ptr().cast_mut() };
    // SAFETY: the program points at as many instructions as it says, alive during the call; the
    // kernel only reads and copies them.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            ptr::from_ref(&program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })
}

/// Packets a ring had no room for, since the last call.
pub(crate) fn ring_drops(fd: BorrowedFd<'_>) -> u64 {
    // SAFETY: plain data, for which zeros are valid.
    let mut stats: libc::tpacket_stats = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into the structure.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            ptr::from_mut(&mut stats).cast(),
            &raw mut len,
        )
    };
    if result == 0 { u64::from(stats.tp_drops) } else { 0 }
}

/// What a TCP connection has heard of its other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpHeard {
    /// Probes, of an idle connection or a window of zero, that were not answered.
    pub probes: u8,
    /// Since data was sent last, again or for the first time.
    pub since_sent: Duration,
    /// Since an acknowledgement came.
    pub since_heard: Duration,
}

/// What a TCP socket has heard of its other end; none if it is no such socket.
pub(crate) fn tcp_heard(fd: RawFd) -> Option<TcpHeard> {
    // SAFETY: plain data, for which zeros are valid.
    let mut info: libc::tcp_info = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into the structure, whatever the descriptor is.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            ptr::from_mut(&mut info).cast(),
            &raw mut len,
        )
    };
    (result == 0).then(|| TcpHeard {
        probes: info.tcpi_probes,
        since_sent: Duration::from_millis(info.tcpi_last_data_sent.into()),
        since_heard: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    })
}

/// A packet in a ring.
pub(crate) struct RingPacket<'a> {
    pub bytes: &'a mut [u8],
    /// It was longer.
    pub cut: bool,
    /// Its transport checksum is not computed yet.
    pub checksum_pending: bool,
    /// `PACKET_HOST`, `PACKET_OUTGOING`, ...
    pub kind: u8,
    /// EtherType.
    pub protocol: u16,
    /// Protocol identifier and control information of the VLAN tag that the kernel took out of the frame.
    pub vlan: Option<(u16, u16)>,
    /// When it passed, in the time of day.
    pub stamp: Duration,
    /// Others before it had no room, unless [`ring_drops`] has been called since.
    pub after_drops: bool,
}

/// The receive ring of a packet socket: frames that the kernel fills and the program hands back.
pub(crate) struct Ring {
    base: NonNull<u8>,
    len: usize,
    frame: usize,
    frames: usize,
    next: usize,
    /// Whether the frame before `next` is still the program's.
    held: bool,
}

// SAFETY: the mapping belongs to this value alone; it can be used from whichever thread owns it.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of at least `bytes` bytes, for packets of at most `longest` bytes.
    pub(crate) fn new(fd: BorrowedFd<'_>, longest: usize, bytes: usize) -> io::Result<Self> {
        let frame = (longest + FRAME_OVERHEAD).next_power_of_two();
        let block = frame.max(1 << 16);
        let blocks = bytes.div_ceil(block).max(2);
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame as u32,
            tp_frame_nr: (blocks * block / frame) as u32,
        };
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let len = blocks * block;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("no mapping"))?;
        Ok(Ring { base, len, frame, frames: len / frame, next: 0, held: false })
    }

    /// How many packets it holds.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// The next packet, if there is one; the one before goes back to the kernel.
    pub(crate) fn next(&mut self) -> Option<RingPacket<'_>> {
        if self.held {
            self.held = false;
            let last = (self.next + self.frames - 1) % self.frames;
            self.status(last).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        let status = self.status(self.next).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let start = self.next * self.frame;
        self.next = (self.next + 1) % self.frames;
        self.held = true;
        self.ask_for(self.next);
        // SAFETY: the frame lies within the mapping; the kernel has filled its header and address
        // and, as its status says, leaves it alone until it is handed back, which needs `&mut
        // self` and so ends the borrow of the packet. Both structures are plain data at an
        // alignment of 16. Offset and length are held against the frame's size.
        unsafe {
            let at = self.base.as_ptr().add(start);
            let header = &*at.cast::<libc::tpacket2_hdr>();
            let address = &*at.add(ADDRESS_AT).cast::<libc::sockaddr_ll>();
            let offset = usize::from(header.tp_mac).min(self.frame);
            let len = (header.tp_snaplen as usize).min(self.frame - offset);
            Some(RingPacket {
                bytes: std::slice::from_raw_parts_mut(at.add(offset), len),
                cut: header.tp_len > header.tp_snaplen,
                checksum_pending: status & libc::TP_STATUS_CSUMNOTREADY != 0,
                kind: address.sll_pkttype,
                protocol: u16::from_be(address.sll_protocol),
                vlan: vlan_tag(status, header),
                after_drops: status & libc::TP_STATUS_LOSING != 0,
                stamp: Duration::new(header.tp_sec.into(), header.tp_nsec.min(999_999_999)),
            })
        }
    }

    /// Brings a packet into the caches while the one before it is looked at, if it is there already.
    fn ask_for(&self, frame: usize) {
        if self.status(frame).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return;
        }
        // SAFETY: the frame lies within the mapping; the kernel has filled it and, as its status says,
        // leaves it alone. The reference ends before anything is written there.
        unsafe {
            let at = self.base.as_ptr().add(frame * self.frame);
            let header = &*at.cast::<libc::tpacket2_hdr>();
            let offset = usize::from(header.tp_mac).min(self.frame);
            let len = (header.tp_snaplen as usize).min(self.frame - offset);
            prefetch(std::slice::from_raw_parts(at.add(offset), len));
        }
    }

    fn status(&self, frame: usize) -> &AtomicU32 {
        // SAFETY: `tp_status` is the first field of a frame's header, within the mapping and
        // aligned; both sides use it atomically.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(frame * self.frame).cast()) }
    }
}

/// The VLAN tag of a packet, which the kernel keeps beside it.
fn vlan_tag(status: u32, header: &libc::tpacket2_hdr) -> Option<(u16, u16)> {
    let named = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let protocol = if named { header.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
    (status & libc::TP_STATUS_VLAN_VALID != 0).then_some((protocol, header.tp_vlan_tci))
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, used by nobody else.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Sends with one call; returns how many were taken. At most [`SEND_BATCH`] are looked at. The
/// address is not needed on a bound packet socket and on a connected one.
pub(crate) fn send_many(
    fd: BorrowedFd<'_>,
    messages: &[(&[u8], Option<SockAddr>)],
) -> io::Result<usize> {
    let count = messages.len().min(SEND_BATCH);
    let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; SEND_BATCH];
    // SAFETY: plain data; null pointers with zero lengths are valid in it.
    let empty: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut headers = [libc::mmsghdr { msg_hdr: empty, msg_len: 0 }; SEND_BATCH];
    for (i, (bytes, address)) in messages[..count].iter().enumerate() {
        vectors[i].iov_base = bytes.as_ptr().cast_mut().cast();
        vectors[i].iov_len = bytes.len();
        let message = &mut headers[i].msg_hdr;
        message.msg_iov = &raw mut vectors[i];
        message.msg_iovlen = 1;
        if let Some(address) = address {
            message.msg_name = address.as_ptr().cast_mut().cast();
            message.msg_namelen = address.len();
        }
    }
    // SAFETY: the first `count` headers point at vectors of this frame and at the caller's bytes and
    // addresses, all alive during the call, which only reads them.
    let sent = unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_NOSIGNAL as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Waits until there is something to read, but not longer than that.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, at_most: Duration) {
    wait_any(&[fd], at_most);
}

/// Waits until there is something to read from any of them, but not longer than that.
pub(crate) fn wait_any(fds: &[BorrowedFd<'_>], at_most: Duration) {
    let entry =
        |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polled: Vec<libc::pollfd> = fds.iter().map(entry).collect();
    let time = libc::timespec {
        tv_sec: at_most.as_secs() as _,
        tv_nsec: at_most.subsec_nanos() as libc::c_long,
    };
    // SAFETY: as many entries as stated and a time, alive during the call. An error is an early
    // return.
    unsafe {
        libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &raw const time, ptr::null())
    };
}

/// Makes a tunnel interface, which is gone when the file is closed: what the kernel routes into it is
/// read from the file, without waiting.
pub(crate) fn open_tunnel(name: &str) -> io::Result<File> {
    let mut options = File::options();
    let options = options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open("/dev/net/tun")?;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    ioctl(file.as_fd(), libc::TUNSETIFF as libc::c_ulong, &mut request)?;
    Ok(file)
}

/// Asks the kernel to wake this thread when it is due, not up to 50 us later.
pub(crate) fn wake_exactly() {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000 as libc::c_ulong, 0, 0, 0) };
}

/// Runs this thread before all that are not in a hurry.
pub(crate) fn run_first() -> io::Result<()> {
    // SAFETY: plain integers, of which C libraries have different ones.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = 10;
    // SAFETY: the parameter is alive; 0 is this thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) })
}

/// Gives back to the kernel what was allocated once and is free now. GNU's C library keeps it if anything newer is in use;
/// others do not.
pub(crate) fn give_back_memory() {
    // SAFETY: no pointers; it takes the allocator's own locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Index of an interface.
pub(crate) fn interface_index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a string that ends in zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// A request about an interface, with its name filled in.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn ioctl(fd: BorrowedFd<'_>, code: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the request is alive; what it may point at is the caller's and alive too.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), code as _, ptr::from_mut(request)) })
}

/// Largest packet of an interface \[bytes\].
pub(crate) fn interface_mtu(fd: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    let mut request = request(name)?;
    ioctl(fd, libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: the request that was made writes this field.
    Ok(unsafe { request.ifr_ifru.ifru_mtu }.max(0) as usize)
}

/// Whether an interface is up.
pub(crate) fn interface_is_up(fd: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    let mut request = request(name)?;
    ioctl(fd, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the request that was made writes this field.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(libc::c_int::from(flags) & libc::IFF_UP != 0)
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Asks or sets one value by ethtool's interface; returns what is there afterwards.
pub(crate) fn ethtool(fd: BorrowedFd<'_>, name: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data };
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut value).cast();
    ioctl(fd, libc::SIOCETHTOOL, &mut request)?;
    Ok(value.data)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Memory of this process that is no file's \[KiB\].
    fn own_memory() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    #[test]
    fn memory_that_is_free_goes_back_although_something_newer_is_in_use() {
        let pages: Vec<Vec<u8>> = (0..32_000).map(|_| vec![1; 1_000]).collect();
        let newer = vec![1; 1_000];
        let most = own_memory();
        drop(pages);
        give_back_memory();
        assert!(own_memory() + 20_000 < most, "{} of {most} KiB", own_memory());
        drop(newer);
    }
}
