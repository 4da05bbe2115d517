//! The client: fetches an object, a contiguous share from each server.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use wellspring_codec::lt::Method;
use wellspring_transport::lttp::{Parameters, ReceiveStats};
use wellspring_wire::lttp::{Geometry, Message, SYMBOL_HEADER_LEN};

use super::config::LttpClientConfig;
use super::connection::{Over, SessionGuard, carry};
use super::control::{ControlError, Reader, Writer, split};
use super::counters::LttpStatistics;
use super::engine::Engine;
use super::handle::{Ending, Handle, Input, MAX_TOLD, Opening, Side};
use super::receiving::Receiving;
use super::report::{LttpReport, ShareReport};
use super::sending::Layout;
use super::shares::{Share, divide};
use super::{DEFAULT_LTTP_BLOCK_SYMBOLS, DEFAULT_LTTP_SYMBOL_SIZE};
use crate::address::{Host, canonical};
use crate::client::replicas::{Standing, resolve};
use crate::client::sink::Sink;
use crate::client::{FetchError, HostError, Target, Update, Updates};
use crate::payload::ObjectSink;
use crate::socket::largest_payload_towards;
use crate::store::{Digest, ObjectName};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);
/// Servers of one fetch, at most.
const MAX_SERVERS: usize = 255;

/// What is fetched, and how.
#[derive(Clone, Debug)]
pub struct LttpOptions {
    /// The object.
    pub name: ObjectName,
    /// Its digest, if known beforehand: servers with other bytes are passed over. Without it, all
    /// servers must agree.
    pub digest: Option<Digest>,
    /// How blocks are decoded.
    pub method: Method,
    /// Symbol size \[bytes\]; `None`: [`DEFAULT_LTTP_SYMBOL_SIZE`], or less where a path to one of
    /// the servers would fragment its datagrams.
    pub symbol_size: Option<u16>,
    /// Source symbols of a block.
    pub block_symbols: u32,
}

impl LttpOptions {
    /// That object, whatever its digest, by the paper's improved decoder.
    pub fn new(name: ObjectName) -> Self {
        LttpOptions {
            name,
            digest: None,
            method: Method::Improved,
            symbol_size: None,
            block_symbols: DEFAULT_LTTP_BLOCK_SYMBOLS,
        }
    }

    /// The geometry that fits the paths to these servers.
    fn geometry(&self, servers: impl Iterator<Item = SocketAddr>) -> Option<Geometry> {
        let fits = |server| {
            let payload = largest_payload_towards(server).ok()?;
            u16::try_from(payload.saturating_sub(SYMBOL_HEADER_LEN)).ok()
        };
        let symbol_size = self.symbol_size.unwrap_or_else(|| {
            servers.filter_map(fits).fold(DEFAULT_LTTP_SYMBOL_SIZE, u16::min).max(1)
        });
        Geometry::new(symbol_size, self.block_symbols)
    }
}

/// A client: one UDP socket, any number of fetches.
pub struct LttpClient {
    engine: Engine,
    config: LttpClientConfig,
}

impl LttpClient {
    /// Opens the socket. A system without IPv6 is done with: the address `[::]` then means
    /// `0.0.0.0`. Must be called within a tokio runtime whose I/O, time and blocking threads are
    /// enabled.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(mut config: LttpClientConfig) -> io::Result<LttpClient> {
        let runtime = tokio::runtime::Handle::current();
        let bind = config.settings.socket.bind;
        let engine = match Engine::start(&config.settings, runtime.clone()) {
            Err(_) if bind.ip() == Ipv6Addr::UNSPECIFIED => {
                config.settings.socket.bind =
                    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), bind.port());
                Engine::start(&config.settings, runtime)?
            }
            started => started?,
        };
        Ok(LttpClient { engine, config })
    }

    /// What its socket has counted.
    pub fn statistics(&self) -> LttpStatistics {
        self.engine.handle().statistics()
    }

    /// Fetches an object from all servers that have it, a share from each. A server that is lost on
    /// the way is lost with its share, and the fetch fails. Dropping the future ends the transfer.
    ///
    /// # Errors
    /// [`FetchError`]; a file named as target is then not there.
    pub async fn fetch(
        &self,
        hosts: &[Host],
        options: &LttpOptions,
        target: Target,
        updates: Updates,
    ) -> Result<LttpReport, FetchError> {
        let began = Instant::now();
        let timeout = self.config.settings.timeout;
        let (asked, unused) = ask_all(hosts, options, timeout, &updates).await?;
        let (size, digest) = (asked[0].size, asked[0].digest);
        let geometry = options
            .geometry(asked.iter().map(|server| server.address))
            .filter(|geometry| layout_of(Share { offset: 0, len: 1 }, *geometry).is_possible())
            .ok_or(FetchError::Geometry)?;
        let preparing = began.elapsed();
        let sink = Sink::open(target, size, digest).await?;
        let shares = divide(size, asked.len(), geometry.symbol_size);
        updates(Update::Started {
            size,
            symbol_size: geometry.symbol_size,
            digest,
            hosts: asked.iter().take(shares.len()).map(|server| server.host.clone()).collect(),
        });
        let progress = Arc::new(Progress::default());
        let mut run = Run { tasks: JoinSet::new(), sink, size, progress, updates };
        for (server, share) in asked.into_iter().zip(shares) {
            run.begin(self.engine.handle(), server, layout_of(share, geometry), options, timeout);
        }
        let shares = run.follow().await?;
        (run.updates)(Update::Verifying);
        let finishing = Instant::now();
        run.sink.finish().await?;
        Ok(LttpReport {
            size,
            digest,
            elapsed: began.elapsed(),
            preparing,
            finishing: finishing.elapsed(),
            symbol_size: geometry.symbol_size,
            block_symbols: geometry.block_symbols,
            method: options.method,
            shares,
            unused,
            socket: self.statistics(),
        })
    }
}

fn layout_of(share: Share, geometry: Geometry) -> Layout {
    let Geometry { symbol_size, block_symbols } = geometry;
    let parameters = Parameters { transfer_len: share.len, symbol_size, block_symbols };
    Layout { offset: share.offset, parameters }
}

/// A server that has the object, and the connection to it.
struct Asked {
    host: String,
    address: SocketAddr,
    size: u64,
    digest: Digest,
    reader: Reader,
    writer: Writer,
}

/// Asks all hosts at once. All that have the object must have the same one.
async fn ask_all(
    hosts: &[Host],
    options: &LttpOptions,
    timeout: Duration,
    updates: &Updates,
) -> Result<(Vec<Asked>, Vec<HostError>), FetchError> {
    match hosts.len() {
        0 => return Err(FetchError::NoHosts),
        got if got > MAX_SERVERS => {
            return Err(FetchError::TooManyHosts { got, limit: MAX_SERVERS });
        }
        _ => {}
    }
    let mut asking = JoinSet::new();
    let mut answers = Vec::new();
    for (index, replica) in resolve(hosts, timeout).await.into_iter().enumerate() {
        let host = replica.host;
        match (replica.address, replica.standing) {
            (_, Standing::Unused(reason)) => answers.push((index, Err(HostError { host, reason }))),
            (None, _) => {}
            (Some(address), _) => {
                let (name, updates) = (options.name.clone(), updates.clone());
                asking.spawn(async move {
                    let asked = ask(&host, address, &name, timeout, &updates).await;
                    let reason = |error: ControlError| error.to_string();
                    (index, asked.map_err(|error| HostError { host, reason: reason(error) }))
                });
            }
        }
    }
    while let Some(answered) = asking.join_next().await {
        answers.extend(answered.ok());
    }
    // Shares lie in the order in which the caller named the servers.
    answers.sort_by_key(|(index, _)| *index);
    let (mut asked, mut unused): (Vec<Asked>, Vec<HostError>) = (Vec::new(), Vec::new());
    for (_, answer) in answers {
        match answer {
            Ok(server) if options.digest.is_none_or(|wanted| server.digest == wanted) => {
                asked.push(server);
            }
            Ok(server) => {
                let reason = format!("holds other bytes ({})", server.digest);
                unused.push(HostError { host: server.host, reason });
            }
            Err(error) => unused.push(error),
        }
    }
    let Some(first) = asked.first() else { return Err(FetchError::NoReplica(unused)) };
    let (size, digest) = (first.size, first.digest);
    if asked.iter().any(|server| (server.size, server.digest) != (size, digest)) {
        let replicas = asked.into_iter().map(|s| (s.host, s.size, s.digest)).collect();
        return Err(FetchError::Differ { name: options.name.to_string(), replicas });
    }
    for HostError { host, reason } in &unused {
        updates(Update::Lost { host: host.clone(), reason: reason.clone() });
    }
    Ok((asked, unused))
}

/// Connects, and asks what the object is.
async fn ask(
    host: &str,
    address: SocketAddr,
    name: &ObjectName,
    timeout: Duration,
    updates: &Updates,
) -> Result<Asked, ControlError> {
    let connecting = tokio::net::TcpStream::connect(address);
    let stream = tokio::time::timeout(timeout, connecting)
        .await
        .map_err(|_| ControlError::Silent(timeout))??;
    let (mut reader, mut writer) = split(stream)?;
    writer.say(&Message::Ask { name: name.to_wire() }, timeout).await?;
    loop {
        match reader.next_within(timeout).await? {
            Message::Pending { done, total } => {
                updates(Update::Hashing { host: Some(host.to_owned()), done, total });
            }
            Message::Object { size, digest } => {
                let (host, digest) = (host.to_owned(), Digest(digest));
                return Ok(Asked { host, address, size, digest, reader, writer });
            }
            _ => return Err(ControlError::OutOfPlace),
        }
    }
}

/// What has arrived, over all shares.
#[derive(Debug, Default)]
struct Progress {
    bytes: AtomicU64,
}

/// Writes blocks on, and counts them.
struct Counted {
    sink: Arc<dyn ObjectSink>,
    progress: Arc<Progress>,
}

impl ObjectSink for Counted {
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        self.sink.write_block(offset, block)?;
        self.progress.bytes.fetch_add(block.len() as u64, Relaxed);
        Ok(())
    }
}

/// Why a share is lost.
enum Lost {
    /// Its server is.
    Server(HostError),
    /// The bytes cannot be kept here.
    Write(io::Error),
}

/// A transfer under way.
struct Run {
    tasks: JoinSet<Result<ShareReport, Lost>>,
    sink: Sink,
    size: u64,
    progress: Arc<Progress>,
    updates: Updates,
}

impl Run {
    /// Asks a server for its share.
    fn begin(
        &mut self,
        handle: &Handle,
        server: Asked,
        layout: Layout,
        options: &LttpOptions,
        timeout: Duration,
    ) {
        let sink = self.sink.as_object_sink();
        let sink = Arc::new(Counted { sink, progress: Arc::clone(&self.progress) });
        let (handle, method) = (handle.clone(), options.method);
        self.tasks.spawn(async move {
            let (host, address) = (server.host.clone(), server.address);
            let received = receive(&handle, server, layout, sink, method, timeout).await;
            let (offset, len) = (layout.offset, layout.parameters.transfer_len);
            match received {
                Ok(stats) => Ok(ShareReport { host, address, offset, len, stats }),
                Err(Broken::Write(error)) => Err(Lost::Write(error)),
                Err(Broken::Server(reason)) => Err(Lost::Server(HostError { host, reason })),
            }
        });
    }

    /// Follows all shares to their end; the first that is lost ends the others.
    async fn follow(&mut self) -> Result<Vec<ShareReport>, FetchError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut shares = Vec::new();
        loop {
            tokio::select! {
                ended = self.tasks.join_next() => match ended {
                    None => break,
                    Some(Ok(Ok(share))) => shares.push(share),
                    Some(Ok(Err(lost))) => return Err(self.failed(lost)),
                    Some(Err(_)) => {
                        let error = io::Error::other("a share's task panicked");
                        return Err(self.failed(Lost::Write(error)));
                    }
                },
                error = self.sink.broken() => return Err(FetchError::Write(error)),
                _ = ticks.tick() => self.tell_progress(),
            }
        }
        self.tell_progress();
        shares.sort_by_key(|share| share.offset);
        Ok(shares)
    }

    fn tell_progress(&self) {
        let done = self.progress.bytes.load(Relaxed);
        (self.updates)(Update::Moving { done, total: self.size, symbols: 0 });
    }

    fn failed(&self, lost: Lost) -> FetchError {
        match lost {
            Lost::Write(error) => FetchError::Write(error),
            Lost::Server(host) => {
                let done = self.progress.bytes.load(Relaxed);
                FetchError::ShareLost { host, done, size: self.size }
            }
        }
    }
}

/// What goes wrong with a share.
enum Broken {
    Server(String),
    Write(io::Error),
}

impl From<ControlError> for Broken {
    fn from(error: ControlError) -> Self {
        Broken::Server(error.to_string())
    }
}

/// Receives a share to its end.
async fn receive(
    handle: &Handle,
    mut server: Asked,
    layout: Layout,
    sink: Arc<dyn ObjectSink>,
    method: Method,
    timeout: Duration,
) -> Result<ReceiveStats, Broken> {
    let Parameters { transfer_len, symbol_size, block_symbols } = layout.parameters;
    let request = Message::Request {
        offset: layout.offset,
        len: transfer_len,
        geometry: Geometry { symbol_size, block_symbols },
    };
    server.writer.say(&request, timeout).await?;
    let granted = server.reader.next_within(timeout).await?;
    let Message::Granted { cookie, seed } = granted else {
        return Err(ControlError::OutOfPlace.into());
    };
    let receiving = Receiving::new(sink, layout, seed, method)
        .map_err(|error| Broken::Write(io::Error::other(error)))?;
    let (told, telling) = mpsc::channel(MAX_TOLD);
    let address = canonical(server.address);
    let side = Side::Receiving(receiving);
    let opening = Opening { cookie, peer: address.ip(), address: Some(address), side, told };
    handle.tell(Input::Open(Box::new(opening))).await;
    let guard = SessionGuard { handle, cookie };
    match carry(&guard, &mut server.reader, &mut server.writer, telling, timeout).await {
        Over::Received(stats) => Ok(stats),
        Over::Failed(Ending::Write(error)) => Err(Broken::Write(error)),
        Over::Failed(ending) => Err(Broken::Server(ending.to_string())),
        Over::Broken(error) => Err(error.into()),
        Over::Sent(_) => Err(ControlError::OutOfPlace.into()),
    }
}
