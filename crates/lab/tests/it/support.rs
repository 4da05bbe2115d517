//! The real binary, for tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wellspring-lab"));
    command.stdin(Stdio::null()).env_remove("WELLSPRING_LOG");
    command
}

/// The `wellspring` command, which some of this program's commands start. `cargo test --workspace`
/// has built it anew beside this program; a test of this package alone builds it if it is missing.
pub fn wellspring() -> PathBuf {
    let lab = Path::new(env!("CARGO_BIN_EXE_wellspring-lab"));
    let path = lab.with_file_name("wellspring");
    static BUILT: std::sync::Once = std::sync::Once::new();
    BUILT.call_once(|| {
        if path.is_file() {
            return;
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--workspace", "--bin", "wellspring", "--target-dir"]);
        cargo.arg(lab.parent().and_then(Path::parent).expect("cargo's folders"));
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo");
        assert!(status.success(), "`wellspring` does not build");
    });
    path
}

/// A directory for one test.
pub struct Place {
    home: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Place { home: tempfile::tempdir().expect("temporary directory") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.path(name);
        std::fs::create_dir_all(&dir).expect("directory");
        dir
    }
}

/// Names of what is in a directory, hidden files too, sorted.
pub fn listing(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("directory").map(|entry| entry.expect("entry"));
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn signal(child: &Child, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("not zero");
    kill_process(id, signal).expect("signal");
}

/// Arguments cannot be other than UTF-8 in tests.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
