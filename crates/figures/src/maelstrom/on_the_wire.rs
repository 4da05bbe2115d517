//! A point of each figure about the code on real traffic: a paced UDP flow through real appliances.

use anyhow::Result;
use serde::Deserialize;

use crate::Lab;
use crate::traffic::typed;

/// What became of one flow.
#[derive(Deserialize)]
struct Row {
    sent: u64,
    /// Share of the packets that never arrived.
    missing: f64,
    #[serde(default)]
    recovered: u64,
    #[serde(default)]
    recovery_mean_ms: f64,
}

impl Row {
    /// Of the packets that the link lost, how many came back.
    fn share(&self) -> f64 {
        let recovered = self.recovered as f64;
        recovered / (recovered + self.missing * self.sent as f64).max(1.0)
    }
}

/// Measures the code on a flow of 10 Mbit/s over 50 ms, so much of it lost in bursts of that
/// length.
pub fn point(lab: &mut Lab, code: &str, loss: f64, burst: u32) -> Result<()> {
    let what = format!(
        "on real traffic: {code}, {} % lost, bursts of {burst}: share, latency",
        loss * 100.0
    );
    let Some(traffic) = lab.traffic(&what) else { return Ok(()) };
    let seconds = if lab.quick() { 8 } else { 30 };
    let arguments = format!(
        "udp --delay 50 --pps 1250 --loss {loss} --burst {burst} --code {code} --seconds {seconds}"
    );
    for row in typed::<Row>(traffic.long_link(&arguments, 1)?)? {
        let ours = format!("{:.4}, {:.1} ms", row.share(), row.recovery_mean_ms);
        lab.note(&what, "as the rows above", ours);
    }
    Ok(())
}
