//! The taps that show trimmed datagrams, if the driver may have any.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use crate::socket::{TrimTap, Trimmed};
use crate::wait::Waiter;

/// Number of the first tap in the poll, beyond any group's.
const FIRST_NUMBER: usize = 1 << 24;

/// A tap for each IP version the driver's socket takes; none where they are not wanted or not
/// allowed.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    /// With the port that each belongs to.
    taps: Vec<(u8, TrimTap)>,
    readable: bool,
}

impl Taps {
    /// Opens and watches the taps for sockets bound to `locals`.
    ///
    /// # Errors
    /// What the system says: [`io::ErrorKind::PermissionDenied`] without the right to open raw
    /// sockets.
    pub(crate) fn open(
        locals: impl Iterator<Item = SocketAddr>,
        waiter: &Waiter,
    ) -> io::Result<Taps> {
        let mut taps = Vec::new();
        for (port, local) in (0..).zip(locals) {
            let both = local.is_ipv6() && local.ip().is_unspecified();
            let versions: &[bool] = if both { &[true, false] } else { &[local.is_ipv6()] };
            for &v6 in versions {
                let tap = TrimTap::open(local.port(), v6)?;
                waiter.watch(tap.as_raw_fd(), FIRST_NUMBER + taps.len())?;
                taps.push((port, tap));
            }
        }
        Ok(Taps { taps, readable: true })
    }

    /// Whether trimmed datagrams are seen.
    pub(crate) fn are_open(&self) -> bool {
        !self.taps.is_empty()
    }

    /// A socket of that number has something to read.
    pub(crate) fn mark_readable(&mut self, number: usize) {
        self.readable |= number >= FIRST_NUMBER;
    }

    /// Hands over what has come to each port, at most `limit`; true if there may be more.
    pub(crate) fn receive(&mut self, limit: usize, mut take: impl FnMut(u8, Trimmed<'_>)) -> bool {
        if !self.readable {
            return false;
        }
        for (port, tap) in &mut self.taps {
            for taken in 0.. {
                if taken == limit {
                    return true;
                }
                let Some(trimmed) = tap.receive() else { break };
                take(*port, trimmed);
            }
        }
        self.readable = false;
        false
    }
}
