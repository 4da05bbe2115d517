//! The table of peers: hosts and their addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use wellspring_core::HostId;
use wellspring_trust::Fingerprint;

use crate::network::ports::FirstPorts;

/// The hosts that sessions name: the endpoint knows them by number, the network by address. Only
/// sessions opened here put hosts in; no datagram does. A host stays as long as a session names
/// it, and no number is used twice.
pub(crate) struct PeerTable {
    by_address: BTreeMap<SocketAddr, Entry>,
    by_host: BTreeMap<HostId, Peer>,
    /// Where hosts are by further paths: those that they have shown, and their further addresses.
    paths: BTreeMap<(HostId, u16), Peer>,
    limit: usize,
    next: u32,
    /// Ports of this host that lead to every other: paths to one that has not shown paths. Each port beyond is the path
    /// of its number to hosts that have further addresses.
    ports: u8,
    firsts: Arc<FirstPorts>,
}

#[derive(Clone, Copy)]
struct Entry {
    host: HostId,
    /// The host's path: 0, one that it has shown, or the first to this address of its.
    path: u16,
    /// Sessions that name it.
    sessions: u32,
}

/// Where a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    /// The local address it speaks to, from which it expects to be answered.
    pub local: Option<IpAddr>,
    /// Which of this host's ports it speaks to.
    pub port: u8,
    /// The key that the sessions which name it belong to: they are nobody else's, whoever has its address.
    pub key: Option<Fingerprint>,
}

/// Why a session cannot name an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotNamed {
    Full,
    /// Sessions that name it belong to another key.
    OfAnotherKey,
}

impl PeerTable {
    /// A table of at most `limit` hosts; this host itself is number 0 and has so many ports that lead to all.
    pub(crate) fn new(limit: usize, ports: u8, firsts: Arc<FirstPorts>) -> Self {
        PeerTable {
            by_address: BTreeMap::new(),
            by_host: BTreeMap::new(),
            paths: BTreeMap::new(),
            limit,
            next: 1,
            ports,
            firsts,
        }
    }

    /// Hosts in the table.
    pub(crate) fn len(&self) -> usize {
        self.by_host.len()
    }

    /// Hosts in the table, at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// A session of that key's names this address.
    ///
    /// # Errors
    /// The table is full, or sessions there are another key's.
    pub(crate) fn add(
        &mut self,
        address: SocketAddr,
        key: Option<Fingerprint>,
    ) -> Result<HostId, NotNamed> {
        let address = canonical(address);
        if let Some(entry) = self.by_address.get_mut(&address).filter(|entry| entry.path == 0) {
            if self.by_host.get(&entry.host).is_some_and(|peer| peer.key != key) {
                return Err(NotNamed::OfAnotherKey);
            }
            entry.sessions += 1;
            return Ok(entry.host);
        }
        if self.by_host.len() >= self.limit {
            return Err(NotNamed::Full);
        }
        // What was another host's path is a host of its own now.
        if let Some(Entry { host, .. }) = self.by_address.remove(&address) {
            self.paths.retain(|(of, _), peer| *of != host || peer.address != address);
        }
        let host = HostId(self.next);
        self.next += 1;
        self.by_address.insert(address, Entry { host, path: 0, sessions: 1 });
        let port = self.firsts.of(address) % self.ports;
        self.by_host.insert(host, Peer { address, local: None, port, key });
        Ok(host)
    }

    /// A session that named this host is over.
    pub(crate) fn release(&mut self, host: HostId) {
        let Some(address) = self.by_host.get(&host).map(|peer| peer.address) else { return };
        let Some(entry) = self.by_address.get_mut(&address) else { return };
        entry.sessions -= 1;
        if entry.sessions == 0 {
            self.by_address.remove(&address);
            self.by_host.remove(&host);
            for ((_, path), peer) in
                self.paths.extract_if((host, 0)..=(host, u16::MAX), |_, _| true)
            {
                debug_assert!(path > 0);
                self.by_address.remove(&peer.address);
            }
        }
    }

    /// A host is also at another address, by that port of this one's: the first, if the host has shown it, or one
    /// beyond those that lead to all. False if the address is another host's.
    pub(crate) fn add_path(
        &mut self,
        host: HostId,
        path: u16,
        (address, port): (SocketAddr, u8),
    ) -> bool {
        let address = canonical(address);
        let Some(Peer { key, .. }) = self.by_host.get(&host).copied().filter(|_| path > 0) else {
            return false;
        };
        // Several ports of this host's may lead to one address of the other's.
        let fits = |entry: &Entry| entry.host == host && (entry.path == path || port >= self.ports);
        let known = self.by_address.get(&address);
        if known.is_some_and(|entry| !fits(entry)) {
            return false;
        }
        if known.is_none() {
            self.by_address.insert(address, Entry { host, path, sessions: 0 });
        }
        let before = self.paths.insert((host, path), Peer { address, local: None, port, key });
        if let Some(before) = before.filter(|before| before.address != address) {
            self.forget_address(host, before.address);
        }
        true
    }

    /// A host, which is known by one address, is at another now. False if that is another host's, or a further path's.
    pub(crate) fn move_host(&mut self, from: SocketAddr, to: SocketAddr) -> bool {
        let (from, to) = (canonical(from), canonical(to));
        let known = self.by_address.get(&from).copied().filter(|entry| entry.path == 0);
        let Some(entry) = known.filter(|_| !self.by_address.contains_key(&to)) else {
            return false;
        };
        let Some(peer) = self.by_host.get_mut(&entry.host) else { return false };
        peer.address = to;
        self.by_address.remove(&from);
        self.by_address.insert(to, entry);
        true
    }

    /// A host is at an address no more, unless by another path.
    fn forget_address(&mut self, host: HostId, address: SocketAddr) {
        let paths = self.paths.range((host, 0)..=(host, u16::MAX));
        let first = self.by_host.get(&host).map(|peer| peer.address);
        let is_elsewhere = first != Some(address)
            && paths.map(|(_, peer)| peer.address).all(|other| other != address);
        if is_elsewhere {
            self.by_address.remove(&address);
        }
    }

    /// Who is at an address, and by which path a datagram that came to `port` came.
    pub(crate) fn origin(&self, from: SocketAddr, port: u8) -> Option<(HostId, u16)> {
        let entry = self.by_address.get(&canonical(from))?;
        if port >= self.ports {
            return Some((entry.host, port.into()));
        }
        if entry.path > 0 || self.ports == 1 {
            return Some((entry.host, entry.path));
        }
        let first = self.by_host.get(&entry.host)?.port;
        let ports = u16::from(self.ports);
        Some((entry.host, (ports + u16::from(port) - u16::from(first)) % ports))
    }

    /// Where a host is by a path; `None` if it is there no more.
    pub(crate) fn by_path(&self, host: HostId, path: u16) -> Option<Peer> {
        if let Some(peer) = self.paths.get(&(host, path)) {
            return Some(*peer);
        }
        let ports = u16::from(self.ports);
        let peer = self.peer(host).filter(|_| path < ports)?;
        Some(Peer { port: ((u16::from(peer.port) + path) % ports) as u8, ..peer })
    }

    /// The host at an address.
    pub(crate) fn host(&self, address: SocketAddr) -> Option<HostId> {
        self.by_address.get(&canonical(address)).map(|entry| entry.host)
    }

    /// Where a host is.
    pub(crate) fn peer(&self, host: HostId) -> Option<Peer> {
        self.by_host.get(&host).copied()
    }

    /// A host was heard at this local address. The first counts: a forged datagram must not turn
    /// an exchange that works.
    pub(crate) fn heard_at(&mut self, host: HostId, path: u16, local: IpAddr) {
        let further = self.paths.get_mut(&(host, path));
        if let Some(peer) = further.or_else(|| self.by_host.get_mut(&host)) {
            peer.local.get_or_insert(local);
        }
    }
}

impl PeerTable {
    /// A local address is no longer this host's: those heard at it are answered from where the
    /// system chooses, and then from where they are heard next.
    pub(crate) fn forget_local(&mut self, local: IpAddr) {
        let all = self.by_host.values_mut().chain(self.paths.values_mut());
        for peer in all.filter(|peer| peer.local == Some(local)) {
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
    use wellspring_trust::PrivateKey;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_host_stays_while_sessions_name_it() {
        let mut peers = PeerTable::new(2, 1, Arc::default());
        let a = peers.add(at("192.0.2.1:7"), None).expect("room");
        assert_eq!(peers.add(at("[::ffff:192.0.2.1]:7"), None), Ok(a));
        let b = peers.add(at("192.0.2.1:8"), None).expect("room");
        assert_ne!(a, b);
        assert_eq!(peers.add(at("192.0.2.3:7"), None), Err(NotNamed::Full));
        peers.release(a);
        assert_eq!(peers.host(at("192.0.2.1:7")), Some(a));
        peers.release(a);
        assert_eq!(peers.host(at("192.0.2.1:7")), None);
        assert_eq!(peers.peer(a), None);
        peers.release(a);
        let c = peers.add(at("192.0.2.1:7"), None).expect("room again");
        assert!(c != a && c != b, "numbers are never used twice");
    }

    #[test]
    fn a_host_is_known_by_each_path_that_it_has_shown() {
        let mut peers = PeerTable::new(9, 1, Arc::default());
        let a = peers.add(at("192.0.2.1:7"), None).expect("room");
        assert!(peers.add_path(a, 1, (at("192.0.2.1:8"), 0)));
        assert!(peers.add_path(a, 2, (at("192.0.2.1:9"), 0)));
        assert!(peers.add_path(a, 2, (at("192.0.2.1:9"), 0)), "again");
        assert_eq!(peers.origin(at("192.0.2.1:9"), 0), Some((a, 2)));
        assert_eq!(peers.by_path(a, 1).map(|peer| peer.address), Some(at("192.0.2.1:8")));
        assert_eq!(peers.by_path(a, 0).map(|peer| peer.address), Some(at("192.0.2.1:7")));
        assert_eq!(peers.by_path(a, 5), None, "not shown");
        assert!(!peers.add_path(a, 1, (at("192.0.2.1:7"), 0)), "path 0's");
        assert_eq!(peers.len(), 1);
        let b = peers.add(at("192.0.2.1:8"), None).expect("room");
        assert_ne!(a, b, "a session of its own");
        assert_eq!(peers.by_path(a, 1), None, "a path no more");
        assert!(!peers.add_path(a, 1, (at("192.0.2.1:8"), 0)), "another's");
        peers.release(a);
        assert_eq!(peers.host(at("192.0.2.1:9")), None);
        assert_eq!(peers.host(at("192.0.2.1:8")), Some(b));
    }

    #[test]
    fn ports_are_paths_counted_from_the_first_that_leads_there() {
        let firsts = Arc::new(FirstPorts::default());
        firsts.set(at("192.0.2.1:7"), 3);
        let mut peers = PeerTable::new(9, 4, Arc::clone(&firsts));
        let a = peers.add(at("192.0.2.1:7"), None).expect("room");
        firsts.set(at("192.0.2.1:7"), 0);
        for (path, port) in [(0, 3), (1, 0), (3, 2)] {
            assert_eq!(peers.by_path(a, path).map(|peer| peer.port), Some(port));
            assert_eq!(peers.origin(at("192.0.2.1:7"), port), Some((a, path)));
        }
    }

    #[test]
    fn ports_beyond_those_that_lead_to_all_lead_to_further_addresses() {
        let mut peers = PeerTable::new(9, 2, Arc::default());
        let [first, second] = ["192.0.2.1:7", "198.51.100.1:7"].map(at);
        let a = peers.add(first, None).expect("room");
        for path in [2, 3] {
            assert!(peers.add_path(a, path.into(), (second, path)), "two ports to one address");
        }
        for (path, address, port) in [(1, first, 1), (2, second, 2), (3, second, 3)] {
            let peer = peers.by_path(a, path).expect("known");
            assert_eq!((peer.address, peer.port), (address, port));
            assert_eq!(peers.origin(address, port), Some((a, path)));
        }
        let b = peers.add(at("192.0.2.9:7"), None).expect("room");
        assert!(!peers.add_path(b, 2, (second, 2)), "another's");
        peers.release(a);
        assert_eq!(peers.host(second), None);
        assert_eq!(peers.host(at("192.0.2.9:7")), Some(b));
    }

    #[test]
    fn an_address_belongs_to_the_key_of_its_sessions() {
        let [one, other] = [(); 2].map(|()| Some(PrivateKey::generate().public().fingerprint()));
        let mut peers = PeerTable::new(9, 1, Arc::default());
        let a = peers.add(at("192.0.2.1:7"), one).expect("room");
        assert_eq!(peers.add(at("192.0.2.1:7"), other), Err(NotNamed::OfAnotherKey));
        assert_eq!(peers.add(at("192.0.2.1:7"), one), Ok(a));
        assert!(peers.add_path(a, 1, (at("192.0.2.1:8"), 0)));
        assert_eq!(peers.by_path(a, 1).and_then(|peer| peer.key), one);
        peers.release(a);
        assert!(peers.add(at("192.0.2.1:7"), other).is_err(), "one is left");
        peers.release(a);
        assert!(peers.add(at("192.0.2.1:7"), other).is_ok());
    }

    #[test]
    fn a_host_that_has_moved_is_known_by_its_new_address_alone() {
        let mut peers = PeerTable::new(9, 1, Arc::default());
        let a = peers.add(at("192.0.2.1:7"), None).expect("room");
        let b = peers.add(at("192.0.2.1:9"), None).expect("room");
        assert!(peers.add_path(a, 1, (at("192.0.2.1:6"), 0)));
        assert!(peers.move_host(at("192.0.2.1:7"), at("[::ffff:192.0.2.1]:8")));
        assert_eq!(peers.origin(at("192.0.2.1:8"), 0), Some((a, 0)));
        assert_eq!(peers.by_path(a, 0).map(|peer| peer.address), Some(at("192.0.2.1:8")));
        assert_eq!(peers.host(at("192.0.2.1:7")), None);
        assert_eq!(peers.add(at("192.0.2.1:8"), None), Ok(a), "and by sessions to come");
        for (from, to) in [(8, 9), (7, 5), (6, 5), (8, 6)] {
            let [from, to] = [from, to].map(|port| at(&format!("192.0.2.1:{port}")));
            assert!(!peers.move_host(from, to), "{from} to {to}");
        }
        peers.release(a);
        peers.release(a);
        assert_eq!((peers.host(at("192.0.2.1:8")), peers.host(at("192.0.2.1:6"))), (None, None));
        assert_eq!(peers.host(at("192.0.2.1:9")), Some(b));
    }

    #[test]
    fn the_first_local_address_counts() {
        let mut peers = PeerTable::new(1, 1, Arc::default());
        let host = peers.add(at("[2001:db8::1]:7"), None).expect("room");
        peers.heard_at(host, 0, "2001:db8::2".parse().expect("an address"));
        peers.heard_at(host, 0, "2001:db8::3".parse().expect("an address"));
        let local = peers.peer(host).and_then(|p| p.local);
        assert_eq!(local, Some("2001:db8::2".parse().expect("an address")));
        peers.forget_local("2001:db8::3".parse().expect("an address"));
        assert_eq!(peers.peer(host).and_then(|p| p.local), local, "another");
        peers.forget_local("2001:db8::2".parse().expect("an address"));
        assert_eq!(peers.peer(host).and_then(|p| p.local), None);
        peers.heard_at(host, 0, "2001:db8::3".parse().expect("an address"));
        let moved = peers.peer(host).and_then(|p| p.local);
        assert_eq!(moved, Some("2001:db8::3".parse().expect("an address")));
        assert_eq!(peers.host(at("[2001:db8::1%3]:7")), Some(host), "a scope that says nothing");
    }
}
