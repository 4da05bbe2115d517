//! `wellspring-lab reproduce`: the papers' experiments beside the papers' results.

mod long_link;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use wellspring_console::exit::Failed;
use wellspring_console::output::Stdout;
use wellspring_experiments::figures::{self, FIGURES, Figure, Lab, Scale, Traffic};
use wellspring_experiments::sweep::Output;

use crate::report::{failed, print_json, print_table, seed, usage};
use crate::sim::RunsBar;
use long_link::LongLink;

/// Run the papers' experiments and print our numbers beside theirs, with tolerance and verdict.
///
/// A verdict belongs to the paper's own configuration. A row under a reading of what the paper leaves
/// open says so, and variants of ours have no verdict. Runs smaller than the paper's (--quick, fewer
/// sessions or seeds) are not judged. A miss is a result, not a failure: the exit status is 0 unless a
/// run breaks. Where requests failed or did not finish, a row says so. Maelstrom's figures
/// about TCP are measured on real traffic, in network namespaces of their own: they need root, iproute2,
/// iperf3 and Python, take as long as the traffic does, and say so where they cannot be measured.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring-lab reproduce scdp-12a --quick
  sudo wellspring-lab reproduce maelstrom --quick     # all of a paper; five to ten minutes")]
pub struct ReproduceArgs {
    /// A figure (`scdp-5`) or a paper (`scdp`, `polyraptor`, `lttp`, `maelstrom`); the list of figures if not given.
    figure: Option<String>,
    /// Fewer sessions and one seed: under a minute a figure.
    #[arg(long)]
    quick: bool,
    /// So many sessions instead of the paper's, where the experiment counts sessions.
    #[arg(long)]
    sessions: Option<u32>,
    /// Seeds, instead of five (of what is measured on real traffic: one).
    #[arg(long, value_delimiter = ',', value_parser = seed())]
    seeds: Option<Vec<u64>>,
    /// A folder for runs.csv; runs that are there are not run again (but for SCDP's Figs. 12d and
    /// 17 and LTTP's 4 and 8, which take more than its rows hold).
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Carries the command out. Progress is shown unless `quiet`.
///
/// # Errors
/// No such figure, or a run is at fault.
pub fn run(args: &ReproduceArgs, quiet: bool) -> Result<(), Failed> {
    let Some(name) = &args.figure else { return list(args.json) };
    let mut all = Vec::new();
    for figure in figures::find(name).map_err(usage)? {
        let lab = reproduce(&figure, args, quiet).map_err(failed)?;
        if args.json {
            all.extend(lab.iter().map(|check| {
                serde_json::json!({
                    "figure": figure.name, "what": check.what, "paper": check.paper,
                    "ours": check.ours, "tolerance": check.tolerance,
                    "verdict": check.verdict.as_str(), "reading": check.reading,
                    "cause": check.cause, "quick": args.quick,
                    "sessions": args.sessions, "seeds": args.seeds,
                })
            }));
            continue;
        }
        let quick = if args.quick { " (quick)" } else { "" };
        writeln!(Stdout, "{}: {}{quick}", figure.name, figure.title)?;
        let mut table =
            vec![["verdict", "ours", "paper", "reproduced by", ""].map(str::to_owned).to_vec()];
        table.extend(lab.into_iter().map(|check| {
            let (verdict, what) = (check.verdict.as_str().to_owned(), check.describe());
            vec![verdict, check.ours, check.paper, check.tolerance, what]
        }));
        print_table(&table)?;
        writeln!(Stdout)?;
    }
    if args.json {
        print_json(&all)?;
    }
    Ok(())
}

fn list(json: bool) -> Result<(), Failed> {
    if json {
        let entry = |f: &Figure| serde_json::json!({ "name": f.name, "title": f.title });
        return print_json(&FIGURES.iter().map(entry).collect::<Vec<_>>());
    }
    let rows: Vec<_> = FIGURES.iter().map(|f| vec![f.name.into(), f.title.into()]).collect();
    Ok(print_table(&rows)?)
}

fn reproduce(figure: &Figure, args: &ReproduceArgs, quiet: bool) -> Result<Vec<figures::Check>> {
    let bar = RunsBar::new(0, quiet);
    let report = |number, runs, progress| bar.report(number, runs, progress);
    let output = Output { folder: args.output.clone(), flows: false, capture: None };
    let scale = Scale { quick: args.quick, sessions: args.sessions, seeds: args.seeds.clone() };
    let traffic = LongLink::find(quiet);
    let traffic = traffic.as_ref().map(|link| link as &dyn Traffic).map_err(Clone::clone);
    let mut lab = Lab::new(scale, output, &report).with_traffic(traffic);
    figure.reproduce(&mut lab)?;
    bar.finish();
    Ok(lab.checks)
}
