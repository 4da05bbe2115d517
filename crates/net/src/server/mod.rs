//! The server: sends the objects of a directory to whoever asks, and takes objects if allowed.
//!
//! Every request is answered without a memory of the client until the client has shown a cookie;
//! from then on memory is bounded by stated numbers of transfers. Files are opened, hashed,
//! synced and renamed on threads that may wait; neither the socket's thread nor the async tasks
//! ever do.

mod address_limit;
mod cookie;
pub(crate) mod digests;
mod event;
mod event_limit;
mod ndp;
mod parts;
mod puts;
mod requests;
mod sends;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wellspring_core::SessionId;
use wellspring_transport::ndp::{ReceiveStats, SendStats};

use crate::driver::{ControlMessage, DriverConfig, HandleError, SessionEvent, Statistics};
use crate::protocols::Driver;
use crate::socket::Interface;
use crate::store::{DigestCache, Limits, Store, StoreError};

pub use event::{ServerCounters, ServerEvent};
use parts::Parts;
use requests::Handler;

/// Control messages that wait for the server's task; what comes beyond is dropped and repeated by
/// its client.
const MAX_WAITING: usize = 1_024;

/// Ports tried when the system is to choose one that is free for TCP and for UDP.
const PORT_ATTEMPTS: usize = 16;

/// Longest silence of a client that a session waits for. A client says how long it waits for the
/// server, and the server waits as long: a path that is down for less costs time and nothing else.
pub const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// How a server is set up.
pub struct ServerConfig {
    /// Socket, protocol and workers. `peer_timeout` of the protocol is for clients that do not say
    /// how long they wait.
    pub driver: DriverConfig,
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
    /// Bounds on what is taken.
    pub limits: Limits,
    /// Objects sent at one time, at most.
    pub max_sends: usize,
    /// Bounds on what is sent by LTTP.
    pub lttp: LttpLimits,
    /// Objects sent to one address at one time, at most (of IPv6, to one network of 64 bits).
    pub max_sends_an_address: usize,
    /// Objects taken from one address at one time, at most.
    pub max_puts_an_address: usize,
    /// Empty objects taken from one address in a minute, at most: they are over at once, so nothing
    /// else bounds them.
    pub max_empty_an_address: usize,
    /// An object of which less than 32 KiB arrive in so long, though its client is not silent, is
    /// given up; never sooner than twice the time that its client waits.
    pub idle_put: Duration,
    /// Where digests are kept.
    pub cache: Arc<DigestCache>,
    /// The interface multicast comes in by; `None` leaves it to the system.
    pub interface: Option<Interface>,
    /// Hears what happens; called from the server's task, must not wait.
    pub events: Arc<dyn Fn(ServerEvent) + Send + Sync>,
}

impl ServerConfig {
    /// Serves `directory` at that address, takes nothing, keeps digests in memory.
    pub fn new(bind: SocketAddr, directory: PathBuf) -> Self {
        ServerConfig {
            driver: DriverConfig::new(bind),
            directory,
            allow_put: false,
            allow_overwrite: false,
            allow_hidden: false,
            allow_odd_names: false,
            limits: Limits::default(),
            max_sends: 256,
            lttp: LttpLimits::default(),
            max_sends_an_address: 64,
            max_puts_an_address: 32,
            max_empty_an_address: 256,
            idle_put: Duration::from_secs(60),
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
    /// Parts sent at one time, at most; others are refused.
    pub max_sessions: usize,
    /// How long a client may take over each message.
    pub timeout: Duration,
}

impl Default for LttpLimits {
    /// 256 connections, 64 parts, ten seconds.
    fn default() -> Self {
        LttpLimits { max_connections: 256, max_sessions: 64, timeout: Duration::from_secs(10) }
    }
}

/// Why a server does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum BindError {
    /// The directory cannot be served.
    Directory(PathBuf, StoreError),
    /// The socket cannot be opened.
    Socket(SocketAddr, io::Error),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Directory(path, error) => {
                write!(f, "cannot serve {}: {error}", path.display())
            }
            BindError::Socket(address, error) => write!(f, "cannot listen at {address}: {error}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BindError::Directory(_, error) => Some(error),
            BindError::Socket(_, error) => Some(error),
        }
    }
}

/// A running server. Dropping it ends its transfers and removes their part files.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use wellspring_net::{Server, ServerConfig};
///
/// let config = ServerConfig::new("[::]:4711".parse()?, "/srv/objects".into());
/// let server = Server::bind(config).await?;
/// println!("serving at {}", server.local_addr());
/// # std::future::pending::<()>().await;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    local_addr: SocketAddr,
    handler: Arc<Handler>,
    driver: Option<Driver>,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens the directory and the socket and starts to answer. A server that takes objects first
    /// removes the part files that dead processes have left in the directory. Must be called within a tokio
    /// runtime whose time and blocking threads are enabled.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(config: ServerConfig) -> Result<Server, BindError> {
        let store = Store::open(&config.directory, config.limits)
            .map_err(|error| BindError::Directory(config.directory.clone(), error))?;
        if config.allow_put {
            let directory = config.directory.clone();
            let sweep = move || crate::store::remove_stale_parts(&directory, true);
            match tokio::task::spawn_blocking(sweep).await {
                Ok(Ok(removed)) if removed > 0 => {
                    tracing::info!(removed, "part files of dead processes are removed");
                }
                // The directory was opened a moment ago: what cannot be looked at stays.
                _ => {}
            }
        }
        let (control, mut messages) = mpsc::channel(MAX_WAITING);
        let address = config.driver.socket.bind;
        let (listener, driver) = open(&config.driver, &control)
            .await
            .map_err(|error| BindError::Socket(address, error))?;
        let lttp = config.lttp;
        let (session_events, mut happened) = mpsc::unbounded_channel();
        let handler = Arc::new(Handler::new(driver.handle(), store, config, session_events));
        let (for_requests, kept) = (Arc::clone(&handler), Arc::clone(&handler));
        let requests = tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                for_requests.take_in(message);
            }
        });
        let parts = Parts::new(Arc::clone(&handler), driver.handle().lttp(), lttp);
        let connections = tokio::spawn(parts::accept(listener, Arc::new(parts)));
        let events = tokio::spawn(async move {
            while let Some(report) = happened.recv().await {
                handler.on_session(report);
            }
        });
        let idle = tokio::spawn(end_idle_puts(Arc::clone(&kept)));
        Ok(Server {
            local_addr: driver.local_addr(),
            handler: kept,
            driver: Some(driver),
            tasks: vec![requests, connections, events, idle],
        })
    }

    /// The address the server listens at, by UDP and, for LTTP's control channel, by TCP.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The driver's counters.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn statistics(&self) -> Result<Statistics, HandleError> {
        let driver = self.driver.as_ref().ok_or(HandleError::Stopped)?;
        driver.handle().statistics()
    }

    /// The server's own counters.
    pub fn counters(&self) -> ServerCounters {
        self.handler.counters()
    }

    /// Ends all transfers, tells their peers, and removes part files.
    pub async fn shut_down(mut self) {
        if let Some(driver) = self.driver.take() {
            // Waits for threads: not on an async one. That it was cut short would not matter.
            let _ = tokio::task::spawn_blocking(move || driver.shut_down()).await;
        }
        self.end_tasks();
        for task in self.tasks.drain(..) {
            let _ = task.await; // Cancelled: that is what was asked for.
        }
    }

    fn end_tasks(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Looks from time to time whether objects that are taken get on.
async fn end_idle_puts(handler: Arc<Handler>) {
    let mut ticks =
        tokio::time::interval(handler.config.idle_put.max(Duration::from_millis(10)) / 4);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        handler.end_idle_puts(std::time::Instant::now());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_tasks();
    }
}

/// Opens a port for TCP, and the same for UDP.
async fn open(
    config: &DriverConfig,
    control: &mpsc::Sender<ControlMessage>,
) -> io::Result<(TcpListener, Driver)> {
    let mut attempts = PORT_ATTEMPTS;
    loop {
        let listener = TcpListener::bind(config.socket.bind).await?;
        let mut config = config.clone();
        let chosen = config.socket.bind.port() == 0;
        config.socket.bind.set_port(listener.local_addr()?.port());
        let control = control.clone();
        let control = Box::new(move |message| control.try_send(message).is_ok());
        match Driver::start(config, control) {
            Err(error) if chosen && attempts > 1 && error.kind() == io::ErrorKind::AddrInUse => {
                attempts -= 1;
            }
            started => return Ok((listener, started?)),
        }
    }
}

/// An event of one of the server's sessions.
enum SessionReport {
    Scdp {
        session: SessionId,
        /// Tells a session from an earlier one of the same number.
        epoch: u8,
        event: SessionEvent,
    },
    Ndp {
        session: SessionId,
        event: SessionEvent<ReceiveStats, SendStats>,
    },
}
