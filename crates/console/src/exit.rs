//! Errors that end a command, and their exit statuses.

use std::fmt;
use std::io;

use crate::output::StdoutError;

/// Exit status: done.
pub const DONE: u8 = 0;
/// Exit status: disk, network or system failed.
pub const OTHER: u8 = 1;
/// Exit status: the command line is wrong.
pub const USAGE: u8 = 2;
/// Exit status: ended by a signal.
pub const INTERRUPTED: u8 = 130;

/// A command that did not succeed.
#[derive(Debug)]
pub struct Failed {
    /// The exit status.
    pub status: u8,
    /// What went wrong; absent if the user needs no message.
    pub message: Option<String>,
    /// What the user can do about it.
    pub hint: Option<String>,
}

impl Failed {
    /// A failure with this exit status and message.
    pub fn new(status: u8, message: impl Into<String>) -> Self {
        Failed { status, message: Some(message.into()), hint: None }
    }

    /// A failure with the exit status [`OTHER`].
    pub fn other(message: impl Into<String>) -> Self {
        Failed::new(OTHER, message)
    }

    /// A command line that is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Failed::new(USAGE, message)
    }

    /// An error of the system about `subject`: a file, an address, an interface.
    ///
    /// There is no conversion from [`io::Error`] alone, so that no message lacks its subject.
    pub fn system(subject: impl fmt::Display, error: &io::Error) -> Self {
        let failed = Failed::other(format!("{subject}: {error}"));
        match error.kind() {
            io::ErrorKind::NotFound => failed.hint("Check the path: nothing is there."),
            io::ErrorKind::PermissionDenied => {
                failed.hint("Check its owner and mode (ls -l), or run as a user who may.")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failed.hint("Free some space, or choose another directory.")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                failed.hint("Choose a directory that is writable.")
            }
            _ => failed,
        }
    }

    /// Adds what the user can do about it, if that is not empty.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self
    }

    /// A command that a signal ended.
    pub fn interrupted() -> Self {
        Failed::new(INTERRUPTED, "interrupted; nothing is left behind")
    }
}

impl From<StdoutError> for Failed {
    fn from(error: StdoutError) -> Self {
        if error.is_closed() {
            return Failed { status: DONE, message: None, hint: None };
        }
        Failed::system("standard output", &error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_name_their_subject_and_say_what_to_do() {
        let failed = Failed::system("/etc/shadow", &io::ErrorKind::PermissionDenied.into());
        assert_eq!(failed.status, OTHER);
        assert!(failed.message.is_some_and(|message| message.starts_with("/etc/shadow: ")));
        assert!(failed.hint.is_some_and(|hint| hint.contains("owner and mode")));
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let failed = |kind: io::ErrorKind| Failed::from(StdoutError::from(io::Error::from(kind)));
        let closed = failed(io::ErrorKind::BrokenPipe);
        assert_eq!((closed.status, closed.message), (DONE, None));
        assert_eq!(failed(io::ErrorKind::StorageFull).status, OTHER);
    }
}
