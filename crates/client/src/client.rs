//! The client: fetches an object from all its holders at once, puts an object to many.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use wellspring_core::Priority;
use wellspring_wire::control::Geometry;
use wellspring_wire::scdp::HEADER_WITH_OPTIONS_LEN;

use crate::ConfigError;
use crate::driver::{DriverConfig, HandleError, StartError, Statistics};
use crate::protocols::{Driver, MAX_SYMBOL_SIZE};
use crate::socket::largest_payload_towards;
use crate::store::tree::Meta;
use crate::store::{Digest, DigestCache, Existing, ObjectName, Place};
use wellspring_driver::setters;

use super::byte_range::ByteRange;
use super::put::provider::Providers;
use super::requester::{Requester, Table};
use super::update::Updates;
use wellspring_codec::lt::Method;
use wellspring_net::NarrowPaths;
use wellspring_net::timeouts::{LONGEST_TIMEOUT, SHORTEST_TIMEOUT, peer_timeout};

/// SCDP's symbol size unless set \[bytes\]: with all headers it fits an Ethernet frame by IPv6
/// as well as by IPv4, and is a multiple of a cache line's half.
pub const DEFAULT_SYMBOL_SIZE: u16 = 1_376;
/// SCDP's symbol size unless set, where every path to the hosts carries it: by loopback and by jumbo frames of 9,000
/// bytes \[bytes\]. Most work is done once a symbol, and 64 of them are a [block](DEFAULT_SYMBOLS_PER_BLOCK) without
/// padding. Not for groups, whose members' paths are not known, and not for ranges.
pub const LONG_SYMBOL_SIZE: u16 = 8_192;
/// Source symbols of SCDP's blocks unless set (SCDP §V).
pub const DEFAULT_SYMBOLS_PER_BLOCK: u32 = 100;
/// LTTP's symbol size unless set \[bytes\]: with all headers it fits an Ethernet frame by IPv6 as
/// well as by IPv4, and is a multiple of a cache line.
pub const DEFAULT_LTTP_SYMBOL_SIZE: u16 = 1_408;
/// Source symbols of LTTP's blocks unless set.
pub const DEFAULT_LTTP_BLOCK_SYMBOLS: u32 = 1_024;
/// Where a path seems to carry less than this, datagrams are fragmented \[bytes\].
const LEAST_SYMBOL_SIZE: u16 = 400;
/// Initial window of a sender \[packets\] (SCDP §V).
pub const DEFAULT_INITIAL_WINDOW: u8 = 12;

/// Further addresses of a server that a session uses, at most.
pub const MAX_FURTHER_ADDRESSES: u8 = 7;

/// How a client is set up.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Socket, protocol and workers. `peer_timeout` of the protocol is set to `timeout`.
    pub driver: DriverConfig,
    /// How long a host may be silent before it counts as gone, 100 ms to ten minutes; with no host left, a transfer
    /// fails. Servers are told, and keep the session as long, by all protocols.
    pub timeout: Duration,
    /// Further addresses of a server that an SCDP session uses, at most [`MAX_FURTHER_ADDRESSES`]: of those that the
    /// server tells of, and of hosts that turn out to be the same server. Each takes as many ports as
    /// `driver.ports` says.
    pub further_addresses: u8,
    /// Where digests of files that are put are kept.
    pub cache: Arc<DigestCache>,
    /// Without keys, speak to other machines, too: nothing is encrypted, and whoever answers in a server's place is
    /// believed.
    pub insecure: bool,
}

setters! {
    ClientConfig {
        driver: DriverConfig,
        timeout: Duration,
        further_addresses: u8,
        cache: Arc<DigestCache>,
        insecure: bool,
    }
}

impl Default for ClientConfig {
    /// Any address and port, IPv6 and IPv4; ten seconds; all addresses of a server; digests in memory;
    /// without keys this machine alone.
    fn default() -> Self {
        ClientConfig {
            driver: DriverConfig::new(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0)),
            timeout: Duration::from_secs(10),
            further_addresses: MAX_FURTHER_ADDRESSES,
            cache: Arc::new(DigestCache::in_memory()),
            insecure: false,
        }
    }
}

/// How an object is cut. NDP has no blocks: its packets have the payload of the driver's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Cut {
    /// Symbol size \[bytes\]; `None`: [`DEFAULT_SYMBOL_SIZE`] (by LTTP
    /// [`DEFAULT_LTTP_SYMBOL_SIZE`]), or less where a path to one of the hosts would fragment its
    /// datagrams, or [`LONG_SYMBOL_SIZE`] where all paths carry that.
    pub symbol_size: Option<u16>,
    /// Source symbols a block; `None`: [`DEFAULT_SYMBOLS_PER_BLOCK`] (by LTTP
    /// [`DEFAULT_LTTP_BLOCK_SYMBOLS`]).
    pub symbols_per_block: Option<u32>,
    /// Symbols that a sender by SCDP pushes unasked \[packets\].
    pub initial_window: u8,
}

setters! {
    Cut { symbol_size: Option<u16>, symbols_per_block: Option<u32>, initial_window: u8 }
}

impl Default for Cut {
    fn default() -> Self {
        Cut { symbol_size: None, symbols_per_block: None, initial_window: DEFAULT_INITIAL_WINDOW }
    }
}

impl Cut {
    /// Checks the values that have limits.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if let Some(symbol_size) = self.symbol_size {
            ConfigError::check("symbol_size", &symbol_size, 1..=MAX_SYMBOL_SIZE)?;
        }
        match self.symbols_per_block {
            Some(symbols) => ConfigError::check("symbols_per_block", &symbols, 1..=u32::MAX),
            None => Ok(()),
        }
    }

    /// The symbol size: as set, or what the paths to these hosts carry beside so many bytes of
    /// headers, `most` at most.
    pub(crate) fn symbol_size_towards(
        &self,
        hosts: impl IntoIterator<Item = SocketAddr>,
        narrow: &NarrowPaths,
        headers: usize,
        most: u16,
    ) -> u16 {
        let fits = |host| {
            let payload = payload_towards(host).ok()?;
            let payload = narrow.of(host).map_or(payload, |narrow| payload.min(narrow.into()));
            u16::try_from(payload.saturating_sub(headers)).ok()
        };
        self.symbol_size.unwrap_or_else(|| {
            let paths = hosts.into_iter().filter_map(fits);
            paths.fold(most, u16::min).max(LEAST_SYMBOL_SIZE)
        })
    }

    /// SCDP's cut as it is announced, to fit the paths to these hosts with what sealing adds.
    pub(crate) fn geometry(
        &self,
        hosts: impl IntoIterator<Item = SocketAddr>,
        requester: &Requester,
        frames: Frames,
    ) -> Geometry {
        let sealing_overhead = requester.sealing_overhead();
        let headers = HEADER_WITH_OPTIONS_LEN + usize::from(sealing_overhead);
        let usual = DEFAULT_SYMBOL_SIZE - sealing_overhead;
        let most = match frames {
            Frames::Ethernet => usual,
            Frames::Jumbo => LONG_SYMBOL_SIZE,
        };
        let fits = self.symbol_size_towards(hosts, requester.narrow_paths(), headers, most);
        Geometry {
            // A length between the two would fill blocks badly.
            symbol_size: if self.symbol_size.is_none() && fits < most {
                fits.min(usual)
            } else {
                fits
            },
            symbols_per_block: self.symbols_per_block.unwrap_or(DEFAULT_SYMBOLS_PER_BLOCK),
            initial_window: self.initial_window,
        }
    }
}

/// The frames that symbols are cut for, at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frames {
    /// Of 1,500 bytes.
    Ethernet,
    /// As long as all paths carry.
    Jumbo,
}

/// Where a fetched object goes.
pub enum Target {
    /// A file: complete and verified, or not there at all.
    File {
        /// Its path.
        path: std::path::PathBuf,
        /// What to do if it exists.
        existing: Existing,
    },
    /// A writer, in order, while the object arrives. It gets only bytes that are verified. A fetch that fails may have
    /// written bytes.
    Writer(Box<dyn io::Write + Send>),
    /// Memory that is lent for the object, or for the range of it that is wanted: each block goes to its place at once,
    /// without a file between, and verified if the protocol is SCDP. A fetch that fails may have written bytes.
    Memory(Box<dyn Place>),
}

/// The protocol of a fetch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum FetchProtocol {
    /// RaptorQ symbols, at the receiver's pace, from all hosts at once.
    #[default]
    Scdp,
    /// LT codes at TFRC's rate (RFC 5348), a contiguous part from each host.
    Lttp {
        /// How blocks are decoded.
        method: Method,
    },
    /// SCDP's baseline: packets without a code, at the receiver's pace, from the first host that has
    /// the object.
    Ndp,
}

/// What is fetched, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FetchOptions {
    /// The object.
    pub name: ObjectName,
    /// The protocol.
    pub protocol: FetchProtocol,
    /// Its digest, if known beforehand: holders of other bytes are passed over. Without it, all
    /// holders must agree.
    pub digest: Option<Digest>,
    /// How it is to be cut.
    pub cut: Cut,
    /// Take up what an earlier fetch into the same file had, and leave what arrives for a later one
    /// if this one fails or is killed. Not by NDP, whose sender always sends the whole object.
    pub resume: bool,
    /// Its turns among the other transfers, by SCDP.
    ///
    /// Its pulls go before those of this client's transfers of lower priority. In the background, servers also send it
    /// behind their other transfers and in the lowest class, and on a path that is shared it takes a small part.
    pub priority: Priority,
    /// The bytes that are wanted, by SCDP; `None`: all. Only the blocks that hold them are fetched, each of which is
    /// verified under the object's digest. Nothing is kept for a later fetch, nor taken up from an earlier one.
    pub range: Option<ByteRange>,
    /// Where updates go.
    pub updates: Updates,
    /// What is asked for instead of the object: a part of a tree.
    pub(crate) tree_part: Option<String>,
    /// Longest object that is taken \[bytes\].
    pub(crate) longest: u64,
    /// What a file of a tree has besides its bytes from the moment on in which it has its name.
    pub(crate) given: Option<Meta>,
}

setters! {
    FetchOptions {
        name: ObjectName,
        protocol: FetchProtocol,
        digest: Option<Digest>,
        cut: Cut,
        resume: bool,
        priority: Priority,
        range: Option<ByteRange>,
        updates: Updates,
    }
}

impl FetchOptions {
    /// That object by SCDP, whatever its digest.
    pub fn new(name: ObjectName) -> Self {
        FetchOptions {
            name,
            protocol: FetchProtocol::default(),
            digest: None,
            cut: Cut::default(),
            resume: true,
            priority: Priority::Normal,
            range: None,
            updates: Updates::default(),
            tree_part: None,
            longest: u64::MAX,
            given: None,
        }
    }

    /// The name that hosts are asked for.
    pub(crate) fn asked(&self) -> &str {
        self.tree_part.as_deref().unwrap_or(self.name.as_str())
    }
}

/// What is put, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PutOptions {
    /// Under what name.
    pub name: ObjectName,
    /// Replace objects of that name (servers must allow it).
    pub overwrite: bool,
    /// Send hosts only what they lack of the object, where an earlier put has left them a part, and let them
    /// keep what arrives if this one fails.
    pub resume: bool,
    /// Its turns among the other transfers.
    ///
    /// Its symbols go before those of this client's transfers of lower priority. In the background they are all in the
    /// lowest class, and hosts pull them behind what else they get, unless they come through a group.
    pub priority: Priority,
    /// The multicast group and port to send by; without one each host is sent to on its own.
    pub group: Option<SocketAddr>,
    /// Succeed once so many hosts have the object verified and in place; `None`: all.
    pub quorum: Option<usize>,
    /// Go on with the other hosts once the quorum has it, as long as they get on; otherwise they are told to
    /// end.
    pub finish_rest: bool,
    /// How it is to be cut.
    pub cut: Cut,
    /// Where updates go.
    pub updates: Updates,
    /// What it is put as instead of an object: a part of a tree.
    pub(crate) tree_part: Option<String>,
}

setters! {
    PutOptions {
        name: ObjectName,
        overwrite: bool,
        resume: bool,
        priority: Priority,
        group: Option<SocketAddr>,
        quorum: Option<usize>,
        finish_rest: bool,
        cut: Cut,
        updates: Updates,
    }
}

impl PutOptions {
    /// Under that name, to each host on its own, all of which must get it.
    pub fn new(name: ObjectName) -> Self {
        PutOptions {
            name,
            overwrite: false,
            resume: true,
            priority: Priority::Normal,
            group: None,
            quorum: None,
            finish_rest: false,
            cut: Cut::default(),
            updates: Updates::default(),
            tree_part: None,
        }
    }
}

/// A client: one socket, any number of transfers at once.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use wellspring_client::store::Existing;
/// use wellspring_client::{Client, ClientConfig, FetchOptions, Target};
/// use wellspring_net::KeyDirectory;
///
/// let keys = KeyDirectory::of_user().map(|keys| keys.load()).transpose()?.flatten();
/// let mut config = ClientConfig::default();
/// config.driver.keys = keys.map(std::sync::Arc::new);
/// let client = Client::new(config)?;
/// let hosts = ["a.example".parse()?, "b.example:5000".parse()?];
/// let options = FetchOptions::new("models/7b.bin".parse()?);
/// let target = Target::File { path: "7b.bin".into(), existing: Existing::Keep };
/// let report = client.fetch(&hosts, &options, target).await?;
/// println!("{} bytes, digest {}", report.size, report.digest);
/// # Ok(())
/// # }
/// ```
pub struct Client {
    pub(crate) driver: Driver,
    pub(crate) requester: Requester,
    pub(crate) providers: Arc<Providers>,
    pub(crate) config: ClientConfig,
}

impl Client {
    /// Opens the socket. On a system without IPv6 the address `[::]` means `0.0.0.0`.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn new(mut config: ClientConfig) -> Result<Client, StartError> {
        ConfigError::check("timeout", &config.timeout, SHORTEST_TIMEOUT..=LONGEST_TIMEOUT)?;
        let further = 0..=MAX_FURTHER_ADDRESSES;
        ConfigError::check("further_addresses", &config.further_addresses, further)?;
        let peer_timeout = peer_timeout(config.timeout);
        config.driver.scdp.further_paths =
            u16::from(config.driver.ports) * u16::from(config.further_addresses);
        config.driver.scdp.peer_timeout = peer_timeout;
        // Who is silent for that long may also ask again for its last symbols so late.
        config.driver.scdp.release_after = config.driver.scdp.release_after.max(peer_timeout);
        config.driver.lttp.peer_timeout = peer_timeout;
        config.driver.ndp.peer_timeout = peer_timeout;
        config.driver.answers_handshakes = false;
        let table = Arc::new(Table::default());
        let providers = Arc::new(Providers::default());
        let start = |config: &DriverConfig| {
            let (table, providers) = (Arc::clone(&table), Arc::clone(&providers));
            Driver::start(
                config.clone(),
                Box::new(move |message| {
                    if !providers.take_in(&message, table.first_address(message.from)) {
                        table.take_in(&message);
                    }
                    true
                }),
            )
        };
        let bind = config.driver.socket.bind;
        let driver = match start(&config.driver) {
            Err(StartError::System(_)) if bind.ip() == Ipv6Addr::UNSPECIFIED => {
                config.driver.socket.bind =
                    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), bind.port());
                start(&config.driver)?
            }
            started => started?,
        };
        let mut requester = Requester::new(driver.handle(), Arc::clone(&table));
        if config.driver.keys.is_none() && !config.insecure {
            requester = requester.only_loopback();
        }
        Ok(Client { driver, requester, providers, config })
    }

    /// The address the client's socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.driver.local_addr()
    }

    /// The driver's counters.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn statistics(&self) -> Result<Statistics, HandleError> {
        self.driver.handle().statistics()
    }
}

/// The largest UDP payload towards a host \[bytes\]; of a simulated machine, that of Ethernet by IPv6.
fn payload_towards(host: SocketAddr) -> io::Result<usize> {
    #[cfg(feature = "simulation")]
    if crate::simulation::machine().is_some() {
        return Ok(1_452);
    }
    largest_payload_towards(host)
}

/// A time limit as servers are told of it \[ms\].
pub(crate) fn timeout_ms(timeout: Duration) -> u32 {
    timeout.as_millis() as u32
}
