//! Ctrl-C and termination.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failed;

/// Signals that end the program in good order.
pub struct Interrupt {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Interrupt {
    pub fn new() -> io::Result<Self> {
        Ok(Interrupt {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for either.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Runs `work` to its end, or drops it when a signal comes.
    pub async fn guard<T, E: Into<Failed>>(
        &mut self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failed> {
        tokio::select! {
            biased;
            () = self.wait() => Err(Failed::interrupted()),
            result = work => result.map_err(Into::into),
        }
    }
}
