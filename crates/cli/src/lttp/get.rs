//! `wellspring lttp get`.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Stderr, Stdout, table};
use wellspring_console::units::{bytes, percent};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_net::store::Digest;
use wellspring_net::{
    DEFAULT_LTTP_BLOCK_SYMBOLS, LttpClient, LttpClientConfig, LttpOptions, LttpReport, Method,
    Target,
};

use super::NetworkArgs;
use crate::exit;
use crate::get::{fetched, target};
use crate::progress::Display;
use crate::transfer::{Location, ReportArgs};

/// Fetch an object by LTTP: a contiguous share from each host, all at once.
///
/// A single host gives the whole object. Hosts that do not answer are done without; what one that is
/// lost on the way had not sent comes from the others. The file appears under its name complete,
/// verified and synced, or not at all. Without -o the object goes to standard output, or, if that
/// is a terminal, to a file of the object's name in the current directory.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring lttp get a.example/models/7b.bin -o 7b.bin
  wellspring lttp get a.example,b.example:5000,[2001:db8::7]/7b.bin -o 7b.bin
  wellspring lttp get a.example/x -o x --decoder elimination --json | jq .overhead")]
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
    /// How blocks are decoded.
    #[arg(long, value_enum, default_value_t = DecoderArg::Improved, help_heading = "Transfer")]
    decoder: DecoderArg,
    /// Symbol size, in bytes; with UDP and IP, headers of 64 (IPv4) or 84 bytes (IPv6) come on top
    /// [default: 1408, or less where the path's MTU asks for it].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1..=65_471), help_heading = "Transfer")]
    symbol_size: Option<u16>,
    /// Source symbols of a block, k: larger blocks need fewer symbols beyond their own, and fewer
    /// stops.
    #[arg(long, value_name = "K", default_value_t = DEFAULT_LTTP_BLOCK_SYMBOLS, value_parser = clap::value_parser!(u32).range(1..=4_096), help_heading = "Transfer")]
    block_symbols: u32,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    report: ReportArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum DecoderArg {
    /// Forgets what it knows when a symbol comes: needs ten times as many, as LTTP's Fig. 5 shows.
    Standard,
    /// Belief propagation in rounds over what has come.
    Rounds,
    /// Belief propagation with every symbol: LTTP's algorithm 2.
    Improved,
    /// Belief propagation, and Gaussian elimination where it stops: needs the fewest symbols.
    Elimination,
}

impl DecoderArg {
    fn method(self) -> Method {
        match self {
            DecoderArg::Standard => Method::Standard,
            DecoderArg::Rounds => Method::Rounds,
            DecoderArg::Improved => Method::Improved,
            DecoderArg::Elimination => Method::Elimination,
        }
    }
}

pub async fn run(args: &GetArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let name = &args.from.name;
    let (target, shown) = target(args.output.as_deref(), name, args.force)?;
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let config = LttpClientConfig { settings: args.network.settings(any, None) };
    let client = LttpClient::new(config)
        .map_err(|error| Failed::system("cannot open a UDP socket", &error))?;
    let options = LttpOptions {
        name: name.clone(),
        digest: args.digest,
        method: args.decoder.method(),
        symbol_size: args.symbol_size,
        block_symbols: args.block_symbols,
    };
    let to_stdout = matches!(target, Target::Writer(_)) && shown == "-";
    let display = Display::new(quiet || args.report.json, args.report.json_progress, false);
    let fetch = client.fetch(&args.from.hosts, &options, target, display.updates());
    let fetched = interrupt.guard(fetch).await;
    display.finish();
    // Ends the sessions in good order: the part file is gone when we are.
    drop(client);
    let report = fetched?.map_err(|error| exit::of_fetch(&error))?;
    if args.report.json {
        let line = account(name.as_str(), &shown, &report).to_string();
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

/// The account for programs. Times in seconds, rates in bit/s, overheads as parts.
fn account(name: &str, output: &str, report: &LttpReport) -> Value {
    let share = |share: &wellspring_net::ShareReport| {
        json!({
            "host": share.host,
            "address": share.address.to_string(),
            "offset": share.offset,
            "length": share.len,
            "symbols_needed": share.stats.source,
            "symbols_used": share.stats.symbols,
            "symbols_needless": share.stats.needless,
            "symbols_twice": share.stats.duplicates,
            "reports": share.stats.reports,
        })
    };
    let unused =
        |host: &wellspring_net::HostError| json!({"host": host.host, "reason": host.reason});
    let lost = |lost: &wellspring_net::LostServer| json!({"host": lost.host.host, "reason": lost.host.reason, "bytes": lost.bytes});
    json!({
        "object": name,
        "output": output,
        "bytes": report.size,
        "digest": report.digest.to_string(),
        "seconds": report.elapsed.as_secs_f64(),
        "seconds_preparing": report.preparing.as_secs_f64(),
        "seconds_finishing": report.finishing.as_secs_f64(),
        "goodput_bits_per_second": report.goodput(),
        "transfer_bits_per_second": report.transfer_rate(),
        "symbol_size": report.symbol_size,
        "block_symbols": report.block_symbols,
        "decoder": report.method.name(),
        "symbols_needed": report.needed(),
        "symbols_used": report.used(),
        "symbols_needless": report.needless(),
        "overhead": report.overhead(),
        "datagrams_received": report.socket.received,
        "datagrams_malformed": report.socket.malformed,
        "datagrams_unknown_cookie": report.socket.unknown_cookie,
        "datagrams_wrong_address": report.socket.wrong_address,
        "cpu_seconds": cpu_seconds(None),
        "peak_memory_bytes": peak_memory(),
        "shares": report.shares.iter().map(share).collect::<Vec<_>>(),
        "lost": report.lost.iter().map(lost).collect::<Vec<_>>(),
        "unused": report.unused.iter().map(unused).collect::<Vec<_>>(),
    })
}

fn summary(name: &str, output: &str, report: &LttpReport) -> String {
    let mut text =
        fetched((name, output), (report.size, &report.digest), (report.elapsed, report.goodput()));
    if report.size == 0 {
        return text;
    }
    text.push_str(&format!(
        "{} symbols needed, {} used ({} over), {} needless\n",
        report.needed(),
        report.used(),
        percent(report.overhead()),
        report.needless(),
    ));
    if report.shares.len() > 1 {
        let head = ["server", "share", "used", "needless", "reports"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for share in &report.shares {
            rows.push(vec![
                share.host.clone(),
                bytes(share.len),
                share.stats.symbols.to_string(),
                share.stats.needless.to_string(),
                share.stats.reports.to_string(),
            ]);
        }
        text.push_str(&table(&rows));
    }
    text
}
