//! Parts of objects on their way out by LTTP: connections of its control channel, answered.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::task::JoinSet;
use tokio::net::{TcpListener, TcpStream};
use wellspring_transport::lttp::Parameters;
use wellspring_trust::{Identity, Refusal as Untrusted};
use wellspring_wire::control::{Cookie as NoCookie, RefusalCode};
use wellspring_wire::lttp::{Cookie, MAX_SYMBOL_SIZE, Message};

use super::address_limit::{MinuteCount, Places};
use super::answer::{Owner, Refusal, Shown};
use super::config::wait_of;
use super::counters::Handshake;
use super::handler::{Handler, OpenObject, lock};
use super::requests::has_right;
use super::{LttpLimits, ServerEvent};
use crate::protocols::lttp::connection::{Over, begun, carry};
use crate::protocols::lttp::control::{ControlError, Reader, Writer, split};
use crate::protocols::lttp::keys::admit;
use crate::protocols::lttp::{LttpHandle, Part, is_possible};
use crate::store::{FileSource, ObjectSource};
use wellspring_net::canonical;
use wellspring_net::timeouts::peer_timeout;

/// How often a client that waits for a digest is told how far it is.
const PENDING_PAUSE: Duration = Duration::from_millis(100);
/// Handshakes of one address in a minute, at most: each takes about 0.2 ms of a core.
const MAX_HANDSHAKES: usize = 6_000;

/// Takes connections, each in a task of its own; these end with this one.
pub(super) async fn accept(listener: TcpListener, parts: Arc<Parts>) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                // One too many is closed at once: there is no room to tell it why.
                Ok((stream, client)) => {
                    let client = canonical(client);
                    match parts.connections.take(client) {
                        Ok(place) => {
                            let parts = Arc::clone(&parts);
                            tasks.spawn(async move {
                                parts.attend(stream, client).await;
                                drop(place);
                            });
                        }
                        Err(full) => parts.refused(client, &full.into()),
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
pub(super) struct Parts {
    handler: Arc<Handler>,
    handle: LttpHandle,
    limits: LttpLimits,
    connections: Arc<Places>,
    sessions: Arc<Places>,
    handshakes: Mutex<MinuteCount>,
}

/// Why a connection ends without a session.
enum Ended {
    /// The client is told.
    Refused(Refusal),
    /// There is nobody to tell, or nothing to say.
    Silent(ControlError),
}

impl From<ControlError> for Ended {
    fn from(error: ControlError) -> Self {
        Ended::Silent(error)
    }
}

impl From<Refusal> for Ended {
    fn from(refusal: Refusal) -> Self {
        Ended::Refused(refusal)
    }
}

impl Ended {
    fn refused(code: RefusalCode, text: impl Into<String>) -> Self {
        Ended::Refused(Refusal::new(code, text))
    }

    fn failed(error: impl std::fmt::Display) -> Self {
        Ended::refused(RefusalCode::Failed, error.to_string())
    }
}

impl Parts {
    pub(super) fn new(handler: Arc<Handler>, handle: LttpHandle, limits: LttpLimits) -> Self {
        Parts {
            connections: Arc::clone(&handler.lttp_connections),
            handler,
            handle,
            sessions: Places::new("parts", limits.max_sessions, (limits.max_sessions / 4).max(1)),
            handshakes: Mutex::default(),
            limits,
        }
    }

    /// Attends to a client from its first word to its last.
    async fn attend(&self, stream: TcpStream, client: SocketAddr) {
        let Ok((mut reader, mut writer)) = split(stream) else { return };
        match self.converse(&mut reader, &mut writer, client).await {
            // Clients ask a server, find that another one has other bytes, and go.
            Ok(()) | Err(Ended::Silent(ControlError::Closed)) => {}
            Err(Ended::Silent(error)) => {
                self.refused(client, &Refusal::new(RefusalCode::Unsupported, error.to_string()));
            }
            Err(Ended::Refused(refusal)) => {
                let message = Message::Refused { code: refusal.code, text: &refusal.text };
                // Whoever does not listen does not want to know.
                let _ = writer.say(&message, self.timeout()).await;
                self.refused(client, &refusal);
            }
        }
    }

    /// Who the client is; nobody where there are no keys.
    async fn identify(
        &self,
        reader: &mut Reader,
        writer: &mut Writer,
        client: SocketAddr,
    ) -> Result<Option<Arc<Identity>>, Ended> {
        let Some(keyring) = self.handler.keyring() else { return Ok(None) };
        let counted = lock(&self.handshakes).take(
            "handshakes in this minute",
            client,
            MAX_HANDSHAKES,
            crate::clock::now(),
        );
        let count = |outcome| self.handler.stream_handshakes.count(outcome);
        counted.inspect_err(|_| count(Handshake::PutOff)).map_err(Refusal::from)?;
        match admit(&keyring, (reader, writer), self.timeout()).await {
            Ok(identity) => {
                count(Handshake::Done);
                Ok(Some(identity))
            }
            Err(ControlError::InClear) => Err(Ended::refused(
                RefusalCode::NotAllowed,
                "this host speaks only with keys that it trusts, and you have none (wellspring key --help)",
            )),
            // The client was told by the handshake itself.
            Err(error @ ControlError::Untrusted(reason)) => {
                let (code, outcome) = match reason {
                    Untrusted::NotTrusted => (RefusalCode::NotAllowed, Handshake::Untrusted),
                    _ => (RefusalCode::Failed, Handshake::Wrong),
                };
                count(outcome);
                self.refused(client, &Refusal::new(code, error.to_string()));
                Err(ControlError::Closed.into())
            }
            Err(error) => {
                if matches!(error, ControlError::OutOfPlace | ControlError::Nonsense(_)) {
                    count(Handshake::Wrong);
                }
                Err(error.into())
            }
        }
    }

    /// Who a client is by the keys of the moment, if it may read an object.
    fn still_may_read(&self, known: &Identity, name: &str) -> Result<(), Refusal> {
        let now = self.handler.still_known(known)?;
        has_right(&now, false, name)
    }

    fn timeout(&self) -> Duration {
        self.limits.timeout
    }

    fn refused(&self, client: SocketAddr, refusal: &Refusal) {
        let (name, reason) = (String::new(), refusal.text.clone());
        self.handler
            .tell_limited(ServerEvent::Refused { name, client, reason }, Some(refusal.code));
    }

    async fn converse(
        &self,
        reader: &mut Reader,
        writer: &mut Writer,
        client: SocketAddr,
    ) -> Result<(), Ended> {
        let identity = self.identify(reader, writer, client).await?;
        let request = reader.next_within(self.timeout()).await?;
        let Message::Request { name, digest, offset, len, geometry, timeout_ms } = request else {
            return Err(ControlError::OutOfPlace.into());
        };
        let wait = wait_of(timeout_ms).unwrap_or(self.timeout());
        self.handler.check_open(client)?;
        let name = name.to_string();
        if let Some(identity) = &identity {
            has_right(identity, false, &name)?;
        }
        // Before anything is opened, hashed or made for it.
        let places = (
            self.sessions.take(client).map_err(Refusal::from)?,
            self.handler.send_places.take(client).map_err(Refusal::from)?,
        );
        let account = self.handler.account(identity.as_ref(), client);
        let counted = self.handler.quotas.session(account.as_ref()).map_err(Refusal::from)?;
        let key = identity.as_ref().map(|identity| identity.fingerprint);
        let owner = Owner { client, key };
        let object = self.object_to_send(writer, owner, (&name, digest)).await?;
        // The digest may have taken long: what counts is what the key may now.
        if let Some(known) = &identity {
            self.still_may_read(known, &name)?;
        }
        let longest = MAX_SYMBOL_SIZE - self.handler.handle.sealing_overhead();
        let is_possible = is_possible(&geometry) && geometry.symbol_size <= longest;
        if offset + len > object.size || !is_possible {
            let text = "no such part, or blocks too long";
            return Err(Ended::refused(RefusalCode::Unsupported, text));
        }
        let parameters = Parameters {
            transfer_len: len,
            symbol_size: geometry.symbol_size,
            block_symbols: geometry.block_symbols,
        };
        let part = Part { offset, parameters, seed: crate::random::number() };
        self.handler.tell(ServerEvent::SendingPart { name: name.clone(), client, offset, len });
        let source = Arc::new(object.source);
        let over = self.send((reader, writer, wait), (owner, &name), &part, source).await?;
        drop((places, counted));
        self.handler.tell(match over {
            Over::Sent(stats) => ServerEvent::SentPart { name, client, stats },
            over => ServerEvent::SendFailed {
                name,
                client,
                reason: match over {
                    Over::Failed(failure) => failure.to_string(),
                    Over::Broken(error) => format!("the client {error}"),
                    Over::Received(_) | Over::Sent(_) => String::new(),
                },
            },
        });
        Ok(())
    }

    /// Opens an object that must have that digest, however long it takes to know.
    async fn object_to_send(
        &self,
        writer: &mut Writer,
        Owner { client, key }: Owner,
        (name, digest): (&str, [u8; 32]),
    ) -> Result<OpenObject, Ended> {
        loop {
            let (handler, wanted) = (Arc::clone(&self.handler), name.to_owned());
            let open = move || {
                let shown = Shown { client, key, cookie: NoCookie::NONE, account: None };
                handler.object_to_send(shown, &wanted, digest)
            };
            let object = crate::task::spawn_blocking(open).await;
            match object.map_err(Ended::failed)?? {
                Ok(object) => return Ok(object),
                Err((done, total)) => {
                    writer.say(&Message::Pending { done, total }, self.timeout()).await?;
                    tokio::time::sleep(PENDING_PAUSE).await;
                }
            }
        }
    }

    /// Grants a part and stays with it to its end. A client that is silent is waited for for so long.
    async fn send(
        &self,
        (reader, writer, wait): (&mut Reader, &mut Writer, Duration),
        (owner, name): (Owner, &str),
        part: &Part,
        source: Arc<FileSource>,
    ) -> Result<Over, Ended> {
        let cookie = Cookie(crate::random::number());
        // Read beforehand, into the system's cache: the first symbol sets the pace, and must not wait
        // for a disk.
        let (offset, first) = (part.offset, part.parameters);
        let len = u64::from(first.symbols_in_block(0)) * u64::from(first.symbol_size);
        let mut block = vec![0; len.min(first.transfer_len) as usize];
        let reading = Arc::clone(&source);
        let read = crate::task::spawn_blocking(move || reading.read_block(offset, &mut block));
        read.await.map_err(Ended::failed)?.map_err(Ended::failed)?;
        let from = (source as Arc<dyn ObjectSource>, peer_timeout(wait));
        let offered = self.handle.offer(cookie, (owner.client.ip(), owner.key), part, from);
        let mut session = offered.map_err(Ended::failed)?;
        let progress = session.progress().clone();
        let _shown = self.handler.parts.add(owner.client, name, progress, first.symbol_size);
        writer.say(&Message::Granted { cookie, seed: part.seed }, self.timeout()).await?;
        if let Err(error) = begun(&mut session, reader, self.timeout()).await {
            return Ok(Over::Broken(error));
        }
        Ok(carry(&mut session, None, reader, writer, wait).await)
    }
}
