//! A directory whose files are the objects of a host.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, openat};

use rustix::io::Errno;

use super::beneath;
use super::folders::Folders;
use super::memory::Memory;
use super::root::{Root, Way};
use super::stale::{self, Cleaned, PartLimits};
use super::{
    Digest, Disk, Fingerprint, Limits, ObjectName, PartFile, Reservations, StoreError, SystemDisk,
};
use crate::existing::Existing;

/// How often a directory is opened that others make and remove.
const MAKING_ATTEMPTS: usize = 100;

/// A directory whose files are objects.
#[derive(Debug)]
pub struct Store {
    disk: Arc<dyn Disk>,
    root: Arc<Root>,
    folders: Folders,
    reservations: Arc<Reservations>,
    memory: Arc<Memory>,
}

impl Store {
    /// Opens the directory. `limits` bound what is received into it.
    ///
    /// # Errors
    /// It cannot be opened, or is no directory.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, StoreError> {
        Store::open_on(Arc::new(SystemDisk), path, limits)
    }

    /// [`open`](Self::open) on any disk.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(disk: Arc<dyn Disk>, path: &Path, limits: Limits) -> Result<Self, StoreError> {
        let root = Arc::new(Root::open(path)?);
        let reservations = Reservations::new(limits);
        let (folders, memory) = (Folders::new(Arc::clone(&disk)), Arc::default());
        Ok(Store { disk, root, folders, reservations, memory })
    }

    /// Disk space that is promised to objects on their way \[bytes\].
    pub fn reserved(&self) -> u64 {
        self.reservations.bytes()
    }

    /// Where it is, and which directory that is now.
    pub fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// Opens an object for reading.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotRegular`], or the system's error.
    pub fn open_object(&self, name: &ObjectName) -> Result<(File, Fingerprint), StoreError> {
        let file = beneath::open_regular(&self.root.directory(), name)?;
        let fingerprint = Fingerprint::of(&file)?;
        Ok((file, fingerprint))
    }

    /// Brings an object that was opened, and its name, onto the disk: others may have put it in place and not have
    /// come so far.
    ///
    /// # Errors
    /// The system's.
    pub fn sync_object(&self, name: &ObjectName, file: &File) -> Result<(), StoreError> {
        self.disk.sync(file)?;
        Ok(self.disk.sync_directory(&beneath::open_parent(&self.root.directory(), name)?)?)
    }

    /// Opens a directory below it, whose tree is served; the empty path is the directory itself.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotRegular`], or the system's error.
    pub fn open_tree(&self, path: &str) -> Result<OwnedFd, StoreError> {
        let path = if path.is_empty() {
            "."
        } else {
            ObjectName::new(path)?;
            path
        };
        beneath::open_directory_beneath(&self.root.directory(), path).map_err(|errno| match errno {
            Errno::NOENT => StoreError::NotFound(format!("{path}/")),
            Errno::NOTDIR | Errno::LOOP | Errno::XDEV => StoreError::NoDirectory(path.to_owned()),
            errno => errno.into(),
        })
    }

    /// Opens a directory below it, into which a tree is put; what is missing of its path is made. The empty path
    /// is the directory itself.
    ///
    /// # Errors
    /// [`StoreError::NoDirectory`], or the system's error.
    pub fn make_tree(&self, path: &str) -> Result<OwnedFd, StoreError> {
        for _ in 0..MAKING_ATTEMPTS {
            match self.open_tree(path) {
                Err(StoreError::NotFound(_)) => {}
                opened => return opened,
            }
            match self.folders.make_to_stay(&self.root.directory(), path) {
                Ok(()) | Err(StoreError::NoParent(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::NoParent(path.to_owned()))
    }

    /// Makes a part file for an object that is to be received, and the directories that are missing on the way to it.
    /// They are removed again if the object does not come.
    ///
    /// # Errors
    /// What forbids it: an object of that name unless `existing` allows to replace it, the limits,
    /// the space on the disk, or the system.
    pub fn create(
        &self,
        name: &ObjectName,
        size: u64,
        digest: Digest,
        existing: Existing,
    ) -> Result<PartFile, StoreError> {
        self.create_part(name, (size, digest, existing), false, |_| 0)
    }

    /// As [`create`](Self::create), and takes up what an earlier part file of the same object has; the new one
    /// can be taken up as well. See [`PartFile::resumed_beside`]: part files with other bytes stay. What was verified
    /// of it while this store was open need not be verified again: see [`PartFile::remembered`].
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn resume(
        &self,
        name: &ObjectName,
        size: u64,
        digest: Digest,
        existing: Existing,
    ) -> Result<PartFile, StoreError> {
        self.resume_part(name, (size, digest, existing), false)
    }

    /// As [`create`](Self::create), or if `resume` as [`resume`](Self::resume), for a file of a tree, which may be put in
    /// the place of anything but a directory that is not empty: whoever commits it
    /// [makes way](crate::tree::TreeTarget::make_way) before.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn begin_of_tree(
        &self,
        name: &ObjectName,
        object: (u64, Digest, Existing),
        resume: bool,
    ) -> Result<PartFile, StoreError> {
        let takes_any = object.2 == Existing::Replace;
        match resume {
            true => self.resume_part(name, object, takes_any),
            false => self.create_part(name, object, takes_any, |_| 0),
        }
    }

    fn resume_part(
        &self,
        name: &ObjectName,
        object: (u64, Digest, Existing),
        takes_any: bool,
    ) -> Result<PartFile, StoreError> {
        let there = |parent: &OwnedFd| PartFile::left_in(parent, name.file_name(), object.1);
        let part = self.create_part(name, object, takes_any, there)?;
        part.take_up(Some(Arc::clone(&self.memory)))
    }

    /// Makes a part file, of an object that `takes_any` place, or that of another object; `there` tells how much of the
    /// object its directory has already \[bytes\].
    fn create_part(
        &self,
        name: &ObjectName,
        object: (u64, Digest, Existing),
        takes_any: bool,
        there: impl Fn(&OwnedFd) -> u64,
    ) -> Result<PartFile, StoreError> {
        let (size, _, existing) = object;
        for _ in 0..MAKING_ATTEMPTS {
            let (parent, folders) = match self.folders.open(&self.root.directory(), name) {
                Err(StoreError::NoParent(_)) => continue,
                opened => opened?,
            };
            if !takes_any {
                beneath::check_target(&parent, name, existing == Existing::Replace)?;
            }
            let there = there(&parent);
            let reservation = self.reservations.reserve(size, there, &*self.disk, &parent)?;
            let disk = Arc::clone(&self.disk);
            match PartFile::create(disk, parent, name.file_name(), object) {
                // Whoever had made the directory has removed it.
                Err(StoreError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                part => {
                    let way = Way { root: Arc::clone(&self.root), name: name.clone() };
                    return Ok(part?.in_room(reservation, folders).on_way(way));
                }
            }
        }
        Err(StoreError::NoParent(name.parent().unwrap_or_default().to_owned()))
    }

    /// Space for objects on its disk, within the limits, whether it is promised to some or not \[bytes\].
    ///
    /// # Errors
    /// The system's.
    pub fn space(&self) -> Result<u64, StoreError> {
        self.reservations.space(&*self.disk, &self.root.directory())
    }

    /// Removes part files that could be taken up and that nobody works on: what the limits do not
    /// allow, and, the oldest first, as many as it takes to have `wanted` bytes more on the disk, if all are enough for that.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn trim_parts(&self, limits: &PartLimits, wanted: u64) -> io::Result<Cleaned> {
        let root =
            openat(self.root.directory(), ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(stale::trim(&*self.disk, &root, limits, SystemTime::now(), wanted))
    }
}
