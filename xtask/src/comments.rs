//! Module comments that open with a question word.
//!
//! A module comment is a noun phrase that says what the module is ("Calendar-queue event list."); one
//! that opens with "What" or "How" is a riddle until the code is read.

use crate::finding::Finding;
use crate::tree::Tree;

const QUESTION_WORDS: &[&str] =
    &["What", "Who", "Whom", "Whose", "How", "Where", "Which", "When", "Whether", "Why"];

/// Reports the module comments that open with a question word.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let openings = tree.texts().filter_map(|(path, text)| Some((path, opening(path, text)?)));
    let questions = openings.filter(|(_, line)| asks(line));
    let message = |line: &str| format!("say what the module is, not \"{line}\"");
    questions.map(|(path, line)| Finding::error(path, message(line))).collect()
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
    fn comments_that_ask_are_reported() {
        let tree = Tree::of(&[
            ("a.rs", "//! What happens next.\n"),
            ("b.rs", "//! Calendar-queue event list.\n"),
            ("c.rs", "// What is no module comment.\n"),
            ("d.md", "//! What is no source file.\n"),
        ]);
        let places: Vec<_> = check(&tree).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["a.rs"]);
    }
}
