//! Handshakes in a host's table of channels: begun here, and answered.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_core::Time;

use super::{Channels, NoWay, Opened};
use crate::entry::{Entry, Established, Greeted, Pending, Stage};
use crate::gate::Verdict;
use crate::handshake::{Initiator, Pattern, Refusal, Responder, message_of, pattern_of};
use crate::key::{Fingerprint, PublicKey};
use crate::keyring::{Greeting, Identity};
use crate::layout::{
    COOKIE_AT, COOKIE_LEN, HELLO, HELLO_LEN, INITIATION, MESSAGE_AT, RETRY, begin, id_of, refusal,
};

/// Initiations remembered as answered. A replay of an older one makes a channel that nobody can use.
const MAX_SEEN: usize = 16_384;
/// Cookies that one handshake takes.
const MAX_RETRIES: u8 = 3;

impl Channels {
    /// A handshake with a server, begun.
    pub(super) fn greet(
        &self,
        now: Time,
        to: SocketAddr,
        id: u64,
        request: &[u8],
    ) -> Result<Greeted, NoWay> {
        let keyring = &self.keyring;
        let stage = match keyring.greeting(to.ip()).ok_or(NoWay::NoServerKey)? {
            Greeting::Ask => Stage::Asking,
            Greeting::Pinned(peer, identity) => {
                let own = keyring.own().ok_or(NoWay::NoServerKey)?;
                let initiator = Initiator::pinned(own, &peer.key, self.suite, id, request);
                Stage::Initiated(Box::new(initiator.ok_or(NoWay::TooLong)?), Arc::clone(identity))
            }
            Greeting::Cluster(key, identity) => {
                let initiator = Initiator::cluster(key, self.suite, id, request);
                Stage::Initiated(Box::new(initiator.ok_or(NoWay::TooLong)?), Arc::clone(identity))
            }
        };
        let (request, waiting) = (request.to_vec(), VecDeque::new());
        Ok(Greeted { id, began: now, retries: 0, stage, request, waiting })
    }

    /// A client asks which key this host has.
    pub(super) fn on_hello(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &[u8],
        answer: &mut Vec<u8>,
    ) -> Opened {
        match id_of(datagram).filter(|_| datagram.len() >= HELLO_LEN) {
            Some(id) => self.ask_again(now, from, id, answer),
            None => self.counters.handshakes_wrong += 1,
        }
        Opened::Nothing
    }

    /// Asks for the same again, with a cookie.
    fn ask_again(&mut self, now: Time, from: SocketAddr, id: u64, answer: &mut Vec<u8>) {
        answer.extend_from_slice(&begin(RETRY, id));
        answer.extend_from_slice(&self.gate.cookie(now, from));
        answer.extend_from_slice(&self.keyring.own().map_or([0; 32], |own| own.public().0));
    }

    /// A server asks for the same again, with a cookie, and says which key it has.
    pub(super) fn on_retry(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        answer: &mut Vec<u8>,
    ) -> Opened {
        let suite = self.suite;
        let Some(greeted) = greeted_by(&mut self.entries, from, datagram) else {
            return Opened::Nothing;
        };
        let Some(cookie) =
            datagram.get(COOKIE_AT..).and_then(|rest| rest.first_chunk::<COOKIE_LEN>())
        else {
            return Opened::Nothing;
        };
        if greeted.retries == MAX_RETRIES {
            return Opened::Nothing;
        }
        greeted.retries += 1;
        if let Stage::Asking = greeted.stage {
            let Some(key) = datagram.get(MESSAGE_AT..).and_then(|rest| rest.first_chunk::<32>())
            else {
                return Opened::Nothing;
            };
            let key = PublicKey(*key);
            let Some((peer, identity)) = self.keyring.server_at(from.ip(), &key) else {
                return Opened::UnknownServer(key);
            };
            let own = self.keyring.own();
            let initiator = own.and_then(|own| {
                Initiator::pinned(own, &peer.key, suite, greeted.id, &greeted.request)
            });
            let Some(initiator) = initiator else { return Opened::Nothing };
            greeted.stage = Stage::Initiated(Box::new(initiator), Arc::clone(identity));
        }
        if let Stage::Initiated(initiator, _) = &mut greeted.stage {
            initiator.set_cookie(cookie);
        }
        greeted.write(answer);
        self.remember_own(answer);
        Opened::Nothing
    }

    /// A client greets this host: if it is trusted, a channel is made.
    pub(super) fn on_initiation(
        &mut self,
        now: Time,
        (from, holder): (SocketAddr, Option<Fingerprint>),
        datagram: &[u8],
        plain: &mut [u8],
        answer: &mut Vec<u8>,
    ) -> Opened {
        let message = message_of(datagram).and_then(|message| message.first_chunk::<32>());
        let (Some(ephemeral), Some(id), Some(pattern)) =
            (message, id_of(datagram), pattern_of(datagram))
        else {
            self.counters.handshakes_wrong += 1;
            return Opened::Nothing;
        };
        if self.seen.contains(ephemeral) {
            self.counters.handshakes_replayed += 1;
            let pending = self.entries.get(&from).map(|entry| &entry.pending);
            let same =
                pending.and_then(|pending| pending.iter().find(|p| p.ephemeral == *ephemeral));
            // The answer was lost, it seems. Its request is asked again, sealed.
            answer.extend(same.into_iter().flat_map(|pending| &pending.response));
            return Opened::Nothing;
        }
        match self.gate.judge(now, from, &datagram[COOKIE_AT..MESSAGE_AT]) {
            Verdict::Work => {}
            verdict => {
                self.counters.handshakes_put_off += 1;
                if verdict == Verdict::AskForCookie {
                    self.ask_again(now, from, id, answer);
                }
                return Opened::Nothing;
            }
        }
        let (responder, identity) = match self.respond(pattern, datagram) {
            Ok(read) => read,
            Err(reason) => return self.refuse(now, id, reason, answer),
        };
        let is_held = |entry: &Entry| entry.is_held_by_another(now, &identity);
        if holder.is_some_and(|holder| holder != identity.fingerprint)
            || self.entries.get(&from).is_some_and(is_held)
        {
            return self.refuse(now, id, Refusal::AddressInUse, answer);
        }
        self.remember(*ephemeral);
        let len = responder.request.len();
        if len > plain.len() {
            return Opened::Nothing;
        }
        plain[..len].copy_from_slice(&responder.request);
        let Some((response, channel)) = responder.finish(self.suite) else {
            return Opened::Nothing;
        };
        self.counters.handshakes += 1;
        answer.extend_from_slice(&response);
        let via = channel.id();
        let established = Established { channel, identity };
        self.entry(from).await_first(Pending { established, ephemeral: *ephemeral, response });
        Opened::Datagram { len, via }
    }

    /// Reads an initiation with the keys there are.
    fn respond(
        &self,
        pattern: Pattern,
        datagram: &[u8],
    ) -> Result<(Responder, Arc<Identity>), Refusal> {
        match pattern {
            Pattern::Cluster => {
                for (key, identity) in self.keyring.cluster_identities() {
                    if let Some(responder) = Responder::cluster(key, datagram) {
                        return Ok((responder, Arc::clone(identity)));
                    }
                }
                Err(Refusal::WrongKey)
            }
            Pattern::Pinned => {
                let own = self.keyring.own().ok_or(Refusal::WrongKey)?;
                let responder = Responder::pinned(own, datagram).ok_or(Refusal::WrongKey)?;
                let peer = responder.initiator.and_then(|key| self.keyring.peer(&key));
                let (_, identity) = peer.ok_or(Refusal::NotTrusted)?;
                Ok((responder, Arc::clone(identity)))
            }
        }
    }

    fn refuse(&mut self, now: Time, id: u64, reason: Refusal, answer: &mut Vec<u8>) -> Opened {
        let counter = match reason {
            Refusal::NotTrusted => &mut self.counters.handshakes_untrusted,
            Refusal::AddressInUse => &mut self.counters.handshakes_conflicting,
            Refusal::WrongKey | Refusal::NoKeys => &mut self.counters.handshakes_wrong,
        };
        *counter += 1;
        match self.gate.may_refuse(now) {
            true => answer.extend_from_slice(&refusal(id, reason as u8)),
            false => self.counters.refusals_withheld += 1,
        }
        Opened::Nothing
    }

    /// A server has answered: the channel is there.
    pub(super) fn on_response(&mut self, from: SocketAddr, datagram: &[u8]) -> Opened {
        let Some(greeted) = greeted_by(&mut self.entries, from, datagram) else {
            return Opened::Nothing;
        };
        let Stage::Initiated(initiator, identity) = &mut greeted.stage else {
            return Opened::Nothing;
        };
        let Some(channel) = initiator.finish(datagram) else {
            self.counters.handshakes_wrong += 1;
            return Opened::Nothing;
        };
        let established = Established { channel, identity: Arc::clone(identity) };
        self.counters.handshakes += 1;
        let entry = self.entry(from);
        entry.waiting = entry.greeted.take().map(|greeted| greeted.waiting).unwrap_or_default();
        entry.establish(established);
        Opened::Established
    }

    /// A server refuses this host.
    pub(super) fn on_refusal(&mut self, from: SocketAddr, datagram: &[u8]) -> Opened {
        let reason = datagram.get(1).and_then(|number| Refusal::from_number(*number));
        let (Some(_), Some(reason)) = (greeted_by(&mut self.entries, from, datagram), reason)
        else {
            return Opened::Nothing;
        };
        self.entry(from).greeted = None;
        Opened::Refused(reason)
    }

    /// An initiation of this host's own: with a cluster key it would be taken for another member's if somebody sent it
    /// back.
    pub(super) fn remember_own(&mut self, datagram: &[u8]) {
        if datagram.first() == Some(&INITIATION)
            && let Some(ephemeral) = message_of(datagram).and_then(|message| message.first_chunk())
        {
            self.remember(*ephemeral);
        }
    }

    fn remember(&mut self, ephemeral: [u8; 32]) {
        if self.seen_in_order.len() == MAX_SEEN
            && let Some(oldest) = self.seen_in_order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        if self.seen.insert(ephemeral) {
            self.seen_in_order.push_back(ephemeral);
        }
    }
}

impl Greeted {
    /// Puts a request off until the handshake is done, unless it is the one that the handshake carries, or waits
    /// already, or `limit` do.
    pub(super) fn has_put_off(&mut self, request: &[u8], limit: usize) -> bool {
        let known = self.request == request || self.waiting.iter().any(|known| known == request);
        let puts_off = !known && self.waiting.len() < limit;
        if puts_off {
            self.waiting.push_back(request.to_vec());
        }
        puts_off
    }

    /// Writes the datagram that is sent until there is an answer.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match &self.stage {
            Stage::Asking => {
                out.extend_from_slice(&begin(HELLO, self.id));
                out.resize(HELLO_LEN, 0);
            }
            Stage::Initiated(initiator, _) => out.extend_from_slice(initiator.datagram()),
        }
    }
}

/// The handshake begun here that a datagram answers.
fn greeted_by<'a>(
    entries: &'a mut BTreeMap<SocketAddr, Entry>,
    from: SocketAddr,
    datagram: &[u8],
) -> Option<&'a mut Greeted> {
    let id = id_of(datagram)?;
    entries.get_mut(&from)?.greeted.as_mut().filter(|greeted| greeted.id == id)
}
