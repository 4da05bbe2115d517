//! Tests of the crate from outside: requests as no client of ours sends them.

mod greedy_puts;
mod lttp_hostile;
mod server_limits;
mod server_requests;
mod stranger;

/// A runtime for a server whose requests come from the test's own thread.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("runtime")
}
