//! Recording of frames into a file. A thread of its own writes, so that no frame waits for the disk.

mod pcapng;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::ports::PortSet;
pub(super) use pcapng::Direction;

/// Frames that wait to be written, at most.
const MOST_FRAMES: usize = 8_192;
/// Bytes that are written with one call, about.
const CHUNK: usize = 256 << 10;

/// What to record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureConfig {
    /// The file, which must not be there yet.
    pub file: PathBuf,
    /// The ports whose frames are recorded.
    pub ports: PortSet,
    /// The longest that the file becomes \[bytes\]; what passes then is not recorded.
    pub limit: u64,
}

/// What was recorded.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CaptureStatus {
    /// Frames in the file.
    pub frames: u64,
    /// Length of the file \[bytes\].
    pub bytes: u64,
    /// Frames that passed when the file was full.
    pub beyond_limit: u64,
    /// Frames that the disk was too slow for, or that passed after an error.
    pub missed: u64,
    /// The error that ended the recording.
    pub error: Option<String>,
}

/// A frame as it passed.
struct Record {
    port: usize,
    at: Duration,
    direction: Direction,
    bytes: Vec<u8>,
}

/// Counters that the threads share.
#[derive(Debug, Default)]
struct Counters {
    frames: AtomicU64,
    bytes: AtomicU64,
    beyond_limit: AtomicU64,
    missed: AtomicU64,
    full: AtomicBool,
    error: Mutex<Option<String>>,
}

/// The way to the thread that writes.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    records: SyncSender<Record>,
    ports: PortSet,
    counters: Arc<Counters>,
}

/// The thread that writes; it ends when all its [`Recorder`]s are gone.
#[derive(Debug)]
pub(super) struct Recording {
    thread: Option<JoinHandle<()>>,
}

/// A view of a recording.
#[derive(Clone, Debug)]
pub(super) struct View(Arc<Counters>);

/// Makes the file and starts the thread. Interfaces are those of the switch.
pub(super) fn start(
    config: &CaptureConfig,
    interfaces: &[String],
) -> io::Result<(Recorder, Recording, View)> {
    let mut file = create(&config.file)?;
    let header = pcapng::header(interfaces);
    file.write_all(&header)?;
    let counters = Arc::new(Counters::default());
    counters.bytes.store(header.len() as u64, Ordering::Relaxed);
    let (sender, records) = sync_channel(MOST_FRAMES);
    let (of_thread, limit) = (Arc::clone(&counters), config.limit);
    let thread = thread::Builder::new().name("capture".into()).spawn(move || {
        if let Err(error) = write(file, &records, &of_thread, limit) {
            tracing::error!("the capture ends: {error}");
            let mut place = of_thread.error.lock().unwrap_or_else(PoisonError::into_inner);
            *place = Some(error.to_string());
        }
    })?;
    let recorder =
        Recorder { records: sender, ports: config.ports, counters: Arc::clone(&counters) };
    Ok((recorder, Recording { thread: Some(thread) }, View(counters)))
}

/// The file: it holds others' traffic, so it is nobody else's to read.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn write(
    mut file: File,
    records: &Receiver<Record>,
    counters: &Counters,
    limit: u64,
) -> io::Result<()> {
    let mut chunk = Vec::with_capacity(2 * CHUNK);
    let mut len = counters.bytes.load(Ordering::Relaxed);
    while let Ok(first) = records.recv() {
        let mut frames = 0;
        let mut next = Some(first);
        // What has come meanwhile is written at once.
        while let Some(Record { port, at, direction, bytes }) = next {
            let whole = pcapng::PACKET_OVERHEAD + bytes.len().next_multiple_of(4) as u64;
            if len + whole > limit {
                counters.full.store(true, Ordering::Relaxed);
                counters.beyond_limit.fetch_add(1, Ordering::Relaxed);
            } else {
                pcapng::packet(&mut chunk, port as u32, at, direction, &bytes);
                len += whole;
                frames += 1;
            }
            next = if chunk.len() < CHUNK { records.try_recv().ok() } else { None };
        }
        file.write_all(&chunk)?;
        chunk.clear();
        counters.frames.fetch_add(frames, Ordering::Relaxed);
        counters.bytes.store(len, Ordering::Relaxed);
    }
    Ok(())
}

impl Recorder {
    /// Records a frame, given in parts, if its port is one of those that are.
    pub(super) fn record(&self, port: usize, at: Duration, direction: Direction, parts: &[&[u8]]) {
        if !self.ports.contains(port) {
            return;
        }
        if self.counters.full.load(Ordering::Relaxed) {
            self.counters.beyond_limit.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let record = Record { port, at, direction, bytes: parts.concat() };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.records.try_send(record)
        {
            self.counters.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Recording {
    /// Waits until all is written. All recorders must be gone.
    pub(super) fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            // It does not panic; what went wrong stands in the counters.
            let _ = thread.join();
        }
    }
}

impl View {
    pub(super) fn status(&self) -> CaptureStatus {
        let Counters { frames, bytes, beyond_limit, missed, error, .. } = &*self.0;
        CaptureStatus {
            frames: frames.load(Ordering::Relaxed),
            bytes: bytes.load(Ordering::Relaxed),
            beyond_limit: beyond_limit.load(Ordering::Relaxed),
            missed: missed.load(Ordering::Relaxed),
            error: error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(limit: u64, frames: usize) -> (CaptureStatus, u64) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        let config = CaptureConfig { file: file.clone(), ports: PortSet::one(1), limit };
        let names = ["a".to_owned(), "b".to_owned()];
        let (recorder, mut recording, view) = start(&config, &names).expect("started");
        for number in 0..frames {
            let parts = [&[number as u8; 12][..], &[0; 88]];
            recorder.record(1, Duration::from_secs(1), Direction::In, &parts);
            recorder.record(0, Duration::from_secs(1), Direction::In, &parts);
        }
        drop(recorder);
        recording.finish();
        (view.status(), std::fs::metadata(&file).expect("there").len())
    }

    #[test]
    fn frames_of_the_chosen_ports_are_recorded_up_to_the_limit() {
        let (status, len) = run(1 << 20, 50);
        assert_eq!((status.frames, status.beyond_limit, status.missed), (50, 0, 0));
        assert_eq!(status.bytes, len);
        let header = len - 50 * 144;
        // Room for ten, and not quite for another.
        let (status, len) = run(header + 10 * 144 + 143, 50);
        assert_eq!((status.frames, status.beyond_limit, status.error), (10, 40, None));
        assert_eq!(len, header + 10 * 144);
    }

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let config =
            CaptureConfig { file: file.path().to_owned(), ports: PortSet::one(0), limit: 1 << 20 };
        let error = start(&config, &[]).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}
