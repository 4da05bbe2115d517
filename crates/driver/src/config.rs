//! The configuration of a driver.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use wellspring_core::{Duration, HostId, Rate, Seed, Time};
use wellspring_transport::{lttp, ndp, scdp};
use wellspring_trust::Keyring;
use wellspring_wire::lttp::SYMBOL_HEADER_LEN;
use wellspring_wire::ndp::DATA_HEADER_LEN;

use crate::ConfigError;
use crate::memory_limit::memory_limit;
use crate::setters;
use crate::socket::SocketConfig;
use crate::steering::MAX_LOOPS;

/// Payload of NDP's packets \[bytes\]: with all headers it fits an Ethernet frame by IPv6, too.
const NDP_PAYLOAD: u16 = 1_408;

/// Ports of a driver, at most: each has socket buffers of its own.
pub const MAX_PORTS: u8 = 64;
/// Threads and hosts of a driver, at most.
const MAX_WORKERS: usize = 1_024;
const MAX_PEERS: usize = 1 << 20;
/// Memory for blocks in one direction, at least, whatever limits a process and however many loops share it: two of the longest \[bytes\].
const LEAST_MEMORY: usize = 16 << 20;

/// The memory for blocks in one direction where a process may use that much in all \[bytes\]: the rest is for the other
/// direction, codes, buffers and the program itself.
fn share_of(limit: u64, most: usize) -> usize {
    let quarter = usize::try_from(limit / 4).unwrap_or(usize::MAX);
    quarter.clamp(LEAST_MEMORY, most)
}

/// Whether this code runs on a simulated machine.
fn is_simulated() -> bool {
    #[cfg(feature = "simulation")]
    let is_simulated = crate::simulation::machine().is_some();
    #[cfg(not(feature = "simulation"))]
    let is_simulated = false;
    is_simulated
}

/// How a driver is set up. [`DriverConfig::new`] gives the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DriverConfig {
    /// The socket: bind address, buffers, multicast interface and TTL.
    pub socket: SocketConfig,
    /// UDP ports: each leads along another of the network's equal-cost paths, if there are several. Sessions use them
    /// as far as [`scdp::Config::paths`] and the other host allow.
    pub ports: u8,
    /// The protocol. Its `host` and `accept_unannounced` are set by the driver: here sessions are
    /// always announced first (by control messages, which can be authenticated).
    pub scdp: scdp::Config,
    /// LTTP. Its `host` is set by the driver; how objects are cut, each session says.
    pub lttp: lttp::Config,
    /// NDP. Its `host` is set by the driver.
    pub ndp: ndp::Config,
    /// Send no faster than this, over all sessions; the rate of the own link, say.
    pub send_rate: Option<Rate>,
    /// Whether to look for datagrams that switches have trimmed.
    pub trim_taps: TrimTaps,
    /// The DSCPs of what is sent.
    pub dscp: DscpMap,
    /// Event loops, each a thread with a socket of its own at the address: each host that sends here is in the loop that
    /// [`Steering`](crate::Steering) says. More than one only on Linux, where switches drop and links are shared
    /// ([`Fabric::Shared`](scdp::Fabric::Shared)), without trim taps, and without a send rate, which nothing would keep
    /// over all of them. They share what is said here of workers and memory.
    pub loops: u8,
    /// Threads that read blocks, decode and write; 1 or more. Each loop has at least one.
    pub workers: usize,
    /// Bytes of received blocks held, over all sessions \[bytes\]. Repair symbols come on top:
    /// never more than the source symbols of the same blocks and a few
    /// ([`scdp::Limits::extra_symbols`]).
    pub receive_memory: usize,
    /// Bytes of blocks read ahead and kept for sending, over all sessions \[bytes\].
    pub send_memory: usize,
    /// Blocks read ahead of the one being sent, in each session.
    pub read_ahead: u32,
    /// Hosts that sessions name, at most, at one time.
    pub peers: usize,
    /// What the driver's clock shows when it starts. It makes no difference to anything, which is
    /// what tests set it for.
    pub clock_start: Time,
    /// Trouble made on purpose.
    pub faults: Faults,
    /// Keys: with them every datagram is sealed, and what is not sealed by a peer that is trusted is dropped.
    pub keys: Option<Arc<Keyring>>,
    /// Whether hosts with keys may begin to speak with this one, as clients do with a server. A client's driver does not
    /// let them: it speaks with those that it has greeted itself, as servers.
    pub answers_handshakes: bool,
}

setters! {
    DriverConfig {
        socket: SocketConfig,
        ports: u8,
        scdp: scdp::Config,
        lttp: lttp::Config,
        ndp: ndp::Config,
        send_rate: Option<Rate>,
        trim_taps: TrimTaps,
        dscp: DscpMap,
        loops: u8,
        workers: usize,
        receive_memory: usize,
        send_memory: usize,
        read_ahead: u32,
        peers: usize,
        clock_start: Time,
        faults: Faults,
        keys: Option<Arc<Keyring>>,
        answers_handshakes: bool,
    }
}

impl DriverConfig {
    /// Checks the values that have limits.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check("workers", &self.workers, 1..=MAX_WORKERS)?;
        ConfigError::check("peers", &self.peers, 1..=MAX_PEERS)?;
        ConfigError::check("ports", &self.ports, 1..=MAX_PORTS)?;
        let Faults { loss, duplicate, trim, reorder, .. } = self.faults;
        ConfigError::check("faults.loss", &loss, 0.0..=1.0)?;
        ConfigError::check("faults.duplicate", &duplicate, 0.0..=1.0)?;
        ConfigError::check("faults.trim", &trim, 0.0..=1.0)?;
        ConfigError::check("faults.reorder", &reorder, 0.0..=1.0)?;
        self.check_loops()
    }

    /// Checks what several loops need.
    fn check_loops(&self) -> Result<(), ConfigError> {
        ConfigError::check("loops", &self.loops, 1..=MAX_LOOPS)?;
        if self.loops == 1 {
            return Ok(());
        }
        let is_shared = matches!(self.scdp.fabric, scdp::Fabric::Shared { .. });
        let has_rate = self.least_send_rate().is_some() || self.faults.receive_rate.is_some();
        let needs = [
            (cfg!(target_os = "linux"), "several loops need Linux, which deals hosts to them"),
            (
                is_shared,
                "several loops need a shared fabric, where congestion control paces each of them",
            ),
            (self.trim_taps == TrimTaps::Off, "several loops need trim taps to be off"),
            (!has_rate, "several loops have no rate, which none of them could keep for all"),
            (!is_simulated(), "a simulated machine has one loop"),
        ];
        let Some((_, reason)) = needs.into_iter().find(|(is_met, _)| !is_met) else {
            return Ok(());
        };
        let one = ConfigError::check("loops", &self.loops, 1..=1);
        one.map_err(|error| ConfigError { reason: Some(reason), ..error })
    }

    /// The defaults at that address: a network shared with others and switches that drop, a link
    /// of 10 Gbit/s, credits and symbols in bursts fit for segmentation offload, 512 MiB for
    /// received blocks and 256 MiB for blocks to send; in a control group with less memory than 2 GiB, a quarter of
    /// its limit for each at most.
    pub fn new(bind: SocketAddr) -> Self {
        let scdp = scdp::Config::shipped(HostId(0), Rate::from_mbps(10_000));
        // Both read several files.
        static WORKERS: LazyLock<usize> = LazyLock::new(|| {
            std::thread::available_parallelism().map_or(1, |n| n.get().clamp(1, 8))
        });
        static LIMIT: LazyLock<Option<u64>> = LazyLock::new(memory_limit);
        let memory = |most: usize| LIMIT.map_or(most, |limit| share_of(limit, most));
        let lttp = lttp::Config {
            // Our header, UDP's and IPv4's.
            overhead_per_packet: SYMBOL_HEADER_LEN as u32 + 28,
            overlap: true,
            granularity: Duration::from_millis(1),
            peer_timeout: Duration::from_secs(10),
            ..lttp::Config::new(HostId(0), Seed(0))
        };
        let ndp = ndp::Config {
            payload: NDP_PAYLOAD,
            // Our header, UDP's and IPv4's, and Ethernet's framing.
            overhead_per_packet: DATA_HEADER_LEN as u32 + 28 + 38,
            initial_rtt: scdp.initial_rtt,
            min_timeout: Duration::from_millis(50),
            ..ndp::Config::new(HostId(0), scdp.link_rate, Seed(0))
        };
        DriverConfig {
            socket: SocketConfig::new(bind),
            ports: 1,
            scdp,
            lttp,
            ndp,
            send_rate: None,
            trim_taps: TrimTaps::Off,
            dscp: DscpMap::default(),
            loops: 1,
            workers: *WORKERS,
            receive_memory: memory(512 << 20),
            send_memory: memory(256 << 20),
            read_ahead: 8,
            peers: 4_096,
            clock_start: Time::ZERO,
            faults: Faults::default(),
            keys: None,
            answers_handshakes: true,
        }
    }
}

impl DriverConfig {
    /// The rate that bounds what is sent, if one does.
    pub(crate) fn least_send_rate(&self) -> Option<Rate> {
        [self.send_rate, self.faults.send_rate].into_iter().flatten().min()
    }

    /// The part of each loop.
    pub(crate) fn of_each_loop(&self) -> DriverConfig {
        let loops = usize::from(self.loops);
        let memory = |all: usize| (all / loops).max(all.min(LEAST_MEMORY));
        DriverConfig {
            workers: (self.workers / loops).max(1),
            receive_memory: memory(self.receive_memory),
            send_memory: memory(self.send_memory),
            ..self.clone()
        }
    }

    /// What sealing adds to each datagram \[bytes\].
    pub(crate) fn sealing_overhead(&self) -> u16 {
        if self.keys.is_some() { wellspring_trust::MAX_OVERHEAD as u16 } else { 0 }
    }
}

/// Whether a driver opens raw sockets to see trimmed datagrams, which UDP sockets never show. That
/// takes the right to open them (`CAP_NET_RAW`); [`Statistics`](crate::Statistics) say what came
/// of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TrimTaps {
    /// No: what is trimmed counts as lost.
    #[default]
    Off,
    /// If it is allowed; otherwise as `Off`.
    IfAllowed,
    /// Yes, or the driver does not start.
    Required,
}

/// DSCPs by what a datagram is. Which values a network trims, prioritises or bleaches is the
/// operator's choice; the default asks for nothing (best effort throughout).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DscpMap {
    /// Pulls and closes, which must overtake symbols.
    pub control: u8,
    /// Symbols by priority class, from class 1 on; the last entry stands for all higher classes.
    /// Empty: 0.
    pub symbols: Vec<u8>,
    /// Messages that set sessions up.
    pub messages: u8,
}

setters! {
    DscpMap { control: u8, symbols: Vec<u8>, messages: u8 }
}

impl DscpMap {
    /// A choice for fabrics that trim: class selectors, each of which switches put into a queue of its own
    /// unless told otherwise (RFC 2474 §4.2.2). Pulls and messages in CS6, symbols from CS5 down to CS1 by
    /// priority; these are to be configured as trimmable.
    pub fn trimming() -> Self {
        DscpMap { control: 48, symbols: vec![40, 32, 24, 16, 8], messages: 48 }
    }

    /// The DSCP of a symbol in that class (0 counts as 1).
    pub fn of_symbol(&self, class: u8) -> u8 {
        let index = usize::from(class.saturating_sub(1)).min(self.symbols.len().saturating_sub(1));
        self.symbols.get(index).copied().unwrap_or(0)
    }
}

/// Trouble made on purpose, to see how transfers fare. Everything is done to datagrams that have
/// arrived, control messages too, before they are looked at; `send_rate` alone slows what is
/// sent. Statistics name the faults in force.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Faults {
    /// Datagrams lost, 0 to 1.
    pub loss: f64,
    /// Datagrams that come twice, 0 to 1.
    pub duplicate: f64,
    /// Symbols cut down to their header, as a trimming switch would, 0 to 1.
    pub trim: f64,
    /// Datagrams held back by a random span up to `reorder_by`, 0 to 1.
    pub reorder: f64,
    /// How far back a reordered datagram falls, at most.
    pub reorder_by: Duration,
    /// Delay of every datagram.
    pub delay: Duration,
    /// Rate at which datagrams are let in: a bottleneck with a queue of `queue` bytes that drops
    /// what does not fit.
    pub receive_rate: Option<Rate>,
    /// Queue of that bottleneck \[bytes\].
    pub queue: u32,
    /// Rate at which datagrams are sent, as on a slow link.
    pub send_rate: Option<Rate>,
    /// Seed of the draws.
    pub seed: u64,
}

setters! {
    Faults {
        loss: f64,
        duplicate: f64,
        trim: f64,
        reorder: f64,
        reorder_by: Duration,
        delay: Duration,
        receive_rate: Option<Rate>,
        queue: u32,
        send_rate: Option<Rate>,
        seed: u64,
    }
}

impl Faults {
    /// Whether any trouble is made.
    pub fn active(&self) -> bool {
        self.on_receive() || self.send_rate.is_some()
    }

    /// Whether arriving datagrams meet any.
    pub(crate) fn on_receive(&self) -> bool {
        let chances = [self.loss, self.duplicate, self.trim, self.reorder];
        chances.iter().any(|p| *p > 0.0)
            || self.delay > Duration::ZERO
            || self.receive_rate.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn config(loops: u8) -> DriverConfig {
        DriverConfig::new((Ipv4Addr::LOCALHOST, 0).into()).loops(loops)
    }

    #[test]
    fn several_loops_say_what_they_need() {
        let reason = |config: DriverConfig| config.check().expect_err("refused").to_string();
        assert_eq!(reason(config(0)), "loops is 0; 1 to 64 are allowed");
        assert_eq!(reason(config(65)), "loops is 65; 1 to 64 are allowed");
        if cfg!(not(target_os = "linux")) {
            assert!(reason(config(2)).contains("Linux"));
            return;
        }
        assert_eq!(config(64).check(), Ok(()));
        let rate = Some(Rate::from_mbps(1));
        let trimming = |mut config: DriverConfig| {
            config.scdp.fabric = scdp::Fabric::Trimming;
            config
        };
        for taps in [TrimTaps::IfAllowed, TrimTaps::Required] {
            assert!(reason(config(2).trim_taps(taps)).contains("trim taps"));
            assert_eq!(config(1).trim_taps(taps).check(), Ok(()));
        }
        assert!(reason(trimming(config(2))).contains("shared fabric"));
        for limited in [
            config(2).send_rate(rate),
            config(2).faults(Faults::default().send_rate(rate)),
            config(2).faults(Faults::default().receive_rate(rate)),
        ] {
            assert!(reason(limited.clone()).starts_with("loops is 2: several loops have no rate"));
            assert_eq!(limited.loops(1).check(), Ok(()));
        }
    }

    #[test]
    fn loops_share_workers_and_memory_but_each_can_work() {
        let all = config(3).workers(7).receive_memory(90 << 20).send_memory(60 << 20);
        let each = all.of_each_loop();
        assert_eq!((each.workers, each.receive_memory, each.send_memory), (2, 30 << 20, 20 << 20));
        let little = all.loops(64).of_each_loop();
        assert_eq!((little.workers, little.receive_memory), (1, LEAST_MEMORY));
        let least = config(2).receive_memory(1_000).of_each_loop();
        assert_eq!(least.receive_memory, 1_000, "no more than was said");
        let one = config(1).workers(5);
        assert_eq!(one.of_each_loop().workers, 5);
        assert_eq!(one.of_each_loop().send_memory, one.send_memory);
    }
}
