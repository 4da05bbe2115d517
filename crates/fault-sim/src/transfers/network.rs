//! Virtual network: datagrams between machines, which it delays, loses, repeats and damages.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use wellspring_client::simulation::{Arrival, VirtualSocket};
use wellspring_client::socket::Outgoing;
use wellspring_core::RandomStream;

use crate::account::lock;
use crate::process::Process;

/// Bytes of a datagram that go into the trace: headers, and some of what they carry.
const TRACED: usize = 40;
/// The same under keys: what follows comes of random numbers that are the system's, not the run's.
const TRACED_OF_SEALED: usize = 8;

/// Treatment of datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Time on the way, at least \[ms\].
    pub delay: u64,
    /// What is added at random \[ms\].
    pub jitter: u64,
    /// Probability that a datagram is lost.
    pub loss: f64,
    /// That it comes twice.
    pub twice: f64,
    /// That it is overtaken by those of the next 50 ms.
    pub overtaken: f64,
    /// That bits of it are changed, and its checksum is right.
    pub damage: f64,
    /// That the sender is told, by ICMP, of a port at which nobody listens.
    pub unreachable: f64,
    /// Datagrams on their way to one machine; more are lost.
    pub queue: usize,
}

/// What happened to datagrams.
#[derive(Clone, Copy, Default, Debug)]
pub struct Datagrams {
    /// Sent.
    pub sent: u64,
    /// Lost by chance or in a full queue.
    pub lost: u64,
    /// Lost between machines that were cut off from each other.
    pub cut_off: u64,
    /// That came twice.
    pub twice: u64,
    /// Changed on the way.
    pub damaged: u64,
    /// Symbols changed by machines that lie.
    pub altered: u64,
}

impl std::ops::AddAssign for Datagrams {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.cut_off += other.cut_off;
        self.twice += other.twice;
        self.damaged += other.damaged;
        self.altered += other.altered;
    }
}

#[derive(Debug)]
struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    traffic_class: u8,
    bytes: Vec<u8>,
}

/// Datagrams from one machine to another are lost until then.
#[derive(Clone, Copy, Debug)]
struct Cut {
    from: IpAddr,
    to: IpAddr,
    until: Instant,
}

/// Lasting behaviour of a machine.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Character {
    /// Part of its symbols that it alters.
    pub lies: f64,
    /// Time that its datagrams take beside that of others' \[ms\].
    pub slow: u64,
}

/// Shortest symbol that is altered: other datagrams of that kind are none \[bytes\].
const SHORTEST_SYMBOL: usize = 200;

struct State {
    rng: RandomStream,
    weather: Weather,
    characters: BTreeMap<IpAddr, Character>,
    cuts: Vec<Cut>,
    sockets: BTreeMap<SocketAddr, Weak<Socket>>,
    /// By the time of arrival, and in the order in which they were sent.
    on_the_way: BTreeMap<(Instant, u64), Datagram>,
    heading: BTreeMap<IpAddr, usize>,
    next: u64,
    next_port: u16,
    counters: Datagrams,
    traced: usize,
    trace: u64,
}

/// The network.
pub(crate) struct Network {
    began: Instant,
    state: Mutex<State>,
    sooner: Notify,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    pub(crate) fn new(rng: RandomStream) -> Arc<Self> {
        let state = State {
            rng,
            weather: Weather::default(),
            characters: BTreeMap::new(),
            cuts: Vec::new(),
            sockets: BTreeMap::new(),
            on_the_way: BTreeMap::new(),
            heading: BTreeMap::new(),
            next: 0,
            next_port: 40_000,
            counters: Datagrams::default(),
            traced: TRACED,
            trace: 0xcbf2_9ce4_8422_2325,
        };
        Arc::new(Network { began: Instant::now(), state: Mutex::new(state), sooner: Notify::new() })
    }

    /// From now on all that is sent is sealed.
    pub(crate) fn seal(&self) {
        lock(&self.state).traced = TRACED_OF_SEALED;
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        lock(&self.state).weather = weather;
    }

    pub(crate) fn set_character(&self, machine: IpAddr, character: Character) {
        lock(&self.state).characters.insert(machine, character);
    }

    /// Loses what one machine sends another, for so long.
    pub(crate) fn cut(&self, from: IpAddr, to: IpAddr, span: Duration) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.cuts.retain(|cut| cut.until > now);
        state.cuts.push(Cut { from, to, until: now + span });
    }

    /// Ends all cuts.
    pub(crate) fn heal(&self) {
        lock(&self.state).cuts.clear();
    }

    pub(crate) fn counters(&self) -> Datagrams {
        lock(&self.state).counters
    }

    pub(crate) fn trace(&self) -> u64 {
        lock(&self.state).trace
    }

    /// Opens a socket of a process; port 0 chooses one that was never used.
    pub(crate) fn bind(
        self: &Arc<Self>,
        mut address: SocketAddr,
        process: &Arc<Process>,
    ) -> io::Result<Arc<Socket>> {
        let mut state = lock(&self.state);
        if address.port() == 0 {
            address.set_port(state.next_port);
            state.next_port += 1;
        }
        if state.sockets.get(&address).is_some_and(|socket| socket.strong_count() > 0) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let socket = Arc::new(Socket {
            network: Arc::clone(self),
            address,
            process: Arc::clone(process),
            arrived: Mutex::default(),
            closed_ports: Mutex::default(),
            wake: Mutex::default(),
        });
        state.sockets.insert(address, Arc::downgrade(&socket));
        Ok(socket)
    }

    /// Carries datagrams, for ever.
    pub(crate) async fn carry(self: Arc<Self>) {
        loop {
            match self.deliver() {
                // Either is a reason to look again.
                Some(next) => {
                    let _ = tokio::time::timeout_at(next, self.sooner.notified()).await;
                }
                None => self.sooner.notified().await,
            }
        }
    }

    /// Delivers what is due; when the next datagram is.
    fn deliver(&self) -> Option<Instant> {
        let now = Instant::now();
        loop {
            let (socket, datagram) = {
                let mut state = lock(&self.state);
                let entry = state.on_the_way.first_entry()?;
                if entry.key().0 > now {
                    return Some(entry.key().0);
                }
                let datagram = entry.remove();
                if let Some(heading) = state.heading.get_mut(&datagram.to.ip()) {
                    *heading -= 1;
                }
                state.note(&datagram, now.duration_since(self.began));
                let socket = state.sockets.get(&datagram.to).and_then(Weak::upgrade);
                match socket.filter(|socket| socket.process.is_alive()) {
                    Some(socket) => (socket, datagram),
                    None => {
                        let unreachable = state.weather.unreachable;
                        if state.rng.chance(unreachable)
                            && let Some(sender) = state.sockets.get(&datagram.from)
                            && let Some(sender) = sender.upgrade()
                        {
                            lock(&sender.closed_ports).push(datagram.to);
                            drop(state);
                            sender.wake();
                        }
                        continue;
                    }
                }
            };
            lock(&socket.arrived).push_back(datagram);
            socket.wake();
        }
    }

    fn send(&self, datagram: Datagram) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let State { rng, weather, .. } = &mut *state;
        let weather = *weather;
        let (is_lost, comes_twice, is_damaged) =
            (rng.chance(weather.loss), rng.chance(weather.twice), rng.chance(weather.damage));
        state.counters.sent += 1;
        let (from, to) = (datagram.from.ip(), datagram.to.ip());
        let is_cut = |cut: &Cut| cut.from == from && cut.to == to && cut.until > now;
        if state.cuts.iter().any(is_cut) {
            state.counters.cut_off += 1;
            return;
        }
        if is_lost {
            state.counters.lost += 1;
            return;
        }
        let mut datagram = datagram;
        if is_damaged {
            state.counters.damaged += 1;
            for _ in 0..=state.rng.below(3) {
                let bit = state.rng.below(datagram.bytes.len() as u64 * 8) as usize;
                datagram.bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        state.alter(&mut datagram);
        let first = state.on_the_way.first_key_value().map(|((at, _), _)| *at);
        if comes_twice {
            state.counters.twice += 1;
            let Datagram { from, to, traffic_class, .. } = datagram;
            let again = Datagram { from, to, traffic_class, bytes: datagram.bytes.clone() };
            state.put_on_the_way(now, again);
        }
        state.put_on_the_way(now, datagram);
        let new_first = state.on_the_way.first_key_value().map(|((at, _), _)| *at);
        if new_first != first {
            drop(state);
            self.sooner.notify_one();
        }
    }
}

impl State {
    /// A machine that lies changes a symbol.
    fn alter(&mut self, datagram: &mut Datagram) {
        let Some(character) = self.characters.get(&datagram.from.ip()) else { return };
        let bytes = &mut datagram.bytes;
        let is_symbol = bytes.len() > SHORTEST_SYMBOL && bytes[0] & 0x0f == 0;
        if is_symbol && self.rng.chance(character.lies) {
            let at = bytes.len() - 8;
            bytes[at] ^= 0x20;
            self.counters.altered += 1;
        }
    }

    fn put_on_the_way(&mut self, now: Instant, datagram: Datagram) {
        let heading = self.heading.entry(datagram.to.ip()).or_default();
        if *heading >= self.weather.queue {
            self.counters.lost += 1;
            return;
        }
        *heading += 1;
        let Weather { delay, jitter, overtaken, .. } = self.weather;
        let slow = self.characters.get(&datagram.from.ip()).map_or(0, |character| character.slow);
        let mut after = delay + slow + self.rng.below(jitter + 1);
        if self.rng.chance(overtaken) {
            after += self.rng.below(50);
        }
        self.on_the_way.insert((now + Duration::from_millis(after), self.next), datagram);
        self.next += 1;
    }

    fn note(&mut self, datagram: &Datagram, after: Duration) {
        let Datagram { from, to, bytes, .. } = datagram;
        let numbers = [after.as_nanos() as u64, from.port().into(), to.port().into()];
        let head = &bytes[..bytes.len().min(self.traced)];
        let numbers = numbers.into_iter().chain([bytes.len() as u64]).flat_map(u64::to_le_bytes);
        for byte in numbers.chain(head.iter().copied()) {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// A socket of a process.
pub(crate) struct Socket {
    network: Arc<Network>,
    address: SocketAddr,
    process: Arc<Process>,
    arrived: Mutex<VecDeque<Datagram>>,
    closed_ports: Mutex<Vec<SocketAddr>>,
    wake: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Socket {
    fn wake(&self) {
        if let Some(wake) = &*lock(&self.wake) {
            wake();
        }
    }
}

impl VirtualSocket for Socket {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn send(&self, batch: &Outgoing<'_>) -> io::Result<()> {
        if !self.process.is_alive() {
            return Ok(());
        }
        for bytes in batch.bytes.chunks(batch.segment.max(1)) {
            self.network.send(Datagram {
                from: self.address,
                to: batch.to,
                traffic_class: (batch.dscp << 2) | (batch.ecn & 3),
                bytes: bytes.to_vec(),
            });
        }
        Ok(())
    }

    fn receive(&self, buffer: &mut [u8]) -> Option<Arrival> {
        let Datagram { from, to, traffic_class, bytes } = lock(&self.arrived).pop_front()?;
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        Some(Arrival { from, local: to.ip(), traffic_class, len: bytes.len() })
    }

    fn take_closed_ports(&self) -> Vec<SocketAddr> {
        std::mem::take(&mut lock(&self.closed_ports))
    }

    fn on_arrival(&self, wake: Box<dyn Fn() + Send + Sync>) {
        *lock(&self.wake) = Some(wake);
    }
}
