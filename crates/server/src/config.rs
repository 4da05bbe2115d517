//! Configuration of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wellspring_trust::Quota;

use super::{GroupRange, ServerEvent};
use crate::ConfigError;
use crate::driver::DriverConfig;
use crate::socket::Interface;
use crate::store::{DigestCache, Limits, PartLimits};
use wellspring_driver::setters;
use wellspring_net::timeouts::{LONGEST_TIMEOUT, SHORTEST_TIMEOUT};
use wellspring_wire::control::MAX_ADDRESSES;

/// Longest silence of a client that a session waits for. A client says how long it waits for the
/// server, and the server waits as long: a path that is down for less costs time and nothing else.
pub const LONGEST_WAIT: Duration = LONGEST_TIMEOUT;

/// How long a client is waited for that says it waits for so long; nothing if it leaves that to the server.
pub(super) fn wait_of(timeout_ms: u32) -> Option<Duration> {
    let wait = Duration::from_millis(timeout_ms.into());
    (timeout_ms > 0).then(|| wait.clamp(SHORTEST_TIMEOUT, LONGEST_WAIT))
}

/// Paths that a client may use in one session, unless set otherwise (`driver.scdp.paths`): each takes about a kilobyte.
pub const MAX_PATHS: u16 = 16;

/// How a server is set up.
#[non_exhaustive]
pub struct ServerConfig {
    /// Socket, protocol, [event loops](DriverConfig::loops) and workers. `peer_timeout` of the protocol is for clients that do not say
    /// how long they wait.
    pub driver: DriverConfig,
    /// Further addresses at which this server is heard. Clients are told, and use them at once beside the one they know.
    pub further_addresses: Vec<SocketAddr>,
    /// The directory whose files are served.
    pub directory: PathBuf,
    /// Take objects.
    pub allow_put: bool,
    /// Let an object that is taken replace one of the same name.
    pub allow_overwrite: bool,
    /// Serve and take objects whose names have a component that begins with a dot.
    pub allow_hidden: bool,
    /// Take objects whose names begin with a dash or hold characters that are invisible or turn the
    /// direction of writing.
    pub allow_odd_names: bool,
    /// Give files of trees that are taken the owners, extended attributes and access control lists that clients say.
    pub allow_attributes: bool,
    /// Bounds on what is taken.
    pub limits: Limits,
    /// Bounds on what is left of objects that did not arrive as a whole: see [`PartLimits`].
    pub parts: PartLimits,
    /// Objects, and by LTTP parts of objects, sent at one time, at most.
    pub max_sends: usize,
    /// Of these to one address, by all protocols together (of IPv6, to one network of 64 bits).
    pub max_sends_an_address: usize,
    /// Further bounds on what is sent by LTTP.
    pub lttp: LttpLimits,
    /// Objects taken from one address at one time, at most.
    pub max_puts_an_address: usize,
    /// Empty objects taken from one address in a minute, at most: they are over at once, so nothing
    /// else bounds them.
    pub max_empty_an_address: usize,
    /// What one address may have at one time where there are no keys. With keys their [rights] say it.
    ///
    /// [rights]: wellspring_trust::Rights::quota
    pub address_quota: Quota,
    /// What one client may have reserved of the disk and not written yet, by its key or else its address, of what others
    /// leave free \[%\].
    pub client_share: u8,
    /// An object of which less than 32 KiB arrive in so long, or less than would bring it here in three days, is given up.
    /// Its client may besides be silent for as long as it waits, after more has come.
    pub idle_put: Duration,
    /// Multicast groups that clients may have joined.
    pub groups: Vec<GroupRange>,
    /// Of these through which objects of one address come at one time, at most.
    pub max_groups_an_address: usize,
    /// Where digests are kept.
    pub cache: Arc<DigestCache>,
    /// The interface multicast comes in by; `None` leaves it to the system.
    pub interface: Option<Interface>,
    /// Hears what happens; called from the server's task, must not wait.
    pub events: Arc<dyn Fn(ServerEvent) + Send + Sync>,
}

setters! {
    ServerConfig {
        driver: DriverConfig,
        further_addresses: Vec<SocketAddr>,
        directory: PathBuf,
        allow_put: bool,
        allow_overwrite: bool,
        allow_hidden: bool,
        allow_odd_names: bool,
        allow_attributes: bool,
        limits: Limits,
        parts: PartLimits,
        max_sends: usize,
        max_sends_an_address: usize,
        lttp: LttpLimits,
        max_puts_an_address: usize,
        max_empty_an_address: usize,
        address_quota: Quota,
        client_share: u8,
        idle_put: Duration,
        groups: Vec<GroupRange>,
        max_groups_an_address: usize,
        cache: Arc<DigestCache>,
        interface: Option<Interface>,
        events: Arc<dyn Fn(ServerEvent) + Send + Sync>,
    }
}

impl ServerConfig {
    /// Checks the values that have limits.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        let times = Duration::from_millis(10)..=Duration::from_secs(86_400);
        ConfigError::check("idle_put", &self.idle_put, times.clone())?;
        ConfigError::check("client_share", &self.client_share, 1..=100)?;
        ConfigError::check("lttp.timeout", &self.lttp.timeout, times)?;
        let count = self.further_addresses.len();
        ConfigError::check("further_addresses", &count, 0..=MAX_ADDRESSES)?;
        self.driver.check()
    }

    /// Lets clients use up to [`MAX_PATHS`] paths, serves `directory` at that address, takes nothing, keeps digests in memory.
    pub fn new(bind: SocketAddr, directory: PathBuf) -> Self {
        let mut driver = DriverConfig::new(bind);
        driver.scdp.paths = MAX_PATHS;
        ServerConfig {
            driver,
            further_addresses: Vec::new(),
            directory,
            allow_put: false,
            allow_overwrite: false,
            allow_hidden: false,
            allow_odd_names: false,
            allow_attributes: false,
            limits: Limits::default(),
            parts: PartLimits::default(),
            max_sends: 256,
            lttp: LttpLimits::default(),
            max_sends_an_address: 64,
            max_puts_an_address: 32,
            max_empty_an_address: 256,
            address_quota: Quota::NONE,
            client_share: 50,
            idle_put: Duration::from_secs(60),
            groups: GroupRange::usual(),
            max_groups_an_address: 8,
            cache: Arc::new(DigestCache::in_memory()),
            interface: None,
            events: Arc::new(|_| {}),
        }
    }
}

/// Bounds on what a server sends by LTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LttpLimits {
    /// TCP connections at one time, at most; others are closed at once.
    pub max_connections: usize,
    /// The same for one address.
    pub max_connections_an_address: usize,
    /// Parts sent at one time, at most, a quarter of them to one address; others are refused.
    pub max_sessions: usize,
    /// How long a client may take over each message.
    pub timeout: Duration,
}

setters! {
    LttpLimits {
        max_connections: usize,
        max_connections_an_address: usize,
        max_sessions: usize,
        timeout: Duration,
    }
}

impl Default for LttpLimits {
    /// 256 connections, of one address 64; 64 parts, to one address 16; ten seconds.
    fn default() -> Self {
        LttpLimits {
            max_connections: 256,
            max_connections_an_address: 64,
            max_sessions: 64,
            timeout: Duration::from_secs(10),
        }
    }
}
