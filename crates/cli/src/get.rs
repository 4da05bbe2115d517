//! `wellspring get`.

use std::io::IsTerminal;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Stderr, Stdout, table};
use wellspring_console::units::{bit_rate, bytes, part, percent, seconds};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_net::driver::ReceivePath;
use wellspring_net::store::{Digest, Existing, ObjectName};
use wellspring_net::{
    Client, ClientConfig, FetchOptions, FetchReport, ReplicaReport, ReplicaState, Target,
};

use crate::exit;
use crate::progress::Display;
use crate::transfer::{CutArgs, Location, NetworkArgs, ReportArgs};

/// Fetch an object from all hosts that hold it, at once.
///
/// Each host sends a share of the symbols; the object is complete with any of them left. Hosts
/// that die, restart or stall are won back. The file appears under its name complete, verified and
/// synced, or not at all. Without -o the object goes to standard output, or, if that is a
/// terminal, to a file of the object's name in the current directory.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring get a.example/models/7b.bin -o 7b.bin
  wellspring get a.example,b.example:5000,[2001:db8::7]/models/7b.bin -o 7b.bin
  wellspring get a.example/logs.tar | tar x
  wellspring get a.example/x -o x --json | jq .goodput_bits_per_second")]
pub struct GetArgs {
    /// The hosts that hold the object, and its name. A host is NAME, NAME:PORT or `[IPV6]:PORT`.
    #[arg(value_name = "HOST[,HOST...]/OBJECT")]
    from: Location,
    /// The file to write; a directory keeps the object's name; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(short, long)]
    force: bool,
    /// The digest the object must have: 64 hexadecimal digits. Hosts with other bytes are passed
    /// over instead of being an error.
    #[arg(long, value_name = "BLAKE3")]
    digest: Option<Digest>,
    #[command(flatten)]
    cut: CutArgs,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    report: ReportArgs,
}

pub async fn run(args: &GetArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let name = &args.from.name;
    let (target, shown) = target(args.output.as_deref(), name, args.force)?;
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let config = ClientConfig {
        driver: args.network.driver(any),
        timeout: args.network.timeout,
        ..ClientConfig::default()
    };
    let client =
        Client::new(config).map_err(|error| Failed::system("cannot open a UDP socket", &error))?;
    let options = FetchOptions { name: name.clone(), digest: args.digest, cut: args.cut.to_cut() };
    let to_stdout = matches!(target, Target::Writer(_)) && shown == "-";
    let display = Display::new(quiet || args.report.json, args.report.json_progress, true);
    let fetch = client.fetch(&args.from.hosts, &options, target, display.updates());
    let fetched = interrupt.guard(fetch).await;
    display.finish();
    let receive_path = client.statistics().map(|s| s.receive_path).unwrap_or_default();
    // Ends the session in good order: its part file is gone when we are.
    drop(client);
    let report = fetched?.map_err(|error| exit::of_fetch(&error))?;
    if args.report.json {
        let mut account = fetch_json(name.as_str(), &shown, &report);
        account["trims_seen"] = (receive_path == ReceivePath::SocketAndTap).into();
        account["cpu_seconds"] = cpu_seconds(None).into();
        account["peak_memory_bytes"] = peak_memory().into();
        let line = account.to_string();
        if to_stdout {
            writeln!(Stderr, "{line}");
        } else {
            writeln!(Stdout, "{line}")?;
        }
    } else if !quiet {
        write!(Stderr, "{}", summary(name.as_str(), &shown, &report));
    }
    Ok(())
}

/// Where the object goes, and what that is called.
pub fn target(
    output: Option<&Path>,
    name: &ObjectName,
    force: bool,
) -> Result<(Target, String), Failed> {
    let own_name = name.file_name();
    let path = match output {
        None if std::io::stdout().is_terminal() => PathBuf::from(own_name),
        None => return Ok((Target::Writer(Box::new(std::io::stdout())), "-".to_owned())),
        Some(path) if path == Path::new("-") => {
            return Ok((Target::Writer(Box::new(std::io::stdout())), "-".to_owned()));
        }
        Some(path) if path.is_dir() => path.join(own_name),
        Some(path) => path.to_owned(),
    };
    let shown = path.display().to_string();
    match std::fs::metadata(&path) {
        // A pipe or a device is written to, not replaced.
        Ok(meta) if !meta.is_file() && !meta.is_dir() => {
            let file = std::fs::OpenOptions::new().write(true).open(&path);
            let file = file.map_err(|error| Failed::other(format!("{shown}: {error}")))?;
            Ok((Target::Writer(Box::new(file)), shown))
        }
        // Said before a byte is moved; the final rename sees to it in any case.
        Ok(_) if !force => Err(exit::target_exists(shown)),
        _ => {
            let existing = if force { Existing::Replace } else { Existing::Keep };
            Ok((Target::File { path, existing }, shown))
        }
    }
}

/// What has been fetched, in a line.
pub fn fetched(
    (name, output): (&str, &str),
    (size, digest): (u64, &Digest),
    (elapsed, goodput): (Duration, f64),
) -> String {
    let to = if output == "-" { String::new() } else { format!(" -> {output}") };
    let (time, rate) = (seconds(elapsed), bit_rate(goodput));
    format!("{name}{to}: {} in {time}, {rate}, digest {digest}\n", bytes(size))
}

fn summary(name: &str, output: &str, report: &FetchReport) -> String {
    let mut text =
        fetched((name, output), (report.size, &report.digest), (report.elapsed, report.goodput()));
    if report.size == 0 {
        return text;
    }
    text.push_str(&format!(
        "{} symbols needed, {} useful ({} over), {} asked for ({} over); {} blocks, {} decoded\n",
        report.stats.needed,
        report.useful(),
        percent(report.overhead_needed()),
        report.asked(),
        percent(report.overhead_sent()),
        report.blocks,
        report.stats.decoded_blocks,
    ));
    if report.replicas.len() > 1 {
        let head = ["replica", "share", "useful", "needless", "lost", "state"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for replica in &report.replicas {
            let state = match &replica.state {
                ReplicaState::Served if replica.losses > 0 => {
                    format!("served (lost {}x, back {}x)", replica.losses, replica.returns)
                }
                ReplicaState::Served => "served".to_owned(),
                ReplicaState::Lost(reason) => format!("lost: {reason}"),
                ReplicaState::Unused(reason) => format!("unused: {reason}"),
            };
            rows.push(vec![
                replica.host.clone(),
                percent(part(replica.stats.useful, report.useful())),
                replica.stats.useful.to_string(),
                replica.stats.needless.to_string(),
                replica.stats.lost.to_string(),
                state,
            ]);
        }
        text.push_str(&table(&rows));
    }
    text
}

/// The fetch's account for programs. Times in seconds, rates in bit/s, overheads as parts.
fn fetch_json(name: &str, output: &str, report: &FetchReport) -> Value {
    let useful: u64 = report.useful();
    let replica = |r: &ReplicaReport| {
        let (state, reason) = match &r.state {
            ReplicaState::Served => ("served", None),
            ReplicaState::Lost(reason) => ("lost", Some(reason)),
            ReplicaState::Unused(reason) => ("unused", Some(reason)),
        };
        json!({
            "host": r.host,
            "address": r.address.map(|a| a.to_string()),
            "state": state,
            "reason": reason,
            "losses": r.losses,
            "returns": r.returns,
            "share": part(r.stats.useful, useful),
            "symbols_asked": r.stats.granted,
            "symbols_useful": r.stats.useful,
            "symbols_needless": r.stats.needless,
            "symbols_lost": r.stats.lost,
            "symbols_trimmed": r.stats.trimmed,
        })
    };
    json!({
        "object": name,
        "output": output,
        "bytes": report.size,
        "digest": report.digest.to_string(),
        "seconds": report.elapsed.as_secs_f64(),
        "seconds_preparing": report.preparing.as_secs_f64(),
        "seconds_finishing": report.finishing.as_secs_f64(),
        "goodput_bits_per_second": report.goodput(),
        "symbol_size": report.symbol_size,
        "blocks": report.blocks,
        "blocks_decoded": report.stats.decoded_blocks,
        "blocks_decode_free": report.stats.decode_free_blocks,
        "failed_decodes": report.stats.failed_decodes,
        "symbols_needed": report.stats.needed,
        "symbols_useful": useful,
        "symbols_asked": report.asked(),
        "overhead_needed": report.overhead_needed(),
        "overhead_sent": report.overhead_sent(),
        "replicas": report.replicas.iter().map(replica).collect::<Vec<_>>(),
    })
}
