//! Rows of labelled cases.

use crate::results::RunRow;
use std::collections::BTreeMap;

/// Rows of each case by its label, one a seed.
pub type Cases = BTreeMap<String, Vec<RunRow>>;
