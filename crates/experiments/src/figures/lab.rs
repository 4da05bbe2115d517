//! Running the cases of a figure, and holding results against the paper's.

use super::traffic::{Traffic, Unavailable};
use crate::catalogue;
use crate::results::RunRow;
use crate::run::{Outcome, Progress};
use crate::scenario::{Plan, Scenario};
use crate::stats::{half_interval, mean};
use crate::sweep::{Output, sweep, watch};
use anyhow::{Context, Result};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

/// Whether a result counts as reproduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Within the tolerance.
    Pass,
    /// Not within it.
    Miss,
    /// Reported only: the paper's own inputs do not give its number.
    Report,
}

/// One claim of a paper, and what we found.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// What is measured.
    pub what: String,
    /// The paper's.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// What would pass.
    pub tolerance: String,
    /// The verdict.
    pub verdict: Verdict,
}

/// How much of an experiment is run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scale {
    /// Few sessions, one seed, fewer points.
    pub quick: bool,
    /// So many sessions instead of the paper's, where the experiment counts sessions.
    pub sessions: Option<u32>,
    /// These seeds instead of five.
    pub seeds: Option<Vec<u64>>,
}

/// Runs cases of a figure and collects checks.
pub struct Lab<'a> {
    /// How much is run.
    pub scale: Scale,
    output: Output,
    report: &'a (dyn Fn(usize, usize, Progress) + Sync),
    traffic: Result<&'a dyn Traffic, Unavailable>,
    missing: Mutex<Missing>,
    /// Everything checked so far.
    pub checks: Vec<Check>,
}

/// Requests without which a figure's numbers are about fewer than the paper's.
#[derive(Clone, Copy, Default)]
struct Missing {
    requests: usize,
    failed: usize,
    unfinished: usize,
    /// Unfinished because a quick form ends before them.
    planned: usize,
}

/// Rows of each case by its label, one a seed.
pub type Cases = BTreeMap<String, Vec<RunRow>>;

/// The hosts that run background flows take part in the foreground too: what explains several of
/// the papers' numbers, though the SCDP authors' published models leave them out.
pub const EVERYBODY: (&str, &str) = ("background.exclusive", "false");

/// Where a run is broken off.
const LIMIT: &str = "run.limit";

/// Overrides of a scenario: keys and values.
pub type Settings<'s> = &'s [(&'s str, &'s str)];

impl<'a> Lab<'a> {
    /// `report` hears of run so-and-so of so many.
    pub fn new(
        mut scale: Scale,
        output: Output,
        report: &'a (dyn Fn(usize, usize, Progress) + Sync),
    ) -> Self {
        // A seed that is there twice is no second sample.
        let mut seen = BTreeSet::new();
        scale.seeds.iter_mut().for_each(|seeds| seeds.retain(|seed| seen.insert(*seed)));
        let traffic = Err(Unavailable("nothing was given to measure it with".to_owned()));
        Lab { scale, output, report, traffic, missing: Mutex::default(), checks: Vec::new() }
    }

    /// Real traffic can be measured with this, or cannot for that reason.
    #[must_use]
    pub fn with_traffic(mut self, traffic: Result<&'a dyn Traffic, Unavailable>) -> Self {
        self.traffic = traffic;
        self
    }

    /// What measures real traffic. Where nothing can, that and why becomes a row of its own about
    /// `what`.
    pub fn traffic(&mut self, what: &str) -> Option<&'a dyn Traffic> {
        match &self.traffic {
            Ok(traffic) => Some(*traffic),
            Err(Unavailable(reason)) => {
                let ours = format!("not measured: {reason}");
                self.note(what, "", ours);
                None
            }
        }
    }

    /// A scenario that comes with Wellspring at this lab's scale, as its tables say: what it
    /// sweeps is for the figure to set; `quick` settings apply in a quick one, but for its limit
    /// where the number of sessions is given: more of them take longer.
    ///
    /// # Errors
    /// No such scenario.
    pub fn plan(&self, scenario: &str, quick: Settings<'_>) -> Result<Plan> {
        let mut plan = catalogue::plan(scenario)?.without_sweep();
        if self.scale.quick {
            plan.set("run.seeds", "[1]")?;
            for (key, value) in quick {
                if *key != LIMIT || self.scale.sessions.is_none() {
                    plan.set(key, value)?;
                }
            }
        }
        if let Some(seeds) = &self.scale.seeds {
            plan.set("run.seeds", &format!("{seeds:?}"))?;
        }
        if let (Some(sessions), true) = (self.scale.sessions, plan.has("workload.sessions")) {
            plan.set("workload.sessions", &sessions.to_string())?;
        }
        Ok(plan)
    }

    /// Says how much real traffic was disturbed, if there was any.
    pub(super) fn note_stolen(&mut self) {
        if let Some(stolen) = self.traffic.as_ref().ok().and_then(|traffic| traffic.stolen()) {
            let ours = format!("{:.1}", stolen * 100.0);
            self.note("processor time this machine was denied by its host meanwhile [%]", "", ours);
        }
    }

    /// Runs labelled variants of a scenario that comes with Wellspring; `quick` settings apply to
    /// all of them in a quick lab.
    ///
    /// # Errors
    /// A run failed.
    pub fn measure(
        &self,
        scenario: &str,
        quick: Settings<'_>,
        cases: &[(&str, Settings<'_>)],
    ) -> Result<Cases> {
        let scenarios = cases.iter().map(|case| self.scenario(scenario, quick, case.1));
        let scenarios = scenarios.collect::<Result<Vec<_>>>()?;
        let runs: usize = scenarios.iter().map(|scenario| scenario.run.seeds.len()).sum();
        let report = |number, progress| (self.report)(number, runs, progress);
        let rows = sweep(&scenarios, &self.output, &report)?;
        self.count_missing(&rows, quick);
        let mut rows = rows.into_iter();
        let labelled = cases.iter().zip(&scenarios).map(|((label, _), scenario)| {
            ((*label).to_owned(), rows.by_ref().take(scenario.run.seeds.len()).collect())
        });
        Ok(labelled.collect())
    }

    /// Runs one variant for what `look` sees in each of its runs, one a seed: more than rows hold.
    ///
    /// # Errors
    /// A run failed.
    pub fn watch<T: Send>(
        &self,
        scenario: &str,
        quick: Settings<'_>,
        settings: Settings<'_>,
        look: impl Fn(&Outcome) -> T + Sync,
    ) -> Result<Vec<T>> {
        let scenario = self.scenario(scenario, quick, settings)?;
        let runs = scenario.run.seeds.len();
        let report = |number, progress| (self.report)(number, runs, progress);
        let seen = watch(&[scenario], &self.output, &report, look)?;
        let (rows, seen): (Vec<RunRow>, _) = seen.into_iter().unzip();
        self.count_missing(&rows, quick);
        Ok(seen)
    }

    fn scenario(
        &self,
        scenario: &str,
        quick: Settings<'_>,
        settings: Settings<'_>,
    ) -> Result<Scenario> {
        let mut plan = self.plan(scenario, quick)?;
        for (key, value) in settings {
            plan.set(key, value)?;
        }
        plan.scenarios()?.into_iter().next().context("a plan is one scenario at least")
    }

    fn count_missing(&self, rows: &[RunRow], quick: Settings<'_>) {
        let limited = quick.iter().any(|(key, _)| *key == LIMIT);
        let planned = self.scale.quick && self.scale.sessions.is_none() && limited;
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            missing.requests += row.requests;
            missing.failed += row.failed;
            let cut_off = planned && !row.stuck;
            *(if cut_off { &mut missing.planned } else { &mut missing.unfinished }) +=
                row.unfinished();
        }
    }

    /// Says how many requests are missing, if any are.
    pub(super) fn note_missing(&mut self) {
        let missing = self.missing.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Missing { requests, failed, unfinished, planned } = std::mem::take(missing);
        let ours = |count: usize| format!("{count} of {requests}");
        for (what, count) in [("failed", failed), ("did not finish", unfinished)] {
            if count > 0 {
                let what = format!("requests that {what}: the numbers above are without them");
                self.push(&what, "none", ours(count), "0".into(), Verdict::Miss);
            }
        }
        if planned > 0 {
            self.note("requests that the quick form does not wait for", "-", ours(planned));
        }
    }

    /// Does jobs on all cores: what came of each, in their order. Each is given somebody to tell how
    /// far it is.
    ///
    /// # Errors
    /// A job failed.
    pub fn each<J: Sync, T: Send>(
        &self,
        jobs: &[J],
        job: impl Fn(&J, &mut dyn FnMut(Progress)) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let numbered = jobs.par_iter().enumerate();
        let results = numbered.map(|(number, what)| {
            job(what, &mut |progress| (self.report)(number, jobs.len(), progress))
        });
        results.collect()
    }

    /// A number that must lie in a range.
    pub fn number(&mut self, what: &str, paper: &str, ours: f64, range: RangeInclusive<f64>) {
        let verdict = if range.contains(&ours) { Verdict::Pass } else { Verdict::Miss };
        let (low, high) = (*range.start(), *range.end());
        let tolerance = if high >= 1e9 {
            format!(">= {low:.3}")
        } else if low <= -1e9 {
            format!("<= {high:.3}")
        } else {
            format!("{low:.3} to {high:.3}")
        };
        self.push(what, paper, format!("{ours:.3}"), tolerance, verdict);
    }

    /// Something that must hold.
    pub fn holds(&mut self, what: &str, ours: String, holds: bool) {
        let verdict = if holds { Verdict::Pass } else { Verdict::Miss };
        self.push(what, "yes", ours, "ordering or shape".into(), verdict);
    }

    /// Something to be reported only.
    pub fn note(&mut self, what: &str, paper: &str, ours: String) {
        self.push(what, paper, ours, "reported".into(), Verdict::Report);
    }

    fn push(&mut self, what: &str, paper: &str, ours: String, tolerance: String, verdict: Verdict) {
        let (what, paper) = (what.to_owned(), paper.to_owned());
        self.checks.push(Check { what, paper, ours, tolerance, verdict });
    }
}

/// Mean of a column over a case's seeds.
pub fn over(cases: &Cases, label: &str, column: impl Fn(&RunRow) -> f64) -> f64 {
    let rows = cases.get(label).map(Vec::as_slice).unwrap_or_default();
    mean(&rows.iter().map(column).collect::<Vec<_>>())
}

/// Mean and 95 % confidence of a column over a case's seeds, for people.
pub fn shown(cases: &Cases, label: &str, column: impl Fn(&RunRow) -> f64) -> String {
    let rows = cases.get(label).map(Vec::as_slice).unwrap_or_default();
    let values: Vec<f64> = rows.iter().map(column).collect();
    match half_interval(&values) {
        0.0 => format!("{:.3}", mean(&values)),
        half => format!("{:.3} +-{half:.3}", mean(&values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Settings<'_> = &[("run.limit", "80ms")];

    fn lab(sessions: Option<u32>) -> Lab<'static> {
        let scale = Scale { quick: true, sessions, seeds: None };
        Lab::new(scale, Output::default(), &|_, _, _| {})
    }

    #[test]
    fn requests_that_are_missing_are_a_row_unless_a_quick_form_means_it() {
        let row = RunRow { requests: 10, completed: 6, failed: 1, ..RunRow::default() };
        let rows = |quick: Settings<'_>, stuck: bool| {
            let mut lab = lab(None);
            lab.count_missing(&[RunRow { stuck, ..row.clone() }], quick);
            lab.note_missing();
            lab.checks.into_iter().map(|check| (check.ours, check.verdict)).collect::<Vec<_>>()
        };
        let [failed, unfinished] = ["1 of 10", "3 of 10"].map(str::to_owned);
        let missed = vec![(failed.clone(), Verdict::Miss), (unfinished.clone(), Verdict::Miss)];
        assert_eq!(rows(&[], false), missed);
        assert_eq!(rows(QUICK, true), missed, "stuck before the limit");
        let planned = vec![(failed, Verdict::Miss), (unfinished, Verdict::Report)];
        assert_eq!(rows(QUICK, false), planned);
        let mut whole = lab(None);
        whole.count_missing(&[RunRow { requests: 3, completed: 3, ..RunRow::default() }], &[]);
        whole.note_missing();
        assert_eq!(whole.checks, []);
    }

    #[test]
    fn a_seed_that_is_given_twice_is_one_sample() {
        let scale = Scale { seeds: Some(vec![3, 1, 3]), ..Scale::default() };
        let lab = Lab::new(scale, Output::default(), &|_, _, _| {});
        assert_eq!(lab.scale.seeds, Some(vec![3, 1]));
    }

    #[test]
    fn a_quick_forms_limit_gives_way_to_a_number_of_sessions() {
        let limit = |sessions| {
            let plan = lab(sessions).plan("scdp-7", QUICK).unwrap();
            plan.scenarios().unwrap()[0].run.limit.to_string()
        };
        assert_eq!(limit(None), "80000000000ps");
        assert_ne!(limit(Some(600)), limit(None));
    }
}
