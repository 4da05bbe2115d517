//! Unicast flows: SCDP Figs. 7 to 15 and 17.

mod convergence;
mod decoding;
mod incast;
mod sizes;
mod window;

pub use convergence::figure_17;
pub use decoding::figure_14;
pub use incast::{figure_12a, figure_12d};
pub use sizes::{figure_7, figure_8, figure_9, figure_10, figure_11};
pub use window::{figure_13, figure_15};

use crate::results::RunRow;

/// Payload's share of a full packet.
pub(in crate::figures) fn wire_share() -> f64 {
    1_436.0 / 1_500.0
}

/// An incast's aggregate goodput over the link's rate.
pub(in crate::figures) fn incast_share(row: &RunRow) -> f64 {
    row.requests as f64 * row.size as f64 * 8.0 / (row.fct_max * 1e-3) / 1e9
}

const SCDP: (&str, &str) = ("protocol.name", "scdp");
const NDP: (&str, &str) = ("protocol.name", "ndp");
const PLUS: (&str, &str) = ("protocol.name", "ndp+");
