//! A part of an object on its way from one server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::mpsc;
use wellspring_transport::lttp::{Parameters, ReceiveStats};
use wellspring_wire::lttp::{Geometry, Message};

use super::asking::Asked;
use super::connection::{Over, SessionGuard, carry};
use super::control::ControlError;
use super::handle::{Ending, Input, MAX_TOLD, Opening, Side};
use super::receiving::Receiving;
use super::sending::Layout;
use super::shares::Share;
use super::transfer::Common;
use crate::address::canonical;
use crate::payload::ObjectSink;

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

/// Writes blocks on, and counts them for their part and for the fetch.
struct Counted {
    common: Arc<Common>,
    part: Arc<AtomicU64>,
}

impl ObjectSink for Counted {
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        self.common.sink.write_block(offset, block)?;
        for counter in [&self.part, &self.common.written] {
            counter.fetch_add(block.len() as u64, Relaxed);
        }
        Ok(())
    }
}

/// How a part is cut in blocks.
pub(super) fn layout_of(part: Share, geometry: Geometry) -> Layout {
    let Geometry { symbol_size, block_symbols } = geometry;
    let parameters = Parameters { transfer_len: part.len, symbol_size, block_symbols };
    Layout { offset: part.offset, parameters }
}

/// Receives a part to its end. Then, however it ended, nothing is being written any more, and the
/// first `written` bytes of the part are there: blocks are finished in order.
///
/// # Errors
/// [`Broken`].
pub(super) async fn receive(
    common: &Arc<Common>,
    mut asked: Asked,
    part: Share,
    written: &Arc<AtomicU64>,
) -> Result<ReceiveStats, Broken> {
    let (timeout, geometry, layout) =
        (common.timeout, common.geometry, layout_of(part, common.geometry));
    let request = Message::Request { offset: part.offset, len: part.len, geometry };
    asked.writer.say(&request, timeout).await?;
    let granted = asked.reader.next_within(timeout).await?;
    let Message::Granted { cookie, seed } = granted else {
        return Err(ControlError::OutOfPlace.into());
    };
    let sink = Arc::new(Counted { common: Arc::clone(common), part: Arc::clone(written) });
    let receiving = Receiving::new(sink, layout, seed, common.method, common.overlap)
        .map_err(|error| Broken::Write(io::Error::other(error)))?;
    let (told, telling) = mpsc::channel(MAX_TOLD);
    let address = canonical(asked.server.address);
    let side = Side::Receiving(receiving);
    let opening = Opening { cookie, peer: address.ip(), address: Some(address), side, told };
    let handle = &common.handle;
    handle.tell(Input::Open(Box::new(opening))).await;
    let guard = SessionGuard { handle, cookie };
    match carry(&guard, &mut asked.reader, &mut asked.writer, telling, timeout).await {
        Over::Received(stats) => Ok(stats),
        Over::Failed(Ending::Write(error)) => Err(Broken::Write(error)),
        Over::Failed(ending) => Err(Broken::Server(ending.to_string())),
        Over::Broken(error) => Err(error.into()),
        Over::Sent(_) => Err(ControlError::OutOfPlace.into()),
    }
}
