//! Folders of results: `runs.csv`, and the files beside it.

use crate::results::RunRow;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use wellspring_store::atomic_file::AtomicFile;

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
        let ours = rows.into_iter().filter(|row| row.version == env!("CARGO_PKG_VERSION"));
        let rows = ours.map(|row| ((row.hash.clone(), row.seed), row)).collect();
        Ok(Store { folder: folder.into(), table, keys: all, rows, written: Mutex::default() })
    }

    /// The row of a run that this version made.
    pub fn row(&self, hash: &str, seed: u64) -> Option<RunRow> {
        self.rows.get(&(hash.to_owned(), seed)).cloned()
    }

    /// Writes a row, unless it stands there already.
    ///
    /// # Errors
    /// Those of the file.
    pub fn keep(&self, row: &RunRow) -> Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let bare = RunRow { stuck_state: None, swept: Vec::new(), ..row.clone() };
        let key = (row.hash.clone(), row.seed);
        if self.rows.get(&key) != Some(&bare) && written.insert(key) {
            self.append(row).with_context(|| self.table.display().to_string())?;
        }
        Ok(())
    }

    fn append(&self, row: &RunRow) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.table)?;
        let is_new = file.metadata()?.len() == 0;
        // At once, so that an interruption hardly ever cuts a line.
        file.write_all(&lines(row, &self.keys, is_new)?)?;
        Ok(())
    }
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

/// The rows of an earlier, perhaps interrupted, sweep, and the keys that it has columns for. A last line that was cut off is taken away,
/// from a table of this version only.
fn read(path: &Path) -> Result<(Vec<RunRow>, Vec<String>)> {
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
    let keys = table.headers()?.iter().skip(columns).map(str::to_owned).collect();
    let rows = table.deserialize().filter_map(|row: Result<RunRow, csv::Error>| row.ok());
    Ok((rows.collect(), keys))
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
