//! File sizes: what is long is split by idea.

use crate::finding::Finding;

/// Lines without tests above which a file is worth a look.
const WARN_ABOVE: usize = 600;
/// Lines without tests above which the check fails.
const FAIL_ABOVE: usize = 1_000;

/// Reports a Rust source file that is too long.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let is_test = path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests");
    let lines = if is_test { text.lines().count() } else { lines_without_tests(text) };
    if lines > FAIL_ABOVE && !is_test {
        let message = format!("{lines} lines without tests (limit {FAIL_ABOVE}): split it by idea");
        vec![Finding::error(path, message)]
    } else if lines > if is_test { FAIL_ABOVE } else { WARN_ABOVE } {
        vec![Finding::warning(path, format!("{lines} lines: could it be split by idea?"))]
    } else {
        Vec::new()
    }
}

/// Counts the lines outside items marked `#[cfg(test)]`, in text laid out by rustfmt.
fn lines_without_tests(text: &str) -> usize {
    let mut count = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            count += 1;
            continue;
        }
        // Skip the item: to its end on one line, or to the brace that closes it at its own indent.
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = format!("{indent}}}");
        for inner in lines.by_ref() {
            let on_one_line = inner.ends_with(';')
                && inner.starts_with(indent)
                && !inner[indent.len()..].starts_with(char::is_whitespace);
            if inner == close || on_one_line {
                break;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Weight;

    fn weights(path: &str, lines: usize) -> Vec<Weight> {
        check(path, &"x\n".repeat(lines)).into_iter().map(|f| f.weight).collect()
    }

    #[test]
    fn limits_hold_at_their_edges() {
        assert_eq!(weights("src/a.rs", 600), []);
        assert_eq!(weights("src/a.rs", 601), [Weight::Warning]);
        assert_eq!(weights("src/a.rs", 1_000), [Weight::Warning]);
        assert_eq!(weights("src/a.rs", 1_001), [Weight::Error]);
    }

    #[test]
    fn long_test_files_only_warn() {
        assert_eq!(weights("crates/a/tests/long.rs", 1_000), []);
        assert_eq!(weights("crates/a/tests/long.rs", 5_000), [Weight::Warning]);
        assert_eq!(weights("crates/a/src/foo/tests.rs", 5_000), [Weight::Warning]);
    }

    #[test]
    fn tests_beside_the_code_do_not_count() {
        let text = "\
fn a() {}
#[cfg(test)]
use b::c;
struct D {
    #[cfg(test)]
    fn probe() {
        x;
    }
}
#[cfg(test)]
mod tests {
    fn e() {
    }
}
fn f() {}
";
        assert_eq!(lines_without_tests(text), 4);
    }
}
