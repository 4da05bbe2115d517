//! The account of a request.

use crate::adapter::Account;

/// What became of a request.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowRecord {
    /// Its kind: `transfer`, `write`, `read`, `timed`, `background`.
    pub kind: &'static str,
    /// A host at the single end: the sender, or the reading client.
    pub host: u32,
    /// The other end, or the first of several.
    pub peer: u32,
    /// Size \[bytes\]; for endless flows what arrived in the time measured.
    pub bytes: u64,
    /// When it was made \[s\].
    pub start: f64,
    /// When the last receiver had everything \[s\]; `None` if that did not happen.
    pub end: Option<f64>,
    /// Sums over receivers.
    pub account: Account,
    /// Whether any of its sessions failed.
    pub failed: bool,
}

impl FlowRecord {
    /// Completion time \[s\].
    pub fn completion(&self) -> Option<f64> {
        self.end.map(|end| end - self.start)
    }

    /// Bits of the application by completion time \[bit/s\]: 0 if it did not complete.
    pub fn goodput(&self) -> f64 {
        self.completion().map_or(0.0, |time| self.bytes as f64 * 8.0 / time)
    }
}
