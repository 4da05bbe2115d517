//! Measurement of real traffic for figures.

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why real traffic cannot be measured here, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unavailable(pub String);

/// Real programs on this machine: kernel TCP and UDP through real appliances.
///
/// The figures say what is to be measured; the program that carries it out knows where the programs are.
pub trait Traffic: Sync {
    /// Two hosts, two appliances and a long lossy link: the rows that `lab/maelstrom ARGUMENTS`
    /// prints, of which so many are to be expected.
    ///
    /// # Errors
    /// A program is missing or failed.
    fn long_link(&self, arguments: &str, rows: usize) -> Result<Vec<Value>>;

    /// The engine alone, on packets in memory: the rows of `wellspring maelstrom bench ARGUMENTS`.
    ///
    /// # Errors
    /// The program failed.
    fn engine(&self, arguments: &str) -> Result<Vec<Value>>;

    /// Share of its processors' time that a virtual machine was denied by its host during the
    /// measurements since the last question; `None` if there were none, or it is not known.
    fn stolen(&self) -> Option<f64>;
}

/// Rows as what they are.
///
/// # Errors
/// A row lacks something.
pub fn typed<Row: DeserializeOwned>(rows: Vec<Value>) -> Result<Vec<Row>> {
    rows.into_iter()
        .map(|row| {
            let text = row.to_string();
            serde_json::from_value(row).with_context(|| format!("not such a row: {text}"))
        })
        .collect()
}
