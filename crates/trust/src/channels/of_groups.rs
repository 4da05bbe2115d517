//! Keys of groups in a host's table of channels.

use std::net::SocketAddr;

use super::{Channels, Opened};
use crate::channel::ChannelId;
use crate::direction::{Closed, Shape};
use crate::groups::GroupKey;

impl Channels {
    /// From now on this key seals a session's symbols for a group; false if there are too many such keys.
    pub fn send_to_group(&mut self, group: SocketAddr, session: u32, key: &GroupKey) -> bool {
        self.groups.send(group, session, key)
    }

    /// From now on this key opens the symbols of a session that `sender` sends to a group; false if there are too many
    /// such keys.
    pub fn receive_from_group(&mut self, sender: SocketAddr, session: u32, key: GroupKey) -> bool {
        self.groups.receive(sender, session, key)
    }

    /// Whether a session's symbols are opened here by keys of a group.
    pub fn receives_from_group(&self, sender: SocketAddr, session: u32) -> bool {
        self.groups.receives(sender, session)
    }

    /// Forgets the keys of a session's group. `address` is the group's where this host sends, or else the sender's.
    pub fn forget_group(&mut self, address: SocketAddr, session: u32) {
        self.groups.forget(address, session);
    }

    /// Seals a symbol for a group, as [`seal`](Self::seal) does for one host. `None` if there is no key for it.
    pub fn seal_for_group(
        &mut self,
        of: (SocketAddr, u32),
        room: &mut [u8],
        len: usize,
        clear: usize,
    ) -> Option<usize> {
        let sealed = self.groups.seal(of, room, len, clear);
        match sealed {
            Some(_) => self.counters.sealed += 1,
            None => self.counters.unsent += 1,
        }
        sealed
    }

    /// Opens a symbol of a session that its sender, at the first address, has sent to a group. `None` if it does not
    /// claim to be sealed by a group's key, and then it may be by a [channel](Self::open).
    pub fn open_of_group(
        &mut self,
        of: (SocketAddr, u32),
        datagram: &[u8],
        shape: Shape,
        plain: &mut [u8],
    ) -> Option<Opened> {
        let opened = self.groups.open(of, datagram, shape, plain)?;
        Some(match opened {
            Ok(found) => Opened::Datagram { len: self.count(found), via: ChannelId::GROUP },
            Err(closed) => {
                let replayed = closed == Closed::Replayed;
                let counters = &mut self.counters;
                *(if replayed { &mut counters.replayed } else { &mut counters.forged }) += 1;
                Opened::Nothing
            }
        })
    }
}
