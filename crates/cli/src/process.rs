//! Child processes, most of them this same program, for the demo, the benchmarks and the figures.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::exit::Failed;

/// How long a server is given to start, or to say what it is known to say, and a child to clean up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Children that run, and whether no more may be started.
static CHILDREN: Mutex<(BTreeSet<u32>, bool)> = Mutex::new((BTreeSet::new(), false));

fn children() -> MutexGuard<'static, (BTreeSet<u32>, bool)> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all children; no more can be started.
pub fn stop_all() {
    signal_all(Signal::KILL);
}

/// Asks all children to clean up and end, and waits for that; no more can be started.
pub fn end_all() {
    signal_all(Signal::TERM);
    let until = Instant::now() + PATIENCE;
    while !children().0.is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal_all(signal: Signal) {
    let mut children = children();
    children.1 = true;
    for id in &children.0 {
        let id = i32::try_from(*id).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            // Not waited for yet, so the number is still the child's.
            let _ = kill_process(id, signal);
        }
    }
}

/// A child that does not outlive its owner.
struct Owned(Child);

impl Owned {
    fn spawn(command: &mut Command) -> Result<Owned, Failed> {
        let mut children = children();
        if children.1 {
            return Err(Failed::interrupted());
        }
        let child = command.spawn()?;
        children.0.insert(child.id());
        Ok(Owned(child))
    }

    fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.0.wait();
        children().0.remove(&self.0.id());
        status
    }

    fn kill(&mut self) {
        // Fails only if it has ended already.
        let _ = self.0.kill();
        let _ = self.wait();
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program() -> Result<Command, Failed> {
    let path = std::env::current_exe()
        .map_err(|error| Failed::other(format!("cannot find my own program: {error}")))?;
    Ok(Command::new(path))
}

/// Lines that parse as JSON go to the channel, others to the text that is returned at the end.
fn follow(stream: impl Read + Send + 'static) -> (Receiver<Value>, JoinHandle<String>) {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        let mut rest = String::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                // Whoever listened may have gone; the pipe is drained all the same.
                Ok(value) => drop(sender.send(value)),
                Err(_) => rest.push_str(&format!("{line}\n")),
            }
        }
        rest
    });
    (receiver, thread)
}

/// A `wellspring serve` on loopback.
pub struct ServerProcess {
    child: Owned,
    pub address: SocketAddr,
    pub dir: PathBuf,
    events: Receiver<Value>,
}

impl ServerProcess {
    /// Starts a server of `dir` and waits until it listens.
    pub fn start(dir: &Path, cache: &Path, extra: &[&str]) -> Result<Self, Failed> {
        let mut command = program()?;
        command.args(["serve", "--json", "--bind", "127.0.0.1:0", "--cache"]);
        command.arg(cache).args(extra).arg(dir);
        let mut child = Owned::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let stdout = child.0.stdout.take();
        let stdout = stdout.ok_or_else(|| Failed::other("a child without output"))?;
        let (events, _) = follow(stdout);
        let unspecified = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = ServerProcess { child, address: unspecified, dir: dir.to_owned(), events };
        let event = server.wait_for("listening")?;
        server.address = event["address"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Failed::other("a server did not say where it listens"))?;
        Ok(server)
    }

    /// Waits for an event of that kind.
    pub fn wait_for(&self, kind: &str) -> Result<Value, Failed> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(event) if event["event"] == kind => return Ok(event),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let dir = self.dir.display();
                    return Err(Failed::other(format!("the server of {dir} never said `{kind}`")));
                }
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Kills it on the spot, as a power failure would.
    pub fn kill(&mut self) {
        self.child.kill();
    }
}

/// What a `get` or `put` came to.
pub struct Ended {
    pub status: ExitStatus,
    /// Its summary.
    pub summary: Value,
    /// What it said besides.
    pub text: String,
}

impl Ended {
    /// The summary, or what went wrong.
    pub fn success(self) -> Result<Value, Failed> {
        if self.status.success() {
            Ok(self.summary)
        } else {
            Err(Failed::other(format!("{}\n{}", self.status, self.text.trim_end())))
        }
    }
}

/// Runs a `get` or `put` to its end; `progress` hears of every step.
pub fn transfer<S: AsRef<OsStr>>(
    arguments: &[S],
    mut progress: impl FnMut(&Value),
) -> Result<Ended, Failed> {
    let mut command = program()?;
    command.args(arguments).args(["--json", "--json-progress"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Owned::spawn(&mut command)?;
    let pipes = (child.0.stdout.take(), child.0.stderr.take());
    let (Some(stdout), Some(stderr)) = pipes else {
        return Err(Failed::other("a child without output"));
    };
    let (summaries, _) = follow(stdout);
    let (steps, text) = follow(stderr);
    for step in steps {
        progress(&step);
    }
    let status = child.wait()?;
    let summary = summaries.iter().last().unwrap_or(Value::Null);
    let text = text.join().unwrap_or_default();
    Ok(Ended { status, summary, text })
}

/// Runs a program that reads `input` and prints JSON, a value a line, to its end: those values;
/// `heard` is told of each at once.
pub fn rows(
    command: &mut Command,
    input: &str,
    mut heard: impl FnMut(&Value),
) -> Result<Vec<Value>, Failed> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Owned::spawn(command)?;
    let pipes = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(Failed::other("a child without input and output"));
    };
    let (values, _) = follow(stdout);
    let (_, complaints) = follow(stderr);
    // A child that ends without reading all of it says why.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let rows: Vec<Value> = values.iter().inspect(|value| heard(value)).collect();
    let status = child.wait()?;
    if status.success() {
        return Ok(rows);
    }
    let text = complaints.join().unwrap_or_default();
    Err(Failed::other(format!("{status}\n{}", text.trim_end())))
}

/// CPU time a process has used so far, in user and kernel mode \[s\]; `None` for our own process.
pub fn cpu_seconds(process: Option<u32>) -> Option<f64> {
    let name = process.map_or("self".to_owned(), |id| id.to_string());
    let stat = std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
    // The second field may hold blanks and parentheses; the ones that follow do not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The most memory our own process has had in use \[bytes\].
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    Some(kib * 1_024)
}
