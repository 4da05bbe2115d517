//! Directory and notes of a tree, shared by all who write it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(target_os = "linux")]
use rustix::fs::{Mode, open, syncfs};

use super::doubts::{Above, Doubts, each_above};
#[cfg(target_os = "linux")]
use super::file::READ;
use super::file::time_step;
use super::loosened::Loosened;
#[cfg(target_os = "linux")]
use super::mounts::mounted_below;
use super::unsynced::{Note, doubt, forget, has_note};
use crate::objects::open_directory_beneath;

/// The directory of a tree that is written, and its notes.
#[derive(Debug)]
pub(super) struct Writers {
    pub(super) root: Arc<OwnedFd>,
    /// The steps in which it keeps times \[ns\].
    pub(super) time_step: u32,
    /// Which files may not be on the disk, as notes in it and above said when it was opened.
    doubts: Doubts,
    /// The same, as the note in it alone said.
    noted_here: Doubts,
    /// Notes above.
    above: Above,
    /// Directories below it that have notes of their own, and what these said first.
    noted: Mutex<BTreeMap<String, Doubts>>,
    pub(super) note: Note,
    settle_when_dropped: AtomicBool,
    pub(super) loosened: Arc<Loosened>,
}

impl Writers {
    /// Those of a directory, of which notes above `top`, one of the directories above it, say nothing.
    pub(super) fn of(root: OwnedFd, top: Option<&OwnedFd>) -> Self {
        let above = Above::of(&root, top);
        let noted_here = Doubts::of(&root);
        let root = Arc::new(root);
        Writers {
            loosened: Loosened::below(&root),
            doubts: noted_here.and(&above.doubts),
            noted_here,
            above,
            time_step: time_step(&root),
            root,
            noted: Mutex::default(),
            note: Note::default(),
            settle_when_dropped: AtomicBool::new(false),
        }
    }

    pub(super) fn settle_when_dropped(&self) {
        self.settle_when_dropped.store(true, Ordering::Relaxed);
    }

    pub(super) fn doubts(&self) -> &Doubts {
        &self.doubts
    }

    /// What the notes on the way to a directory say.
    pub(super) fn doubts_below(&self, directory: &str) -> Doubts {
        let mut doubts = self.doubts.clone();
        let ends = directory.match_indices('/').map(|(end, _)| end).chain([directory.len()]);
        for path in ends.map(|end| &directory[..end]) {
            let Ok(opened) = open_directory_beneath(&self.root, path) else { break };
            let of_this = Doubts::of(&opened);
            if !of_this.says_nothing() {
                doubts = doubts.and(&of_this);
                let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
                noted.entry(path.to_owned()).or_insert(of_this);
            }
        }
        doubts
    }

    pub(super) fn begin(&self) -> io::Result<()> {
        self.note.begin(&self.root)
    }

    /// Waits until what was written is on the disk: also where other file systems are mounted below it, whoever has
    /// written there.
    #[cfg(target_os = "linux")]
    pub(super) fn sync(&self) -> io::Result<()> {
        syncfs(&self.root)?;
        let Ok(mounted) = mounted_below(&self.root) else {
            // Whatever there is, though no failure is told.
            rustix::fs::sync();
            return Ok(());
        };
        let mut is_open = true;
        for path in mounted {
            match open(&path, READ, Mode::empty()) {
                Ok(root) => syncfs(root)?,
                Err(_) => is_open = false,
            }
        }
        if !is_open {
            rustix::fs::sync();
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn sync(&self) -> io::Result<()> {
        rustix::fs::sync();
        Ok(())
    }

    /// Waits until all that was written is on the disk, and notes how that went.
    pub(super) fn settle(&self, leaves_doubts: bool) -> io::Result<()> {
        let is_doubted_above = !self.above.doubts.is_none() && !self.above.is_written;
        let leaves_note = leaves_doubts || is_doubted_above;
        let (sync, others_failed) = (|| self.sync(), || self.has_new_doubts());
        let ended = self.note.end(&self.root, sync, others_failed, leaves_note);
        self.after_end(&ended, leaves_doubts);
        ended
    }

    /// Whether something in it is in doubt that was not when it was opened, or looked at first.
    fn has_new_doubts(&self) -> bool {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |(path, known): (&String, &Doubts)| {
            let directory = open_directory_beneath(&self.root, path);
            directory.is_ok_and(|directory| Doubts::of(&directory).exceed(known))
        };
        Doubts::of(&self.root).exceed(&self.noted_here)
            || Above::of(&self.root, None).doubts.exceed(&self.above.doubts)
            || noted.iter().any(is_new)
    }

    pub(super) fn settle_what_was_left(&self) -> io::Result<()> {
        match has_note(&self.root)? {
            true => self.settle(self.has_doubts()),
            false => Ok(()),
        }
    }

    /// Whether anything was in doubt when it was opened, or below it.
    fn has_doubts(&self) -> bool {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        !self.doubts.is_none() || !noted.is_empty()
    }

    /// Has the notes above and below it say what its end means for them.
    pub(super) fn after_end(&self, ended: &io::Result<()>, leaves_doubts: bool) {
        if ended.is_ok() && leaves_doubts {
            return;
        }
        let noted = std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        for path in noted.into_keys() {
            let directory = open_directory_beneath(&self.root, &path).map_err(io::Error::from);
            // What it said is no longer true, and somebody else's may stay; or it is the first error that matters.
            let _ = directory.and_then(|directory| match ended {
                Ok(()) => forget(&directory),
                Err(_) => doubt(&directory),
            });
        }
        if ended.is_err() {
            let _ = each_above(&self.root, None, |directory| {
                let _ = doubt(directory);
            });
        }
    }
}

impl Drop for Writers {
    /// Settles what was written until they were stopped. What was in doubt before stays so: not all was written again.
    fn drop(&mut self) {
        if !*self.settle_when_dropped.get_mut() || !self.note.is_begun() {
            return;
        }
        if let Err(error) = self.settle(self.has_doubts()) {
            tracing::warn!(%error, "files may not be on the disk: they are moved again next time");
        }
    }
}
