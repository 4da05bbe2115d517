//! `wellspring-lab bench`: transfers on loopback, measured beside TCP in the same run.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use wellspring_client::DEFAULT_SYMBOL_SIZE;
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stderr, Stdout, table};
use wellspring_console::random_file;
use wellspring_console::units::{
    bit_rate, bytes, parse_loss, parse_rate, parse_size, percent, seconds,
};
use wellspring_console::usage::cpu_seconds;
use wellspring_console::wellspring::{Server, Wellspring};
use wellspring_core::Rate;
use wellspring_store::WriteBack;

const NAME: &str = "object";
/// Bytes that a copy by TCP receives and writes at a time: std copies by 8 KiB.
const COPY_STEP: usize = 256 << 10;

/// Measure transfers on this machine and compare them with TCP in the same run.
#[derive(Args, Clone)]
#[command(after_help = "\
Examples:
  wellspring-lab bench loopback
  wellspring-lab bench loopback --size 1G --loss 0,0.01,0.05,0.1 --json
  wellspring-lab bench slow-replica")]
pub struct BenchArgs {
    #[arg(value_enum)]
    what: BenchKind,
    /// Length of the file.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    size: u64,
    /// Loss at the receiver, 0 to 0.9; several values separated by commas.
    #[arg(long, value_name = "P", value_delimiter = ',', default_value = "0,0.01,0.05,0.1", value_parser = parse_loss)]
    loss: Vec<f64>,
    /// Symbol sizes in bytes, separated by commas.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [DEFAULT_SYMBOL_SIZE])]
    symbol_size: Vec<u16>,
    /// The option --fabric of `wellspring get`.
    #[arg(long, value_parser = ["trimming", "shared", "dedicated"], default_value = "shared")]
    fabric: String,
    /// For `slow-replica`: rate of a normal replica; the slow one has a tenth of it.
    #[arg(long, value_name = "RATE", default_value = "500M", value_parser = parse_rate)]
    rate: Rate,
    /// Seed of the losses.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchKind {
    /// `get` from one server and from three, with several loss rates, compared with a TCP copy.
    Loopback,
    /// `get` from three replicas, one of which is limited to a tenth of the others' rate.
    SlowReplica,
}

pub fn run(args: &BenchArgs, quiet: bool) -> Result<(), Failed> {
    let wellspring = Wellspring::beside_this()?;
    let home = tempfile::Builder::new().prefix("wellspring-bench-").tempdir();
    let home = home.map_err(|error| failed_at(&std::env::temp_dir(), &error))?;
    let silent = quiet || args.json;
    let bench = Bench { wellspring, home: home.path().to_owned(), args, silent };
    bench.say(&format!("writing {} of random bytes", bytes(args.size)));
    for replica in 1..=3 {
        let dir = bench.replica(replica);
        std::fs::create_dir(&dir).map_err(|error| failed_at(&dir, &error))?;
    }
    random_file::write(&bench.replica(1).join(NAME), args.size, args.seed)?;
    for replica in 2..=3 {
        // Links instead of copies, to save disk space.
        let copy = bench.replica(replica).join(NAME);
        let linked = std::fs::hard_link(bench.replica(1).join(NAME), &copy);
        linked.map_err(|error| failed_at(&copy, &error))?;
    }
    let rows = match args.what {
        BenchKind::Loopback => bench.loopback()?,
        BenchKind::SlowReplica => bench.slow_replica()?,
    };
    if args.json {
        let rows: Vec<_> = rows.iter().map(|r| &r.json).filter(|j| !j.is_null()).collect();
        let account = json!({"version": env!("CARGO_PKG_VERSION"), "size": args.size,
            "seed": args.seed, "rows": rows});
        writeln!(Stdout, "{account}")?;
    } else {
        let shown: Vec<Vec<String>> = rows.into_iter().map(|row| row.shown).collect();
        writeln!(Stdout, "{}", table(&shown))?;
    }
    let path = home.path().to_owned();
    home.close().map_err(|error| failed_at(&path, &error))
}

/// A result, for people and for programs.
struct Row {
    shown: Vec<String>,
    json: Value,
}

struct Bench<'a> {
    wellspring: Wellspring,
    home: PathBuf,
    args: &'a BenchArgs,
    silent: bool,
}

/// What a `get` took.
struct Taken {
    summary: Value,
    /// CPU time of all servers and of the client \[s\].
    cpu: (f64, f64),
}

impl Bench<'_> {
    fn say(&self, text: &str) {
        if !self.silent {
            writeln!(Stderr, "{text}");
        }
    }

    fn replica(&self, number: usize) -> PathBuf {
        self.home.join(format!("replica-{number}"))
    }

    fn loopback(&self) -> Result<Vec<Row>, Failed> {
        let head = [
            "transfer",
            "symbol",
            "loss",
            "time",
            "goodput",
            "of TCP",
            "CPU s/GB",
            "sender",
            "receiver",
            "sent over",
            "needed over",
            "decoded",
        ];
        self.warm_up()?;
        let before = self.tcp()?;
        let mut measured = Vec::new();
        for &symbol_size in &self.args.symbol_size {
            for replicas in [1, 3] {
                for &loss in &self.args.loss {
                    let size = symbol_size.to_string();
                    let loss_text = loss.to_string();
                    let extra = ["--symbol-size", &size, "--inject-loss", &loss_text];
                    let taken = self.get(replicas, &[], &extra)?;
                    measured.push((taken, replicas, symbol_size, loss));
                }
            }
        }
        let after = self.tcp()?;
        let rate = |row: &Row| row.json["goodput_bits_per_second"].as_f64().unwrap_or(f64::NAN);
        // The faster of the two: the other one met something else.
        let tcp_rate = rate(&before).max(rate(&after));
        let mut rows = vec![Row { shown: head.map(str::to_owned).to_vec(), json: Value::Null }];
        rows.push(before);
        rows.extend(measured.iter().map(|(taken, replicas, symbol_size, loss)| {
            self.row(taken, *replicas, *symbol_size, *loss, tcp_rate)
        }));
        rows.push(after);
        Ok(rows)
    }

    fn row(&self, taken: &Taken, replicas: usize, symbol: u16, loss: f64, tcp: f64) -> Row {
        let summary = &taken.summary;
        let number = |key: &str| summary[key].as_f64().unwrap_or(f64::NAN);
        let gigabytes = self.args.size as f64 / 1e9;
        let (senders, receiver) = (taken.cpu.0 / gigabytes, taken.cpu.1 / gigabytes);
        let goodput = number("goodput_bits_per_second");
        let json = json!({
            "transfer": "wellspring", "replicas": replicas, "symbol_size": symbol, "loss": loss,
            "seconds": number("seconds"), "goodput_bits_per_second": goodput,
            "part_of_tcp": goodput / tcp,
            "cpu_seconds_per_gb": senders + receiver,
            "cpu_seconds_per_gb_senders": senders, "cpu_seconds_per_gb_receiver": receiver,
            "overhead_sent": number("overhead_sent"), "overhead_needed": number("overhead_needed"),
            "blocks": number("blocks"), "blocks_decoded": number("blocks_decoded"),
            "peak_memory_bytes": summary["peak_memory_bytes"],
        });
        let shown = vec![
            format!("get from {replicas}"),
            symbol.to_string(),
            percent(loss),
            format!("{:.2} s", number("seconds")),
            bit_rate(goodput),
            percent(goodput / tcp),
            format!("{:.2}", senders + receiver),
            format!("{senders:.2}"),
            format!("{receiver:.2}"),
            percent(number("overhead_sent")),
            percent(number("overhead_needed")),
            percent(number("blocks_decoded") / number("blocks")),
        ];
        Row { shown, json }
    }

    /// A fetch that does not count: from then on the servers know the digests of their files.
    fn warm_up(&self) -> Result<(), Failed> {
        self.get(3, &[], &[]).map(|_| ())
    }

    /// Fetches from so many servers.
    fn get(
        &self,
        replicas: usize,
        server_extra: &[&[&str]],
        extra: &[&str],
    ) -> Result<Taken, Failed> {
        let cache = self.home.join("cache");
        let mut servers = Vec::new();
        for replica in 1..=replicas {
            let own = server_extra.get(replica - 1).copied().unwrap_or_default();
            servers.push(self.wellspring.serve(&self.replica(replica), &cache, own)?);
        }
        let hosts: Vec<String> = servers.iter().map(|s| s.address.to_string()).collect();
        let from = format!("{}/{NAME}", hosts.join(","));
        let out = self.home.join("fetched").display().to_string();
        let seed = self.args.seed.to_string();
        let mut arguments = vec![
            "get",
            &from,
            "-o",
            &out,
            "--force",
            "--seed",
            &seed,
            "--fabric",
            &self.args.fabric,
        ];
        arguments.extend_from_slice(extra);
        self.say(&format!("wellspring {}", arguments.join(" ")));
        let of_servers = |servers: &[Server]| -> f64 {
            servers.iter().filter_map(|s| cpu_seconds(Some(s.id()))).sum()
        };
        let before = of_servers(&servers);
        let summary = self.wellspring.transfer(&arguments, |_| {})?.success()?;
        let client = summary["cpu_seconds"].as_f64().unwrap_or(f64::NAN);
        Ok(Taken { summary, cpu: (of_servers(&servers) - before, client) })
    }

    /// The same file through the kernel's TCP: `sendfile` on one side, a copy to a file that is
    /// synced on the other. No digest is computed.
    fn tcp(&self) -> Result<Row, Failed> {
        self.say("TCP copy");
        let source = self.replica(1).join(NAME);
        let target = self.home.join("copied");
        let cpu = || cpu_seconds(None).unwrap_or(f64::NAN);
        let before = cpu();
        let copied = tcp_copy(&source, &target);
        let time = copied.map_err(|error| Failed::system("a copy by TCP", &error))?;
        let cpu = (cpu() - before) / (self.args.size as f64 / 1e9);
        if random_file::digest(&source)? != random_file::digest(&target)? {
            return Err(Failed::other("TCP delivered other bytes"));
        }
        std::fs::remove_file(&target).map_err(|error| failed_at(&target, &error))?;
        let goodput = self.args.size as f64 * 8.0 / time.as_secs_f64();
        let json = json!({
            "transfer": "tcp", "seconds": time.as_secs_f64(), "loss": 0.0,
            "goodput_bits_per_second": goodput, "cpu_seconds_per_gb": cpu,
        });
        let mut shown = vec!["TCP copy".to_owned(), "-".to_owned(), percent(0.0), seconds(time)];
        shown.extend([bit_rate(goodput), percent(1.0), format!("{cpu:.2}")]);
        Ok(Row { shown, json })
    }

    fn slow_replica(&self) -> Result<Vec<Row>, Failed> {
        let head = ["transfer", "time", "goodput", "shares of the symbols", "sent over"];
        let mut rows = vec![Row { shown: head.map(str::to_owned).to_vec(), json: Value::Null }];
        let rate = self.args.rate.as_bits_per_second();
        let (full, tenth) = (rate.to_string(), (rate / 10).max(1).to_string());
        self.warm_up()?;
        let healthy: &[&str] = &["--inject-send-rate", &full];
        let slow: &[&str] = &["--inject-send-rate", &tenth];
        for (what, replicas, servers) in [
            ("two healthy replicas", 2, vec![healthy, healthy]),
            ("and a third at a tenth", 3, vec![healthy, healthy, slow]),
            ("three healthy replicas", 3, vec![healthy, healthy, healthy]),
        ] {
            let taken = self.get(replicas, &servers, &[])?;
            let summary = &taken.summary;
            let number = |key: &str| summary[key].as_f64().unwrap_or(f64::NAN);
            let shares: Vec<f64> = summary["replicas"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|replica| replica["share"].as_f64())
                .collect();
            let shown: Vec<String> = shares.iter().map(|share| percent(*share)).collect();
            let json = json!({
                "transfer": what, "replicas": replicas, "rate": rate,
                "seconds": number("seconds"),
                "goodput_bits_per_second": number("goodput_bits_per_second"),
                "shares": shares, "overhead_sent": number("overhead_sent"),
            });
            let shown = vec![
                what.to_owned(),
                format!("{:.2} s", number("seconds")),
                bit_rate(number("goodput_bits_per_second")),
                shown.join(" / "),
                percent(number("overhead_sent")),
            ];
            rows.push(Row { shown, json });
        }
        Ok(rows)
    }
}

fn tcp_copy(source: &Path, target: &Path) -> io::Result<Duration> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let mut file = File::open(source)?;
    let began = Instant::now();
    let sender = std::thread::spawn(move || -> io::Result<u64> {
        let (mut stream, _) = listener.accept()?;
        io::copy(&mut file, &mut stream)
    });
    let mut out = File::create(target)?;
    let stream = TcpStream::connect(address)?;
    // Brought to the disk meanwhile, as what is fetched is.
    let write_back = WriteBack::default();
    let mut piece = vec![0; COPY_STEP];
    loop {
        match (&stream).read(&mut piece)? {
            0 => break,
            len => {
                out.write_all(&piece[..len])?;
                write_back.wrote(&out, len as u64);
            }
        }
    }
    write_back.finish()?;
    out.sync_all()?;
    let elapsed = began.elapsed();
    sender.join().map_err(|_| io::Error::other("the sender panicked"))??;
    Ok(elapsed)
}

fn failed_at(path: &Path, error: &io::Error) -> Failed {
    Failed::system(path.display(), error)
}
