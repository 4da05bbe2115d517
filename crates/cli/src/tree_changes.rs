//! Changes of a directory by a transfer that is tried: for people as they are heard, for programs in the account.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use wellspring_client::TreeChange;
use wellspring_console::output::Stdout;
use wellspring_console::units::bytes;

use crate::tree_args::plain;

/// The changes of a dry run.
pub struct Changes {
    /// What is done to files that differ: `fetch` or `send`.
    moves: &'static str,
    use_of: Use,
    /// JSON objects, with a comma between them: for a million files their texts alone are kept.
    kept: Mutex<String>,
}

/// What becomes of changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Nothing,
    Shown,
    Kept,
}

/// The hosts of a change: those at which something is done, of so many.
pub type AtHosts<'a> = (&'a [String], usize);

impl Changes {
    /// Of a transfer that is a dry run, with this output, or that is not.
    pub fn new(moves: &'static str, dry_run: bool, (quiet, json): (bool, bool)) -> Self {
        let use_of = match (dry_run, json) {
            (true, true) => Use::Kept,
            (true, false) if !quiet => Use::Shown,
            _ => Use::Nothing,
        };
        Changes { moves, use_of, kept: Mutex::default() }
    }

    /// Hears of a change, here or at hosts.
    pub fn hear(&self, change: &TreeChange, hosts: Option<AtHosts<'_>>) {
        match self.use_of {
            Use::Nothing => {}
            Use::Shown => {
                if let Some(line) = self.line(change, hosts) {
                    // A reader who has seen enough.
                    let _ = writeln!(Stdout, "{line}");
                }
            }
            Use::Kept => {
                if let Some(object) = self.object(change, hosts) {
                    let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                    let comma = if kept.is_empty() { "" } else { "," };
                    kept.push_str(&format!("{comma}{object}"));
                }
            }
        }
    }

    fn line(&self, change: &TreeChange, hosts: Option<AtHosts<'_>>) -> Option<String> {
        let moves = self.moves;
        let line = match change {
            TreeChange::Made(path) => format!("make    {}", plain(path)),
            TreeChange::Fetched(path, size) => {
                format!("{moves:<7} {} ({})", plain(path), bytes(*size))
            }
            TreeChange::Removed(path) => format!("remove  {}", plain(path)),
            TreeChange::Skipped(path, reason) => format!("skip    {}: {reason}", plain(path)),
            _ => return None,
        };
        // Where the same is done at all, nobody needs to be named.
        Some(match hosts {
            Some((at, all)) if at.len() < all => format!("{line} at {}", at.join(", ")),
            _ => line,
        })
    }

    fn object(&self, change: &TreeChange, hosts: Option<AtHosts<'_>>) -> Option<Value> {
        let mut object = match change {
            TreeChange::Made(path) => json!({"change": "make", "path": path}),
            TreeChange::Fetched(path, size) => {
                json!({"change": self.moves, "path": path, "bytes": size})
            }
            TreeChange::Removed(path) => json!({"change": "remove", "path": path}),
            TreeChange::Skipped(path, reason) => {
                json!({"change": "skip", "path": path, "reason": reason.to_string()})
            }
            _ => return None,
        };
        if let Some((at, _)) = hosts {
            object["hosts"] = json!(at);
        }
        Some(object)
    }

    /// The account of the transfer, in a dry run with the changes.
    pub fn account(&self, account: &Value) -> String {
        let mut text = account.to_string();
        if self.use_of == Use::Kept && text.pop().is_some() {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&format!(",\"changes\":[{kept}]}}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_a_dry_run_names_what_people_are_shown() {
        let hosts = ["a".to_owned(), "b".to_owned()];
        let all = [
            (TreeChange::Fetched("x".to_owned(), 5), &hosts[..]),
            (TreeChange::Removed("y\u{202e}z".to_owned()), &hosts[1..]),
        ];
        let kept = Changes::new("send", true, (false, true));
        all.iter().for_each(|(change, at)| kept.hear(change, Some((at, 2))));
        let account = kept.account(&json!({"dry_run": true}));
        let account: Value = serde_json::from_str(&account).expect("JSON");
        let expected = json!({"dry_run": true, "changes": [
            {"change": "send", "path": "x", "bytes": 5, "hosts": ["a", "b"]},
            {"change": "remove", "path": "y\u{202e}z", "hosts": ["b"]},
        ]});
        assert_eq!(account, expected);
        let shown = all.map(|(change, at)| kept.line(&change, Some((at, 2))));
        let lines = ["send    x (5 B)", "remove  y\\u{202e}z at b"];
        assert_eq!(shown, lines.map(|line| Some(line.to_owned())));
        let real = Changes::new("send", false, (false, true));
        real.hear(&TreeChange::Made("d".to_owned()), None);
        assert_eq!(real.account(&json!({"files": 1})), "{\"files\":1}");
        let none = Changes::new("send", true, (false, true));
        assert_eq!(none.account(&json!({"files": 1})), "{\"files\":1,\"changes\":[]}");
    }
}
