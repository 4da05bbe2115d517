//! Doubts whether files are on the disk, read from the notes in directories that [`unsynced`](super::unsynced) writes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use crate::objects::UNSYNCED;

/// Longest note that is read; a longer one says that all is in doubt \[bytes\].
const MAX_LEN: u64 = 64 << 10;

/// Time of a file's last change: seconds and nanoseconds.
pub(super) type Time = (i64, u32);

pub(super) fn changed(stat: &Stat) -> Time {
    (stat.st_ctime, stat.st_ctime_nsec as u32)
}

/// The name of the present life of the machine; none where the system does not tell lives apart.
pub(super) fn this_life() -> Option<&'static str> {
    static LIFE: OnceLock<Option<String>> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let life = LIFE.get_or_init(|| read().ok().map(|id| id.trim().to_owned()));
    life.as_deref().filter(|life| !life.is_empty())
}

/// What a line says of what was written since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
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

    pub(super) fn of_this_life() -> Self {
        State::Writing(this_life().unwrap_or("unknown").to_owned())
    }

    fn is_of_this_life(&self) -> bool {
        matches!(self, State::Writing(life) if this_life() == Some(life))
    }

    pub(super) fn line(&self, (seconds, nanos): Time) -> String {
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
    /// No doubts.
    pub(super) const fn none() -> Self {
        Doubts { since: Vec::new() }
    }

    /// Whether there is no note at all.
    pub(super) fn says_nothing(&self) -> bool {
        self.since.is_empty()
    }

    /// Those that the note in a directory tells of.
    pub(super) fn of(directory: &OwnedFd) -> Self {
        match open(directory) {
            Ok(None) => Doubts::default(),
            Ok(Some(file)) => read(&file).map_or_else(|_| Doubts::of_all(), |n| n.doubts()),
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
        self.of_time(changed(stat))
    }

    /// Whether what was changed at that time is.
    fn of_time(&self, at: Time) -> bool {
        let since = self.since.partition_point(|(since, _)| *since <= at);
        since.checked_sub(1).is_some_and(|last| self.since[last].1)
    }

    /// What two notes say together. The later line holds, whichever of them has it: see [`Above`].
    pub(super) fn and(&self, other: &Doubts) -> Doubts {
        Doubts::new(self.since.iter().chain(&other.since).copied().collect())
    }

    /// Whether something is in doubt here that is not there.
    pub(super) fn exceed(&self, other: &Doubts) -> bool {
        let times = self.since.iter().chain(&other.since).map(|(at, _)| *at);
        times.into_iter().any(|at| self.of_time(at) && !other.of_time(at))
    }

    fn new(mut since: Vec<(Time, bool)>) -> Self {
        // Of two of one time the later one holds.
        since.sort_by_key(|(at, _)| *at);
        since.dedup_by(|next, last| next.1 == last.1);
        Doubts { since }
    }
}

/// What notes in the directories above one say: somebody has written, or writes, a tree of which it is a part.
#[derive(Clone, Default, Debug)]
pub(super) struct Above {
    pub(super) doubts: Doubts,
    /// Somebody writes, or was killed while he did, in this life of the machine: whatever is below may be his.
    pub(super) is_written: bool,
}

impl Above {
    /// Up to `top`, or to the top of the file system, or where nothing can be read.
    pub(super) fn of(directory: &OwnedFd, top: Option<&OwnedFd>) -> Self {
        Above::read(directory, top).unwrap_or_default()
    }

    fn read(directory: &OwnedFd, top: Option<&OwnedFd>) -> Result<Self, Errno> {
        let mut above = Above::default();
        let owner = fstat(directory)?.st_uid;
        each_above(directory, top, |directory| above.add(directory, owner))?;
        Ok(above)
    }

    /// Others may write to directories above: a note counts if it is the system's, this user's or of whoever has the
    /// tree.
    fn add(&mut self, directory: &OwnedFd, owner: u32) {
        let Ok(Some(file)) = open(directory) else { return };
        let is_trusted =
            |user: u32| user == 0 || user == owner || user == rustix::process::geteuid().as_raw();
        let (Ok(stat), Ok(lines)) = (fstat(&file), read(&file)) else { return };
        if is_trusted(stat.st_uid) {
            self.doubts = self.doubts.and(&lines.doubts());
            let last = lines.last();
            self.is_written |= last.is_some_and(|last| last.is_of_this_life());
        }
    }
}

/// Visits the directories above one, up to `top` or the top of its file system. What cannot be opened has no more to say.
pub(super) fn each_above(
    directory: &OwnedFd,
    top: Option<&OwnedFd>,
    mut visit: impl FnMut(&OwnedFd),
) -> Result<(), Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let inode = |directory: &OwnedFd| fstat(directory).map(|stat| (stat.st_dev, stat.st_ino));
    let top = top.map(inode).transpose()?;
    let mut below = inode(directory)?;
    let mut next = openat(directory, "..", flags, Mode::empty());
    while let Ok(directory) = next
        && top != Some(below)
    {
        let here = inode(&directory)?;
        if here.0 != below.0 || here == below {
            break;
        }
        below = here;
        visit(&directory);
        next = openat(&directory, "..", flags, Mode::empty());
    }
    Ok(())
}

/// Opens the note of a directory, if it has one.
fn open(directory: &OwnedFd) -> Result<Option<File>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(directory, UNSYNCED, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        file => file.map(|file| Some(File::from(file))),
    }
}

/// The lines of a note, and its text.
pub(super) struct Lines(pub(super) Vec<(Time, State)>, String);

impl Lines {
    fn doubts(&self) -> Doubts {
        Doubts::new(self.0.iter().map(|(at, state)| (*at, state.is_doubted())).collect())
    }

    /// What it says of what is written now.
    pub(super) fn last(&self) -> Option<State> {
        // Of two of one time the later one holds.
        self.0.iter().max_by_key(|(at, _)| *at).map(|(_, state)| state.clone())
    }

    pub(super) fn text(&self) -> &str {
        &self.1
    }

    /// The same in fewest words, now that all that is not in doubt is on the disk.
    pub(super) fn settled(&self) -> String {
        let state = |is_doubted| if is_doubted { State::Failed } else { State::Synced };
        let since = self.doubts().since.into_iter();
        since.map(|(at, is_doubted)| state(is_doubted).line(at)).collect()
    }
}

/// Reads a note; an error if it is none, or empty.
pub(super) fn read(file: &File) -> io::Result<Lines> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut text = String::new();
    // Of an empty one the bytes never came.
    let len = file.take(MAX_LEN + 1).read_to_string(&mut text)?;
    if !(1..=MAX_LEN).contains(&(len as u64))
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
    Ok(Lines(lines, text))
}
