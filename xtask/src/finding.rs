//! Findings: breaches of a rule, with their place and weight.

use std::fmt;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Worth a look; the check still passes.
    Warning,
    /// The check fails.
    Error,
}

/// One breach, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub weight: Weight,
    pub place: String,
    pub message: String,
}

impl Finding {
    pub fn error(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { weight: Weight::Error, place: place.into(), message: message.into() }
    }

    pub fn warning(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { weight: Weight::Warning, place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            Weight::Warning => "warning",
            Weight::Error => "error",
        };
        write!(f, "{weight}: {}: {}", self.place, self.message)
    }
}
