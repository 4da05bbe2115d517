//! Directories that their owner may not change, and that let him as long as a tree is written.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access, AtFlags, Mode, accessat, fchmod, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::objects::open_directory_beneath;

/// Directories below one that were given the right to be changed by this process, which owns them, and the modes that they
/// had. They get these back when it is dropped.
#[derive(Debug)]
pub struct Loosened {
    root: Arc<OwnedFd>,
    modes: Mutex<BTreeMap<String, Mode>>,
}

impl Loosened {
    pub(super) fn below(root: &Arc<OwnedFd>) -> Arc<Self> {
        Arc::new(Loosened { root: Arc::clone(root), modes: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Mode>> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is of that directory.
    pub(super) fn is_below(&self, root: &OwnedFd) -> bool {
        let inode = |directory: &OwnedFd| fstat(directory).map(|stat| (stat.st_dev, stat.st_ino));
        inode(&self.root).is_ok_and(|ours| inode(root) == Ok(ours))
    }

    /// Lets this process change a directory of that path, if it owns it and may not.
    pub(super) fn loosen(&self, path: &str, directory: &OwnedFd) {
        let needed = Access::WRITE_OK | Access::EXEC_OK;
        if path.is_empty()
            || accessat(directory, ".", needed, AtFlags::EACCESS) != Err(Errno::ACCESS)
        {
            return;
        }
        let Ok(found) = fstat(directory) else { return };
        let mode = Mode::from_raw_mode(found.st_mode & 0o7777);
        if found.st_uid == geteuid().as_raw() && !mode.contains(Mode::RWXU) {
            // Noted first: another thread must not take the wider one for what it had.
            self.lock().entry(path.to_owned()).or_insert(mode);
            // Whoever may not is told so by what he does next.
            let _ = fchmod(directory, mode | Mode::RWXU);
        }
    }

    /// Lets this process search the directories above a path and look into the one that has it.
    pub(super) fn loosen_way(&self, path: &str) {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for above in ends.map(|end| &path[..end]) {
            if let Ok(directory) = open_directory_beneath(&self.root, above) {
                self.loosen(above, &directory);
            }
        }
    }

    /// A directory has got the mode that it is to have.
    pub(super) fn forget(&self, path: &str) {
        self.lock().remove(path);
    }

    /// Gives all of them the modes that they had, unless somebody has given them others meanwhile.
    pub(super) fn restore(&self) {
        // What is in a directory comes first: that may not be searched any more then.
        for (path, mode) in std::mem::take(&mut *self.lock()).into_iter().rev() {
            // It may be gone.
            let Ok(directory) = open_directory_beneath(&self.root, &path) else { continue };
            let now = fstat(&directory).map(|found| Mode::from_raw_mode(found.st_mode & 0o7777));
            if now == Ok(mode | Mode::RWXU)
                && let Err(error) = fchmod(&directory, mode)
            {
                tracing::warn!(directory = path, %error, "a directory keeps the right to be changed");
            }
        }
    }
}

impl Drop for Loosened {
    fn drop(&mut self) {
        self.restore();
    }
}
