//! The program on a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{program, signal};

/// What a terminal is sent when a program takes all of it, and when it gives it back.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// A run of the program on a terminal.
pub struct OnTerminal {
    child: Child,
    keys: File,
    shown: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

/// The two ends of a terminal: who shows it, and who runs on it.
pub fn open() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name, flags, Mode::empty()).expect("open");
    (master, slave)
}

impl OnTerminal {
    /// Starts it; `wire` gives it the terminal as it should have it.
    pub fn start(args: &[&str], wire: impl FnOnce(&mut Command, &dyn Fn() -> OwnedFd)) -> Self {
        let (master, slave) = open();
        let size = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).expect("a size");
        let mut command = program();
        // Whatever terminal the tests have, if any.
        command.args(args).env("TERM", "xterm");
        wire(&mut command, &|| slave.try_clone().expect("a descriptor"));
        let child = command.spawn().expect("starts");
        // They have the other end of the terminal, too.
        drop((command, slave));
        let keys = File::from(master.try_clone().expect("a descriptor"));
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
        OnTerminal { child, keys, shown, reader }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("written");
    }

    pub fn signal(&self, which: Signal) {
        signal(&self.child, which);
    }

    pub fn has_shown(&self, text: &str) -> bool {
        self.shown.lock().expect("no panic").contains(text)
    }

    /// Its exit status, and what it has shown in and behind the view.
    pub fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.child.wait().expect("ends");
        drop(self.keys);
        self.reader.join().expect("no panic");
        let shown = self.shown.lock().expect("no panic").clone();
        let (before, view) = shown.split_once(ENTER).expect("takes the terminal");
        assert_eq!(before, "");
        let (view, behind) = view.split_once(LEAVE).expect("gives the terminal back");
        (status.code(), view.to_owned(), behind.to_owned())
    }
}
