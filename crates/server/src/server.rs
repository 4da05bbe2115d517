//! The server: sends the objects of a directory to whoever asks, and takes objects if allowed.
//!
//! Every request is answered without a memory of the client until the client has shown a cookie;
//! from then on memory is bounded by stated numbers of transfers. Files are opened, hashed,
//! synced and renamed on threads that may wait; neither the socket's thread nor the async tasks
//! ever do.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::ConfigError;
use crate::driver::{ControlMessage, DriverConfig, HandleError, StartError, Statistics};
use crate::protocols::Driver;
use crate::store::{Store, StoreError};
use crate::task::Boxed;
use wellspring_net::without_missing_ipv6;

use super::config::ServerConfig;
use super::counters::ServerCounters;
use super::handler::{Handler, lock};
use super::parts::{self, Parts};
use super::quotas::Quotas;
use super::running::RunningTransfer;

/// Control messages that wait for the server's task; what comes beyond is dropped and repeated by
/// its client.
const MAX_WAITING: usize = 1_024;

/// Pause between two looks at whether transfers get on, and whether anybody waits for what is made, at most.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Pause between two looks at part files that nobody works on, if there are new ones.
const TRIM_EVERY: Duration = Duration::from_secs(60);
/// Of these pauses, in how many old ones are looked for: an hour.
const TICKS_OF_AGE: u64 = 60;

/// Ports tried when the system is to choose one that is free for TCP and for UDP.
const PORT_ATTEMPTS: usize = 16;

/// Why a server does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum BindError {
    /// The directory cannot be served.
    Directory(PathBuf, StoreError),
    /// A setting makes no sense.
    Config(ConfigError),
    /// The socket cannot be opened.
    Socket(SocketAddr, io::Error),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Directory(path, error) => {
                write!(f, "cannot serve {}: {error}", path.display())
            }
            BindError::Config(error) => error.fmt(f),
            BindError::Socket(address, error) => write!(f, "cannot listen at {address}: {error}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BindError::Directory(_, error) => Some(error),
            BindError::Config(error) => Some(error),
            BindError::Socket(_, error) => Some(error),
        }
    }
}

/// A running server. Dropping it ends its transfers; what arrived of objects that a later put may take up stays
/// in part files, within [limits](ServerConfig::parts).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use wellspring_server::{Server, ServerConfig};
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
    pub(crate) handler: Arc<Handler>,
    pub(crate) driver: Option<Driver>,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens the directory and the socket and starts to answer. A server that takes objects first
    /// removes the part files that dead processes have left in the directory and that cannot be taken up. Must be called within a tokio
    /// runtime whose time and blocking threads are enabled. On a system without IPv6 `[::]` is `0.0.0.0`.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(mut config: ServerConfig) -> Boxed<'static, Result<Server, BindError>> {
        Box::pin(async move {
            config.check().map_err(BindError::Config)?;
            config.driver.socket.bind = without_missing_ipv6(config.driver.socket.bind);
            let mut store =
                Store::open_on(crate::disk::disk(), &config.directory, config.limits)
                    .map_err(|error| BindError::Directory(config.directory.clone(), error))?;
            if config.allow_put {
                let (directory, limits) = (config.directory.clone(), config.parts);
                let sweep = move || {
                    let removed = crate::store::remove_stale_parts_on(
                        &*crate::disk::disk(),
                        &directory,
                        true,
                    );
                    let trimmed = store.trim_parts(&limits, 0).map_or(0, |cleaned| cleaned.removed);
                    (store, removed.unwrap_or(0) + trimmed)
                };
                let swept = crate::task::spawn_blocking(sweep).await;
                let (swept_store, removed) = swept.map_err(|_| {
                    let error = io::Error::other("looking for part files panicked");
                    BindError::Directory(config.directory.clone(), StoreError::Io(error))
                })?;
                store = swept_store;
                if removed > 0 {
                    tracing::info!(removed, "part files of dead processes are removed");
                }
            }
            let (control, mut messages) = mpsc::channel(MAX_WAITING);
            let address = config.driver.socket.bind;
            let (listener, driver) =
                open(&config.driver, &control).await.map_err(|error| match error {
                    StartError::Config(error) => BindError::Config(error),
                    StartError::System(error) => BindError::Socket(address, error),
                    other => BindError::Socket(address, io::Error::other(other)),
                })?;
            let quotas = Quotas::new(Arc::clone(store.root()));
            if config.allow_put {
                // Only now: a server that cannot listen leaves the ledger to the one that does.
                let quotas = Arc::clone(&quotas);
                let read = crate::task::spawn_blocking(move || quotas.read()).await;
                let panicked = || Err(io::Error::other("reading quotas panicked"));
                read.unwrap_or_else(|_| panicked()).map_err(|error| {
                    BindError::Directory(config.directory.clone(), StoreError::Io(error))
                })?;
            }
            let lttp = config.lttp;
            let (session_events, mut happened) = mpsc::unbounded_channel();
            let handler =
                Arc::new(Handler::new(driver.handle(), (store, quotas), config, session_events));
            let (for_requests, kept) = (Arc::clone(&handler), Arc::clone(&handler));
            let requests = crate::task::spawn(async move {
                while let Some(message) = messages.recv().await {
                    for_requests.take_in(message);
                }
            });
            let parts = Parts::new(Arc::clone(&handler), driver.handle().lttp(), lttp);
            let parts = Arc::new(parts);
            let connections =
                listener.map(|listener| crate::task::spawn(parts::accept(listener, parts)));
            let events = crate::task::spawn(async move {
                while let Some(report) = happened.recv().await {
                    handler.on_session(report);
                }
            });
            let idle = crate::task::spawn(look_at_transfers(Arc::clone(&kept)));
            let parts = crate::task::spawn(trim_parts(Arc::clone(&kept)));
            Ok(Server {
                local_addr: driver.local_addr(),
                handler: kept,
                driver: Some(driver),
                tasks: [requests, events, idle, parts].into_iter().chain(connections).collect(),
            })
        })
    }

    /// The address the server listens at, by UDP and, for LTTP's control channel, by TCP.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The driver's counters, of all its loops together; handshakes of LTTP's connections are among those of keys.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn statistics(&self) -> Result<Statistics, HandleError> {
        let driver = self.driver.as_ref().ok_or(HandleError::Stopped)?;
        let mut statistics = driver.handle().statistics()?;
        if let Some(trust) = &mut statistics.trust {
            self.handler.stream_handshakes.add_to(trust);
        }
        Ok(statistics)
    }

    /// The counters of each of the driver's loops.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn statistics_by_loop(&self) -> Result<Vec<Statistics>, HandleError> {
        self.driver.as_ref().ok_or(HandleError::Stopped)?.handle().statistics_by_loop()
    }

    /// The server's own counters.
    pub fn counters(&self) -> ServerCounters {
        self.handler.counters()
    }

    /// The transfers that run, the fetches first, `limit` at most. Waits for one turn of the driver's loop.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn transfers(&self, limit: usize) -> Result<Vec<RunningTransfer>, HandleError> {
        self.handler.running_transfers(limit)
    }

    /// Ends all transfers and tells their peers. What clients have put of trees until now is on the disk then.
    pub fn shut_down(mut self) -> Boxed<'static, ()> {
        Box::pin(async move {
            if let Some(driver) = self.driver.take() {
                // Waits for threads: not on an async one. That it was cut short would not matter.
                let _ = crate::task::spawn_blocking(move || driver.shut_down()).await;
            }
            self.end_tasks();
            for task in self.tasks.drain(..) {
                let _ = task.await; // Cancelled: that is what was asked for.
            }
            let handler = Arc::clone(&self.handler);
            // Of a panic there is a trace, and what it left is in doubt.
            let _ = crate::task::spawn_blocking(move || handler.settle_trees()).await;
        })
    }

    fn end_tasks(&self) {
        self.handler.digests.page_turns().end_all();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Looks from time to time whether transfers get on, and whether anybody waits for what is made.
async fn look_at_transfers(handler: Arc<Handler>) {
    let pause = (handler.config.idle_put / 4).min(LOOK_EVERY);
    let mut ticks = tokio::time::interval(pause);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = crate::clock::now();
        handler.end_idle_puts(now);
        lock(&handler.sends).mark(now);
        handler.trees.lock().end_unasked(now);
    }
}

/// Removes part files that nobody works on, beyond the limits: soon after an object did not arrive, and as they grow
/// old.
async fn trim_parts(handler: Arc<Handler>) {
    let mut ticks = tokio::time::interval(TRIM_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await; // at once
    for tick in 1_u64.. {
        ticks.tick().await;
        let has_more = handler.has_left_parts.swap(false, Ordering::AcqRel);
        if handler.permissions().put && (has_more || tick.is_multiple_of(TICKS_OF_AGE)) {
            let handler = Arc::clone(&handler);
            let trim = move || handler.store.trim_parts(&handler.config.parts, 0);
            if let Ok(Ok(cleaned)) = crate::task::spawn_blocking(trim).await
                && cleaned.removed > 0
            {
                tracing::info!(?cleaned, "part files beyond the limits are removed");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_tasks();
    }
}

/// Opens a port for TCP, which a simulated machine does without, and the same for UDP.
async fn open(
    config: &DriverConfig,
    control: &mpsc::Sender<ControlMessage>,
) -> Result<(Option<TcpListener>, Driver), StartError> {
    #[cfg(feature = "simulation")]
    if crate::simulation::machine().is_some() {
        let control = control.clone();
        let control = Box::new(move |message| control.try_send(message).is_ok());
        return Ok((None, Driver::start(config.clone(), control)?));
    }
    let mut attempts = PORT_ATTEMPTS;
    loop {
        let listener = TcpListener::bind(config.socket.bind).await?;
        let mut config = config.clone();
        let chosen = config.socket.bind.port() == 0;
        config.socket.bind.set_port(listener.local_addr()?.port());
        let control = control.clone();
        let control = Box::new(move |message| control.try_send(message).is_ok());
        match Driver::start(config, control) {
            Err(StartError::System(error))
                if chosen && attempts > 1 && error.kind() == io::ErrorKind::AddrInUse =>
            {
                attempts -= 1;
            }
            started => return Ok((Some(listener), started?)),
        }
    }
}
