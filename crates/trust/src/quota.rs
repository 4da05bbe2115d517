//! Quotas of a key: transfers at one time, and bytes and files kept of what it has put.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Units of sizes, the largest first.
const UNITS: [(&str, u64); 8] = [
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("K", 1_000),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
];

/// What one key, or one address, may have of a server; what is absent has no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// Transfers at one time, in both directions.
    pub sessions: Option<NonZeroU64>,
    /// Bytes of objects that it has put and that are kept \[bytes\].
    pub bytes: Option<NonZeroU64>,
    /// Such objects.
    pub files: Option<NonZeroU64>,
}

impl Quota {
    /// No limits.
    pub const NONE: Quota = Quota { sessions: None, bytes: None, files: None };

    /// Whether there are no limits.
    pub fn is_none(&self) -> bool {
        *self == Quota::NONE
    }

    /// Reads a word such as `max-bytes=100G`; `None` if it is no quota.
    ///
    /// # Errors
    /// What is wrong with its value, without repeating it.
    pub(crate) fn read_word(&mut self, word: &str) -> Option<Result<(), String>> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let (limit, parse): (_, fn(&str) -> Option<NonZeroU64>) = match name {
            "max-sessions" => (&mut self.sessions, count),
            "max-bytes" => (&mut self.bytes, size),
            "max-files" => (&mut self.files, count),
            _ => return None,
        };
        Some(match (parse(value), limit.is_some()) {
            (_, true) => Err(format!("`{name}` twice")),
            (None, _) if name == "max-bytes" => {
                Err(format!("`{name}` takes a size from 1, such as 500M, 100G or 2Ti"))
            }
            (None, _) => Err(format!("`{name}` takes a number from 1")),
            (value, false) => {
                *limit = value;
                Ok(())
            }
        })
    }
}

/// The words of key files: `max-sessions=8 max-bytes=100G max-files=1000`.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.sessions.map(|n| format!("max-sessions={n}")),
            self.bytes.map(|n| format!("max-bytes={}", size_text(n.get()))),
            self.files.map(|n| format!("max-files={n}")),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

impl FromStr for Quota {
    type Err = String;

    /// As [`Display`](fmt::Display) writes it.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut quota = Quota::NONE;
        for word in text.split_whitespace() {
            quota.read_word(word).unwrap_or_else(|| {
                Err("a quota is `max-sessions=N`, `max-bytes=SIZE` or `max-files=N`".to_owned())
            })?;
        }
        Ok(quota)
    }
}

fn count(text: &str) -> Option<NonZeroU64> {
    // `parse` alone would take a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn size(text: &str) -> Option<NonZeroU64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    count(number)?.checked_mul(NonZeroU64::new(scale)?)
}

/// A size as [`size`] reads it.
fn size_text(size: u64) -> String {
    let whole = UNITS.iter().find(|(_, scale)| size.is_multiple_of(*scale));
    whole.map_or_else(|| size.to_string(), |(unit, scale)| format!("{}{unit}", size / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_as_they_are_written() {
        for text in [
            "",
            "max-sessions=8 max-bytes=100G max-files=1000",
            "max-bytes=3Ki",
            "max-bytes=1001",
            "max-files=1",
        ] {
            assert_eq!(text.parse::<Quota>().expect(text).to_string(), text);
        }
        let quota: Quota = "max-bytes=2Ti".parse().expect("a quota");
        assert_eq!(quota.bytes.map(NonZeroU64::get), Some(2 << 40));
        assert!(!quota.is_none() && Quota::NONE.is_none());
    }

    #[test]
    fn what_is_no_quota_is_refused_without_being_repeated() {
        for wrong in [
            "max-bytes",
            "max-bytes=",
            "max-bytes=0",
            "max-bytes=-1",
            "max-bytes=+1",
            "max-bytes=1.5G",
            "max-bytes=1g",
            "max-bytes=1GB",
            "max-bytes=18446744073709551616",
            "max-bytes=18446745T",
            "max-sessions=1K",
            "max-sessions=x",
            "max-files= 1",
            "max-files=1 max-files=1",
            "max-file=7",
            "read",
        ] {
            let error = wrong.parse::<Quota>().expect_err(wrong);
            assert!(error.contains("max-"), "{wrong}: {error}");
        }
        let error = "max-bytes=wclu-secret".parse::<Quota>().expect_err("no size");
        assert!(!error.contains("secret"), "{error}");
    }
}
