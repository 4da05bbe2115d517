//! Sleeping until something happens.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::socket::{HostSocket, Timer};

const WAKER: Token = Token(0);
const TIMER: Token = Token(1);
/// Tokens from here on are the caller's.
const FIRST_SOCKET: usize = 2;

/// Wakes the loop from other threads; costs nothing while the loop is awake.
#[derive(Debug)]
pub(crate) struct LoopWaker {
    waker: mio::Waker,
    asleep: AtomicBool,
    /// Wakes a loop that is a task of a simulated machine.
    #[cfg(feature = "simulation")]
    task: tokio::sync::Notify,
}

impl LoopWaker {
    /// Waits until something has been left for the loop.
    #[cfg(feature = "simulation")]
    pub(crate) async fn woken(&self) {
        self.task.notified().await;
    }

    /// Wakes the loop if it sleeps or is about to.
    pub(crate) fn wake(&self) {
        #[cfg(feature = "simulation")]
        self.task.notify_one();
        // The loop says that it will sleep, then looks once more for work; we have left the work,
        // then look whether it sleeps: one of both sees the other.
        fence(SeqCst);
        if self.asleep.swap(false, SeqCst) {
            // Fails only when wake-ups are pending already.
            let _ = self.waker.wake();
        }
    }
}

/// What woke the loop.
pub(crate) struct Ready {
    /// Number of the socket.
    pub socket: usize,
    pub readable: bool,
    pub writable: bool,
}

/// The poll of one loop: sockets by number, a waker and a timer finer than epoll's milliseconds.
pub(crate) struct Waiter {
    poll: Poll,
    events: Events,
    /// Absent where the system has none: then it sleeps as finely as its poll does.
    timer: Option<Timer>,
    waker: Arc<LoopWaker>,
}

impl Waiter {
    /// With a timer of Linux, or (`plain`) without.
    pub(crate) fn new(plain: bool) -> io::Result<Waiter> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let has_timer = cfg!(target_os = "linux") && !plain;
        let timer = has_timer.then(Timer::new).transpose()?;
        if let Some(timer) = &timer {
            let registry = poll.registry();
            registry.register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
        }
        let waker = Arc::new(LoopWaker {
            waker,
            asleep: AtomicBool::new(false),
            #[cfg(feature = "simulation")]
            task: tokio::sync::Notify::new(),
        });
        Ok(Waiter { poll, events: Events::with_capacity(64), timer, waker })
    }

    pub(crate) fn waker(&self) -> Arc<LoopWaker> {
        Arc::clone(&self.waker)
    }

    /// Watches a socket of the driver's under a number.
    pub(crate) fn watch_socket(&self, socket: &HostSocket, number: usize) -> io::Result<()> {
        #[cfg(feature = "simulation")]
        let socket = match socket {
            HostSocket::System(socket) => socket,
            HostSocket::Virtual(socket) => {
                let waker = self.waker();
                socket.on_arrival(Box::new(move || waker.wake()));
                return Ok(());
            }
        };
        self.watch(socket.as_raw_fd(), number)
    }

    /// Watches a descriptor under a number.
    pub(crate) fn watch(&self, socket: RawFd, number: usize) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut SourceFd(&socket), Token(number + FIRST_SOCKET), both)
    }

    /// Stops watching a socket of the driver's.
    pub(crate) fn forget_socket(&self, socket: &HostSocket) -> io::Result<()> {
        #[cfg(feature = "simulation")]
        let HostSocket::System(socket) = socket else { return Ok(()) };
        self.forget(socket.as_raw_fd())
    }

    /// Stops watching it.
    pub(crate) fn forget(&self, socket: RawFd) -> io::Result<()> {
        self.poll.registry().deregister(&mut SourceFd(&socket))
    }

    /// Sleeps until something happens, at most `span` (`None`: a day); does not sleep at all if
    /// `busy` says, after the loop has been declared asleep, that there is work. `ready` is told
    /// of sockets: readable and writable by edges, so use them until they would block.
    pub(crate) fn sleep(
        &mut self,
        span: Option<std::time::Duration>,
        busy: impl FnOnce() -> bool,
        mut ready: impl FnMut(Ready),
    ) -> io::Result<()> {
        self.waker.asleep.store(true, SeqCst);
        fence(SeqCst);
        let mut limit = Some(std::time::Duration::from_secs(86_400));
        if busy() {
            limit = Some(std::time::Duration::ZERO);
        } else if let Some(span) = span.filter(|span| *span < std::time::Duration::from_secs(60)) {
            match &self.timer {
                Some(timer) if !span.is_zero() => timer.set(span)?,
                _ => limit = Some(span),
            }
        } else if let Some(span) = span {
            limit = limit.min(Some(span));
        }
        let outcome = self.poll.poll(&mut self.events, limit);
        self.waker.asleep.store(false, SeqCst);
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            outcome => outcome?,
        }
        for event in &self.events {
            match event.token() {
                WAKER => {}
                TIMER => {}
                Token(number) => ready(Ready {
                    socket: number - FIRST_SOCKET,
                    readable: event.is_readable() || event.is_error(),
                    writable: event.is_writable(),
                }),
            }
        }
        Ok(())
    }
}
