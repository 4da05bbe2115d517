//! Resumable sweeps of scenarios over seeds, on all cores.

use crate::observe::{Capture, series_files};
use crate::results::{RunRow, write_flows};
use crate::run::{Outcome, Progress, run_captured};
use crate::scenario::{Run, Scenario};
use crate::store::Store;
use crate::table::Varied;
use anyhow::{Context, Result};
use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Where results go, and what is kept.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Folder for `runs.csv` and, by flow, `flows-HASH-SEED.csv.gz`; nothing is written without.
    pub folder: Option<PathBuf>,
    /// Whether flows are written.
    pub flows: bool,
    /// Packets to be written down: of one run, or each overwrites the one before.
    pub capture: Option<Capture>,
    /// The part of the runs that is run; all without.
    pub shard: Option<Shard>,
}

/// One of several parts of a sweep, which machines run apart: every N-th run, so that parts cost about the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// The part of that number, counted from 1, of so many; `None` if there is no such part.
    pub fn new(number: usize, of: usize) -> Option<Shard> {
        (1..=of).contains(&number).then_some(Shard { number, of })
    }

    /// How many of `runs` runs are its own.
    pub fn share(self, runs: usize) -> usize {
        (runs + self.of - self.number) / self.of
    }

    fn has(self, run: usize) -> bool {
        run % self.of == self.number - 1
    }
}

impl core::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text
            .split_once('/')
            .and_then(|(number, of)| Shard::new(number.parse().ok()?, of.parse().ok()?));
        parts.ok_or_else(|| format!("`{text}` is no part: write NUMBER/COUNT, from 1/4 to 4/4"))
    }
}

/// Who hears how far the run of that number is.
pub type Report<'a> = &'a (dyn Fn(usize, Progress) + Sync);

/// What is said of a run that is not run again.
const DONE_BEFORE: Progress =
    Progress { simulated: 0.0, events: 0, limit: 1.0, finished: (1, 1), parts: 0.0 };

/// Runs all scenarios with all their seeds, on as many threads as the pool has. Rows come in the
/// order of scenarios and seeds, however the runs were spread. What this version ran before is not
/// run again if `runs.csv` holds its row, all files asked for stand beside it, and no packets are
/// to be captured.
///
/// # Errors
/// A run failed, a file could not be written, or `runs.csv` is not ours.
pub fn sweep(scenarios: &[Scenario], output: &Output, report: Report<'_>) -> Result<Vec<RunRow>> {
    let bare = bare(scenarios);
    let store = open(output, &bare)?;
    let jobs = jobs(scenarios, &bare, output.shard);
    on_all_threads(&jobs, |number, job| {
        match store.as_ref().and_then(|store| job.done(store, output)) {
            Some(row) => {
                report(number, DONE_BEFORE);
                Ok(row)
            }
            None => Ok(job.run(store.as_ref(), output, &mut |how| report(number, how))?.0),
        }
    })
}

/// As [`sweep`], for who needs more of a run than its row: what `look` makes of each, which is kept
/// under the name `what`.
///
/// # Errors
/// As [`sweep`].
pub fn watch<T: Send + Serialize + DeserializeOwned>(
    scenarios: &[Scenario],
    output: &Output,
    report: Report<'_>,
    what: &str,
    look: impl Fn(&Outcome) -> T + Sync,
) -> Result<Vec<(RunRow, T)>> {
    let bare = bare(scenarios);
    let store = open(output, &bare)?;
    let jobs = jobs(scenarios, &bare, output.shard);
    on_all_threads(&jobs, |number, job| {
        let before = store.as_ref().and_then(|store| {
            let row = job.done(store, output)?;
            Some((row, store.seen(job.hash, job.seed, what)?))
        });
        if let Some(before) = before {
            report(number, DONE_BEFORE);
            return Ok(before);
        }
        let (row, outcome) = job.run(store.as_ref(), output, &mut |how| report(number, how))?;
        let seen = look(&outcome);
        if let Some(store) = &store {
            store.keep_seen(job.hash, job.seed, what, &seen)?;
        }
        Ok((row, seen))
    })
}

/// Does jobs on as many threads as the pool has: what came of each, in their order. Each is given its number.
///
/// # Errors
/// A job failed; the others may not have been begun.
pub fn on_all_threads<J: Sync, T: Send>(
    jobs: &[J],
    job: impl Fn(usize, &J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let results: Vec<_> = jobs.iter().map(|_| Mutex::new(None)).collect();
    each_number(jobs.len(), &|number| {
        let result = job(number, &jobs[number])?;
        *results[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    })?;
    let results = results.into_iter().map(Mutex::into_inner);
    Ok(results.filter_map(|result| result.unwrap_or_else(PoisonError::into_inner)).collect())
}

/// Not generic: what distributes jobs takes longer to compile than most figures.
fn each_number(count: usize, job: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    (0..count).into_par_iter().try_for_each(job)
}

fn open(output: &Output, scenarios: &[(Scenario, String)]) -> Result<Option<Store>> {
    let mut varied = Varied::default();
    scenarios.iter().for_each(|(scenario, hash)| varied.add(hash, &scenario.swept));
    output.folder.as_deref().map(|folder| Store::open(folder, &varied)).transpose()
}

/// Scenarios without their seeds, of which there may be many, with their hashes.
fn bare(scenarios: &[Scenario]) -> Vec<(Scenario, String)> {
    let bare = scenarios.iter().map(|scenario| {
        let run = Run { seeds: Vec::new(), ..scenario.run.clone() };
        let bare = Scenario { run, ..scenario.clone() };
        let hash = bare.hash();
        (bare, hash)
    });
    bare.collect()
}

fn jobs<'a>(
    scenarios: &[Scenario],
    bare: &'a [(Scenario, String)],
    shard: Option<Shard>,
) -> Vec<Job<'a>> {
    let all = scenarios.iter().zip(bare).flat_map(|(scenario, (bare, hash))| {
        scenario.run.seeds.iter().map(move |seed| Job { scenario: bare, hash, seed: *seed })
    });
    let all = all.enumerate().filter(|(number, _)| shard.is_none_or(|shard| shard.has(*number)));
    all.map(|(_, job)| job).collect()
}

/// A scenario with one of its seeds.
struct Job<'a> {
    scenario: &'a Scenario,
    hash: &'a str,
    seed: u64,
}

impl Job<'_> {
    /// Its row, if nothing that is asked for is missing.
    fn done(&self, store: &Store, output: &Output) -> Option<RunRow> {
        let flows = output.flows.then(|| self.flows(&store.folder));
        let series = self.scenario.run.sample.map(|_| series_files(&store.folder, &self.name()));
        let files: Vec<PathBuf> = flows.into_iter().chain(series.into_iter().flatten()).collect();
        let row = store.done(self.hash, self.seed, &files);
        row.filter(|_| output.capture.is_none())
    }

    fn run(
        &self,
        store: Option<&Store>,
        output: &Output,
        report: &mut dyn FnMut(Progress),
    ) -> Result<(RunRow, Outcome)> {
        let Job { scenario, seed, .. } = *self;
        let outcome = run_captured(scenario, seed, output.capture.as_ref(), report)
            .with_context(|| format!("{} with seed {seed}", scenario.name))?;
        let mut row = RunRow::new(scenario, &outcome);
        if let Some(store) = store {
            store.discard_files_of_others(self.hash, seed)?;
            if output.flows {
                write_flows(&self.flows(&store.folder), scenario, &outcome)?;
            }
            if scenario.run.sample.is_some() {
                outcome.series.write(&store.folder, &self.name())?;
            }
            if let Some(stuck) = &mut row.stuck_state {
                let path = store.folder.join(format!("stuck-{}.txt", self.name()));
                std::fs::write(&path, &stuck.state).with_context(|| path.display().to_string())?;
                // There may be many such runs.
                stuck.state.clear();
            }
            store.keep(&row)?;
        }
        Ok((row, outcome))
    }

    fn name(&self) -> String {
        format!("{}-{}", self.hash, self.seed)
    }

    fn flows(&self, folder: &Path) -> PathBuf {
        folder.join(format!("flows-{}.csv.gz", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Plan;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn an_interrupted_sweep_resumes_and_threads_do_not_matter() {
        let text = "name = \"t\"\n[topology]\nk = 4\n[workload]\nkind = \"incast\"\nsenders = 4\n\
                    size = \"70KB\"\n[run]\nseeds = [1, 2]\n[sweep]\n\
                    \"protocol.name\" = [\"scdp\", \"ndp\"]";
        let scenarios = Plan::parse(text).unwrap().scenarios().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let output =
            Output { folder: Some(folder.path().into()), flows: true, ..Output::default() };
        let runs = AtomicUsize::new(0);
        let count = |_: usize, progress: Progress| {
            if progress.finished.0 == progress.finished.1 && progress.events > 0 {
                runs.fetch_add(1, Ordering::Relaxed);
            }
        };
        let first = sweep(&scenarios[..1], &output, &count).unwrap();
        assert_eq!((first.len(), runs.load(Ordering::Relaxed)), (2, 2));
        // Broken off within a third line.
        let table = folder.path().join("runs.csv");
        let mut text = std::fs::read_to_string(&table).unwrap();
        text.push_str("0.1.0,t,12ab");
        std::fs::write(&table, text).unwrap();
        let all = sweep(&scenarios, &output, &count).unwrap();
        assert_eq!((all.len(), runs.load(Ordering::Relaxed)), (4, 4));
        // Swept values are columns of the table, and not read back.
        let bare = |row: &RunRow| row.bare();
        assert_eq!(
            all[..2].iter().map(bare).collect::<Vec<_>>(),
            first.iter().map(bare).collect::<Vec<_>>()
        );
        assert_eq!(std::fs::read_to_string(&table).unwrap().lines().count(), 5);
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let again = one_thread.install(|| sweep(&scenarios, &Output::default(), &count)).unwrap();
        for (a, b) in all.iter().zip(&again) {
            assert_eq!(a.digest, b.digest);
        }
    }

    #[test]
    fn a_run_is_done_only_with_every_file_that_is_asked_for() {
        let text = "name = \"t\"\n[topology]\nkind = \"single-switch\"\n[workload]\nfrom = 0\n\
                    to = 1\nkind = \"single\"\nsize = \"70KB\"\n[run]\nseeds = [1]\n";
        let scenarios = Plan::parse(text).unwrap().scenarios().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output { folder: Some(folder.path().into()), ..Output::default() };
        let is_shown = |name: &std::ffi::OsStr| !name.to_string_lossy().starts_with('.');
        let files = || {
            let files = std::fs::read_dir(folder.path()).unwrap();
            files.filter(|file| is_shown(&file.as_ref().unwrap().file_name())).count()
        };
        let runs = AtomicUsize::new(0);
        let count = |_: usize, progress: Progress| {
            runs.fetch_add(usize::from(progress.events > 0), Ordering::Relaxed);
        };
        let mut run_and_count = |flows: bool, capture: Option<&str>| {
            output.flows = flows;
            let path = |name: &str| Capture { host: 0, path: folder.path().join(name) };
            output.capture = capture.map(path);
            let before = runs.load(Ordering::Relaxed);
            sweep(&scenarios, &output, &count).unwrap();
            (runs.load(Ordering::Relaxed) > before, files())
        };
        assert_eq!(run_and_count(false, None), (true, 2));
        assert_eq!(run_and_count(true, None), (true, 3), "its flows were asked for later");
        assert_eq!(run_and_count(true, None), (false, 3));
        assert_eq!(run_and_count(true, Some("a.pcapng")), (true, 4));
        assert_eq!(run_and_count(true, Some("b.pcapng")), (true, 5), "a capture is always made");
        assert_eq!(run_and_count(false, None), (false, 5));
        let table = std::fs::read_to_string(folder.path().join("runs.csv")).unwrap();
        assert_eq!(table.lines().count(), 2, "{table}");
    }

    #[test]
    fn what_another_version_has_written_is_not_taken_for_ours() {
        let text = "name = \"t\"\n[topology]\nkind = \"single-switch\"\n[workload]\nfrom = 0\n\
                    to = 1\nkind = \"single\"\nsize = \"70KB\"\n[run]\nseeds = [1]\n";
        let scenarios = Plan::parse(text).unwrap().scenarios().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let runs = AtomicUsize::new(0);
        let count = |_: usize, progress: Progress| {
            runs.fetch_add(usize::from(progress.events > 0), Ordering::Relaxed);
        };
        let run = |flows: bool| {
            let output = Output { folder: Some(folder.path().into()), flows, ..Output::default() };
            let before = runs.load(Ordering::Relaxed);
            let row = sweep(&scenarios, &output, &count).unwrap().remove(0);
            (row, runs.load(Ordering::Relaxed) > before)
        };
        let see = || {
            let output = Output { folder: Some(folder.path().into()), ..Output::default() };
            watch(&scenarios, &output, &|_, _| {}, "it", |_| 5).unwrap().remove(0).1
        };
        let (ours, _) = run(true);
        assert_eq!(see(), 5);
        let name = format!("flows-{}-1.csv.gz", scenarios[0].hash());
        let flows = std::fs::read(path(&name)).unwrap();
        // As the version before would have left it.
        for (file, ours, theirs) in
            [("runs.csv", "", ""), ("ranks.csv", ",0.", ",9."), ("seen.jsonl", ":5", ":7")]
        {
            let text = std::fs::read_to_string(path(file)).unwrap();
            let text = text.replace(env!("CARGO_PKG_VERSION"), "0.0.9").replace(ours, theirs);
            std::fs::write(path(file), text).unwrap();
        }
        std::fs::write(path(&name), "theirs").unwrap();
        let theirs = std::fs::read_to_string(path("runs.csv")).unwrap();
        assert!(run(false).1, "a row of another version is none");
        assert!(!path(&name).exists(), "their flows are not beside our row");
        let (again, is_run) = run(false);
        assert_eq!((again.bare(), is_run), (ours.bare(), false));
        assert!(again.goodputs.iter().all(|goodput| *goodput < 1.0), "{:?}", again.goodputs);
        assert_eq!(see(), 5);
        assert!(run(true).1);
        assert_eq!(std::fs::read(path(&name)).unwrap(), flows);
        assert!(!run(true).1);
        // They come back.
        let row = theirs.lines().last().unwrap();
        let both = std::fs::read_to_string(path("runs.csv")).unwrap() + row + "\n";
        std::fs::write(path("runs.csv"), both).unwrap();
        std::fs::write(path(&name), "theirs").unwrap();
        assert!(!run(false).1, "our row stands there");
        assert!(run(true).1, "the flows are not ours");
        assert_eq!(std::fs::read(path(&name)).unwrap(), flows);
        assert!(!run(true).1);
        // A run without its distributions is not whole.
        std::fs::remove_file(path("ranks.csv")).unwrap();
        assert!(run(false).1);
        assert!(!run(false).1);
    }

    #[test]
    fn a_run_of_two_sweeps_has_the_values_of_both() {
        let text = "name = \"t\"\n[topology]\nkind = \"single-switch\"\nhosts = 9\n[workload]\n\
                    kind = \"incast\"\nsenders = 4\nsize = \"70KB\"\n[run]\nseeds = [1]\n";
        let folder = tempfile::tempdir().unwrap();
        let output = Output { folder: Some(folder.path().into()), ..Output::default() };
        for (key, values) in [
            ("topology.delay", "[\"20us\"]"),
            ("workload.senders", "[2, 4]"),
            ("topology.delay", "[\"10us\", \"20us\"]"),
        ] {
            let text = format!("{text}[sweep]\n\"{key}\" = {values}\n");
            let scenarios = Plan::parse(&text).unwrap().scenarios().unwrap();
            sweep(&scenarios, &output, &|_, _| {}).unwrap();
        }
        let mut table = csv::Reader::from_path(folder.path().join("runs.csv")).unwrap();
        let ends = table.records().map(|record| {
            let record = record.unwrap();
            record.iter().skip(record.len() - 2).map(str::to_owned).collect::<Vec<_>>()
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort();
        assert_eq!(ends, [["", "2"], ["10us", "4"], ["20us", ""]]);
    }

    #[test]
    fn what_was_seen_is_kept_by_its_name_and_not_run_for_again() {
        let text = "name = \"t\"\n[topology]\nkind = \"single-switch\"\n[workload]\nfrom = 0\n\
                    to = 1\nkind = \"single\"\nsize = \"70KB\"\n[run]\nseeds = [1, 2]\n";
        let scenarios = Plan::parse(text).unwrap().scenarios().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let output = Output { folder: Some(folder.path().into()), ..Output::default() };
        let looks = AtomicUsize::new(0);
        let see = |what: &str| {
            let before = looks.load(Ordering::Relaxed);
            let seen = watch(&scenarios, &output, &|_, _| {}, what, |outcome| {
                looks.fetch_add(1, Ordering::Relaxed);
                (outcome.seed, outcome.flows.len())
            });
            let seen: Vec<_> =
                seen.unwrap().into_iter().map(|(row, seen)| (row.seed, seen)).collect();
            (seen, looks.load(Ordering::Relaxed) - before)
        };
        let both = vec![(1, (1, 1)), (2, (2, 1))];
        assert_eq!(see("flows"), (both.clone(), 2));
        assert_eq!(see("flows"), (both.clone(), 0));
        assert_eq!(see("something else"), (both, 2));
    }

    #[test]
    fn a_row_names_its_own_seed_and_no_other() {
        let text = "name = \"t\"\n[topology]\nkind = \"single-switch\"\n[workload]\nfrom = 0\n\
                    to = 1\nkind = \"single\"\nsize = \"1KB\"\n[run]\nseeds = [4, 77, 4]\n";
        let scenarios = Plan::parse(text).unwrap().scenarios().unwrap();
        let rows = sweep(&scenarios, &Output::default(), &|_, _| {}).unwrap();
        assert_eq!(rows.iter().map(|row| row.seed).collect::<Vec<_>>(), [4, 77], "4 counts once");
        assert_eq!(rows[0].hash, scenarios[0].hash());
        assert!(rows[1].parameters.contains("seeds = [77]"), "{}", rows[1].parameters);
    }
}
