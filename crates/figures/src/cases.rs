//! Rows of labelled cases.

use std::collections::BTreeMap;
use wellspring_experiments::results::RunRow;

/// Rows of each case by its label, one a seed.
pub type Cases = BTreeMap<String, Vec<RunRow>>;
