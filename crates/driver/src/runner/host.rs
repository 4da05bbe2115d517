//! Parts of a driver that its protocols share.

use std::net::SocketAddr;

use wellspring_core::HostId;
use wellspring_trust::Fingerprint;

use crate::Place;
use crate::clock::Clock;
use crate::event::{Failure, Refusal};
use crate::network::Network;
use crate::network::peers::{NotNamed, PeerTable};
use crate::network::strangers::AnswerBudget;
use crate::payload::receive_store::ReceiveStore;
use crate::payload::send_store::SendStore;
use crate::payload::worker::Workers;
use crate::statistics::Received;

/// What the protocols of a driver share.
pub(crate) struct Host {
    /// The loop among those of its driver.
    pub place: Place,
    pub clock: Clock,
    pub network: Network,
    pub peers: PeerTable,
    pub received: ReceiveStore,
    pub to_send: SendStore,
    pub workers: Workers,
    /// Blocks read ahead of the one being sent.
    pub read_ahead: u32,
    pub answers: AnswerBudget,
    pub counters: Received,
}

impl Host {
    /// Puts the hosts of a session into the table of peers, all or none; the session is its `key`'s, if it is anybody's.
    pub(super) fn name_peers(
        &mut self,
        (addresses, key): (&[SocketAddr], Option<Fingerprint>),
        group: Option<SocketAddr>,
    ) -> Result<Vec<HostId>, Failure> {
        if !addresses.iter().chain(&group).all(|address| self.network.socket().reaches(address)) {
            let why = "an address of a family that the driver's socket does not speak";
            return Err(Refusal::Invalid(why).into());
        }
        if group.is_some_and(|group| !group.ip().is_multicast()) {
            return Err(Refusal::Invalid("a group without a multicast address").into());
        }
        if addresses.iter().any(|address| self.place.is_foreign(address.ip())) {
            let why = "addresses of several event loops, which share no session";
            return Err(Refusal::Invalid(why).into());
        }
        let mut peers = Vec::with_capacity(addresses.len());
        for address in addresses {
            let failure = match self.peers.add(*address, key) {
                Ok(host) if peers.contains(&host) => {
                    self.peers.release(host);
                    Refusal::Invalid("an address named twice").into()
                }
                Ok(host) => {
                    peers.push(host);
                    continue;
                }
                Err(NotNamed::Full) => Failure::TooManyPeers(self.peers.limit()),
                Err(NotNamed::OfAnotherKey) => {
                    Refusal::Invalid("an address where sessions of another key run").into()
                }
            };
            self.release(peers);
            return Err(failure);
        }
        Ok(peers)
    }

    pub(super) fn release(&mut self, peers: Vec<HostId>) {
        for peer in peers {
            self.peers.release(peer);
        }
    }
}
