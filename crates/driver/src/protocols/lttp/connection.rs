//! The control channel of a session under way: between its TCP connection and the endpoint.

use std::time::Duration;

use wellspring_transport::lttp::{LttpHeader, Parameters, ReceiveStats, SendStats};
use wellspring_wire::lttp::{Geometry, Message};

use super::control::{ControlError, Reader, Writer};
use crate::protocols::lttp::{ConnectionEvent, LttpSession, Messages};
use crate::{Failure, SessionEvent};

/// How a session ended.
#[derive(Debug)]
pub enum Over {
    /// Everything is received and written.
    Received(ReceiveStats),
    /// The peer has everything.
    Sent(SendStats),
    /// The protocol, or a disk, gave up.
    Failed(Failure),
    /// The control channel broke.
    Broken(ControlError),
}

/// Carries messages both ways until the session ends, whether by itself or because the connection
/// breaks. What the endpoint says goes out even after the peer has closed its side. `expected` is
/// what a client asked for.
pub async fn carry(
    session: &mut LttpSession,
    expected: Option<Parameters>,
    reader: &mut Reader,
    writer: &mut Writer,
    timeout: Duration,
) -> Over {
    let mut over = None;
    let ended = {
        let writing = write_on(writer, &mut session.events, &mut over, timeout);
        tokio::pin!(writing);
        let reading = read_on(&session.messages, expected, reader);
        tokio::select! {
            biased;
            ended = &mut writing => ended,
            error = reading => {
                session.messages.close();
                // The session ends, or has ended well: either way its channel closes.
                writing.await.and(Err(error))
            }
        }
    };
    if ended.is_err() {
        session.messages.close();
        while let Some(event) = session.events.recv().await {
            note(event, &mut over);
        }
    }
    match (over, ended.err()) {
        // What the connection came to is the cause of a session's being cancelled.
        (None | Some(Over::Failed(Failure::Cancelled)), Some(error)) => Over::Broken(error),
        (Some(over), _) => over,
        (None, None) => Over::Broken(ControlError::Closed),
    }
}

/// Waits until the client of an offer has said hello.
///
/// # Errors
/// It has not in time, or has closed the connection.
pub async fn begun(
    session: &mut LttpSession,
    reader: &mut Reader,
    timeout: Duration,
) -> Result<(), ControlError> {
    tokio::select! {
        // What a client says behind its hello comes later than this.
        biased;
        begun = tokio::time::timeout(timeout, session.events.recv()) => match begun {
            Ok(Some(ConnectionEvent::Begun)) => Ok(()),
            Ok(_) => Err(ControlError::Closed),
            Err(_) => Err(ControlError::Silent(timeout)),
        },
        message = reader.next() => Err(message.err().unwrap_or(ControlError::OutOfPlace)),
    }
}

/// Says to the peer what the endpoint has to say, until the session is over, and keeps in `over` how
/// it ended.
///
/// # Errors
/// The peer does not take what is said.
async fn write_on(
    writer: &mut Writer,
    events: &mut tokio::sync::mpsc::Receiver<ConnectionEvent>,
    over: &mut Option<Over>,
    timeout: Duration,
) -> Result<(), ControlError> {
    while let Some(event) = events.recv().await {
        if let Some(header) = note(event, over)
            && let Some(message) = message_of(&header)
        {
            writer.say(&message, timeout).await?;
        }
    }
    Ok(())
}

/// Keeps how the session ended, or gives back what is to be said.
fn note(event: ConnectionEvent, over: &mut Option<Over>) -> Option<LttpHeader> {
    match event {
        ConnectionEvent::Say(header) => return Some(header),
        ConnectionEvent::Report(SessionEvent::Received { stats, .. }) => {
            *over = Some(Over::Received(stats));
        }
        ConnectionEvent::Report(SessionEvent::Sent { stats }) => *over = Some(Over::Sent(stats)),
        ConnectionEvent::Report(SessionEvent::Failed(failure)) => {
            *over = Some(Over::Failed(failure))
        }
        ConnectionEvent::Begun | ConnectionEvent::Report(_) => {}
    }
    None
}

/// Hands the peer's messages to the endpoint, until there are no more.
async fn read_on(
    messages: &Messages,
    expected: Option<Parameters>,
    reader: &mut Reader,
) -> ControlError {
    loop {
        match reader.next().await {
            Ok(message) => {
                let Some(header) = control_of(&message) else { return ControlError::OutOfPlace };
                if let LttpHeader::Parameters(parameters) = header
                    && expected.is_some_and(|expected| parameters != expected)
                {
                    return ControlError::OtherParameters;
                }
                if !messages.take(header).await {
                    return ControlError::Closed;
                }
            }
            Err(error) => return error,
        }
    }
}

/// The message of a header of the control channel.
fn message_of(header: &LttpHeader) -> Option<Message<'static>> {
    match *header {
        LttpHeader::Parameters(Parameters { transfer_len, symbol_size, block_symbols }) => {
            let geometry = Geometry { symbol_size, block_symbols };
            Some(Message::Parameters { transfer_len, geometry })
        }
        LttpHeader::Stop { next } => Some(Message::Stop { next }),
        LttpHeader::Stopped { next } => Some(Message::Stopped { next }),
        LttpHeader::Close => Some(Message::Close),
        LttpHeader::Request | LttpHeader::Symbol { .. } | LttpHeader::Report(_) => None,
    }
}

/// The header of a message within a session; none for those before it.
fn control_of(message: &Message<'_>) -> Option<LttpHeader> {
    match *message {
        Message::Parameters { transfer_len, geometry } => {
            let Geometry { symbol_size, block_symbols } = geometry;
            Some(LttpHeader::Parameters(Parameters { transfer_len, symbol_size, block_symbols }))
        }
        Message::Stop { next } => Some(LttpHeader::Stop { next }),
        Message::Stopped { next } => Some(LttpHeader::Stopped { next }),
        Message::Close => Some(LttpHeader::Close),
        _ => None,
    }
}
