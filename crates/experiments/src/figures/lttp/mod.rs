//! LTTP's figures: itself ([`fountain`]), what its flows leave each other and TCP ([`fairness`]), and
//! TCP and DCTCP as yardsticks ([`yardsticks`]).

mod fairness;
mod fountain;
mod outage;
mod yardsticks;

pub use fairness::figure_10;
pub use fountain::{beside_ns_2, figure_5};
pub use yardsticks::{figure_7, figure_8};

use super::lab::{Lab, Settings, over};
use super::unicast::incast_share;
use crate::results::RunRow;
use anyhow::Result;

const SENDERS: &str = "workload.senders";
const SIZE: &str = "workload.size";

/// An incast's goodput \[Mbit/s\].
fn goodput(row: &RunRow) -> f64 {
    incast_share(row) * 1e3
}

/// Mean over seeds for each number of servers.
fn curve(
    lab: &Lab,
    scenario: &str,
    settings: Settings<'_>,
    servers: &[u32],
    column: impl Fn(&RunRow) -> f64 + Copy,
) -> Result<Vec<(u32, f64)>> {
    let numbers: Vec<(u32, String)> = servers.iter().map(|n| (*n, n.to_string())).collect();
    let all: Vec<(&str, Vec<(&str, &str)>)> = numbers
        .iter()
        .map(|(_, count)| (count.as_str(), [settings, &[(SENDERS, count.as_str())]].concat()))
        .collect();
    let cases: Vec<_> = all.iter().map(|(label, settings)| (*label, &settings[..])).collect();
    let measured = lab.measure(scenario, &[], &cases)?;
    Ok(numbers.iter().map(|(count, label)| (*count, over(&measured, label, column))).collect())
}

fn least_of(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most_of(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

pub fn figure_4(lab: &mut Lab) -> Result<()> {
    yardsticks::figure_4(lab)?;
    fountain::figure_4(lab)
}

pub fn figure_6(lab: &mut Lab) -> Result<()> {
    yardsticks::figure_6(lab)?;
    fountain::figure_6(lab)
}

pub fn figure_9(lab: &mut Lab) -> Result<()> {
    yardsticks::figure_9(lab)?;
    fountain::figure_9(lab)
}
