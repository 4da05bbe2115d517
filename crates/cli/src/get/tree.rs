//! `wellspring get` of a directory.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use wellspring_client::{
    Client, ClientConfig, Priority, Swapped, TreeChange, TreeOptions, TreeReport,
};
use wellspring_console::exit::{Failed, INTERRUPTED};
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Stderr, Stdout};
use wellspring_console::units::{bit_rate, bytes, seconds};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_net::store::tree::listing::SkipReason;

use crate::exit;
use crate::keys::KeyArgs;
use crate::progress::Display;
use crate::transfer::{CutArgs, NetworkArgs, ReportArgs, TreeLocation, list};
use crate::tree_args::{TreeArgs, skipped_json, skipped_text};
use crate::tree_changes::Changes;

/// Arguments of a fetch that hold for directories too.
pub struct Fetch<'a> {
    pub tree: &'a TreeArgs,
    pub atomic: bool,
    pub allow_odd_names: bool,
    pub allow_hidden: bool,
    pub output: Option<&'a Path>,
    pub priority: Priority,
    pub cut: &'a CutArgs,
    pub keys: &'a KeyArgs,
    pub network: &'a NetworkArgs,
    pub report: &'a ReportArgs,
}

pub async fn run(args: &Fetch<'_>, from: &TreeLocation, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let directory = target(args.output, from)?;
    args.tree.check_writer()?;
    let shown = directory.display().to_string();
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    args.keys.warn_client();
    let driver = args.network.driver(any).keys(args.keys.load()?);
    let config = ClientConfig::default()
        .insecure(args.keys.insecure)
        .driver(driver)
        .timeout(args.network.timeout)
        .further_addresses(args.network.further_addresses());
    let client = Client::new(config).map_err(|error| exit::of_start(&error))?;
    let title = format!("get {shown} from {}", list(&from.hosts));
    let display = Display::new(args.report, quiet, &title)?;
    let options = args
        .tree
        .options(TreeOptions::new(from.directory.clone()))?
        .cut(args.cut.for_scdp()?)
        .priority(args.priority)
        .atomic(args.atomic)
        .allow_odd_names(args.allow_odd_names)
        .allow_hidden(args.allow_hidden)
        .updates(display.updates());
    let changes = Arc::new(Changes::new("fetch", args.tree.dry_run, (quiet, args.report.json)));
    let heard = Arc::clone(&changes);
    let hear = Arc::new(move |change: TreeChange| heard.hear(&change, None));
    let fetch = client.fetch_tree(&from.hosts, &options, &directory, hear);
    let fetched = interrupt.guard(fetch).await;
    display.finish();
    drop(client);
    let fetched = fetched.map_err(|_| {
        Failed::new(INTERRUPTED, "interrupted; run it again to fetch what is missing")
    })?;
    let report = fetched.map_err(|error| exit::of_tree(&error, &shown))?;
    if args.report.json {
        let mut object = account(&shown, &report, args.tree.dry_run);
        object["swapped"] = json!(report.swapped.map(|how| match how {
            Swapped::AtOnce => "at once",
            Swapped::InTwoSteps => "in two steps",
            Swapped::New => "new",
        }));
        writeln!(Stdout, "{}", changes.account(&object))?;
    } else if !quiet {
        write!(Stderr, "{}", summary(&shown, &report, args.tree.dry_run));
        if report.swapped == Some(Swapped::InTwoSteps) {
            let text = "the file system cannot exchange directories: for a moment there was none";
            writeln!(Stderr, "{shown}: {text}");
        }
    }
    Ok(())
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
    let fetched = report.fetched_bytes.saturating_sub(report.resumed_bytes);
    let rate = fetched as f64 * 8.0 / report.elapsed.as_secs_f64().max(1e-9);
    let moved = match (report.fetched_files, dry) {
        (0, _) => "nothing to fetch".to_owned(),
        (files, true) => format!("{files} to fetch, {}", bytes(report.fetched_bytes)),
        (files, false) => {
            let (size, time) = (bytes(fetched), seconds(report.elapsed));
            format!("{files} fetched, {size} in {time}, {}", bit_rate(rate))
        }
    };
    let mut text = format!("{output}: {} files, {}; {moved}\n", report.files, bytes(report.bytes));
    if report.resumed_bytes > 0 {
        let (had, size) = (bytes(report.resumed_bytes), bytes(report.fetched_bytes));
        text.push_str(&format!("{had} of {size} were there from an earlier fetch\n"));
    }
    let would = if dry { "to be " } else { "" };
    if report.removed > 0 {
        text.push_str(&format!("{} {would}removed\n", report.removed));
    }
    if report.listed_again > 0 {
        text.push_str(&format!("listed {} times: it changed meanwhile\n", report.listed_again + 1));
    }
    text.push_str(&skipped_text(&report.skipped, report.skipped_count));
    for (reason, flag) in
        [(SkipReason::Odd, "--allow-odd-names"), (SkipReason::Hidden, "--allow-hidden")]
    {
        if report.skipped.iter().any(|(_, why)| *why == reason) {
            text.push_str(&format!("{flag} takes such names\n"));
        }
    }
    text
}

fn account(output: &str, report: &TreeReport, dry: bool) -> Value {
    json!({
        "output": output,
        "digest": report.digest.map(|digest| digest.to_string()),
        "files": report.files,
        "bytes": report.bytes,
        "dry_run": dry,
        "files_fetched": report.fetched_files,
        "bytes_fetched": report.fetched_bytes,
        "bytes_resumed": report.resumed_bytes,
        "made": report.made,
        "removed": report.removed,
        "skipped": report.skipped_count,
        "skipped_paths": skipped_json(&report.skipped),
        "listed_again": report.listed_again,
        "seconds": report.elapsed.as_secs_f64(),
        "cpu_seconds": cpu_seconds(None),
        "peak_memory_bytes": peak_memory(),
    })
}
