//! Writing an object out in order while it arrives.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::store::ScratchFile;

/// Bytes moved at a time.
const CHUNK: usize = 256 * 1024;
/// Disk space is given back in pieces of this size \[bytes\].
const RELEASE_EVERY: u64 = 8 << 20;

/// Copies a range of a scratch file to `out` as its beginning grows, on a thread that may wait. Ends when
/// all is out, or when the other end of `stop` is dropped.
pub(super) fn copy_out(
    runtime: &Handle,
    (scratch, range): (&Arc<ScratchFile>, Range<u64>),
    mut stop: oneshot::Receiver<()>,
    mut out: Box<dyn Write + Send>,
) -> io::Result<()> {
    let mut contiguous = scratch.contiguous();
    let mut buffer = vec![0; CHUNK];
    let (mut at, mut released) = (range.start, range.start);
    while at < range.end {
        let ready = range.end.min(*contiguous.borrow_and_update());
        while at < ready {
            let len = (ready - at).min(CHUNK as u64) as usize;
            scratch.read_at(at, &mut buffer[..len])?;
            out.write_all(&buffer[..len])?;
            at += len as u64;
            let free = at.min(scratch.hashed());
            if free - released.min(free) >= RELEASE_EVERY {
                scratch.release(released, free);
                released = free;
            }
        }
        let more = async {
            tokio::select! {
                changed = contiguous.changed() => changed.is_ok(),
                _ = &mut stop => false,
            }
        };
        if at < range.end && !runtime.block_on(more) {
            return Err(io::Error::other("the transfer ended early"));
        }
    }
    out.flush()
}
