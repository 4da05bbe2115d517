//! Memory that this process may use, as control groups of Linux limit it: what takes more is killed.

use std::path::{Path, PathBuf};

/// Limits from here on are none \[bytes\].
const UNLIMITED: u64 = 1 << 60;

/// The least limit of the control groups of this process \[bytes\]; none if nothing limits it, or where there are none.
pub(crate) fn memory_limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    least(&groups, Path::new("/sys/fs/cgroup"))
}

/// The same by the groups of a process, as `/proc/PID/cgroup` lists them, and by where they are mounted.
fn least(groups: &str, mounted: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        // Of version 2, which may be mounted beside version 1.
        let (roots, file): (&[&str], _) = match controllers {
            "" => (&["", "unified"], "memory.max"),
            some if some.split(',').any(|controller| controller == "memory") => {
                (&["memory"], "memory.limit_in_bytes")
            }
            _ => return None,
        };
        roots.iter().filter_map(|root| least_of(&mounted.join(root), path, file)).min()
    });
    limits.min().filter(|limit| *limit < UNLIMITED)
}

/// The least limit of a group and those above it. In a container the uppermost may be its own, whatever the path says.
fn least_of(root: &Path, path: &str, file: &str) -> Option<u64> {
    let mut group: PathBuf = root.join(path.trim_start_matches('/'));
    let mut least: Option<u64> = None;
    loop {
        let text = std::fs::read_to_string(group.join(file)).unwrap_or_default();
        // `max` is no number.
        if let Ok(limit) = text.trim().parse() {
            least = Some(least.map_or(limit, |least| least.min(limit)));
        }
        if group == root || !group.pop() {
            return least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let home = tempfile::tempdir().expect("a directory");
        let set = |path: &str, text: &str| {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let least = |groups: &str| least(groups, home.path());
        assert_eq!(least("0::/a/b\n"), None);
        set("a/b/memory.max", "max\n");
        assert_eq!(least("0::/a/b\n"), None);
        set("a/memory.max", "300\n");
        set("a/b/c/memory.max", "500\n");
        assert_eq!(least("0::/a/b/c\n"), Some(300));
        // Of version 1, beside groups of other controllers.
        set("memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
        let groups = "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/none\n";
        assert_eq!(least(groups), None);
        set("memory/memory.limit_in_bytes", "200\n");
        assert_eq!(least(groups), Some(200));
        set("unified/none/memory.max", "100\n");
        assert_eq!(least(groups), Some(100));
        assert_eq!(least("nonsense\n::\n1:memory\n"), None);
    }
}
