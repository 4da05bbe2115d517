//! The taps that show trimmed datagrams, if the driver may have any.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use crate::socket::{TrimTap, Trimmed};
use crate::wait::Waiter;

/// Number of the first tap in the poll, beyond any group's.
const FIRST_NUMBER: usize = 1 << 24;

/// A tap.
#[derive(Debug)]
struct Tap {
    /// The number of the driver's port that its datagrams belong to.
    port: u8,
    /// What it shows datagrams for.
    udp_port: u16,
    v6: bool,
    /// The groups that are heard by it; none of a port of the driver's own, which stays.
    groups: Vec<SocketAddr>,
    tap: TrimTap,
}

/// A tap for each IP version and port that the driver's sockets take, those of groups included; none where they
/// are not wanted or not allowed.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    taps: Vec<Tap>,
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
        let mut taps = Taps { taps: Vec::new(), readable: true };
        for (port, local) in (0..).zip(locals) {
            taps.add_port(waiter, port, local)?;
        }
        Ok(taps)
    }

    fn add_port(&mut self, waiter: &Waiter, port: u8, local: SocketAddr) -> io::Result<()> {
        let both = local.is_ipv6() && local.ip().is_unspecified();
        let versions: &[bool] = if both { &[true, false] } else { &[local.is_ipv6()] };
        versions.iter().try_for_each(|&v6| self.add(waiter, port, (local.port(), v6), Vec::new()))
    }

    /// Shows trimmed datagrams of a further port, if those of the others are seen.
    pub(crate) fn extend(&mut self, waiter: &Waiter, port: u8, local: SocketAddr) {
        if self.are_open()
            && let Err(error) = self.add_port(waiter, port, local)
        {
            tracing::warn!("trimmed datagrams of a further port will not be seen: {error}");
        }
    }

    fn add(
        &mut self,
        waiter: &Waiter,
        port: u8,
        (udp_port, v6): (u16, bool),
        groups: Vec<SocketAddr>,
    ) -> io::Result<()> {
        let tap = TrimTap::open(udp_port, v6)?;
        // Which of the taps is readable is not told apart.
        waiter.watch(tap.as_raw_fd(), FIRST_NUMBER)?;
        self.taps.push(Tap { port, udp_port, v6, groups, tap });
        self.readable = true;
        Ok(())
    }

    /// Shows trimmed datagrams of a group, too, whose port is another, if those of the driver's own are seen.
    pub(crate) fn join(&mut self, waiter: &Waiter, group: SocketAddr) {
        if !self.are_open() {
            return;
        }
        let of = (group.port(), group.is_ipv6());
        if let Some(tap) = self.taps.iter_mut().find(|tap| (tap.udp_port, tap.v6) == of) {
            if !tap.groups.is_empty() {
                tap.groups.push(group);
            }
            return;
        }
        if let Err(error) = self.add(waiter, 0, of, vec![group]) {
            tracing::warn!("trimmed datagrams of the group {group} will not be seen: {error}");
        }
    }

    /// A group is left.
    pub(crate) fn leave(&mut self, waiter: &Waiter, group: SocketAddr) {
        self.taps.retain_mut(|tap| {
            let heard = tap.groups.len();
            tap.groups.retain(|joined| *joined != group);
            let unused = heard > 0 && tap.groups.is_empty();
            if unused {
                // Closing it ends the watch in any case.
                let _ = waiter.forget(tap.tap.as_raw_fd());
            }
            !unused
        });
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
        for Tap { port, tap, .. } in &mut self.taps {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_one_tap_for_all_groups_as_long_as_one_is_joined() {
        let waiter = Waiter::new(false).expect("a poll");
        let own: SocketAddr = "127.0.0.1:4711".parse().expect("an address");
        let mut taps = match Taps::open([own].into_iter(), &waiter) {
            Ok(taps) => taps,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                assert!(std::env::var_os("CI").is_none(), "CI has the right to open raw sockets");
                eprintln!("not checked, raw sockets are not allowed: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let group = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let (one, two) = (group("239.255.78.1:4712"), group("239.255.78.2:4712"));
        let same_port = group("239.255.78.3:4711");
        for (joined, open) in [(one, 2), (two, 2), (same_port, 2)] {
            taps.join(&waiter, joined);
            assert_eq!(taps.taps.len(), open, "{joined}");
        }
        for (left, open) in [(one, 2), (same_port, 2), (two, 1)] {
            taps.leave(&waiter, left);
            assert_eq!(taps.taps.len(), open, "{left}");
        }
        let mut none = Taps::default();
        none.join(&waiter, one);
        assert!(!none.are_open(), "trimmed datagrams are not wanted");
    }
}
