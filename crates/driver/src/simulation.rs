//! Simulated machines: sockets, threads, random numbers and a disk in the place of the system's.
//!
//! Code that is polled [`on`] a machine, and all that it starts, gets these from the machine. Drivers and calls that may
//! wait are tasks there, so that a client, servers and the network between them run in one thread. On a tokio
//! runtime of one thread whose time is paused the same numbers lead to the same run.
//!
//! LTTP's control channel by TCP, keys, writers that follow a fetch and the counters of a driver do without machines: a
//! simulation leaves them alone.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinHandle};

use crate::boxed::{Boxed, Work};
use crate::socket::{Outgoing, SocketConfig};
use crate::store::Disk;

/// What a program gets from its machine.
pub trait Machine: Send + Sync {
    /// Opens a socket; for a multicast group if the address is one.
    ///
    /// # Errors
    /// As a system's: the address is in use or not the machine's.
    fn bind(&self, config: &SocketConfig) -> io::Result<Arc<dyn VirtualSocket>>;

    /// The disk that objects are received on.
    fn disk(&self) -> Arc<dyn Disk>;

    /// Fills `bytes` with random ones.
    fn fill_random(&self, bytes: &mut [u8]);

    /// A task was started that lives until it ends or the machine kills it.
    fn started(&self, task: AbortHandle);

    /// How long the next call takes that waits for a disk or a decoder.
    fn work_time(&self) -> Duration;
}

/// A datagram that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its sender.
    pub from: SocketAddr,
    /// The address that it was sent to.
    pub local: IpAddr,
    /// DSCP and ECN, as in the header.
    pub traffic_class: u8,
    /// Its length \[bytes\].
    pub len: usize,
}

/// A socket of a simulated machine.
pub trait VirtualSocket: Send + Sync + std::fmt::Debug {
    /// The address that it is bound to.
    fn local_addr(&self) -> SocketAddr;

    /// Sends the datagrams of a batch.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::WouldBlock`] if there is no room; others lose the batch.
    fn send(&self, batch: &Outgoing<'_>) -> io::Result<()>;

    /// Moves the next datagram into the buffer, if one has come.
    fn receive(&self, buffer: &mut [u8]) -> Option<Arrival>;

    /// Takes the addresses to which something was sent and whose ports are closed, as ICMP says.
    fn take_closed_ports(&self) -> Vec<SocketAddr>;

    /// Sets what to call when something has come.
    fn on_arrival(&self, wake: Box<dyn Fn() + Send + Sync>);
}

thread_local! {
    static MACHINE: RefCell<Option<Arc<dyn Machine>>> = const { RefCell::new(None) };
}

/// The machine that the current code runs on, if it is simulated.
pub fn machine() -> Option<Arc<dyn Machine>> {
    MACHINE.with_borrow(Option::clone)
}

/// Runs a future, and all that it starts, on a machine.
pub async fn on<F: Future>(machine: Arc<dyn Machine>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _left = Entered(MACHINE.replace(Some(Arc::clone(&machine))));
        future.as_mut().poll(context)
    })
    .await
}

/// The machine that was there before, which comes back.
struct Entered(Option<Arc<dyn Machine>>);

impl Drop for Entered {
    fn drop(&mut self) {
        MACHINE.set(self.0.take());
    }
}

/// Starts a task on a machine.
pub(crate) fn start<T: Send + 'static>(
    machine: &Arc<dyn Machine>,
    future: Boxed<'static, T>,
) -> JoinHandle<T> {
    let task = tokio::spawn(on(Arc::clone(machine), future));
    machine.started(task.abort_handle());
    task
}

/// Starts a task on a machine for a call that would wait.
pub(crate) fn start_blocking<T: Send + 'static>(
    machine: &Arc<dyn Machine>,
    work: Work<T>,
) -> JoinHandle<T> {
    let span = machine.work_time();
    let work = async move {
        pause(span).await;
        work()
    };
    start(machine, Box::pin(work))
}

/// Waits; nothing at all goes on in between if `span` is zero.
pub(crate) async fn pause(span: Duration) {
    if !span.is_zero() {
        tokio::time::sleep(span).await;
    }
}

/// Tasks that run on the machine that starts them.
#[derive(Debug)]
pub struct JoinSet<T>(tokio::task::JoinSet<T>);

impl<T: Send + 'static> Default for JoinSet<T> {
    fn default() -> Self {
        JoinSet::new()
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// A set without tasks.
    pub fn new() -> Self {
        JoinSet(tokio::task::JoinSet::new())
    }

    /// Starts a task, on the machine if there is one.
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.spawn_boxed(Box::pin(future))
    }

    fn spawn_boxed(&mut self, future: Boxed<'static, T>) -> AbortHandle {
        match machine() {
            Some(machine) => self.0.spawn(on(machine, future)),
            None => self.0.spawn(future),
        }
    }
}

impl<T> Deref for JoinSet<T> {
    type Target = tokio::task::JoinSet<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for JoinSet<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
