//! Directories that cannot be renamed, and so not give their place to another.

use std::io;
use std::path::Path;

/// Checks that a directory, if it is there, can be renamed. `unready` is a name beside it; what has that is removed.
///
/// # Errors
/// Of kind [`io::ErrorKind::Unsupported`], with the reason; the system's.
pub(super) fn check(directory: &Path, unready: &Path) -> io::Result<()> {
    let unsupported = |reason| Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    if is_mount_point(directory) {
        return unsupported(
            "a mount point, in whose place no other directory can be: name one in it",
        );
    }
    if is_of_an_image(directory, unready)? {
        return unsupported(
            "part of an image that an overlay shows, whose directories cannot be renamed",
        );
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn is_mount_point(directory: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    // Old kernels do not say; then renaming fails.
    statx(CWD, directory, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_point(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| path.symlink_metadata().ok().map(|found| found.dev());
    let above = directory.parent().and_then(device);
    device(directory).is_some_and(|device| above.is_some_and(|above| above != device))
}

/// Whether a directory is a lower one of an overlay (the file systems of containers) that does not redirect them: it can
/// be written to and be removed, but not be renamed.
#[cfg(target_os = "linux")]
fn is_of_an_image(directory: &Path, unready: &Path) -> io::Result<bool> {
    use std::fs;

    use rustix::fs::statfs;
    use rustix::io::Errno;
    const OVERLAYFS: i128 = 0x794c_7630;
    match statfs(directory) {
        Ok(found) if i128::from(found.f_type) == OVERLAYFS => {}
        Ok(_) | Err(Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    }
    // No directory takes the place of one with something in it: that is refused in any case, and how tells.
    fs::create_dir_all(unready.join("occupied"))?;
    let renamed = fs::rename(directory, unready);
    if renamed.is_ok() {
        fs::rename(unready, directory)?;
        return Ok(false);
    }
    fs::remove_dir_all(unready)?;
    Ok(renamed.is_err_and(|error| error.kind() == io::ErrorKind::CrossesDevices))
}

#[cfg(not(target_os = "linux"))]
fn is_of_an_image(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::NextTree;
    use super::*;
    use std::fs;
    use std::process::Command;

    /// What is mounted there; it needs root.
    struct Mounted<'a>(&'a Path);

    impl<'a> Mounted<'a> {
        fn new(arguments: &[&str], at: &'a Path) -> Option<Self> {
            let mounted = Command::new("mount").args(arguments).arg(at).output();
            if mounted.is_ok_and(|output| output.status.success()) {
                return Some(Mounted(at));
            }
            assert!(std::env::var_os("CI").is_none(), "not run: {arguments:?} cannot be mounted");
            println!("NOT TESTED: {arguments:?} (mounting needs root)");
            None
        }
    }

    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }

    fn refusal(directory: &Path) -> String {
        let error = NextTree::beside(directory).expect_err("it cannot be renamed");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        error.to_string()
    }

    #[test]
    fn a_mount_point_is_no_place_for_another_directory_and_one_in_it_is() {
        let home = tempfile::tempdir().expect("a directory");
        let at = |name: &str| home.path().join(name);
        ["volume", "from"].iter().for_each(|name| fs::create_dir(at(name)).expect("made"));
        let (volume, from) = (at("volume"), at("from"));
        let from = from.to_str().expect("UTF-8");
        for arguments in [&["-t", "tmpfs", "none"][..], &["--bind", from]] {
            let Some(_mounted) = Mounted::new(arguments, &volume) else { return };
            assert!(refusal(&volume).contains("mount point"));
            assert_eq!(fs::read_dir(home.path()).expect("a directory").count(), 2);
            fs::create_dir_all(volume.join("models")).expect("made");
            let next = NextTree::beside(&volume.join("models")).expect("a tree beside");
            next.swap(None).expect("swapped");
        }
    }

    #[test]
    fn a_directory_of_a_containers_image_is_refused_and_one_of_its_own_is_not() {
        let home = tempfile::tempdir().expect("a directory");
        let at = |name: &str| home.path().join(name);
        for name in ["lower/image/d", "upper", "work", "shown"] {
            fs::create_dir_all(at(name)).expect("made");
        }
        fs::write(at("lower/image/d/file"), "x").expect("written");
        let [lower, upper, work] =
            ["lower", "upper", "work"].map(|name| at(name).display().to_string());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work},redirect_dir=off");
        let shown = at("shown");
        let Some(_mounted) = Mounted::new(&["-t", "overlay", "-o", &options, "none"], &shown)
        else {
            return;
        };
        assert!(refusal(&shown.join("image")).contains("image that an overlay shows"));
        assert_eq!(fs::read_dir(&shown).expect("a directory").count(), 1);
        assert!(shown.join("image/d/file").exists());
        fs::create_dir(shown.join("own")).expect("made");
        for target in ["own", "none"] {
            let next = NextTree::beside(&shown.join(target)).expect("a tree beside");
            fs::write(next.path().join("new"), "x").expect("written");
            next.swap(None).expect("swapped");
            assert!(shown.join(target).join("new").exists());
        }
    }
}
