//! Scripts of packaging/, run with stand-ins for the commands that they need: each notes its line, and some fail.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{Place, text};

/// A folder of stand-ins, which comes first in PATH.
struct Commands {
    folder: PathBuf,
    notes: PathBuf,
}

impl Commands {
    fn new(place: &Place) -> Self {
        Commands { folder: place.dir("bin"), notes: place.path("notes") }
    }

    /// Stands in for a command, with a body of its own behind the note.
    fn add(&self, name: &str, body: &str) {
        let path = self.folder.join(name);
        let text = format!("#!/bin/sh\necho \"{name} $*\" >>{}\n{body}\n", text(&self.notes));
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
    }

    fn run(&self, command: &mut Command) -> Output {
        let path = format!("{}:{}", text(&self.folder), std::env::var("PATH").expect("set"));
        command.env("PATH", path).output().expect("runs")
    }

    /// The lines noted since the last look.
    fn noted(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.notes).unwrap_or_default();
        let _ = fs::remove_file(&self.notes);
        text.lines().map(str::to_owned).collect()
    }
}

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

/// A script of the Debian package, for a system that systemd has started.
fn of_package(place: &Place, name: &str) -> PathBuf {
    let maker = fs::read_to_string(packaging("deb")).expect("a file");
    let begin = format!("DEBIAN/{name}\" <<'END'\n");
    let (_, script) = maker.split_once(&begin).unwrap_or_else(|| panic!("no {name}"));
    let (script, _) = script.split_once("\nEND\n").expect("its end");
    let path = place.path(name);
    let systemd = place.dir("systemd");
    fs::write(&path, script.replace("/run/systemd/system", text(&systemd))).expect("written");
    path
}

#[test]
fn a_server_that_does_not_start_again_leaves_the_package_configured() {
    let place = Place::new();
    let commands = Commands::new(&place);
    commands.add("systemd-sysusers", "");
    commands.add("systemctl", "[ \"$1\" != try-restart ]");
    let script = of_package(&place, "postinst");
    let output = commands.run(Command::new("sh").arg(script).args(["configure", "0.0.1"]));
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("journalctl"), "{output:?}");
    assert_eq!(
        commands.noted().last().expect("notes"),
        "systemctl try-restart wellspring-serve.service"
    );
}

#[test]
fn who_removes_the_package_removes_all_its_services() {
    let place = Place::new();
    let commands = Commands::new(&place);
    commands.add("systemctl", "");
    for (name, action, expected) in [
        (
            "prerm",
            "remove",
            &[
                "systemctl disable --now wellspring-serve.service",
                "systemctl stop wellspring-maelstrom@*.service",
                "systemctl disable wellspring-maelstrom@.service",
            ][..],
        ),
        ("prerm", "upgrade", &[]),
        ("postrm", "remove", &["systemctl daemon-reload"]),
        ("postrm", "upgrade", &[]),
    ] {
        let script = of_package(&place, name);
        let output = commands.run(Command::new("sh").arg(script).arg(action));
        assert!(output.status.success(), "{output:?}");
        assert_eq!(commands.noted(), expected, "{name} {action}");
    }
}

#[test]
fn of_two_jobs_that_want_the_same_each_gets_all() {
    let place = Place::new();
    let commands = Commands::new(&place);
    commands.add("logger", "");
    commands.add(
        "scontrol",
        "[ \"$3\" = 1 ] && echo ' Comment=wellspring=a/big' || echo ' Comment=wellspring=a/big,small'",
    );
    // As the command does, where another makes the file meanwhile.
    let get = "mkdir \"$5.part\" 2>/dev/null || exit 8; sleep 1; : >\"$5\"; rmdir \"$5.part\"";
    commands.add("wellspring", get);
    let scratch = place.path("scratch");
    let prolog = |job: &str| {
        let mut command = Command::new("bash");
        command.arg(packaging("slurm/prolog.sh")).env("SLURM_JOB_ID", job);
        let output = commands.run(command.env("WELLSPRING_SCRATCH", &scratch));
        assert!(output.status.success(), "{output:?}");
        job != "2" || scratch.join("small").exists()
    };
    std::thread::scope(|scope| {
        let jobs = ["1", "2", "2"].map(|job| scope.spawn(move || prolog(job)));
        let all_there = jobs.map(|job| job.join().expect("no panic"));
        assert_eq!(all_there, [true; 3]);
    });
    let noted = commands.noted();
    assert!(!noted.iter().any(|line| line.starts_with("logger")), "{noted:?}");
    assert_eq!(noted.iter().filter(|line| line.starts_with("wellspring")).count(), 2, "{noted:?}");
}

#[test]
fn a_jobs_comment_makes_nothing_outside_of_the_scratch() {
    let place = Place::new();
    let commands = Commands::new(&place);
    commands.add("logger", "");
    commands.add("wellspring", "[ \"$3\" != replica/lost ]");
    let scratch = place.path("scratch");
    let prolog = |comment: &str| {
        commands.add("scontrol", &format!("echo '   Comment={comment}'"));
        let script = packaging("slurm/prolog.sh");
        let mut command = Command::new("bash");
        command.arg(script).env("SLURM_JOB_ID", "7").env("WELLSPRING_HOSTS", "replica");
        let output = commands.run(command.env("WELLSPRING_SCRATCH", &scratch));
        // A failure would drain the node.
        assert!(output.status.success(), "{output:?}");
        commands.noted().into_iter().skip(1).collect::<Vec<_>>()
    };
    let fetched = prolog("x wellspring=models/7b,data/");
    let got =
        |name: &str| format!("wellspring get --quiet replica/{name} -o {}/{name}", text(&scratch));
    assert_eq!(fetched, [got("models/7b"), got("data/")]);
    assert!(scratch.join("models").is_dir());
    for name in ["../outside/x", "a/../../outside/x", "/outside/x", "a/.."] {
        let noted = prolog(&format!("wellspring={name}"));
        let refused =
            format!("logger -t wellspring-prolog -- job 7: {name} is no name of an object");
        assert_eq!(noted, [refused]);
    }
    assert!(!place.path("outside").exists() && !scratch.join("a").exists());
    assert_eq!(prolog("wellspring=lost").len(), 2, "tried, and said");
    assert!(prolog("nothing of ours").is_empty());
}
