//! Control messages of datagrams, one after the other in a buffer (cmsg(3)).

use std::mem::size_of;
use std::ptr;

/// Room for the control messages of one datagram: segment size, traffic class and packet info,
/// each in its header and alignment.
pub(super) const CONTROL_LEN: usize = 128;

/// One datagram's control messages, aligned as `cmsghdr` asks.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL_LEN]);

const _: () = assert!(align_of::<libc::cmsghdr>() <= 8);

/// Plain C values that may travel as bytes: every bit pattern is valid and there is no padding
/// that is read.
pub(super) trait Plain: Copy {}
impl Plain for libc::c_int {}
impl Plain for u16 {}
impl Plain for libc::in_pktinfo {}
impl Plain for libc::in6_pktinfo {}
impl Plain for libc::ip_mreqn {}
impl Plain for libc::sock_extended_err {}

/// Control messages being written one after the other.
pub(super) struct ControlWriter<'a> {
    pub(super) control: &'a mut Control,
    pub(super) used: usize,
}

impl ControlWriter<'_> {
    /// Adds a message.
    pub(super) fn push<T: Plain>(&mut self, level: libc::c_int, kind: libc::c_int, value: &T) {
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

/// The value of a control message, if it is long enough to hold one.
///
/// # Safety
/// `at` points at a control message that lies whole in a live buffer.
pub(super) unsafe fn read<T: Plain>(at: *const libc::cmsghdr) -> Option<T> {
    // SAFETY: by this function's contract the message has cmsg_len bytes; `T` is plain data, so
    // any bytes are a value, and the read does not ask for alignment.
    unsafe {
        // C libraries differ in the type of cmsg_len.
        let needed = u64::from(libc::CMSG_LEN(size_of::<T>() as libc::c_uint));
        ((*at).cmsg_len as u64 >= needed)
            .then(|| ptr::read_unaligned(libc::CMSG_DATA(at).cast::<T>()))
    }
}
