//! Brings a file to the disk while the rest of it arrives, so that the sync at its end has little left to wait for.
//!
//! The system would hold back what is written until memory fills, and a transfer would take the
//! network's time and then the disk's; so it takes the longer of the two.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes after which [`WriteBack`] syncs: a tenth of a second's writing at a common disk's pace.
const STEP: u64 = 32 << 20;

/// Syncs a file from a thread of its own each time so many bytes more have been written.
#[derive(Debug)]
pub struct WriteBack {
    step: u64,
    state: Mutex<State>,
    failed: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes written since a sync was last asked for.
    written: u64,
    syncer: Option<Syncer>,
}

#[derive(Debug)]
struct Syncer {
    /// Holds one request: one that comes while another waits is the same request.
    more: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Default for WriteBack {
    /// Nothing happens before 32 MiB have been written.
    fn default() -> Self {
        WriteBack::every(STEP)
    }
}

impl WriteBack {
    /// Nothing happens before `step` bytes have been written \[bytes\].
    fn every(step: u64) -> Self {
        WriteBack { step, state: Mutex::default(), failed: Arc::default() }
    }

    /// Takes note of `len` bytes written to `file`; never waits for the disk.
    pub fn wrote(&self, file: &File, len: u64) {
        let mut state = self.lock();
        state.written += len;
        if state.written < self.step {
            return;
        }
        state.written = 0;
        if state.syncer.is_none() {
            // Without a thread or another handle the sync at the end does it all.
            state.syncer = Syncer::start(file, &self.failed).ok();
        }
        if let Some(syncer) = &state.syncer {
            // Refused if one is waiting, or after an error, which `finish` reports.
            let _ = syncer.more.try_send(());
        }
    }

    /// Has all that was written synced without waiting for it, by a caller that is done with the file. Until then the
    /// file is open, so that the system cannot forget that it failed to write it.
    pub fn sync_rest(&self, file: &File) {
        self.wrote(file, self.step);
        if self.lock().syncer.is_none() {
            self.failed.store(true, Ordering::Release);
        }
    }

    /// Whether a sync has failed: the system says so once, to [`finish`](Self::finish) here.
    pub fn has_failed(&self) -> bool {
        // The thread lives as long as its syncs go well.
        self.lock().syncer.as_ref().is_some_and(|syncer| syncer.thread.is_finished())
    }

    /// Whether a sync has failed, to be looked at when this is no more: the last one may still be under way.
    pub fn failure(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.failed)
    }

    /// Ends it, and waits for the sync under way. What was written since is for the caller to sync.
    ///
    /// # Errors
    /// A sync failed: the system reports each failure once, so no later sync would.
    pub fn finish(&self) -> io::Result<()> {
        let Some(Syncer { more, thread }) = self.lock().syncer.take() else { return Ok(()) };
        drop(more);
        thread.join().unwrap_or_else(|_| Err(io::Error::other("syncing panicked")))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Syncer {
    fn start(file: &File, failed: &Arc<AtomicBool>) -> io::Result<Syncer> {
        let (file, failed) = (file.try_clone()?, Arc::clone(failed));
        let (more, requests) = sync_channel(1);
        let sync = move || {
            let synced = requests.iter().try_for_each(|()| file.sync_data());
            synced.inspect_err(|_| failed.store(true, Ordering::Release))
        };
        let thread = std::thread::Builder::new().name("wellspring-sync".to_owned()).spawn(sync)?;
        Ok(Syncer { more, thread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_start_no_thread_and_large_ones_end_theirs() {
        let file = tempfile::tempfile().expect("temporary file");
        let back = WriteBack::every(1_000);
        back.wrote(&file, 999);
        assert!(back.lock().syncer.is_none());
        for _ in 0..50 {
            back.wrote(&file, 999);
        }
        assert!(back.lock().syncer.is_some() && !back.has_failed());
        back.finish().expect("synced");
        assert!(back.lock().syncer.is_none());
        back.finish().expect("nothing left to do");
    }

    #[test]
    fn a_failed_sync_is_told_at_the_end_however_much_was_written_after_it() {
        // The system cannot sync what is no file.
        let file = File::options().write(true).open("/dev/null").expect("the null device");
        let back = WriteBack::every(10);
        for _ in 0..1_000 {
            back.wrote(&file, 10);
        }
        while !back.has_failed() {
            std::thread::yield_now();
        }
        assert!(back.failure().load(Ordering::Acquire));
        assert!(back.finish().is_err());
    }

    #[test]
    fn what_was_written_is_synced_though_nobody_waits_for_it() {
        let file = File::options().write(true).open("/dev/null").expect("the null device");
        let back = WriteBack::default();
        back.wrote(&file, 1);
        let failed = back.failure();
        back.sync_rest(&file);
        drop(back);
        while !failed.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}
