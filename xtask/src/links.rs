//! Links between documents: each leads to a file of the tree, and to a heading that is there.

use crate::finding::Finding;
use crate::tree::Tree;

/// Reports the links of a Markdown document that lead nowhere.
pub fn check(path: &str, text: &str, tree: &Tree) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (line, target) in targets(text) {
        let mut broken =
            |message: String| findings.push(Finding::error(format!("{path}:{line}"), message));
        match target {
            Target::Link(link) => {
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
                let Some(file) = resolve(if file.is_empty() { "" } else { folder }, file) else {
                    broken(format!("link `{link}` leaves the tree"));
                    continue;
                };
                let file = if file.is_empty() { path.to_owned() } else { file };
                if !tree.has(&file) {
                    broken(format!("link `{link}` leads nowhere: there is no {file}"));
                } else if !heading.is_empty()
                    && tree.text(&file).is_some_and(|t| !has_heading(t, heading))
                {
                    broken(format!("link `{link}`: {file} has no such heading"));
                }
            }
            Target::Include(file) => match resolve(folder, &file) {
                Some(found) if tree.has(&found) => {
                    // Read from another folder, a link beside the file would break.
                    let beside = |(_, t): &(usize, Target)| matches!(t, Target::Link(l) if !l.contains("://") && !l.starts_with('#'));
                    if found.ends_with(".md")
                        && let Some((at, _)) =
                            tree.text(&found).and_then(|t| targets(t).into_iter().find(beside))
                    {
                        broken(format!("includes {found}, whose link on line {at} breaks here"));
                    }
                }
                _ => broken(format!("include `{file}` leads nowhere")),
            },
        }
    }
    findings
}

/// What a document points at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// `[text](target)` or `![text](target)`.
    Link(String),
    /// mdBook's include directive.
    Include(String),
}

/// The targets in `text` with their lines, code aside.
fn targets(text: &str) -> Vec<(usize, Target)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(rest) = line.trim().strip_prefix("{{#include ") {
            let file = rest.trim_end_matches("}}").split(':').next().unwrap_or_default();
            found.push((index + 1, Target::Include(file.trim().to_owned())));
            continue;
        }
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => {
                let links = links_in_line(&without_code(line));
                found.extend(links.into_iter().map(|link| (index + 1, Target::Link(link))));
            }
            _ => {}
        }
    }
    found
}

/// `line` with what stands between backticks blanked.
fn without_code(line: &str) -> String {
    let parts: Vec<_> = line.split('`').collect();
    let closed = !parts.len().is_multiple_of(2); // an odd backtick at the end opens nothing
    let last = parts.len() - 1;
    let keep = |i: usize| i.is_multiple_of(2) || (!closed && i == last);
    parts.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, part)| *part).collect()
}

fn links_in_line(line: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find("](") {
        rest = &rest[start + 2..];
        let Some(end) = rest.find(')') else { break };
        let link = rest[..end].split_whitespace().next().unwrap_or_default();
        links.push(link.trim_matches(['<', '>']).to_owned());
        rest = &rest[end..];
    }
    links
}

/// `path` seen from `folder`, from the tree's root; `None` when it leaves the tree.
fn resolve(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Whether a heading of `text` has the anchor `anchor`, made as mdBook and code hosts make it.
fn has_heading(text: &str, anchor: &str) -> bool {
    text.lines().any(|line| {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() {
            // An anchor may also be set by hand.
            return line.contains(&format!("id=\"{anchor}\""));
        }
        let made: String = title
            .trim()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
            .collect();
        made == anchor
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str, others: &[(&str, &str)]) -> Vec<String> {
        let mut files = others.to_vec();
        files.push((path, text));
        check(path, text, &Tree::of(&files)).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn links_to_files_folders_and_headings_resolve() {
        let text = "# One title, here\n[a](b.md) ![p](img/p.svg \"t\") [up](../x.md#a-b) \
                    [own](#one-title-here) [web](https://example.org/x) [dir](img)\n";
        let others =
            [("docs/b.md", ""), ("docs/img/p.svg", "<svg/>"), ("x.md", "text\n## `A` b\n")];
        assert!(messages("docs/a.md", text, &others).is_empty());
    }

    #[test]
    fn broken_links_are_found_with_their_line() {
        let text = "fine\n[a](gone.md)\n";
        let findings = check("docs/a.md", text, &Tree::of(&[("docs/a.md", text)]));
        assert_eq!(findings[0].place, "docs/a.md:2");
        assert_eq!(messages("a.md", "[a](../out.md)", &[]).len(), 1);
        assert_eq!(messages("a.md", "[a](#none)", &[]).len(), 1);
        assert_eq!(messages("a.md", "[a](b.md#none)", &[("b.md", "# Some")]).len(), 1);
    }

    #[test]
    fn code_is_not_read_for_links() {
        let text = "`a[0](x)` and\n```text\n[a](gone.md)\n```\nan odd ` then [b](gone.md)\n";
        assert_eq!(messages("a.md", text, &[]).len(), 1);
    }

    #[test]
    fn an_included_document_must_exist_and_hold_no_link_beside_itself() {
        let text = "{{#include ../../ARCHITECTURE.md}}\n";
        assert_eq!(messages("docs/src/a.md", text, &[]).len(), 1);
        let good = [("ARCHITECTURE.md", "# Top\n[t](#top) [w](https://example.org)")];
        assert!(messages("docs/src/a.md", text, &good).is_empty());
        let bad = [("ARCHITECTURE.md", "[r](README.md)"), ("README.md", "")];
        assert_eq!(messages("docs/src/a.md", text, &bad).len(), 1);
    }
}
