//! `wellspring-lab reproduce`: the papers' experiments beside the papers' results.

mod long_link;
mod record;
pub mod report;
mod whole_file;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use wellspring_console::exit::Failed;
use wellspring_console::output::Stdout;
use wellspring_experiments::sweep::Output;
use wellspring_figures::{self as figures, Check, FIGURES, Figure, Lab, Scale, Traffic};

use crate::report::{failed, print_json, print_table, seed, usage};
use crate::sim::RunsBar;
use long_link::LongLink;
use record::Record;

/// Run the papers' experiments and print our numbers beside theirs, with tolerance and verdict.
///
/// A verdict is for the paper's own configuration. Rows that depend on an interpretation of the paper
/// state this, and our own variants have no verdict. Runs smaller than the paper's (--quick, fewer
/// sessions or seeds) have no verdict either. A miss is a result, not a failure: the exit status is 0 unless a
/// run breaks. Where requests failed or did not finish, a row says so. Maelstrom's figures
/// about TCP are measured on real traffic, in network namespaces of their own: they need root, iproute2,
/// iperf3 and Python, take as long as the traffic does, and say so where they cannot be measured.
///
/// --report draws what was found: one page of HTML that needs nothing else, and the same in Markdown.
/// --records keeps what a report is drawn from, some kilobytes a figure, and --redraw draws from that
/// alone.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring-lab reproduce scdp-12a --quick
  wellspring-lab reproduce lttp -o runs --records results --report report
  wellspring-lab reproduce --all --redraw --records results --report report
  sudo wellspring-lab reproduce maelstrom --quick     # all of a paper; five to ten minutes")]
pub struct ReproduceArgs {
    /// A figure (`scdp-5`), a paper (`scdp`, `polyraptor`, `lttp`, `maelstrom`) or what the papers left open (`open`);
    /// the list of figures if not given.
    figure: Option<String>,
    /// All figures.
    #[arg(long, conflicts_with = "figure")]
    all: bool,
    /// Fewer sessions and one seed: under a minute a figure.
    #[arg(long)]
    quick: bool,
    /// So many sessions instead of the paper's, where the experiment counts sessions.
    #[arg(long)]
    sessions: Option<u32>,
    /// Seeds, instead of five (of what is measured on real traffic: one).
    #[arg(long, value_delimiter = ',', value_parser = seed())]
    seeds: Option<Vec<u64>>,
    /// A folder for runs.csv and what stands beside it; runs that are there are not run again.
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// A folder for a report with plots: index.html, report.md and plots/.
    #[arg(long, value_name = "FOLDER")]
    report: Option<PathBuf>,
    /// A folder of records, FIGURE.json: those of the figures that are run are written there.
    #[arg(long, value_name = "FOLDER")]
    records: Option<PathBuf>,
    /// Run nothing: draw the report from the records that are there, which must be one at least.
    #[arg(long, requires = "records", conflicts_with_all = ["quick", "sessions", "seeds", "output"])]
    redraw: bool,
    /// The folder of a book, for pages with results and plots.
    #[arg(long, value_name = "FOLDER")]
    book: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Carries the command out. Progress is shown unless `quiet`.
///
/// # Errors
/// No such figure, a run is at fault, or a file cannot be read or written.
pub fn run(args: &ReproduceArgs, quiet: bool) -> Result<(), Failed> {
    let figures = match &args.figure {
        Some(name) => figures::find(name).map_err(usage)?,
        None if args.all => FIGURES.to_vec(),
        None => return list(args.json),
    };
    let asked = figures.len();
    let mut records = Vec::new();
    let mut all = Vec::new();
    for figure in figures {
        let record = match (&args.records, args.redraw) {
            (Some(folder), true) => match Record::read(folder, figure.name).map_err(failed)? {
                Some(record) => record,
                // What was not measured has no place in a report.
                None => continue,
            },
            _ => reproduce(&figure, args, quiet).map_err(failed)?,
        };
        if args.json {
            all.extend(record.checks.iter().map(|check| json(&record, check)));
        } else if !args.redraw {
            print(&figure, &record.checks, args.quick)?;
        }
        records.push(record);
    }
    if let (Some(folder), true, true) = (&args.records, args.redraw, records.is_empty()) {
        return Err(Failed::other(format!(
            "{} has no record of these figures: choose its folder by --records, or run them without --redraw",
            folder.display()
        )));
    }
    if let Some(folder) = &args.report {
        report::write(&records, folder).map_err(failed)?;
    }
    if let Some(folder) = &args.book {
        report::write_book(&records, folder).map_err(failed)?;
    }
    if args.json {
        print_json(&all)?;
    } else if args.redraw {
        writeln!(Stdout, "{} of {asked} figures have a record", records.len())?;
    }
    Ok(())
}

fn json(record: &Record, check: &Check) -> serde_json::Value {
    serde_json::json!({
        "figure": record.figure, "what": check.what, "paper": check.paper,
        "ours": check.ours, "shipped": check.shipped, "tolerance": check.tolerance,
        "verdict": check.verdict.as_str(), "reading": check.reading,
        "cause": check.cause, "quick": record.is_quick(),
        "sessions": record.asked_sessions(), "seeds": record.seeds,
    })
}

fn print(figure: &Figure, checks: &[Check], quick: bool) -> Result<(), Failed> {
    let quick = if quick { " (quick)" } else { "" };
    writeln!(Stdout, "{}: {}{quick}", figure.name, figure.title)?;
    let head = ["verdict", "ours", "shipped values", "paper", "reproduced by", ""];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    table.extend(checks.iter().map(|check| {
        let Check { ours, paper, tolerance, .. } = check.clone();
        let shipped = check.shipped.clone().unwrap_or_default();
        let (verdict, what) = (check.verdict.as_str().to_owned(), check.describe());
        vec![verdict, ours, shipped, paper, tolerance, what]
    }));
    print_table(&table)?;
    writeln!(Stdout)?;
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

/// Runs a figure; its record is kept if the command asks for records.
fn reproduce(figure: &Figure, args: &ReproduceArgs, quiet: bool) -> Result<Record> {
    let begun = Instant::now();
    let bar = RunsBar::new(0, quiet);
    let report = |number, runs, progress| bar.report(number, runs, progress);
    let output = Output { folder: args.output.clone(), ..Output::default() };
    let scale = Scale { quick: args.quick, sessions: args.sessions, seeds: args.seeds.clone() };
    let traffic = LongLink::find(quiet);
    let traffic = traffic.as_ref().map(|link| link as &dyn Traffic).map_err(Clone::clone);
    let mut lab = Lab::new(scale, output, &report).with_traffic(traffic);
    figure.reproduce(&mut lab)?;
    bar.finish();
    let folder = args.output.as_deref();
    let record = Record::new(figure, &lab, command(figure, args), begun.elapsed(), folder)?;
    args.records.as_deref().map_or(Ok(()), |folder: &Path| record.write(folder))?;
    Ok(record)
}

/// The command that makes the same numbers.
fn command(figure: &Figure, args: &ReproduceArgs) -> String {
    let mut text = format!("wellspring-lab reproduce {}", figure.name);
    if args.quick {
        text.push_str(" --quick");
    }
    if let Some(sessions) = args.sessions {
        text.push_str(&format!(" --sessions {sessions}"));
    }
    if let Some(seeds) = &args.seeds {
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        text.push_str(&format!(" --seeds {}", seeds.join(",")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_tells_of_the_runs_of_the_record() {
        let mut lab = Lab::new(Scale::default(), Output::default(), &|_, _, _| {});
        lab.ran(&[1, 2]);
        lab.note("printed", "-", "7".to_owned());
        let of = |command: &str| {
            let took = std::time::Duration::ZERO;
            let record = Record::new(&FIGURES[0], &lab, command.to_owned(), took, None).unwrap();
            json(&record, &record.checks[0])
        };
        let quick = of("wellspring-lab reproduce scdp-abstract --quick --sessions 40");
        assert_eq!((&quick["quick"], &quick["sessions"]), (&true.into(), &40.into()));
        assert_eq!(quick["seeds"], serde_json::json!([1, 2]));
        let whole = of("wellspring-lab reproduce scdp-abstract");
        assert_eq!((&whole["quick"], &whole["sessions"]), (&false.into(), &().into()));
    }
}
