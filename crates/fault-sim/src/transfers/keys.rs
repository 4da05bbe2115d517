//! Keys of the machines of a run, drawn from its seed.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use wellspring_core::RandomStream;
use wellspring_trust::{
    ClusterKey, Folders, Keyring, Peer, PrivateKey, Rights, cluster_from_text, private_from_text,
};

/// Of so many runs three have keys, each in another way.
const ONE_IN: u64 = 24;

/// What each machine has and trusts.
pub(crate) struct Keys {
    pub client: Arc<Keyring>,
    /// The servers', in order.
    pub servers: Vec<Arc<Keyring>>,
}

impl Keys {
    /// Those of a run with such servers, if it has any: one key that all share, or one for each, which the client either
    /// knows by address or asks for.
    pub(crate) fn draw(rng: &mut RandomStream, servers: &[IpAddr]) -> Option<Keys> {
        match rng.below(ONE_IN) {
            0 => Some(Self::of_a_cluster(rng, servers.len())),
            kind @ (1 | 2) => Some(Self::of_each(rng, servers, kind == 1)),
            _ => None,
        }
    }

    fn of_a_cluster(rng: &mut RandomStream, servers: usize) -> Self {
        let key = cluster_key(rng);
        let ring = || Arc::new(Keyring::new().with_cluster(key.clone(), Rights::all()));
        Keys { client: ring(), servers: (0..servers).map(|_| ring()).collect() }
    }

    fn of_each(rng: &mut RandomStream, servers: &[IpAddr], by_address: bool) -> Self {
        let own = private_key(rng);
        let rights = Rights { serve: false, ..Rights::all() };
        let for_servers = peer("client", &own, rights);
        let mut client = Keyring::new().with_own(own);
        let mut rings = Vec::new();
        for (number, ip) in servers.iter().enumerate() {
            let key = private_key(rng);
            let (read, put) = (Folders::NONE, Folders::NONE);
            let rights = Rights { read, put, serve: true, ..Rights::default() };
            let known = peer(&format!("server-{number}"), &key, rights);
            let addresses = if by_address { vec![*ip] } else { Vec::new() };
            client = client.with_peer(Peer { addresses, ..known });
            rings.push(Arc::new(Keyring::new().with_own(key).with_peer(for_servers.clone())));
        }
        Keys { client: Arc::new(client), servers: rings }
    }
}

fn peer(name: &str, key: &PrivateKey, rights: Rights) -> Peer {
    Peer { name: name.to_owned(), key: key.public(), rights, addresses: Vec::new() }
}

fn private_key(rng: &mut RandomStream) -> PrivateKey {
    private_from_text(&format!("private wsec-{}", digits(rng))).expect("a key")
}

fn cluster_key(rng: &mut RandomStream) -> ClusterKey {
    let keys = cluster_from_text(&format!("cluster wclu-{} read put serve", digits(rng)));
    keys.expect("a key").swap_remove(0).0
}

/// A secret, as text.
fn digits(rng: &mut RandomStream) -> String {
    (0..4).fold(String::new(), |mut text, _| {
        let _ = write!(text, "{:016x}", rng.next_u64());
        text
    })
}
