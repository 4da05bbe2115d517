//! Processes of their own that run a test of this program, to be killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A process of its own, of this very program.
pub struct Process {
    child: Child,
    says: std::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts that test of this program, by its path.
    pub fn start(test: &str, role: &str, arguments: &[&str]) -> Process {
        let (_, test) = test.split_once("::").expect("a path in this program");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", test, "--nocapture", "--ignored"])
            .env("ROLE", role)
            .env("ARGUMENTS", arguments.join("\n"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let says = BufReader::new(child.stdout.take().expect("piped")).lines();
        Process { child, says }
    }

    /// What it says after that word.
    pub fn says(&mut self, word: &str) -> String {
        loop {
            let line = self.says.next().expect("it says so before it ends").expect("read");
            if let Some(at) = line.find(word) {
                return line[at + word.len()..].trim().to_owned();
            }
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// As by `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("waited for");
    }
}
