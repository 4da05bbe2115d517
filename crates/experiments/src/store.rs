//! Folders of results: `runs.csv`, and the files beside it. Distributions of each run are in
//! `ranks.csv`, what figures need beside in `seen.jsonl`; both name the version that wrote a line.
//! Other files of a run are of the version that wrote its last row.

use crate::results::RunRow;
use crate::stats::RANKS;
use crate::table::{RunKey, Table, Varied, append, lock};
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Goodputs and completion times by rank.
type Ranks = BTreeMap<RunKey, [Vec<f64>; 2]>;

/// Who writes.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The quantities of `ranks.csv`.
const RANKED: [&str; 2] = ["goodput_gbps", "fct_ms"];

/// The names of the files that a run may have beside its row.
pub(crate) fn names(hash: &str, seed: u64) -> [String; 4] {
    let [flows, queues, rates] =
        ["flows", "queues", "rates"].map(|kind| format!("{kind}-{hash}-{seed}.csv.gz"));
    [flows, queues, rates, format!("stuck-{hash}-{seed}.txt")]
}

/// A folder of results, to which other processes may write too.
pub(crate) struct Store {
    /// The folder.
    pub folder: PathBuf,
    table: Mutex<Table>,
    /// Distributions of the runs, as far as they were kept when it was opened.
    ranks: Ranks,
    /// What was seen in runs beside their rows, by hash, seed and the name of what was looked for.
    seen: BTreeMap<(String, u64, String), Value>,
    /// Runs that had a row then, and no distributions.
    lacking: Mutex<BTreeSet<RunKey>>,
}

impl Store {
    /// Opens a folder, or makes it. A table that lacks a column for a swept key gets it, and its
    /// rows get the values that are known of their scenarios.
    ///
    /// # Errors
    /// Those of the files, or `runs.csv` is not a table of this version.
    pub fn open(folder: &Path, varied: &Varied) -> Result<Store> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let _alone = lock(folder);
        let mut table = Table::new(folder.join("runs.csv"));
        let read = table.read_on(true).and_then(|()| table.vary(varied));
        read.with_context(|| table.path().display().to_string())?;
        Ok(Store::beside(folder, table))
    }

    /// Reads a folder, and leaves it as it is.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn read(folder: &Path) -> Result<Store> {
        let mut table = Table::new(folder.join("runs.csv"));
        table.read_on(false).with_context(|| table.path().display().to_string())?;
        Ok(Store::beside(folder, table))
    }

    fn beside(folder: &Path, table: Table) -> Store {
        let ranks = read_ranks(&ranks_file(folder));
        let seen = read_seen(&seen_file(folder));
        let lacking = table.rows().keys().filter(|run| !ranks.contains_key(*run)).cloned();
        let lacking = Mutex::new(lacking.collect());
        Store { folder: folder.into(), table: Mutex::new(table), ranks, seen, lacking }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The row of a run that this version made.
    pub fn row(&self, hash: &str, seed: u64) -> Option<RunRow> {
        let run = (hash.to_owned(), seed);
        let (row, _) = self.table().rows().get(&run)?.clone();
        let [goodputs, times] = self.ranks.get(&run).cloned().unwrap_or_default();
        Some(RunRow { goodputs, times, ..row })
    }

    /// The same if nothing of the run is missing: its distributions, and these files.
    pub fn done(&self, hash: &str, seed: u64, files: &[PathBuf]) -> Option<RunRow> {
        let row = self.row(hash, seed)?;
        let has_ranks = !row.goodputs.is_empty() || row.completed <= row.beside_completed;
        let has_files = files.is_empty() || self.has_files(hash, seed);
        (has_ranks && has_files && files.iter().all(|file| file.is_file())).then_some(row)
    }

    /// Whether the files beside the row of a run are of this version, if there are any.
    pub fn has_files(&self, hash: &str, seed: u64) -> bool {
        !self.table().is_of_others(&(hash.to_owned(), seed))
    }

    /// Removes the files that another version wrote for a run, before this writes its own.
    ///
    /// # Errors
    /// Those of the files.
    pub fn discard_files_of_others(&self, hash: &str, seed: u64) -> Result<()> {
        if self.has_files(hash, seed) {
            return Ok(());
        }
        for name in names(hash, seed) {
            let path = self.folder.join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => (),
                removed => removed.with_context(|| path.display().to_string())?,
            }
        }
        Ok(())
    }

    /// All rows that this version made, with what was swept.
    pub fn runs(&self) -> Vec<RunRow> {
        let runs: Vec<_> = {
            let table = self.table();
            let rows = table.rows().iter();
            rows.map(|(run, (_, swept))| (run.clone(), swept.clone())).collect()
        };
        let runs = runs.into_iter().filter_map(|((hash, seed), swept)| {
            self.row(&hash, seed).map(|row| RunRow { swept, ..row })
        });
        runs.collect()
    }

    /// How many rows other versions made, which are in none of what it gives.
    pub fn left_out(&self) -> usize {
        self.table().left_out()
    }

    /// What its sweeps vary.
    pub fn varied(&self) -> Varied {
        let table = self.table();
        let mut varied = Varied { keys: table.keys().to_vec(), ..Varied::default() };
        for ((hash, _), (_, swept)) in table.rows() {
            varied.add(hash, swept);
        }
        varied
    }

    /// Keeps what was seen in the runs of another folder and in none of this.
    ///
    /// # Errors
    /// Those of the file.
    pub fn absorb_seen(&self, other: &Store) -> Result<()> {
        for ((hash, seed, what), value) in &other.seen {
            if !self.seen.contains_key(&(hash.clone(), *seed, what.clone())) {
                self.keep_seen(hash, *seed, what, value)?;
            }
        }
        Ok(())
    }

    /// Writes a row, unless it stands there already, also if another process wrote it meanwhile.
    ///
    /// # Errors
    /// Those of the files.
    pub fn keep(&self, row: &RunRow) -> Result<()> {
        let mut table = self.table();
        let _alone = lock(&self.folder);
        let path = table.path().to_owned();
        let run = (row.hash.clone(), row.seed);
        table.read_on(true).with_context(|| path.display().to_string())?;
        let is_same = table.rows().get(&run).is_some_and(|(known, _)| *known == row.bare());
        let is_known = is_same && !table.is_of_others(&run);
        let mut lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the row: with that a run is done.
        if !row.goodputs.is_empty() && (lacking.remove(&run) || !is_known) {
            let path = ranks_file(&self.folder);
            append_ranks(&path, row).with_context(|| path.display().to_string())?;
        }
        if !is_known {
            table.append(row).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// What was seen in a run that this version made, if that was kept.
    pub fn seen<T: DeserializeOwned>(&self, hash: &str, seed: u64, what: &str) -> Option<T> {
        let value = self.seen.get(&(hash.to_owned(), seed, what.to_owned()))?;
        T::deserialize(value).ok()
    }

    /// Keeps what was seen in a run.
    ///
    /// # Errors
    /// Those of the file.
    pub fn keep_seen<T: Serialize>(
        &self,
        hash: &str,
        seed: u64,
        what: &str,
        value: &T,
    ) -> Result<()> {
        let (version, hash, what) = (VERSION.to_owned(), hash.to_owned(), what.to_owned());
        let seen = Seen { version, hash, seed, what, value: serde_json::to_value(value)? };
        let path = seen_file(&self.folder);
        let mut line = serde_json::to_vec(&seen)?;
        line.push(b'\n');
        let _alone = lock(&self.folder);
        append(&path, &line).with_context(|| path.display().to_string())
    }
}

/// A line of `seen.jsonl`.
#[derive(Serialize, Deserialize)]
struct Seen {
    /// None in lines of before it was written.
    #[serde(default)]
    version: String,
    hash: String,
    seed: u64,
    what: String,
    value: Value,
}

fn seen_file(folder: &Path) -> PathBuf {
    folder.join("seen.jsonl")
}

/// What this version has seen: a line that was cut off is as if it were not there.
fn read_seen(path: &Path) -> BTreeMap<(String, u64, String), Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Seen>(line).ok());
    let ours = lines.filter(|seen| seen.version == VERSION);
    ours.map(|seen| ((seen.hash, seen.seed, seen.what), seen.value)).collect()
}

fn ranks_file(folder: &Path) -> PathBuf {
    folder.join("ranks.csv")
}

/// Distributions of a run behind those that are there: version, hash, seed, quantity, and a value at each
/// rank.
fn append_ranks(path: &Path, row: &RunRow) -> Result<()> {
    let mut text = String::new();
    for (quantity, values) in RANKED.into_iter().zip([&row.goodputs, &row.times]) {
        let values: Vec<String> = values.iter().map(|value| format!("{value:.5}")).collect();
        let RunRow { version, hash, seed, .. } = row;
        text.push_str(&format!("{version},{hash},{seed},{quantity},{}\n", values.join(",")));
    }
    append(path, text.as_bytes())
}

/// The distributions that this version wrote: a line that was cut off is as if it were not there.
fn read_ranks(path: &Path) -> Ranks {
    let mut ranks = Ranks::new();
    let text = std::fs::read_to_string(path).unwrap_or_default();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let Some(ours) = line.strip_prefix(VERSION).and_then(|line| line.strip_prefix(',')) else {
            continue;
        };
        let mut fields = ours.split(',');
        let (Some(hash), Some(seed)) = (fields.next(), fields.next().and_then(|s| s.parse().ok()))
        else {
            continue;
        };
        let place = fields.next().and_then(|name| RANKED.iter().position(|known| *known == name));
        let values: Vec<f64> = fields.map_while(|value| value.parse().ok()).collect();
        if let Some(place) = place.filter(|_| values.len() == RANKS + 1) {
            ranks.entry((hash.to_owned(), seed)).or_default()[place] = values;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::lines;
    use tempfile::TempDir;

    fn row(seed: u64) -> RunRow {
        RunRow { version: env!("CARGO_PKG_VERSION").to_owned(), seed, ..RunRow::default() }
    }

    fn swept(seed: u64, pairs: &[(&str, &str)]) -> RunRow {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        RunRow { swept: pairs.collect(), ..row(seed) }
    }

    fn open(folder: &TempDir, keys: &[&str]) -> Result<Store> {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Store::open(folder.path(), &Varied { keys, ..Varied::default() })
    }

    #[test]
    fn rows_are_kept_once_and_those_of_other_versions_are_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder, &[]).unwrap();
        for seed in [1, 2, 1] {
            store.keep(&row(seed)).unwrap();
        }
        store.keep(&RunRow { version: "0.0.0".to_owned(), seed: 3, ..RunRow::default() }).unwrap();
        let table = folder.path().join("runs.csv");
        assert_eq!(std::fs::read_to_string(&table).unwrap().lines().count(), 4);
        let again = open(&folder, &[]).unwrap();
        assert_eq!(again.row("", 1), Some(row(1)));
        assert_eq!(again.row("", 3), None);
        again.keep(&row(2)).unwrap();
        assert_eq!(std::fs::read_to_string(&table).unwrap().lines().count(), 4);
        again.keep(&RunRow { digest: "other".to_owned(), ..row(2) }).unwrap();
        let last = open(&folder, &[]).unwrap().row("", 2).unwrap();
        assert_eq!(last.digest, "other");
    }

    #[test]
    fn distributions_are_kept_once_beside_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let ranked = |seed: u64| RunRow {
            goodputs: (0..=RANKS).map(|rank| rank as f64 / 4.0).collect(),
            times: vec![seed as f64; RANKS + 1],
            ..row(seed)
        };
        let store = open(&folder, &[]).unwrap();
        [1, 2].into_iter().for_each(|seed| store.keep(&ranked(seed)).unwrap());
        store.keep(&row(3)).unwrap();
        let path = ranks_file(folder.path());
        let mut text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4);
        text.push_str(",2,fct_ms,1.0,2");
        std::fs::write(&path, &text).unwrap();
        let store = open(&folder, &[]).unwrap();
        assert_eq!(store.row("", 2), Some(ranked(2)));
        assert_eq!(store.row("", 3), Some(row(3)));
        store.keep(&ranked(2)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let table = std::fs::read_to_string(folder.path().join("runs.csv")).unwrap();
        assert_eq!(table.lines().count(), 4);
    }

    #[test]
    fn only_our_own_tables_are_mended() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("runs.csv");
        for foreign in ["my notes", "a,b\n1,2\n", "a,b\n1,2", "version,scenario\n0.1.0,x\n"] {
            std::fs::write(&table, foreign).unwrap();
            let error = open(&folder, &[]).map(|_| ()).unwrap_err();
            let first = foreign.lines().next().unwrap();
            assert!(format!("{error:#}").contains(first), "{error:#}");
            assert_eq!(std::fs::read_to_string(&table).unwrap(), foreign);
        }
        let whole = String::from_utf8(lines(&row(7), &[], true).unwrap()).unwrap();
        // Cut within the header, behind it, and within a second line.
        for (cut, rows) in
            [(&whole[..9], 0), (&whole[..whole.len() - 3], 0), (&format!("{whole}0.1."), 1)]
        {
            std::fs::write(&table, cut).unwrap();
            open(&folder, &[]).unwrap().keep(&row(8)).unwrap();
            let text = std::fs::read_to_string(&table).unwrap();
            assert_eq!(text.lines().count(), rows + 2, "{text}");
            assert!(open(&folder, &[]).unwrap().row("", 8).is_some());
        }
    }

    #[test]
    fn every_swept_key_is_a_column_also_of_a_table_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let open = |keys: &[&str]| open(&folder, keys).unwrap();
        open(&[]).keep(&row(1)).unwrap();
        open(&["a.b"]).keep(&swept(2, &[("a.b", "70KB")])).unwrap();
        let store = open(&["c", "a.b"]);
        store.keep(&swept(3, &[("c", "1,2"), ("a.b", "5")])).unwrap();
        store.keep(&swept(2, &[("a.b", "70KB")])).unwrap();
        let mut table = csv::Reader::from_path(folder.path().join("runs.csv")).unwrap();
        let header = table.headers().unwrap().clone();
        assert_eq!(header.iter().rev().take(2).collect::<Vec<_>>(), ["c", "a.b"]);
        let ends: Vec<Vec<String>> = table
            .records()
            .map(|record| record.unwrap().iter().rev().take(2).map(str::to_owned).collect())
            .collect();
        assert_eq!(ends, [["", ""], ["", "70KB"], ["1,2", "5"]]);
        assert_eq!(open(&[]).row("", 3).map(|row| row.seed), Some(3));
    }

    #[test]
    fn several_may_write_to_one_folder_and_none_loses_rows() {
        let folder = tempfile::tempdir().unwrap();
        let one = open(&folder, &[]).unwrap();
        one.keep(&row(1)).unwrap();
        let other = open(&folder, &["a"]).unwrap();
        one.keep(&row(2)).unwrap();
        other.keep(&swept(3, &[("a", "x")])).unwrap();
        one.keep(&row(3)).unwrap();
        one.keep(&row(4)).unwrap();
        let seeds: Vec<u64> = open(&folder, &[]).unwrap().runs().iter().map(|r| r.seed).collect();
        assert_eq!(seeds, [1, 2, 3, 4]);
        let table = std::fs::read_to_string(folder.path().join("runs.csv")).unwrap();
        assert_eq!(table.lines().count(), 5, "each stands there once: {table}");
        let mut table = csv::Reader::from_reader(table.as_bytes());
        assert!(table.records().all(|record| record.is_ok()), "all of the same width");
    }

    #[test]
    fn who_writes_waits_for_who_does_it_already() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder, &[]).unwrap();
        let another = crate::table::lock(folder.path()).unwrap();
        let (tell, hear) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                store.keep(&row(1)).unwrap();
                tell.send("a row").unwrap();
            });
            scope.spawn(|| {
                store.keep_seen("", 1, "it", &5).unwrap();
                tell.send("what was seen").unwrap();
            });
            scope.spawn(|| {
                open(&folder, &["a"]).unwrap();
                tell.send("a column").unwrap();
            });
            // Time enough for who does not wait.
            let early = hear.recv_timeout(std::time::Duration::from_millis(300));
            drop(another);
            assert!(early.is_err(), "{early:?}");
        });
        assert_eq!(hear.try_iter().count(), 3);
        assert!(open(&folder, &[]).unwrap().row("", 1).is_some());
    }

    #[test]
    fn a_row_that_cannot_be_read_is_an_error_and_a_short_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("runs.csv");
        open(&folder, &[]).unwrap().keep(&row(1)).unwrap();
        let short = std::fs::read_to_string(&table).unwrap();
        open(&folder, &["a"]).unwrap().keep(&row(2)).unwrap();
        let whole = std::fs::read_to_string(&table).unwrap();
        let first = short.lines().last().unwrap();
        // As tables were written before, and with the two rows of one line that this gave.
        std::fs::write(&table, format!("{whole}{}\n", first.replace(",1,", ",7,"))).unwrap();
        assert_eq!(open(&folder, &[]).unwrap().runs().len(), 3);
        std::fs::write(&table, format!("{whole}{first}{first}\n{first}\n")).unwrap();
        let error = format!("{:#}", open(&folder, &[]).map(|_| ()).unwrap_err());
        assert!(error.contains("delete the line"), "{error}");
    }

    #[test]
    fn a_line_cut_off_stays_alone_in_the_files_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = seen_file(folder.path());
        std::fs::write(&path, "{\"hash\":\"12").unwrap();
        open(&folder, &[]).unwrap().keep_seen("", 1, "it", &5).unwrap();
        assert_eq!(open(&folder, &[]).unwrap().seen("", 1, "it"), Some(5));
    }
}
