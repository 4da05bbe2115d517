//! Tasks, and threads for calls that may wait for a disk.

use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

pub use crate::boxed::Boxed;
use crate::boxed::Work;
#[cfg(feature = "simulation")]
use crate::simulation;
#[cfg(feature = "simulation")]
pub use crate::simulation::JoinSet;
#[cfg(not(feature = "simulation"))]
pub use tokio::task::JoinSet;

/// Starts a task on the current runtime.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    spawn_boxed(Box::pin(future))
}

fn spawn_boxed<T: Send + 'static>(future: Boxed<'static, T>) -> JoinHandle<T> {
    #[cfg(feature = "simulation")]
    if let Some(machine) = simulation::machine() {
        return simulation::start(&machine, future);
    }
    tokio::spawn(future)
}

/// Calls `work` on a thread of the current runtime that may wait.
pub fn spawn_blocking<T, F>(work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn_blocking_on(&Handle::current(), work)
}

/// Calls `work` on a thread of that runtime that may wait.
pub fn spawn_blocking_on<T, F>(runtime: &Handle, work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn_work(runtime, Box::new(work))
}

fn spawn_work<T: Send + 'static>(runtime: &Handle, work: Work<T>) -> JoinHandle<T> {
    #[cfg(feature = "simulation")]
    if let Some(machine) = simulation::machine() {
        return simulation::start_blocking(&machine, work);
    }
    runtime.spawn_blocking(work)
}
