//! Circles between the files of a crate.
//!
//! A file depends on another when its code, tests aside, names something that the other defines. A
//! name that a module only passes on (`pub use`) leads to the file that defines it, so a `mod.rs`
//! that re-exports its children closes no circle with them.

mod graph;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::tree::Tree;
use graph::circles;
use source::Crate;

/// Reports the circles of every crate.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, files) in crates(tree) {
        let found = circles(&Crate::read(&files).dependencies());
        findings.extend(found.iter().map(|circle| Finding::error(&folder, sentence(circle))));
    }
    findings
}

/// The circles of every crate, a line each.
pub fn list(tree: &Tree) -> String {
    let mut lines = String::new();
    for (folder, files) in crates(tree) {
        for circle in circles(&Crate::read(&files).dependencies()) {
            lines.push_str(&format!("{folder}: {}\n", sentence(&circle)));
        }
    }
    lines
}

fn sentence(circle: &BTreeSet<String>) -> String {
    let names: Vec<_> = circle.iter().map(String::as_str).collect();
    format!("a circle of {}", names.join(" "))
}

/// The source files of each crate, by their paths below its `src`.
fn crates(tree: &Tree) -> BTreeMap<String, Vec<(&str, &str)>> {
    let mut crates: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        if let Some((folder, file)) = path.split_once("/src/") {
            crates.entry(folder.to_owned()).or_default().push((file, text));
        }
    }
    crates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn two_files_that_name_each_other_are_a_circle() {
        let files = [
            ("crates/a/src/lib.rs", "mod x;\nmod y;\n"),
            ("crates/a/src/x.rs", "use crate::y::Y;\npub struct X;\n"),
            ("crates/a/src/y.rs", "pub struct Y;\nfn f(_: super::x::X) {}\n"),
        ];
        assert_eq!(messages(&files), ["a circle of x.rs y.rs"]);
    }

    #[test]
    fn a_module_that_passes_names_on_is_in_no_circle() {
        let files = [
            ("crates/a/src/lib.rs", "mod m;\n"),
            ("crates/a/src/m/mod.rs", "mod x;\nmod y;\npub use x::X;\npub(crate) use y::*;\n"),
            ("crates/a/src/m/x.rs", "use super::Y;\npub struct X;\n"),
            ("crates/a/src/m/y.rs", "pub struct Y;\n"),
        ];
        assert!(messages(&files).is_empty());
    }

    #[test]
    fn a_module_whose_child_names_what_it_defines_is_in_a_circle_if_it_uses_the_child() {
        let parent = "mod x;\nuse x::X;\npub struct M(X);\n";
        let child = "use super::M;\npub struct X;\nfn f(_: M) {}\n";
        let files = [("crates/a/src/m/mod.rs", parent), ("crates/a/src/m/x.rs", child)];
        assert_eq!(messages(&files), ["a circle of m/mod.rs m/x.rs"]);
        let unused = [("crates/a/src/m/mod.rs", "mod x;\npub struct M;\n"), files[1]];
        assert!(messages(&unused).is_empty());
    }

    #[test]
    fn tests_comments_and_strings_make_no_dependency() {
        let files = [
            ("crates/a/src/x.rs", "use crate::y::Y;\npub struct X;\n"),
            (
                "crates/a/src/y.rs",
                "//! See `crate::x::X`.\n/// [`crate::x`]\npub struct Y;\nconst S: &str = \"crate::x::X\";\n\
                 #[cfg(test)]\nmod tests {\n    use crate::x::X;\n}\n",
            ),
            ("crates/a/src/lib.rs", "mod x;\nmod y;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/tests.rs", "use crate::x::X;\n"),
        ];
        assert!(messages(&files).is_empty());
    }
}
