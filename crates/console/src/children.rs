//! Child processes that do not outlive their parent.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::exit::Failed;

/// How long a child is given to start, to say what it is known to say, or to clean up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Children that run, and whether no more may be started.
static CHILDREN: Mutex<(BTreeSet<u32>, bool)> = Mutex::new((BTreeSet::new(), false));

fn children() -> MutexGuard<'static, (BTreeSet<u32>, bool)> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all children; no more can be started.
pub fn kill_all() {
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
pub(crate) struct Owned(Child);

impl Owned {
    pub(crate) fn spawn(command: &mut Command) -> Result<Owned, Failed> {
        let mut children = children();
        if children.1 {
            return Err(Failed::interrupted());
        }
        let program = command.get_program().display().to_string();
        let child = command.spawn().map_err(|error| Failed::system(program, &error))?;
        children.0.insert(child.id());
        Ok(Owned(child))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn output(&mut self) -> Result<ChildStdout, Failed> {
        self.0.stdout.take().ok_or_else(|| Failed::other("a child without output"))
    }

    pub(crate) fn errors(&mut self) -> Result<ChildStderr, Failed> {
        self.0.stderr.take().ok_or_else(|| Failed::other("a child without standard error"))
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus, Failed> {
        let status = self.0.wait();
        children().0.remove(&self.0.id());
        status.map_err(|error| Failed::system("cannot wait for a child", &error))
    }

    pub(crate) fn kill(&mut self) {
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

/// Lines that parse as JSON go to the channel, others to the text that is returned at the end.
pub(crate) fn follow(stream: impl Read + Send + 'static) -> (Receiver<Value>, JoinHandle<String>) {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        let mut rest = String::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                // The receiver may have gone; the pipe is drained all the same.
                Ok(value) => drop(sender.send(value)),
                Err(_) => rest.push_str(&format!("{line}\n")),
            }
        }
        rest
    });
    (receiver, thread)
}

/// Runs a program that reads `input` and prints JSON, a value a line, to its end: those values.
/// `each` is called with every value at once.
///
/// # Errors
/// The program does not start, or fails: what it wrote to standard error.
pub fn rows(
    command: &mut Command,
    input: &str,
    mut each: impl FnMut(&Value),
) -> Result<Vec<Value>, Failed> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Owned::spawn(command)?;
    let (values, _) = follow(child.output()?);
    let (_, complaints) = follow(child.errors()?);
    if let Some(mut stdin) = child.0.stdin.take() {
        // A child that ends without reading all of it says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let rows: Vec<Value> = values.iter().inspect(|value| each(value)).collect();
    let status = child.wait()?;
    if status.success() {
        return Ok(rows);
    }
    let text = complaints.join().unwrap_or_default();
    Err(Failed::other(format!("{status}\n{}", text.trim_end())))
}
