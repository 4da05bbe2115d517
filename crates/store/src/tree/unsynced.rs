//! Note in a directory that files below it have their names, and may not be on the disk.
//!
//! The files of a tree are brought onto the disk together, at the end: until then each has its name, length and time,
//! and whoever goes on with the tree takes it for what it is to be. After a power cut or a sync that failed it may have
//! other bytes. So whoever writes files notes since when, and in which life of the machine, and removes the note when
//! all is on the disk. What was written after a note of an earlier life, or of a failure, is in doubt.
//!
//! The note is a file with a line for each writer, in their order: the time since which it speaks, by the clock of the
//! file system, and the life or `failed` or `synced`. Of a file the last line decides that is not younger than its last
//! change.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, fchmod,
    flock, fstat, fsync, futimens, openat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::objects::UNSYNCED;

/// Longest note that is read; a longer one says that all is in doubt \[bytes\].
const MAX_LEN: u64 = 64 << 10;
/// A note that was removed in the moment in which it was opened is made again; so often.
const ATTEMPTS: usize = 8;

/// Time of a file's last change: seconds and nanoseconds.
type Time = (i64, u32);

fn changed(stat: &Stat) -> Time {
    (stat.st_ctime, stat.st_ctime_nsec as u32)
}

/// The name of the present life of the machine; none where the system does not tell lives apart.
fn this_life() -> Option<&'static str> {
    static LIFE: OnceLock<Option<String>> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let life = LIFE.get_or_init(|| read().ok().map(|id| id.trim().to_owned()));
    life.as_deref().filter(|life| !life.is_empty())
}

/// What a line says of what was written since.
#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    /// Somebody writes, or has not come to an end, in that life of the machine.
    Writing(String),
    Failed,
    Synced,
}

impl State {
    fn is_doubted(&self) -> bool {
        match self {
            State::Writing(life) => this_life() != Some(life),
            State::Failed => true,
            State::Synced => false,
        }
    }

    fn line(&self, (seconds, nanos): Time) -> String {
        let state = match self {
            State::Writing(life) => life,
            State::Failed => "failed",
            State::Synced => "synced",
        };
        format!("{seconds} {nanos} {state}\n")
    }
}

/// Which files below a directory are in doubt.
#[derive(Clone, Default, Debug)]
pub(super) struct Doubts {
    /// Ascending; each until the next.
    since: Vec<(Time, bool)>,
}

impl Doubts {
    /// Those that the note in a directory tells of.
    pub(super) fn of(root: &OwnedFd) -> Self {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(root, UNSYNCED, flags, Mode::empty()) {
            Err(Errno::NOENT) => Doubts::default(),
            Ok(file) => read(&File::from(file)).map_or_else(|_| Doubts::of_all(), |n| n.doubts()),
            Err(_) => Doubts::of_all(),
        }
    }

    /// What the note says cannot be known.
    fn of_all() -> Self {
        Doubts { since: vec![((i64::MIN, 0), true)] }
    }

    /// Whether nothing is in doubt.
    pub(super) fn is_none(&self) -> bool {
        self.since.iter().all(|(_, is_doubted)| !is_doubted)
    }

    /// Whether a file is, whose state that is.
    pub(super) fn of_file(&self, stat: &Stat) -> bool {
        let since = self.since.partition_point(|(since, _)| *since <= changed(stat));
        since.checked_sub(1).is_some_and(|last| self.since[last].1)
    }
}

/// The lines of a note.
struct Lines(Vec<(Time, State)>);

impl Lines {
    fn doubts(&self) -> Doubts {
        let mut since: Vec<_> =
            self.0.iter().map(|(at, state)| (*at, state.is_doubted())).collect();
        // Of two of one time the later one holds.
        since.sort_by_key(|(at, _)| *at);
        since.dedup_by(|next, last| next.1 == last.1);
        Doubts { since }
    }

    /// What it says of what is written now.
    fn last(&self) -> Option<State> {
        // Of two of one time the later one holds.
        self.0.iter().max_by_key(|(at, _)| *at).map(|(_, state)| state.clone())
    }

    /// The same in fewest words, now that all that is not in doubt is on the disk.
    fn settled(&self) -> String {
        let state = |is_doubted| if is_doubted { State::Failed } else { State::Synced };
        let since = self.doubts().since.into_iter();
        since.map(|(at, is_doubted)| state(is_doubted).line(at)).collect()
    }
}

/// Reads a note; an error if it is none.
fn read(file: &File) -> io::Result<Lines> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut text = String::new();
    let len = file.take(MAX_LEN + 1).read_to_string(&mut text)?;
    if len as u64 > MAX_LEN
        || FileType::from_raw_mode(fstat(file)?.st_mode) != FileType::RegularFile
    {
        return Err(invalid());
    }
    let mut lines: Vec<(Time, State)> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [seconds, nanos, state] = words[..] else { return Err(invalid()) };
        let (Ok(seconds), Ok(nanos)) = (seconds.parse(), nanos.parse()) else {
            return Err(invalid());
        };
        let state = match state {
            "failed" => State::Failed,
            "synced" => State::Synced,
            life => State::Writing(life.to_owned()),
        };
        if state == State::Failed {
            // Whoever else was writing had a part in it.
            let writing = lines.iter_mut().filter(|(_, state)| matches!(state, State::Writing(_)));
            writing.for_each(|(_, state)| *state = State::Failed);
        }
        lines.push(((seconds, nanos), state));
    }
    Ok(Lines(lines))
}

/// A writer's part in the note of a directory: open, and locked, while files are written.
#[derive(Default, Debug)]
pub(super) struct Note(Mutex<Option<File>>);

impl Note {
    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files are about to be written below a directory: notes it there, unless that was done. The note is on the disk
    /// before any of them can be.
    pub(super) fn begin(&self, root: &OwnedFd) -> io::Result<()> {
        let mut ours = self.lock();
        if ours.is_some() {
            return Ok(());
        }
        let file = match open_locked(root, FlockOperation::LockShared, true) {
            // Others may be allowed below it what they are not in it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(%error, "cannot note that files are written and not on the disk");
                return Ok(());
            }
            file => file?.ok_or(io::ErrorKind::NotFound)?,
        };
        write_in_this_life(&file, root)?;
        fsync(&file)?;
        *ours = Some(file);
        Ok(())
    }

    /// Syncs what was written. If that goes well nothing is noted any more, unless others still write or something else
    /// `is_in_doubt`; if not, what was written is in doubt from now on.
    pub(super) fn end(
        &self,
        root: &OwnedFd,
        sync: impl FnOnce() -> io::Result<()>,
        is_in_doubt: bool,
    ) -> io::Result<()> {
        drop(self.lock().take());
        // Nobody begins meanwhile; what killed writers have left is on the disk then, too.
        let alone = match open_locked(root, FlockOperation::NonBlockingLockExclusive, false) {
            // Somebody else's note, which stays.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            alone => alone?,
        };
        let synced = sync();
        if synced.is_err() {
            // That is the error that matters.
            let _ = match alone {
                Some(file) => fail(&file),
                None => open_locked(root, FlockOperation::LockShared, false)
                    .and_then(|file| file.map_or(Ok(()), |file| fail(&file))),
            };
            return synced;
        }
        match alone {
            None => Ok(()),
            Some(mut file) if is_in_doubt => {
                let text = read(&file)?.settled();
                file.set_len(0)?;
                file.write_all(text.as_bytes())?;
                Ok(fsync(&file)?)
            }
            Some(_) => {
                unlinkat(root, UNSYNCED, AtFlags::empty())?;
                // Else a power cut brings it back, and what is complete is in doubt.
                Ok(fsync(root)?)
            }
        }
    }
}

/// Notes that files are written in this life, unless that is noted: one of several writers speaks for all.
fn write_in_this_life(mut file: &File, root: &OwnedFd) -> io::Result<()> {
    let life = State::Writing(this_life().unwrap_or("unknown").to_owned());
    let before = match read(file) {
        Ok(lines) if lines.last().as_ref() == Some(&life) => return Ok(()),
        Ok(_) => String::new(),
        // Whatever it said: all is in doubt that was written before.
        Err(_) => {
            file.set_len(0)?;
            State::Failed.line((i64::MIN, 0))
        }
    };
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    futimens(file, &Timestamps { last_access: now, last_modification: now })?;
    file.write_all((before + &life.line(changed(&fstat(file)?))).as_bytes())?;
    Ok(fsync(root)?)
}

/// Notes that what was written since the first of those who write is in doubt.
fn fail(mut file: &File) -> io::Result<()> {
    let lines = read(file)?.0;
    let writing = lines.iter().filter(|(_, state)| matches!(state, State::Writing(_)));
    match writing.map(|(since, _)| *since).min() {
        Some(since) => file.write_all(State::Failed.line(since).as_bytes()),
        None => Ok(()),
    }
}

/// Opens and locks the note; none if there is none and none is to be made, or if it is locked by others.
fn open_locked(root: &OwnedFd, lock: FlockOperation, make: bool) -> io::Result<Option<File>> {
    // Who may write to the directory may go on with what others have left there.
    let mode = Mode::from_raw_mode(fstat(root)?.st_mode & 0o666);
    let mut flags =
        OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags.set(OFlags::CREATE, make);
    for _ in 0..ATTEMPTS {
        let file = match openat(root, UNSYNCED, flags, mode) {
            Err(Errno::NOENT) if !make => return Ok(None),
            file => File::from(file?),
        };
        match flock(&file, lock) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        let stat = fstat(&file)?;
        let named = statat(root, UNSYNCED, AtFlags::SYMLINK_NOFOLLOW);
        if named.is_ok_and(|named| (named.st_dev, named.st_ino) == (stat.st_dev, stat.st_ino)) {
            if make && stat.st_size == 0 {
                // Whatever the umask.
                fchmod(&file, mode)?;
            }
            return Ok(Some(file));
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

#[cfg(test)]
#[path = "unsynced_tests.rs"]
mod tests;
