//! Packet capture on an interface through a packet socket's ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::sys::{self, Ring, See};

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// It leaves by the interface.
    Out,
    /// It came in for this machine to take or forward.
    In,
    /// It came in for another machine.
    Elsewhere,
}

/// A packet as it passes.
pub(crate) struct Seen<'a> {
    pub bytes: &'a mut [u8],
    pub way: Way,
    /// EtherType.
    pub protocol: u16,
    /// Protocol identifier and control information of its VLAN tag, which is not among the bytes.
    pub vlan: Option<(u16, u16)>,
    /// When it passed, in the time of day.
    pub stamp: Duration,
    /// It does not look as on the wire: cut, or without its checksum.
    pub unlike: bool,
    /// Others may have passed unseen just before.
    pub after_unseen: bool,
}

impl Seen<'_> {
    /// Whether it belongs to a VLAN on the interface, which is a network of its own. A tag without a VLAN only has a priority.
    pub(crate) fn is_of_vlan(&self) -> bool {
        self.vlan.is_some_and(|(_, control)| control & 0x0fff != 0)
    }
}

/// An interface that is watched.
pub(crate) struct Capture {
    // Before the socket, so that the memory goes before what it belongs to.
    ring: Ring,
    socket: OwnedFd,
    drops: u64,
}

impl Capture {
    /// Watches those IP packets of an interface, both ways, that the filter takes.
    pub(crate) fn packets(
        index: u32,
        longest: usize,
        memory: usize,
        filter: &[libc::sock_filter],
    ) -> io::Result<Self> {
        Self::open(See::Packets, index, longest, memory, Some(filter))
    }

    /// Watches all frames that come in, whoever they are for.
    pub(crate) fn frames(index: u32, longest: usize, memory: usize) -> io::Result<Self> {
        Self::open(See::Frames, index, longest, memory, None)
    }

    fn open(
        see: See,
        index: u32,
        longest: usize,
        memory: usize,
        filter: Option<&[libc::sock_filter]>,
    ) -> io::Result<Self> {
        let socket = sys::packet_socket(see)?;
        if see == See::Frames {
            sys::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        }
        // Before anything can be seen.
        if let Some(filter) = filter {
            sys::attach_filter(socket.as_fd(), filter)?;
        }
        let ring = Ring::new(socket.as_fd(), longest, memory)?;
        sys::bind_packet(socket.as_fd(), index, true)?;
        if see == See::Frames {
            let promiscuous = libc::packet_mreq {
                mr_ifindex: index as libc::c_int,
                mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            let name = libc::PACKET_ADD_MEMBERSHIP;
            sys::set_option(socket.as_fd(), libc::SOL_PACKET, name, &promiscuous)?;
        }
        Ok(Capture { ring, socket, drops: 0 })
    }

    /// The next packet, if one has passed; the one before is gone.
    pub(crate) fn next(&mut self) -> Option<Seen<'_>> {
        let packet = self.ring.next()?;
        Some(Seen {
            bytes: packet.bytes,
            way: match packet.kind {
                libc::PACKET_OUTGOING => Way::Out,
                libc::PACKET_HOST => Way::In,
                _ => Way::Elsewhere,
            },
            protocol: packet.protocol,
            vlan: packet.vlan,
            stamp: packet.stamp,
            unlike: packet.cut || packet.checksum_pending,
            after_unseen: packet.after_drops,
        })
    }

    /// Waits for a packet, but not longer than that.
    pub(crate) fn wait(&self, at_most: Duration) {
        sys::wait_readable(self.socket.as_fd(), at_most);
    }

    /// Packets that passed unseen because the ring was full.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// Counts those since the last call; whether there were any. Packets that pass from now on are not marked for them.
    pub(crate) fn count_drops(&mut self) -> bool {
        let drops = sys::ring_drops(self.socket.as_fd());
        self.drops += drops;
        drops > 0
    }

    /// To wait for packets, beside other things.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Packets that the ring holds.
    pub(crate) fn capacity(&self) -> usize {
        self.ring.frames()
    }
}
