//! Failover between the appliances of a site: the socket, the timing, and the measured loads.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use wellspring_core::Duration as Span;
use wellspring_maelstrom::{
    Failover, FailoverConfig, FailoverCounters, MAX_HELLO_LEN, Partitions, SessionId,
};

use crate::clock::Clock;
use crate::failover_peers::FailoverPeers;
use crate::setup::{Config, SetupError};
use crate::sys;

/// Datagrams read at a time: whoever sends more waits.
const ROUND: usize = 64;
/// Loads are measured over so long, at least.
const LOAD_EVERY: Duration = Duration::from_millis(500);

/// Which partitions are to be protected here, now.
pub(crate) struct FailoverService {
    partitions: u8,
    clock: Clock,
    shared: Option<Shared>,
}

/// What is shared with the other appliances of the site.
struct Shared {
    socket: UdpSocket,
    /// Of all appliances of the site, in the order of their numbers.
    addresses: Vec<SocketAddr>,
    number: u8,
    failover: Failover,
    meters: BTreeMap<u8, LoadMeter>,
}

/// How many packets a partition has had when.
#[derive(Clone, Copy)]
struct LoadMeter {
    tenure: u64,
    since: Instant,
    packets: u64,
}

/// The state of failover, for those who ask.
#[derive(Clone, Debug)]
pub struct FailoverStatus {
    /// All appliances of the site, in the order of their numbers.
    pub appliances: Vec<SocketAddr>,
    /// Which of them this is.
    pub number: u8,
    /// Which of them are there; this one is.
    pub heard: Vec<bool>,
    /// By partition: the appliance that is to protect it.
    pub owners: Vec<u8>,
    /// By partition: its load as far as it is known here \[packets a second\].
    pub loads: Vec<u32>,
    /// What there was.
    pub counters: FailoverCounters,
}

impl FailoverStatus {
    /// Whether all appliances of the site are there.
    pub fn all_heard(&self) -> bool {
        self.heard.iter().all(|&heard| heard)
    }
}

impl FailoverService {
    /// With the other appliances that the configuration names, or alone.
    pub(crate) fn new(config: &Config, session: SessionId) -> Result<Self, SetupError> {
        let clock = Clock::starting_at(Instant::now());
        let shared = config.failover.as_ref().map(|peers| {
            Shared::new(config, peers, session, clock)
                .map_err(|error| SetupError::System("the socket towards the failover peers", error))
        });
        Ok(FailoverService { partitions: config.partitions, clock, shared: shared.transpose()? })
    }

    /// Hears what the others say.
    pub(crate) fn hear(&mut self) {
        let time = self.clock.now();
        let Some(Shared { socket, addresses, failover, .. }) = &mut self.shared else { return };
        let mut bytes = [0; MAX_HELLO_LEN + 1];
        for _ in 0..ROUND {
            match socket.recv_from(&mut bytes) {
                Ok((len, from)) => {
                    let from = addresses.iter().position(|&address| address == from);
                    let from = from.map_or(u8::MAX, |number| number as u8);
                    // Why one is not believed is counted there.
                    let _ = failover.handle_datagram(time, from, &bytes[..len]);
                }
                // One that is not there yet refuses.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
        }
    }

    /// Says what is due, once these partitions are protected here, the newest by a session that started then.
    pub(crate) fn speak(&mut self, running: Partitions, newest_session: u64) {
        let time = self.clock.now();
        let Some(shared) = &mut self.shared else { return };
        shared.failover.on_running(time, running, newest_session);
        let mut hello = Vec::new();
        shared.failover.handle_timeout(time, &mut hello);
        shared.send(&hello);
    }

    /// A partition has had so many packets, both ways, since it is protected here by that claim.
    pub(crate) fn on_packets(&mut self, now: Instant, partition: u8, tenure: u64, packets: u64) {
        let Some(shared) = &mut self.shared else { return };
        let new = LoadMeter { tenure, since: now, packets };
        let meter = shared.meters.entry(partition).or_insert(new);
        if meter.tenure != tenure {
            *meter = new;
            return;
        }
        let span = now - meter.since;
        if span >= LOAD_EVERY {
            let rate = packets.saturating_sub(meter.packets) as f64 / span.as_secs_f64();
            shared.failover.on_load(partition, rate as u32);
            *meter = new;
        }
    }

    /// Waits until something may be heard or is to be said, but not longer than that.
    pub(crate) fn wait(&self, at_most: Duration) {
        let Some(Shared { socket, failover, .. }) = &self.shared else {
            return std::thread::sleep(at_most);
        };
        let due = failover.poll_timeout();
        let now = self.clock.now();
        let due = if now.has_reached(due) { Duration::ZERO } else { nanos(due.since(now)) };
        sys::wait_readable(socket.as_fd(), due.clamp(Duration::from_millis(1), at_most));
    }

    /// Informs the others that this appliance ends.
    pub(crate) fn farewell(&mut self) {
        if let Some(shared) = &mut self.shared {
            let mut hello = Vec::new();
            shared.failover.farewell(&mut hello);
            shared.send(&hello);
        }
    }

    /// The claim by which a partition is protected here.
    pub(crate) fn tenure(&self, partition: u8) -> Option<u64> {
        match &self.shared {
            Some(shared) => shared.failover.tenure(partition),
            None => Some(0),
        }
    }

    /// What is protected here.
    pub(crate) fn owned(&self) -> Partitions {
        match &self.shared {
            Some(shared) => shared.failover.owned(),
            None => Partitions::first(self.partitions),
        }
    }

    /// Start of the newest session that the others have used \[ns since 1970\].
    pub(crate) fn newest_session(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.failover.newest_session())
    }

    /// The state; none if this appliance has the site alone.
    pub(crate) fn status(&self) -> Option<FailoverStatus> {
        let Shared { addresses, number, failover, .. } = self.shared.as_ref()?;
        let numbers = 0..addresses.len() as u8;
        Some(FailoverStatus {
            appliances: addresses.clone(),
            number: *number,
            heard: numbers.map(|n| n == *number || failover.is_heard(n)).collect(),
            owners: failover.owners().to_vec(),
            loads: failover.loads().to_vec(),
            counters: *failover.counters(),
        })
    }
}

impl Shared {
    fn new(
        config: &Config,
        peers: &FailoverPeers,
        session: SessionId,
        clock: Clock,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(peers.listen)?;
        socket.set_nonblocking(true)?;
        let addresses = peers.all();
        let number = addresses.iter().position(|&address| address == peers.listen);
        let number = number.unwrap_or_default() as u8;
        let span = |duration: Duration| Span::from_nanos(duration.as_nanos() as u64);
        let failover = FailoverConfig {
            partitions: config.partitions,
            appliances: addresses.len() as u8,
            number,
            silence: span(peers.silence),
            balance: peers.balance.map(span),
        };
        // The two sites have different peers, and the appliances of one have the same.
        let site = match config.peer.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let failover = Failover::new(&config.key, &site, session, failover, clock.now());
        Ok(Shared { socket, addresses, number, failover, meters: BTreeMap::new() })
    }

    /// To all the others, if it is anything.
    fn send(&self, hello: &[u8]) {
        if hello.is_empty() {
            return;
        }
        let own = usize::from(self.number);
        for (_, address) in self.addresses.iter().enumerate().filter(|&(n, _)| n != own) {
            let _ = self.socket.send_to(hello, address);
        }
    }
}

fn nanos(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
