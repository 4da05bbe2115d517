//! Bounds that values of several keys have.

use core::fmt;
use std::borrow::Cow;

use wellspring_core::Duration;

use crate::quantity::{Size, Span};

/// A value that no simulation can be made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// The key.
    pub key: Cow<'static, str>,
    /// Its value.
    pub got: String,
    /// What it can be.
    pub expected: Cow<'static, str>,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but must be {}", self.key, self.got, self.expected)
    }
}

impl core::error::Error for ScenarioError {}

/// The longest simulated time: time is a circle of 213 days.
pub const MAX_SPAN: Duration = Duration::from_secs(86_400 * 30);
/// The largest transfer \[bytes\].
pub(super) const MAX_SIZE: u64 = 1 << 40;

pub(super) type Check = Result<(), ScenarioError>;

pub(super) fn must(
    holds: bool,
    key: &'static str,
    got: &dyn fmt::Display,
    expected: impl Into<Cow<'static, str>>,
) -> Check {
    if holds {
        Ok(())
    } else {
        Err(ScenarioError { key: key.into(), got: got.to_string(), expected: expected.into() })
    }
}

pub(super) fn span(key: &'static str, span: Span) -> Check {
    must(span.0 <= MAX_SPAN, key, &span, "at most 30 days")
}

pub(super) fn size(key: &'static str, size: Size) -> Check {
    must((1..=MAX_SIZE).contains(&size.0), key, &size, "between 1 byte and 2^40")
}

pub(super) fn share(key: &'static str, share: f64) -> Check {
    must((0.0..=1.0).contains(&share), key, &share, "between 0 and 1")
}

/// Requests that arrive in the course of a run: each leaves a record of some 100 bytes.
pub(super) fn count(key: &'static str, count: u32) -> Check {
    must((1..=10_000_000).contains(&count), key, &count, "between 1 and 10,000,000")
}

/// Requests that are all made at the start.
pub(super) fn few(key: &'static str, count: u32) -> Check {
    must((1..=100_000).contains(&count), key, &count, "between 1 and 100,000")
}

pub(super) fn rate(key: &'static str, lambda: f64) -> Check {
    must(lambda > 0.0 && lambda <= 1e12, key, &lambda, "above 0 and at most 1e12 a second")
}
