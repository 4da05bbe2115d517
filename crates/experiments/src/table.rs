//! `runs.csv` of a folder: one row a run. Several processes may append to it, each under the folder's lock; what the
//! others have written is read before.

use crate::results::RunRow;
use anyhow::{Context, Result, ensure};
use csv::StringRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use wellspring_store::atomic_file::AtomicFile;

/// A run: its scenario's hash, and its seed.
pub(crate) type RunKey = (String, u64);

/// Swept keys and their values.
pub(crate) type Swept = Vec<(String, String)>;

/// Places of the columns that tell rows apart.
const VERSION: usize = 0;
const HASH: usize = 2;
const SEED: usize = 3;

/// Characters of a foreign table's first line, or of a row, in an error.
const SHOWN: usize = 60;

/// What sweeps vary: the keys, which are columns, and the values of each scenario by its hash.
#[derive(Default)]
pub(crate) struct Varied {
    pub keys: Vec<String>,
    pub values: BTreeMap<String, Swept>,
}

impl Varied {
    /// Adds the values of a scenario.
    pub fn add(&mut self, hash: &str, swept: &Swept) {
        for (key, _) in swept {
            if !self.keys.contains(key) {
                self.keys.push(key.clone());
            }
        }
        self.values.insert(hash.to_owned(), swept.clone());
    }
}

/// A table, as far as it was read.
#[derive(Default)]
pub(crate) struct Table {
    path: PathBuf,
    /// Bytes that were read.
    length: u64,
    /// Its first line.
    header: Vec<u8>,
    /// Columns behind those of every table: the keys that were swept.
    keys: Vec<String>,
    /// This version's rows, of several of a run the last, with what was swept.
    rows: BTreeMap<RunKey, (RunRow, Swept)>,
    /// Runs whose last row is of another version.
    others: BTreeSet<RunKey>,
    /// How many rows are of other versions.
    left_out: usize,
}

impl Table {
    /// That table, unread.
    pub fn new(path: PathBuf) -> Table {
        Table { path, ..Table::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    pub fn rows(&self) -> &BTreeMap<RunKey, (RunRow, Swept)> {
        &self.rows
    }

    /// How many rows are of other versions.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Whether the last row of a run is of another version, and so the files beside.
    pub fn is_of_others(&self, run: &RunKey) -> bool {
        self.others.contains(run)
    }

    /// Reads what was written since. A last line that was cut off is left out, and taken away if
    /// the table is to be mended.
    ///
    /// # Errors
    /// Those of the file, or it is not a table of this version, or one of its rows cannot be read.
    pub fn read_on(&mut self, mend: bool) -> Result<()> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if self.length > 0 {
                    *self = Table::new(std::mem::take(&mut self.path));
                }
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let length = file.metadata()?.len();
        if length == self.length {
            return Ok(());
        }
        let mut reader = BufReader::new(file);
        let mut header = Vec::new();
        reader.read_until(b'\n', &mut header)?;
        if header != self.header || length < self.length {
            self.begin(header)?;
        }
        reader.seek(SeekFrom::Start(self.length))?;
        let mut text = Vec::new();
        reader.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.take_rows(&text[..whole])?;
        self.length += whole as u64;
        if mend && whole < text.len() {
            OpenOptions::new().write(true).open(&self.path)?.set_len(self.length)?;
        }
        Ok(())
    }

    /// Forgets all, and takes the columns from a first line.
    fn begin(&mut self, header: Vec<u8>) -> Result<()> {
        let plain = lines(&RunRow::default(), &[], true)?;
        let plain = plain.split(|byte| *byte == b'\n').next().unwrap_or_default();
        ensure!(
            header.starts_with(plain) || plain.starts_with(&header),
            "its first line, `{}`, is not that of the runs of wellspring {}: nothing is added to \
             it. Choose another folder by --output, or move the file away",
            shown(&String::from_utf8_lossy(&header)),
            env!("CARGO_PKG_VERSION"),
        );
        *self = Table::new(std::mem::take(&mut self.path));
        if header.ends_with(b"\n") {
            let keys = first_record(&header)?;
            self.keys = keys.iter().skip(columns()?.len()).map(str::to_owned).collect();
            self.length = header.len() as u64;
            self.header = header;
        }
        Ok(())
    }

    fn take_rows(&mut self, text: &[u8]) -> Result<()> {
        let columns = columns()?;
        let mut reader = csv::ReaderBuilder::new();
        let mut reader = reader.has_headers(false).flexible(true).from_reader(text);
        for record in reader.byte_records() {
            let record = record?;
            let found = StringRecord::from_byte_record(record.clone()).ok();
            let found = found.and_then(|record| self.take_row(&record, &columns));
            found.with_context(|| {
                let fields: Vec<_> = record.iter().map(String::from_utf8_lossy).collect();
                let row = fields.join(",");
                format!(
                    "its line `{}...` is no row of it: delete the line, and its run is made \
                     again, or move the file away",
                    shown(&row)
                )
            })?;
        }
        Ok(())
    }

    /// A row may be short of swept keys that became columns after it.
    fn take_row(&mut self, record: &StringRecord, columns: &StringRecord) -> Option<()> {
        let widths = columns.len()..=columns.len() + self.keys.len();
        if !widths.contains(&record.len()) {
            return None;
        }
        let key = (record.get(HASH)?.to_owned(), record.get(SEED)?.parse().ok()?);
        if record.get(VERSION)? != env!("CARGO_PKG_VERSION") {
            self.others.insert(key);
            self.left_out += 1;
            return Some(());
        }
        let plain: StringRecord = record.iter().take(columns.len()).collect();
        let row: RunRow = plain.deserialize(Some(columns)).ok()?;
        let values = record.iter().skip(columns.len()).map(str::to_owned);
        let swept = self.keys.iter().cloned().zip(values).filter(|(_, value)| !value.is_empty());
        let swept = swept.collect();
        self.others.remove(&key);
        self.rows.insert(key, (row, swept));
        Some(())
    }

    /// Adds columns that it lacks, and values that its rows lack.
    ///
    /// # Errors
    /// Those of the file.
    pub fn vary(&mut self, varied: &Varied) -> Result<()> {
        let more = varied.keys.iter().filter(|key| !self.keys.contains(key));
        let more: Vec<String> = more.cloned().collect();
        if self.length == 0 {
            self.keys.extend(more);
            return Ok(());
        }
        let lacks = |(key, (_, swept)): (&RunKey, &(RunRow, Swept))| {
            let values = varied.values.get(&key.0).into_iter().flatten();
            let mut values = values.filter(|(_, value)| !value.is_empty());
            values.any(|(key, _)| swept.iter().all(|(known, _)| known != key))
        };
        if more.is_empty() && !self.rows.iter().any(lacks) {
            return Ok(());
        }
        self.rewrite(&more, &varied.values)?;
        *self = Table::new(std::mem::take(&mut self.path));
        self.read_on(true)
    }

    fn rewrite(&self, more: &[String], values: &BTreeMap<String, Swept>) -> Result<()> {
        let mut old = csv::ReaderBuilder::new();
        let mut old = old.has_headers(false).flexible(true).from_path(&self.path)?;
        let mut new = csv::WriterBuilder::new().from_writer(AtomicFile::output(&self.path)?);
        let keys: Vec<&String> = self.keys.iter().chain(more).collect();
        let columns = columns()?;
        new.write_record(columns.iter().chain(keys.iter().map(|key| key.as_str())))?;
        for record in old.records().skip(1) {
            let record = record?;
            let known = values.get(&record[HASH]).map_or(&[][..], Vec::as_slice);
            let value = |(place, key): (usize, &&String)| {
                let own = record.get(columns.len() + place).filter(|value| !value.is_empty());
                let known = known.iter().find(|(known, _)| known == *key);
                own.or(known.map(|(_, value)| value.as_str())).unwrap_or("").to_owned()
            };
            let swept: Vec<String> = keys.iter().enumerate().map(value).collect();
            let plain = record.iter().take(columns.len());
            new.write_record(plain.chain(swept.iter().map(String::as_str)))?;
        }
        let new = new.into_inner().map_err(|error| anyhow::anyhow!("{error}"))?;
        // Windows replaces no file that is open.
        drop(old);
        new.finish()?;
        Ok(())
    }

    /// Appends a row, and columns that it is the first to need.
    ///
    /// # Errors
    /// Those of the file.
    pub fn append(&mut self, row: &RunRow) -> Result<()> {
        let keys = row.swept.iter().map(|(key, _)| key.clone()).collect();
        self.vary(&Varied { keys, ..Varied::default() })?;
        append(&self.path, &lines(row, &self.keys, self.length == 0)?)?;
        self.read_on(true)
    }
}

/// Appends whole lines at once, behind a line of its own if the last was cut off. If they do not all
/// fit, none is there.
///
/// # Errors
/// Those of the file.
pub(crate) fn append(path: &Path, lines: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let text = if last == [b'\n'] { lines.to_vec() } else { [b"\n", lines].concat() };
    if let Err(error) = file.write_all(&text) {
        // If that fails too, the next to read it takes a cut line away.
        let _ = file.set_len(length);
        return Err(error.into());
    }
    Ok(())
}

/// Held while the files of a folder are appended to or rewritten: it waits for who holds it. None where
/// there can be none, in a folder that is not ours to write to or on a file system without locks.
pub(crate) fn lock(folder: &Path) -> Option<File> {
    let path = folder.join(".runs.lock");
    let file = OpenOptions::new().create(true).append(true).open(path).ok()?;
    loop {
        match file.lock() {
            Ok(()) => return Some(file),
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(_) => return None,
        }
    }
}

fn shown(line: &str) -> String {
    line.trim_end().chars().take(SHOWN).collect()
}

fn first_record(text: &[u8]) -> Result<StringRecord> {
    let mut record = StringRecord::new();
    csv::ReaderBuilder::new().has_headers(false).from_reader(text).read_record(&mut record)?;
    Ok(record)
}

/// The columns of every table.
fn columns() -> Result<StringRecord> {
    first_record(&lines(&RunRow::default(), &[], true)?)
}

/// A row as CSV, its header before it if asked for, with a column for each of the swept `keys`.
pub(crate) fn lines(row: &RunRow, keys: &[String], header: bool) -> Result<Vec<u8>> {
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
