//! Scenarios: run, list, show.

use super::{ListArgs, RunArgs, ShowArgs, print_table};
use anyhow::{Context, Result};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::path::Path;
use std::sync::Mutex;
use wellspring_experiments::catalogue::{self, SCENARIOS};
use wellspring_experiments::observe::Capture;
use wellspring_experiments::results::RunRow;
use wellspring_experiments::run::Progress;
use wellspring_experiments::scenario::Plan;
use wellspring_experiments::stats::{half_interval, mean};
use wellspring_experiments::sweep::{Output, sweep};

pub fn run(args: &RunArgs, quiet: bool) -> Result<()> {
    let path = Path::new(&args.scenario);
    let plan = if path.is_file() { Plan::read(path) } else { catalogue::plan(&args.scenario) };
    let mut plan = plan.with_context(|| args.scenario.clone())?;
    for setting in &args.set {
        let (key, value) =
            setting.split_once('=').with_context(|| format!("`{setting}` is not KEY=VALUE"))?;
        plan.set(key, value)?;
    }
    if !args.seeds.is_empty() {
        plan.set("run.seeds", &format!("{:?}", args.seeds))?;
    }
    let scenarios = plan.scenarios()?;
    let runs = scenarios.iter().map(|scenario| scenario.run.seeds.len()).sum();
    let bar = RunsBar::new(runs, quiet);
    let host = args.capture_host;
    let capture = args.capture.clone().map(|path| Capture { host, path });
    anyhow::ensure!(
        capture.is_none() || runs == 1,
        "--capture takes a single run, not {runs}: choose by --set and --seeds"
    );
    let output = Output { folder: args.output.clone(), flows: args.flows, capture };
    let report = |number, progress| bar.report(number, runs, progress);
    let rows = match args.threads {
        Some(threads) => rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()?
            .install(|| sweep(&scenarios, &output, &report))?,
        None => sweep(&scenarios, &output, &report)?,
    };
    bar.finish();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print_rows(&rows);
        print_means(&rows);
    }
    for row in rows.iter().filter(|row| row.stuck) {
        let state = row.stuck_state.as_deref().unwrap_or("(run earlier: run it again to see more)");
        eprintln!("stuck: {} with seed {}\n{state}", row.protocol, row.seed);
    }
    anyhow::ensure!(!rows.iter().any(|row| row.stuck), "some requests did not complete");
    Ok(())
}

fn print_rows(rows: &[RunRow]) {
    let head = [
        "protocol",
        "seed",
        "w",
        "delay us",
        "lambda",
        "size",
        "load",
        "done",
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
            row.delay_us.to_string(),
            row.lambda.to_string(),
            row.size.to_string(),
            row.background.to_string(),
            format!("{}/{}", row.completed, row.requests),
            format!("{:.3}", row.goodput_mean),
            format!("{:.3}", row.goodput_p5),
            format!("{:.3}", row.goodput_p50),
            format!("{:.3}", row.share_above_0_9),
            format!("{:.3}", row.fct_mean),
            format!("{:.3}", row.fct_p99),
            format!("{:.3}", row.fct_mean_100kb),
            format!("{:.3}", row.fct_p99_100kb),
            format!("{:.3}", row.background_goodput),
            row.trimmed.to_string(),
            format!("{:.1}", row.packet_hops as f64 / 1e6),
        ]);
    }
    print_table(&table);
}

/// Means over seeds, with 95 % confidence, where a scenario was run with several.
fn print_means(rows: &[RunRow]) {
    let columns: [Column; 8] = [
        ("goodput Gb/s", |row| row.goodput_mean),
        ("p5", |row| row.goodput_p5),
        ("FCT ms", |row| row.fct_mean),
        ("p99", |row| row.fct_p99),
        ("FCT <100KB", |row| row.fct_mean_100kb),
        ("p99", |row| row.fct_p99_100kb),
        ("FCT <1MB", |row| row.fct_mean_1mb),
        ("background", |row| row.background_goodput),
    ];
    let mut table = Vec::new();
    for same in rows.chunk_by(|a, b| a.hash == b.hash).filter(|same| same.len() > 1) {
        let first = [&same[0].protocol, &same[0].hash].map(|name| name.clone());
        let means = columns.iter().map(|(_, column)| {
            let values: Vec<f64> = same.iter().map(column).collect();
            format!("{:.3} +-{:.3}", mean(&values), half_interval(&values))
        });
        table.push(first.into_iter().chain(means).collect());
    }
    if !table.is_empty() {
        let head = ["protocol", "scenario"].into_iter().chain(columns.iter().map(|c| c.0));
        table.insert(0, head.map(str::to_owned).collect());
        println!("\nmeans over seeds, 95 % confidence");
        print_table(&table);
    }
}

/// A column's name, and how it is got.
type Column = (&'static str, fn(&RunRow) -> f64);

pub fn list(args: &ListArgs) -> Result<()> {
    let mut table = Vec::new();
    let mut entries = Vec::new();
    for (name, text) in SCENARIOS {
        let scenarios = Plan::parse(text)?.scenarios()?;
        let runs: usize = scenarios.iter().map(|s| s.run.seeds.len()).sum();
        let about = scenarios.first().map_or("", |s| s.about.as_str()).to_owned();
        entries.push(serde_json::json!({ "name": name, "runs": runs, "about": about }));
        table.push(vec![(*name).to_owned(), format!("{runs} runs"), about]);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&entries)?);
    } else {
        print_table(&table);
    }
    Ok(())
}

pub fn show(args: &ShowArgs) -> Result<()> {
    print!("{}", catalogue::text(&args.scenario)?);
    Ok(())
}

/// One bar for all runs: share done, simulated time and events a second.
pub struct RunsBar {
    bar: ProgressBar,
    /// Share done and events of each run.
    state: Mutex<Vec<(f64, u64, f64)>>,
    started: std::time::Instant,
}

impl RunsBar {
    pub fn new(runs: usize, quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(1_000) };
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  left {left}")
        {
            bar.set_style(style.with_key("left", time_left));
        }
        let state = Mutex::new(vec![(0.0, 0, 0.0); runs]);
        RunsBar { bar, state, started: std::time::Instant::now() }
    }

    pub fn report(&self, number: usize, runs: usize, progress: Progress) {
        let Ok(mut state) = self.state.lock() else { return };
        if state.len() != runs {
            *state = vec![(0.0, 0, 0.0); runs];
        }
        let Some(entry) = state.get_mut(number) else { return };
        *entry = (progress.share(), progress.events, progress.simulated);
        let done = state.iter().map(|entry| entry.0).sum::<f64>() / runs as f64;
        let events: u64 = state.iter().map(|entry| entry.1).sum();
        let simulated: f64 = state.iter().map(|entry| entry.2).sum();
        let rate = events as f64 / self.started.elapsed().as_secs_f64() / 1e6;
        self.bar.set_position((done * 1_000.0) as u64);
        self.bar.set_message(format!("{simulated:.3} s simulated, {rate:.1} M events/s"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Nothing is known before there is some progress.
fn time_left(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    // Writing to a bar does not fail.
    let _ = match state.pos() {
        0 => write!(to, "?"),
        _ => write!(to, "{:#}", HumanDuration(state.eta())),
    };
}
