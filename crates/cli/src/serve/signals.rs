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
    /// Whether the server was started on a terminal.
    on_terminal: bool,
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
            on_terminal,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Request {
        let on_terminal = self.on_terminal;
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hang_up => hang_up_asks(on_terminal),
            _ = self.interrupt.recv() => Request::Stop,
            _ = self.terminate.recv() => Request::Drain,
        }
    }

    /// Waits for one that ends the server, of whatever kind.
    pub async fn stop(&mut self) {
        while self.next().await == Request::Reload {}
    }
}

/// What a hang-up asks: the end, if the terminal that the server was started on is closed. A terminal is gone for who has it open
/// before the signal about that is sent, so that one that is there means an operator's `kill -HUP`.
fn hang_up_asks(on_terminal: bool) -> Request {
    match on_terminal && !std::io::stdin().is_terminal() {
        true => Request::Stop,
        false => Request::Reload,
    }
}
