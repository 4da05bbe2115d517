//! Checks of the workspace that neither the compiler nor clippy makes.
//!
//! `cargo run -p xtask -- check` reads `cargo metadata` and the files git tracks, and reports
//! breaches of the dependency rule ([`levels`]), of what a crate must declare ([`crates`]) and may
//! include ([`inclusions`]), circles between files ([`circles`]), long files ([`sizes`]), broken links
//! between documents ([`links`]), paragraphs and a changelog that are too long ([`paragraphs`], [`changelog`]), module comments that open with a question word ([`comments`]) and
//! banned words ([`words`]). Each check is a function from text to findings, so that its tests need
//! no workspace.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod changelog;
mod circles;
mod comments;
mod crates;
mod finding;
mod inclusions;
mod levels;
mod links;
mod paragraphs;
mod sizes;
mod tree;
mod words;

use std::process::ExitCode;

use finding::Weight;
use tree::Tree;

const USAGE: &str = "\
Checks of the workspace that neither the compiler nor clippy makes.

Usage: cargo run -p xtask -- check     report every breach, fail if there is one
       cargo run -p xtask -- circles   print the files of each crate that depend on each other
       cargo run -p xtask -- levels    print the crates, their levels and what they depend on
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let outcome = match (args.next().as_deref(), args.next()) {
        (Some("check"), None) => check(),
        (Some("levels"), None) => print_levels(),
        (Some("circles"), None) => Tree::open().map(|tree| {
            print!("{}", circles::list(&tree));
            ExitCode::SUCCESS
        }),
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
    findings.extend(crates::check(&tree));
    findings.extend(circles::check(&tree));
    findings.extend(comments::check(&tree));
    findings.extend(words::retired(&tree));
    for (path, text) in tree.texts() {
        if path.ends_with(".rs") {
            findings.extend(sizes::check(path, text));
            findings.extend(inclusions::check(path, text));
        }
        if path.ends_with(".md") {
            findings.extend(links::check(path, text, &tree));
            if path == "CHANGELOG.md" {
                findings.extend(changelog::check(path, text));
            }
            if paragraphs::is_checked(path) {
                findings.extend(paragraphs::check(path, text));
            }
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
