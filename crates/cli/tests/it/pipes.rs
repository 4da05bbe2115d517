//! Pipes with nobody at their other end: a command that waits for one ends by a signal.
#![cfg(target_os = "linux")]

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use wellspring_testkit::wait::wait_until;

use crate::support::{Place, program, signal, text};

fn pipe(place: &Place) -> PathBuf {
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
    pipe
}

/// Whether a process catches SIGTERM, which is signal 15.
fn catches_termination(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> 14 & 1 == 1)
}

/// A command that is killed when its test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Terminates a command that waits for somebody else; gives what it says.
#[track_caller]
fn terminate(arguments: &[&str]) -> String {
    let mut command = program();
    command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().expect("starts"));
    let process = running.0.id();
    wait_until(|| "it catches signals", || catches_termination(process));
    signal(&running.0, Signal::TERM);
    let mut status = None;
    wait_until(
        || format!("{arguments:?} ends"),
        || {
            status = running.0.try_wait().expect("a child");
            status.is_some()
        },
    );
    let mut said = String::new();
    let mut errors = running.0.stderr.take().expect("piped");
    errors.read_to_string(&mut said).expect("UTF-8");
    assert_eq!(status.and_then(|status| status.code()), Some(130), "{arguments:?}: {said}");
    said
}

#[test]
fn a_pipe_that_nobody_reads_or_writes_does_not_keep_a_command_that_is_terminated() {
    let place = Place::new();
    let server = place.serve(&place.replica("served", b"x"), &["--allow-put"]);
    let (pipe, here) = (pipe(&place), place.dir("here"));
    let object = format!("{}/object", server.address);
    for arguments in [
        &["get", &object, "-o", text(&pipe)][..],
        &["verify", text(&here), "--manifest", text(&pipe)],
        // Standard input, which nobody closes.
        &["put", "-", &format!("{}/new", server.address)],
    ] {
        let said = terminate(arguments);
        assert!(said.contains("interrupted; nothing is left behind"), "{arguments:?}: {said}");
    }
}
