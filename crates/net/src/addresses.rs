//! Further addresses of servers: those that they tell of, and by which requests reach a server whose first address leads
//! nowhere any more.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use tokio::sync::watch;

use crate::canonical;

/// Servers of which further addresses are remembered.
const MAX_REMEMBERED: usize = 256;
/// Further addresses by which a server is reached, of which the oldest is forgotten: a host may show new ones in each session.
const MAX_ROUTES: usize = 16;

/// What a server tells, once it has answered.
pub type Told = watch::Receiver<Option<Vec<SocketAddr>>>;

/// Further addresses of servers.
#[derive(Debug, Default)]
pub(crate) struct FurtherAddresses {
    /// What servers tell, by the address that was asked; nothing yet of those that have not answered.
    told: BTreeMap<SocketAddr, Told>,
    routes: BTreeMap<SocketAddr, Routes>,
}

/// By which addresses a server is reached beside the first, and by which of this host's paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    others: Vec<(SocketAddr, u8)>,
    /// Which answered last: 0 the first address, 1 the first of the others, ...
    last: usize,
}

impl Routes {
    /// Where the request is sent that was sent so often before, if not to the server's first address.
    pub(crate) fn attempt(&self, number: u8) -> Option<(SocketAddr, u8)> {
        let number = (self.last + usize::from(number)) % (1 + self.others.len());
        self.others.get(number.checked_sub(1)?).copied()
    }

    /// Whether an answer may come from that address.
    pub(crate) fn holds(&self, address: SocketAddr) -> bool {
        self.others.iter().any(|(other, _)| *other == address)
    }
}

impl FurtherAddresses {
    /// What a server tells, if it has been asked.
    pub(crate) fn told(&self, server: SocketAddr) -> Option<Told> {
        self.told.get(&server).cloned()
    }

    /// A server is asked: what it tells is to be given to the sender, and is what counts as told until then.
    pub(crate) fn ask(
        &mut self,
        server: SocketAddr,
    ) -> (watch::Sender<Option<Vec<SocketAddr>>>, Told) {
        let (tell, told) = watch::channel(None);
        if self.told.len() >= MAX_REMEMBERED {
            self.told.clear();
        }
        self.told.insert(server, told.clone());
        (tell, told)
    }

    /// A server did not answer: it may be asked again.
    pub(crate) fn forget(&mut self, server: SocketAddr) {
        self.told.remove(&server);
    }

    /// By which addresses a server is reached.
    pub(crate) fn routes(&self, server: SocketAddr) -> Routes {
        self.routes.get(&server).cloned().unwrap_or_default()
    }

    /// A server is reached by a further address, too.
    pub(crate) fn add_route(&mut self, server: SocketAddr, address: SocketAddr, path: u8) {
        if self.routes.len() >= MAX_REMEMBERED && !self.routes.contains_key(&server) {
            self.routes.clear();
        }
        let routes = self.routes.entry(server).or_default();
        if address != server && !routes.holds(address) {
            if routes.others.len() >= MAX_ROUTES {
                routes.others.remove(0);
                routes.last = routes.last.saturating_sub(1);
            }
            routes.others.push((address, path));
        }
    }

    /// The first address of the server that is reached by another of its, too.
    pub(crate) fn first_address(&self, other: SocketAddr) -> Option<SocketAddr> {
        let server = self.routes.iter().find(|(_, routes)| routes.holds(other))?;
        Some(*server.0)
    }

    /// A server has answered from that address of its.
    pub(crate) fn answered(&mut self, server: SocketAddr, from: SocketAddr) {
        if let Some(routes) = self.routes.get_mut(&server) {
            let other = routes.others.iter().position(|(address, _)| *address == from);
            routes.last = other.map_or(0, |place| place + 1);
        }
    }
}

/// The further addresses that a server tells of, as far as they are of use; none if it does not answer.
pub async fn heard(mut told: Told) -> Vec<SocketAddr> {
    let told = told.wait_for(Option::is_some).await;
    told.ok().and_then(|told| told.clone()).unwrap_or_default()
}

/// Those of the addresses that a server tells of which may be asked: none of a narrower scope than the one that it is
/// known by, so that no server sends its clients into networks of their own.
pub(crate) fn usable(server: SocketAddr, told: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let least = scope(server.ip());
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in told.into_iter().map(canonical) {
        let is_new = address != server && !addresses.contains(&address);
        if is_new && scope(address.ip()) >= least {
            addresses.push(address);
        }
    }
    addresses
}

/// How far an address is of use: on its host, its link, its organisation's networks, everywhere.
fn scope(address: IpAddr) -> u8 {
    let (host, link, site) = match address {
        IpAddr::V4(ip) => {
            let is_shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            let is_link = ip.is_link_local() || ip.is_broadcast();
            (ip.is_loopback(), is_link, ip.is_private() || is_shared)
        }
        IpAddr::V6(ip) => (ip.is_loopback(), ip.is_unicast_link_local(), ip.is_unique_local()),
    };
    match (host, link, site) {
        (true, _, _) => 0,
        (_, true, _) => 1,
        (_, _, true) => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_server_sends_nobody_into_a_network_of_narrower_scope() {
        let told = ["127.0.0.1:1", "169.254.3.4:1", "10.0.0.1:1", "[fd00::1]:1", "8.8.8.8:1"];
        let usable = |server| usable(at(server), told.map(at).into());
        assert_eq!(usable("1.1.1.1:1"), [at("8.8.8.8:1")]);
        assert_eq!(usable("10.0.0.1:1"), [at("[fd00::1]:1"), at("8.8.8.8:1")], "and not itself");
        assert_eq!(usable("[fe80::1]:1").len(), 4);
        assert_eq!(usable("127.0.0.2:1").len(), 5);
    }

    #[test]
    fn requests_go_by_the_address_that_answered_last_and_then_by_the_others() {
        let [server, other, third] = ["192.0.2.1:7", "198.51.100.1:7", "203.0.113.1:7"].map(at);
        let mut further = FurtherAddresses::default();
        assert_eq!(further.routes(server).attempt(1), None);
        further.add_route(server, other, 1);
        further.add_route(server, third, 2);
        let order = |further: &FurtherAddresses| {
            let routes = further.routes(server);
            [0, 1, 2, 3].map(|number| routes.attempt(number).map(|(_, path)| path))
        };
        assert_eq!(order(&further), [None, Some(1), Some(2), None]);
        further.answered(server, third);
        assert_eq!(order(&further), [Some(2), None, Some(1), Some(2)]);
        further.answered(server, server);
        assert_eq!(order(&further)[0], None);
        assert_eq!(further.first_address(third), Some(server));
        assert_eq!(further.first_address(server), None);
    }

    #[test]
    fn of_ever_new_addresses_of_a_server_the_oldest_is_forgotten() {
        let (server, mut further) = (at("192.0.2.1:7"), FurtherAddresses::default());
        let address = |port: u16| SocketAddr::new(server.ip(), 1_000 + port);
        for port in 0..100 {
            further.add_route(server, address(port), 0);
        }
        further.answered(server, address(99));
        let first = further.routes(server).attempt(0);
        assert_eq!(first, Some((address(99), 0)));
        further.add_route(server, address(100), 0);
        assert_eq!(further.routes(server).attempt(0), first);
        let known: Vec<_> =
            (0..=100).filter(|port| further.routes(server).holds(address(*port))).collect();
        assert_eq!(known, Vec::from_iter(101 - MAX_ROUTES as u16..=100));
    }
}
