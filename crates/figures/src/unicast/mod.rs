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

use wellspring_experiments::results::RunRow;

/// Payload's share of a full packet.
pub(crate) fn wire_share() -> f64 {
    1_436.0 / 1_500.0
}

/// An incast's aggregate goodput over the link's rate: that of requests that were completed.
pub(crate) fn incast_share(row: &RunRow) -> f64 {
    let bits = row.completed as f64 * row.size as f64 * 8.0;
    row.fct_max.map_or(0.0, |longest| bits / (longest * 1e-3) / 1e9)
}

const SCDP: (&str, &str) = ("protocol.name", "scdp");
const NDP: (&str, &str) = ("protocol.name", "ndp");
const PLUS: (&str, &str) = ("protocol.name", "ndp+");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_never_ended_are_no_goodput() {
        let row = RunRow { requests: 4, size: 125_000, fct_max: Some(4.0), ..RunRow::default() };
        assert_eq!(incast_share(&RunRow { completed: 4, ..row.clone() }), 1.0);
        assert_eq!(incast_share(&RunRow { completed: 2, failed: 1, ..row }), 0.5);
    }
}
