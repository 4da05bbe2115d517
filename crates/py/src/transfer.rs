//! Transfers under way: their updates and results, handed to Python when it asks.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};
use tokio::sync::Notify;
use wellspring_client::{Update, Updates};

use crate::buffer::Lent;
use crate::errors::of_kind;
use crate::memory::Memory;
use crate::runtime::runtime;

/// Updates kept for a caller who does not fetch them; of progress only the newest is kept anyway.
const MAX_UPDATES: usize = 4_096;

/// Why a transfer failed: a kind of `wellspring.errors`, in words, and the troubles of hosts.
pub struct Failed {
    pub kind: &'static str,
    pub message: String,
    pub hosts: Vec<(String, String, &'static str)>,
}

impl Failed {
    /// A failure that is no particular host's.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Failed { kind, message: message.into(), hosts: Vec::new() }
    }
}

/// What task and caller share.
#[derive(Default)]
struct State {
    updates: VecDeque<Value>,
    outcome: Option<Result<Value, Failed>>,
    is_over: bool,
    on_done: Option<Py<PyAny>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    over: Condvar,
    cancelled: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, update: Value) {
        let mut state = self.lock();
        let is_progress = |value: &Value| value["event"] == "moving" || value["event"] == "hashing";
        if is_progress(&update) && state.updates.back().is_some_and(is_progress) {
            state.updates.pop_back();
        }
        if state.updates.len() < MAX_UPDATES {
            state.updates.push_back(update);
        }
    }

    fn end(&self, outcome: Result<Value, Failed>) {
        let on_done = {
            let mut state = self.lock();
            state.outcome = Some(outcome);
            state.is_over = true;
            state.on_done.take()
        };
        self.over.notify_all();
        if let Some(call) = on_done {
            call_back(call);
        }
    }
}

/// Tells a Python function from a thread of its own: the interpreter may be busy, tasks are not. Where no thread can be
/// started it is not told: who waits looks from time to time, too.
fn call_back(call: Py<PyAny>) {
    let told = std::thread::Builder::new().spawn(move || {
        Python::try_attach(|py| {
            if let Err(error) = call.call0(py) {
                error.write_unraisable(py, None);
            }
        });
    });
    drop(told);
}

/// A transfer under way.
#[pyclass(frozen, module = "wellspring")]
pub struct Transfer {
    shared: Arc<Shared>,
    /// Where its bytes go, if they go to memory.
    memory: Option<Memory>,
    /// The bytes whose memory that is, if they are new.
    bytes: Option<Py<PyBytes>>,
    /// How many bytes arrived and are verified, once its result was taken.
    fetched: AtomicU64,
    process: u32,
}

/// Where a transfer's updates go.
pub struct Ears(Arc<Shared>);

impl Ears {
    /// As the library takes them; `started` hears the object's length first.
    pub fn updates(&self, started: impl Fn(u64) + Send + Sync + 'static) -> Updates {
        let shared = Arc::clone(&self.0);
        Updates::to(move |update| {
            if let Update::Started { size, .. } = &update {
                started(*size);
            }
            shared.hear(to_json(&update));
        })
    }
}

impl Transfer {
    /// Starts a transfer: `make` gets where its updates go and makes its future.
    ///
    /// # Errors
    /// `OSError` if threads cannot be started.
    pub fn start<F>(memory: Option<Memory>, make: impl FnOnce(&Ears) -> F) -> PyResult<Self>
    where
        F: Future<Output = Result<Value, Failed>> + Send + 'static,
    {
        let shared = Arc::new(Shared::default());
        let work = make(&Ears(Arc::clone(&shared)));
        let task = Arc::clone(&shared);
        runtime()?.spawn(async move {
            let outcome = tokio::select! {
                outcome = work => outcome,
                () = task.cancelled.notified() => Err(Failed::new("Cancelled", "the transfer was cancelled")),
            };
            task.end(outcome);
        });
        Ok(Transfer {
            shared,
            memory,
            bytes: None,
            fetched: AtomicU64::new(0),
            process: std::process::id(),
        })
    }

    /// With bytes that its memory is of, to be handed out when it is over.
    pub fn with_bytes(mut self, bytes: Option<Py<PyBytes>>) -> Self {
        self.bytes = bytes;
        self
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("this transfer belongs to the process that was forked"))
    }
}

#[pymethods]
impl Transfer {
    /// Waits until it is over, or so many seconds; says whether it is over. Signals are handled.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        self.check_process()?;
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let is_over = py.detach(|| {
            let state = self.shared.lock();
            let waited =
                self.shared.over.wait_timeout_while(state, patience, |state| !state.is_over);
            waited.unwrap_or_else(PoisonError::into_inner).0.is_over
        });
        py.check_signals()?;
        Ok(is_over)
    }

    /// The updates since the last call, each as JSON.
    fn updates(&self) -> PyResult<Vec<String>> {
        self.check_process()?;
        let updates = std::mem::take(&mut self.shared.lock().updates);
        Ok(updates.into_iter().map(|update| update.to_string()).collect())
    }

    /// Calls a function from another thread once it is over: at once if it is.
    fn on_done(&self, call: Py<PyAny>) -> PyResult<()> {
        self.check_process()?;
        let mut state = self.shared.lock();
        if state.is_over {
            drop(state);
            call_back(call);
        } else {
            state.on_done = Some(call);
        }
        Ok(())
    }

    /// Ends it; nothing is written to lent memory any more. In a forked child there is nothing to end, and a thread
    /// that is not there may hold a lock.
    fn cancel(&self) {
        if self.process != std::process::id() {
            return;
        }
        self.shared.cancelled.notify_one();
        if let Some(memory) = &self.memory {
            memory.close();
        }
    }

    /// Its report as JSON, once.
    fn result(&self, py: Python<'_>) -> PyResult<String> {
        self.check_process()?;
        let outcome = self.shared.lock().outcome.take();
        if let Some(memory) = self.memory.as_ref().filter(|_| outcome.is_some()) {
            memory.give_back();
        }
        match outcome {
            None => {
                Err(PyTimeoutError::new_err("the transfer is under way, or its result was taken"))
            }
            Some(Ok(report)) => {
                let bytes = |key: &str| report[key].as_u64().unwrap_or_default();
                self.fetched.store(bytes("end") - bytes("start"), Ordering::Release);
                Ok(report.to_string())
            }
            Some(Err(Failed { kind, message, hosts })) => Err(of_kind(py, kind, &message, hosts)),
        }
    }

    /// The bytes that arrived, if they were not to go elsewhere.
    fn take_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.check_process()?;
        match (&self.memory, &self.bytes) {
            (_, Some(bytes)) => {
                // Before that they may hold what the memory held before them.
                let len = bytes.bind(py).len()? as u64;
                match self.fetched.load(Ordering::Acquire) == len {
                    true => Ok(bytes.bind(py).clone()),
                    false => Err(PyRuntimeError::new_err(
                        "its bytes are not all there: ask for the result first",
                    )),
                }
            }
            (Some(Memory::Own(memory)), None) => {
                Ok(Lent::copied(py, &memory.take())?.into_bound(py))
            }
            (Some(Memory::Lent(_)), None) => {
                Err(PyRuntimeError::new_err("its bytes went to memory that was lent"))
            }
            (None, None) => Err(PyRuntimeError::new_err("its bytes went to a file")),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.cancel();
    }
}

fn to_json(update: &Update) -> Value {
    match update {
        Update::Hashing { host, done, total } => {
            json!({"event": "hashing", "host": host, "done": done, "total": total})
        }
        Update::Started { size, symbol_size, digest, hosts } => json!({
            "event": "started",
            "total": size,
            "symbol_size": symbol_size,
            "digest": digest.to_string(),
            "hosts": hosts,
        }),
        Update::Moving { done, total, symbols } => {
            json!({"event": "moving", "done": done, "total": total, "symbols": symbols})
        }
        Update::Lost { host, reason } => json!({"event": "lost", "host": host, "reason": reason}),
        Update::Altered { host, symbols } => {
            json!({"event": "altered", "host": host, "symbols": symbols})
        }
        Update::Back { host } => json!({"event": "back", "host": host}),
        Update::Shortened { symbol_size } => {
            json!({"event": "shortened", "symbol_size": symbol_size})
        }
        Update::Straggler { host, symbols_behind, cause, detached } => json!({
            "event": "straggler",
            "host": host,
            "symbols_behind": symbols_behind,
            "reason": cause,
            "detached": detached,
        }),
        Update::Complete { host } => json!({"event": "complete", "host": host}),
        Update::Quorum { complete } => json!({"event": "quorum", "complete": complete}),
        Update::Verifying => json!({"event": "verifying"}),
        _ => json!({"event": "other"}),
    }
}
