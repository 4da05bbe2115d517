//! A part of an object on its way from one server, over a connection of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use wellspring_codec::lt::Method;
use wellspring_transport::lttp::{Parameters, ReceiveStats};
use wellspring_trust::Keyring;
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
use crate::{Update, Updates};
use wellspring_net::canonical;

/// How often what has come is verified, before a part ends.
const VERIFY_EVERY: Duration = Duration::from_millis(100);

/// What all parts of a fetch have in common.
pub(super) struct Common {
    pub handle: LttpHandle,
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
        Broken::Server(error.to_string())
    }
}

/// Receives a part, which begins with a node, to its end. Then, however it ended, nothing is being written any more.
/// Returns how many of its first bytes are there and right, and how it ended.
pub(super) async fn receive(
    common: &Common,
    server: (&str, SocketAddr),
    span: Span,
    progress: &SessionProgress,
) -> (u64, Result<ReceiveStats, Broken>) {
    let mut in_order = InOrder { checker: &common.checker, span, right: 0 };
    let result = receive_verified(common, server, progress, &mut in_order).await;
    (in_order.right, result)
}

/// As [`receive`].
async fn receive_verified(
    common: &Common,
    (host, address): (&str, SocketAddr),
    progress: &SessionProgress,
    in_order: &mut InOrder<'_>,
) -> Result<ReceiveStats, Broken> {
    let span = in_order.span;
    let Span { offset, len } = span;
    let Common { timeout, geometry, digest: Digest(digest), .. } = *common;
    let Geometry { symbol_size, block_symbols } = geometry;
    let parameters = Parameters { transfer_len: len, symbol_size, block_symbols };
    let connecting = tokio::time::timeout(timeout, TcpStream::connect(address)).await;
    let stream = connecting.map_err(|_| ControlError::Silent(timeout))?;
    let (mut reader, mut writer) = split(stream.map_err(ControlError::from)?)?;
    if let Some(keys) = &common.keys {
        greet(keys, canonical(address).ip(), (&mut reader, &mut writer), timeout).await?;
    }
    let name = store_messages::name(&common.name);
    writer.say(&Message::Request { name, digest, offset, len, geometry }, timeout).await?;
    let (cookie, seed) = loop {
        match reader.next_within(timeout).await? {
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
    let decoding = (common.method, progress.clone());
    let mut session = common
        .handle
        .expect(cookie, canonical(address), &part, sink, decoding)
        .map_err(|error| Broken::Write(io::Error::other(error)))?;
    let over = {
        let carrying = carry(&mut session, Some(parameters), &mut reader, &mut writer, timeout);
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
            broken = verifying => Err(broken),
        }
    };
    let over = match over {
        Ok(over) => over,
        Err(broken) => {
            session.end().await;
            return Err(broken);
        }
    };
    in_order.follow(&written).await?;
    match over {
        Over::Received(stats) => Ok(stats),
        Over::Failed(Failure::Write(error)) => Err(Broken::Write(error)),
        Over::Failed(failure) => Err(Broken::Server(match failure {
            Failure::PeersLost => "fell silent".to_owned(),
            Failure::Closed(_) => "closed the session".to_owned(),
            Failure::Exhausted => "sent too many symbols that do not give a block".to_owned(),
            failure => failure.to_string(),
        })),
        Over::Broken(error) => Err(error.into()),
        Over::Sent(_) => Err(ControlError::OutOfPlace.into()),
    }
}
