//! Rates of TCP that were measured, and what is said of those that were not.

use anyhow::Result;
use serde::Deserialize;

use super::real_seeds;
use crate::Lab;
use crate::traffic::typed;
use wellspring_experiments::stats::mean;

/// Stands where a value would whose runs have failed: rows of the figure say why.
const NOT_MEASURED: &str = "not measured: iperf3 failed";

/// One TCP measurement.
#[derive(Clone, Deserialize)]
pub(super) struct Row {
    pub cc: String,
    pub delay_ms: f64,
    pub loss: f64,
    pub burst: u32,
    pub code: String,
    pub mbps: f64,
    /// Of what the same code carried with nothing lost.
    pub of_lossless: Option<f64>,
    /// Packets that the appliances' rings had no room for.
    #[serde(default)]
    pub unseen: u64,
    /// What the measuring program says went wrong.
    pub error: Option<String>,
}

impl Row {
    /// Share of the lossless rate, which is one's own where nothing is lost.
    fn share(&self) -> Option<f64> {
        self.of_lossless.or((self.loss == 0.0).then_some(1.0))
    }
}

/// Rows of one link, over all seeds.
pub(super) struct Rows(pub Vec<Row>);

/// What was measured of one setting, in the mean over seeds.
#[derive(Clone, Copy)]
pub(super) struct Mean {
    pub mbps: f64,
    /// None where the lossless rate was not measured.
    pub of_lossless: Option<f64>,
    pub unseen: u64,
}

impl Rows {
    /// Runs every combination of the settings in `arguments`, `combinations` of them.
    pub fn measure(lab: &mut Lab, arguments: &str, combinations: usize) -> Result<Option<Self>> {
        let Some(traffic) = lab.traffic(&format!("TCP, {arguments}")) else { return Ok(None) };
        let mut rows = Vec::new();
        for seed in real_seeds(lab) {
            let more =
                traffic.long_link(&format!("tcp {arguments} --seed {seed}"), combinations)?;
            rows.extend(typed::<Row>(more)?);
        }
        for row in rows.extract_if(.., |row| row.error.is_some()) {
            let Row { cc, delay_ms, loss, burst, code, error, .. } = row;
            let what = format!("{cc}, {delay_ms} ms, loss {loss}, bursts of {burst}, {code}");
            lab.note(&what, "", format!("left out, iperf3 failed: {}", error.unwrap_or_default()));
        }
        Ok(Some(Rows(rows)))
    }

    /// None where every run failed.
    pub fn mean(&self, fits: impl Fn(&Row) -> bool) -> Option<Mean> {
        let rows: Vec<&Row> = self.0.iter().filter(|row| fits(row)).collect();
        let of = |values: Vec<f64>| (!values.is_empty()).then(|| mean(&values));
        Some(Mean {
            mbps: of(rows.iter().map(|row| row.mbps).collect())?,
            of_lossless: of(rows.iter().filter_map(|row| row.share()).collect()),
            unseen: rows.iter().map(|row| row.unseen).sum(),
        })
    }

    /// The rate alone \[Mbit/s\].
    pub fn mbps(&self, fits: impl Fn(&Row) -> bool) -> Option<f64> {
        self.mean(fits).map(|mean| mean.mbps)
    }

    /// Losses that were measured, in their order.
    pub fn losses(&self) -> Vec<f64> {
        let mut losses: Vec<f64> = self.0.iter().map(|row| row.loss).collect();
        losses.sort_by(f64::total_cmp);
        losses.dedup();
        losses
    }
}

/// One flow's rate over another's, if both were measured and the other one carried anything.
pub(super) fn ratio(of: Option<f64>, to: Option<f64>) -> Option<f64> {
    let to = to.filter(|rate| *rate > 0.0)?;
    Some(of? / to)
}

/// What was measured as text.
pub(super) fn text(measured: Option<f64>, write: impl Fn(f64) -> String) -> String {
    measured.map_or_else(|| NOT_MEASURED.to_owned(), write)
}

/// A row that judges what was measured; what was not is neither reproduced nor missed.
pub(super) fn judged(
    lab: &mut Lab,
    what: &str,
    paper: &str,
    ours: Option<f64>,
    judge: impl FnOnce(&mut Lab, f64),
) {
    match ours {
        Some(ours) => judge(lab, ours),
        None => lab.note(what, paper, NOT_MEASURED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(loss: f64, mbps: f64, of_lossless: Option<f64>) -> Row {
        let (cc, code) = ("reno".to_owned(), "none".to_owned());
        let (delay_ms, burst, unseen, error) = (50.0, 1, 0, None);
        Row { cc, delay_ms, loss, burst, code, mbps, of_lossless, unseen, error }
    }

    #[test]
    fn the_mean_of_no_runs_is_no_number() {
        let rows = Rows(vec![row(0.0, 90.0, None)]);
        assert!(rows.mean(|row| row.loss == 0.01).is_none());
        assert_eq!(rows.mbps(|row| row.loss == 0.0), Some(90.0));
        let ratios = [
            ratio(Some(70.0), None),
            ratio(None, Some(70.0)),
            ratio(Some(70.0), Some(0.0)),
            ratio(Some(70.0), Some(35.0)),
        ];
        assert_eq!(ratios, [None, None, None, Some(2.0)]);
    }

    #[test]
    fn only_what_loses_nothing_is_its_own_lossless_rate() {
        let share = |rows: Vec<Row>| Rows(rows).mean(|_| true).unwrap().of_lossless;
        assert_eq!(share(vec![row(0.0, 90.0, None)]), Some(1.0));
        assert_eq!(share(vec![row(0.01, 1.0, None)]), None);
        assert_eq!(share(vec![row(0.01, 1.0, None), row(0.01, 45.0, Some(0.5))]), Some(0.5));
    }
}
