//! Checks of a path, and their table.

use std::fmt;

use serde_json::{Map, Value, json};
use wellspring_console::output::table;

/// What a check came to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    Ok,
    /// Transfers work, less well than they could.
    Warning,
    /// A transfer would fail.
    Failure,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failure => "failure",
        })
    }
}

/// One line of the table.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    pub name: &'static str,
    pub verdict: Verdict,
    /// What was found.
    pub finding: String,
    /// What can be done about it.
    pub advice: Option<String>,
    /// What was measured, for programs.
    pub figures: Map<String, Value>,
}

impl Check {
    pub fn ok(name: &'static str, finding: impl Into<String>) -> Self {
        let (verdict, finding) = (Verdict::Ok, finding.into());
        Check { name, verdict, finding, advice: None, figures: Map::new() }
    }

    pub fn warning(name: &'static str, finding: impl Into<String>) -> Self {
        Check { verdict: Verdict::Warning, ..Check::ok(name, finding) }
    }

    pub fn failure(name: &'static str, finding: impl Into<String>) -> Self {
        Check { verdict: Verdict::Failure, ..Check::ok(name, finding) }
    }

    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    #[must_use]
    pub fn figure(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.figures.insert(name.to_owned(), value.into());
        self
    }
}

/// The table for people.
pub fn to_table(checks: &[Check]) -> String {
    let row = |check: &Check| {
        vec![check.name.to_owned(), check.verdict.to_string(), check.finding.clone()]
    };
    let lines = table(&checks.iter().map(row).collect::<Vec<_>>());
    let mut text = String::new();
    for (line, check) in lines.lines().zip(checks) {
        text.push_str(line);
        text.push('\n');
        if let Some(advice) = &check.advice {
            advice.lines().for_each(|line| text.push_str(&format!("    -> {line}\n")));
        }
    }
    text
}

/// The object for programs.
pub fn to_json(host: &str, checks: &[Check]) -> Value {
    let check = |check: &Check| {
        json!({
            "check": check.name,
            "verdict": check.verdict.to_string(),
            "finding": check.finding,
            "advice": check.advice,
            "figures": check.figures,
        })
    };
    json!({
        "host": host,
        "healthy": worst(checks) < Verdict::Failure,
        "checks": checks.iter().map(check).collect::<Vec<_>>(),
    })
}

/// The worst of their verdicts.
pub fn worst(checks: &[Check]) -> Verdict {
    checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_check_and_its_advice_below() {
        let checks = [
            Check::ok("name", "10.0.0.2:4711"),
            Check::warning("datagrams", "at most 1252 bytes")
                .advice("one\ntwo")
                .figure("both", 1_252),
        ];
        let wanted = "name       ok       10.0.0.2:4711\n\
                      datagrams  warning  at most 1252 bytes\n    -> one\n    -> two\n";
        assert_eq!(to_table(&checks), wanted);
        let object = to_json("h", &checks);
        assert_eq!(
            (&object["healthy"], &object["checks"][1]["figures"]["both"]),
            (&json!(true), &json!(1_252))
        );
        assert_eq!(worst(&checks), Verdict::Warning);
        let broken = [checks[0].clone(), Check::failure("port", "closed"), checks[1].clone()];
        assert_eq!(to_json("h", &broken)["healthy"], false);
    }
}
