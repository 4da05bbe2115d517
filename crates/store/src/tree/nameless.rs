//! Files without a name, which Linux has, and the name that they get.

pub(super) use system::{link, open};

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::path::Path;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
    use rustix::io::Errno;

    use crate::tree::file::OWN_FILES;

    /// A file without a name, if the file system has such files and a name can be given to them.
    pub(in crate::tree) fn open(parent: &OwnedFd, mode: u16) -> Option<File> {
        static IS_GIVEN_NAMES: OnceLock<bool> = OnceLock::new();
        if !IS_GIVEN_NAMES.get_or_init(|| Path::new(OWN_FILES).is_dir()) {
            return None;
        }
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        // Whatever the error, the other way will tell.
        openat(parent, ".", flags, Mode::from_raw_mode(mode.into())).ok().map(File::from)
    }

    /// Links a file by its descriptor, which old kernels let root do alone, or else by its place among the open files.
    pub(in crate::tree) fn link(file: &File, parent: &OwnedFd, name: &str) -> Result<(), Errno> {
        static IS_REFUSED: AtomicBool = AtomicBool::new(false);
        if !IS_REFUSED.load(Ordering::Relaxed) {
            match linkat(file, "", parent, name, AtFlags::EMPTY_PATH) {
                // Also if the directory is gone, which the other way finds, too.
                Err(Errno::NOENT) => IS_REFUSED.store(true, Ordering::Relaxed),
                linked => return linked,
            }
        }
        let path = format!("{OWN_FILES}/{}", file.as_raw_fd());
        linkat(CWD, path, parent, name, AtFlags::SYMLINK_FOLLOW)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use rustix::io::Errno;

    pub(in crate::tree) fn open(_: &OwnedFd, _: u16) -> Option<File> {
        None
    }

    pub(in crate::tree) fn link(_: &File, _: &OwnedFd, _: &str) -> Result<(), Errno> {
        Err(Errno::NOTSUP)
    }
}
