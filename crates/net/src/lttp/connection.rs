//! The control channel of a session under way: between its TCP connection and the loop.

use std::time::Duration;

use tokio::sync::mpsc;
use wellspring_transport::lttp::{LttpHeader, ReceiveStats, SendStats};
use wellspring_wire::lttp::Cookie;

use super::control::{ControlError, Reader, Writer};
use super::frames::{control_of, message_of};
use super::handle::{Ending, Handle, Input, Told};

/// How a session ended.
#[derive(Debug)]
pub(super) enum Over {
    /// Everything is received and written.
    Received(ReceiveStats),
    /// The peer has everything.
    Sent(SendStats),
    /// The protocol, or a disk, gave up.
    Failed(Ending),
    /// The control channel broke.
    Broken(ControlError),
}

/// Ends a session whose connection's task is dropped.
pub(super) struct SessionGuard<'a> {
    pub handle: &'a Handle,
    pub cookie: Cookie,
}

impl Drop for SessionGuard<'_> {
    fn drop(&mut self) {
        // If the loop has no room for this it notices the peer's silence.
        let _ = self.handle.inputs.try_send(Input::Gone(self.cookie));
        self.handle.waker.wake();
    }
}

/// Carries messages both ways until the session ends, whether by itself or because the connection
/// breaks. What the loop says goes out even after the peer has closed its side.
pub(super) async fn carry(
    guard: &SessionGuard<'_>,
    reader: &mut Reader,
    writer: &mut Writer,
    mut told: mpsc::Receiver<Told>,
    timeout: Duration,
) -> Over {
    let mut over = None;
    let ended = {
        let writing = write_on(writer, &mut told, &mut over, timeout);
        tokio::pin!(writing);
        let reading = read_on(guard, reader);
        tokio::select! {
            biased;
            ended = &mut writing => ended,
            error = reading => {
                guard.handle.tell(Input::Gone(guard.cookie)).await;
                // The loop drops the session, or lets it end well: either way its channel closes.
                writing.await.and(Err(error))
            }
        }
    };
    if ended.is_err() {
        guard.handle.tell(Input::Gone(guard.cookie)).await;
        while let Some(told) = told.recv().await {
            note(told, &mut over);
        }
    }
    over.unwrap_or(Over::Broken(ended.err().unwrap_or(ControlError::Closed)))
}

/// Says to the peer what the loop has to say, until the session is over, and keeps in `over` how it
/// ended, if the loop knows.
///
/// # Errors
/// The peer does not take what is said.
async fn write_on(
    writer: &mut Writer,
    told: &mut mpsc::Receiver<Told>,
    over: &mut Option<Over>,
    timeout: Duration,
) -> Result<(), ControlError> {
    while let Some(told) = told.recv().await {
        if let Some(header) = note(told, over)
            && let Some(message) = message_of(&header)
        {
            writer.say(&message, timeout).await?;
        }
    }
    Ok(())
}

/// Keeps how the session ended, or gives back what is to be said.
fn note(told: Told, over: &mut Option<Over>) -> Option<LttpHeader> {
    match told {
        Told::Say(header) => return Some(header),
        Told::Received(stats) => *over = Some(Over::Received(stats)),
        Told::Sent(stats) => *over = Some(Over::Sent(stats)),
        Told::Failed(ending) => {
            over.get_or_insert(Over::Failed(ending));
        }
    }
    None
}

/// Hands the peer's messages to the loop, until there are no more.
async fn read_on(guard: &SessionGuard<'_>, reader: &mut Reader) -> ControlError {
    loop {
        match reader.next().await {
            Ok(message) => {
                let Some(header) = control_of(&message) else { return ControlError::OutOfPlace };
                if !guard.handle.tell(Input::Control(guard.cookie, header)).await {
                    return ControlError::Closed;
                }
            }
            Err(error) => return error,
        }
    }
}
