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
//!
//! A note speaks for all below its directory, also for who writes a part of the tree or a tree of which it is a part. Who
//! has come to his end below a directory that is in doubt leaves a note of his own, which says so.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, fchmod, fcntl_setfl,
    flock, fstat, fsync, futimens, openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::doubts::{Lines, State, Time, changed, read};
use crate::objects::{Disk, SystemDisk, UNSYNCED, claim, part_file_name};

/// A note that was removed in the moment in which it was opened is made again; so often.
const ATTEMPTS: usize = 8;

/// A writer's part in the note of a directory: open, and locked, while files are written.
#[derive(Default, Debug)]
pub(super) struct Note(Mutex<Option<File>>);

impl Note {
    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether files are written, and not yet [settled](Self::end).
    pub(super) fn is_begun(&self) -> bool {
        self.lock().is_some()
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
        *ours = Some(file);
        Ok(())
    }

    /// Syncs what was written. If that goes well nothing is noted any more, unless others still write or something else
    /// `is_in_doubt`; if not, what was written is in doubt from now on. It has failed, too, if `others_failed` says
    /// that somebody else's has, since it was looked what is there.
    pub(super) fn end(
        &self,
        root: &OwnedFd,
        sync: impl FnOnce() -> io::Result<()>,
        others_failed: impl FnOnce() -> bool,
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
        if others_failed() {
            // The system tells one of them that bytes are lost, whoever has written them.
            return Err(io::Error::other("another transfer's files could not be synced"));
        }
        match alone {
            None => Ok(()),
            Some(file) if is_in_doubt => {
                // One that cannot be read says that all is in doubt, and nothing was written since.
                let all = || State::Failed.line((i64::MIN, 0));
                let text = read(&file).map_or_else(|_| all(), |lines| lines.settled());
                place(root, |_| Ok(text), true)?;
                Ok(fsync(root)?)
            }
            Some(_) => {
                unlinkat(root, UNSYNCED, AtFlags::empty())?;
                // Else a power cut brings it back, and what is complete is in doubt.
                Ok(fsync(root)?)
            }
        }
    }
}

/// Notes in a directory that what killed writers have left below it is in doubt, if it has a note: a sync of the whole file
/// system has failed, and the system tells of that once.
pub(super) fn doubt(directory: &OwnedFd) -> io::Result<()> {
    let file = open_locked(directory, FlockOperation::LockShared, false)?;
    file.map_or(Ok(()), |file| fail(&file))
}

/// Whether a directory has a note.
pub(super) fn has_note(directory: &OwnedFd) -> io::Result<bool> {
    match statat(directory, UNSYNCED, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(false),
        found => Ok(found.map(|_| true)?),
    }
}

/// Removes the note of a directory below one of which all is on the disk, unless somebody writes there.
pub(super) fn forget(directory: &OwnedFd) -> io::Result<()> {
    match open_locked(directory, FlockOperation::NonBlockingLockExclusive, false)? {
        None => Ok(()),
        Some(_) => Ok(unlinkat(directory, UNSYNCED, AtFlags::empty())?),
    }
}

/// Notes that files are written in this life, on the disk: one line speaks for several writers.
fn write_in_this_life(mut file: &File, root: &OwnedFd) -> io::Result<()> {
    match read(file) {
        Ok(lines) if lines.last().as_ref() == Some(&State::of_this_life()) => {
            if OnDisk::has(file, &lines)? {
                return Ok(());
            }
            // Written again: whoever wrote it may have been killed before it was on the disk, or his sync have failed, which
            // the system says once. In its place, for others who read it.
            fcntl_setfl(file, OFlags::empty())?;
            file.write_all_at(lines.text().as_bytes(), 0)?;
            fcntl_setfl(file, OFlags::APPEND)?;
        }
        Ok(_) => file.write_all(line_of_this_life(file)?.as_bytes())?,
        Err(_) => begin_anew(file)?,
    }
    fsync(file)?;
    let lines = match read_again(file) {
        Ok(lines) => lines,
        // The system had bytes of it that the disk has lost.
        Err(_) => {
            begin_anew(file)?;
            fsync(file)?;
            read_again(file)?
        }
    };
    fsync(root)?;
    OnDisk::remember(file, &lines)
}

/// Whatever the note said, or was about to say: all is in doubt that was written before.
fn begin_anew(mut file: &File) -> io::Result<()> {
    let text = State::Failed.line((i64::MIN, 0)) + &line_of_this_life(file)?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

/// A line that says that files are written from now on, by the clock of the file system that the note is in.
fn line_of_this_life(note: &File) -> io::Result<String> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    futimens(note, &Timestamps { last_access: now, last_modification: now })?;
    Ok(State::of_this_life().line(changed(&fstat(note)?)))
}

/// Notes that this process has brought onto the disk, by device, inode and time of the last line: the latest few.
struct OnDisk;

type Known = (u64, u64, Time);

static ON_DISK: Mutex<VecDeque<Known>> = Mutex::new(VecDeque::new());

impl OnDisk {
    /// Notes that are remembered.
    const MOST: usize = 256;

    fn key(file: &File, lines: &Lines) -> io::Result<Known> {
        let meta = file.metadata()?;
        let last = lines.0.iter().map(|(at, _)| *at).max();
        Ok((meta.dev(), meta.ino(), last.unwrap_or_default()))
    }

    fn has(file: &File, lines: &Lines) -> io::Result<bool> {
        let key = OnDisk::key(file, lines)?;
        Ok(ON_DISK.lock().unwrap_or_else(PoisonError::into_inner).contains(&key))
    }

    fn remember(file: &File, lines: &Lines) -> io::Result<()> {
        let key = OnDisk::key(file, lines)?;
        let mut known = ON_DISK.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|of| *of != key);
        known.push_back(key);
        if known.len() > OnDisk::MOST {
            known.pop_front();
        }
        Ok(())
    }
}

fn read_again(mut file: &File) -> io::Result<Lines> {
    file.rewind()?;
    read(file)
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
    let flags =
        OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    for _ in 0..ATTEMPTS {
        let file = match openat(root, UNSYNCED, flags, Mode::empty()) {
            Err(Errno::NOENT) if !make => return Ok(None),
            Err(Errno::NOENT) => match place(root, line_of_this_life, false) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => continue,
            },
            file => File::from(file?),
        };
        match flock(&file, lock) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        let stat = fstat(&file)?;
        let named = statat(root, UNSYNCED, AtFlags::SYMLINK_NOFOLLOW);
        if named.is_ok_and(|named| (named.st_dev, named.st_ino) == (stat.st_dev, stat.st_ino)) {
            return Ok(Some(file));
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Makes a note with a text, or replaces it, so that nobody ever reads an empty one.
fn place(
    root: &OwnedFd,
    text: impl FnOnce(&File) -> io::Result<String>,
    replace: bool,
) -> io::Result<()> {
    let part_name = part_file_name(UNSYNCED, SystemDisk.random()?);
    let file = SystemDisk.create(root, &part_name, true)?;
    // Else taken for stale.
    claim(&SystemDisk, &file);
    let placed = text(&file).and_then(|text| {
        (&file).write_all(text.as_bytes())?;
        // Who may write to the directory may go on with what others have left there, whatever the umask.
        fchmod(&file, Mode::from_raw_mode(fstat(root)?.st_mode & 0o666))?;
        if replace {
            fsync(&file)?;
        }
        SystemDisk.rename(root, &part_name, UNSYNCED, replace)
    });
    if placed.is_err() {
        // The error that matters is the first.
        let _ = unlinkat(root, &part_name, AtFlags::empty());
    }
    placed
}

#[cfg(test)]
#[path = "unsynced_tests.rs"]
mod tests;
