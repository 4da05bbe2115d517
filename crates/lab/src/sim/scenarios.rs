//! `wellspring-lab sim run`, `list` and `show`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stderr, Stdout, StdoutError};
use wellspring_experiments::observe::Capture;
use wellspring_experiments::results::RunRow;
use wellspring_experiments::scenario::catalogue::{self, SCENARIOS};
use wellspring_experiments::scenario::{Plan, Scenario};
use wellspring_experiments::stats::MeanOfRuns;
use wellspring_experiments::sweep::{Output, Shard, sweep};

use super::runs_bar::RunsBar;
use crate::report::{failed, print_json, print_table, seed, usage};

/// Run a scenario over its seeds and print one row per run.
///
/// Combinations and seeds run in parallel. With `--output`, results are written as CSV. A run is not
/// repeated if its row and all requested files are there, so an interrupted sweep continues with the
/// missing runs. With `--set run.sample=100us`, queues and rates are sampled at that interval and
/// written there too. The exit status is 1 if a request failed or did not finish.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  wellspring-lab sim run scdp-12a --set workload.senders=70 --seeds 1,2"
)]
pub struct RunArgs {
    /// A scenario file, or the name of a scenario included in Wellspring.
    scenario: String,
    /// Set a key of the scenario: `workload.sessions=100`, `topology.delay=1us`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seeds, instead of those of the scenario.
    #[arg(long, value_delimiter = ',', value_parser = seed())]
    seeds: Vec<u64>,
    /// Number of threads; all cores if not given, and at most the number of runs.
    #[arg(long, short = 'j')]
    threads: Option<usize>,
    /// A folder for runs.csv.
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Run one of several parts of the runs: `sim merge` joins their folders.
    #[arg(long, value_name = "NUMBER/COUNT")]
    shard: Option<Shard>,
    /// Also write one row per flow to a compressed file in that folder.
    #[arg(long, requires = "output")]
    flows: bool,
    /// Write the packets that one host sends and receives to a file for Wireshark.
    #[arg(long, value_name = "FILE.pcapng")]
    capture: Option<PathBuf>,
    /// Number of that host.
    #[arg(long, value_name = "HOST", default_value_t = 0)]
    capture_host: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// List the scenarios included in Wellspring.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring-lab sim list")]
pub struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Print a scenario file included in Wellspring.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring-lab sim show scdp-5 > mine.toml")]
pub struct ShowArgs {
    /// The name of the scenario.
    scenario: String,
}

pub fn run(args: &RunArgs, quiet: bool, verbose: bool) -> Result<(), Failed> {
    let scenarios = scenarios(args)?;
    let all = scenarios.iter().map(|scenario| scenario.run.seeds.len()).sum();
    let runs = args.shard.map_or(all, |shard| shard.share(all));
    if runs == 0 {
        let few = format!("there are {all} runs: choose fewer parts by --shard");
        return Err(Failed::usage(few));
    }
    let host = args.capture_host;
    let capture = args.capture.clone().map(|path| Capture { host, path });
    if capture.is_some() && runs != 1 {
        let several = "--capture takes a single run, not";
        return Err(Failed::usage(format!("{several} {runs}: choose by --set and --seeds")));
    }
    let output =
        Output { folder: args.output.clone(), flows: args.flows, capture, shard: args.shard };
    let bar = RunsBar::new(runs, quiet);
    let report = |number, progress| bar.report(number, runs, progress);
    // 0 are as many as there are cores.
    let threads = args.threads.unwrap_or(0).min(runs);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Failed::other(format!("cannot start threads: {error}")))?;
    let rows = pool.install(|| sweep(&scenarios, &output, &report)).map_err(failed)?;
    bar.finish();
    if args.json {
        print_json(&rows)?;
    } else {
        print_rows(&rows)?;
        print_means(&rows)?;
    }
    tell_missing(&rows, args, verbose)
}

/// What the command line asks for.
fn scenarios(args: &RunArgs) -> Result<Vec<Scenario>, Failed> {
    let path = Path::new(&args.scenario);
    let mut plan = if path.exists() {
        Plan::read(path).with_context(|| args.scenario.clone()).map_err(failed)?
    } else {
        let named = catalogue::plan(&args.scenario);
        named.context("no such file, and").map_err(usage)?
    };
    let set = |plan: &mut Plan| {
        for setting in &args.set {
            let (key, value) =
                setting.split_once('=').with_context(|| format!("`{setting}` is not KEY=VALUE"))?;
            plan.set(key, value)?;
        }
        if !args.seeds.is_empty() {
            plan.set("run.seeds", &format!("{:?}", args.seeds))?;
        }
        // The file itself is a scenario: what is wrong now is what was set.
        plan.scenarios()
    };
    set(&mut plan).map_err(usage)
}

/// Reports requests that did not complete on standard error; they are a failure.
fn tell_missing(rows: &[RunRow], args: &RunArgs, verbose: bool) -> Result<(), Failed> {
    let (mut failed, mut unfinished) = (0, 0);
    for row in rows.iter().filter(|row| !row.missing.is_empty()) {
        let RunRow { scenario, seed, requests, completed, missing, .. } = row;
        let protocols = row.protocols();
        writeln!(
            Stderr,
            "{scenario}, {protocols}, seed {seed}: {completed} of {requests} requests completed: {missing}"
        );
        failed += row.failed;
        unfinished += row.unfinished();
        if let Some(stuck) = &row.stuck_state {
            let more = if verbose { &stuck.state } else { "(-v shows all that both ends hold)" };
            match &args.output {
                Some(folder) => {
                    let file = folder.join(format!("stuck-{}-{}.txt", row.hash, row.seed));
                    let file = file.display();
                    writeln!(Stderr, "{}\n(all that both ends hold is in {file})", stuck.summary);
                }
                None => writeln!(Stderr, "{}\n{more}", stuck.summary),
            }
        }
    }
    if failed + unfinished == 0 {
        return Ok(());
    }
    Err(Failed::other(format!("{failed} requests failed and {unfinished} did not finish")))
}

/// Stands where there is no value.
const NONE: &str = "-";

fn cell(value: Option<f64>) -> String {
    value.map_or(NONE.to_owned(), |value| format!("{value:.3}"))
}

fn print_rows(rows: &[RunRow]) -> Result<(), StdoutError> {
    let head = [
        "protocol",
        "seed",
        "w",
        "delay us",
        "lambda",
        "size",
        "load",
        "done",
        "failed",
        "goodput Gb/s",
        "p5",
        "p50",
        "> 0.9",
        "FCT ms",
        "p99",
        "FCT <100KB",
        "p99",
        "background",
        "trims",
        "Mhops",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        table.push(vec![
            row.protocol.clone(),
            row.seed.to_string(),
            row.window.to_string(),
            row.delay_us.map_or(NONE.to_owned(), |delay| delay.to_string()),
            row.lambda.to_string(),
            row.size.to_string(),
            row.background.to_string(),
            format!(
                "{}/{}",
                row.completed - row.beside_completed,
                row.requests - row.beside_requests
            ),
            (row.failed - row.beside_failed).to_string(),
            cell(row.goodput_mean),
            cell(row.goodput_p5),
            cell(row.goodput_p50),
            cell(row.share_above_0_9),
            cell(row.fct_mean),
            cell(row.fct_p99),
            cell(row.fct_mean_100kb),
            cell(row.fct_p99_100kb),
            cell(row.background_goodput),
            row.trimmed.to_string(),
            format!("{:.1}", row.packet_hops as f64 / 1e6),
        ]);
        if !row.beside.is_empty() {
            table.push(beside_cells(row, &head));
        }
    }
    print_table(&table)
}

/// The line below a run's: its requests over the TCP beside the protocol.
fn beside_cells(row: &RunRow, head: &[&str]) -> Vec<String> {
    let mut cells = vec![NONE.to_owned(); head.len()];
    let known = [
        ("protocol", format!("+ {}", row.beside)),
        ("seed", row.seed.to_string()),
        ("done", format!("{}/{}", row.beside_completed, row.beside_requests)),
        ("failed", row.beside_failed.to_string()),
        ("goodput Gb/s", cell(row.beside_goodput_mean)),
        ("FCT ms", cell(row.beside_fct_mean)),
        // The first of that name: of all sizes.
        ("p99", cell(row.beside_fct_p99)),
    ];
    for (name, text) in known {
        if let Some(at) = head.iter().position(|column| *column == name) {
            cells[at] = text;
        }
    }
    cells
}

/// Means over seeds, with 95 % confidence, where a scenario was run with several.
fn print_means(rows: &[RunRow]) -> Result<(), StdoutError> {
    let columns: [Column; 8] = [
        ("goodput Gb/s", |row| row.goodput_mean, Some(|row| row.beside_goodput_mean)),
        ("p5", |row| row.goodput_p5, None),
        ("FCT ms", |row| row.fct_mean, Some(|row| row.beside_fct_mean)),
        ("p99", |row| row.fct_p99, Some(|row| row.beside_fct_p99)),
        ("FCT <100KB", |row| row.fct_mean_100kb, None),
        ("p99", |row| row.fct_p99_100kb, None),
        ("FCT <1MB", |row| row.fct_mean_1mb, None),
        ("background", |row| row.background_goodput, None),
    ];
    let mut table = Vec::new();
    let mut some_are_missing = false;
    for same in rows.chunk_by(|a, b| a.hash == b.hash).filter(|same| same.len() > 1) {
        let RunRow { protocol, beside, hash, .. } = &same[0];
        let mut of = |column: Quantity| {
            let over = MeanOfRuns::new(same.iter().map(column));
            some_are_missing |= (1..over.all).contains(&over.with);
            match over.with {
                0 => NONE.to_owned(),
                _ => format!("{:.3} +-{:.3}{}", over.mean, over.half, over.note()),
            }
        };
        let means = columns.iter().map(|(_, column, _)| of(*column));
        table.push([protocol.clone(), hash.clone()].into_iter().chain(means).collect());
        if !beside.is_empty() {
            let means = columns.iter().map(|(.., column)| column.map_or(NONE.to_owned(), &mut of));
            table.push([format!("+ {beside}"), hash.clone()].into_iter().chain(means).collect());
        }
    }
    if table.is_empty() {
        return Ok(());
    }
    let head = ["protocol", "scenario"].into_iter().chain(columns.iter().map(|c| c.0));
    table.insert(0, head.map(str::to_owned).collect());
    let those =
        if some_are_missing { "; (2 of 3): of the seeds that have such requests" } else { "" };
    writeln!(Stdout, "\nmeans over seeds, 95 % confidence{those}")?;
    print_table(&table)
}

/// A column's name, and how it is got: of the protocol's requests, and of those over the TCP beside it.
type Column = (&'static str, Quantity, Option<Quantity>);

/// A quantity of a run, if it has one.
type Quantity = fn(&RunRow) -> Option<f64>;

pub fn list(args: &ListArgs) -> Result<(), Failed> {
    let mut table = Vec::new();
    let mut entries = Vec::new();
    for (name, text) in SCENARIOS {
        let scenarios = Plan::parse(text).and_then(|plan| plan.scenarios()).map_err(failed)?;
        let runs: usize = scenarios.iter().map(|s| s.run.seeds.len()).sum();
        let about = scenarios.first().map_or("", |s| s.about.as_str()).to_owned();
        entries.push(serde_json::json!({ "name": name, "runs": runs, "about": about }));
        table.push(vec![(*name).to_owned(), format!("{runs} runs"), about]);
    }
    if args.json {
        print_json(&entries)?;
    } else {
        print_table(&table)?;
    }
    Ok(())
}

pub fn show(args: &ShowArgs) -> Result<(), Failed> {
    Ok(write!(Stdout, "{}", catalogue::text(&args.scenario).map_err(usage)?)?)
}
