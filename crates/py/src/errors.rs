//! Exceptions: those of `wellspring.errors`, and Python's own for wrong arguments.

use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use wellspring_codec::Error;

/// The exception for a codec's refusal.
pub fn of_codec(error: Error) -> PyErr {
    match error {
        Error::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// The exception for an object that another thread is using.
pub fn in_use(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "another thread is using this {what}: give each thread its own"
    ))
}

/// The exception `kind` of `wellspring.errors` with a message and the troubles of hosts: name, reason and
/// kind of each.
pub fn of_kind(
    py: Python<'_>,
    kind: &str,
    message: &str,
    hosts: Vec<(String, String, &'static str)>,
) -> PyErr {
    let made = py
        .import("wellspring.errors")
        .and_then(|module| module.getattr("make"))
        .and_then(|make| make.call1((kind, message, hosts)));
    made.map_or_else(|error| error, PyErr::from_value)
}
