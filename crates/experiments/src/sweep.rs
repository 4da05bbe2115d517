//! Many runs: scenarios by seeds, on all cores, taken up again where they were broken off.

use crate::observe::Capture;
use crate::results::{RunRow, write_flows};
use crate::run::{Progress, run_captured};
use crate::scenario::Scenario;
use anyhow::{Context, Result};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Where results go, and what is kept.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Folder for `runs.csv` and, by flow, `flows-HASH-SEED.csv.gz`; nothing is written without.
    pub folder: Option<PathBuf>,
    /// Whether flows are written.
    pub flows: bool,
    /// Packets to be written down: of one run, or each overwrites the one before.
    pub capture: Option<Capture>,
}

/// Runs all scenarios with all their seeds, on as many threads as the pool has. Rows come in the
/// order of scenarios and seeds, however the runs were spread. Runs that `runs.csv` already holds
/// are not run again. `report` hears of each run by its number.
///
/// # Errors
/// A run failed, or a file could not be written.
pub fn sweep(
    scenarios: &[Scenario],
    output: &Output,
    report: &(dyn Fn(usize, Progress) + Sync),
) -> Result<Vec<RunRow>> {
    let jobs: Vec<(&Scenario, u64)> = scenarios
        .iter()
        .flat_map(|scenario| scenario.run.seeds.iter().map(move |seed| (scenario, *seed)))
        .collect();
    let table = output.folder.as_deref().map(|folder| folder.join("runs.csv"));
    if let Some(folder) = &output.folder {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    table.as_deref().map(mend).transpose()?;
    let known = table.as_deref().map(read_rows).transpose()?.unwrap_or_default();
    let done: BTreeSet<(String, u64)> = known.iter().map(|r| (r.hash.clone(), r.seed)).collect();
    let writing = Mutex::new(());
    jobs.par_iter()
        .enumerate()
        .map(|(number, (scenario, seed))| {
            let hash = scenario.hash();
            if done.contains(&(hash.clone(), *seed)) {
                let row = known.iter().find(|row| row.hash == hash && row.seed == *seed);
                return row.cloned().context("a row just seen");
            }
            let capture = output.capture.as_ref();
            let mut report = |progress| report(number, progress);
            let outcome = run_captured(scenario, *seed, capture, &mut report)
                .with_context(|| format!("{} with seed {seed}", scenario.name))?;
            let row = RunRow::new(scenario, &outcome);
            if let (Some(folder), true) = (&output.folder, output.flows) {
                let path = folder.join(format!("flows-{hash}-{seed}.csv.gz"));
                write_flows(&path, scenario, &outcome)?;
            }
            if let (Some(folder), Some(_)) = (&output.folder, scenario.run.sample) {
                outcome.series.write(folder, &format!("{hash}-{seed}"))?;
            }
            if let Some(table) = &table {
                let _turn = writing.lock();
                append_row(table, &row)?;
            }
            Ok(row)
        })
        .collect()
}

/// Takes away a last line that was cut off when a sweep was interrupted.
fn mend(path: &Path) -> Result<()> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context(path.display().to_string()),
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole == 0 {
        std::fs::remove_file(path)?;
    } else if whole < text.len() {
        OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    Ok(())
}

/// The rows of an earlier, perhaps interrupted, sweep.
fn read_rows(path: &Path) -> Result<Vec<RunRow>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut table = csv::Reader::from_path(path)?;
    Ok(table.deserialize().filter_map(|row: Result<RunRow, csv::Error>| row.ok()).collect())
}

fn append_row(path: &Path, row: &RunRow) -> Result<()> {
    let is_new = !path.exists();
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let mut table = csv::WriterBuilder::new().has_headers(is_new).from_writer(file);
    table.serialize(row)?;
    table.flush()?;
    Ok(())
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
        let output = Output { folder: Some(folder.path().into()), flows: true, capture: None };
        let runs = AtomicUsize::new(0);
        let count = |_: usize, progress: Progress| {
            if progress.finished.0 == progress.finished.1 {
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
        assert_eq!(all[..2], first[..]);
        assert_eq!(std::fs::read_to_string(&table).unwrap().lines().count(), 5);
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let again = one_thread.install(|| sweep(&scenarios, &Output::default(), &count)).unwrap();
        for (a, b) in all.iter().zip(&again) {
            assert_eq!(a.digest, b.digest);
        }
    }
}
