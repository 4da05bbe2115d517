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

use super::spans::Span;
use crate::address::canonical;
use crate::client::{Update, Updates};
use crate::driver::protocol::Side;
use crate::driver::{Failure, SessionProgress};
use crate::protocols::lttp::connection::{Over, carry};
use crate::protocols::lttp::control::{ControlError, split};
use crate::protocols::lttp::keys::greet;
use crate::protocols::lttp::{LttpHandle, Part};
use crate::store::{Digest, ObjectName, ObjectSink};
use crate::store_messages;

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
    pub updates: Updates,
}

/// What goes wrong with a part.
pub(super) enum Broken {
    /// Its server is lost, and why.
    Server(String),
    /// The bytes cannot be kept here.
    Write(io::Error),
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

/// Receives a part to its end. Then, however it ended, nothing is being written any more, and the
/// first bytes of the part that `progress` counts as done are there: blocks are finished in order.
///
/// # Errors
/// [`Broken`].
pub(super) async fn receive(
    common: &Common,
    (host, address): (&str, SocketAddr),
    span: Span,
    progress: &SessionProgress,
) -> Result<ReceiveStats, Broken> {
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
    let side = Side::Receiving { sink: Arc::clone(&common.sink) };
    let part = Part { offset, parameters, seed };
    let decoding = (common.method, progress.clone());
    let mut session = common
        .handle
        .expect(cookie, canonical(address), &part, side, decoding)
        .map_err(|error| Broken::Write(io::Error::other(error)))?;
    match carry(&mut session, Some(parameters), &mut reader, &mut writer, timeout).await {
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
