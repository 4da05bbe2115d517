//! The server: answers connections of the control channel, and has the loop send what they ask for.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use wellspring_transport::lttp::{Parameters, SendStats};
use wellspring_wire::control::RefusalCode;
use wellspring_wire::lttp::{Cookie, Message};

use super::config::{LttpServerConfig, LttpSettings};
use super::connection::{Over, SessionGuard, carry};
use super::control::{ControlError, Reader, Writer, split};
use super::counters::LttpStatistics;
use super::engine::Engine;
use super::handle::{Handle, Input, MAX_TOLD, Opening, Side};
use super::sending::{Layout, Load, Sending};
use crate::address::canonical;
use crate::payload::ObjectSource;
use crate::server::BindError;
use crate::server::digests::{Digests, Known};
use crate::store::{Digest, FileSource, Fingerprint, Limits, ObjectName, Store, StoreError};

/// How often a client that waits for a digest is told how far it is.
const PENDING_PAUSE: Duration = Duration::from_millis(100);
/// Ports tried when the system is to choose one that is free for TCP and for UDP.
const PORT_ATTEMPTS: usize = 16;

/// What happens at a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LttpServerEvent {
    /// A digest is computed, because nobody asked for the object in this state before.
    Hashing {
        /// The object.
        name: String,
        /// Its length \[bytes\].
        size: u64,
    },
    /// A part of an object goes out.
    Sending {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// Where the part begins \[bytes\].
        offset: u64,
        /// How long it is \[bytes\].
        len: u64,
    },
    /// A part is out.
    Sent {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// The account.
        stats: SendStats,
    },
    /// A part did not go out to its end.
    SendFailed {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
    /// A client was refused, or did not speak LTTP.
    Refused {
        /// Who.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
}

/// A running server. Dropping it ends its sessions and closes their connections.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use wellspring_net::{LttpServer, LttpServerConfig};
///
/// let config = LttpServerConfig::new("[::]:4711".parse()?, "/srv/objects".into());
/// let server = LttpServer::bind(config).await?;
/// println!("serving at {}", server.local_addr());
/// # std::future::pending::<()>().await;
/// # Ok(())
/// # }
/// ```
pub struct LttpServer {
    engine: Option<Engine>,
    accepting: JoinHandle<()>,
    local_addr: SocketAddr,
}

impl LttpServer {
    /// Opens the directory and both sockets and starts to answer. Must be called within a tokio
    /// runtime whose I/O, time and blocking threads are enabled.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(config: LttpServerConfig) -> Result<LttpServer, BindError> {
        // Nothing is received into the directory, so its limits do not matter.
        let store = Store::open(&config.directory, Limits::default())
            .map_err(|error| BindError::Directory(config.directory.clone(), error))?;
        let bind = config.settings.socket.bind;
        let (listener, engine) =
            open(&config.settings).await.map_err(|error| BindError::Socket(bind, error))?;
        let local_addr = engine.local_addr();
        let desk = Arc::new(Desk {
            handle: engine.handle().clone(),
            store,
            digests: Digests::new(Arc::clone(&config.cache)),
            connections: Arc::new(Semaphore::new(config.max_connections)),
            sessions: Arc::new(Semaphore::new(config.max_sessions)),
            config,
        });
        let accepting = tokio::spawn(accept(listener, desk));
        Ok(LttpServer { engine: Some(engine), accepting, local_addr })
    }

    /// The address the server listens at, by TCP and by UDP.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// What its UDP socket has counted.
    pub fn statistics(&self) -> LttpStatistics {
        self.engine.as_ref().map(|engine| engine.handle().statistics()).unwrap_or_default()
    }

    /// Ends all sessions and closes their connections.
    pub async fn shut_down(mut self) {
        self.accepting.abort();
        if let Some(engine) = self.engine.take() {
            // Waits for a thread: not on an async one. That it was cut short would not matter.
            let _ = tokio::task::spawn_blocking(move || drop(engine)).await;
        }
    }
}

impl Drop for LttpServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Opens a port for TCP, and the same for UDP.
async fn open(settings: &LttpSettings) -> io::Result<(TcpListener, Engine)> {
    let mut attempts = PORT_ATTEMPTS;
    loop {
        let listener = TcpListener::bind(settings.socket.bind).await?;
        let mut settings = settings.clone();
        let chosen = settings.socket.bind.port() == 0;
        settings.socket.bind.set_port(listener.local_addr()?.port());
        match Engine::start(&settings, tokio::runtime::Handle::current()) {
            Err(error) if chosen && attempts > 1 && error.kind() == io::ErrorKind::AddrInUse => {
                attempts -= 1;
            }
            started => return Ok((listener, started?)),
        }
    }
}

/// Takes connections, each in a task of its own; these end with this one.
async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                // One too many is closed at once: there is no room to tell it why.
                Ok((stream, client)) => {
                    let client = canonical(client);
                    match Arc::clone(&desk.connections).try_acquire_owned() {
                        Ok(permit) => {
                            let desk = Arc::clone(&desk);
                            tasks.spawn(async move {
                                desk.attend(stream, client).await;
                                drop(permit);
                            });
                        }
                        Err(_) => desk.refused(client, "too many connections".to_owned()),
                    }
                }
                Err(error) => {
                    // Out of file descriptors, say: others will be free again.
                    tracing::warn!(%error, "accepting connections");
                    tokio::time::sleep(PENDING_PAUSE).await;
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// Everything a connection can need.
struct Desk {
    handle: Handle,
    store: Store,
    digests: Arc<Digests>,
    connections: Arc<Semaphore>,
    sessions: Arc<Semaphore>,
    config: LttpServerConfig,
}

/// An object that a client has asked about.
struct Asked {
    name: ObjectName,
    source: Arc<FileSource>,
    size: u64,
}

/// Why a connection ends without a session.
enum Refusal {
    /// The client is told.
    Told(RefusalCode, String),
    /// There is nobody to tell, or nothing to say.
    Silent(ControlError),
}

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Self {
        Refusal::Silent(error)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::Told(error.refusal_code(), error.to_string())
    }
}

impl Refusal {
    fn failed(error: impl std::fmt::Display) -> Self {
        Refusal::Told(RefusalCode::Failed, error.to_string())
    }
}

impl Desk {
    /// Attends to a client from its first word to its last.
    async fn attend(self: &Arc<Self>, stream: TcpStream, client: SocketAddr) {
        let Ok((mut reader, mut writer)) = split(stream) else { return };
        match self.converse(&mut reader, &mut writer, client).await {
            // Clients ask a server, find that another one has other bytes, and go.
            Ok(()) | Err(Refusal::Silent(ControlError::Closed)) => {}
            Err(Refusal::Silent(error)) => self.refused(client, error.to_string()),
            Err(Refusal::Told(code, text)) => {
                let message = Message::Refused { code, text: &text };
                // Whoever does not listen does not want to know.
                let _ = writer.say(&message, self.timeout()).await;
                self.refused(client, text);
            }
        }
    }

    fn timeout(&self) -> Duration {
        self.config.settings.timeout
    }

    fn tell(&self, event: LttpServerEvent) {
        (self.config.events)(event);
    }

    fn refused(&self, client: SocketAddr, reason: String) {
        self.tell(LttpServerEvent::Refused { client, reason });
    }

    async fn converse(
        self: &Arc<Self>,
        reader: &mut Reader,
        writer: &mut Writer,
        client: SocketAddr,
    ) -> Result<(), Refusal> {
        let asked = self.answer_ask(reader, writer).await?;
        let request = reader.next_within(self.timeout()).await?;
        let Message::Request { offset, len, geometry } = request else {
            return Err(ControlError::OutOfPlace.into());
        };
        let parameters = Parameters {
            transfer_len: len,
            symbol_size: geometry.symbol_size,
            block_symbols: geometry.block_symbols,
        };
        let layout = Layout { offset, parameters };
        if offset + len > asked.size || !layout.is_possible() {
            let text = "no such part, or blocks too long".to_owned();
            return Err(Refusal::Told(RefusalCode::Unsupported, text));
        }
        let Ok(permit) = Arc::clone(&self.sessions).try_acquire_owned() else {
            let limit = self.config.max_sessions;
            let text = format!("{limit} parts are being sent already; try again later");
            return Err(Refusal::Told(RefusalCode::Busy, text));
        };
        let seed = crate::random::number();
        let source = Arc::clone(&asked.source) as Arc<dyn ObjectSource>;
        let sending = read_first(source, layout, seed).await?;
        self.tell(LttpServerEvent::Sending { name: asked.name.to_string(), client, offset, len });
        let over = self.send(reader, writer, client.ip(), sending, seed).await;
        drop(permit);
        self.tell(match over {
            Over::Sent(stats) => {
                LttpServerEvent::Sent { name: asked.name.to_string(), client, stats }
            }
            over => LttpServerEvent::SendFailed {
                name: asked.name.to_string(),
                client,
                reason: match over {
                    Over::Failed(ending) => format!("the client or the disk: {ending}"),
                    Over::Broken(error) => format!("the client {error}"),
                    Over::Received(_) | Over::Sent(_) => String::new(),
                },
            },
        });
        Ok(())
    }

    /// Opens what the client asks for, and tells its size and digest, however long that takes.
    async fn answer_ask(
        self: &Arc<Self>,
        reader: &mut Reader,
        writer: &mut Writer,
    ) -> Result<Asked, Refusal> {
        let Message::Ask { name } = reader.next_within(self.timeout()).await? else {
            return Err(ControlError::OutOfPlace.into());
        };
        let name = ObjectName::new(name.as_str()).map_err(StoreError::from)?;
        loop {
            let (desk, wanted) = (Arc::clone(self), name.clone());
            let looked = tokio::task::spawn_blocking(move || desk.look_up(&wanted)).await;
            let (source, size, known) = looked.map_err(Refusal::failed)??;
            match known {
                Known::Digest(Digest(digest)) => {
                    writer.say(&Message::Object { size, digest }, self.timeout()).await?;
                    return Ok(Asked { name, source: Arc::new(source), size });
                }
                Known::Failed(reason) => return Err(Refusal::failed(reason)),
                Known::Pending(done) => {
                    let pending = Message::Pending { done, total: size };
                    writer.say(&pending, self.timeout()).await?;
                }
                Known::Unknown => {}
            }
            tokio::time::sleep(PENDING_PAUSE).await;
        }
    }

    /// Opens an object and asks for its digest; blocks the thread.
    fn look_up(&self, name: &ObjectName) -> Result<(FileSource, u64, Known), StoreError> {
        let (file, fingerprint): (_, Fingerprint) = self.store.open_object(name)?;
        let size = fingerprint.size();
        let begin = || self.tell(LttpServerEvent::Hashing { name: name.to_string(), size });
        let known = self.digests.of(&file, fingerprint, Some(&begin));
        Ok((FileSource::new(file, fingerprint), size, known))
    }

    /// Grants a part and stays with it to its end.
    async fn send(
        &self,
        reader: &mut Reader,
        writer: &mut Writer,
        peer: IpAddr,
        sending: Sending,
        seed: u64,
    ) -> Over {
        let cookie = Cookie(crate::random::number());
        let (told, telling) = mpsc::channel(MAX_TOLD);
        let side = Side::Sending(sending);
        let opening = Box::new(Opening { cookie, peer, address: None, side, told });
        self.handle.tell(Input::Open(opening)).await;
        let guard = SessionGuard { handle: &self.handle, cookie };
        let granted = Message::Granted { cookie, seed };
        if let Err(error) = writer.say(&granted, self.timeout()).await {
            return Over::Broken(error);
        }
        carry(&guard, reader, writer, telling, self.timeout()).await
    }
}

/// Reads a part's first block: its first symbol, which sets the pace, must not wait for a disk.
async fn read_first(
    source: Arc<dyn ObjectSource>,
    layout: Layout,
    seed: u64,
) -> Result<Sending, Refusal> {
    let (offset, len) = layout.block(0);
    let load = Load { source: Arc::clone(&source), sbn: 0, offset, len };
    let read = tokio::task::spawn_blocking(move || load.run()).await;
    let first = read.map_err(Refusal::failed)?.map_err(Refusal::failed)?;
    Sending::new(source, layout, seed, first).map_err(Refusal::failed)
}
