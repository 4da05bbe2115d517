//! `wellspring get`: one object from many hosts.

mod lttp;

use std::io::IsTerminal;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use wellspring_console::exit::{Failed, INTERRUPTED};
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Stderr, Stdout, table};
use wellspring_console::units::{bytes, part, percent};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_net::driver::ReceivePath;
use wellspring_net::store::{Digest, Existing, ObjectName};
use wellspring_net::{
    Client, ClientConfig, DEFAULT_LTTP_BLOCK_SYMBOLS, FetchOptions, FetchReport, LttpOptions,
    ReplicaReport, ReplicaState, Target, Updates,
};

use crate::exit;
use crate::keys::KeyArgs;
use crate::progress::Display;
use crate::transfer::{CutArgs, Fetched, Location, NetworkArgs, ReportArgs, fetched};

/// Fetch an object from all hosts that hold it, at once.
///
/// Each host sends its share of the symbols, and one host that is left is enough. Hosts that fail,
/// restart or stall are asked again. By LTTP each host sends a contiguous part, and the others send
/// what a lost one did not. The file appears under its name complete, verified and
/// synced, or not at all. Without -o the object goes to standard output, or, if that is a
/// terminal, to a file of the object's name in the current directory.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring get a.example/models/7b.bin -o 7b.bin
  wellspring get a.example,b.example:5000,[2001:db8::7]/models/7b.bin -o 7b.bin
  wellspring get a.example/logs.tar | tar x
  wellspring get --protocol lttp a.example,b.example,c.example/7b.bin -o 7b.bin
  wellspring get a.example/x -o x                    # after Ctrl-C: what is missing
  wellspring get a.example/x -o x --json | jq .goodput_bits_per_second")]
pub struct GetArgs {
    /// Hosts that hold the object, and its name: its path below the directory they serve. A host is
    /// NAME, NAME:PORT or `[IPV6]:PORT`.
    #[arg(value_name = "HOST[,HOST...]/OBJECT")]
    from: Location,
    /// File to write; in a directory it has the object's name; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(short, long)]
    force: bool,
    /// Begin anew, and leave no part of the file behind if the fetch does not succeed. Without
    /// --no-resume a fetch by SCDP takes up what an earlier one into the same file had.
    #[arg(long)]
    no_resume: bool,
    /// The digest the object must have: 64 hexadecimal digits. Hosts with other bytes are
    /// skipped; without --digest, replicas that differ are an error.
    #[arg(long, value_name = "BLAKE3")]
    digest: Option<Digest>,
    /// The protocol of the transfer.
    #[arg(long, value_enum, default_value_t = ProtocolArg::Scdp, help_heading = "Transfer")]
    protocol: ProtocolArg,
    /// LTTP's decoder [default: improved].
    #[arg(long, value_enum, help_heading = "Transfer")]
    decoder: Option<lttp::DecoderArg>,
    #[command(flatten)]
    cut: CutArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// Silence at the end of a transfer that is worth mentioning \[s\].
const SILENT: f64 = 0.5;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ProtocolArg {
    /// RaptorQ symbols, at the receiver's pace.
    Scdp,
    /// LT codes at TFRC's rate (RFC 5348), stopped through a TCP connection to each host.
    Lttp,
    /// Packets without a code, at the receiver's pace, from the first host that has the object.
    Ndp,
}

pub async fn run(args: &GetArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let name = &args.from.name;
    if args.decoder.is_some() && args.protocol != ProtocolArg::Lttp {
        return Err(Failed::usage("--decoder goes with --protocol lttp"));
    }
    let (target, shown) = target(args.output.as_deref(), name, args.force)?;
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    args.keys.warn_client();
    let driver = args.network.driver(any).keys(args.keys.load()?);
    let config = ClientConfig::default().driver(driver).timeout(args.network.timeout);
    let client = Client::new(config).map_err(|error| exit::of_start(&error))?;
    let is_stream = matches!(target, Target::Writer(_));
    let to_stdout = is_stream && shown == "-";
    let has_symbols = args.protocol != ProtocolArg::Lttp;
    let display = Display::new(quiet || args.report.json, args.report.json_progress, has_symbols);
    let fetched = match args.protocol {
        ProtocolArg::Scdp => {
            let fetch = fetch(args, &client, target, &shown, display.updates());
            interrupt.guard(fetch).await
        }
        ProtocolArg::Lttp => {
            let fetch = fetch_lttp(args, &client, target, &shown, display.updates());
            interrupt.guard(fetch).await
        }
        ProtocolArg::Ndp => {
            let fetch = fetch_ndp(args, &client, target, &shown, display.updates());
            interrupt.guard(fetch).await
        }
    };
    display.finish();
    // Ends the sessions in good order: the part file is whole, or gone, when we are.
    drop(client);
    let stays = !args.no_resume && args.protocol == ProtocolArg::Scdp && !is_stream;
    let fetched = fetched.map_err(|failed| match stays {
        true => Failed::new(INTERRUPTED, "interrupted; run it again to fetch what is missing"),
        false => failed,
    });
    let (mut account, summary) = fetched??;
    if args.report.json {
        account["cpu_seconds"] = cpu_seconds(None).into();
        account["peak_memory_bytes"] = peak_memory().into();
        let line = account.to_string();
        if to_stdout {
            writeln!(Stderr, "{line}");
        } else {
            writeln!(Stdout, "{line}")?;
        }
    } else if !quiet {
        write!(Stderr, "{summary}");
    }
    Ok(())
}

/// Fetches by SCDP; the account for programs, and the one for people.
async fn fetch(
    args: &GetArgs,
    client: &Client,
    target: Target,
    shown: &str,
    updates: Updates,
) -> Result<(Value, String), Failed> {
    let name = &args.from.name;
    let options = FetchOptions::new(name.clone())
        .digest(args.digest)
        .cut(args.cut.to_cut()?)
        .resume(!args.no_resume)
        .updates(updates);
    let fetched = client.fetch(&args.from.hosts, &options, target).await;
    let report = fetched.map_err(|error| exit::of_fetch(&error, "wellspring serve", shown))?;
    let fetched = fetched!(name.as_str(), shown, report);
    let mut account = fetch_json(&fetched, &report);
    let receive_path = client.statistics().map(|s| s.receive_path).unwrap_or_default();
    account["trims_seen"] = (receive_path == ReceivePath::SocketAndTap).into();
    Ok((account, summary(&fetched, &report)))
}

/// The same by LTTP.
async fn fetch_lttp(
    args: &GetArgs,
    client: &Client,
    target: Target,
    shown: &str,
    updates: Updates,
) -> Result<(Value, String), Failed> {
    let name = &args.from.name;
    let options = LttpOptions::new(name.clone())
        .digest(args.digest)
        .method(args.decoder.unwrap_or(lttp::DecoderArg::Improved).method())
        .symbol_size(args.cut.symbol_size)
        .block_symbols(args.cut.block_symbols.unwrap_or(DEFAULT_LTTP_BLOCK_SYMBOLS))
        .updates(updates);
    let fetched = client.fetch_lttp(&args.from.hosts, &options, target).await;
    let report = fetched.map_err(|error| exit::of_fetch(&error, "wellspring serve", shown))?;
    let fetched = fetched!(name.as_str(), shown, report);
    Ok((lttp::account(&fetched, &report), lttp::summary(&fetched, &report)))
}

/// The same by NDP.
async fn fetch_ndp(
    args: &GetArgs,
    client: &Client,
    target: Target,
    shown: &str,
    updates: Updates,
) -> Result<(Value, String), Failed> {
    let name = &args.from.name;
    let options = FetchOptions::new(name.clone()).digest(args.digest).updates(updates);
    let fetched = client.fetch_ndp(&args.from.hosts, &options, target).await;
    let report = fetched.map_err(|error| exit::of_fetch(&error, "wellspring serve", shown))?;
    let fetched = fetched!(name.as_str(), shown, report);
    let account = fetched.account(json!({
        "host": report.host,
        "payload_size": report.payload,
        "packets": report.stats.packets,
        "packets_trimmed": report.stats.trimmed,
        "packets_twice": report.stats.duplicates,
        "pulls": report.stats.pulls,
    }));
    let mut summary = fetched.line();
    summary.push_str(&format!(
        "{} packets, {} trimmed, {} came twice, {} pulls\n",
        report.stats.packets, report.stats.trimmed, report.stats.duplicates, report.stats.pulls,
    ));
    Ok((account, summary))
}

/// Where the object goes, and what that is called.
fn target(
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

/// A host that took part to the end, as far as anybody knows: one that died in the last seconds of
/// a transfer was only silent.
fn served(silent: wellspring_core::Duration) -> String {
    let seconds = silent.as_secs_f64();
    if seconds < SILENT {
        return "served".to_owned();
    }
    format!("served, silent for the last {seconds:.1} s")
}

fn summary(fetched: &Fetched<'_>, report: &FetchReport) -> String {
    let mut text = fetched.line();
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
    if report.resumed > 0 {
        let (had, size) = (bytes(report.resumed), bytes(report.size));
        text.push_str(&format!("{had} of {size} were there from an earlier fetch\n"));
    }
    if report.replicas.len() > 1 {
        let head = ["replica", "share", "useful", "redundant", "lost", "state"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for replica in &report.replicas {
            let state = match &replica.state {
                ReplicaState::Served if replica.losses > 0 => {
                    format!("served (lost {}x, back {}x)", replica.losses, replica.returns)
                }
                ReplicaState::Served => served(replica.stats.silent),
                ReplicaState::Lost(reason) => format!("lost: {reason}"),
                ReplicaState::Unused(reason) => format!("unused: {reason}"),
                ReplicaState::Excluded(reason) => format!("excluded: {reason}"),
            };
            rows.push(vec![
                replica.host.clone(),
                percent(part(replica.stats.useful, report.useful())),
                replica.stats.useful.to_string(),
                replica.stats.redundant.to_string(),
                replica.stats.lost.to_string(),
                state,
            ]);
        }
        text.push_str(&table(&rows));
    }
    text
}

/// The fetch's account for programs. Times in seconds, rates in bit/s, overheads as parts.
fn fetch_json(fetched: &Fetched<'_>, report: &FetchReport) -> Value {
    let useful: u64 = report.useful();
    let replica = |r: &ReplicaReport| {
        let (state, reason) = match &r.state {
            ReplicaState::Served => ("served", None),
            ReplicaState::Lost(reason) => ("lost", Some(reason)),
            ReplicaState::Unused(reason) => ("unused", Some(reason)),
            ReplicaState::Excluded(reason) => ("excluded", Some(reason)),
        };
        json!({
            "host": r.host,
            "address": r.address.map(|a| a.to_string()),
            "state": state,
            "reason": reason,
            "losses": r.losses,
            "returns": r.returns,
            "altered": r.altered,
            "seconds_silent": r.stats.silent.as_secs_f64(),
            "share": part(r.stats.useful, useful),
            "symbols_asked": r.stats.granted,
            "symbols_useful": r.stats.useful,
            "symbols_redundant": r.stats.redundant,
            "symbols_lost": r.stats.lost,
            "symbols_trimmed": r.stats.trimmed,
        })
    };
    fetched.account(json!({
        "symbol_size": report.symbol_size,
        "blocks": report.blocks,
        "bytes_resumed": report.resumed,
        "blocks_decoded": report.stats.decoded_blocks,
        "blocks_decode_free": report.stats.decode_free_blocks,
        "failed_decodes": report.stats.failed_decodes,
        "symbols_needed": report.stats.needed,
        "symbols_useful": useful,
        "symbols_asked": report.asked(),
        "overhead_needed": report.overhead_needed(),
        "overhead_sent": report.overhead_sent(),
        "replicas": report.replicas.iter().map(replica).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_fell_silent_at_the_end_is_said_to_be_silent() {
        let after = |millis| served(wellspring_core::Duration::from_millis(millis));
        assert_eq!(after(3), "served");
        assert_eq!(after(1_900), "served, silent for the last 1.9 s");
    }
}
