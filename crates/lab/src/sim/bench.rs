//! Benchmarks of the simulator.

use clap::Args;
use wellspring_console::exit::Failed;
use wellspring_experiments::bench::{self, BenchRow};

use crate::report::{failed, print_json, print_table, usage};

/// Measure the speed of the simulator on fixed scenarios.
///
/// Results are checked before times count: every request completes, and repeated runs agree.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring-lab sim bench ndp-perm-128 scdp-perm-250")]
pub struct BenchArgs {
    /// Benchmarks; all but the largest if none is given.
    names: Vec<String>,
    /// Number of repetitions; the fastest counts.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &BenchArgs) -> Result<(), Failed> {
    let names: Vec<&str> = if args.names.is_empty() {
        bench::names().filter(|name| !name.ends_with("65536")).collect()
    } else {
        args.names.iter().map(String::as_str).collect()
    };
    // Before the first of them takes its time.
    names.iter().try_for_each(|name| bench::scenario(name).map(|_| ())).map_err(usage)?;
    let rows = names.iter().map(|name| bench::measure(name, args.repeats));
    let rows: Vec<BenchRow> = rows.collect::<Result<_, _>>().map_err(failed)?;
    if args.json {
        return print_json(&rows);
    }
    let head = [
        "benchmark",
        "CPU s",
        "M hops/s",
        "M events/s",
        "ns/event",
        "pending",
        "packets",
        "MB",
        "FCT ms",
        "max",
        "trims",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        table.push(vec![
            row.name.to_owned(),
            format!("{:.2}", row.seconds),
            format!("{:.2}", row.mhops_per_second),
            format!("{:.2}", row.mevents_per_second),
            format!("{:.1}", row.ns_per_event),
            row.peak_pending.to_string(),
            row.peak_packets.to_string(),
            format!("{:.0}", row.peak_memory_mb),
            format!("{:.3}", row.fct_mean_ms),
            format!("{:.3}", row.fct_max_ms),
            row.trimmed.to_string(),
        ]);
    }
    Ok(print_table(&table)?)
}
