//! Folders of results: `runs.csv`, and the files beside it. Distributions of each run are in
//! `ranks.csv`, what figures need beside in `seen.jsonl`.

use crate::results::RunRow;
use crate::stats::RANKS;
use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use wellspring_store::atomic_file::AtomicFile;

/// Goodputs and completion times by rank, by hash and seed.
type Ranks = BTreeMap<(String, u64), [Vec<f64>; 2]>;

/// Swept keys and their values.
type Swept = Vec<(String, String)>;

/// Rows with what was swept.
type Rows = Vec<(RunRow, Swept)>;

/// The quantities of `ranks.csv`.
const RANKED: [&str; 2] = ["goodput_gbps", "fct_ms"];

/// Characters of a foreign table's first line in an error.
const SHOWN: usize = 60;

/// A folder of results.
pub(crate) struct Store {
    /// The folder.
    pub folder: PathBuf,
    table: PathBuf,
    /// Columns behind those of every table: the keys that were swept.
    keys: Vec<String>,
    /// This version's rows by hash and seed; of several the last.
    rows: BTreeMap<(String, u64), RunRow>,
    /// Their swept keys and values.
    swept: BTreeMap<(String, u64), Swept>,
    /// Distributions of these runs, as far as they were kept.
    ranks: Ranks,
    /// What was seen in runs beside their rows, by hash, seed and the name of what was looked for.
    seen: BTreeMap<(String, u64, String), Value>,
    /// Those written since.
    written: Mutex<BTreeSet<(String, u64)>>,
}

impl Store {
    /// Opens a folder, or makes it. A table that lacks a column for one of the swept `keys` gets it,
    /// empty in the rows that are there.
    ///
    /// # Errors
    /// Those of the files, or `runs.csv` is not a table of this version.
    pub fn open(folder: &Path, keys: &[String]) -> Result<Store> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let table = folder.join("runs.csv");
        let (rows, mut all) = read(&table).with_context(|| table.display().to_string())?;
        let more: Vec<String> = keys.iter().filter(|key| !all.contains(key)).cloned().collect();
        if !more.is_empty() && table.is_file() {
            widen(&table, &more).with_context(|| table.display().to_string())?;
        }
        all.extend(more);
        let ours = rows.into_iter().filter(|(row, _)| row.version == env!("CARGO_PKG_VERSION"));
        let (mut rows, mut swept) = (BTreeMap::new(), BTreeMap::new());
        for (row, values) in ours {
            let key = (row.hash.clone(), row.seed);
            swept.insert(key.clone(), values);
            rows.insert(key, row);
        }
        let ranks = read_ranks(&ranks_file(folder));
        let seen = read_seen(&seen_file(folder));
        let written = Mutex::default();
        Ok(Store { folder: folder.into(), table, keys: all, rows, swept, ranks, seen, written })
    }

    /// The row of a run that this version made.
    pub fn row(&self, hash: &str, seed: u64) -> Option<RunRow> {
        let key = (hash.to_owned(), seed);
        let [goodputs, times] = self.ranks.get(&key).cloned().unwrap_or_default();
        self.rows.get(&key).map(|row| RunRow { goodputs, times, ..row.clone() })
    }

    /// The swept keys that its table has columns for.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// All rows that this version made, with what was swept.
    pub fn runs(&self) -> impl Iterator<Item = RunRow> {
        let runs = self.rows.keys().filter_map(|key| Some((self.row(&key.0, key.1)?, key)));
        runs.map(|(row, key)| RunRow {
            swept: self.swept.get(key).cloned().unwrap_or_default(),
            ..row
        })
    }

    /// Keeps what was seen in the runs of another folder and in none of this.
    ///
    /// # Errors
    /// Those of the file.
    pub fn absorb_seen(&self, other: &Store) -> Result<()> {
        for ((hash, seed, what), value) in &other.seen {
            if !self.seen.contains_key(&(hash.clone(), *seed, what.clone())) {
                let row = RunRow { hash: hash.clone(), seed: *seed, ..RunRow::default() };
                self.keep_seen(&row, what, value)?;
            }
        }
        Ok(())
    }

    /// Writes a row, unless it stands there already.
    ///
    /// # Errors
    /// Those of the file.
    pub fn keep(&self, row: &RunRow) -> Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (row.hash.clone(), row.seed);
        if self.rows.get(&key) != Some(&row.bare()) && written.insert(key.clone()) {
            self.append(row).with_context(|| self.table.display().to_string())?;
        }
        if !row.goodputs.is_empty() && !self.ranks.contains_key(&key) {
            let path = ranks_file(&self.folder);
            append_ranks(&path, row).with_context(|| path.display().to_string())?;
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
    pub fn keep_seen<T: Serialize>(&self, row: &RunRow, what: &str, value: &T) -> Result<()> {
        let _one_at_a_time = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let value = serde_json::to_value(value)?;
        let seen = Seen { hash: row.hash.clone(), seed: row.seed, what: what.to_owned(), value };
        let path = seen_file(&self.folder);
        let mut line = serde_json::to_vec(&seen)?;
        line.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(&line));
        written.with_context(|| path.display().to_string())
    }

    fn append(&self, row: &RunRow) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.table)?;
        let is_new = file.metadata()?.len() == 0;
        // At once, so that an interruption hardly ever cuts a line.
        file.write_all(&lines(row, &self.keys, is_new)?)?;
        Ok(())
    }
}

/// A line of `seen.jsonl`.
#[derive(Serialize, Deserialize)]
struct Seen {
    hash: String,
    seed: u64,
    what: String,
    value: Value,
}

fn seen_file(folder: &Path) -> PathBuf {
    folder.join("seen.jsonl")
}

/// What can be read of what was seen: a line that was cut off is as if it were not there.
fn read_seen(path: &Path) -> BTreeMap<(String, u64, String), Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Seen>(line).ok());
    lines.map(|seen| ((seen.hash, seen.seed, seen.what), seen.value)).collect()
}

fn ranks_file(folder: &Path) -> PathBuf {
    folder.join("ranks.csv")
}

/// Distributions of a run behind those that are there: hash, seed, quantity, and a value at each rank.
fn append_ranks(path: &Path, row: &RunRow) -> Result<()> {
    let mut text = String::new();
    for (quantity, values) in RANKED.into_iter().zip([&row.goodputs, &row.times]) {
        let values: Vec<String> = values.iter().map(|value| format!("{value:.5}")).collect();
        text.push_str(&format!("{},{},{quantity},{}\n", row.hash, row.seed, values.join(",")));
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

/// What can be read of a table of distributions: a line that was cut off is as if it were not there.
fn read_ranks(path: &Path) -> Ranks {
    let mut ranks = Ranks::new();
    let text = std::fs::read_to_string(path).unwrap_or_default();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let mut fields = line.split(',');
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

/// A row as CSV, its header before it if asked for, with a column for each of the swept `keys`.
fn lines(row: &RunRow, keys: &[String], header: bool) -> Result<Vec<u8>> {
    let mut plain = csv::WriterBuilder::new().from_writer(Vec::new());
    plain.serialize(row)?;
    let plain = plain.into_inner().map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut plain = csv::ReaderBuilder::new().has_headers(false).from_reader(&plain[..]);
    let mut table = csv::WriterBuilder::new().from_writer(Vec::new());
    let value = |key: &String| {
        let swept = row.swept.iter().find(|(swept, _)| swept == key);
        swept.map_or(String::new(), |(_, value)| value.clone())
    };
    for (number, record) in plain.records().enumerate() {
        let mut record = record?;
        match number {
            0 => keys.iter().for_each(|key| record.push_field(key)),
            _ => keys.iter().for_each(|key| record.push_field(&value(key))),
        }
        if header || number > 0 {
            table.write_record(&record)?;
        }
    }
    table.into_inner().map_err(|error| anyhow::anyhow!("{error}"))
}

/// Adds empty columns at the end of a table.
fn widen(path: &Path, keys: &[String]) -> Result<()> {
    let mut old = csv::ReaderBuilder::new().has_headers(false).from_path(path)?;
    let mut new = csv::WriterBuilder::new().from_writer(AtomicFile::output(path)?);
    for (number, record) in old.records().enumerate() {
        let mut record = record?;
        for key in keys {
            record.push_field(if number == 0 { key } else { "" });
        }
        new.write_record(&record)?;
    }
    new.into_inner().map_err(|error| anyhow::anyhow!("{error}"))?.finish()?;
    Ok(())
}

/// The rows of an earlier, perhaps interrupted, sweep with what was swept, and the keys that it has columns for. A last line
/// that was cut off is taken away, from a table of this version only.
fn read(path: &Path) -> Result<(Rows, Vec<String>)> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(error) => return Err(error.into()),
    };
    let mut header = lines(&RunRow::default(), &[], true)?;
    // Swept keys may follow.
    header.truncate(header.iter().position(|byte| *byte == b'\n').unwrap_or(0));
    let first = text.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    ensure!(
        text.starts_with(&header) || header.starts_with(&text),
        "its first line, `{}`, is not that of the runs of wellspring {}: nothing is added to it. \
         Choose another folder by --output, or move the file away",
        first.trim_end().chars().take(SHOWN).collect::<String>(),
        env!("CARGO_PKG_VERSION"),
    );
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    let mut table = csv::Reader::from_reader(&text[..whole]);
    let columns = header.split(|byte| *byte == b',').count();
    let header = table.headers()?.clone();
    let keys: Vec<String> = header.iter().skip(columns).map(str::to_owned).collect();
    let rows = table.records().filter_map(|record| {
        let record = record.ok()?;
        let row: RunRow = record.deserialize(Some(&header)).ok()?;
        let values = record.iter().skip(columns).map(str::to_owned);
        let swept = keys.iter().cloned().zip(values).filter(|(_, value)| !value.is_empty());
        Some((row, swept.collect()))
    });
    let rows = rows.collect();
    Ok((rows, keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seed: u64) -> RunRow {
        RunRow { version: env!("CARGO_PKG_VERSION").to_owned(), seed, ..RunRow::default() }
    }

    #[test]
    fn rows_are_kept_once_and_those_of_other_versions_are_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &[]).unwrap();
        for seed in [1, 2, 1] {
            store.keep(&row(seed)).unwrap();
        }
        store.keep(&RunRow { version: "0.0.0".to_owned(), seed: 3, ..RunRow::default() }).unwrap();
        let table = folder.path().join("runs.csv");
        assert_eq!(std::fs::read_to_string(&table).unwrap().lines().count(), 4);
        let again = Store::open(folder.path(), &[]).unwrap();
        assert_eq!(again.row("", 1), Some(row(1)));
        assert_eq!(again.row("", 3), None);
        again.keep(&row(2)).unwrap();
        assert_eq!(std::fs::read_to_string(&table).unwrap().lines().count(), 4);
        again.keep(&RunRow { digest: "other".to_owned(), ..row(2) }).unwrap();
        let last = Store::open(folder.path(), &[]).unwrap().row("", 2).unwrap();
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
        let store = Store::open(folder.path(), &[]).unwrap();
        [1, 2].into_iter().for_each(|seed| store.keep(&ranked(seed)).unwrap());
        store.keep(&row(3)).unwrap();
        let path = ranks_file(folder.path());
        let mut text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4);
        text.push_str(",2,fct_ms,1.0,2");
        std::fs::write(&path, &text).unwrap();
        let store = Store::open(folder.path(), &[]).unwrap();
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
            let error = Store::open(folder.path(), &[]).map(|_| ()).unwrap_err();
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
            Store::open(folder.path(), &[]).unwrap().keep(&row(8)).unwrap();
            let text = std::fs::read_to_string(&table).unwrap();
            assert_eq!(text.lines().count(), rows + 2, "{text}");
            assert!(Store::open(folder.path(), &[]).unwrap().row("", 8).is_some());
        }
    }

    #[test]
    fn every_swept_key_is_a_column_also_of_a_table_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let swept = |seed, pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            RunRow { swept: pairs.collect(), ..row(seed) }
        };
        let open = |keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            Store::open(folder.path(), &keys).unwrap()
        };
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
}
