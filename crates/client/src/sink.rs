//! The destination of a fetched object: a part file, a scratch file that a writer follows, or memory of the caller.

use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::byte_range::Wanted;
use super::stream::copy_out;
use super::{FetchError, Target};
use crate::disk::disk;
use crate::driver::Failure;
use crate::store::atomic_file::AtomicFile;
use crate::store::tree::Meta;
use crate::store::{
    Digest, Existing, Node, ObjectSink, PartFile, ScratchFile, StoreError, remove_stale_parts_on,
};
use crate::task::spawn_blocking_on;

/// Where the bytes go.
pub(crate) enum Sink {
    File(Arc<PartFile>),
    Stream {
        scratch: Arc<ScratchFile>,
        /// Absent once it has ended well, and where nobody follows: memory of the caller has all there is.
        copy: Option<JoinHandle<io::Result<()>>>,
        /// The file that a range is written to, if it goes to one.
        named: Option<AtomicFile>,
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
        let opened = crate::task::spawn_blocking(move || match target {
            Target::File { path, existing } => {
                if resume {
                    let part = PartFile::resumed_beside_on(disk(), &path, size, digest, existing)?;
                    return Ok(Sink::File(Arc::new(part)));
                }
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                // What cannot be looked at stays; whether it can be written to shows next.
                let _ = remove_stale_parts_on(&*disk(), folder.unwrap_or(Path::new(".")), false);
                let part =
                    PartFile::beside_on(disk(), &path, size, digest, existing)?.of_verified();
                Ok(Sink::File(Arc::new(part)))
            }
            Target::Writer(out) => {
                let scratch = ScratchFile::of_verified(size, digest)?;
                Ok(Sink::streaming(&runtime, scratch, 0..size, out, None))
            }
            Target::Memory(place) => {
                Ok(Sink::followed_by_none(ScratchFile::lent(size, digest, place, 0..size)))
            }
        });
        opened.await.map_err(|_| FetchError::Session(Failure::Stopped))?
    }

    /// Opens it for a range of an object of that size and digest, the blocks of which are verified before they count. It
    /// has nothing from earlier fetches and leaves nothing to later ones.
    pub(crate) async fn open_range(
        target: Target,
        (size, digest): (u64, Digest),
        wanted: Wanted,
    ) -> Result<Sink, FetchError> {
        let runtime = tokio::runtime::Handle::current();
        let opened = crate::task::spawn_blocking(move || {
            // What is not wanted counts as there: the file has holes in its place, which nobody reads.
            let without_others = |scratch: ScratchFile| {
                let held = wanted.held();
                for other in [0..held.start, held.end..size] {
                    if !other.is_empty() {
                        scratch.note(other);
                    }
                }
                scratch
            };
            let (out, named): (Box<dyn Write + Send>, _) = match target {
                Target::Memory(place) => {
                    let scratch = ScratchFile::lent(size, digest, place, wanted.bytes.clone());
                    return Ok(Sink::followed_by_none(without_others(scratch)));
                }
                Target::Writer(out) => (out, None),
                Target::File { path, existing } => {
                    let file = begin_file(&path, existing)?;
                    (Box::new(file.as_file().try_clone().map_err(StoreError::Io)?), Some(file))
                }
            };
            let scratch = without_others(ScratchFile::of_verified(size, digest)?);
            Ok(Sink::streaming(&runtime, scratch, wanted.bytes, out, named))
        });
        opened.await.map_err(|_| FetchError::Session(Failure::Stopped))?
    }

    fn followed_by_none(scratch: ScratchFile) -> Sink {
        let (stop, _) = oneshot::channel();
        Sink::Stream { scratch: Arc::new(scratch), copy: None, named: None, _stop: stop }
    }

    fn streaming(
        runtime: &Handle,
        scratch: ScratchFile,
        range: Range<u64>,
        out: Box<dyn Write + Send>,
        named: Option<AtomicFile>,
    ) -> Sink {
        let scratch = Arc::new(scratch);
        let (stop, stopped) = oneshot::channel();
        let (from, inner) = (Arc::clone(&scratch), runtime.clone());
        let copy =
            spawn_blocking_on(runtime, move || copy_out(&inner, (&from, range), stopped, out));
        Sink::Stream { scratch, copy: Some(copy), named, _stop: stop }
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

    /// All bytes are written: verifies them, and gives a file its name; one of a tree with what it is to have besides.
    pub(crate) async fn finish(self, given: Option<Meta>) -> Result<(), FetchError> {
        let verified = match self {
            Sink::File(part) => {
                let commit = move || match given {
                    None => part.commit().map(|_| ()),
                    Some(meta) => part.commit_as(&meta),
                };
                crate::task::spawn_blocking(commit).await
            }
            Sink::Stream { scratch, copy, named, _stop } => {
                if let Some(task) = copy {
                    copied(task.await).map_err(FetchError::Write)?;
                }
                let finish = move || {
                    scratch.verify()?;
                    named.map_or(Ok(()), finish_file)
                };
                crate::task::spawn_blocking(finish).await
            }
        };
        match verified {
            Ok(result) => Ok(result?),
            Err(_) => Err(StoreError::Io(io::Error::other("verifying panicked")).into()),
        }
    }
}

/// Begins a file that appears under its name when it is finished.
fn begin_file(path: &Path, existing: Existing) -> Result<AtomicFile, StoreError> {
    if existing == Existing::Keep && path.symlink_metadata().is_ok() {
        return Err(StoreError::Exists(path.display().to_string()));
    }
    AtomicFile::create(path, existing).map_err(|error| match (error.kind(), path.parent()) {
        (ErrorKind::NotFound, Some(parent)) => StoreError::NoParent(parent.display().to_string()),
        _ => StoreError::Io(error),
    })
}

fn finish_file(file: AtomicFile) -> Result<(), StoreError> {
    let shown = file.path().display().to_string();
    file.finish().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => StoreError::Exists(shown),
        _ => StoreError::Io(error),
    })
}

fn copied(ended: Result<io::Result<()>, tokio::task::JoinError>) -> io::Result<()> {
    ended.unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
}
