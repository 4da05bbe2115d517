//! The checks of the house that neither the compiler nor clippy makes.
//!
//! `cargo run -p xtask -- check` reads `cargo metadata` and the files git tracks, and reports every
//! breach of the dependency rule ([`levels`]), of what a room must carry ([`rooms`]), of file sizes
//! ([`sizes`]), of links between documents ([`links`]) and of words that do not belong in the tree
//! ([`words`]). Each check is a function from text to findings, so that its tests need no workspace.

#![forbid(unsafe_code)]

mod levels;
mod links;
mod rooms;
mod sizes;
mod tree;
mod words;

use std::fmt;
use std::process::ExitCode;

use tree::Tree;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// Worth a look; the check still passes.
    Warning,
    /// The check fails.
    Error,
}

/// One breach, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    weight: Weight,
    place: String,
    message: String,
}

impl Finding {
    fn error(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { weight: Weight::Error, place: place.into(), message: message.into() }
    }

    fn warning(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { weight: Weight::Warning, place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            Weight::Warning => "warning",
            Weight::Error => "error",
        };
        write!(f, "{weight}: {}: {}", self.place, self.message)
    }
}

const USAGE: &str = "\
The checks of the house that neither the compiler nor clippy makes.

Usage: cargo run -p xtask -- check     report every breach, fail if there is one
       cargo run -p xtask -- levels    print the rooms, their levels and what they depend on
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let outcome = match (args.next().as_deref(), args.next()) {
        (Some("check"), None) => check(),
        (Some("levels"), None) => print_levels(),
        (Some("help" | "--help" | "-h"), None) => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("{USAGE}");
            Ok(ExitCode::from(2))
        }
    };
    outcome.unwrap_or_else(|problem| {
        eprintln!("xtask: {problem}");
        ExitCode::from(2)
    })
}

fn check() -> Result<ExitCode, String> {
    let tree = Tree::open()?;
    let mut findings = levels::check(&tree.packages()?);
    findings.extend(rooms::check(&tree));
    for (path, text) in tree.texts() {
        if path.ends_with(".rs") {
            findings.extend(sizes::check(path, text));
        }
        if path.ends_with(".md") {
            findings.extend(links::check(path, text, &tree));
        }
        findings.extend(words::check(path, text));
    }
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|f| f.weight == Weight::Error).count();
    println!(
        "xtask: {} files read, {errors} errors, {} warnings",
        tree.len(),
        findings.len() - errors
    );
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_levels() -> Result<ExitCode, String> {
    let tree = Tree::open()?;
    print!("{}", levels::table(&tree.packages()?));
    Ok(ExitCode::SUCCESS)
}
