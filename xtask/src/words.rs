//! Banned words: unfinished markers, tests that do not run, places that exist on one machine only,
//! and private terms for what the field has a word for.

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

/// A private term, written in two parts, and the word that the field uses.
struct Retired {
    /// Words, read in identifiers too, or phrases.
    terms: &'static [&'static str],
    instead: &'static str,
}

const fn retired_term(terms: &'static [&'static str], instead: &'static str) -> Retired {
    Retired { terms, instead }
}

const RETIRED: &[Retired] = &[
    // "Room for" is space, and stays; what is retired is a crate by that name.
    retired_term(
        &[
            concat!("ro", "oms"),
            concat!("a ro", "om"),
            concat!("the ro", "om"),
            concat!("this ro", "om"),
            concat!("each ro", "om"),
            concat!("every ro", "om"),
            concat!("own ro", "om"),
            concat!("other ro", "om"),
        ],
        "crate, module",
    ),
    retired_term(&[concat!("ro", "ad"), concat!("ro", "ads")], "decoding path"),
    retired_term(&[concat!("yard", "stick"), concat!("yard", "sticks")], "baseline"),
    retired_term(&[concat!("err", "and"), concat!("err", "ands")], "make target"),
    retired_term(&[concat!("need", "less")], "redundant"),
    retired_term(&[concat!("de", "sk"), concat!("de", "sks")], "handler"),
    retired_term(&[concat!("ne", "ws")], "event, notification"),
    retired_term(&[concat!("gl", "ue")], "sys"),
    retired_term(&[concat!("ma", "te"), concat!("ma", "tes")], "peer"),
    retired_term(&[concat!("det", "our")], "MTU, TUN"),
    retired_term(&[concat!("unt", "old"), concat!("for", "saken")], "unannounced, abandoned"),
];

/// Reports private terms in code and documents.
pub fn retired(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !is_record(path)) {
        for (index, line) in text.lines().enumerate() {
            let words = words_of(line);
            for term in RETIRED {
                let stands = |word: &&&str| match word.contains(' ') {
                    true => says(line, word),
                    false => words.iter().any(|found| found == **word),
                };
                if let Some(word) = term.terms.iter().find(stands) {
                    let message = format!("`{word}`: the word is {}", term.instead);
                    findings.push(Finding::error(format!("{path}:{}", index + 1), message));
                }
            }
        }
    }
    findings
}

/// Dated records and decisions keep the words of their day.
fn is_record(path: &str) -> bool {
    path.ends_with(".lock") || path.starts_with("bench/record") || path.starts_with("docs/adr/")
}

/// Whether a phrase stands in a line, between spaces or signs.
fn says(line: &str, phrase: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let apart = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
    line.match_indices(phrase).any(|(start, _)| {
        apart(line[..start].chars().next_back())
            && apart(line[start + phrase.len()..].chars().next())
    })
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
    fn a_phrase_is_retired_and_its_word_is_not() {
        let plain = concat!("There is no ro", "om for the ro", "omy symbols.\n");
        assert_eq!(retired(&Tree::of(&[("a.md", plain)])), []);
        let private = concat!("// Banned in every ro", "om.\n").repeat(2);
        assert_eq!(retired(&Tree::of(&[("a.rs", &private)])).len(), 2);
    }

    #[test]
    fn a_private_term_is_reported_with_its_line() {
        let line = format!("struct {};\n", concat!("Err", "and"));
        let found = retired(&Tree::of(&[("a.rs", &format!("\n{line}"))]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "a.rs:2");
        assert_eq!(retired(&Tree::of(&[("docs/adr/1.md", &line)])), []);
    }
}
