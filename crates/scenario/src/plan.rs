//! Scenario files: a scenario, and the keys it sweeps.

use super::Scenario;
use super::unused::check_needs;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The longest file that is read \[bytes\].
const MAX_FILE: u64 = 64 << 20;
/// The most scenarios of a plan, and what their tables take in all as text \[bytes\].
const MAX_SCENARIOS: usize = 100_000;
const MAX_TEXT: usize = 1 << 30;

/// Keys whose value is a list itself, by the last part of their names.
const LISTS: [&str; 7] =
    ["seeds", "thresholds", "decode_curve", "links", "points", "events", "nodes"];

/// Keys whose value is a file's path, and the keys that what it holds is of.
const FILES: [[&str; 2]; 3] = [
    ["topology.graph_file", "topology.graph"],
    ["workload.matrix_file", "workload.matrix"],
    ["workload.sizes.file", "workload.sizes.points"],
];

/// The key that this one sets: another one for a file's.
fn set_by(key: &str) -> &str {
    FILES.iter().find(|[file, _]| *file == key).map_or(key, |[_, held]| held)
}

fn takes_a_list(key: &str) -> bool {
    LISTS.contains(&key.rsplit('.').next().unwrap_or(key))
}

/// A scenario file: a scenario, and what varies.
#[derive(Clone, Debug)]
pub struct Plan {
    base: Table,
    sweep: Vec<Swept>,
}

/// A key, and its values.
#[derive(Clone, Debug)]
struct Swept {
    key: String,
    values: Vec<Value>,
    /// Where files are that these name; none are read without it.
    folder: Option<PathBuf>,
}

impl Plan {
    /// Reads a scenario file's text, which names no other files. Its table `[sweep]` maps keys (`"protocol.name"`) to lists
    /// of values; all combinations are run.
    ///
    /// # Errors
    /// Not TOML, or not a scenario.
    pub fn parse(text: &str) -> Result<Plan> {
        Plan::from_table(text.parse().context("not TOML")?, None)
    }

    /// Reads a scenario file's text. `topology.graph_file`, `workload.matrix_file` and `workload.sizes.file` name files
    /// from that folder.
    ///
    /// # Errors
    /// As for [`Plan::parse`], or a file cannot be read.
    pub fn parse_in(text: &str, folder: &Path) -> Result<Plan> {
        Plan::from_table(text.parse().context("not TOML")?, Some(folder))
    }

    fn from_table(mut base: Table, folder: Option<&Path>) -> Result<Plan> {
        if let Some(folder) = folder {
            read_files(&mut base, folder)?;
        }
        let folder = folder.map(Path::to_owned);
        let sweep = match base.remove("sweep") {
            None => Vec::new(),
            Some(Value::Table(table)) => table
                .into_iter()
                .map(|(key, values)| match values {
                    Value::Array(values) if !values.is_empty() => {
                        Ok(Swept { key, values, folder: folder.clone() })
                    }
                    _ => bail!("sweep.{key} is not a list of values"),
                })
                .collect::<Result<_>>()?,
            Some(_) => bail!("`sweep` is not a table"),
        };
        let plan = Plan { base, sweep };
        plan.scenarios()?;
        Ok(plan)
    }

    /// Reads a scenario from a file, and others that it names from its folder.
    ///
    /// # Errors
    /// As for [`Plan::parse_in`].
    pub fn read(path: &Path) -> Result<Plan> {
        Plan::parse_in(&read_text(path)?, path.parent().unwrap_or(Path::new("")))
    }

    /// Sets a key (`workload.sessions`) to a value in TOML, or to a string if it is not TOML;
    /// such a key is no longer swept. A list of values for a key that takes one is swept. Files are
    /// named from the current folder.
    ///
    /// # Errors
    /// The key goes through something that is no table, the list is empty, or a file cannot be read.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut t| t.remove("v"));
        self.sweep.retain(|swept| set_by(&swept.key) != set_by(key));
        let here = Path::new("");
        match parsed {
            Some(Value::Array(values)) if !takes_a_list(key) => {
                let Some(first) = values.first() else { bail!("`{key}` is given no value") };
                set(&mut self.base, key, first.clone())?;
                let (key, folder) = (key.to_owned(), Some(here.to_owned()));
                self.sweep.push(Swept { key, values, folder });
            }
            parsed => {
                let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
                set(&mut self.base, key, value)?;
            }
        }
        read_files(&mut self.base, here)
    }

    /// Forgets what varies: the scenario as its tables say, without `[sweep]`.
    pub fn without_sweep(mut self) -> Plan {
        self.sweep.clear();
        self
    }

    /// Whether the file sets a key of a table (`workload.sessions`).
    pub fn has(&self, key: &str) -> bool {
        let (table, name) = key.split_once('.').unwrap_or(("", key));
        match self.base.get(table) {
            Some(Value::Table(table)) => table.contains_key(name),
            _ => self.base.contains_key(name),
        }
    }

    /// All combinations. Of runs that are the same, one with another spelling of a value, the first is kept: two would count
    /// as two samples.
    ///
    /// # Errors
    /// One of them is no scenario, or there are too many.
    pub fn scenarios(&self) -> Result<Vec<Scenario>> {
        let lens = self.sweep.iter().map(|swept| swept.values.len());
        let count = lens.fold(1_usize, usize::saturating_mul);
        if count > MAX_SCENARIOS {
            bail!("[sweep] makes {count} scenarios, but at most {MAX_SCENARIOS} are run at once");
        }
        let len = toml::to_string(&self.base)?.len();
        if count.saturating_mul(len) > MAX_TEXT {
            bail!("[sweep] makes {count} scenarios of {len} bytes, but all may take {MAX_TEXT}");
        }
        let mut tables = vec![(self.base.clone(), Vec::new())];
        for Swept { key, values, folder } in &self.sweep {
            let mut next = Vec::with_capacity(tables.len() * values.len());
            for (table, swept) in &tables {
                for value in values {
                    let (mut table, mut swept) = (table.clone(), swept.clone());
                    set(&mut table, key, value.clone())?;
                    if let Some(folder) = folder {
                        read_files(&mut table, folder)?;
                    }
                    swept.push((key.clone(), text(value)));
                    next.push((table, swept));
                }
            }
            tables = next;
        }
        let scenarios = tables
            .into_iter()
            .map(|(table, swept)| scenario(table).map(|scenario| Scenario { swept, ..scenario }));
        let scenarios = scenarios.collect::<Result<Vec<_>>>()?;
        Ok(if self.sweep.is_empty() { scenarios } else { once(scenarios) })
    }
}

/// Scenarios without the runs of those before them, and none without runs.
fn once(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let mut known: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let fresh = scenarios.into_iter().filter_map(|mut scenario| {
        let known = known.entry(scenario.hash()).or_default();
        scenario.run.seeds.retain(|seed| known.insert(*seed));
        (!scenario.run.seeds.is_empty()).then_some(scenario)
    });
    fresh.collect()
}

/// A value as a column of a table shows it.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn scenario(table: Table) -> Result<Scenario> {
    check_needs(&table)?;
    let mut scenario: Scenario = Value::Table(table).try_into()?;
    scenario.check()?;
    // A run that is there twice would count as two samples.
    let mut seen = BTreeSet::new();
    scenario.run.seeds.retain(|seed| seen.insert(*seed));
    Ok(scenario)
}

fn read_text(path: &Path) -> Result<String> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    let text = read().with_context(|| path.display().to_string())?;
    if text.len() as u64 > MAX_FILE {
        bail!("{} is longer than {MAX_FILE} bytes", path.display());
    }
    Ok(text)
}

/// Replaces `topology.graph_file`, `workload.matrix_file` and `workload.sizes.file` by what these files hold.
fn read_files(base: &mut Table, folder: &Path) -> Result<()> {
    let read = |path: &Value| -> Result<String> {
        let path = folder.join(path.as_str().context("a file's path is a string")?);
        let kind = std::fs::metadata(&path).with_context(|| path.display().to_string())?;
        if !kind.is_file() {
            bail!("{} is no regular file", path.display());
        }
        read_text(&path)
    };
    if let Some(Value::Table(topology)) = base.get_mut("topology")
        && let Some(path) = topology.remove("graph_file")
    {
        topology.insert("graph".into(), Value::String(read(&path)?));
    }
    if let Some(Value::Table(workload)) = base.get_mut("workload")
        && let Some(path) = workload.remove("matrix_file")
    {
        workload.insert("matrix".into(), Value::String(read(&path)?));
    }
    if let Some(Value::Table(workload)) = base.get_mut("workload")
        && let Some(Value::Table(sizes)) = workload.get_mut("sizes")
        && let Some(path) = sizes.remove("file")
    {
        sizes.insert("points".into(), points(&read(&path)?)?);
    }
    Ok(())
}

/// Lines of a size in bytes and a cumulative probability, `#` before comments.
fn points(text: &str) -> Result<Value> {
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<f64> = line
            .split_whitespace()
            .map(|word| word.parse().with_context(|| format!("line {}: `{word}`", number + 1)))
            .collect::<Result<_>>()?;
        match words[..] {
            [] => {}
            [bytes, share] => points.push(Value::Array(vec![bytes.into(), share.into()])),
            _ => bail!("line {}: a size and a cumulative probability", number + 1),
        }
    }
    Ok(Value::Array(points))
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<()> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            match inner {
                Value::Table(inner) => set(inner, rest, value),
                _ => bail!("`{first}` is not a table"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_core::Duration;

    const TEXT: &str = r#"
        name = "x"
        [topology]
        k = 4
        delay = "5us"
        [workload]
        kind = "incast"
        senders = 3
        size = "70KB"
        [sweep]
        "protocol.name" = ["scdp", "ndp"]
        "workload.senders" = [1, 2, 3]
    "#;

    #[test]
    fn a_plan_is_every_combination() {
        let mut plan = Plan::parse(TEXT).unwrap();
        assert_eq!(plan.scenarios().unwrap().len(), 6);
        assert_eq!(plan.clone().without_sweep().scenarios().unwrap().len(), 1);
        plan.set("workload.senders", "9").unwrap();
        plan.set("topology.delay", "1us").unwrap();
        let scenarios = plan.scenarios().unwrap();
        assert_eq!(scenarios.len(), 2);
        assert_eq!(scenarios[0].topology.delay.0, Duration::from_micros(1));
        assert_ne!(scenarios[0].hash(), scenarios[1].hash());
    }

    #[test]
    fn a_list_for_a_key_that_takes_one_value_is_swept() {
        let mut plan = Plan::parse(TEXT).unwrap().without_sweep();
        plan.set("workload.senders", "[1, 2, 9]").unwrap();
        plan.set("topology.delay", "[\"1us\", \"10us\"]").unwrap();
        plan.set("run.seeds", "[7, 8]").unwrap();
        plan.set("protocol.thresholds", "[\"10MB\"]").unwrap();
        let scenarios = plan.scenarios().unwrap();
        assert_eq!(scenarios.len(), 6);
        assert!(scenarios.iter().all(|one| one.run.seeds == [7, 8]));
        assert!(scenarios.iter().all(|one| one.protocol.thresholds.len() == 1));
        let swept = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let last = [swept("workload.senders", "9"), swept("topology.delay", "10us")];
        assert_eq!(scenarios[5].swept, last);
        assert!(plan.set("workload.senders", "[]").is_err());
        plan.set("workload.senders", "4").unwrap();
        assert_eq!(plan.scenarios().unwrap().len(), 2, "one value is no longer swept");
    }

    #[test]
    fn a_value_that_is_there_twice_is_run_once() {
        let mut plan = Plan::parse(TEXT).unwrap();
        plan.set("workload.senders", "[2, 2, 3]").unwrap();
        plan.set("topology.delay", "[\"10us\", \"10000ns\"]").unwrap();
        let senders = |plan: &Plan| {
            let scenarios = plan.scenarios().unwrap();
            scenarios.iter().map(|one| one.swept[1].1.clone()).collect::<Vec<_>>()
        };
        assert_eq!(senders(&plan), ["2", "3", "2", "3"], "of each protocol");
        let mut seeds = Plan::parse(&format!("{TEXT}\"run.seeds\" = [[1, 2], [2, 3]]\n")).unwrap();
        seeds.set("workload.senders", "2").unwrap();
        let all: Vec<_> =
            seeds.scenarios().unwrap().iter().map(|one| one.run.seeds.clone()).collect();
        assert_eq!(all, [vec![1, 2], vec![3], vec![1, 2], vec![3]]);
    }

    #[test]
    fn a_scenario_survives_a_round_trip() {
        let mut scenario = Plan::parse(TEXT).unwrap().scenarios().unwrap().remove(0);
        assert_eq!(scenario.swept.len(), 2);
        scenario.swept.clear();
        let text = toml::to_string(&scenario).unwrap();
        assert_eq!(Plan::parse(&text).unwrap().scenarios().unwrap(), [scenario]);
    }

    #[test]
    fn misspelt_keys_are_errors() {
        assert!(Plan::parse(&TEXT.replace("delay", "dellay")).is_err());
        assert!(Plan::parse(&TEXT.replace("size", "sise")).is_err());
    }
}
