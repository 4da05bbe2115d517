//! Trees of files for tests, and what is in them.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use wellspring_testkit::random_bytes;

pub fn write(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    std::fs::write(&path, bytes).expect("write");
}

/// The power went off before what lies in a directory was on the disk: the small files have other bytes, and what else
/// they are to have. How many they are.
pub fn lose_small_files(root: &Path) -> u64 {
    let is_small = |meta: &std::fs::Metadata| meta.is_file() && (1..1 << 20).contains(&meta.len());
    let (mut todo, mut lost) = (vec![root.to_owned()], 0);
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).expect("directory") {
            let path = entry.expect("entry").path();
            let meta = path.symlink_metadata().expect("stat");
            if meta.is_dir() {
                todo.push(path);
            } else if is_small(&meta) {
                std::fs::write(&path, vec![0; meta.len() as usize]).expect("write");
                let file = std::fs::File::options().write(true).open(&path).expect("open");
                file.set_modified(meta.modified().expect("a time")).expect("time");
                lost += 1;
            }
        }
    }
    std::fs::write(root.join(NOTE), "0 0 an-earlier-life-of-the-machine\n").expect("write");
    lost
}

/// The note in a directory of what may not be on the disk.
pub const NOTE: &str = ".wellspring-unsynced";

/// A tree with a large file, small ones, empty ones, links and directories.
pub fn make_tree(root: &Path) {
    write(root, "large", &random_bytes(3_000_000, 1));
    for number in 0..300 {
        write(root, &format!("many/{:02}/{number}", number % 7), &random_bytes(number, 2));
    }
    write(root, "deep/a/b/c/d", b"deep");
    std::fs::create_dir(root.join("void")).expect("directory");
    symlink("../large", root.join("deep/link")).expect("link");
    let mode = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(root.join("deep/a"), mode).expect("mode");
    let file = std::fs::File::options().write(true).open(root.join("large")).expect("open");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789))
        .expect("time");
}

/// What is below a directory: kind, mode, digest of the bytes or of the target, and time of each.
pub fn contents(root: &Path) -> BTreeMap<String, (String, u32, String, Option<SystemTime>)> {
    let mut all = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).expect("directory") {
            let path = entry.expect("entry").path();
            let meta = path.symlink_metadata().expect("stat");
            let name = path.strip_prefix(root).expect("below").display().to_string();
            let mode = meta.permissions().mode() & 0o777;
            let (kind, bytes) = if meta.is_dir() {
                todo.push(path.clone());
                ("directory", Vec::new())
            } else if meta.is_symlink() {
                let target = std::fs::read_link(&path).expect("link");
                ("link", target.as_os_str().as_encoded_bytes().to_vec())
            } else {
                ("file", std::fs::read(&path).expect("read"))
            };
            let digest = blake3::hash(&bytes).to_hex().to_string();
            all.insert(name, (kind.to_owned(), mode, digest, meta.modified().ok()));
        }
    }
    all
}
