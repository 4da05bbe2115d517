//! Folders of results joined: what the parts of a sharded sweep have written.

use crate::results::RunRow;
use crate::store::{Store, names};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use wellspring_store::atomic_file::AtomicFile;

/// What a merge has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Merged {
    /// Runs that the folder has gained.
    pub runs: usize,
    /// Runs that it had before.
    pub known: usize,
    /// Rows of the others that were left out: other versions made them.
    pub left_out: usize,
}

/// Adds the runs of other folders to `folder`, which is made if need be, with the files of each. A row is
/// added when its files are there, so that what was interrupted is done when it is repeated.
///
/// # Errors
/// Two folders disagree about the digest of a run, a folder has no `runs.csv`, or one with rows of other
/// versions alone, or a file cannot be read or written.
pub fn merge(folder: &Path, others: &[PathBuf]) -> Result<Merged> {
    let mut sources = Vec::new();
    for other in others {
        let table = other.join("runs.csv");
        ensure!(table.is_file(), "{} has no runs.csv: it is no folder of results", other.display());
        let source = Store::read(other)?;
        ensure!(
            source.left_out() == 0 || !source.runs().is_empty(),
            "{} has {} rows, none of them of wellspring {}: merge it by the version that made it",
            other.display(),
            source.left_out(),
            env!("CARGO_PKG_VERSION"),
        );
        sources.push(source);
    }
    let left_out = sources.iter().map(Store::left_out).sum();
    let mut merged = Merged { left_out, ..Merged::default() };
    for source in sources {
        // Opened again, so that what came from the folder before is known.
        let store = Store::open(folder, &source.varied())?;
        for row in source.runs() {
            let (hash, seed) = (row.hash.clone(), row.seed);
            let known = store.row(&hash, seed);
            *(if known.is_some() { &mut merged.known } else { &mut merged.runs }) += 1;
            let row = match known {
                Some(known) => {
                    agree(&known, &row, &source.folder)?;
                    let RunRow { swept, goodputs, times, .. } = row;
                    RunRow { swept, goodputs, times, ..known }
                }
                None => row,
            };
            store.discard_files_of_others(&hash, seed)?;
            if source.has_files(&hash, seed) {
                copy_files(&source.folder, folder, &row)?;
            }
            store.keep(&row)?;
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

/// Copies the files that belong to one run and are not there.
fn copy_files(from: &Path, to: &Path, row: &RunRow) -> Result<()> {
    for name in names(&row.hash, row.seed) {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_file() && !target.is_file() {
            copy(&source, &target).with_context(|| target.display().to_string())?;
        }
    }
    Ok(())
}

/// Copies a file, which has its name only when it is whole.
fn copy(source: &Path, target: &Path) -> io::Result<()> {
    let mut file = AtomicFile::output(target)?;
    io::copy(&mut File::open(source)?, &mut file)?;
    file.finish()
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
        assert_eq!(
            merge(&folder("all"), &others).unwrap(),
            Merged { runs: 6, known: 0, left_out: 0 }
        );
        assert_eq!(lines(&folder("all")), lines(&folder("whole")));
        let again = run("all", None);
        let digests =
            |rows: &[RunRow]| rows.iter().map(|row| row.digest.clone()).collect::<Vec<_>>();
        assert_eq!(digests(&again), digests(&whole));
        assert!(again.iter().all(|row| !row.goodputs.is_empty()), "with their distributions");
        assert_eq!(lines(&folder("all")).len(), 7, "nothing was run again");
        assert_eq!(
            merge(&folder("all"), &others[..2]).unwrap(),
            Merged { known: 4, ..Merged::default() }
        );
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

    #[test]
    fn a_merge_that_was_interrupted_is_done_when_it_is_repeated() {
        let scenarios = Plan::parse(TEXT).unwrap().scenarios().unwrap();
        let place = tempfile::tempdir().unwrap();
        let [one, all] = ["one", "all"].map(|name| place.path().join(name));
        let output = Output { folder: Some(one.clone()), flows: true, ..Output::default() };
        let rows = sweep(&scenarios, &output, &|_, _| {}).unwrap();
        let name = format!("flows-{}-{}.csv.gz", rows[2].hash, rows[2].seed);
        // Nothing can be written there.
        std::fs::create_dir_all(all.join(&name)).unwrap();
        let error = format!("{:#}", merge(&all, std::slice::from_ref(&one)).unwrap_err());
        assert!(error.contains(&name), "{error}");
        let run = format!(",{},{},", rows[2].hash, rows[2].seed);
        let table = std::fs::read_to_string(all.join("runs.csv")).unwrap_or_default();
        assert!(!table.contains(&run), "no row without its files: {table}");
        std::fs::remove_dir(all.join(&name)).unwrap();
        let Merged { runs, known, .. } = merge(&all, std::slice::from_ref(&one)).unwrap();
        assert_eq!(runs + known, 6);
        let same = || {
            let files = std::fs::read_dir(&one).unwrap().map(|file| file.unwrap().file_name());
            files.filter(|name| name.to_string_lossy().starts_with("flows-")).for_each(|name| {
                let [ours, theirs] =
                    [&all, &one].map(|place| std::fs::read(place.join(&name)).unwrap());
                assert!(ours == theirs, "{}", name.display());
            });
        };
        same();
        // As an earlier version left it: the row, and no files.
        std::fs::remove_file(all.join(&name)).unwrap();
        assert_eq!(merge(&all, std::slice::from_ref(&one)).unwrap().known, 6);
        same();
        assert_eq!(lines(&all), lines(&one));
    }

    #[test]
    fn rows_of_other_versions_are_counted_and_no_merge_of_them_alone_succeeds() {
        let scenarios = Plan::parse(TEXT).unwrap().scenarios().unwrap();
        let place = tempfile::tempdir().unwrap();
        let [one, all] = ["one", "all"].map(|name| place.path().join(name));
        let output = Output { folder: Some(one.clone()), ..Output::default() };
        sweep(&scenarios, &output, &|_, _| {}).unwrap();
        let table = one.join("runs.csv");
        let text = std::fs::read_to_string(&table).unwrap();
        let version = format!("\n{}", env!("CARGO_PKG_VERSION"));
        std::fs::write(&table, text.replacen(&version, "\n0.0.9", 2)).unwrap();
        let merged = merge(&all, std::slice::from_ref(&one)).unwrap();
        assert_eq!(merged, Merged { runs: 4, known: 0, left_out: 2 });
        std::fs::write(&table, text.replace(&version, "\n0.0.9")).unwrap();
        let error = format!("{:#}", merge(&all, std::slice::from_ref(&one)).unwrap_err());
        assert!(error.contains("6 rows, none of them"), "{error}");
    }
}
