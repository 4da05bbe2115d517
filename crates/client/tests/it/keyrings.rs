//! Keyrings of hosts that know each other.

use wellspring_trust::{Keyring, Peer, PrivateKey, PublicKey, Rights};

/// A peer that any address may have.
pub fn peer(name: &str, key: PublicKey, rights: Rights) -> Peer {
    Peer { name: name.to_owned(), key, rights, addresses: Vec::new() }
}

/// The right to serve.
pub fn serving() -> Rights {
    Rights { serve: true, ..Rights::default() }
}

/// Keyrings of a client with these rights at the server, and of the server.
pub fn pinned(rights: Rights) -> (Keyring, Keyring) {
    let (client, server) = (PrivateKey::generate(), PrivateKey::generate());
    let (at_client, at_server) =
        (peer("server", server.public(), serving()), peer("alice", client.public(), rights));
    (
        Keyring::new().with_own(client).with_peer(at_client),
        Keyring::new().with_own(server).with_peer(at_server),
    )
}
