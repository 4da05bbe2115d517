//! Records of reproduced figures: small files from which reports are drawn.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::whole_file::save;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use wellspring_figures::plot::Plot;
use wellspring_figures::{Check, Figure, Lab, Larger, QUESTIONS, Verdict, larger};

/// What came of one figure, and how.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// `scdp-5`
    pub figure: String,
    /// What it shows.
    pub title: String,
    /// The command that makes it.
    pub command: String,
    /// Seeds of its simulations.
    pub seeds: Vec<u64>,
    /// Least and greatest number of requests in one run.
    pub requests: Option<(usize, usize)>,
    /// Where and when its runs were made, one entry a time.
    pub made: Vec<Made>,
    /// Its rows.
    pub checks: Vec<Check>,
    /// Its plots.
    pub plots: Vec<Plot>,
}

/// Runs that were made at one time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Made {
    /// `scdp-5`
    pub figure: String,
    /// The commit of the working tree they were made in.
    pub commit: String,
    /// The processor, and how many cores.
    pub machine: String,
    /// The day.
    pub date: String,
    /// How long it took \[s\].
    pub seconds: f64,
}

/// Where a folder of results keeps when its runs were made.
const MADE: &str = "made.jsonl";

impl Record {
    /// Of a figure that was reproduced in `took`; runs that were read from the folder `output` were
    /// made when that says.
    ///
    /// # Errors
    /// Those of the folder.
    pub fn new(
        figure: &Figure,
        lab: &Lab<'_>,
        command: String,
        took: Duration,
        output: Option<&Path>,
    ) -> Result<Record> {
        let scope = lab.scope();
        let mut made = output.map(|folder| read_made(folder, figure.name)).unwrap_or_default();
        // What runs no simulation is done anew each time.
        if scope.fresh > 0 || scope.runs == 0 {
            let now = Made::now(figure.name, took);
            if let Some(folder) = output {
                fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
                append(&folder.join(MADE), &now)?;
            }
            made.push(now);
        }
        Ok(Record {
            figure: figure.name.to_owned(),
            title: figure.title.to_owned(),
            command,
            seeds: scope.seeds.into_iter().collect(),
            requests: scope.requests,
            made,
            checks: lab.checks.clone(),
            plots: lab.plots.clone(),
        })
    }

    /// Reads the record of a figure from a folder; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is no record.
    pub fn read(folder: &Path, figure: &str) -> Result<Option<Record>> {
        let path = folder.join(format!("{figure}.json"));
        if !path.is_file() {
            return Ok(None);
        }
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        serde_json::from_slice(&text).with_context(|| path.display().to_string()).map(Some)
    }

    /// Writes it into a folder, which is made if it is missing; an earlier one stays if that fails.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut text = serde_json::to_string(self)?;
        text.push('\n');
        save(folder, &format!("{}.json", self.figure), &text)
    }

    /// Rows that claim something of a paper, judged or not.
    pub fn claims(&self) -> impl Iterator<Item = &Check> {
        let is_papers = !QUESTIONS.iter().any(|question| question.figure == self.figure);
        self.checks.iter().filter(move |check| is_papers && check.verdict != Verdict::Reported)
    }

    /// Whether its runs were only a taste of the figure.
    pub fn is_quick(&self) -> bool {
        self.command.contains(" --quick")
    }

    /// How many sessions were asked for, instead of the paper's.
    pub fn asked_sessions(&self) -> Option<u32> {
        let (_, rest) = self.command.split_once(" --sessions ")?;
        rest.split(' ').next()?.parse().ok()
    }

    /// What larger runs than a quick record's gave, for people; nothing beside one of the paper's size.
    pub fn larger(&self) -> Option<String> {
        let found = || match larger(&self.figure) {
            Some(Larger { found, record, .. }) => {
                format!(
                    "Quick runs: far fewer sessions than the paper's. Larger ones ({record}): {found}."
                )
            }
            None => {
                "Quick runs: far fewer sessions than the paper's. There are no larger ones yet."
                    .to_owned()
            }
        };
        self.is_quick().then(found)
    }

    /// How many requests a run has, for people; nothing where a run is no number of requests.
    pub fn sessions(&self) -> String {
        match self.requests {
            None => String::new(),
            Some((least, most)) if least == most => most.to_string(),
            Some((least, most)) => format!("{least} to {most}"),
        }
    }

    /// How long the runs took, for people.
    pub fn time(&self) -> String {
        let seconds: f64 = self.made.iter().map(|made| made.seconds).sum();
        match seconds {
            s if s < 100.0 => format!("{s:.0} s"),
            s if s < 6_000.0 => format!("{:.0} min", s / 60.0),
            s => format!("{:.1} h", s / 3_600.0),
        }
    }

    /// The distinct values of what the runs' entries say, in their order.
    pub fn made_of(&self, what: impl Fn(&Made) -> &str) -> String {
        let mut values: Vec<&str> = Vec::new();
        for made in &self.made {
            if !values.contains(&what(made)) {
                values.push(what(made));
            }
        }
        if values.is_empty() { "unknown".to_owned() } else { values.join(", ") }
    }
}

impl Made {
    fn now(figure: &str, took: Duration) -> Made {
        let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Made {
            figure: figure.to_owned(),
            commit: commit(),
            machine: machine(),
            date: date.chars().take(10).collect(),
            seconds: (took.as_secs_f64() * 10.0).round() / 10.0,
        }
    }
}

/// The commit of the working tree that the command runs in, or the version alone elsewhere. A program that was built before
/// that commit may not have its code.
fn commit() -> String {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    if !Path::new("crates/lab/Cargo.toml").is_file() {
        return version;
    }
    let Some(described) = git(&["describe", "--always", "--dirty", "--exclude=*"]) else {
        return version;
    };
    let seconds = git(&["log", "-1", "--format=%ct"]).and_then(|text| text.parse().ok());
    let committed = seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    let program = std::env::current_exe().and_then(fs::metadata);
    stamp(described, program.and_then(|of| of.modified()).ok(), committed)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok();
    let output = output.filter(|git| git.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}

/// A commit, and whether the program is known to be at least as new.
fn stamp(commit: String, built: Option<SystemTime>, committed: Option<SystemTime>) -> String {
    match built.zip(committed) {
        Some((built, committed)) if built >= committed => commit,
        _ => format!("{commit}-older-program"),
    }
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let name = named.map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{name}, {cores} cores")
}

fn read_made(folder: &Path, figure: &str) -> Vec<Made> {
    let text = fs::read_to_string(folder.join(MADE)).unwrap_or_default();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Made>(line).ok());
    all.filter(|made| made.figure == figure).collect()
}

fn append(path: &Path, made: &Made) -> Result<()> {
    let mut line = serde_json::to_vec(made)?;
    line.push(b'\n');
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, &line));
    written.with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_older_than_the_commit_is_told_from_one_of_it() {
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let of = |built, committed| stamp("0dfdcaf".to_owned(), built, committed);
        assert_eq!(of(at(20), at(10)), "0dfdcaf");
        for (built, committed) in [(at(9), at(10)), (None, at(10)), (at(20), None)] {
            assert_eq!(of(built, committed), "0dfdcaf-older-program");
        }
    }
}
