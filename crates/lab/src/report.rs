//! Results as JSON and tables, and conversion of library errors.

use serde::Serialize;
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stdout, StdoutError, table};

/// Seeds are numbers of TOML, which end there.
pub fn seed() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(..=i64::MAX as u64)
}

/// A library's error about the command line.
pub fn usage(error: anyhow::Error) -> Failed {
    Failed::usage(format!("{error:#}"))
}

/// A library's error.
pub fn failed(error: anyhow::Error) -> Failed {
    Failed::other(format!("{error:#}"))
}

pub fn print_json(what: &impl Serialize) -> Result<(), Failed> {
    let text = serde_json::to_string_pretty(what);
    let text = text.map_err(|error| Failed::other(format!("JSON: {error}")))?;
    Ok(writeln!(Stdout, "{text}")?)
}

pub fn print_table(rows: &[Vec<String>]) -> Result<(), StdoutError> {
    write!(Stdout, "{}", table(rows))
}

/// Misuse of the codec, which the checks before it should have caught.
pub fn codec_error(error: wellspring_codec::Error) -> Failed {
    Failed::other(error.to_string())
}
