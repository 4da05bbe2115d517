//! `wellspring-lab lab`: link emulator, interface settings and plots for test networks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use wellspring_appliance::link_emulator::{self, LinkConfig, LinkCounters, Loss};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::until_signal;
use wellspring_console::output::Stdout;
use wellspring_console::units::parse_rate;
use wellspring_figures::plot::Plot;

use crate::report::failed;
use crate::reproduce::report::write_plot;

/// Parts of a test network: a long lossy link, interfaces without offloads, plots of what was measured.
#[derive(Args, Clone, Debug)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum LabCommand {
    Link(LinkArgs),
    Plain(PlainArgs),
    Plots(PlotsArgs),
}

/// Emulate a long lossy link between two interfaces, until Ctrl-C; then print its counters.
///
/// Frames received on one interface are sent on the other after the delay, or are lost. A seed
/// determines the losses. Needs root, and runs with priority over other programs, so that delays are
/// exact (to 50 us if frames follow each other closely). Interfaces that send to these must have
/// offloads off (`wellspring-lab lab plain`).
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring-lab lab link a b --delay 50 --rate 100M --loss 0.01
  wellspring-lab lab link a b --delay 50 --rate 1G --loss 0.01 --burst 20 --loss-back 0 --seed 7")]
struct LinkArgs {
    /// One interface.
    first: String,
    /// The other interface.
    second: String,
    /// One-way delay, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    delay: f64,
    /// Rate each way [default: as fast as the machine].
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<wellspring_core::Rate>,
    /// Maximum length of the queue, in bytes [default: twice the rate times the delay, at least
    /// 64 kB].
    #[arg(long, value_name = "BYTES")]
    queue: Option<u64>,
    /// Share of the frames that are lost, 0 to 1.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    loss: f64,
    /// Share lost in the reverse direction, from the second interface to the first [default: the same].
    #[arg(long, value_name = "P")]
    loss_back: Option<f64>,
    /// Lose runs of exactly this many frames, or of the frames within 100 ms if these are fewer.
    #[arg(long, value_name = "FRAMES", conflicts_with = "mean_burst")]
    burst: Option<u32>,
    /// Lose runs of random length with this mean (Gilbert-Elliott model), at most 100 ms long.
    #[arg(long, value_name = "FRAMES")]
    mean_burst: Option<f64>,
    /// Seed of the losses.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Run without priority over other programs.
    #[arg(long)]
    no_priority: bool,
    /// Print the counters as JSON.
    #[arg(long)]
    json: bool,
}

/// Switch off offloads, so that the packets of these interfaces are as on the wire.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ip netns exec host wellspring-lab lab plain eth0")]
struct PlainArgs {
    /// The interfaces.
    #[arg(required = true)]
    interfaces: Vec<String>,
}

/// Draw plots as SVG files. Standard input is a JSON object of plots by the names of their files, as in the
/// records of `wellspring-lab reproduce`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
`lab/net --from RECORD --report FOLDER` draws its plots by this command.

Example:
  jq '{\"a.svg\": .plots[0]}' results/scdp-15.json | wellspring-lab lab plots drawn")]
struct PlotsArgs {
    /// The folder.
    folder: PathBuf,
}

fn draw(args: &PlotsArgs) -> Result<(), Failed> {
    let plots: BTreeMap<String, Plot> = serde_json::from_reader(std::io::stdin())
        .map_err(|error| Failed::usage(format!("standard input is no plots: {error}")))?;
    for (name, plot) in &plots {
        if name.contains('/') {
            return Err(Failed::usage(format!("{name} is no name of a file")));
        }
        write_plot(plot, &args.folder, name).map_err(failed)?;
    }
    Ok(())
}

pub async fn run(args: &LabArgs) -> Result<(), Failed> {
    match &args.command {
        LabCommand::Link(args) => run_link(args).await,
        LabCommand::Plots(args) => draw(args),
        LabCommand::Plain(args) => {
            for interface in &args.interfaces {
                link_emulator::make_plain(interface)
                    .map_err(|error| Failed::system(interface, &error))?;
            }
            Ok(())
        }
    }
}

impl LinkArgs {
    fn config(&self) -> Result<LinkConfig, Failed> {
        let loss = |part: f64| -> Result<Loss, Failed> {
            if !(0.0..=1.0).contains(&part) {
                return Err(Failed::usage(format!("{part} of all frames: 0 to 1")));
            }
            match (self.burst, self.mean_burst) {
                (Some(0), _) => Err(Failed::usage("a burst of no frames")),
                (_, Some(mean)) if !(1.0..1e6).contains(&mean) => {
                    Err(Failed::usage(format!("bursts of {mean} frames")))
                }
                (Some(length), _) => Ok(Loss::Bursts { part, length }),
                (_, Some(mean)) => Ok(Loss::RandomBursts { part, mean }),
                _ => Ok(Loss::Random(part)),
            }
        };
        if !(0.0..=60_000.0).contains(&self.delay) {
            return Err(Failed::usage("a delay is 0 to 60000 ms"));
        }
        let delay = Duration::from_secs_f64(self.delay / 1e3);
        let rate = self.rate.map(|rate| rate.as_bits_per_second());
        let held = rate.map_or(0.0, |rate| rate as f64 / 8.0 * delay.as_secs_f64());
        Ok(LinkConfig {
            delay,
            rate,
            queue: self.queue.unwrap_or((2.0 * held) as u64).max(64_000),
            loss: loss(self.loss)?,
            loss_back: loss(self.loss_back.unwrap_or(self.loss))?,
            seed: self.seed,
            first: !self.no_priority,
        })
    }
}

async fn run_link(args: &LinkArgs) -> Result<(), Failed> {
    let config = args.config()?;
    let (first, second) = (args.first.clone(), args.second.clone());
    let directions = until_signal(move |stop| {
        link_emulator::run(&first, &second, &config, stop)
            .map_err(|error| Failed::system(format!("{first} and {second}"), &error))
    })
    .await?;
    let names = [(&args.first, &args.second), (&args.second, &args.first)];
    for ((from, to), counters) in names.into_iter().zip(&directions) {
        if args.json {
            writeln!(Stdout, "{}", to_json(from, to, counters))?;
        } else {
            writeln!(Stdout, "{}", to_text(from, to, counters))?;
        }
    }
    Ok(())
}

fn to_json(from: &str, to: &str, counters: &LinkCounters) -> serde_json::Value {
    json!({
        "from": from, "to": to, "frames": counters.frames, "bytes": counters.bytes,
        "lost": counters.lost, "queue_drops": counters.queue_drops,
        "unwanted": counters.unwanted, "sent": counters.sent,
        "late_mean": mean_late(counters), "late_most": counters.late_most.as_secs_f64(),
    })
}

fn to_text(from: &str, to: &str, counters: &LinkCounters) -> String {
    format!(
        "{from} -> {to}: {} frames, {} lost, {} dropped by the queue, {} lost by the lab itself, \
         {} sent, {:.0} us late on average",
        counters.frames,
        counters.lost,
        counters.queue_drops,
        counters.unwanted,
        counters.sent,
        mean_late(counters) * 1e6,
    )
}

/// How late frames left, in the mean \[s\].
fn mean_late(counters: &LinkCounters) -> f64 {
    counters.late_total.as_secs_f64() / counters.sent.max(1) as f64
}
