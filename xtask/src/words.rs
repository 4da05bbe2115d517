//! Words that do not belong in the tree: unfinished markers, tests that do not run, and places that
//! exist on one machine only.

use crate::Finding;

/// A word, the files it is banned from, and why.
struct Ban {
    word: &'static str,
    /// Endings of the paths it is banned from; empty means all.
    only: &'static [&'static str],
    why: &'static str,
}

/// Each word is written in two parts, so that this file does not hold it.
const BANS: &[Ban] = &[
    Ban { word: concat!("todo", "!("), only: &[".rs"], why: "finish it or leave it out" },
    Ban { word: concat!("unimplemented", "!("), only: &[".rs"], why: "finish it or leave it out" },
    Ban { word: concat!("FIX", "ME"), only: &[".rs", ".py"], why: "finish it or leave it out" },
    Ban { word: concat!("dbg", "!("), only: &[".rs"], why: "a debugging aid" },
    Ban { word: concat!("#[ig", "nore]"), only: &[".rs"], why: "give the reason: = \"...\"" },
    Ban { word: concat!("/wo", "rk/"), only: &[], why: "a path of one machine" },
    Ban { word: concat!("/ro", "ot/"), only: &[], why: "a path of one machine" },
    Ban { word: concat!("/fa", "rm/"), only: &[], why: "a path of one machine" },
    Ban { word: concat!("crates", ".io"), only: &[], why: "a package registry's host" },
    Ban { word: concat!("py", "pi.org"), only: &[], why: "a package registry's host" },
    Ban { word: concat!("npm", "js.org"), only: &[], why: "a package registry's host" },
    Ban { word: concat!("deb.debian", ".org"), only: &[], why: "a package registry's host" },
    Ban { word: concat!("proxy.golang", ".org"), only: &[], why: "a package registry's host" },
];

/// Reports each banned word with its line.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    if path.ends_with("Cargo.lock") {
        return Vec::new(); // written by cargo, which names its registry
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for ban in BANS {
            let applies = ban.only.is_empty() || ban.only.iter().any(|end| path.ends_with(end));
            if applies && line.contains(ban.word) {
                let place = format!("{path}:{}", index + 1);
                findings.push(Finding::error(place, format!("`{}`: {}", ban.word, ban.why)));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_banned_word_is_found_with_its_line() {
        for ban in BANS {
            let findings = check("src/a.rs", &format!("fine\n  x {} y\n", ban.word));
            assert_eq!(findings.len(), 1, "{}", ban.word);
            assert_eq!(findings[0].place, "src/a.rs:2");
        }
    }

    #[test]
    fn a_reason_makes_an_ignored_test_acceptable() {
        assert_eq!(check("a.rs", concat!("#[ig", "nore = \"ten minutes; run nightly\"]")), []);
    }

    #[test]
    fn rust_words_are_free_elsewhere_and_lock_files_altogether() {
        assert_eq!(check("a.md", concat!("never leave a todo", "!() behind")), []);
        assert_eq!(check("fuzz/Cargo.lock", concat!("registry+https://x/crates", ".io-index")), []);
    }
}
