//! Length of the part of the changelog that says what a version adds.

use crate::finding::Finding;

/// Lines of the list, and characters of a line.
const MAX_LINES: usize = 30;
const MAX_LINE_LEN: usize = 160;

/// Reports a list of additions that nobody reads to its end.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let section = |line: &&str| !line.starts_with("##");
    let added = text.lines().skip_while(|line| *line != "### Added").skip(1).take_while(section);
    let lines: Vec<_> = added.filter(|line| !line.is_empty()).collect();
    let mut findings = Vec::new();
    if lines.len() > MAX_LINES {
        let message = format!("{} lines of additions: {MAX_LINES} are enough", lines.len());
        findings.push(Finding::error(path, message));
    }
    for line in lines.iter().filter(|line| line.chars().count() > MAX_LINE_LEN) {
        let opening: String = line.chars().take(40).collect();
        findings.push(Finding::error(path, format!("a line too long: \"{opening}...\"")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_and_lines_are_reported() {
        let with = |line: &str, count: usize| {
            let list = format!("{line}\n").repeat(count);
            check(
                "C",
                &format!("## Unreleased\n\n### Added\n\n{list}\n### Results changed\n\n{list}"),
            )
        };
        assert_eq!(with("- a", 30), []);
        assert_eq!(with("- a", 31).len(), 1);
        assert_eq!(with(&"a".repeat(161), 2).len(), 2);
    }
}
