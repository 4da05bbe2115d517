//! Module comments that open with a question word.
//!
//! A module comment is a noun phrase that says what the module is ("Calendar-queue event list."); one
//! that opens with "What" or "How" is a riddle until the code is read.

use crate::finding::Finding;
use crate::tree::Tree;

const QUESTION_WORDS: &[&str] =
    &["What", "Who", "Whose", "How", "Where", "Which", "When", "Whether"];
/// Share of the module comments that may open with one \[per cent\].
const LIMIT: usize = 2;

/// Reports the module comments that open with a question word, if they are too many.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let comments: Vec<_> =
        tree.texts().filter_map(|(path, text)| Some((path, opening(path, text)?))).collect();
    let questions: Vec<_> = comments.iter().filter(|(_, line)| asks(line)).collect();
    println!(
        "xtask: {} of {} module comments open with a question word",
        questions.len(),
        comments.len()
    );
    if questions.len() * 100 <= comments.len() * LIMIT {
        return Vec::new();
    }
    let message = |line: &str| format!("say what the module is, not \"{line}\"");
    questions.iter().map(|(path, line)| Finding::error(*path, message(line))).collect()
}

/// The first line of a file's module comment.
fn opening<'a>(path: &str, text: &'a str) -> Option<&'a str> {
    let first = text.lines().next().filter(|_| path.ends_with(".rs"))?;
    first.strip_prefix("//!").map(str::trim)
}

fn asks(line: &str) -> bool {
    line.split(|c: char| !c.is_alphabetic())
        .next()
        .is_some_and(|word| QUESTION_WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_that_ask_are_reported_when_they_are_too_many() {
        let tree = Tree::of(&[
            ("a.rs", "//! What happens next.\n"),
            ("b.rs", "//! Calendar-queue event list.\n"),
            ("c.rs", "// What is no module comment.\n"),
            ("d.md", "//! What is no source file.\n"),
        ]);
        let places: Vec<_> = check(&tree).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["a.rs"]);
    }

    #[test]
    fn a_few_pass() {
        let mut files = vec![("x.rs", "//! How it works.\n")];
        let names: Vec<String> = (0..99).map(|number| format!("{number}.rs")).collect();
        files.extend(names.iter().map(|name| (name.as_str(), "//! Whatever: a noun phrase.\n")));
        assert_eq!(check(&Tree::of(&files)), []);
    }
}
