//! Futures and work in boxes, which are compiled once.

use std::future::Future;
use std::pin::Pin;

/// A future in a box. It is compiled where it is put into the box; every crate that awaits an `async fn` compiles that
/// anew, and all that only it calls.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Work in a box: what runs it is compiled once for each type that it returns.
pub(crate) type Work<T> = Box<dyn FnOnce() -> T + Send>;
