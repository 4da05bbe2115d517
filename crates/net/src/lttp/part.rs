//! A part of an object on its way from one server.

use std::io;
use std::sync::Arc;

use wellspring_transport::lttp::{Parameters, ReceiveStats};
use wellspring_wire::lttp::{Geometry, Message};

use super::asking::Asked;
use super::connection::{Over, carry};
use super::control::ControlError;
use super::shares::Share;
use super::transfer::Common;
use crate::address::canonical;
use crate::driver::protocol::Side;
use crate::driver::{Failure, SessionProgress};
use crate::protocols::lttp::Part;

/// What goes wrong with a part.
pub(super) enum Broken {
    /// Its server is lost, and why.
    Server(String),
    /// The bytes cannot be kept here.
    Write(io::Error),
}

impl From<ControlError> for Broken {
    fn from(error: ControlError) -> Self {
        Broken::Server(error.to_string())
    }
}

/// How a part is cut.
pub(super) fn parameters_of(part: Share, geometry: Geometry) -> Parameters {
    let Geometry { symbol_size, block_symbols } = geometry;
    Parameters { transfer_len: part.len, symbol_size, block_symbols }
}

/// Receives a part to its end. Then, however it ended, nothing is being written any more, and the
/// first bytes of the part that `progress` counts as done are there: blocks are finished in order.
///
/// # Errors
/// [`Broken`].
pub(super) async fn receive(
    common: &Arc<Common>,
    mut asked: Asked,
    part: Share,
    progress: &SessionProgress,
) -> Result<ReceiveStats, Broken> {
    let (timeout, geometry) = (common.timeout, common.geometry);
    let parameters = parameters_of(part, geometry);
    let request = Message::Request { offset: part.offset, len: part.len, geometry };
    asked.writer.say(&request, timeout).await?;
    let granted = asked.reader.next_within(timeout).await?;
    let Message::Granted { cookie, seed } = granted else {
        return Err(ControlError::OutOfPlace.into());
    };
    let side = Side::Receiving { sink: Arc::clone(&common.sink) };
    let server = canonical(asked.server.address);
    let part = Part { offset: part.offset, parameters, seed };
    let decoding = (common.method, progress.clone());
    let mut session = common
        .handle
        .request(cookie, server, &part, side, decoding)
        .map_err(|error| Broken::Write(io::Error::other(error)))?;
    let (reader, writer) = (&mut asked.reader, &mut asked.writer);
    match carry(&mut session, Some(parameters), reader, writer, timeout).await {
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
