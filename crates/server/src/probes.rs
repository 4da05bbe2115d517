//! Probes of a path, answered.

use std::time::UNIX_EPOCH;

use wellspring_wire::control::{Abilities, Probe, ProbeReply, Reply};

use super::handler::Handler;
use crate::driver::{ControlMessage, PeerChannel, ReceivePath};
use crate::socket::largest_payload_towards;

impl Handler {
    /// Answers a probe, at the length and in the class that it asks for. It needs no cookie: the answer is no longer than
    /// the question.
    pub(super) fn answer_probe(&self, message: &ControlMessage, nonce: u64, probe: Probe) {
        let largest_back = largest_payload_towards(message.from).unwrap_or(0);
        let clock = crate::clock::time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default();
        let rights = message.peer.as_ref().map(rights).unwrap_or_default();
        let reply = Reply::Probe(ProbeReply {
            reply_len: probe.reply_len,
            class: message.class,
            largest_back: u16::try_from(largest_back).unwrap_or(u16::MAX),
            clock_us: u64::try_from(clock.as_micros()).unwrap_or(u64::MAX),
            abilities: self.abilities(),
            rights: &rights,
        });
        self.reply_in_class(message, nonce, &reply, Some(probe.class));
    }

    fn abilities(&self) -> Abilities {
        let permissions = self.permissions();
        let of_sockets = self.of_sockets.get_or_init(|| {
            let Ok(sockets) = self.handle.statistics() else { return Abilities::default() };
            Abilities::default()
                .with(Abilities::SEGMENTATION, sockets.segmentation)
                .with(Abilities::COALESCING, sockets.coalescing)
                .with(Abilities::TRIMS, sockets.receive_path == ReceivePath::SocketAndTap)
        });
        of_sockets
            .with(Abilities::TAKES, permissions.put)
            .with(Abilities::REPLACES, permissions.put && permissions.overwrite)
    }
}

/// Who a client is here, and what it may do.
fn rights(peer: &PeerChannel) -> String {
    let identity = &peer.identity;
    let rights = match identity.rights.to_string() {
        none if none.is_empty() => "no rights".to_owned(),
        rights => rights,
    };
    format!("{}: {rights}", identity.name)
}
