//! A disk that fails: a directory in memory, and beside it what of it would outlive a power cut.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, fstat, statat};
use wellspring_core::RandomStream;

use crate::file_image::{FileImage, State as FileState};
use crate::objects::{NAMES, Object};

/// Probabilities that a call fails, and how much room the disk says it has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// A file cannot be made, locked, read, or its length or mode set.
    pub call: f64,
    /// A write fails; a part of it may be there.
    pub write: f64,
    /// A sync fails.
    pub sync: f64,
    /// A name cannot be changed.
    pub name: f64,
    /// The disk has little room.
    pub full: f64,
    /// A sender gives up, at a step.
    pub sender: f64,
    /// Another session goes on during a call.
    pub interruption: f64,
}

/// A kind of call, by which it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Call,
    Write,
    Sync,
    Name,
}

/// A change of names in a directory that is not on the disk yet.
#[derive(Clone, Debug)]
enum NameChange {
    Add(String, u64),
    Rename(String, String, u64),
    Remove(String),
}

/// Names in a directory, and the numbers of their files.
#[derive(Debug, Default)]
struct Directory {
    path: String,
    live: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    pending: Vec<NameChange>,
    /// Its own name is on the disk.
    is_durable: bool,
}

impl Directory {
    fn apply(names: &mut BTreeMap<String, u64>, change: &NameChange) {
        match change {
            NameChange::Add(name, file) => {
                names.insert(name.clone(), *file);
            }
            NameChange::Rename(from, to, file) => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
        }
    }

    fn change(&mut self, change: NameChange) {
        Directory::apply(&mut self.live, &change);
        self.pending.push(change);
    }

    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            Directory::apply(&mut self.durable, &change);
        }
    }

    /// What a power cut leaves: journals keep the changes up to some moment, other file systems any of them.
    fn after_power_cut(&self, rng: &mut RandomStream) -> BTreeMap<String, u64> {
        let mut names = self.durable.clone();
        let any = rng.chance(0.5);
        let first = rng.below(self.pending.len() as u64 + 1) as usize;
        for (number, change) in self.pending.iter().enumerate() {
            let survives = if any { rng.chance(0.5) } else { number < first };
            if survives {
                Directory::apply(&mut names, change);
            }
        }
        names
    }
}

/// Identity of a file or directory as the system has it.
type Inode = (u64, u64);

struct State {
    rng: RandomStream,
    faults: Faults,
    numbers: BTreeMap<Inode, u64>,
    files: BTreeMap<u64, FileImage>,
    directories: BTreeMap<Inode, Directory>,
    next_file: u64,
    calls: u64,
    power_ends_at: u64,
    is_off: bool,
    /// Files that are synced are not on the disk for good, nor names.
    skips_syncs: bool,
    /// Hash of all calls and their outcomes.
    trace: u64,
    breaches: Vec<String>,
}

/// The disk.
pub(crate) struct VirtualDisk {
    root: PathBuf,
    objects: Vec<Object>,
    state: Mutex<State>,
}

impl fmt::Debug for VirtualDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualDisk").field("root", &self.root).finish_non_exhaustive()
    }
}

/// The error of a process that has died: nobody sees it.
pub(crate) fn died() -> io::Error {
    io::Error::other("the process has died")
}

impl VirtualDisk {
    /// An empty directory at `root` with the directories of the names.
    pub(crate) fn new(root: &Path, objects: Vec<Object>, rng: RandomStream) -> Self {
        let state = State {
            rng,
            faults: Faults::default(),
            numbers: BTreeMap::new(),
            files: BTreeMap::new(),
            directories: BTreeMap::new(),
            next_file: 0,
            calls: 0,
            power_ends_at: u64::MAX,
            is_off: false,
            skips_syncs: false,
            trace: 0xcbf2_9ce4_8422_2325,
            breaches: Vec::new(),
        };
        let disk = VirtualDisk { root: root.to_owned(), objects, state: Mutex::new(state) };
        disk.hold(&[], true);
        disk
    }

    /// Has objects, of the given numbers, under names of theirs, and nothing else but the directory of the names, or
    /// not even that.
    pub(crate) fn hold(&self, held: &[(&str, usize)], has_folder: bool) {
        let state =
            |object: usize| FileState { bytes: self.objects[object].bytes.clone(), mode: 0o644 };
        let files = held.iter().map(|(name, object)| ((*name).to_owned(), state(*object)));
        let folder = has_folder.then(|| ("folder".to_owned(), BTreeMap::new()));
        self.lay_out([(String::new(), files.collect())].into_iter().chain(folder).collect());
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn objects(&self) -> &[Object] {
        &self.objects
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.lock().rng.below(bound)
    }

    pub(crate) fn chance(&self, probability: f64) -> bool {
        self.lock().rng.chance(probability)
    }

    pub(crate) fn random(&self) -> u64 {
        self.lock().rng.next_u64()
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// From now on syncs have no effect, and say that they had.
    pub(crate) fn skip_syncs(&self) {
        self.lock().skips_syncs = true;
    }

    pub(crate) fn skips_syncs(&self) -> bool {
        self.lock().skips_syncs
    }

    /// Bytes that can be written.
    pub(crate) fn free(&self) -> u64 {
        let mut state = self.lock();
        let full = state.faults.full;
        if state.rng.chance(full) { state.rng.below(8_000) } else { 1 << 40 }
    }

    /// Lets the power fail after so many calls more.
    pub(crate) fn end_power_after(&self, calls: u64) {
        let mut state = self.lock();
        state.power_ends_at = state.calls.saturating_add(calls);
    }

    /// Whether the power has failed.
    pub(crate) fn is_off(&self) -> bool {
        self.lock().is_off
    }

    pub(crate) fn calls(&self) -> u64 {
        self.lock().calls
    }

    pub(crate) fn trace(&self) -> u64 {
        self.lock().trace
    }

    /// Notes something that must not be.
    pub(crate) fn breach(&self, what: String) {
        self.lock().breaches.push(what);
    }

    pub(crate) fn breaches(&self) -> Vec<String> {
        self.lock().breaches.clone()
    }

    /// Whether another session is to go on now.
    pub(crate) fn interrupts(&self) -> bool {
        let mut state = self.lock();
        let probability = state.faults.interruption;
        state.rng.chance(probability)
    }

    /// Whether a sender gives up now.
    pub(crate) fn gives_up(&self) -> bool {
        let mut state = self.lock();
        let probability = state.faults.sender;
        state.rng.chance(probability)
    }

    /// A call begins. The power may fail, and the call too.
    pub(crate) fn begin(&self, kind: Kind, says: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.calls += 1;
        let calls = state.calls;
        state.is_off |= calls >= state.power_ends_at;
        let fault = match kind {
            Kind::Call => state.faults.call,
            Kind::Write => state.faults.write,
            Kind::Sync => state.faults.sync,
            Kind::Name => state.faults.name,
        };
        let fails = state.rng.chance(fault);
        let outcome = (fails, state.is_off);
        state.note(says, outcome);
        match outcome {
            (_, true) => Err(died()),
            (true, _) if kind == Kind::Write && state.rng.chance(0.5) => {
                Err(io::ErrorKind::StorageFull.into())
            }
            (true, _) => Err(io::Error::other("the disk failed")),
            _ => Ok(()),
        }
    }

    /// A file was opened for writing, or made.
    pub(crate) fn opened(&self, directory: &impl AsFd, name: &str, file: &File) {
        let (above, inode) = (inode(directory), inode(file));
        let mut state = self.lock();
        let number = state.next_file;
        let Some(directory) = state.directory(above) else { return };
        if directory.live.contains_key(name) {
            return;
        }
        directory.change(NameChange::Add(name.to_owned(), number));
        state.next_file += 1;
        state.numbers.insert(inode, number);
        state.files.insert(number, FileImage::new(0o600));
    }

    /// Changes what is known of a file.
    pub(crate) fn change(
        &self,
        file: &File,
        change: impl FnOnce(&mut FileImage, &mut RandomStream),
    ) {
        let inode = inode(file);
        let mut state = self.lock();
        let state = &mut *state;
        match state.numbers.get(&inode).and_then(|number| state.files.get_mut(number)) {
            Some(image) => change(image, &mut state.rng),
            None => state.breaches.push("a file of somebody else was changed".to_owned()),
        }
    }

    /// The bytes of a file were changed: under an object's name there is an object. Its time is that of the virtual
    /// disk.
    pub(crate) fn written(&self, file: &File) {
        let inode = inode(file);
        let time = Duration::from_secs(1_000_000_000 + self.lock().calls);
        file.set_modified(SystemTime::UNIX_EPOCH + time).expect("a time can be set");
        let named = {
            let state = self.lock();
            let number = state.numbers.get(&inode);
            let mut names = state.directories.values().flat_map(|directory| {
                directory.live.iter().map(|(name, file)| (directory.path_of(name), file))
            });
            let is_final = |path: &String| NAMES.contains(&path.as_str());
            names.find(|(path, file)| Some(*file) == number && is_final(path)).map(|(path, _)| path)
        };
        if let Some(path) = named {
            self.check_name(&path);
        }
    }

    /// A file is read from the disk from now on; its length and time are as before.
    pub(crate) fn drop_cache(&self, file: &File) {
        let meta = file.metadata().expect("an open file");
        self.change(file, |image, _| {
            let mut bytes = image.without_cache();
            bytes.resize(meta.len() as usize, 0);
            file.write_all_at(&bytes, 0).expect("written");
        });
        file.set_modified(meta.modified().expect("a time")).expect("a time can be set");
    }

    /// A file has another name.
    pub(crate) fn renamed(&self, directory: &impl AsFd, from: &str, to: &str) {
        let above = inode(directory);
        let path = {
            let mut state = self.lock();
            let Some(directory) = state.directory(above) else { return };
            let Some(file) = directory.live.get(from).copied() else { return };
            directory.change(NameChange::Rename(from.to_owned(), to.to_owned(), file));
            directory.path_of(to)
        };
        self.check_name(&path);
    }

    pub(crate) fn removed(&self, directory: &impl AsFd, name: &str) {
        let above = inode(directory);
        let mut state = self.lock();
        if let Some(directory) = state.directory(above) {
            directory.change(NameChange::Remove(name.to_owned()));
        }
        if NAMES.iter().any(|of| of.rsplit('/').next() == Some(name)) {
            state.breaches.push(format!("{name} was removed"));
        }
    }

    pub(crate) fn synced(&self, directory: &impl AsFd) {
        let above = inode(directory);
        let mut state = self.lock();
        let Some(directory) = state.directory(above) else { return };
        directory.sync();
        let path = directory.path.clone();
        for below in state.directories.values_mut().filter(|below| below.is_in(&path)) {
            below.is_durable = true;
        }
    }

    /// A directory was made.
    pub(crate) fn made_directory(&self, above: &impl AsFd, name: &str) {
        let made = inode_of(above, name);
        let mut state = self.lock();
        let Some(path) = state.directory(inode(above)).map(|above| above.path_of(name)) else {
            return;
        };
        state.directories.insert(made, Directory { path, ..Directory::default() });
    }

    /// An empty directory was removed. After a power cut it may be there again, which does no harm.
    pub(crate) fn removed_directory(&self, above: &impl AsFd, name: &str) {
        let mut state = self.lock();
        let Some(path) = state.directory(inode(above)).map(|above| above.path_of(name)) else {
            return;
        };
        state.directories.retain(|_, directory| directory.path != path);
    }

    /// The object under a name; a breach if it is none.
    pub(crate) fn check_name(&self, path: &str) -> Option<usize> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        let object = self.objects.iter().position(|object| object.bytes == bytes);
        if object.is_none() {
            self.breach(format!("wrong bytes under the name {path}"));
        }
        object
    }

    /// The power comes back: what a power cut leaves is there. All files must have been closed.
    pub(crate) fn restore_power(&self) {
        let left: Vec<(String, BTreeMap<String, FileState>)> = {
            let mut state = self.lock();
            let State { directories, files, rng, .. } = &mut *state;
            let mut left = Vec::new();
            let mut paths: Vec<&Directory> = directories.values().collect();
            paths.sort_unstable_by_key(|directory| &directory.path);
            // Each file once: two names of one have the same bytes.
            let states: BTreeMap<u64, FileState> =
                files.iter().map(|(number, image)| (*number, image.after_power_cut(rng))).collect();
            let mut lost: Vec<&str> = Vec::new();
            for directory in paths {
                let names = directory.after_power_cut(rng);
                let is_below = |lost: &&str| {
                    directory.path.strip_prefix(lost).is_some_and(|rest| rest.starts_with('/'))
                };
                if !directory.is_durable && rng.chance(0.5) || lost.iter().any(is_below) {
                    lost.push(&directory.path);
                    continue;
                }
                let file =
                    |(name, number): (String, u64)| Some((name, states.get(&number)?.clone()));
                left.push((directory.path.clone(), names.into_iter().filter_map(file).collect()));
            }
            left
        };
        self.lay_out(left);
    }

    /// Has these files in these directories and nothing else, all of it on the disk.
    fn lay_out(&self, directories: Vec<(String, BTreeMap<String, FileState>)>) {
        let mut state = self.lock();
        for entry in fs::read_dir(&self.root).expect("the root is there") {
            let path = entry.expect("an entry").path();
            let removed =
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            removed.expect("removed");
        }
        (state.is_off, state.power_ends_at) = (false, u64::MAX);
        state.numbers.clear();
        state.files.clear();
        state.directories.clear();
        for (path, files) in directories {
            let folder = self.root.join(&path);
            fs::create_dir_all(&folder).expect("a directory");
            let mut names = BTreeMap::new();
            for (name, file) in files {
                let place = folder.join(&name);
                fs::write(&place, &file.bytes).expect("written");
                fs::set_permissions(&place, fs::Permissions::from_mode(file.mode)).expect("mode");
                let number = state.next_file;
                state.next_file += 1;
                let opened = File::open(&place).expect("open");
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + number);
                opened.set_modified(time).expect("time");
                state.numbers.insert(inode(&opened), number);
                state.files.insert(number, FileImage::durable(file));
                names.insert(name, number);
            }
            let inode = inode(&File::open(&folder).expect("open"));
            let (live, durable, pending) = (names.clone(), names, Vec::new());
            let is_durable = true;
            state.directories.insert(inode, Directory { path, live, durable, pending, is_durable });
        }
    }
}

impl State {
    fn note(&mut self, says: &str, outcome: (bool, bool)) {
        let flags = [u8::from(outcome.0), u8::from(outcome.1)];
        for byte in says.bytes().chain(flags) {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// A directory of the store's; anything else is a breach.
    fn directory(&mut self, inode: Inode) -> Option<&mut Directory> {
        let directory = self.directories.get_mut(&inode);
        if directory.is_none() {
            self.breaches.push("a directory outside of the store was changed".to_owned());
        }
        directory
    }
}

impl Directory {
    /// Whether it is a directory in that one.
    fn is_in(&self, above: &str) -> bool {
        let (parent, _) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        !self.path.is_empty() && parent == above
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }
}

/// The identity of what is in a directory.
fn inode_of(above: &impl AsFd, name: &str) -> Inode {
    let stat = statat(above, name, AtFlags::SYMLINK_NOFOLLOW).expect("it is there");
    (stat.st_dev, stat.st_ino)
}

fn inode(file: &impl AsFd) -> Inode {
    let stat = fstat(file).expect("an open file");
    (stat.st_dev, stat.st_ino)
}
