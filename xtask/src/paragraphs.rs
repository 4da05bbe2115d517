//! Length of the paragraphs of prose.
//!
//! A paragraph of more than 100 words is read twice by those who learnt the language in school.

use crate::finding::Finding;

const MAX_WORDS: usize = 100;

/// Whether a file is of the book, or at the top of the tree.
pub fn is_checked(path: &str) -> bool {
    path.starts_with("docs/src/") || !path.contains('/')
}

/// Reports the paragraphs and list items of a Markdown file that are too long. Code, tables and pictures are none.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut words, mut start, mut in_code) = (0, 0, false);
    for (number, line) in (1..).zip(text.lines().chain([""])) {
        let trimmed = line.trim_start();
        let fence = trimmed.starts_with("```");
        let ends =
            fence || trimmed.is_empty() || is_item(trimmed) || trimmed.starts_with(['|', '#']);
        if ends {
            if words > MAX_WORDS {
                let message = format!("a paragraph of {words} words: {MAX_WORDS} are enough");
                findings.push(Finding::error(format!("{path}:{start}"), message));
            }
            words = 0;
        }
        in_code ^= fence;
        if in_code || fence || trimmed.starts_with('|') || trimmed.starts_with("![") {
            continue;
        }
        if words == 0 {
            start = number;
        }
        words += trimmed.split_whitespace().count();
    }
    findings
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || (numbered.len() < line.len() && numbered.starts_with(". "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paragraphs_and_items_are_reported_where_they_begin() {
        let of = |words: usize| "word ".repeat(words);
        let text = format!(
            "# Title\n\n{}\n{}\n\n- {}\n- {}\n\n```\n{}\n```\n| {} |\n![{}](picture)\n\nend {}",
            of(60),
            of(60),
            of(60),
            of(60),
            of(200),
            of(200),
            of(200),
            of(100),
        );
        let places: Vec<_> =
            check("a.md", &text).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["a.md:3", "a.md:15"]);
    }
}
