//! `wellspring-lab fec lt`: symbol and byte overhead of LT codes.

use clap::Args;
use rayon::prelude::*;
use wellspring_codec::lt::{
    Code, MAX_SOURCE_SYMBOLS, Method, Needed, OverheadStudy, RobustSoliton,
};
use wellspring_console::bar;
use wellspring_console::exit::Failed;
use wellspring_console::output::Stdout;

/// Measure how many symbols LTTP's LT code needs with each decoder.
///
/// Each block draws encoding symbols from its own seed and determines how many of them a receiver
/// needs, on degrees and indices alone. The same seed gives the same numbers on every machine.
///
/// "standard" is the paper's standard decoder. It cannot use a packet if one of its source symbols was
/// known before the packet arrived. "rounds" processes all packets again when one of degree one
/// arrives. "improved" is the paper's improved decoder, belief propagation with every packet.
/// "elimination" completes as soon as the symbols determine the block; no decoder can complete earlier.
///
/// The overhead in bytes includes the degree and the indices in each packet, one byte each up to k =
/// 256 (§V-D). A second column has the overhead with a 4-byte ID instead.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring-lab fec lt                            Table I: what the paper measured, and what is here
  wellspring-lab fec lt --sweep --k 256            §V-B: c from 0.1 to 10, delta from 0.1 to 0.9
  wellspring-lab fec lt --k 1000 --c 0.03,0.1 --delta 0.5 --blocks 200 --json")]
pub struct LtArgs {
    /// Source symbols per block (k).
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "64,128,256",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SOURCE_SYMBOLS)))]
    k: Vec<u32>,
    /// The constant of the robust soliton distribution.
    #[arg(long, value_name = "C", value_delimiter = ',', default_value = "0.2")]
    c: Vec<f64>,
    /// The failure probability of the robust soliton distribution.
    #[arg(long, value_name = "DELTA", value_delimiter = ',', default_value = "0.7")]
    delta: Vec<f64>,
    /// The parameters of the paper's search (§V-B) instead of one c and one delta.
    #[arg(long, conflicts_with_all = ["c", "delta"])]
    sweep: bool,
    /// Bytes per symbol, for the relative size of degrees and indices.
    #[arg(long, value_name = "T", default_value_t = 1_024,
          value_parser = clap::value_parser!(u32).range(1..=65_535))]
    symbol_size: u32,
    /// Blocks per line.
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    blocks: u64,
    /// Seed of the first block; each further block uses the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// The paper's search (§V-B), which gives the ends only.
const SWEEP_C: [f64; 7] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
const SWEEP_DELTA: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// Bytes of the ID that can stand in the place of degree and indices.
const ID: f64 = 4.0;

/// Table I's overheads: k, and least and most that the text gives for all of them (§V-D).
const TABLE_I: ([u32; 3], [f64; 2]) = ([64, 128, 256], [0.06, 0.08]);

/// One line of the table.
struct Line {
    k: u32,
    c: f64,
    delta: f64,
    method: Method,
    /// Symbols beyond k as a fraction of k: mean and its standard error, median, 99th percentile.
    symbols: [f64; 4],
    /// Bytes beyond the block as a fraction of it, with degrees and indices, and with IDs.
    bytes: [f64; 2],
    paper: Option<[f64; 2]>,
}

impl Line {
    fn measure(
        (k, c, delta): (u32, f64, f64),
        method: Method,
        args: &LtArgs,
        bar: &indicatif::ProgressBar,
    ) -> Result<Self, Failed> {
        let usage = |error: wellspring_codec::lt::LtError| Failed::usage(error.to_string());
        let distribution = RobustSoliton::new(k, c, delta).map_err(usage)?;
        let mut needed: Vec<Needed> = (0..args.blocks)
            .into_par_iter()
            .map_init(OverheadStudy::default, |study, block| {
                let code = Code::new(distribution.clone(), args.seed.wrapping_add(block));
                bar.inc(1);
                study.needed(&code, method, 0..=u32::MAX).expect("IDs do not run out")
            })
            .collect();
        needed.sort_unstable_by_key(|needed| needed.symbols);
        let size = args.symbol_size as usize;
        let mean =
            |of: &dyn Fn(&Needed) -> f64| needed.iter().map(of).sum::<f64>() / needed.len() as f64;
        let overhead = mean(&Needed::symbol_overhead);
        let square = mean(&|needed| (needed.symbol_overhead() - overhead).powi(2));
        let place = |share: f64| {
            let place = (share * needed.len() as f64).ceil() as usize;
            needed[place.clamp(1, needed.len()) - 1].symbol_overhead()
        };
        let with_id = (1.0 + overhead) * (1.0 + ID / size as f64) - 1.0;
        let of_paper = TABLE_I.0.contains(&k) && (c, delta, size) == (0.2, 0.7, 1_024);
        Ok(Self {
            k,
            c,
            delta,
            method,
            symbols: [overhead, (square / needed.len() as f64).sqrt(), place(0.5), place(0.99)],
            bytes: [mean(&|needed| needed.byte_overhead(size)), with_id],
            paper: of_paper.then_some(TABLE_I.1),
        })
    }

    fn print_head() -> Result<(), Failed> {
        writeln!(
            Stdout,
            "{:>5} {:>6} {:>6} {:<12} {:>15} {:>7} {:>7}  {:>7} {:>8}  {:>8}",
            "k",
            "c",
            "delta",
            "decoder",
            "symbols over k",
            "median",
            "99 %",
            "bytes",
            "with IDs",
            "Table I"
        )?;
        Ok(())
    }

    fn print(&self) -> Result<(), Failed> {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let [mean, error, median, high] = self.symbols;
        let paper = self.paper.map_or_else(String::new, |[low, high]| {
            format!("{:.0}-{:.0} %", 100.0 * low, 100.0 * high)
        });
        let line = format!(
            "{:>5} {:>6} {:>6} {:<12} {:>15} {:>7} {:>7}  {:>7} {:>8}  {paper:>8}",
            self.k,
            self.c,
            self.delta,
            self.method.name(),
            format!("{:.1} ± {:.1} %", 100.0 * mean, 100.0 * error),
            percent(median),
            percent(high),
            percent(self.bytes[0]),
            percent(self.bytes[1]),
        );
        writeln!(Stdout, "{}", line.trim_end())?;
        Ok(())
    }

    fn print_json(&self, args: &LtArgs) -> Result<(), Failed> {
        let line = serde_json::json!({
            "k": self.k, "c": self.c, "delta": self.delta, "decoder": self.method.name(),
            "symbol_size": args.symbol_size, "blocks": args.blocks, "seed": args.seed,
            "symbol_overhead": self.symbols[0], "standard_error": self.symbols[1],
            "median": self.symbols[2], "percentile_99": self.symbols[3],
            "byte_overhead": self.bytes[0], "byte_overhead_with_ids": self.bytes[1],
            "paper": self.paper,
        });
        writeln!(Stdout, "{line}")?;
        Ok(())
    }
}

/// The parameters to measure: k, c and delta.
fn settings(args: &LtArgs) -> Vec<(u32, f64, f64)> {
    let (cs, deltas) =
        if args.sweep { (&SWEEP_C[..], &SWEEP_DELTA[..]) } else { (&args.c[..], &args.delta[..]) };
    let pairs = || cs.iter().flat_map(|c| deltas.iter().map(move |delta| (*c, *delta)));
    args.k.iter().flat_map(|k| pairs().map(move |(c, delta)| (*k, c, delta))).collect()
}

pub(super) fn run(args: &LtArgs, quiet: bool) -> Result<(), Failed> {
    let settings = settings(args);
    let blocks = args.blocks * (settings.len() * Method::ALL.len()) as u64;
    let bar = bar::counting(quiet || args.json, blocks, "blocks");
    if !args.json {
        writeln!(
            Stdout,
            "what LT codes need beyond k symbols of {} bytes, {} blocks a line, seed {}",
            args.symbol_size, args.blocks, args.seed
        )?;
        Line::print_head()?;
    }
    let mut lines = Vec::new();
    for &setting in &settings {
        for method in Method::ALL {
            let line = Line::measure(setting, method, args, &bar)?;
            bar.suspend(|| if args.json { line.print_json(args) } else { line.print() })?;
            lines.push(line);
        }
    }
    bar.finish_and_clear();
    if args.sweep && !args.json {
        print_best(&args.k, &lines)?;
    }
    Ok(())
}

/// Where each decoder needs the fewest bytes, beside what the paper found best (§V-B).
fn print_best(ks: &[u32], lines: &[Line]) -> Result<(), Failed> {
    writeln!(
        Stdout,
        "\nfewest bytes; the paper finds c below 1, whatever delta is, and takes 0.2 and 0.7"
    )?;
    for (k, method) in ks.iter().flat_map(|k| Method::ALL.map(|method| (*k, method))) {
        let of_method = lines.iter().filter(|line| line.k == k && line.method == method);
        if let Some(best) = of_method.min_by(|a, b| a.bytes[0].total_cmp(&b.bytes[0])) {
            writeln!(
                Stdout,
                "{k:>5} {:<12} c = {}, delta = {}: {:.1} %",
                method.name(),
                best.c,
                best.delta,
                100.0 * best.bytes[0]
            )?;
        }
    }
    Ok(())
}
