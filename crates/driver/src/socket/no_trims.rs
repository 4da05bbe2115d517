//! Trimmed datagrams, which other systems than Linux do not show.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

/// A trimmed datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trimmed<'a> {
    /// Who sent it, by its own account.
    pub from: SocketAddr,
    /// What is left behind the UDP header.
    pub bytes: &'a [u8],
}

/// A socket that shows trimmed datagrams for one port: there is none.
#[derive(Debug)]
pub struct TrimTap(Infallible);

impl TrimTap {
    /// Opens a tap for datagrams to that port, of IPv6 or of IPv4.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`].
    pub fn open(_port: u16, _v6: bool) -> io::Result<TrimTap> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The next trimmed datagram.
    pub fn receive(&mut self) -> Option<Trimmed<'_>> {
        match self.0 {}
    }
}

impl AsRawFd for TrimTap {
    fn as_raw_fd(&self) -> RawFd {
        match self.0 {}
    }
}
