//! Errors at the start of a driver.

use std::error::Error;
use std::fmt;
use std::io;

use crate::ConfigError;

/// Why a driver does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A setting makes no sense.
    Config(ConfigError),
    /// The system's error: the address is in use, the interface does not exist, no threads.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(error) => error.fmt(f),
            StartError::System(error) => error.fmt(f),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StartError::Config(error) => Some(error),
            StartError::System(error) => Some(error),
        }
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        StartError::Config(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError::System(error)
    }
}
