//! Runs of a figure's cases, and comparison with the paper's results.

mod rows;

pub use super::cases::Cases;
use super::plot::Plot;
use super::traffic::{Traffic, Unavailable};
use super::verdict::{Check, Verdict};
use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use wellspring_experiments::results::RunRow;
use wellspring_experiments::run::{Outcome, Progress};
use wellspring_experiments::scenario::catalogue;
use wellspring_experiments::scenario::{Plan, Scenario, Workload};
use wellspring_experiments::stats::MeanOfRuns;
use wellspring_experiments::sweep::{Output, on_all_threads, sweep, watch};

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
    /// Whether anything was run at less than the paper's scale: then nothing is judged.
    shrunk: AtomicBool,
    scope: Mutex<Scope>,
    /// Everything checked so far.
    pub checks: Vec<Check>,
    /// Everything to be drawn.
    pub plots: Vec<Plot>,
}

/// What a figure's runs were.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scope {
    /// The seeds of its simulations.
    pub seeds: BTreeSet<u64>,
    /// The least and the greatest number of requests in one run.
    pub requests: Option<(usize, usize)>,
    /// Runs.
    pub runs: usize,
    /// Of these, those that were made now and not read from a table.
    pub fresh: usize,
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
        let (missing, shrunk, scope) = (Mutex::default(), AtomicBool::default(), Mutex::default());
        let (checks, plots) = (Vec::new(), Vec::new());
        Lab { scale, output, report, traffic, missing, shrunk, scope, checks, plots }
    }

    /// What was run so far.
    pub fn scope(&self) -> Scope {
        self.scope.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A plot for a report.
    pub fn plot(&mut self, plot: Plot) {
        self.plots.push(plot);
    }

    /// Real traffic can be measured with this, or cannot for that reason.
    #[must_use]
    pub fn with_traffic(mut self, traffic: Result<&'a dyn Traffic, Unavailable>) -> Self {
        self.traffic = traffic;
        self
    }

    /// Whether the figure is to be quick, for a figure that then makes fewer points or shorter
    /// measurements: what it finds is not judged.
    pub(super) fn quick(&self) -> bool {
        if self.scale.quick {
            self.shrunk.store(true, Ordering::Relaxed);
        }
        self.scale.quick
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
        let whole = first(&plan)?;
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
        if is_less(&first(&plan)?, &whole) {
            self.shrunk.store(true, Ordering::Relaxed);
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

    /// Runs one variant for what `look` sees in each of its runs, one a seed: more than rows hold. It
    /// is kept under the name `what`.
    ///
    /// # Errors
    /// A run failed.
    pub fn watch<T: Send + Serialize + DeserializeOwned>(
        &self,
        scenario: &str,
        quick: Settings<'_>,
        settings: Settings<'_>,
        what: &str,
        look: impl Fn(&Outcome) -> T + Sync,
    ) -> Result<Vec<T>> {
        let scenario = self.scenario(scenario, quick, settings)?;
        let runs = scenario.run.seeds.len();
        let report = |number, progress| (self.report)(number, runs, progress);
        let seen = watch(&[scenario], &self.output, &report, what, look)?;
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
        first(&plan)
    }

    fn count_missing(&self, rows: &[RunRow], quick: Settings<'_>) {
        let mut scope = self.scope.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            scope.seeds.insert(row.seed);
            let (least, most) = scope.requests.unwrap_or((row.requests, row.requests));
            scope.requests = Some((least.min(row.requests), most.max(row.requests)));
            scope.runs += 1;
            scope.fresh += usize::from(row.fresh);
        }
        drop(scope);
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
                let row = Check::new(&what, "none", ours(count), "0".into());
                self.checks.push(Check { verdict: Verdict::Missed, ..row });
            }
        }
        if planned > 0 {
            self.note("requests that the quick form does not wait for", "-", ours(planned));
        }
    }

    /// Notes seeds that were run, for the record.
    pub fn ran(&self, seeds: &[u64]) {
        let mut scope = self.scope.lock().unwrap_or_else(PoisonError::into_inner);
        scope.seeds.extend(seeds);
    }

    /// Does jobs on all cores: what came of each, in their order. Each is given a callback for how
    /// far it is.
    ///
    /// # Errors
    /// A job failed.
    pub fn each<J: Sync, T: Send>(
        &self,
        jobs: &[J],
        job: impl Fn(&J, &mut dyn FnMut(Progress)) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        on_all_threads(jobs, |number, what| {
            job(what, &mut |progress| (self.report)(number, jobs.len(), progress))
        })
    }
}

fn first(plan: &Plan) -> Result<Scenario> {
    plan.scenarios()?.into_iter().next().context("a plan is one scenario at least")
}

/// Whether a run is smaller than the whole: fewer seeds, fewer sessions, or in a quick form.
fn is_less(run: &Scenario, whole: &Scenario) -> bool {
    let sessions = |scenario: &Scenario| match scenario.workload {
        Workload::Flows { sessions, .. } | Workload::Storage { sessions, .. } => sessions,
        _ => 0,
    };
    if run.run.seeds.len() < whole.run.seeds.len() || sessions(run) < sessions(whole) {
        return true;
    }
    // What a quick form sets beside sessions: a limit, a shorter warm-up, less time.
    let rest = |scenario: &Scenario| {
        let mut rest = scenario.clone();
        rest.run.seeds.clear();
        if let Workload::Flows { sessions, .. } | Workload::Storage { sessions, .. } =
            &mut rest.workload
        {
            *sessions = 0;
        }
        rest
    };
    rest(run) != rest(whole)
}

/// A column's mean over a case's seeds: of those that have a value.
fn mean_of<V: Into<Option<f64>>>(
    cases: &Cases,
    label: &str,
    column: impl Fn(&RunRow) -> V,
) -> MeanOfRuns {
    let rows = cases.get(label).map(Vec::as_slice).unwrap_or_default();
    MeanOfRuns::new(rows.iter().map(column))
}

/// Mean of a column over a case's seeds; not a number if none has a value.
pub fn over<V: Into<Option<f64>>>(
    cases: &Cases,
    label: &str,
    column: impl Fn(&RunRow) -> V,
) -> f64 {
    mean_of(cases, label, column).mean
}

/// Mean and 95 % confidence of a column over a case's seeds, for people.
pub fn shown<V: Into<Option<f64>>>(
    cases: &Cases,
    label: &str,
    column: impl Fn(&RunRow) -> V,
) -> String {
    let over = mean_of(cases, label, column);
    let note = over.note();
    match (over.with, over.half) {
        (0, _) => "none".to_owned(),
        (_, 0.0) => format!("{:.3}{note}", over.mean),
        (_, half) => format!("{:.3} +-{half:.3}{note}", over.mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::sample;

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
        let missed = vec![(failed.clone(), Verdict::Missed), (unfinished.clone(), Verdict::Missed)];
        assert_eq!(rows(&[], false), missed);
        assert_eq!(rows(QUICK, true), missed, "stuck before the limit");
        let planned = vec![(failed, Verdict::Missed), (unfinished, Verdict::Reported)];
        assert_eq!(rows(QUICK, false), planned);
        let mut whole = lab(None);
        whole.count_missing(&[RunRow { requests: 3, completed: 3, ..RunRow::default() }], &[]);
        whole.note_missing();
        assert_eq!(whole.checks, []);
    }

    #[test]
    fn a_seed_without_such_requests_is_not_in_their_mean() {
        let row = |fct| RunRow { fct_mean_100kb: fct, completed: 2, ..RunRow::default() };
        let cases = Cases::from([
            ("some".to_owned(), vec![row(Some(0.4)), row(None), row(Some(0.6))]),
            ("none".to_owned(), vec![row(None)]),
        ]);
        assert_eq!(over(&cases, "some", |row| row.fct_mean_100kb), 0.5);
        assert_eq!(shown(&cases, "some", |row| row.fct_mean_100kb), "0.500 +-1.271 (2 of 3)");
        assert_eq!(shown(&cases, "none", |row| row.fct_mean_100kb), "none");
        assert!(over(&cases, "none", |row| row.fct_mean_100kb).is_nan());
        assert_eq!(over(&cases, "some", |row| row.completed as f64), 2.0);
        let plot = Plot::new("t", "x", "y").curve(
            "c",
            crate::plot::LINE,
            ["some", "none"].map(|case| sample(&cases, case, 1.0, |row| row.fct_mean_100kb)),
        );
        assert_eq!(plot.curves[0].points.len(), 1, "JSON has no such number");
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

    /// A lab at that scale that has read a scenario of 5 seeds and 20,000 sessions.
    pub(super) fn after_a_plan(scale: Scale, quick: Settings<'_>) -> Lab<'static> {
        let lab = Lab::new(scale, Output::default(), &|_, _, _| {});
        lab.plan("scdp-7", quick).unwrap();
        lab
    }

    #[test]
    fn what_is_too_small_is_not_judged() {
        let scales = [
            (Scale::default(), Verdict::Reproduced),
            (Scale { quick: true, ..Scale::default() }, Verdict::NotJudged),
            (Scale { sessions: Some(600), ..Scale::default() }, Verdict::NotJudged),
            (Scale { sessions: Some(20_000), ..Scale::default() }, Verdict::Reproduced),
            (Scale { sessions: Some(40_000), ..Scale::default() }, Verdict::Reproduced),
            (Scale { seeds: Some(vec![1]), ..Scale::default() }, Verdict::NotJudged),
            (Scale { seeds: Some(vec![6, 7, 8, 9, 10]), ..Scale::default() }, Verdict::Reproduced),
        ];
        for (scale, expected) in scales {
            let mut lab = after_a_plan(scale.clone(), QUICK);
            lab.number("a", "1", 1.0, 0.9..=1.1);
            assert_eq!(lab.checks[0].verdict, expected, "{scale:?}");
        }
    }

    #[test]
    fn a_quick_form_that_is_the_whole_is_judged() {
        // One run of one seed, whatever the scale.
        let scale = Scale { quick: true, ..Scale::default() };
        let mut lab = Lab::new(scale, Output::default(), &|_, _, _| {});
        lab.plan("scdp-15", &[]).unwrap();
        lab.number("least window", "12", 17.0, 10.8..=13.2);
        assert_eq!(lab.checks[0].verdict, Verdict::Missed);
        assert!(lab.quick());
        lab.number("fewer points", "12", 12.0, 10.8..=13.2);
        assert_eq!(lab.checks[1].verdict, Verdict::NotJudged);
    }
}
