//! Refusal of a setting.

use std::fmt::{self, Debug};
use std::ops::RangeInclusive;

/// A setting has a value that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConfigError {
    /// Which.
    pub setting: &'static str,
    /// Its value.
    pub got: String,
    /// The least and the most that are allowed.
    pub allowed: [String; 2],
    /// Why no other value is allowed, if another setting has to do with it.
    pub reason: Option<&'static str>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { setting, got, allowed: [least, most], reason } = self;
        match reason {
            Some(reason) => write!(f, "{setting} is {got}: {reason}"),
            None => write!(f, "{setting} is {got}; {least} to {most} are allowed"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// Checks that the value of a setting lies in a range.
    ///
    /// # Errors
    /// It does not.
    pub fn check<T: PartialOrd + Debug>(
        setting: &'static str,
        value: &T,
        allowed: RangeInclusive<T>,
    ) -> Result<(), ConfigError> {
        if allowed.contains(value) {
            return Ok(());
        }
        let allowed = [allowed.start(), allowed.end()].map(|limit| format!("{limit:?}"));
        Err(ConfigError { setting, got: format!("{value:?}"), allowed, reason: None })
    }
}
