//! Files that a crate includes from outside of its folder, which are missing where it is packaged.

use crate::finding::Finding;

/// Sources that do so for tests only, which run in this tree only.
const FOR_TESTS: &[&str] = &["crates/lab/src/fec/peers.rs", "crates/testkit/src/lib.rs"];

/// Reports inclusions in a crate's sources that lead out of the crate.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let Some((_, file)) = path.split_once("/src/").filter(|_| path.starts_with("crates/")) else {
        return Vec::new();
    };
    if FOR_TESTS.contains(&path) {
        return Vec::new();
    }
    let inside = file.matches('/').count() + 1; // steps up that end in the crate's folder
    let out = "../".repeat(inside + 1);
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if ["include_str!(", "include_bytes!("].iter().any(|m| line.contains(m))
            && line.contains(&out)
        {
            let place = format!("{path}:{}", index + 1);
            findings
                .push(Finding::error(place, "includes a file that a package of the crate lacks"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_crate_may_be_included_and_no_other() {
        let inside = "const A: &str = include_str!(\"../../data/a.txt\");\n";
        assert_eq!(check("crates/a/src/b/c.rs", inside), []);
        assert_eq!(check("crates/a/src/b.rs", inside).len(), 1);
        assert_eq!(check("crates/a/tests/b.rs", inside), []);
    }
}
