//! The command line.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use wellspring_core::Rate;
use wellspring_net::driver::{DriverConfig, DscpMap, TrimTaps};
use wellspring_net::socket::Interface;
use wellspring_net::store::{Digest, ObjectName};
use wellspring_net::{
    Cut, DEFAULT_INITIAL_WINDOW, DEFAULT_PORT, DEFAULT_SYMBOL_SIZE, DEFAULT_SYMBOLS_PER_BLOCK, Host,
};
use wellspring_transport::scdp::Fabric;

const EXIT_CODES: &str = "\
Exit status:
    0  done
    1  failed (disk, network, an error of the system)
    2  the command line is wrong
    3  too few symbols to decode (fec decode)
    4  no host has the object, or none takes it
    5  the replicas hold different bytes; nothing was written
    6  every replica was lost on the way
    7  the bytes received do not have the digest announced
    8  the target exists (give --force to replace it)
    9  fewer receivers than needed have the object
   10  symbols contradict each other: bytes have changed (fec decode)
  130  interrupted (Ctrl-C); nothing is left behind

An object is a file below a server's directory; its name is its path with `/`. Every object is
verified by its BLAKE3 digest before it takes its name. Set WELLSPRING_LOG=debug for logs.";

/// Moves real files with fountain codes: fetch from many, replicate to many, over UDP.
#[derive(Parser)]
#[command(name = "wellspring", version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Say more: -v what happens, -vv how, -vvv every message.
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Say nothing but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
}

#[derive(Subcommand)]
pub enum Command {
    Serve(ServeArgs),
    Get(GetArgs),
    Put(PutArgs),
    Demo(DemoArgs),
    Bench(BenchArgs),
    Lttp(crate::lttp::LttpArgs),
    Fec(crate::fec::FecArgs),
    Maelstrom(crate::maelstrom::MaelstromArgs),
    Switch(crate::switch::SwitchArgs),
    Lab(crate::lab::LabArgs),
    Sim(crate::sim::SimArgs),
    Reproduce(crate::sim::ReproduceArgs),
}

/// Serve the files of a directory, and take files if allowed.
///
/// Runs until Ctrl-C. Digests are computed once and kept in the cache, so that the second fetch of
/// a large file starts at once. Names cannot lead out of DIR: symbolic links are not followed, and
/// only regular files are objects.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring serve /srv/models
  wellspring serve --allow-put --bind 0.0.0.0:4711 /srv/incoming
  wellspring serve --json --bind 127.0.0.1:0 .     # prints the port it was given")]
pub struct ServeArgs {
    /// The directory whose files are served.
    pub dir: PathBuf,
    /// Address and port to listen at; port 0 lets the system choose.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DEFAULT_PORT))]
    pub bind: SocketAddr,
    /// Take objects that clients put.
    #[arg(long)]
    pub allow_put: bool,
    /// Let a put replace an object of the same name (the client must ask for it with --force).
    #[arg(long, requires = "allow_put")]
    pub allow_overwrite: bool,
    /// Largest object taken.
    #[arg(long, value_name = "SIZE", default_value = "1T", value_parser = parse_size)]
    pub max_object: u64,
    /// Objects taken at one time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_puts: usize,
    /// Length of all objects taken at one time.
    #[arg(long, value_name = "SIZE", default_value = "4T", value_parser = parse_size)]
    pub max_reserved: u64,
    /// What must stay free on the disk.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    pub keep_free: u64,
    /// Where digests are kept [default: $XDG_CACHE_HOME/wellspring or ~/.cache/wellspring].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// The interface that multicast comes in by: a name or an address of it.
    #[arg(long, value_name = "IF")]
    pub interface: Option<Interface>,
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Print what happens as one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

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
    pub from: Location,
    /// The file to write; a directory keeps the object's name; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(short, long)]
    pub force: bool,
    /// The digest the object must have: 64 hexadecimal digits. Hosts with other bytes are passed
    /// over instead of being an error.
    #[arg(long, value_name = "BLAKE3")]
    pub digest: Option<Digest>,
    #[command(flatten)]
    pub cut: CutArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Put a file to many hosts: by multicast, or to each on its own.
///
/// The hosts run `wellspring serve --allow-put`. With --group every symbol is sent once for all
/// of them; a host that holds up the others is served by unicast. The put succeeds when all hosts
/// (or --quorum of them) have the object verified, synced and in place.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring put 7b.bin a.example,b.example,c.example
  wellspring put 7b.bin a.example,b.example,c.example --group 239.255.47.11
  wellspring put 7b.bin a,b,c,d,e --quorum 3 --name models/7b.bin --force")]
pub struct PutArgs {
    /// The file to send.
    pub file: PathBuf,
    /// The hosts to send it to.
    #[arg(value_name = "HOST", value_delimiter = ',', required = true)]
    pub hosts: Vec<Host>,
    /// The object's name there [default: the file's name].
    #[arg(long)]
    pub name: Option<ObjectName>,
    /// Send by multicast to this group [port: 4712 unless given].
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_group)]
    pub group: Option<SocketAddr>,
    /// The interface multicast goes out by: a name or an address of it.
    #[arg(long, value_name = "IF")]
    pub interface: Option<Interface>,
    /// Routers that multicast may pass, plus one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub ttl: u8,
    /// Succeed when so many hosts have the object; the rest is gone on with while it gets on.
    #[arg(long, value_name = "N")]
    pub quorum: Option<usize>,
    /// Replace objects of that name (the hosts must run with --allow-overwrite).
    #[arg(short, long)]
    pub force: bool,
    /// Where digests are kept [default: $XDG_CACHE_HOME/wellspring or ~/.cache/wellspring].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    #[command(flatten)]
    pub cut: CutArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Show it all on this machine: three replicas, loss, a killed server, multicast.
///
/// Starts real server processes on loopback, fetches from three at once with loss injected in the
/// receiver's path while one server is killed half way, then puts the file to three receivers by
/// multicast, verifies every copy and prints what it took. Cleans up after itself.
#[derive(Args, Clone)]
#[command(after_help = "\
Examples:
  wellspring demo
  wellspring demo --file /srv/models/7b.bin
  wellspring demo --size 500M --loss 0.1 --json")]
pub struct DemoArgs {
    /// The file to move [default: random bytes].
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Length of the random bytes.
    #[arg(long, value_name = "SIZE", default_value = "200M", value_parser = parse_size, conflicts_with = "file")]
    pub size: u64,
    /// Part of the datagrams lost on their way to the receiver, 0 to 0.9.
    #[arg(long, value_name = "P", default_value_t = 0.05, value_parser = parse_loss)]
    pub loss: f64,
    /// Seed of the losses and the random bytes.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print the results as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Measure transfers on this machine, beside TCP, in one run.
#[derive(Args, Clone)]
#[command(after_help = "\
Examples:
  wellspring bench loopback
  wellspring bench loopback --size 1G --loss 0,0.01,0.05,0.1 --json
  wellspring bench slow-replica")]
pub struct BenchArgs {
    #[arg(value_enum)]
    pub what: BenchKind,
    /// Length of the file.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub size: u64,
    /// Loss at the receiver, 0 to 0.9; several with commas.
    #[arg(long, value_name = "P", value_delimiter = ',', default_value = "0,0.01,0.05,0.1", value_parser = parse_loss)]
    pub loss: Vec<f64>,
    /// Symbol sizes in bytes; several with commas.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [DEFAULT_SYMBOL_SIZE])]
    pub symbol_size: Vec<u16>,
    /// What is told to the receiver of the network.
    #[arg(long, value_enum, default_value_t = FabricArg::Shared)]
    pub fabric: FabricArg,
    /// Rate of a healthy replica, in `slow-replica`; the slow one has a tenth.
    #[arg(long, value_name = "RATE", default_value = "500M", value_parser = parse_rate)]
    pub rate: Rate,
    /// Seed of the losses.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print the results as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchKind {
    /// `get` from one server and from three, at several losses, beside a TCP copy.
    Loopback,
    /// One of three replicas capped to a tenth of its rate, beside two healthy ones.
    SlowReplica,
}

/// How an object is cut into symbols.
#[derive(Args, Clone)]
pub struct CutArgs {
    /// Symbol size, in bytes; with UDP and IP, headers of 100 (IPv4) or 120 bytes (IPv6) come on
    /// top [default: 1376, or less where the path's MTU asks for it].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1..=65_435), help_heading = "Transfer")]
    pub symbol_size: Option<u16>,
    /// Source symbols a block.
    #[arg(long, value_name = "K", default_value_t = DEFAULT_SYMBOLS_PER_BLOCK, value_parser = clap::value_parser!(u32).range(1..=1_024), help_heading = "Transfer")]
    pub block_symbols: u32,
    /// Symbols a sender pushes unasked, in packets.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_INITIAL_WINDOW, help_heading = "Transfer")]
    pub initial_window: u8,
}

impl CutArgs {
    pub fn to_cut(&self) -> Cut {
        Cut {
            symbol_size: self.symbol_size,
            symbols_per_block: self.block_symbols,
            initial_window: self.initial_window,
        }
    }
}

/// The network and this host's part in it.
#[derive(Args, Clone)]
pub struct NetworkArgs {
    /// The rate of this host's own link: pulls are paced to fill it.
    #[arg(long, value_name = "RATE", default_value = "10G", value_parser = parse_rate, help_heading = "Network")]
    pub link_rate: Rate,
    /// What switches do with packets they cannot hold: trim them (Linux shows trimmed packets only
    /// to who has CAP_NET_RAW); drop them, and others share the
    /// path (a congestion controller keeps the session fair to TCP); drop them, but the path is
    /// ours alone.
    #[arg(long, value_enum, default_value_t = FabricArg::Shared, help_heading = "Network")]
    pub fabric: FabricArg,
    /// Symbols in flight to one receiver from each sender, at most, in packets.
    #[arg(long, value_name = "N", default_value_t = 2_048, help_heading = "Network")]
    pub window: u32,
    /// How long a host may be silent before it counts as gone, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds, help_heading = "Network")]
    pub timeout: Duration,
    /// Test aid: lose this part of all datagrams that arrive here, 0 to 0.9.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = parse_loss, help_heading = "Test aids")]
    pub inject_loss: f64,
    /// Test aid: send no faster than this, as by a slow link.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = "Test aids")]
    pub inject_send_rate: Option<Rate>,
    /// Test aid: seed of what is injected.
    #[arg(long, value_name = "S", default_value_t = 1, help_heading = "Test aids")]
    pub seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FabricArg {
    /// Switches trim packets to their headers.
    Trimming,
    /// Switches drop, and the path is shared.
    Shared,
    /// Switches drop, and the path is ours alone.
    Dedicated,
}

impl NetworkArgs {
    /// A driver at that address, as these arguments say.
    pub fn driver(&self, bind: SocketAddr) -> DriverConfig {
        let mut config = DriverConfig::new(bind);
        let reordering_threshold = match config.scdp.fabric {
            Fabric::Shared { reordering_threshold }
            | Fabric::Dedicated { reordering_threshold, .. } => reordering_threshold,
            Fabric::Trimming => 64,
        };
        config.scdp.link_rate = self.link_rate;
        config.scdp.max_window = self.window.max(1);
        config.scdp.fabric = match self.fabric {
            FabricArg::Trimming => Fabric::Trimming,
            FabricArg::Shared => Fabric::Shared { reordering_threshold },
            FabricArg::Dedicated => {
                Fabric::Dedicated { reordering_threshold, window: self.window.max(1) }
            }
        };
        if self.fabric == FabricArg::Trimming {
            config.dscp = DscpMap::trimming();
            config.trim_taps = TrimTaps::IfAllowed;
        }
        config.faults.loss = self.inject_loss;
        config.faults.send_rate = self.inject_send_rate;
        config.faults.seed = self.seed;
        config
    }
}

/// What is reported, and how.
#[derive(Args, Clone)]
pub struct ReportArgs {
    /// Print a summary as one JSON object (to standard error if the object goes to standard
    /// output).
    #[arg(long, help_heading = "Report")]
    pub json: bool,
    /// Print progress as one JSON object a line to standard error.
    #[arg(long, help_heading = "Report")]
    pub json_progress: bool,
}

/// Hosts and the object they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub hosts: Vec<Host>,
    pub name: ObjectName,
}

impl FromStr for Location {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (hosts, name) = text.split_once('/').ok_or("write HOST/OBJECT or HOST,HOST/OBJECT")?;
        let hosts = hosts
            .split(',')
            .map(|host| host.parse().map_err(|error: wellspring_net::NotAHost| error.to_string()))
            .collect::<Result<_, _>>()?;
        let name = name.parse().map_err(|error| format!("bad object name: {error}"))?;
        Ok(Location { hosts, name })
    }
}

/// Splits `12.5M` into its number and the power of its prefix: k, M, G, T are powers of a thousand
/// and Ki, Mi, Gi, Ti of 1,024.
fn parse_scaled(text: &str, units: &[&str]) -> Result<f64, String> {
    let text = text.trim();
    let text = units.iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or(text).trim_end();
    let (text, base) = match text.strip_suffix('i') {
        Some(rest) => (rest, 1_024_f64),
        None => (text, 1_000_f64),
    };
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let power = match &text[split..] {
        "" if base == 1_000.0 => 0,
        "k" | "K" => 1,
        "M" | "m" => 2,
        "G" | "g" => 3,
        "T" | "t" => 4,
        other => return Err(format!("unknown unit `{other}`")),
    };
    let number: f64 = text[..split].trim_end().parse().map_err(|_| "no number".to_owned())?;
    let scaled = number * base.powi(power);
    if (0.0..9e18).contains(&scaled) { Ok(scaled) } else { Err("out of range".to_owned()) }
}

fn parse_size(text: &str) -> Result<u64, String> {
    let size = parse_scaled(text, &["bytes", "B"]);
    size.map(|bytes| bytes as u64)
        .map_err(|why| format!("{why}; write a size such as 500M or 2GiB"))
}

pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let rate = parse_scaled(text, &["bit/s", "bps"]).map(|bits| bits as u64);
    rate.and_then(|bits| Rate::from_bits_per_second(bits).ok_or_else(|| "zero".to_owned()))
        .map_err(|why| format!("{why}; write a rate in bits a second such as 500M or 10Gbit/s"))
}

pub fn parse_loss(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(loss) if (0.0..=0.9).contains(&loss) => Ok(loss),
        _ => Err("write a part from 0 to 0.9, such as 0.05 for 5 %".to_owned()),
    }
}

pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.2..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds from 0.2 to 86400".to_owned()),
    }
}

fn parse_group(text: &str) -> Result<SocketAddr, String> {
    let group = text
        .parse::<SocketAddr>()
        .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DEFAULT_PORT + 1)));
    match group {
        Ok(group) if group.ip().is_multicast() && group.port() != 0 => Ok(group),
        Ok(group) => Err(format!("{} is no multicast address (239.0.0.0/8, ff00::/8)", group.ip())),
        Err(_) => Err("write an address such as 239.255.47.11 or [ff02::4711]:4712".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_rates_read_as_people_write_them() {
        assert_eq!(parse_size("1234"), Ok(1_234));
        assert_eq!(parse_size("1.5GB"), Ok(1_500_000_000));
        assert_eq!(parse_size("2 GiB"), Ok(2 << 30));
        assert_eq!(parse_rate("10G"), Ok(Rate::from_mbps(10_000)));
        assert_eq!(parse_rate("100 Mbit/s"), Ok(Rate::from_mbps(100)));
        for bad in ["", "x", "5Q", "-1", "i", "5i", "1e30", "NaN"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert!(parse_rate("0").is_err());
    }

    #[test]
    fn locations_have_hosts_and_a_safe_name() {
        let location: Location = "a,[::1]:5,c:7/x/y".parse().expect("a location");
        assert_eq!(location.hosts.len(), 3);
        assert_eq!(location.name.as_str(), "x/y");
        for bad in ["a", "a/", "/x", "a,/x", "a/../x", "a//x", "a/x\\y"] {
            assert!(bad.parse::<Location>().is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_are_multicast() {
        assert_eq!(parse_group("239.1.2.3"), Ok("239.1.2.3:4712".parse().expect("address")));
        assert!(parse_group("10.0.0.1").is_err());
        assert!(parse_group("[ff02::1]:9").is_ok());
    }
}
