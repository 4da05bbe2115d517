//! `wellspring demo`: fetch and replication between processes on loopback, with injected loss.

mod table;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use wellspring_console::exit::Failed;
use wellspring_console::output::Stdout;
use wellspring_console::random_file;
use wellspring_console::units::{bytes, parse_loss, parse_size, percent, seconds};
use wellspring_console::wellspring::Wellspring;

/// The object's name in the demo.
const NAME: &str = "object";
const SERVERS: usize = 3;

/// Demonstrate fetch and replication on this machine, with loss and a killed server.
///
/// Starts server processes on loopback and fetches a file from three of them with injected loss.
/// Half way it kills one of the three. Then it puts the file to three receivers by multicast. It
/// verifies every copy, prints a table of time, rate and symbols, and removes its temporary files.
#[derive(Args, Clone)]
#[command(after_help = "\
Examples:
  wellspring demo
  wellspring demo --file /srv/models/7b.bin
  wellspring demo --size 500M --loss 0.1 --json")]
pub struct DemoArgs {
    /// File to transfer [default: random bytes].
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Length of the random bytes.
    #[arg(long, value_name = "SIZE", default_value = "200M", value_parser = parse_size, conflicts_with = "file")]
    size: u64,
    /// Share of the datagrams that the receiver drops, 0 to 0.9.
    #[arg(long, value_name = "P", default_value_t = 0.05, value_parser = parse_loss)]
    loss: f64,
    /// Seed of the losses and the random bytes.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &DemoArgs, quiet: bool) -> Result<(), Failed> {
    let home = tempfile::Builder::new().prefix("wellspring-demo-").tempdir();
    let home = home.map_err(|error| failed_at(&std::env::temp_dir(), &error))?;
    let stage = Stage {
        wellspring: Wellspring::this()?,
        home: home.path().to_owned(),
        silent: quiet || args.json,
    };
    let began = Instant::now();
    let (size, digest) = stage.prepare(args)?;
    let fetched = stage.fetch(args, &digest)?;
    let replicated = stage.replicate(&digest)?;
    stage.say(&format!("\nAll done in {}.\n", seconds(began.elapsed())));
    if args.json {
        let result = json!({"size": size, "digest": digest, "get": fetched, "put": replicated});
        writeln!(Stdout, "{result}")?;
    } else {
        writeln!(Stdout, "{}", table::closing(size, args.loss, &fetched, &replicated))?;
    }
    // A failure is reported here. On errors above, the directory is removed without a report.
    let path = home.path().to_owned();
    home.close().map_err(|error| failed_at(&path, &error))
}

struct Stage {
    wellspring: Wellspring,
    home: PathBuf,
    silent: bool,
}

impl Stage {
    fn say(&self, text: &str) {
        if !self.silent {
            // The final output fails if standard output is closed.
            let _ = writeln!(Stdout, "{text}");
        }
    }

    fn dir(&self, name: &str) -> Result<PathBuf, Failed> {
        let dir = self.home.join(name);
        std::fs::create_dir(&dir).map_err(|error| failed_at(&dir, &error))?;
        Ok(dir)
    }

    /// Makes the file and gives each replica its own copy.
    fn prepare(&self, args: &DemoArgs) -> Result<(u64, String), Failed> {
        let first = self.dir("replica-1")?.join(NAME);
        match &args.file {
            Some(file) => {
                self.say(&format!("1. Copying {} to three replicas.", file.display()));
                std::fs::copy(file, &first).map_err(|error| failed_at(file, &error))?;
            }
            None => {
                self.say(&format!(
                    "1. Writing {} of random bytes to three replicas.",
                    bytes(args.size)
                ));
                random_file::write(&first, args.size, args.seed)?;
            }
        }
        for replica in 2..=SERVERS {
            let copy = self.dir(&format!("replica-{replica}"))?.join(NAME);
            std::fs::copy(&first, &copy).map_err(|error| failed_at(&copy, &error))?;
        }
        let digest = random_file::digest(&first)?;
        self.say(&format!("   Its digest is {digest}."));
        let meta = std::fs::metadata(&first).map_err(|error| failed_at(&first, &error))?;
        Ok((meta.len(), digest))
    }

    fn cache(&self) -> PathBuf {
        self.home.join("cache")
    }

    fn fetch(&self, args: &DemoArgs, digest: &str) -> Result<Value, Failed> {
        let mut servers = Vec::new();
        for replica in 1..=SERVERS {
            let dir = self.home.join(format!("replica-{replica}"));
            let server = self.wellspring.serve(&dir, &self.cache(), &[])?;
            self.say(&format!(
                "2. Replica {replica} serves at {} (process {}).",
                server.address,
                server.id()
            ));
            servers.push(server);
        }
        let hosts: Vec<String> = servers.iter().map(|s| s.address.to_string()).collect();
        let out = self.home.join("fetched");
        let from = format!("{}/{NAME}", hosts.join(","));
        self.say(&format!(
            "3. wellspring get {from}\n   with {} of all datagrams lost at the receiver.",
            percent(args.loss)
        ));
        let mut killed = false;
        let (loss, seed) = (args.loss.to_string(), args.seed.to_string());
        let out_text = out.display().to_string();
        let arguments = [
            "get",
            &from,
            "-o",
            &out_text,
            "--inject-loss",
            &loss,
            "--seed",
            &seed,
            "--timeout",
            "10",
        ];
        let ended = self.wellspring.transfer(&arguments, |step| {
            let (done, total) = (step["done"].as_u64(), step["total"].as_u64());
            if let (false, Some(done), Some(total), true) =
                (killed, done, total, step["event"] == "moving")
                && done * 2 >= total
            {
                killed = true;
                servers[1].kill();
                let part = percent(done as f64 / total.max(1) as f64);
                self.say(&format!("   {part} are here: replica 2 is killed (SIGKILL)."));
            }
            if step["event"] == "lost" {
                self.say(&format!(
                    "   {} is lost: {}.",
                    text(&step["host"]),
                    text(&step["reason"])
                ));
            }
        })?;
        let mut report = ended.success()?;
        report["killed_half_way"] = killed.into();
        if killed {
            report["replicas"][1]["state"] = "killed half way".into();
        }
        self.check("the object fetched", &out, digest)?;
        Ok(report)
    }

    fn replicate(&self, digest: &str) -> Result<Value, Failed> {
        let group = free_group()?;
        let mut servers = Vec::new();
        for receiver in 1..=SERVERS {
            let dir = self.dir(&format!("receiver-{receiver}"))?;
            let extra = ["--allow-put", "--interface", "127.0.0.1"];
            let server = self.wellspring.serve(&dir, &self.cache(), &extra)?;
            self.say(&format!("4. Receiver {receiver} takes objects at {}.", server.address));
            servers.push(server);
        }
        let hosts: Vec<String> = servers.iter().map(|s| s.address.to_string()).collect();
        let (hosts, group) = (hosts.join(","), group.to_string());
        self.say(&format!("5. wellspring put fetched {hosts} --group {group}"));
        let file = self.home.join("fetched").display().to_string();
        let cache = self.cache().display().to_string();
        let arguments = [
            "put",
            &file,
            &hosts,
            "--group",
            &group,
            "--interface",
            "127.0.0.1",
            "--name",
            NAME,
            "--cache",
            &cache,
        ];
        let ended = self.wellspring.transfer(&arguments, |step| {
            if step["event"] == "complete" {
                self.say(&format!("   {} has it, verified and synced.", text(&step["host"])));
            }
        })?;
        let mut report = ended.success()?;
        let mut received = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            let what = format!("the object at receiver {}", index + 1);
            self.check(&what, &server.dir.join(NAME), digest)?;
            received.push(server.wait_for("received")?);
        }
        report["received"] = received.into();
        Ok(report)
    }

    fn check(&self, what: &str, path: &Path, digest: &str) -> Result<(), Failed> {
        let got = random_file::digest(path)?;
        if got != digest {
            return Err(Failed::other(format!("{what} has digest {got}, not {digest}")));
        }
        self.say(&format!("   Digest of {what}: right."));
        Ok(())
    }
}

fn failed_at(path: &Path, error: &std::io::Error) -> Failed {
    Failed::system(path.display(), error)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// A multicast group of this host's own scope with a port that nobody uses.
fn free_group() -> Result<SocketAddr, Failed> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let address = socket.and_then(|socket| socket.local_addr());
    let port = address.map_err(|error| Failed::system("cannot open a UDP socket", &error))?.port();
    let [high, low] = port.to_be_bytes();
    Ok(SocketAddr::from(([239, 255, high, low], port)))
}
