//! Keys by the command's rules: those of a directory that was named, of the user's own, or none.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use wellspring_net::wellspring_trust::Keyring;
use wellspring_net::{KeyDirectory, KeyFileError};

use crate::errors::of_kind;

/// Names the directory of the keys; empty: there are none.
const VARIABLE: &str = "WELLSPRING_KEYS";

/// The keys, if there are any and they are wanted.
///
/// # Errors
/// They cannot be read, or there are none in the directory that was named.
pub fn load(
    py: Python<'_>,
    named: Option<PathBuf>,
    insecure: bool,
) -> PyResult<Option<Arc<Keyring>>> {
    if insecure {
        if named.is_some() {
            return Err(of_kind(
                py,
                "UsageError",
                "keys and insecure=True exclude each other",
                Vec::new(),
            ));
        }
        return Ok(None);
    }
    let (directory, named_by) = match (named, std::env::var_os(VARIABLE)) {
        (Some(named), _) => (Some(KeyDirectory::new(named)), Some("keys=")),
        (None, Some(path)) if path.is_empty() => (None, None),
        (None, Some(path)) => (Some(KeyDirectory::new(path)), Some(VARIABLE)),
        (None, None) => (KeyDirectory::of_user(), None),
    };
    let Some(directory) = directory else { return Ok(None) };
    let keyring = directory.load().map_err(|error| match error {
        KeyFileError::Keyless(_) => of_kind(py, "UsageError", &error.to_string(), Vec::new()),
        _ => PyOSError::new_err(error.to_string()),
    })?;
    if let (None, Some(named_by)) = (&keyring, named_by) {
        let text = format!(
            "no keys in {}, which {named_by} names: wellspring key new --keys DIR makes one, \
             and insecure=True goes without",
            directory.path().display()
        );
        return Err(of_kind(py, "UsageError", &text, Vec::new()));
    }
    Ok(keyring.map(Arc::new))
}

/// Makes a cluster key with all rights in a directory, which keeps one that is there.
#[pyfunction]
pub fn new_cluster_key(directory: PathBuf) -> PyResult<()> {
    let made = KeyDirectory::new(directory).new_cluster();
    made.map(drop).map_err(|error| PyOSError::new_err(error.to_string()))
}
