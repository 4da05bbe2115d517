//! Real processes of the real binary, for tests: servers and transfers that end with their test.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::wait::{PATIENCE, wait_until};

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wellspring"));
    command
        .stdin(Stdio::null())
        .env_remove("WELLSPRING_LOG")
        .env("WELLSPRING_KEYS", "")
        .env("WELLSPRING_CONFIG", "");
    command
}

/// Lets a client speak to other machines without keys.
pub fn in_clear(command: &mut Command) {
    for client in ["GET", "PUT", "LS", "STAT", "VERIFY", "DOCTOR"] {
        command.env(format!("WELLSPRING_{client}_INSECURE"), "1");
    }
}

/// A directory for one test, with a cache of digests of its own.
pub struct Place {
    pub home: tempfile::TempDir,
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

    /// A directory that holds `object` with these bytes.
    pub fn replica(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let dir = self.dir(name);
        std::fs::write(dir.join("object"), bytes).expect("write");
        dir
    }

    pub fn serve(&self, dir: &Path, extra: &[&str]) -> Server {
        self.serve_at(dir, &own_address().to_string(), extra)
    }

    pub fn serve_at(&self, dir: &Path, bind: &str, extra: &[&str]) -> Server {
        let mut command = program();
        command.args(["serve", "--json", "--bind", bind, "--cache"]).arg(self.path("cache"));
        command.args(extra).arg(dir);
        Server::start(command)
    }

    /// A server, started by `command`: the program itself, or what runs it elsewhere.
    pub fn serve_by(&self, mut command: Command, dir: &Path, bind: &str) -> Server {
        command.args(["serve", "--insecure", "--json", "--bind", bind, "--cache"]);
        command.arg(self.path("cache")).arg(dir);
        Server::start(command)
    }
}

/// Writes a file below a directory.
pub fn write(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    std::fs::write(&path, bytes).expect("write");
}

/// Runs the program to its end.
pub fn output(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("runs")
}

pub fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes that do not compress and do not repeat.
pub fn random_bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut stream = wellspring_core::Seed(seed).stream("test");
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&stream.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Names of what is in a directory, hidden files too, sorted.
pub fn listing(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("directory")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Waits until a folder is empty: a process that goes on cleans up behind what it says.
pub fn wait_until_empty(dir: &Path) {
    wait_until(|| format!("left behind: {:?}", listing(dir)), || listing(dir).is_empty());
}

fn follow(stream: impl Read + Send + 'static) -> (Receiver<Value>, JoinHandle<String>) {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        let mut rest = String::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(value) => drop(sender.send(value)),
                Err(_) => rest.push_str(&format!("{line}\n")),
            }
        }
        rest
    });
    (receiver, thread)
}

pub fn signal(child: &Child, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("not zero");
    kill_process(id, signal).expect("signal");
}

pub struct Server {
    child: Child,
    events: Receiver<Value>,
    pub address: SocketAddr,
    /// What it said when it listened.
    pub listening: Value,
}

impl Server {
    /// Starts a server, and learns its address from what it prints.
    pub fn start(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("server starts");
        let (events, _) = follow(child.stdout.take().expect("piped"));
        let (address, listening) = (([0, 0, 0, 0], 0).into(), Value::Null);
        let mut server = Server { child, events, address, listening };
        server.listening = server.wait_for("listening");
        let address = server.listening["address"].as_str().expect("text");
        server.address = address.parse().expect("address");
        server
    }

    /// Waits for an event of that kind.
    pub fn wait_for(&self, kind: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left);
            let event = event.unwrap_or_else(|error| panic!("no `{kind}` of a server: {error}"));
            if event["event"] == kind {
                return event;
            }
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    pub fn pause(&self) {
        signal(&self.child, Signal::STOP);
    }

    pub fn resume(&self) {
        signal(&self.child, Signal::CONT);
    }

    /// Sends it a signal.
    pub fn signal(&self, of: Signal) {
        signal(&self.child, of);
    }

    /// Waits until it ends.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("wait")
    }

    /// The rest of its standard error, of one whose standard error is piped.
    pub fn said(&mut self) -> String {
        let mut said = String::new();
        let mut errors = self.child.stderr.take().expect("piped");
        errors.read_to_string(&mut said).expect("UTF-8");
        said
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(&mut self) -> ExitStatus {
        signal(&self.child, Signal::INT);
        self.child.wait().expect("wait")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `a,b,c` of these servers.
pub fn hosts(servers: &[&Server]) -> String {
    servers.iter().map(|s| s.address.to_string()).collect::<Vec<_>>().join(",")
}

/// `a,b,c/object` of these servers.
pub fn object_at(servers: &[&Server]) -> String {
    format!("{}/object", hosts(servers))
}

/// A `get` or `put` under way.
pub struct Transfer {
    child: Child,
    steps: Receiver<Value>,
    text: RefCell<Option<JoinHandle<String>>>,
    summaries: Receiver<Value>,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub summary: Value,
    pub steps: Vec<Value>,
    pub text: String,
}

impl Ended {
    #[track_caller]
    pub fn success(self) -> Ended {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    pub fn has_step(&self, kind: &str) -> bool {
        self.steps.iter().any(|step| step["event"] == kind)
    }
}

impl Transfer {
    pub fn start(arguments: &[&str]) -> Transfer {
        Transfer::start_by(program(), arguments)
    }

    /// The same by `command`: the program itself, or what runs it elsewhere.
    pub fn start_by(mut command: Command, arguments: &[&str]) -> Transfer {
        command.args(arguments).args(["--json", "--json-progress"]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let (summaries, _) = follow(child.stdout.take().expect("piped"));
        let (steps, text) = follow(child.stderr.take().expect("piped"));
        Transfer { child, steps, text: RefCell::new(Some(text)), summaries }
    }

    /// Waits until that part of the bytes is there, and returns how many are; a transfer that ends before fails the test.
    pub fn wait_for_part(&self, part: f64) -> u64 {
        let step = self.wait_for(|step| {
            let (done, total) = (step["done"].as_f64(), step["total"].as_f64());
            let moving = step["event"] == "moving";
            moving && done.zip(total).is_some_and(|(done, total)| done >= total * part)
        });
        step["done"].as_u64().expect("a number")
    }

    pub fn wait_for_event(&self, kind: &str) -> Value {
        self.wait_for(|step| step["event"] == kind)
    }

    fn wait_for(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let step = self.steps.recv_timeout(PATIENCE).unwrap_or_else(|error| match error {
                RecvTimeoutError::Timeout => panic!("the transfer hangs"),
                RecvTimeoutError::Disconnected => panic!("the transfer ended: {}", self.said()),
            });
            if wanted(&step) {
                return step;
            }
        }
    }

    /// What an ended transfer had to say on standard error.
    fn said(&self) -> String {
        self.text.take().map(|t| t.join().expect("reader")).unwrap_or_default()
    }

    pub fn interrupt(&self) {
        signal(&self.child, Signal::INT);
    }

    /// Kills it without a word, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("running");
        self.child.wait().expect("waited for");
    }

    pub fn end(mut self) -> Ended {
        let until = Instant::now() + PATIENCE;
        let mut steps = Vec::new();
        // The channel closes when the process ends.
        while let Ok(step) =
            self.steps.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            steps.push(step);
        }
        assert!(Instant::now() < until, "the transfer hangs: {:?}", steps.last());
        let status = self.child.wait().expect("wait");
        let text = self.said();
        let summary = self.summaries.iter().last().unwrap_or(Value::Null);
        Ended { code: status.code(), summary, steps, text }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a transfer to its end.
pub fn run(arguments: &[&str]) -> Ended {
    Transfer::start(arguments).end()
}

/// `-o` arguments cannot be other than UTF-8 in tests.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
