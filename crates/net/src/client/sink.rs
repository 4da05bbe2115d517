//! The destination of a fetched object: a part file, or a scratch file that a writer follows.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::stream::copy_out;
use super::{FetchError, Target};
use crate::driver::Failure;
use crate::store::ObjectSink;
use crate::store::{Digest, Node, PartFile, ScratchFile, StoreError, remove_stale_parts};

/// Where the bytes go.
pub(crate) enum Sink {
    File(Arc<PartFile>),
    Stream {
        scratch: Arc<ScratchFile>,
        /// Absent once it has ended well.
        copy: Option<JoinHandle<io::Result<()>>>,
        _stop: oneshot::Sender<()>,
    },
}

/// The file that bytes are written to which count only once they are [noted](Self::note).
#[derive(Clone)]
pub(crate) enum Arriving {
    Part(Arc<PartFile>),
    Scratch(Arc<ScratchFile>),
}

impl Arriving {
    /// Takes note of bytes that are verified.
    pub(crate) fn note(&self, range: Range<u64>) {
        match self {
            Arriving::Part(part) => part.note(range),
            Arriving::Scratch(scratch) => scratch.note(range),
        }
    }

    /// Reads what is written.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Arriving::Part(part) => part.read_at(offset, buffer),
            Arriving::Scratch(scratch) => scratch.read_at(offset, buffer),
        }
    }

    /// Nodes of the object's hash tree, of what is written.
    pub(crate) fn hash_nodes(&self, range: Range<u64>, len: u64) -> io::Result<Vec<Node>> {
        match self {
            Arriving::Part(part) => part.hash_nodes(range, len),
            Arriving::Scratch(scratch) => scratch.hash_nodes(range, len),
        }
    }
}

impl ObjectSink for Arriving {
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        match self {
            Arriving::Part(part) => part.write_unverified(offset, block),
            Arriving::Scratch(scratch) => scratch.write_unverified(offset, block),
        }
    }
}

impl Sink {
    /// Opens it for an object of that size and digest, all bytes of which are verified before they count. If `resume`, a
    /// file takes up what an earlier fetch has left.
    pub(crate) async fn open(
        target: Target,
        size: u64,
        digest: Digest,
        resume: bool,
    ) -> Result<Sink, FetchError> {
        let runtime = tokio::runtime::Handle::current();
        let opened = tokio::task::spawn_blocking(move || match target {
            Target::File { path, existing } => {
                if resume {
                    let part = PartFile::resumed_beside(&path, size, digest, existing)?;
                    return Ok(Sink::File(Arc::new(part)));
                }
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                // What cannot be looked at stays; whether it can be written to shows next.
                let _ = remove_stale_parts(folder.unwrap_or(Path::new(".")), false);
                let part = PartFile::beside(&path, size, digest, existing)?.of_verified();
                Ok(Sink::File(Arc::new(part)))
            }
            Target::Writer(out) => {
                let scratch = Arc::new(ScratchFile::new(size, digest)?.of_verified());
                let (stop, stopped) = oneshot::channel();
                let from = Arc::clone(&scratch);
                let inner = runtime.clone();
                let copy = runtime.spawn_blocking(move || copy_out(&inner, &from, stopped, out));
                Ok(Sink::Stream { scratch, copy: Some(copy), _stop: stop })
            }
        });
        opened.await.map_err(|_| FetchError::Session(Failure::Stopped))?
    }

    /// The sink that blocks are written to.
    pub(crate) fn as_object_sink(&self) -> Arc<dyn ObjectSink> {
        match self {
            Sink::File(part) => Arc::clone(part) as Arc<dyn ObjectSink>,
            Sink::Stream { scratch, .. } => Arc::clone(scratch) as Arc<dyn ObjectSink>,
        }
    }

    /// The same for bytes that are verified when they are written.
    pub(crate) fn arriving(&self) -> Arriving {
        match self {
            Sink::File(part) => Arriving::Part(Arc::clone(part)),
            Sink::Stream { scratch, .. } => Arriving::Scratch(Arc::clone(scratch)),
        }
    }

    /// Completes with an error when the writer fails. Otherwise it never completes.
    pub(crate) async fn broken(&mut self) -> io::Error {
        if let Sink::Stream { copy, .. } = self
            && let Some(task) = copy
        {
            match copied(task.await) {
                Ok(()) => *copy = None,
                Err(error) => return error,
            }
        }
        std::future::pending().await
    }

    /// All bytes are written: verifies them, and gives a file its name.
    pub(crate) async fn finish(self) -> Result<(), FetchError> {
        let verified = match self {
            Sink::File(part) => {
                tokio::task::spawn_blocking(move || part.commit().map(|_| ())).await
            }
            Sink::Stream { scratch, copy, _stop } => {
                if let Some(task) = copy {
                    copied(task.await).map_err(FetchError::Write)?;
                }
                tokio::task::spawn_blocking(move || scratch.verify()).await
            }
        };
        match verified {
            Ok(result) => Ok(result?),
            Err(_) => Err(StoreError::Io(io::Error::other("verifying panicked")).into()),
        }
    }
}

fn copied(ended: Result<io::Result<()>, tokio::task::JoinError>) -> io::Result<()> {
    ended.unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
}
