//! Table of a host's channels: opens what comes in, seals what leaves, makes and answers handshakes.

mod of_groups;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_core::{Duration, Time};

use crate::channel::ChannelId;
use crate::counters::TrustCounters;
use crate::direction::{HEADROOM, MAX_OVERHEAD, Plain, Shape, Suite};
use crate::entry::{Entry, Established, Found, Greeted, Pending, Stage};
use crate::gate::{Gate, Verdict};
use crate::groups::Groups;
use crate::handshake::{Initiator, Pattern, Refusal, Responder, message_of, pattern_of};
use crate::key::PublicKey;
use crate::keyring::{Greeting, Identity, Keyring};
use crate::layout::{
    COOKIE_AT, COOKIE_LEN, HELLO, HELLO_LEN, INITIATION, MESSAGE_AT, REFUSAL, REFUSAL_LEN,
    RESPONSE, RETRY, SEALED, begin, id_of, refusal,
};
use crate::rights::Rights;

/// Initiations remembered as answered. A replay of an older one makes a channel that nobody can use.
const MAX_SEEN: usize = 16_384;
/// How long a handshake is repeated as it is before a new one is begun.
const GREETING_SPAN: Duration = Duration::from_secs(5);
/// Cookies that one handshake takes.
const MAX_RETRIES: u8 = 3;
/// Requests that wait for one handshake, at most: more than a client has under way.
const MAX_WAITING: usize = 32;

/// Ports of an address whose channels are tried for a datagram from another port there.
const MAX_PORTS_TRIED: usize = 8;
/// Further ports remembered, at most; who is forgotten is found again.
const MAX_FURTHER_PORTS: usize = 16_384;

/// What a datagram turned out to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Opened {
    /// An authentic datagram, in plain; of one that was trimmed, the header.
    Datagram {
        /// Its length in plain \[bytes\].
        len: usize,
        /// The channel it came by.
        via: ChannelId,
    },
    /// A server refuses a handshake that was begun here. Whoever sees the handshake can forge this.
    Refused(Refusal),
    /// A server was asked for its key, and has one that is not trusted (there).
    UnknownServer(PublicKey),
    /// A handshake that was begun here is done: what [waited](Channels::next_waiting) for it is to be sent.
    Established,
    /// Not sealed: of a host that has no keys.
    Clear,
    /// Nothing for others to see: a part of a handshake, or dropped and counted.
    Nothing,
}

/// Why a request cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoWay {
    /// No key that is trusted here can be the server's.
    NoServerKey,
    /// It is too long to be sealed.
    TooLong,
}

/// All channels of a host, by the address at their other end.
pub struct Channels {
    keyring: Arc<Keyring>,
    suite: Suite,
    gate: Gate,
    entries: BTreeMap<SocketAddr, Entry>,
    groups: Groups,
    limit: usize,
    /// Further ports of peers, by which they have sent something authentic: whose channels are theirs.
    further_ports: BTreeMap<SocketAddr, SocketAddr>,
    /// Ephemeral keys of the last initiations, and their order.
    seen: BTreeSet<[u8; 32]>,
    seen_in_order: VecDeque<[u8; 32]>,
    /// Source of the ids of handshakes: a secret, and how many were drawn.
    secret: [u8; 32],
    drawn: u64,
    uses: u64,
    counters: TrustCounters,
}

impl Channels {
    /// No channels yet, at most `limit` addresses. `secret` is random: cookies and ids of handshakes
    /// are made from it.
    pub fn new(keyring: Arc<Keyring>, limit: usize, secret: [u8; 32]) -> Self {
        Channels {
            keyring,
            suite: Suite::of_this_machine(),
            gate: Gate::new(blake3::derive_key("wellspring trust 1 cookies", &secret)),
            entries: BTreeMap::new(),
            groups: Groups::default(),
            limit: limit.max(1),
            further_ports: BTreeMap::new(),
            seen: BTreeSet::new(),
            seen_in_order: VecDeque::new(),
            secret: blake3::derive_key("wellspring trust 1 ids", &secret),
            drawn: 0,
            uses: 0,
            counters: TrustCounters::default(),
        }
    }

    /// What was met so far.
    pub fn counters(&self) -> TrustCounters {
        self.counters
    }

    /// Uses another keyring from now on. Channels go on, so that no transfer ends; the owner of a key that is not
    /// trusted any more has no rights.
    pub fn set_keyring(&mut self, keyring: Arc<Keyring>) {
        let identify = |known: &Identity| {
            let trusted = keyring.identity(known.fingerprint);
            let stranger = || Identity { rights: Rights::default(), ..known.clone() };
            trusted.map_or_else(|| Arc::new(stranger()), Arc::clone)
        };
        self.entries.values_mut().for_each(|entry| entry.identify(identify));
        self.keyring = keyring;
    }

    /// Who is at the other end of a channel.
    pub fn identity(&self, address: SocketAddr, via: ChannelId) -> Option<Arc<Identity>> {
        self.entries.get(&self.home(address))?.identity(via).cloned()
    }

    /// Opens a datagram that came from `from` into `plain`. `shape` is what its header says of itself if the header
    /// of its kind stays in clear. What is left in `answer` is to be sent back.
    pub fn open(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &[u8],
        shape: Option<Shape>,
        plain: &mut [u8],
        answer: &mut Vec<u8>,
    ) -> Opened {
        answer.clear();
        match datagram.first() {
            Some(&HELLO) => self.on_hello(now, from, datagram, answer),
            Some(&RETRY) => self.on_retry(from, datagram, answer),
            Some(&INITIATION) => self.on_initiation(now, from, datagram, plain, answer),
            Some(&RESPONSE) => self.on_response(from, datagram),
            Some(&REFUSAL) => self.on_refusal(from, datagram),
            Some(&SEALED) => {
                let shape = Shape { clear: 0, len: datagram.len().saturating_sub(MAX_OVERHEAD) };
                self.open_sealed(now, from, datagram, shape, plain)
            }
            _ => match shape {
                Some(shape) => self.open_sealed(now, from, datagram, shape, plain),
                None => {
                    self.counters.clear += 1;
                    Opened::Clear
                }
            },
        }
    }

    /// Seals the datagram of `len` bytes that begins [`HEADROOM`] bytes into `room` for `to`, by that channel if one is
    /// named. The sealed one begins where `room` does; returns its length. `None` if there is no channel, and
    /// then it is not to be sent.
    pub fn seal(
        &mut self,
        to: SocketAddr,
        via: Option<ChannelId>,
        room: &mut [u8],
        len: usize,
        clear: usize,
    ) -> Option<usize> {
        self.uses += 1;
        let home = self.home(to);
        let entry = self.entries.get_mut(&home);
        let sealed = entry.and_then(|entry| {
            entry.used = self.uses;
            entry.channel_to_use(via)?.seal(room, len, clear)
        });
        match sealed {
            Some(_) => self.counters.sealed += 1,
            None => self.counters.unsent += 1,
        }
        sealed
    }

    /// Counts a datagram that was opened; returns its length.
    fn count(&mut self, found: Plain) -> usize {
        self.counters.opened += 1;
        match found {
            Plain::Whole(len) => len,
            Plain::Header(len) => {
                self.counters.trimmed += 1;
                len
            }
        }
    }

    /// Writes into `out` what is to be sent so that a request reaches the server at `to`: the request sealed, or a
    /// handshake that carries it. To be called again, as the request is repeated, until it is answered. Nothing is
    /// written of a request that [waits](Self::next_waiting) for a handshake that carries another.
    ///
    /// What goes along with a handshake can be read with the server's private key alone, and be played again.
    /// A request that is `secret` waits for the end of the handshake, which then carries none.
    ///
    /// # Errors
    /// [`NoWay`].
    pub fn request(
        &mut self,
        now: Time,
        to: SocketAddr,
        (request, secret): (&[u8], bool),
        out: &mut Vec<u8>,
    ) -> Result<(), NoWay> {
        out.clear();
        let entry = self.entry(to);
        if entry.is_established() && !entry.is_forgotten(now) {
            entry.asked(now);
            return self.seal_request(to, request, out).ok_or(NoWay::TooLong);
        }
        let recent = |greeted: &&mut Greeted| (greeted.began + GREETING_SPAN).is_after(now);
        if let Some(greeted) = entry.greeted.as_mut().filter(recent) {
            if !greeted.has_put_off(request, MAX_WAITING) {
                greeted.write(out);
            }
            return Ok(());
        }
        let id = self.draw();
        let mut greeted = self.greet(now, to, id, if secret { &[] } else { request })?;
        if secret {
            greeted.has_put_off(request, MAX_WAITING);
        }
        greeted.write(out);
        self.remember_own(out);
        self.entry(to).greeted = Some(greeted);
        Ok(())
    }

    /// Writes into `out` the next request that waited for a handshake with `to`, sealed; false if there is none.
    pub fn next_waiting(&mut self, to: SocketAddr, out: &mut Vec<u8>) -> bool {
        out.clear();
        let waiting = self.entries.get_mut(&to).and_then(|entry| entry.waiting.pop_front());
        waiting.is_some_and(|request| self.seal_request(to, &request, out).is_some())
    }

    fn seal_request(&mut self, to: SocketAddr, request: &[u8], out: &mut Vec<u8>) -> Option<()> {
        out.resize(HEADROOM, 0);
        out.extend_from_slice(request);
        out.resize(request.len() + MAX_OVERHEAD, 0);
        self.seal(to, None, out, request.len(), 0).map(|_| ())
    }

    fn greet(&self, now: Time, to: SocketAddr, id: u64, request: &[u8]) -> Result<Greeted, NoWay> {
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

    fn open_sealed(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &[u8],
        shape: Shape,
        plain: &mut [u8],
    ) -> Opened {
        self.uses += 1;
        let home = self.home(from);
        let found = match self.entries.get_mut(&home) {
            Some(entry) => {
                entry.used = self.uses;
                entry.open(now, datagram, shape, plain)
            }
            None => self.open_by_further_port(now, from, datagram, shape, plain),
        };
        match found {
            Found::Plain(found, via) => {
                return Opened::Datagram { len: self.count(found), via };
            }
            Found::Replayed => self.counters.replayed += 1,
            Found::Conflict => self.counters.handshakes_conflicting += 1,
            Found::Forged => self.counters.forged += 1,
        }
        Opened::Nothing
    }

    /// The address whose channels an address uses.
    fn home(&self, address: SocketAddr) -> SocketAddr {
        match self.entries.contains_key(&address) {
            true => address,
            false => self.further_ports.get(&address).copied().unwrap_or(address),
        }
    }

    /// Opens a datagram from an address without channels: by a channel of another port there. What is authentic shows
    /// that its sender has this port too.
    fn open_by_further_port(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &[u8],
        shape: Shape,
        plain: &mut [u8],
    ) -> Found {
        let ports = SocketAddr::new(from.ip(), 0)..=SocketAddr::new(from.ip(), u16::MAX);
        for (home, entry) in self.entries.range_mut(ports).take(MAX_PORTS_TRIED) {
            let found = entry.open(now, datagram, shape, plain);
            if let Found::Plain(..) = found {
                entry.used = self.uses;
                if self.further_ports.len() >= MAX_FURTHER_PORTS {
                    self.further_ports.clear();
                }
                self.further_ports.insert(from, *home);
                return found;
            }
        }
        Found::Forged
    }

    fn on_hello(
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
        let Some(cookie) = self.gate.cookie(now, from) else { return };
        answer.extend_from_slice(&begin(RETRY, id));
        answer.extend_from_slice(&cookie);
        answer.extend_from_slice(&self.keyring.own().map_or([0; 32], |own| own.public().0));
    }

    fn on_retry(&mut self, from: SocketAddr, datagram: &[u8], answer: &mut Vec<u8>) -> Opened {
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

    fn on_initiation(
        &mut self,
        now: Time,
        from: SocketAddr,
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
        if self.entries.get(&from).is_some_and(|entry| entry.is_held_by_another(now, &identity)) {
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
        if self.gate.may_refuse(now) {
            answer.extend_from_slice(&refusal(id, reason as u8));
        }
        Opened::Nothing
    }

    fn on_response(&mut self, from: SocketAddr, datagram: &[u8]) -> Opened {
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

    fn on_refusal(&mut self, from: SocketAddr, datagram: &[u8]) -> Opened {
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
    fn remember_own(&mut self, datagram: &[u8]) {
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

    /// The entry of an address. If there are too many, the one that was used longest ago gives way.
    fn entry(&mut self, address: SocketAddr) -> &mut Entry {
        self.uses += 1;
        if self.entries.len() >= self.limit && !self.entries.contains_key(&address) {
            let oldest = self
                .entries
                .iter()
                .min_by_key(|(_, entry)| entry.used)
                .map(|(address, _)| *address);
            if let Some(oldest) = oldest {
                self.entries.remove(&oldest);
            }
        }
        let entry = self.entries.entry(address).or_default();
        entry.used = self.uses;
        entry
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        let [a, b, c, d, e, f, g, h, ..] =
            *blake3::keyed_hash(&self.secret, &self.drawn.to_be_bytes()).as_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl Greeted {
    /// Puts a request off until the handshake is done, unless it is the one that the handshake carries, or waits
    /// already, or `limit` do.
    fn has_put_off(&mut self, request: &[u8], limit: usize) -> bool {
        let known = self.request == request || self.waiting.iter().any(|known| known == request);
        let puts_off = !known && self.waiting.len() < limit;
        if puts_off {
            self.waiting.push_back(request.to_vec());
        }
        puts_off
    }

    fn write(&self, out: &mut Vec<u8>) {
        match &self.stage {
            Stage::Asking => {
                out.extend_from_slice(&begin(HELLO, self.id));
                out.resize(HELLO_LEN, 0);
            }
            Stage::Initiated(initiator, _) => out.extend_from_slice(initiator.datagram()),
        }
    }
}

/// What a host without keys answers to a handshake, if the datagram is one.
pub fn without_keys(datagram: &[u8]) -> Option<[u8; REFUSAL_LEN]> {
    let handshake =
        matches!(datagram.first(), Some(&HELLO | &INITIATION)) && datagram.len() >= HELLO_LEN;
    Some(refusal(id_of(datagram).filter(|_| handshake)?, Refusal::NoKeys as u8))
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
