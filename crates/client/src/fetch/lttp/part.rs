//! A part of an object on its way from one server, over a connection of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;
use wellspring_codec::lt::Method;
use wellspring_transport::lttp::{Parameters, ReceiveStats};
use wellspring_trust::Keyring;
use wellspring_wire::control::RefusalCode;
use wellspring_wire::lttp::{Geometry, Message};

use super::super::verify::Checker;
use super::contiguous::Contiguous;
use super::spans::Span;
use crate::driver::{Failure, SessionProgress};
use crate::protocols::lttp::connection::{Over, carry};
use crate::protocols::lttp::control::{ControlError, split};
use crate::protocols::lttp::keys::greet;
use crate::protocols::lttp::{LttpHandle, Part};
use crate::store::{Digest, ObjectName, ObjectSink};
use crate::store_messages;
use crate::{Update, Updates, timeout_ms};
use wellspring_net::canonical;

/// How often what has come is verified, before a part ends.
const VERIFY_EVERY: Duration = Duration::from_millis(100);
/// How long a connection may take: one that was begun while the path was down is tried again late by itself.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// What all parts of a fetch have in common.
pub(super) struct Common {
    pub handle: LttpHandle,
    /// Where datagrams leave from.
    pub own: SocketAddr,
    pub keys: Option<Arc<Keyring>>,
    pub name: ObjectName,
    pub size: u64,
    pub digest: Digest,
    pub geometry: Geometry,
    pub method: Method,
    pub timeout: Duration,
    pub sink: Arc<dyn ObjectSink>,
    pub checker: Checker,
    pub updates: Updates,
}

/// What goes wrong with a part.
pub(super) enum Broken {
    /// Its server is lost, and why.
    Server(String),
    /// So it is, but it may come back: the way to it broke, or it has started again.
    Away(String),
    /// Its bytes are wrong, from the node on that begins there.
    Wrong(u64),
    /// The bytes cannot be kept here.
    Write(io::Error),
}

/// What is verified of a part: its first bytes.
struct InOrder<'a> {
    checker: &'a Checker,
    span: Span,
    right: u64,
}

impl InOrder<'_> {
    /// Verifies the nodes that are whole now that so much is written.
    async fn follow(&mut self, part: &Contiguous) -> Result<(), Broken> {
        let Span { offset, len } = self.span;
        let written = part.end() - offset;
        let node_len = self.checker.node_len();
        let end = if written >= len { len } else { written / node_len * node_len };
        if end <= self.right {
            return Ok(());
        }
        let range = offset + self.right..offset + end;
        let wrong = self.checker.check(range).await.map_err(Broken::Write)?;
        self.right = wrong.map_or(end, |at| at - offset);
        wrong.map_or(Ok(()), |at| Err(Broken::Wrong(at)))
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        ControlError::from(error).into()
    }
}

impl From<ControlError> for Broken {
    fn from(error: ControlError) -> Self {
        let text = error.to_string();
        match error {
            ControlError::Closed
            | ControlError::Silent(_)
            | ControlError::Io(_)
            | ControlError::Forged => Broken::Away(text),
            // It may have its hands full with a connection of ours that it does not know to be gone.
            ControlError::Refused { code: RefusalCode::Busy, .. } => Broken::Away(text),
            _ => Broken::Server(text),
        }
    }
}

/// When a server was last heard.
pub(super) struct Heard<'a> {
    progress: &'a SessionProgress,
    seen: (u64, u64),
    at: Instant,
}

impl<'a> Heard<'a> {
    fn now(progress: &'a SessionProgress) -> Self {
        Heard { progress, seen: (0, 0), at: Instant::now() }
    }

    /// Returns when nothing of use has come for so long.
    async fn until_silent(&mut self, patience: Duration) {
        loop {
            let now = (self.progress.symbols(), self.progress.bytes_done());
            if now != self.seen {
                (self.seen, self.at) = (now, Instant::now());
            }
            let left = patience.saturating_sub(self.at.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(VERIFY_EVERY)).await;
        }
    }
}

/// What came of asking for a part.
pub(super) struct Came {
    /// How many of its first bytes are there and right.
    pub right: u64,
    /// When its server was last heard, or asked.
    pub heard: Instant,
    pub result: Result<ReceiveStats, Broken>,
}

/// Receives a part, which begins with a node, to its end, unless its server is silent for `patience`. Then, however it
/// ended, nothing is being written any more.
pub(super) async fn receive(
    common: &Common,
    server: (&str, SocketAddr),
    (span, patience): (Span, Duration),
    progress: &SessionProgress,
) -> Came {
    let mut in_order = InOrder { checker: &common.checker, span, right: 0 };
    let mut heard = Heard::now(progress);
    let result = receive_verified(common, server, patience, (&mut heard, &mut in_order)).await;
    Came { right: in_order.right, heard: heard.at, result }
}

/// Connects from the address that this host's datagrams are bound to, if they are bound to one: a server sends to who has said
/// the cookie from the host at the other end of the connection.
async fn connect(mut own: SocketAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let server = canonical(server);
    if own.ip().is_unspecified() || own.is_ipv4() != server.is_ipv4() {
        return TcpStream::connect(server).await;
    }
    own.set_port(0);
    let socket = if own.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(own)?;
    socket.connect(server).await
}

/// As [`receive`].
async fn receive_verified(
    common: &Common,
    (host, address): (&str, SocketAddr),
    patience: Duration,
    (heard, in_order): (&mut Heard<'_>, &mut InOrder<'_>),
) -> Result<ReceiveStats, Broken> {
    let span = in_order.span;
    let Span { offset, len } = span;
    let Common { geometry, digest: Digest(digest), .. } = *common;
    let Geometry { symbol_size, block_symbols } = geometry;
    let parameters = Parameters { transfer_len: len, symbol_size, block_symbols };
    let at_most = patience.min(CONNECT_WITHIN);
    let connecting = tokio::time::timeout(at_most, connect(common.own, address)).await;
    let stream = connecting.map_err(|_| ControlError::Silent(at_most))?;
    let (mut reader, mut writer) = split(stream.map_err(ControlError::from)?)?;
    if let Some(keys) = &common.keys {
        greet(keys, canonical(address).ip(), (&mut reader, &mut writer), patience).await?;
    }
    let name = store_messages::name(&common.name);
    let timeout_ms = timeout_ms(common.timeout);
    let request = Message::Request { name, digest, offset, len, geometry, timeout_ms };
    writer.say(&request, patience).await?;
    let (cookie, seed) = loop {
        let said = reader.next_within(patience).await?;
        heard.at = Instant::now();
        match said {
            Message::Granted { cookie, seed } => break (cookie, seed),
            Message::Pending { done, total } => {
                common.updates.tell(Update::Hashing { host: Some(host.to_owned()), done, total });
            }
            _ => return Err(ControlError::OutOfPlace.into()),
        }
    };
    let written = Arc::new(Contiguous::new(Arc::clone(&common.sink), offset));
    let sink = Arc::clone(&written) as Arc<dyn ObjectSink>;
    let part = Part { offset, parameters, seed };
    let decoding = (common.method, heard.progress.clone());
    let mut session = common
        .handle
        .expect(cookie, canonical(address), &part, sink, decoding)
        .map_err(|error| Broken::Write(io::Error::other(error)))?;
    let over = {
        let carrying = carry(&mut session, Some(parameters), &mut reader, &mut writer, patience);
        let verifying = async {
            loop {
                tokio::time::sleep(VERIFY_EVERY).await;
                if let Err(broken) = in_order.follow(&written).await {
                    return broken;
                }
            }
        };
        tokio::select! {
            over = carrying => Ok(over),
            broken = verifying => Err(Some(broken)),
            () = heard.until_silent(patience) => Err(None),
        }
    };
    let over = match over {
        Ok(over) => over,
        Err(broken) => {
            session.end().await;
            if let Some(broken) = broken {
                return Err(broken);
            }
            in_order.follow(&written).await?;
            let silent = heard.at.elapsed().as_secs_f64();
            return Err(Broken::Away(format!("silent for {silent:.1} s")));
        }
    };
    in_order.follow(&written).await?;
    match over {
        Over::Received(stats) => Ok(stats),
        Over::Failed(Failure::Write(error)) => Err(Broken::Write(error)),
        Over::Failed(Failure::PeersLost) => Err(Broken::Away("fell silent".to_owned())),
        Over::Failed(Failure::Closed(_)) => Err(Broken::Away("closed the session".to_owned())),
        Over::Failed(failure) => Err(Broken::Server(match failure {
            Failure::Exhausted => "sent too many symbols that do not give a block".to_owned(),
            failure => failure.to_string(),
        })),
        Over::Broken(error) => Err(error.into()),
        Over::Sent(_) => Err(ControlError::OutOfPlace.into()),
    }
}
