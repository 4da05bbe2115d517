//! Signals that end a command: Ctrl-C, termination, a terminal that is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::children;
use crate::exit::Failed;

/// Signals that end the program in good order.
#[derive(Debug)]
pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
    /// Absent where `nohup` has the program outlive its terminal.
    hang_up: Option<Signal>,
}

impl Interrupt {
    /// Catches the signals from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Self, Failed> {
        let catch =
            |kind| signal(kind).map_err(|error| Failed::system("cannot catch signals", &error));
        Ok(Interrupt {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: hang_up_counts().then(|| catch(SignalKind::hangup())).transpose()?,
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
    ///
    /// # Errors
    /// [`Failed::interrupted`] after a signal.
    pub async fn guard<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failed> {
        tokio::select! {
            biased;
            () = self.wait() => Err(Failed::interrupted()),
            result = work => Ok(result),
        }
    }
}

/// Runs work that goes on until the flag it is given is set, on a thread of its own; a signal sets
/// the flag.
///
/// # Errors
/// What `work` fails with, or the system's.
pub async fn until_signal<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, Failed> + Send + 'static,
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
    ended.map_err(|error| Failed::other(error.to_string()))?
}

/// Runs work on a thread of its own and does not wait for it after a signal: `clean_up` is called,
/// and gives what the command fails with.
///
/// # Errors
/// What `work` fails with, or what `clean_up` gives.
pub async fn unless_signal(
    work: impl FnOnce() -> Result<(), Failed> + Send + 'static,
    clean_up: impl FnOnce() -> Failed,
) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    tokio::select! {
        ended = tokio::task::spawn_blocking(work) => {
            ended.map_err(|error| Failed::other(error.to_string()))?
        }
        () = interrupt.wait() => Err(clean_up()),
    }
}

/// Runs work that waits for child processes. A signal kills the children, so that the work ends
/// with an error and cleans up behind itself.
///
/// # Errors
/// What `work` fails with; [`Failed::interrupted`] after a signal.
pub async fn with_children(
    work: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let mut work = tokio::task::spawn_blocking(work);
    let ended = tokio::select! {
        ended = &mut work => Some(ended),
        () = interrupt.wait() => None,
    };
    match ended {
        Some(ended) => ended.map_err(|error| Failed::other(error.to_string()))?,
        None => {
            children::kill_all();
            // It fails because of us: that is not what to report.
            let _ = work.await;
            Err(Failed::interrupted())
        }
    }
}

/// Runs work that may wait for ever, such as a read of a pipe, on a thread of its own. Nobody waits for that thread when
/// the command ends: a signal [ends](Interrupt::guard) the command at once, and the thread with it.
///
/// # Errors
/// What `work` fails with, or the system's.
pub async fn detached<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failed> + Send + 'static,
) -> Result<T, Failed> {
    let (done, ended) = oneshot::channel();
    // Whoever waited may be gone.
    let run = move || drop(done.send(work()));
    let started = std::thread::Builder::new().spawn(run);
    started.map_err(|error| Failed::system("cannot start threads", &error))?;
    ended.await.unwrap_or_else(|_| Err(Failed::other("a thread ended before its work was done")))
}

/// Whether a closed terminal ends the program: not under `nohup`, which has the signal ignored and
/// must not be overruled. Where the system does not report it, the signal is left as it is.
pub fn hang_up_counts() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is signal 1, SIGHUP.
    ignored.is_some_and(|mask| mask & 1 == 0)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn nobody_waits_for_detached_work() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("threads");
        let (end, until_end) = channel::<()>();
        let (begin, begun) = oneshot::channel();
        let work = detached(move || {
            begin.send(()).expect("waited for");
            until_end.recv().map_err(|_| Failed::other("told to end"))
        });
        runtime.block_on(async {
            tokio::select! {
                _ = work => panic!("it has not ended"),
                begun = begun => begun.expect("begun"),
            }
        });
        // Waits for all threads of the runtime, however long they take.
        drop(runtime);
        end.send(()).expect("it goes on without the runtime");
    }

    #[test]
    fn detached_work_gives_its_result_and_a_panic_is_an_error() {
        let runtime = Builder::new_current_thread().build().expect("threads");
        assert!(matches!(runtime.block_on(detached(|| Ok(7))), Ok(7)));
        let failed = runtime.block_on(detached::<()>(|| panic!("on purpose")));
        assert!(failed.is_err_and(|failed| failed.message.is_some()));
    }
}
