//! One async runtime a process, started at first use; a forked child starts its own.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

/// Threads of the runtime: transfers have threads of their own, tasks here only steer them.
const THREADS: usize = 2;

/// The runtime, and the process it runs in. A child of `fork` has no threads of its parent, so what the
/// parent had is left alone there.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// The process's runtime.
///
/// # Errors
/// `OSError` if its threads cannot be started.
pub fn runtime() -> PyResult<&'static Runtime> {
    let mut kept = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((of, runtime)) = *kept
        && of == process
    {
        return Ok(runtime);
    }
    let made = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let made =
        made.map_err(|error| PyOSError::new_err(format!("cannot start threads: {error}")))?;
    let runtime: &'static Runtime = Box::leak(Box::new(made));
    *kept = Some((process, runtime));
    Ok(runtime)
}

/// Something with threads and sockets, which belongs to the process that made it.
pub struct Owned<T> {
    process: u32,
    value: Mutex<Option<T>>,
    what: &'static str,
}

impl<T> Owned<T> {
    /// `value`, called `what` in errors.
    pub fn new(value: T, what: &'static str) -> Self {
        Owned { process: std::process::id(), value: Mutex::new(Some(value)), what }
    }

    /// Refuses a child of `fork`.
    ///
    /// # Errors
    /// `RuntimeError` after fork.
    pub fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "this {} belongs to the process that was forked: make another here, or start processes by 'spawn'",
            self.what
        )))
    }

    /// What `look` makes of it.
    ///
    /// # Errors
    /// `RuntimeError` after fork, `ValueError` if it is closed.
    pub fn with<R>(&self, look: impl FnOnce(&T) -> R) -> PyResult<R> {
        self.check_process()?;
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.as_ref().map(look).ok_or_else(|| self.closed())
    }

    /// Puts another one in its place, and returns it.
    ///
    /// # Errors
    /// `RuntimeError` after fork, `ValueError` if it is closed.
    pub fn replace(&self, other: T) -> PyResult<T> {
        self.check_process()?;
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let value = value.as_mut().ok_or_else(|| self.closed())?;
        Ok(std::mem::replace(value, other))
    }

    fn closed(&self) -> PyErr {
        PyValueError::new_err(format!("this {} is closed", self.what))
    }

    /// Takes it, once.
    ///
    /// # Errors
    /// `RuntimeError` after fork.
    pub fn take(&self) -> PyResult<Option<T>> {
        self.check_process()?;
        Ok(self.value.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // A child would wait for threads that it does not have.
        if self.process != std::process::id() {
            let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(value.take());
        }
    }
}
