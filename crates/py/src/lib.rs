//! Wellspring as a Python module: the codec on lent memory, transfers, simulations.
//!
//! Each module here is the native half of one in `python/wellspring`, which documents it, gives it types
//! and holds what is easier said in Python. Whatever waits or computes releases the interpreter. Transfers are
//! there on Linux.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(target_os = "linux")]
mod accounts;
mod buffer;
#[cfg(target_os = "linux")]
mod client;
mod codec;
mod errors;
mod figures;
mod information;
#[cfg(target_os = "linux")]
mod keys;
mod lt;
#[cfg(target_os = "linux")]
mod memory;
mod object;
#[cfg(target_os = "linux")]
mod runtime;
#[cfg(target_os = "linux")]
mod server;
mod simulation;
#[cfg(target_os = "linux")]
mod transfer;

/// The native module; `wellspring` is what is imported.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::buffer::after_fork_in_child;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::codec::{Code, Decoder, Encoder};
    #[pymodule_export]
    use crate::figures::{figures, reproduce};
    #[pymodule_export]
    use crate::information::ObjectInformation;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::keys::new_cluster_key;
    #[pymodule_export]
    use crate::lt::{LtCode, LtDecoder, LtEncoder};
    #[pymodule_export]
    use crate::object::{ObjectDecoder, decode_object, encode_object, encoded_length};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::server::Server;
    #[pymodule_export]
    use crate::simulation::{Stop, plan, run_scenario, scenario_text, scenarios};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::transfer::Transfer;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
