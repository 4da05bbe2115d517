//! `--ui` on a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use wellspring_testkit::wait::wait_until;

use crate::support::{Place, program, random_bytes, signal, text};

/// What a terminal is sent when a program takes all of it, and when it gives it back.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// A command whose standard error is a terminal.
struct OnTerminal {
    child: Child,
    shown: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl OnTerminal {
    fn start(args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave: OwnedFd = rustix::fs::open(name, flags, Mode::empty()).expect("open");
        let size = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).expect("a size");
        let mut command = program();
        command.args(args).stdout(Stdio::null()).stderr(slave);
        let child = command.spawn().expect("starts");
        // It has the other end of the terminal, too.
        drop(command);
        let shown = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let (mut terminal, mut buffer) = (File::from(master), [0; 4_096]);
            // It ends with an error when nobody has the other end any more.
            while let Ok(len @ 1..) = terminal.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..len]);
                all.lock().expect("no panic").push_str(&text);
            }
        });
        OnTerminal { child, shown, reader }
    }

    fn has_shown(&self, text: &str) -> bool {
        self.shown.lock().expect("no panic").contains(text)
    }

    /// Its exit status, and what it has shown in and behind the view.
    fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.child.wait().expect("ends");
        self.reader.join().expect("no panic");
        let shown = self.shown.lock().expect("no panic").clone();
        let (before, view) = shown.split_once(ENTER).expect("takes the terminal");
        assert_eq!(before, "");
        let (view, behind) = view.split_once(LEAVE).expect("gives the terminal back");
        (status.code(), view.to_owned(), behind.to_owned())
    }
}

#[test]
fn a_fetch_has_a_row_for_each_host_and_leaves_the_terminal_as_it_was() {
    let place = Place::new();
    let bytes = random_bytes(6_000_000, 1);
    let served = place.replica("served", &bytes);
    let servers = [(); 2].map(|()| place.serve(&served, &["--rate", "100M"]));
    let hosts = servers.each_ref().map(|server| server.address.to_string());
    let (from, to) = (format!("{}/object", hosts.join(",")), place.path("here"));
    let fetch = OnTerminal::start(&["get", &from, "-o", text(&to), "--ui"]);
    let (code, view, behind) = fetch.end();
    assert_eq!(code, Some(0), "{behind}");
    for shown in [&hosts[0], &hosts[1], "share", "sends", "bit/s", "blocks", "█"] {
        assert!(view.contains(shown), "no {shown} in {view:?}");
    }
    assert!(behind.contains("6.0 MB"), "the summary: {behind}");
    assert_eq!(std::fs::read(&to).expect("read"), bytes);
}

#[test]
fn an_interrupted_put_gives_the_terminal_back() {
    let place = Place::new();
    let server = place.serve(&place.dir("taken"), &["--allow-put"]);
    std::fs::write(place.path("object"), random_bytes(5_000_000, 2)).expect("write");
    let (file, host) = (place.path("object"), server.address.to_string());
    let slow = ["--inject-send-rate", "200k", "--ui"];
    let put = OnTerminal::start(&[&["put", text(&file), &host][..], &slow].concat());
    wait_until(|| "no view of a receiver".to_owned(), || put.has_shown("receives"));
    signal(&put.child, Signal::INT);
    let (code, view, behind) = put.end();
    assert_eq!(code, Some(130), "{behind}");
    assert!(view.contains(&host), "{view:?}");
    assert!(behind.contains("interrupted"), "{behind}");
}

#[test]
fn a_view_needs_a_terminal() {
    let output = program().args(["get", "127.0.0.1:1/x", "-o", "x", "--ui"]).output();
    let output = output.expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("not a terminal") && said.contains("--json-progress"), "{said}");
}
