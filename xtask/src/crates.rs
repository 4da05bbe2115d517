//! Declarations that each crate must have: the lints of its level, the refusal of `unsafe` and of `unwrap`, the tests of its
//! examples.

use crate::finding::Finding;
use crate::levels::{CRATES, Level};
use crate::tree::Tree;

/// The crates that may hold `unsafe`, each in few modules with the argument why it is sound. (`web` has
/// no block of it: names that a module exports are `unsafe` attributes.)
const UNSAFE_CRATES: &[&str] = &["kernels", "driver", "appliance", "isal", "py", "web"];

/// Tests may unwrap. Clippy knows them in a crate's own build for tests only, not by their file.
const NO_UNWRAP: &str = "#![cfg_attr(not(test), deny(clippy::unwrap_used))]";

/// Reports crates whose clippy settings are not those of their level, that allow `unsafe`, or `unwrap`
/// outside of tests, or whose examples no test would run.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for entry in CRATES {
        let short = entry.package.trim_start_matches("wellspring-");
        let folder = match short {
            "fuzz" | "xtask" => short.to_owned(),
            _ => format!("crates/{short}"),
        };
        let Some((root, source)) = ["lib.rs", "main.rs"].iter().find_map(|name| {
            let path = format!("{folder}/src/{name}");
            tree.text(&path).map(|source| (path.clone(), source))
        }) else {
            continue; // a crate that does not exist yet
        };
        if let Level::Product(0..=2) = entry.level {
            let template = match short {
                "sim" => "lints/simulator.toml",
                "store" => "lints/files.toml",
                _ => "lints/pure.toml",
            };
            let settings = format!("{folder}/clippy.toml");
            if tree.text(&settings).is_none() || tree.text(&settings) != tree.text(template) {
                findings.push(Finding::error(settings, format!("must be a link to {template}")));
            }
        }
        findings.extend(untested_examples(tree, &folder));
        if !UNSAFE_CRATES.contains(&short) && !source.contains("#![forbid(unsafe_code)]") {
            findings.push(Finding::error(&root, "must say #![forbid(unsafe_code)]"));
        }
        if !source.contains(NO_UNWRAP) {
            findings.push(Finding::error(root, format!("must say {NO_UNWRAP}")));
        }
    }
    findings
}

/// Examples in the documentation of a crate that has no tests of documentation: for most a program would be built in vain.
fn untested_examples(tree: &Tree, folder: &str) -> Vec<Finding> {
    let manifest = tree.text(&format!("{folder}/Cargo.toml")).unwrap_or_default();
    if !manifest.contains("doctest = false") {
        return Vec::new();
    }
    let sources = format!("{folder}/src/");
    let files = tree.texts().filter(|(path, _)| path.starts_with(&sources));
    let examples = files.filter(|(_, text)| has_example(text));
    examples
        .map(|(path, _)| Finding::error(path, "has an example, and the crate says doctest = false"))
        .collect()
}

/// Whether a comment of documentation has a block of code that is not said to be other text.
fn has_example(text: &str) -> bool {
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let fences = comments.filter_map(|line| line.trim_start().strip_prefix("```"));
    // Every second fence closes a block.
    fences.step_by(2).any(|language| !matches!(language, "text" | "toml" | "sh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAFE: &str =
        "#![forbid(unsafe_code)]\n#![cfg_attr(not(test), deny(clippy::unwrap_used))]\n";
    const UNSAFE: &str = "#![cfg_attr(not(test), deny(clippy::unwrap_used))]\n";

    #[test]
    fn a_crate_with_the_lints_of_its_level_passes() {
        let tree = Tree::of(&[
            ("lints/pure.toml", "bans"),
            ("lints/simulator.toml", "fewer bans"),
            ("crates/wire/src/lib.rs", SAFE),
            ("crates/wire/clippy.toml", "bans"),
            ("crates/sim/src/lib.rs", SAFE),
            ("crates/sim/clippy.toml", "fewer bans"),
            ("crates/driver/src/lib.rs", UNSAFE),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn missing_or_other_lints_are_a_breach() {
        for files in [
            &[("lints/pure.toml", "bans"), ("crates/wire/src/lib.rs", SAFE)][..],
            &[
                ("lints/pure.toml", "bans"),
                ("crates/wire/src/lib.rs", SAFE),
                ("crates/wire/clippy.toml", "no bans"),
            ],
        ] {
            let findings = check(&Tree::of(files));
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].place, "crates/wire/clippy.toml");
        }
    }

    #[test]
    fn a_crate_that_allows_unsafe_is_a_breach_unless_it_is_listed() {
        let tree =
            Tree::of(&[("crates/cli/src/main.rs", UNSAFE), ("crates/kernels/src/lib.rs", UNSAFE)]);
        let places: Vec<_> = check(&tree).into_iter().map(|f| f.place).collect();
        assert_eq!(places, ["crates/kernels/clippy.toml", "crates/cli/src/main.rs"]);
    }

    #[test]
    fn examples_that_no_test_would_run_are_a_breach() {
        let found = |manifest, comment: &str| {
            let tree = Tree::of(&[
                ("crates/cli/src/main.rs", SAFE),
                ("crates/cli/Cargo.toml", manifest),
                ("crates/cli/src/a.rs", comment),
            ]);
            check(&tree).into_iter().map(|f| f.place).collect::<Vec<_>>()
        };
        let without = "[lib]\ndoctest = false\n";
        let (example, picture) =
            ("/// ```\n/// f();\n/// ```\n", "//! ```text\n//! a -> b\n//! ```\n");
        assert_eq!(found(without, example), ["crates/cli/src/a.rs"]);
        assert_eq!(found(without, &format!("{picture}{example}")), ["crates/cli/src/a.rs"]);
        assert_eq!(found(without, picture), [""; 0]);
        assert_eq!(found("", example), [""; 0]);
    }

    #[test]
    fn a_crate_that_may_unwrap_is_a_breach() {
        let tree = Tree::of(&[("crates/cli/src/main.rs", "#![forbid(unsafe_code)]\n")]);
        let messages: Vec<_> = check(&tree).into_iter().map(|f| f.message).collect();
        assert_eq!(messages, [format!("must say {NO_UNWRAP}")]);
    }
}
