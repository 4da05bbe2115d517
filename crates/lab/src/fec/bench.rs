//! `wellspring-lab fec bench`: RaptorQ beside other codecs in one run, with verified results.

use std::time::Instant;

use clap::Args;
use wellspring_codec::kernels::{Isa, Kernels};
use wellspring_codec::raptorq::{DecodingPath, ENCODING_SYMBOLS};
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stderr, Stdout};

use super::isal::IsalPeer;
use super::peers::{Job, Operation, Ours, Peer, RaptorqPeer, ReedSolomonPeer, Timed};

/// Measure our codec and others in one run.
///
/// Prints microseconds per source block. Decoding starts from K+2 symbols: the received source
/// symbols, and two more repair symbols than were lost. Which symbols are lost and from which number
/// on the repair symbols are is drawn at random, up to eight times, and the draws take turns. If a
/// codec can use symbols in place, the received symbols are already there. "Warm" means that the code for this K was used before, and
/// "cold" that it was not.
///
/// ISA-L is measured if its library (libisal2) is installed. ISA-L and reed-solomon-simd are not
/// fountain codes and get exactly as many repair symbols as were lost.
///
/// Every result is checked before it is timed: decoded bytes against the block, RaptorQ's repair
/// symbols against those of the other RaptorQ codec, and those of the other codes by decoding from
/// them. Operations of more than 50 microseconds are measured in processor time, and the codecs
/// take turns, which reduces the influence of other load. The tour of the command in the book
/// describes the fields of --json.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring-lab fec bench
  wellspring-lab fec bench --k 1000 --lost 1,1%,10% --kernel avx2
  wellspring-lab fec bench --k 10,100,1000,10000 --t 64,1500 --json > record.jsonl")]
pub struct BenchArgs {
    /// Source symbols per block (K).
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "100",
          value_parser = clap::value_parser!(u32).range(1..=56_403))]
    k: Vec<u32>,
    /// Bytes per symbol (T).
    #[arg(long, value_name = "T", value_delimiter = ',', default_value = "1500",
          value_parser = clap::value_parser!(u16).range(1..))]
    t: Vec<u16>,
    /// Number of lost source symbols, or their percentage of K.
    #[arg(long, value_name = "E", value_delimiter = ',', default_value = "0,1,2,5,10,30,50,100%")]
    lost: Vec<Share>,
    /// Number of encoded repair symbols, or their percentage of K.
    #[arg(long, value_name = "R", value_delimiter = ',', default_value = "5,50")]
    repair: Vec<Share>,
    /// Instruction set of our kernels (scalar, ssse3, avx2, gfni, avx512, neon); default: the fastest.
    #[arg(long, value_name = "ISA")]
    kernel: Option<Isa>,
    /// Decoding path of our decoder (dense, syndrome, inactivation); default: the cheapest.
    #[arg(long, value_name = "PATH", value_parser = path)]
    path: Option<DecodingPath>,
    /// Measure only our own codec.
    #[arg(long)]
    no_peers: bool,
    /// Measuring time of each value, in seconds.
    #[arg(long, value_name = "S", default_value_t = 0.3, value_parser = seconds)]
    seconds: f64,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

fn path(name: &str) -> Result<DecodingPath, String> {
    match name {
        "dense" => Ok(DecodingPath::Dense),
        "syndrome" => Ok(DecodingPath::Syndrome),
        "inactivation" => Ok(DecodingPath::Inactivation),
        _ => Err("expected dense, syndrome or inactivation".into()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("write seconds from 0.001 to 3600".into()),
    }
}

/// A number of symbols, or a share of K.
#[derive(Clone, Copy, Debug)]
enum Share {
    Count(u32),
    Percent(f64),
}

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_suffix('%') {
            Some(percent) => match percent.parse() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self::Percent(percent)),
                _ => Err("a share is 0% to 100%".into()),
            },
            None => text.parse().map(Self::Count).map_err(|_| "a number, or a share in %".into()),
        }
    }
}

impl Share {
    fn of(self, k: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            // Never beyond K; the cast drops nothing but the fraction.
            Self::Percent(percent) => (f64::from(k) * percent / 100.0).ceil() as u32,
        }
    }
}

/// The times of one figure, in microseconds.
struct Times {
    median: f64,
    min: f64,
    max: f64,
}

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let last = times.len() - 1;
        Self { median: times[last / 2], min: times[0], max: times[last] }
    }
}

/// Runs all codecs by turns, a slice of the time for each, so that whatever else the machine does
/// meets all of them.
fn measure(budget: f64, codecs: &mut [Option<Timed<'_>>]) -> Vec<Option<Times>> {
    const TURNS: f64 = 20.0;
    let mut times = vec![Vec::new(); codecs.len()];
    let mut spent = 0.0;
    while codecs.iter().any(Option::is_some)
        && (spent < budget || times.iter().map(Vec::len).max().unwrap_or(3) < 3)
    {
        for (codec, times) in codecs.iter_mut().zip(&mut times) {
            let Some(once) = codec else { continue };
            let begin = Instant::now();
            while times.len() < 100_000 {
                times.push(once().as_secs_f64() * 1e6);
                if begin.elapsed().as_secs_f64() >= budget / TURNS {
                    break;
                }
            }
        }
        spent += budget / TURNS;
    }
    times.into_iter().map(|times| (!times.is_empty()).then(|| Times::of(times))).collect()
}

/// Bytes of a block and its repair symbols, at most: each codec holds them more than once.
const MAX_BYTES: u64 = 1 << 30;

/// Refuses what cannot be encoded or held, before anything is measured.
fn check_sizes(args: &BenchArgs) -> Result<(), Failed> {
    for &k in &args.k {
        let repair = args.repair.iter().map(|repair| repair.of(k)).max().unwrap_or(0);
        let symbols = u64::from(k) + u64::from(repair);
        if symbols > u64::from(ENCODING_SYMBOLS) {
            let most = ENCODING_SYMBOLS - k;
            return Err(Failed::usage(format!("--repair {repair}: {most} at most for K = {k}")));
        }
        let t = args.t.iter().copied().max().unwrap_or(0);
        let bytes = symbols * u64::from(t);
        if bytes > MAX_BYTES {
            let message = format!(
                "K = {k}, T = {t} and {repair} repair symbols are {bytes} bytes, {MAX_BYTES} at most"
            );
            return Err(Failed::usage(message).hint("Give fewer or smaller symbols."));
        }
    }
    Ok(())
}

/// Losses of more symbols than a block has are passed over: lists are for several K.
fn say_what_is_passed_over(args: &BenchArgs) {
    for &k in &args.k {
        let beyond = args.lost.iter().map(|lost| lost.of(k)).filter(|lost| *lost > k);
        let beyond: Vec<String> = beyond.map(|lost| lost.to_string()).collect();
        if !beyond.is_empty() {
            let beyond = beyond.join(",");
            writeln!(Stderr, "K = {k}: passing over --lost {beyond}, more than the block has");
        }
    }
}

/// What is measured for one K and T.
fn operations(args: &BenchArgs, k: u32) -> Vec<Operation> {
    let mut operations =
        vec![Operation::FirstRepair { warm: false }, Operation::FirstRepair { warm: true }];
    let mut repairs: Vec<u32> = args.repair.iter().map(|r| r.of(k).max(1)).collect();
    repairs.dedup();
    operations.extend(repairs.into_iter().map(|repair| Operation::Encode { repair }));
    let mut lost: Vec<u32> = args.lost.iter().map(|e| e.of(k)).filter(|e| *e <= k).collect();
    lost.sort_unstable();
    lost.dedup();
    operations.extend(lost.into_iter().map(|lost| Operation::Decode { lost }));
    operations
}

pub(super) fn run(args: &BenchArgs, quiet: bool) -> Result<(), Failed> {
    let kernels = match args.kernel {
        Some(isa) => Kernels::with_isa(isa)
            .ok_or_else(|| Failed::usage(format!("this CPU has no {isa} kernels")))?,
        None => Kernels::from_env().map_err(|error| Failed::usage(error.to_string()))?,
    };
    check_sizes(args)?;
    say_what_is_passed_over(args);
    for &k in &args.k {
        for &t in &args.t {
            let job = Job::new(k, usize::from(t));
            let mut codecs: Vec<Box<dyn Peer>> = vec![Box::new(Ours::new(kernels, args.path))];
            if !args.no_peers {
                codecs.push(Box::new(RaptorqPeer));
                codecs.push(Box::new(ReedSolomonPeer));
                if let Some(isal) = IsalPeer::find() {
                    codecs.push(Box::new(isal));
                }
            }
            if !args.json {
                print_heading(k, t, &codecs)?;
            }
            for operation in operations(args, k) {
                measure_operation(args, quiet, &job, &mut codecs, operation)?;
            }
        }
    }
    Ok(())
}

fn print_heading(k: u32, t: u16, codecs: &[Box<dyn Peer>]) -> Result<(), Failed> {
    let mut line = format!("{:<24}", "");
    for codec in codecs {
        let title = format!("{} {} {}", codec.name(), codec.version(), codec.kernel());
        line.push_str(&format!("{title:>29}"));
    }
    let what = "microseconds a block, median (min); x: times slower than ours";
    Ok(writeln!(Stdout, "\nK = {k}, T = {t}: {what}\n{line}")?)
}

fn measure_operation(
    args: &BenchArgs,
    quiet: bool,
    job: &Job,
    codecs: &mut [Box<dyn Peer>],
    operation: Operation,
) -> Result<(), Failed> {
    let mut timed = Vec::new();
    for codec in codecs.iter_mut() {
        timed.push(codec.prepare(job, operation)?);
    }
    let (mut ours, mut row) = (None, format!("{:<24}", operation.to_string()));
    for (codec, times) in codecs.iter().zip(measure(args.seconds, &mut timed)) {
        let Some(times) = times else {
            row.push_str(&format!("{:>29}", "-"));
            continue;
        };
        if args.json {
            writeln!(Stdout, "{}", to_json(job, operation, &**codec, &times))?;
            if !quiet {
                writeln!(Stderr, "K {} T {} {operation}: {}", job.k, job.t, codec.name());
            }
        } else {
            let ratio = ours.map(|ours: f64| format!("{:.1}x", times.median / ours));
            ours = ours.or(Some(times.median));
            let figure = format!("{:.1} ({:.1})", times.median, times.min);
            row.push_str(&format!("{figure:>21}{:>8}", ratio.unwrap_or_default()));
        }
    }
    if !args.json {
        writeln!(Stdout, "{row}")?;
    }
    Ok(())
}

/// A line of a record; `docs/src/cli.md` describes the fields.
fn to_json(job: &Job, operation: Operation, codec: &dyn Peer, times: &Times) -> serde_json::Value {
    serde_json::json!({
        "codec": codec.name(),
        "version": codec.version(),
        "kernel": codec.kernel(),
        "k": job.k,
        "symbol_size": job.t,
        "operation": operation.name(),
        "warm": operation.is_warm(),
        "repair": operation.repair(),
        "lost": operation.lost(),
        "micros_per_block": times.median,
        "min": times.min,
        "max": times.max,
        "gbit_per_s": f64::from(job.k) * job.t as f64 * 8.0 / times.median / 1000.0,
    })
}
