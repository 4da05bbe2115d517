//! Keyring of a host: its own key, the peers it trusts, cluster keys.

use std::net::IpAddr;
use std::sync::Arc;

use crate::key::{ClusterKey, Fingerprint, PrivateKey, PublicKey};
use crate::rights::Rights;

/// A host that is trusted, by its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// What it is called here.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// What it may do.
    pub rights: Rights,
    /// Where it serves: at these addresses no other key is believed. Empty: anywhere that is nobody else's.
    pub addresses: Vec<IpAddr>,
}

/// Who is at the other end of a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// What it is called here.
    pub name: String,
    /// Of the key it has shown.
    pub fingerprint: Fingerprint,
    /// What it may do.
    pub rights: Rights,
}

/// Keys that a host has and trusts.
#[derive(Debug, Default)]
pub struct Keyring {
    own: Option<PrivateKey>,
    peers: Vec<(Peer, Arc<Identity>)>,
    clusters: Vec<(ClusterKey, Arc<Identity>)>,
}

/// How a client is to greet a server.
pub(crate) enum Greeting<'a> {
    /// As the owner of this key.
    Pinned(&'a Peer, &'a Arc<Identity>),
    /// As a member of the cluster.
    Cluster(&'a ClusterKey, &'a Arc<Identity>),
    /// Ask for its key: there are several it could have.
    Ask,
}

impl Keyring {
    /// No keys at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this key as the host's own.
    #[must_use]
    pub fn with_own(mut self, own: PrivateKey) -> Self {
        self.own = Some(own);
        self
    }

    /// Trusts a peer.
    #[must_use]
    pub fn with_peer(mut self, mut peer: Peer) -> Self {
        // An address of IPv4 has two spellings, and packets one.
        peer.addresses.iter_mut().for_each(|address| *address = address.to_canonical());
        let identity = Identity {
            name: peer.name.clone(),
            fingerprint: peer.key.fingerprint(),
            rights: peer.rights.clone(),
        };
        self.peers.push((peer, Arc::new(identity)));
        self
    }

    /// Accepts a cluster key. The first is the one to greet with; a second is accepted while the key is changed.
    #[must_use]
    pub fn with_cluster(mut self, key: ClusterKey, rights: Rights) -> Self {
        let name = "cluster".to_owned();
        let identity = Identity { name, fingerprint: key.fingerprint(), rights };
        self.clusters.push((key, Arc::new(identity)));
        self
    }

    /// Whether nobody could speak to anybody with these keys.
    pub fn is_empty(&self) -> bool {
        self.own.is_none() && self.clusters.is_empty()
    }

    /// The host's own key.
    pub fn own(&self) -> Option<&PrivateKey> {
        self.own.as_ref()
    }

    /// Peers that are trusted.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().map(|(peer, _)| peer)
    }

    /// Cluster keys that are accepted, and their rights.
    pub fn clusters(&self) -> impl Iterator<Item = (&ClusterKey, &Rights)> {
        self.clusters.iter().map(|(key, identity)| (key, &identity.rights))
    }

    pub(crate) fn cluster_identities(&self) -> &[(ClusterKey, Arc<Identity>)] {
        &self.clusters
    }

    /// Who has the key of that fingerprint, if it is trusted.
    pub fn identity(&self, fingerprint: Fingerprint) -> Option<&Arc<Identity>> {
        let peers = self.peers.iter().map(|(_, identity)| identity);
        let clusters = self.clusters.iter().map(|(_, identity)| identity);
        peers.chain(clusters).find(|identity| identity.fingerprint == fingerprint)
    }

    /// The peer of that key.
    pub(crate) fn peer(&self, key: &PublicKey) -> Option<(&Peer, &Arc<Identity>)> {
        self.peers
            .iter()
            .find(|(peer, _)| peer.key == *key)
            .map(|(peer, identity)| (peer, identity))
    }

    /// A peer that may serve at an address, by its key.
    pub(crate) fn server_at(
        &self,
        address: IpAddr,
        key: &PublicKey,
    ) -> Option<(&Peer, &Arc<Identity>)> {
        self.servers_at(address).find(|(peer, _)| peer.key == *key)
    }

    fn servers_at(&self, address: IpAddr) -> impl Iterator<Item = (&Peer, &Arc<Identity>)> {
        let address = address.to_canonical();
        let bound = self
            .peers
            .iter()
            .any(|(peer, _)| peer.rights.serve && peer.addresses.contains(&address));
        self.peers.iter().map(|(peer, identity)| (peer, identity)).filter(move |(peer, _)| {
            let here = peer.addresses.contains(&address);
            peer.rights.serve && (here || !bound && peer.addresses.is_empty())
        })
    }

    /// How to greet a server at an address; `None` if no key here could be its.
    pub(crate) fn greeting(&self, address: IpAddr) -> Option<Greeting<'_>> {
        let pinned = |(peer, identity)| Greeting::Pinned(peer, identity);
        if let Some(bound) = self.servers_at(address).find(|(peer, _)| !peer.addresses.is_empty()) {
            return self.own.is_some().then(|| pinned(bound));
        }
        let serves = |(_, identity): &&(ClusterKey, Arc<Identity>)| identity.rights.serve;
        if let Some((key, identity)) = self.clusters.iter().find(serves) {
            return Some(Greeting::Cluster(key, identity));
        }
        self.own.as_ref()?;
        let mut servers = self.servers_at(address);
        match (servers.next(), servers.next()) {
            (None, _) => None,
            (Some(only), None) => Some(pinned(only)),
            (Some(_), Some(_)) => Some(Greeting::Ask),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_binds_its_server_however_it_is_spelt() {
        let peer = |name: &str, addresses: &[&str]| Peer {
            name: name.to_owned(),
            key: PrivateKey::generate().public(),
            rights: Rights { serve: true, ..Rights::default() },
            addresses: addresses.iter().map(|ip| ip.parse().expect("an address")).collect(),
        };
        for spelt in ["192.0.2.1", "::ffff:192.0.2.1"] {
            let (bound, other) = (peer("bound", &[spelt]), peer("other", &[]));
            let keyring = Keyring::new().with_own(PrivateKey::generate());
            let keyring = keyring.with_peer(other.clone()).with_peer(bound.clone());
            for asked in ["192.0.2.1", "::ffff:192.0.2.1"] {
                let asked = asked.parse().expect("an address");
                let greeted = keyring.greeting(asked);
                assert!(
                    matches!(greeted, Some(Greeting::Pinned(peer, _)) if peer.key == bound.key)
                );
                assert!(keyring.server_at(asked, &other.key).is_none(), "{spelt}");
                assert!(keyring.server_at(asked, &bound.key).is_some(), "{spelt}");
            }
        }
    }
}
