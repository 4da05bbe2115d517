//! LTTP's figures: LTTP itself ([`fountain`]), its code ([`code`]), fairness ([`fairness`]), TCP and DCTCP as baselines
//! ([`baselines`]), the latter beside ns-2's ([`ns2`]).

mod baselines;
mod code;
mod curve;
mod fairness;
mod fountain;
mod ns2;
mod outage;

pub use baselines::{figure_7, figure_8};
pub use code::{section_5_b, table_1};
pub(super) use fairness::Sharing;
pub use fairness::figure_10;
pub use fountain::{beside_ns_2, figure_5};

use super::lab::Lab;
use anyhow::Result;

pub fn figure_4(lab: &mut Lab) -> Result<()> {
    baselines::figure_4(lab)?;
    fountain::figure_4(lab)
}

pub fn figure_6(lab: &mut Lab) -> Result<()> {
    baselines::figure_6(lab)?;
    fountain::figure_6(lab)
}

pub fn figure_9(lab: &mut Lab) -> Result<()> {
    baselines::figure_9(lab)?;
    fountain::figure_9(lab)
}
