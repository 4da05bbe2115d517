//! Curves of goodput by the number of servers.

use crate::lab::{Lab, Settings, over};
use crate::unicast::incast_share;
use anyhow::Result;
use wellspring_experiments::results::RunRow;

pub(super) const SENDERS: &str = "workload.senders";
pub(super) const SIZE: &str = "workload.size";

/// An incast's goodput \[Mbit/s\].
pub(super) fn goodput(row: &RunRow) -> f64 {
    incast_share(row) * 1e3
}

/// Mean over seeds for each number of servers.
pub(super) fn curve(
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

pub(super) fn least_of(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(super) fn most_of(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
