//! The book's tutorial, run as it stands, against what it says one will see.

use std::path::Path;
use std::process::Command;

/// A command of the page, and what it prints there.
struct Step {
    command: String,
    printed: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line.strip_prefix("$ ")) {
            _ if line.starts_with("```") => inside = line == "```console",
            (true, Some(command)) => {
                steps.push(Step { command: command.to_owned(), printed: Vec::new() });
            }
            (true, None) => steps.last_mut().expect("a command").printed.push(line.to_owned()),
            _ => {}
        }
    }
    steps
}

/// One shell script of all steps. A mark follows each; after a server's start it is waited for.
fn script(steps: &[Step]) -> String {
    let mut script = String::from("exec 2>&1; set -m\n");
    for step in steps {
        script.push_str(&step.command);
        script.push('\n');
        if step.command.ends_with(" &") {
            let log = step.command.split("> ").nth(1).expect("a log").split(' ').next();
            let log = log.expect("a name");
            script.push_str(&format!(
                "until grep -qs serving {log} || ! kill -0 $!; do sleep 0.01; done\n"
            ));
        }
        script.push_str("echo; echo ---\n");
    }
    script.push_str("kill $(jobs -p)\n");
    script
}

/// The line without what differs from run to run: numbers and their units, digests, keys, spaces.
fn shape(line: &str) -> String {
    let word = |word: &str| {
        if word.ends_with("/wellspring/cluster:") {
            return "KEY-FILE:".to_owned();
        }
        if ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "ms", "s"].contains(&word.trim_end_matches(','))
        {
            return "UNIT".to_owned();
        }
        let hexadecimal =
            word.len() > 20 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        let digits = word.trim_start_matches('(');
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit()) && !word.contains(':');
        if hexadecimal || word.contains('-') && word.len() > 20 || is_number {
            "N".to_owned()
        } else {
            word.to_owned()
        }
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_tutorial_prints_what_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/tutorial.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let steps = steps(&page);
    assert!(steps.len() > 15, "{}", steps.len());
    let folder = tempfile::tempdir().expect("a directory");
    let program = Path::new(env!("CARGO_BIN_EXE_wellspring")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a path"));
    let output = Command::new("bash")
        .arg("-c")
        .arg(script(&steps))
        .current_dir(folder.path())
        .env("PATH", path)
        .env("HOME", folder.path())
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("WELLSPRING_KEYS")
        .output()
        .expect("bash runs");
    let output = String::from_utf8(output.stdout).expect("text");
    let mut parts = output.split("\n---\n");
    for step in &steps {
        let part = parts.next().unwrap_or_else(|| panic!("{}: nothing", step.command));
        // What the shell says of its jobs is no part of the page, nor whether a host was late with its digest.
        let told = |line: &&str| {
            !(line.is_empty()
                || line.starts_with('[')
                || line.starts_with("bash:")
                || line.ends_with(": takes part now"))
        };
        let printed: Vec<_> = part.lines().filter(told).map(shape).collect();
        let expected: Vec<_> = step.printed.iter().map(|line| shape(line)).collect();
        assert_eq!(printed, expected, "$ {}\n{part}", step.command);
    }
}
