//! The server: sends the objects of a directory to whoever asks, and takes objects if allowed.
//!
//! Every request is answered without a memory of the client until the client has shown a cookie;
//! from then on memory is bounded by stated numbers of transfers. Files are opened, hashed,
//! synced and renamed on threads that may wait; neither the socket's thread nor the async tasks
//! ever do.

mod cookie;
pub(crate) mod digests;
mod event;
mod puts;
mod requests;
mod sends;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::driver::{DriverConfig, SessionEvent};
use crate::protocols::Driver;
use crate::socket::Interface;
use crate::store::{DigestCache, Limits, Store, StoreError};

pub use event::ServerEvent;
use requests::Desk;

/// Control messages that wait for the server's task; what comes beyond is dropped and repeated by
/// its client.
const MAX_WAITING: usize = 1_024;

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
    /// Bounds on what is taken.
    pub limits: Limits,
    /// Objects sent at one time, at most.
    pub max_sends: usize,
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
            limits: Limits::default(),
            max_sends: 256,
            cache: Arc::new(DigestCache::in_memory()),
            interface: None,
            events: Arc::new(|_| {}),
        }
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
    driver: Option<Driver>,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens the directory and the socket and starts to answer. Must be called within a tokio
    /// runtime whose time and blocking threads are enabled.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(config: ServerConfig) -> Result<Server, BindError> {
        let store = Store::open(&config.directory, config.limits)
            .map_err(|error| BindError::Directory(config.directory.clone(), error))?;
        let (control, mut messages) = mpsc::channel(MAX_WAITING);
        let address = config.driver.socket.bind;
        let driver = Driver::start(
            config.driver.clone(),
            Box::new(move |message| control.try_send(message).is_ok()),
        )
        .map_err(|error| BindError::Socket(address, error))?;
        let (session_events, mut happened) = mpsc::unbounded_channel();
        let desk = Arc::new(Desk::new(driver.handle(), store, config, session_events));
        let clerk = Arc::clone(&desk);
        let requests = tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                clerk.take_in(message);
            }
        });
        let events = tokio::spawn(async move {
            while let Some(told) = happened.recv().await {
                desk.on_session(told);
            }
        });
        Ok(Server {
            local_addr: driver.local_addr(),
            driver: Some(driver),
            tasks: vec![requests, events],
        })
    }

    /// The address the server listens at.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
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

impl Drop for Server {
    fn drop(&mut self) {
        self.end_tasks();
    }
}

/// An event of one of the server's sessions.
struct Told {
    session: wellspring_core::SessionId,
    /// Tells a session from an earlier one of the same number.
    epoch: u8,
    event: SessionEvent,
}
