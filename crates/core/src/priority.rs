//! Priority of a transfer among others.

use core::fmt;
use core::str::FromStr;

/// How urgent a transfer is to the host that asked for it.
///
/// No transfer waits for ever: one of lower priority has a turn after so many of those of higher priority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// Before the host's own other transfers. No other host learns of it.
    Urgent,
    /// As all transfers that say nothing.
    #[default]
    Normal,
    /// Behind all others, at the host's peers too.
    Background,
}

impl Priority {
    /// All of them, the most urgent first.
    pub const ALL: [Priority; 3] = [Priority::Urgent, Priority::Normal, Priority::Background];

    /// As in settings: `urgent`, `normal`, `background`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Priority::Urgent => "urgent",
            Priority::Normal => "normal",
            Priority::Background => "background",
        }
    }

    /// That of a transfer which gives way to all others, or of a usual one.
    pub const fn background_if(is_background: bool) -> Self {
        if is_background { Priority::Background } else { Priority::Normal }
    }

    /// Whether it gives way to all others, as other hosts are told.
    pub const fn is_background(self) -> bool {
        matches!(self, Priority::Background)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No priority has that name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSuchPriority;

impl fmt::Display for NoSuchPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such priority: write urgent, normal or background")
    }
}

impl core::error::Error for NoSuchPriority {}

impl FromStr for Priority {
    type Err = NoSuchPriority;

    fn from_str(name: &str) -> Result<Self, NoSuchPriority> {
        Priority::ALL.into_iter().find(|priority| priority.as_str() == name).ok_or(NoSuchPriority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for priority in Priority::ALL {
            assert_eq!(priority.as_str().parse(), Ok(priority));
        }
        assert_eq!("Urgent".parse::<Priority>(), Err(NoSuchPriority));
        assert!(Priority::ALL.is_sorted(), "the most urgent first");
    }
}
