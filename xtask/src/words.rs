//! Banned words: unfinished markers, tests that do not run, places that exist on one machine only,
//! and private terms for what the field has a word for.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::tree::Tree;

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

/// A private term, its words in two parts, the word that the field uses, and how often it still
/// stands in the tree: a number that only shrinks.
struct Retired {
    words: &'static [&'static str],
    instead: &'static str,
    known: usize,
}

const RETIRED: &[Retired] = &[
    Retired {
        words: &[concat!("ro", "om"), concat!("ro", "oms")],
        instead: "crate, space",
        known: 190,
    },
    Retired {
        words: &[concat!("ro", "ad"), concat!("ro", "ads")],
        instead: "decoding path",
        known: 0,
    },
    Retired {
        words: &[concat!("yard", "stick"), concat!("yard", "sticks")],
        instead: "baseline",
        known: 7,
    },
    Retired {
        words: &[concat!("err", "and"), concat!("err", "ands")],
        instead: "make target",
        known: 0,
    },
    Retired { words: &[concat!("need", "less")], instead: "redundant", known: 58 },
    Retired { words: &[concat!("de", "sk"), concat!("de", "sks")], instead: "handler", known: 0 },
    Retired { words: &[concat!("ne", "ws")], instead: "event, notification", known: 2 },
    Retired { words: &[concat!("gl", "ue")], instead: "sys", known: 14 },
    Retired { words: &[concat!("ma", "te"), concat!("ma", "tes")], instead: "peer", known: 18 },
    Retired { words: &[concat!("det", "our")], instead: "MTU, TUN", known: 1 },
];

/// Reports private terms that stand in code or documents more often than they are known to.
pub fn retired(tree: &Tree) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in tree.texts().filter(|(path, _)| !is_record(path)) {
        for (index, line) in text.lines().enumerate() {
            for word in words_of(line) {
                places.entry(word).or_default().push(format!("{path}:{}", index + 1));
            }
        }
    }
    let mut findings = Vec::new();
    for term in RETIRED {
        let found: Vec<_> =
            term.words.iter().filter_map(|word| places.get(*word)).flatten().collect();
        if found.len() > term.known {
            for place in &found {
                let message = format!("`{}`: the word is {}", term.words[0], term.instead);
                findings.push(Finding::error(*place, message));
            }
        } else if found.len() < term.known {
            println!(
                "xtask: `{}` stands {} times: lower its {} in words.rs",
                term.words[0],
                found.len(),
                term.known
            );
        }
    }
    findings
}

/// Dated records and decisions keep the words of their day.
fn is_record(path: &str) -> bool {
    path.ends_with(".lock") || path.starts_with("bench/record") || path.starts_with("docs/adr/")
}

/// The words of a line in lower case; those of an identifier are words too.
fn words_of(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in line.chars() {
        let ends = !c.is_ascii_alphabetic() || (c.is_ascii_uppercase() && after_lower);
        if ends && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_ascii_alphabetic() {
            words.last_mut().expect("never empty").push(c.to_ascii_lowercase());
        }
        after_lower = c.is_ascii_lowercase();
    }
    words
}

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

    #[test]
    fn identifiers_are_read_word_by_word() {
        let words = words_of("let PortOf_queue = roadmap; // QUEUE");
        assert_eq!(words[..6], ["let", "port", "of", "queue", "roadmap", "queue"]);
    }

    #[test]
    fn a_private_term_is_reported_where_it_is_more_than_known() {
        let line = format!("struct {};\n", concat!("Err", "and"));
        let known = RETIRED.iter().find(|t| t.words[0] == concat!("err", "and")).unwrap().known;
        let more = line.repeat(known + 1);
        assert_eq!(retired(&Tree::of(&[("a.rs", &more)])).len(), known + 1);
        assert_eq!(retired(&Tree::of(&[("a.rs", &line.repeat(known))])), []);
        assert_eq!(retired(&Tree::of(&[("docs/adr/1.md", &more)])), []);
    }
}
