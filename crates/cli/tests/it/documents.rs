//! Statements of the documents about the command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use wellspring_net::socket::SocketConfig;

const WELLSPRING: &str = env!("CARGO_BIN_EXE_wellspring");

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).expect("the document")
}

#[test]
fn the_buffers_recommended_are_those_asked_for() {
    let text = document("docs/src/installing.md");
    let config = SocketConfig::new(([127, 0, 0, 1], 0).into());
    for (name, asked) in
        [("net.core.rmem_max", config.receive_buffer), ("net.core.wmem_max", config.send_buffer)]
    {
        assert!(text.contains(&format!("{name}={asked}")), "{name}: {asked} bytes are asked for");
    }
}

#[test]
fn completions_know_the_flags_and_man_pages_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Command::new(WELLSPRING).args(["completions", shell]).output().expect("runs");
        let script = String::from_utf8_lossy(&script.stdout).into_owned();
        assert!(
            script.contains("inject-loss") && script.contains("maelstrom"),
            "{shell}: {script}"
        );
    }
    let folder = tempfile::tempdir().expect("a directory");
    let written = Command::new(WELLSPRING).arg("man").arg(folder.path()).status().expect("runs");
    assert!(written.success());
    for page in ["wellspring.1", "wellspring-get.1", "wellspring-maelstrom-up.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".SH"), "{page}");
    }
}

/// The text of all Rust files in a directory and below it.
fn sources(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(folder).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).expect("readable");
            found.insert(path, text);
        }
    }
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn tests_that_the_page_of_attackers_names_are_where_it_says() {
    let mut files = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    let page = document("docs/src/security.md");
    let is_test = |word: &&str| {
        word.matches('_').count() > 2
            && word.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    // Letters stand for files, as the sentences before the tables say: `file.rs` (X).
    let mut of_letters = BTreeMap::new();
    for (before, after) in page.match_indices("` (").map(|(at, _)| (&page[..at], &page[at + 3..])) {
        if let (Some((letter, _)), Some((_, file))) =
            (after.split_once(')'), before.rsplit_once('`'))
            && letter.len() == 1
            && file.ends_with(".rs")
        {
            of_letters.insert(letter, file.rsplit('/').next().expect("a name"));
        }
    }
    assert!(of_letters.len() > 5, "{of_letters:?}");
    let mut names = 0;
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let shown_by = line.trim_end_matches('|').rsplit('|').next().expect("a cell");
        let mut file = None;
        let mut rest = shown_by;
        while let Some((words, after)) = rest.split_once('`') {
            let Some((name, after)) = after.split_once('`') else { break };
            let letter = words.split_whitespace().last().and_then(|word| of_letters.get(word));
            // Other words lead elsewhere: "unit tests", "without keys".
            file = letter.or(file.filter(|_| words.trim() == ","));
            if is_test(&name) {
                names += 1;
                let test = format!("fn {name}(");
                let is_there = |(path, text): (&PathBuf, &String)| {
                    file.is_none_or(|file| path.ends_with(file)) && text.contains(&test)
                };
                assert!(files.iter().any(is_there), "{name} in {file:?}: {line}");
            }
            rest = after;
        }
    }
    let all = quoted(&page).filter(is_test).count();
    assert_eq!(names, all, "names outside of the tables are not looked at");
    assert!(names > 50, "{names}");
}
