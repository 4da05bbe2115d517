//! Signals of a server: end at once, end in good order, read the settings again.

use std::io::IsTerminal;

use tokio::signal::unix::{Signal, SignalKind, signal};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::hang_up_counts;

/// What a signal asks of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// End all transfers now.
    Stop,
    /// Let transfers end.
    Drain,
    /// Read the settings again.
    Reload,
}

/// The signals of a server.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
    /// What a hang-up asks: the end, from a terminal that is closed.
    on_hang_up: Request,
}

impl Signals {
    /// Catches the signals from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Self, Failed> {
        let catch =
            |kind| signal(kind).map_err(|error| Failed::system("cannot catch signals", &error));
        let on_terminal = std::io::stdin().is_terminal();
        let hangs_up = !on_terminal || hang_up_counts();
        Ok(Signals {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: hangs_up.then(|| catch(SignalKind::hangup())).transpose()?,
            on_hang_up: if on_terminal { Request::Stop } else { Request::Reload },
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Request {
        let on_hang_up = self.on_hang_up;
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hang_up => on_hang_up,
            _ = self.interrupt.recv() => Request::Stop,
            _ = self.terminate.recv() => Request::Drain,
        }
    }

    /// Waits for one that ends the server, of whatever kind.
    pub async fn stop(&mut self) {
        while self.next().await == Request::Reload {}
    }
}
