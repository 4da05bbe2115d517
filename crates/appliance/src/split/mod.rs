//! Split mode (§4.2): TCP connections end here, and go on over trunks to the other appliance.
//!
//! Netfilter's TPROXY hands connections from the local network to a listener of this process, which
//! sees and shows the addresses of the two hosts. Bytes go on over a trunk, a connection between the
//! two appliances that is open already and protected by the code; there the other appliance connects
//! to the host in the first one's name. Both hosts talk to somebody near.
//!
//! Connections are only taken while the other appliance answers and there is room: the listener is
//! open for just so long, and without it the rules let packets pass.

mod flow;
mod pool;
mod rules;

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ipnet::IpNet;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wellspring_maelstrom::PresharedKey;

use crate::commands::has_ipv6;
use crate::setup::{Config, SetupError, SplitConfig};
use pool::Pool;
use rules::Rules;

/// How long a host or the other appliance may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// After an error that the next attempt may meet as well.
const AGAIN: Duration = Duration::from_millis(250);
/// Trunks that have not shown the key yet, at most.
const STRANGERS: usize = 64;
/// Descriptors that are not connections'.
const OTHER_FILES: u64 = 256;

/// What split mode has done. Gauges say what is now.
#[derive(Debug, Default)]
pub struct SplitCounters {
    /// Connections of this site's hosts that were taken.
    pub accepted: AtomicU64,
    /// Connections to this site's hosts that were made for the other site's.
    pub opened: AtomicU64,
    /// Connections that ended in order both ways.
    pub finished: AtomicU64,
    /// Connections that were reset, by a host or because one could not be reached.
    pub reset: AtomicU64,
    /// Bytes from hosts of this site to the other.
    pub sent_bytes: AtomicU64,
    /// Bytes to hosts of this site.
    pub received_bytes: AtomicU64,
    /// Trunks that were opened.
    pub trunks: AtomicU64,
    /// Trunks that were refused or had the wrong key.
    pub trunks_failed: AtomicU64,
    /// Whether connections are taken now.
    pub taking: AtomicBool,
    /// Connections now.
    pub flows: AtomicU64,
}

impl SplitCounters {
    fn count(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

/// What all connections have in common.
struct Shared {
    key: PresharedKey,
    config: SplitConfig,
    peer: SocketAddr,
    remote: Vec<IpNet>,
    /// Largest segment of a trunk that is protected \[bytes\].
    segment: u32,
    counters: Arc<SplitCounters>,
    pool: Pool,
    permits: Arc<Semaphore>,
}

/// Split mode that runs. Dropping it undoes its rules and resets what it relays.
pub(crate) struct Split {
    stop: Arc<tokio::sync::Notify>,
    thread: Option<JoinHandle<()>>,
    pub counters: Arc<SplitCounters>,
    // Undone first of all, so that no new connection comes.
    rules: Option<Rules>,
}

impl Split {
    /// Checks, opens, sets the rules, and begins. `own` is this appliance's address towards the peer,
    /// `longest` what a protected packet may be.
    pub(crate) fn start(
        config: &Config,
        split: &SplitConfig,
        own: IpAddr,
        longest: usize,
    ) -> Result<Self, SetupError> {
        if config.remote.is_empty() {
            return Err(SetupError::SplitWithoutRemote);
        }
        if config.failover.is_some() {
            return Err(SetupError::SplitWithFailover);
        }
        let system = |error| SetupError::System("split mode's sockets", error);
        let most = files_allowed().map_err(system)?.saturating_sub(OTHER_FILES) / 2;
        let most = split.connections.min(usize::try_from(most).unwrap_or(usize::MAX)).max(1);
        let header = if own.is_ipv4() { 40 } else { 60 };
        let counters = Arc::new(SplitCounters::default());
        let shared = Arc::new(Shared {
            key: config.key.clone(),
            config: split.clone(),
            peer: config.peer,
            remote: config.remote.clone(),
            segment: longest.saturating_sub(header) as u32,
            counters: Arc::clone(&counters),
            pool: Pool::new(),
            permits: Arc::new(Semaphore::new(most)),
        });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
        let trunks = shared.trunk_listener(own).map_err(system)?;
        let families = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        // The ports are only known once they have been had; the rules need them.
        let mut at = Vec::new();
        for address in families.into_iter().filter(|a| a.is_ipv4() || has_ipv6()) {
            let listener = transparent_listener(SocketAddr::new(address, 0)).map_err(system)?;
            at.extend(listener.local_addr().map_err(system)?.as_socket());
        }
        let rules = Rules::install(&config.lan, &config.wan, &config.remote, &at)
            .map_err(SetupError::SplitRules)?;
        let stop = Arc::new(tokio::sync::Notify::new());
        let stopped = Arc::clone(&stop);
        let work = move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = stopped.notified() => {}
                    () = shared.run(trunks, at) => {}
                }
            });
        };
        let thread = thread::Builder::new().name("split".into()).spawn(work).map_err(system)?;
        Ok(Split { stop, thread: Some(thread), counters, rules: Some(rules) })
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        drop(self.rules.take());
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    async fn run(self: Arc<Self>, trunks: Socket, at: Vec<SocketAddr>) {
        tokio::spawn(pool::keep(Arc::clone(&self)));
        for address in at {
            tokio::spawn(Arc::clone(&self).take_connections(address));
        }
        self.take_trunks(trunks).await;
    }

    /// Where the other appliance's trunks come.
    fn trunk_listener(&self, own: IpAddr) -> io::Result<Socket> {
        let at = SocketAddr::new(own, self.peer.port());
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        self.tune_trunk(&socket)?;
        socket.set_reuse_address(true)?;
        socket.bind(&at.into())?;
        socket.listen(128)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Options of a trunk, before it is connected or listens.
    fn tune_trunk(&self, socket: &Socket) -> io::Result<()> {
        // Longer segments would pass unprotected.
        socket.set_tcp_mss(self.segment)?;
        socket.set_send_buffer_size(self.config.buffer)?;
        socket.set_recv_buffer_size(self.config.buffer)?;
        Ok(())
    }

    /// Takes connections of this site's hosts, while they can go on.
    async fn take_connections(self: Arc<Self>, at: SocketAddr) {
        loop {
            self.pool.alive().await;
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let Ok(permit) = permit else { return };
            match transparent_listener(at).and_then(|socket| TcpListener::from_std(socket.into())) {
                Ok(listener) => {
                    self.counters.taking.store(true, Ordering::Relaxed);
                    tokio::select! {
                        () = self.pool.dead() => {}
                        () = self.take_from(&listener, permit) => {}
                    }
                    self.counters.taking.store(false, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::warn!("connections are not taken at {at}: {error}");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Takes connections until there is no room for more.
    async fn take_from(self: &Arc<Self>, listener: &TcpListener, first: OwnedSemaphorePermit) {
        let mut room = Some(first);
        while let Some(permit) = room {
            match listener.accept().await {
                Ok((stream, from)) => {
                    SplitCounters::count(&self.counters.accepted, 1);
                    let flow = flow::there(Arc::clone(self), stream, from);
                    self.follow(flow, permit);
                    room = Arc::clone(&self.permits).try_acquire_owned().ok();
                }
                Err(_) => {
                    tokio::time::sleep(AGAIN).await;
                    room = Some(permit);
                }
            }
        }
    }

    /// Lets a connection be relayed, and counts it.
    fn follow(
        self: &Arc<Self>,
        flow: impl Future<Output = io::Result<()>> + Send + 'static,
        permit: OwnedSemaphorePermit,
    ) {
        let counters = Arc::clone(&self.counters);
        SplitCounters::count(&counters.flows, 1);
        tokio::spawn(async move {
            match flow.await {
                Ok(()) => SplitCounters::count(&counters.finished, 1),
                Err(error) => {
                    tracing::debug!("a connection was reset: {error}");
                    SplitCounters::count(&counters.reset, 1);
                }
            }
            counters.flows.fetch_sub(1, Ordering::Relaxed);
            drop(permit);
        });
    }

    /// Takes the other appliance's trunks.
    async fn take_trunks(self: Arc<Self>, socket: Socket) {
        let Ok(listener) = TcpListener::from_std(socket.into()) else { return };
        let strangers = Arc::new(Semaphore::new(STRANGERS));
        loop {
            let Ok(stranger) = Arc::clone(&strangers).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let shared = Arc::clone(&self);
            tokio::spawn(async move {
                match pool::greet(&shared, stream, false).await {
                    Ok(trunk) => {
                        drop(stranger);
                        flow::serve(shared, trunk).await;
                    }
                    Err(_) => SplitCounters::count(&shared.counters.trunks_failed, 1),
                }
            });
        }
    }

    /// Whether the other site may ask for that connection.
    fn may_open(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let theirs = |ip: IpAddr| self.remote.iter().any(|prefix| prefix.contains(&ip));
        let host = |ip: IpAddr| !ip.is_loopback() && !ip.is_multicast() && !ip.is_unspecified();
        theirs(from.ip()) && !theirs(to.ip()) && host(to.ip()) && host(from.ip())
    }
}

/// A listener that connections to any address may be handed to.
fn transparent_listener(at: SocketAddr) -> io::Result<Socket> {
    let socket = transparent(at)?;
    socket.bind(&at.into())?;
    socket.listen(1_024)?;
    Ok(socket)
}

/// A socket that may speak for others.
fn transparent(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    match address {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Options of a connection with a host. Until it has ended in order, closing it resets it: a host
/// must not take the end of an appliance for the end of what the other host said.
fn tune_local(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(60)))
}

/// Lets this process have as many open files as it may; tells how many.
fn files_allowed() -> io::Result<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}
