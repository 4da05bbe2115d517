//! Ctrl-C, termination, and a terminal that is closed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failed;

/// Signals that end the program in good order.
pub struct Interrupt {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// Absent where the program was told to outlive its terminal.
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Interrupt {
    pub fn new() -> io::Result<Self> {
        Ok(Interrupt {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: hang_up_counts().then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Waits for any of them.
    pub async fn wait(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hang_up => {}
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

/// Runs work that goes on until the flag it is given is set, on a thread of its own; a signal sets it.
pub async fn until_signal<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> io::Result<T> + Send + 'static,
) -> Result<T, Failed> {
    let mut interrupt = Interrupt::new()?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let mut work = tokio::task::spawn_blocking(move || work(&flag));
    let ended = tokio::select! {
        ended = &mut work => ended,
        () = interrupt.wait() => {
            stop.store(true, Ordering::Relaxed);
            work.await
        }
    };
    Ok(ended.map_err(|error| Failed::other(error.to_string()))??)
}

/// Whether a closed terminal ends the program: not beneath `nohup`, which has the signal ignored and
/// must not be overruled. Where the system does not tell, the signal is left as it is.
fn hang_up_counts() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is signal 1, SIGHUP.
    ignored.is_some_and(|mask| mask & 1 == 0)
}
