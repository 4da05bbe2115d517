//! Folders of results joined: what the parts of a sharded sweep have written.

use crate::results::RunRow;
use crate::store::Store;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// What a merge has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Merged {
    /// Runs that the folder has gained.
    pub runs: usize,
    /// Runs that it had before.
    pub known: usize,
}

/// Adds the runs of other folders to `folder`, which is made if need be, with the files of each.
///
/// # Errors
/// Two folders disagree about the digest of a run, a folder has no `runs.csv` of this version, or a file cannot be
/// read or written.
pub fn merge(folder: &Path, others: &[PathBuf]) -> Result<Merged> {
    let mut sources = Vec::new();
    for other in others {
        let table = other.join("runs.csv");
        ensure!(table.is_file(), "{} has no runs.csv: it is no folder of results", other.display());
        sources.push(Store::read(other)?);
    }
    let mut merged = Merged::default();
    for source in sources {
        // Opened again, so that what came from the folder before is known.
        let store = Store::open(folder, &source.varied())?;
        for row in source.runs() {
            match store.row(&row.hash, row.seed) {
                Some(known) => {
                    agree(&known, &row, &source.folder)?;
                    merged.known += 1;
                }
                None => {
                    store.keep(&row)?;
                    copy_files(&source.folder, folder, &row)?;
                    merged.runs += 1;
                }
            }
        }
        store.absorb_seen(&source)?;
    }
    Ok(merged)
}

/// A run gives the same everywhere.
fn agree(known: &RunRow, row: &RunRow, folder: &Path) -> Result<()> {
    let (RunRow { scenario, seed, .. }, [a, b]) = (row, [&known.digest, &row.digest]);
    ensure!(
        a == b,
        "{scenario} with seed {seed} has digest {a} before, and {b} in {}: they come from different builds",
        folder.display()
    );
    Ok(())
}

/// Copies the files that belong to one run.
fn copy_files(from: &Path, to: &Path, row: &RunRow) -> Result<()> {
    let name = format!("{}-{}", row.hash, row.seed);
    let files = ["flows", "queues", "rates"].map(|kind| format!("{kind}-{name}.csv.gz"));
    for file in files.into_iter().chain([format!("stuck-{name}.txt")]) {
        let source = from.join(&file);
        if source.is_file() {
            std::fs::copy(&source, to.join(&file)).with_context(|| source.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Plan;
    use crate::sweep::{Output, Shard, sweep};

    const TEXT: &str = "name = \"t\"\n[topology]\nkind = \"single-switch\"\nhosts = 9\n[workload]\n\
        kind = \"incast\"\nsenders = 4\nsize = \"70KB\"\n[run]\nseeds = [1, 2, 3]\n[sweep]\n\
        \"workload.senders\" = [2, 8]\n";

    fn lines(folder: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(folder.join("runs.csv")).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn shards_merged_are_the_whole_sweep() {
        let scenarios = Plan::parse(TEXT).unwrap().scenarios().unwrap();
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str| place.path().join(name);
        let run = |name: &str, shard: Option<&str>| {
            let shard = shard.map(|text| text.parse::<Shard>().unwrap());
            let output =
                Output { folder: Some(folder(name)), flows: true, shard, ..Output::default() };
            sweep(&scenarios, &output, &|_, _| {}).unwrap()
        };
        let whole = run("whole", None);
        let parts =
            ["1/4", "2/4", "3/4", "4/4"].map(|shard| run(&shard.replace('/', "of"), Some(shard)));
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1, 1]);
        let others = ["1of4", "2of4", "3of4", "4of4"].map(folder);
        assert_eq!(merge(&folder("all"), &others).unwrap(), Merged { runs: 6, known: 0 });
        assert_eq!(lines(&folder("all")), lines(&folder("whole")));
        let again = run("all", None);
        let digests =
            |rows: &[RunRow]| rows.iter().map(|row| row.digest.clone()).collect::<Vec<_>>();
        assert_eq!(digests(&again), digests(&whole));
        assert!(again.iter().all(|row| !row.goodputs.is_empty()), "with their distributions");
        assert_eq!(lines(&folder("all")).len(), 7, "nothing was run again");
        assert_eq!(merge(&folder("all"), &others[..2]).unwrap(), Merged { runs: 0, known: 4 });
    }

    #[test]
    fn folders_that_disagree_are_not_merged() {
        let scenarios = Plan::parse(TEXT).unwrap().scenarios().unwrap();
        let place = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| place.path().join(name));
        let output = Output { folder: Some(one.clone()), ..Output::default() };
        let rows = sweep(&scenarios, &output, &|_, _| {}).unwrap();
        std::fs::create_dir(&other).unwrap();
        let table = std::fs::read_to_string(one.join("runs.csv")).unwrap();
        let false_digest = table.replace(&rows[0].digest, "0000");
        std::fs::write(other.join("runs.csv"), false_digest).unwrap();
        let error = format!("{:#}", merge(&one, &[other]).unwrap_err());
        assert!(error.contains("different builds"), "{error}");
        let error = format!("{:#}", merge(&one, &[place.path().into()]).unwrap_err());
        assert!(error.contains("no folder of results"), "{error}");
    }
}
