//! The table of peers: hosts and their addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use wellspring_core::HostId;

/// The hosts that sessions name: the endpoint knows them by number, the network by address. Only
/// sessions opened here put hosts in; no datagram does. A host stays as long as a session names
/// it, and no number is used twice.
pub(crate) struct PeerTable {
    by_address: BTreeMap<SocketAddr, Entry>,
    by_host: BTreeMap<HostId, Peer>,
    limit: usize,
    next: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    host: HostId,
    /// Sessions that name it.
    sessions: u32,
}

/// Where a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peer {
    pub address: SocketAddr,
    /// The local address it speaks to, from which it expects to be answered.
    pub local: Option<IpAddr>,
}

impl PeerTable {
    /// A table of at most `limit` hosts; this host itself is number 0.
    pub(super) fn new(limit: usize) -> Self {
        PeerTable { by_address: BTreeMap::new(), by_host: BTreeMap::new(), limit, next: 1 }
    }

    /// Hosts in the table.
    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Hosts in the table, at most.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// A session names this address. `None` if the table is full.
    pub(super) fn add(&mut self, address: SocketAddr) -> Option<HostId> {
        let address = canonical(address);
        if let Some(entry) = self.by_address.get_mut(&address) {
            entry.sessions += 1;
            return Some(entry.host);
        }
        if self.by_address.len() >= self.limit {
            return None;
        }
        let host = HostId(self.next);
        self.next += 1;
        self.by_address.insert(address, Entry { host, sessions: 1 });
        self.by_host.insert(host, Peer { address, local: None });
        Some(host)
    }

    /// A session that named this host is over.
    pub(super) fn release(&mut self, host: HostId) {
        let Some(address) = self.by_host.get(&host).map(|peer| peer.address) else { return };
        let Some(entry) = self.by_address.get_mut(&address) else { return };
        entry.sessions -= 1;
        if entry.sessions == 0 {
            self.by_address.remove(&address);
            self.by_host.remove(&host);
        }
    }

    /// The host at an address.
    pub(crate) fn host(&self, address: SocketAddr) -> Option<HostId> {
        self.by_address.get(&canonical(address)).map(|entry| entry.host)
    }

    /// Where a host is.
    pub(super) fn peer(&self, host: HostId) -> Option<Peer> {
        self.by_host.get(&host).copied()
    }

    /// A host was heard at this local address. The first counts: a forged datagram must not turn
    /// an exchange that works.
    pub(super) fn heard_at(&mut self, host: HostId, local: IpAddr) {
        if let Some(peer) = self.by_host.get_mut(&host) {
            peer.local.get_or_insert(local);
        }
    }
}

impl PeerTable {
    /// A local address is no longer this host's: those heard at it are answered from where the
    /// system chooses, and then from where they are heard next.
    pub(super) fn forget_local(&mut self, local: IpAddr) {
        for peer in self.by_host.values_mut().filter(|peer| peer.local == Some(local)) {
            peer.local = None;
        }
    }
}

/// One form for each address: IPv4 as such, without flow labels, scopes only where they matter.
fn canonical(address: SocketAddr) -> SocketAddr {
    let SocketAddr::V6(v6) = address else { return address };
    match v6.ip().to_ipv4_mapped() {
        Some(v4) => SocketAddr::new(v4.into(), v6.port()),
        None => {
            let scope = if v6.ip().is_unicast_link_local() { v6.scope_id() } else { 0 };
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, scope).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_host_stays_while_sessions_name_it() {
        let mut peers = PeerTable::new(2);
        let a = peers.add(at("192.0.2.1:7")).expect("room");
        assert_eq!(peers.add(at("[::ffff:192.0.2.1]:7")), Some(a));
        let b = peers.add(at("192.0.2.1:8")).expect("room");
        assert_ne!(a, b);
        assert_eq!(peers.add(at("192.0.2.3:7")), None, "full");
        peers.release(a);
        assert_eq!(peers.host(at("192.0.2.1:7")), Some(a));
        peers.release(a);
        assert_eq!(peers.host(at("192.0.2.1:7")), None);
        assert_eq!(peers.peer(a), None);
        peers.release(a);
        let c = peers.add(at("192.0.2.1:7")).expect("room again");
        assert!(c != a && c != b, "numbers are never used twice");
    }

    #[test]
    fn the_first_local_address_counts() {
        let mut peers = PeerTable::new(1);
        let host = peers.add(at("[2001:db8::1]:7")).expect("room");
        peers.heard_at(host, "2001:db8::2".parse().expect("an address"));
        peers.heard_at(host, "2001:db8::3".parse().expect("an address"));
        let local = peers.peer(host).and_then(|p| p.local);
        assert_eq!(local, Some("2001:db8::2".parse().expect("an address")));
        peers.forget_local("2001:db8::3".parse().expect("an address"));
        assert_eq!(peers.peer(host).and_then(|p| p.local), local, "another");
        peers.forget_local("2001:db8::2".parse().expect("an address"));
        assert_eq!(peers.peer(host).and_then(|p| p.local), None);
        peers.heard_at(host, "2001:db8::3".parse().expect("an address"));
        let moved = peers.peer(host).and_then(|p| p.local);
        assert_eq!(moved, Some("2001:db8::3".parse().expect("an address")));
        assert_eq!(peers.host(at("[2001:db8::1%3]:7")), Some(host), "a scope that says nothing");
    }
}
