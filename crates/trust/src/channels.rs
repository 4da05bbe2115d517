//! Table of a host's channels: opens what comes in, seals what leaves, makes and answers handshakes.

mod handshakes;
mod of_groups;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_core::{Duration, Time};

use crate::channel::{ChannelId, Via};
use crate::counters::TrustCounters;
use crate::direction::{HEADROOM, MAX_OVERHEAD, Plain, Shape, Suite};
use crate::entry::{Entry, Found, Greeted};
use crate::gate::Gate;
use crate::groups::Groups;
use crate::handshake::Refusal;
use crate::key::{Fingerprint, PublicKey};
use crate::keyring::{Identity, Keyring};
use crate::layout::{
    HELLO, HELLO_LEN, INITIATION, REFUSAL, REFUSAL_LEN, RESPONSE, RETRY, SEALED, id_of, refusal,
};
use crate::rights::Rights;

/// How long a handshake is repeated as it is before a new one is begun.
const GREETING_SPAN: Duration = Duration::from_secs(5);
/// Requests that wait for one handshake, at most: more than a client has under way.
const MAX_WAITING: usize = 32;

/// Ports of an address whose channels are tried for a datagram from another port there.
const MAX_PORTS_TRIED: usize = 8;
/// Further ports remembered, at most; who is forgotten is found again.
const MAX_FURTHER_PORTS: usize = 16_384;

/// Of a key that has too many entries, one in so many gives way at a time.
const A_PART: usize = 16;

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
    /// Whether handshakes of others are answered.
    answers: bool,
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
            answers: true,
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

    /// Those of a client, which answers no handshake: all its channels lead to keys that it has greeted, and it greets
    /// only who may serve at that address. Else a key that may only read could greet it from there, and be
    /// taken for the server.
    #[must_use]
    pub fn of_client(self) -> Self {
        Channels { answers: false, ..self }
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
    /// of its kind stays in clear. What is left in `answer` is to be sent back. Where a session belongs to a
    /// key, the `holder`, nothing else is opened, and no other key's handshake answered.
    pub fn open(
        &mut self,
        now: Time,
        (from, holder): (SocketAddr, Option<Fingerprint>),
        datagram: &[u8],
        shape: Option<Shape>,
        plain: &mut [u8],
        answer: &mut Vec<u8>,
    ) -> Opened {
        answer.clear();
        match datagram.first() {
            Some(&HELLO | &INITIATION) if !self.answers => {
                self.counters.handshakes_wrong += 1;
                Opened::Nothing
            }
            Some(&HELLO) => self.on_hello(now, from, datagram, answer),
            Some(&RETRY) => self.on_retry(from, datagram, answer),
            Some(&INITIATION) => self.on_initiation(now, (from, holder), datagram, plain, answer),
            Some(&RESPONSE) => self.on_response(from, datagram),
            Some(&REFUSAL) => self.on_refusal(from, datagram),
            Some(&SEALED) => {
                let shape = Shape { clear: 0, len: datagram.len().saturating_sub(MAX_OVERHEAD) };
                self.open_sealed(now, (from, holder), datagram, shape, plain)
            }
            _ => match shape {
                Some(shape) => self.open_sealed(now, (from, holder), datagram, shape, plain),
                None => {
                    self.counters.clear += 1;
                    Opened::Clear
                }
            },
        }
    }

    /// Seals the datagram of `len` bytes that begins [`HEADROOM`] bytes into `room` for `to`. The sealed one begins
    /// where `room` does; returns its length. `None` if there is no such channel, and then it is not to be sent.
    pub fn seal(
        &mut self,
        to: SocketAddr,
        via: Via,
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
        // A further port has the channels of its host, and would lose them by an entry of its own.
        let home = self.home(to);
        let entry = self.entry(home);
        if entry.is_established() && !entry.is_forgotten(now) {
            entry.asked(now);
            return self.seal_request(to, request, out).ok_or(NoWay::TooLong);
        }
        let entry = self.entry(to);
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
        self.seal(to, Via::Any, out, request.len(), 0).map(|_| ())
    }

    fn open_sealed(
        &mut self,
        now: Time,
        (from, holder): (SocketAddr, Option<Fingerprint>),
        datagram: &[u8],
        shape: Shape,
        plain: &mut [u8],
    ) -> Opened {
        self.uses += 1;
        let home = self.home(from);
        let found = match self.entries.get_mut(&home) {
            Some(entry) => {
                entry.used = self.uses;
                entry.open((now, holder), datagram, shape, plain)
            }
            None => self.open_by_further_port(now, (from, holder), datagram, shape, plain),
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
        (from, holder): (SocketAddr, Option<Fingerprint>),
        datagram: &[u8],
        shape: Shape,
        plain: &mut [u8],
    ) -> Found {
        let ports = SocketAddr::new(from.ip(), 0)..=SocketAddr::new(from.ip(), u16::MAX);
        for (home, entry) in self.entries.range_mut(ports).take(MAX_PORTS_TRIED) {
            let found = entry.open((now, holder), datagram, shape, plain);
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

    /// The entry of an address.
    fn entry(&mut self, address: SocketAddr) -> &mut Entry {
        self.uses += 1;
        if self.entries.len() >= self.limit && !self.entries.contains_key(&address) {
            self.make_room();
        }
        let entry = self.entries.entry(address).or_default();
        entry.used = self.uses;
        entry
    }

    /// Of the key that has most entries some give way, those that were used longest ago: no key can take another's by
    /// having more. Several at one time, since all are looked at.
    fn make_room(&mut self) {
        let mut of_keys: BTreeMap<Option<Fingerprint>, Vec<(u64, SocketAddr)>> = BTreeMap::new();
        for (address, entry) in &self.entries {
            of_keys.entry(entry.owner()).or_default().push((entry.used, *address));
        }
        of_keys.values_mut().for_each(|entries| entries.sort_unstable());
        let most = of_keys.into_values().max_by_key(|of| (of.len(), Reverse(of.first().copied())));
        let most = most.unwrap_or_default();
        for (_, address) in &most[..most.len().div_ceil(A_PART)] {
            self.entries.remove(address);
        }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        let [a, b, c, d, e, f, g, h, ..] =
            *blake3::keyed_hash(&self.secret, &self.drawn.to_be_bytes()).as_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

/// What a host without keys answers to a handshake, if the datagram is one.
pub fn without_keys(datagram: &[u8]) -> Option<[u8; REFUSAL_LEN]> {
    let handshake =
        matches!(datagram.first(), Some(&HELLO | &INITIATION)) && datagram.len() >= HELLO_LEN;
    Some(refusal(id_of(datagram).filter(|_| handshake)?, Refusal::NoKeys as u8))
}
