//! How LTTP's two sides are set up.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wellspring_core::Rate;

use super::server::LttpServerEvent;
use crate::driver::Faults;
use crate::socket::SocketConfig;
use crate::store::DigestCache;

/// What both sides are told.
#[derive(Clone, Debug)]
pub struct LttpSettings {
    /// The UDP socket.
    pub socket: SocketConfig,
    /// How long a peer may be silent before it counts as gone, at each step.
    pub timeout: Duration,
    /// A server begins the next block while the stop of the one before is under way; a client takes
    /// in symbols of both ([`overlap`](wellspring_transport::lttp::Config::overlap)).
    pub overlap: bool,
    /// How late the loop may wake up without its senders losing pace (RFC 5348 §4.6: `t_gran`).
    pub granularity: Duration,
    /// All symbols together are sent no faster than this; the rate of the own link, say.
    pub rate_limit: Option<Rate>,
    /// Trouble made on purpose to datagrams that arrive.
    pub faults: Faults,
}

impl LttpSettings {
    /// At that address: ten seconds, overlap, no limit, no trouble.
    pub fn new(bind: SocketAddr) -> Self {
        LttpSettings {
            socket: SocketConfig::new(bind),
            timeout: Duration::from_secs(10),
            overlap: true,
            granularity: Duration::from_millis(1),
            rate_limit: None,
            faults: Faults::default(),
        }
    }
}

/// How a server is set up.
#[derive(Clone)]
pub struct LttpServerConfig {
    /// Socket and protocol. The TCP port is the UDP port.
    pub settings: LttpSettings,
    /// The directory whose files are served.
    pub directory: PathBuf,
    /// TCP connections at one time, at most; others are closed at once.
    pub max_connections: usize,
    /// Parts sent at one time, at most; others are refused.
    pub max_sessions: usize,
    /// Where digests are kept.
    pub cache: Arc<DigestCache>,
    /// Hears what happens; called from the server's tasks, must not wait.
    pub events: Arc<dyn Fn(LttpServerEvent) + Send + Sync>,
}

impl LttpServerConfig {
    /// Serves `directory` at that address, keeps digests in memory.
    pub fn new(bind: SocketAddr, directory: PathBuf) -> Self {
        LttpServerConfig {
            settings: LttpSettings::new(bind),
            directory,
            max_connections: 256,
            max_sessions: 64,
            cache: Arc::new(DigestCache::in_memory()),
            events: Arc::new(|_| {}),
        }
    }
}

/// How a client is set up.
#[derive(Clone, Debug)]
pub struct LttpClientConfig {
    /// Socket and protocol.
    pub settings: LttpSettings,
}

impl Default for LttpClientConfig {
    /// Any address and port, IPv6 and IPv4.
    fn default() -> Self {
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        LttpClientConfig { settings: LttpSettings::new(any) }
    }
}
