//! `wellspring get` of a directory.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use globset::{Glob, GlobSet, GlobSetBuilder};
use serde_json::{Value, json};
use wellspring_console::exit::{Failed, INTERRUPTED};
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Stderr, Stdout};
use wellspring_console::units::{bit_rate, bytes, seconds};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_net::{Client, ClientConfig, TreeChange, TreeFilter, TreeOptions, TreeReport};

use crate::exit;
use crate::keys::KeyArgs;
use crate::progress::Display;
use crate::transfer::{CutArgs, NetworkArgs, ReportArgs, TreeLocation};

/// Fetching a directory.
#[derive(Args, Clone)]
pub struct TreeArgs {
    /// Remove what the directory has here and not there.
    #[arg(long, help_heading = "Directories")]
    delete: bool,
    /// Print what would be done, and do nothing.
    #[arg(short = 'n', long, help_heading = "Directories")]
    dry_run: bool,
    /// Compare the bytes of all files, not only their lengths and times of modification.
    #[arg(long, help_heading = "Directories")]
    checksum: bool,
    /// Fetch only files whose path in the directory fits a pattern: `*.bin` fits at any depth, `a/**` all below a.
    #[arg(long, value_name = "GLOB", help_heading = "Directories")]
    include: Vec<String>,
    /// Leave out files, and directories with all that is in them, whose path fits a pattern.
    #[arg(long, value_name = "GLOB", help_heading = "Directories")]
    exclude: Vec<String>,
}

impl TreeArgs {
    /// A flag that was given.
    pub fn first_given(&self) -> Option<&'static str> {
        [
            ("--delete", self.delete),
            ("--dry-run", self.dry_run),
            ("--checksum", self.checksum),
            ("--include", !self.include.is_empty()),
            ("--exclude", !self.exclude.is_empty()),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }

    fn filter(&self) -> Result<TreeFilter, Failed> {
        let (include, exclude) = (globs(&self.include)?, globs(&self.exclude)?);
        Ok(TreeFilter::by(move |path, is_directory| {
            !exclude.is_match(path)
                && (is_directory || include.is_empty() || include.is_match(path))
        }))
    }
}

/// Patterns; one without `/` fits the last component at any depth.
fn globs(patterns: &[String]) -> Result<GlobSet, Failed> {
    let wrong = |error: globset::Error| Failed::usage(format!("a bad pattern: {error}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let anywhere = if pattern.contains('/') { String::new() } else { "**/".to_owned() };
        let glob = globset::GlobBuilder::new(&format!("{anywhere}{pattern}"))
            .literal_separator(true)
            .build()
            .map_err(wrong)?;
        let _: &Glob = &glob;
        set.add(glob);
    }
    set.build().map_err(wrong)
}

/// Arguments of a fetch that hold for directories too.
pub struct Fetch<'a> {
    pub tree: &'a TreeArgs,
    pub output: Option<&'a Path>,
    pub cut: &'a CutArgs,
    pub keys: &'a KeyArgs,
    pub network: &'a NetworkArgs,
    pub report: &'a ReportArgs,
}

pub async fn run(args: &Fetch<'_>, from: &TreeLocation, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let directory = target(args.output, from)?;
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    args.keys.warn_client();
    let driver = args.network.driver(any).keys(args.keys.load()?);
    let config = ClientConfig::default().driver(driver).timeout(args.network.timeout);
    let client = Client::new(config).map_err(|error| exit::of_start(&error))?;
    let display = Display::new(quiet || args.report.json, args.report.json_progress);
    let options = TreeOptions::new(from.directory.clone())
        .delete(args.tree.delete)
        .dry_run(args.tree.dry_run)
        .checksum(args.tree.checksum)
        .filter(args.tree.filter()?)
        .cut(args.cut.for_scdp()?)
        .updates(display.updates());
    let shows = args.tree.dry_run && !quiet && !args.report.json;
    let hear = Arc::new(move |change: TreeChange| hear(&change, shows));
    let fetch = client.fetch_tree(&from.hosts, &options, &directory, hear);
    let fetched = interrupt.guard(fetch).await;
    display.finish();
    drop(client);
    let fetched = fetched.map_err(|_| {
        Failed::new(INTERRUPTED, "interrupted; run it again to fetch what is missing")
    })?;
    let shown = directory.display().to_string();
    let report = fetched.map_err(|error| exit::of_tree(&error, &shown))?;
    if args.report.json {
        writeln!(Stdout, "{}", account(&shown, &report, args.tree.dry_run))?;
    } else if !quiet {
        write!(Stderr, "{}", summary(&shown, &report, args.tree.dry_run));
    }
    Ok(())
}

/// Prints what is done, or in a dry run what would be.
fn hear(change: &TreeChange, shows: bool) {
    let line = match change {
        TreeChange::Made(path) => format!("make    {path}"),
        TreeChange::Fetched(path, size) => format!("fetch   {path} ({})", bytes(*size)),
        TreeChange::Removed(path) => format!("remove  {path}"),
        TreeChange::Skipped(path, reason) => format!("skip    {path}: {reason}"),
        _ => return,
    };
    if shows {
        // A reader who has seen enough.
        let _ = writeln!(Stdout, "{line}");
    }
}

/// Where the tree goes: into the directory that was named, or one of its own name here.
fn target(output: Option<&Path>, from: &TreeLocation) -> Result<PathBuf, Failed> {
    match (output, &from.directory) {
        (Some(path), _) if path == Path::new("-") => {
            Err(Failed::usage("a directory does not go to standard output: name one by -o"))
        }
        (Some(path), _) if path.exists() && !path.is_dir() => {
            Err(Failed::usage(format!("{} is not a directory", path.display())))
        }
        (Some(path), _) => Ok(path.to_owned()),
        (None, Some(name)) => Ok(PathBuf::from(name.file_name())),
        (None, None) => Err(Failed::usage("name the directory to write by -o")),
    }
}

fn summary(output: &str, report: &TreeReport, dry: bool) -> String {
    let rate = report.fetched_bytes as f64 * 8.0 / report.elapsed.as_secs_f64().max(1e-9);
    let moved = match (report.fetched_files, dry) {
        (0, _) => "nothing to fetch".to_owned(),
        (files, true) => format!("{files} to fetch, {}", bytes(report.fetched_bytes)),
        (files, false) => {
            let (size, time) = (bytes(report.fetched_bytes), seconds(report.elapsed));
            format!("{files} fetched, {size} in {time}, {}", bit_rate(rate))
        }
    };
    let mut text = format!("{output}: {} files, {}; {moved}\n", report.files, bytes(report.bytes));
    let would = if dry { "to be " } else { "" };
    if report.removed > 0 {
        text.push_str(&format!("{} {would}removed\n", report.removed));
    }
    if report.listed_again > 0 {
        text.push_str(&format!("listed {} times: it changed meanwhile\n", report.listed_again + 1));
    }
    for (path, reason) in &report.skipped {
        text.push_str(&format!("skipped: {path} {reason}\n"));
    }
    let more = report.skipped_count - report.skipped.len() as u64;
    if more > 0 {
        text.push_str(&format!("skipped: {more} more\n"));
    }
    text
}

fn account(output: &str, report: &TreeReport, dry: bool) -> Value {
    let skipped = report.skipped.iter();
    json!({
        "output": output,
        "digest": report.digest.map(|digest| digest.to_string()),
        "files": report.files,
        "bytes": report.bytes,
        "dry_run": dry,
        "files_fetched": report.fetched_files,
        "bytes_fetched": report.fetched_bytes,
        "made": report.made,
        "removed": report.removed,
        "skipped": report.skipped_count,
        "skipped_paths": skipped
            .map(|(path, reason)| json!({"path": path, "reason": reason.to_string()}))
            .collect::<Vec<_>>(),
        "listed_again": report.listed_again,
        "seconds": report.elapsed.as_secs_f64(),
        "cpu_seconds": cpu_seconds(None),
        "peak_memory_bytes": peak_memory(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_without_a_slash_fit_at_any_depth() {
        let set = globs(&["*.bin".to_owned(), "a/**".to_owned()]).expect("patterns");
        for path in ["x.bin", "d/e/x.bin", "a/b/c"] {
            assert!(set.is_match(path), "{path}");
        }
        for path in ["x.bin.txt", "a", "d/a/x"] {
            assert!(!set.is_match(path), "{path}");
        }
        assert!(globs(&["[".to_owned()]).is_err());
    }
}
