//! Arguments that all transfers share: the object, how it is cut, the network, the report.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use wellspring_client::{Cut, DEFAULT_INITIAL_WINDOW, Host, Priority};
use wellspring_console::exit::Failed;
use wellspring_console::units::{parse_loss, parse_rate, parse_seconds, parse_size};
use wellspring_core::Rate;
use wellspring_net::driver::{DriverConfig, DscpMap, TrimTaps};
use wellspring_net::store::ObjectName;
use wellspring_server::LONGEST_WAIT;
use wellspring_transport::congestion::Algorithm;
use wellspring_transport::scdp::Fabric;

/// Source symbols of SCDP's blocks, at most.
const MAX_SYMBOLS_PER_BLOCK: u32 = 1_024;

/// How an object is cut into symbols.
#[derive(Args, Clone)]
pub struct CutArgs {
    /// Symbol size, in bytes; with UDP and IP, headers of 100 (IPv4) or 120 bytes (IPv6) come on
    /// top, by LTTP 64 or 84 [default: 1376, by LTTP 1408, or less where the path's MTU asks for it;
    /// 8192 where all paths carry it, by loopback and jumbo frames].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1..=65_435), help_heading = "Transfer")]
    pub symbol_size: Option<u16>,
    /// Source symbols a block, up to 1024, by LTTP up to 4096 [default: 100, by LTTP 1024].
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=4_096), help_heading = "Transfer")]
    pub block_symbols: Option<u32>,
    /// Symbols that a sender sends before the first pull.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_INITIAL_WINDOW, help_heading = "Transfer")]
    pub initial_window: u8,
}

impl CutArgs {
    /// How an object is cut, whatever the protocol.
    pub fn to_cut(&self) -> Cut {
        let cut = Cut::default().symbol_size(self.symbol_size);
        cut.symbols_per_block(self.block_symbols).initial_window(self.initial_window)
    }

    /// Refuses symbols and blocks of a protocol that has none.
    ///
    /// # Errors
    /// One of them was given.
    pub fn check_none(&self, protocol: &str) -> Result<(), Failed> {
        let flag = match (self.symbol_size, self.block_symbols) {
            (Some(_), _) => "--symbol-size",
            (_, Some(_)) => "--block-symbols",
            _ => return Ok(()),
        };
        Err(Failed::usage(format!("{flag}: {protocol} has no code, so no symbols and no blocks")))
    }

    /// How SCDP cuts an object.
    ///
    /// # Errors
    /// Blocks longer than SCDP's.
    pub fn for_scdp(&self) -> Result<Cut, Failed> {
        match self.block_symbols {
            Some(symbols) if symbols > MAX_SYMBOLS_PER_BLOCK => {
                let limit = MAX_SYMBOLS_PER_BLOCK;
                let text = format!("--block-symbols {symbols}: SCDP's blocks have up to {limit}");
                Err(Failed::usage(text))
            }
            _ => Ok(self.to_cut()),
        }
    }
}

/// The network and this host's part in it.
#[derive(Args, Clone)]
pub struct NetworkArgs {
    /// Rate of this host's link; pulls are paced to fill it.
    #[arg(long, value_name = "RATE", default_value = "10G", value_parser = parse_rate, help_heading = "Network")]
    pub link_rate: Rate,
    /// What switches do with packets when a queue is full.
    #[arg(long, value_enum, default_value_t = FabricArg::Shared, help_heading = "Network")]
    pub fabric: FabricArg,
    /// Congestion control of what is received on a shared path. `veno` is CUBIC that takes losses for congestion
    /// only while the queue is long [default: veno for SCDP, TFRC (RFC 5348) for LTTP].
    #[arg(long, value_name = "NAME", value_parser = parse_congestion(), help_heading = "Network")]
    pub congestion: Option<Algorithm>,
    /// Symbols in flight from one sender to one receiver, at most; four bandwidth-delay products where a shared path
    /// holds more.
    #[arg(long, value_name = "N", default_value_t = 2_048, help_heading = "Network")]
    pub window: u32,
    /// Symbols sent in a row, and credits of one pull, at most.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Network")]
    pub burst: u16,
    /// Ports of `get` and `put` by SCDP, or those that a client of `serve` may use: routers that choose among
    /// equal-cost paths by addresses and ports spread them over the paths, and a path that loses or is dead carries
    /// less. Together they take about one flow's share of a link that they have in common. Each further address of a
    /// server (`serve --also-at`, or hosts of a `get` that are one server) has as many; `--paths 1` uses none [default:
    /// 1 an address for `get` and `put`, since one port fills one path; 16 in all for `serve`].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64), help_heading = "Network")]
    pub paths: Option<u8>,
    /// DSCP of pulls and messages, which are to overtake symbols [default: 48 with --fabric trimming, else 0].
    #[arg(long, value_name = "DSCP", value_parser = clap::value_parser!(u8).range(0..64), help_heading = "Network")]
    pub dscp_control: Option<u8>,
    /// DSCPs of symbols by priority class, highest first; the last stands for all lower classes [default:
    /// 40,32,24,16,8 with --fabric trimming (class selectors, which switches put into queues of their own), else 0].
    #[arg(long, value_name = "DSCP,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..64), help_heading = "Network")]
    pub dscp_symbols: Vec<u8>,
    /// Bytes after which the symbols of a session fall into the next lower priority class, ascending.
    #[arg(long, value_name = "SIZE,...", default_value = "10k,100k,1M,10M", value_parser = parse_thresholds, help_heading = "Network")]
    pub demote_at: Thresholds,
    /// How long a host may be silent before it counts as gone, in seconds, up to 600. A server keeps the session of a
    /// `get` or `put`, by whatever protocol, for as long as that client's --timeout says; its own is for clients that
    /// have not said what they want.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_timeout, help_heading = "Network")]
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

/// Parses how long a host may be silent: no longer than servers wait.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    let time = parse_seconds(text).ok().filter(|time| *time <= LONGEST_WAIT);
    let most = LONGEST_WAIT.as_secs();
    time.ok_or_else(|| format!("write seconds from 0.2 to {most}: no server waits longer"))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FabricArg {
    /// Trim them to their headers. Seeing trimmed packets needs CAP_NET_RAW on Linux.
    Trimming,
    /// Drop them. Other traffic shares the path, and a congestion controller runs.
    Shared,
    /// Drop them. No other traffic uses the path, and the window is fixed.
    Dedicated,
}

/// Whether a transfer gives way to others. All transfers of a command have one priority, so none is before the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PriorityArg {
    /// As all transfers that say nothing.
    Normal,
    /// Behind all others.
    Background,
}

impl From<PriorityArg> for Priority {
    fn from(priority: PriorityArg) -> Self {
        Priority::background_if(priority == PriorityArg::Background)
    }
}

/// Sizes at which symbols fall into the next priority class \[bytes\].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds(pub Vec<u64>);

/// Priority classes below the highest, at most: with that and the control packets a port has eight queues.
const MAX_THRESHOLDS: usize = 6;

fn parse_thresholds(text: &str) -> Result<Thresholds, String> {
    let sizes = text.split(',').map(parse_size).collect::<Result<Vec<_>, _>>()?;
    if sizes.len() > MAX_THRESHOLDS {
        return Err(format!("{} sizes, but at most {MAX_THRESHOLDS}", sizes.len()));
    }
    if !sizes.is_sorted_by(|one, next| one < next) {
        return Err("the sizes must ascend".to_owned());
    }
    Ok(Thresholds(sizes))
}

/// The names of congestion controllers.
fn parse_congestion() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::ALL.map(Algorithm::as_str))
        .try_map(|name| name.parse::<Algorithm>())
}

impl NetworkArgs {
    /// As [`driver`](Self::driver), for a host whose clients may use several paths.
    pub fn server_driver(&self, bind: SocketAddr) -> DriverConfig {
        let mut config = self.driver(bind).ports(1);
        config.scdp.paths = self.paths.map_or(wellspring_server::MAX_PATHS, u16::from);
        config
    }

    /// Further addresses of a server that a transfer uses: none if it is to have one path.
    pub fn further_addresses(&self) -> u8 {
        if self.paths == Some(1) { 0 } else { wellspring_client::MAX_FURTHER_ADDRESSES }
    }

    /// Refuses paths with a protocol that has one.
    ///
    /// # Errors
    /// Several paths are asked for.
    pub fn check_one_path(&self, protocol: &str) -> Result<(), Failed> {
        match self.paths {
            Some(paths) if paths > 1 => {
                let text =
                    format!("--paths {paths}: {protocol} has one path; unicast SCDP has more");
                Err(Failed::usage(text))
            }
            _ => Ok(()),
        }
    }

    /// A driver at that address, as these arguments say.
    pub fn driver(&self, bind: SocketAddr) -> DriverConfig {
        let mut config = DriverConfig::new(bind);
        let reordering_threshold = match config.scdp.fabric {
            Fabric::Shared { reordering_threshold }
            | Fabric::Dedicated { reordering_threshold, .. } => reordering_threshold,
            Fabric::Trimming => 64,
        };
        config.scdp.link_rate = self.link_rate;
        config.ndp.link_rate = self.link_rate;
        config.scdp.max_window = self.window.max(1);
        config.scdp.congestion = self.congestion.unwrap_or_default();
        config.lttp.congestion = self.congestion;
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
        config.ports = self.paths.unwrap_or(1);
        config.scdp.burst = self.burst;
        config.scdp.demotion_thresholds = self.demote_at.0.clone();
        if let Some(control) = self.dscp_control {
            (config.dscp.control, config.dscp.messages) = (control, control);
        }
        if !self.dscp_symbols.is_empty() {
            config.dscp.symbols = self.dscp_symbols.clone();
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
    /// Print the summary as a JSON object (to standard error if the object goes to standard output).
    #[arg(long, help_heading = "Report")]
    pub json: bool,
    /// Print progress to standard error as JSON objects, one a line.
    #[arg(long, help_heading = "Report")]
    pub json_progress: bool,
    /// Show the transfer on the whole terminal: rate, share, loss and state of each host, the blocks that were decoded,
    /// and what is waited for.
    #[arg(long, conflicts_with = "json_progress", help_heading = "Report")]
    pub ui: bool,
}

/// Hosts and the directory that they serve, or one below it: `HOST,HOST/DIR/`, `HOST/` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeLocation {
    pub hosts: Vec<Host>,
    /// Absent for all that is served.
    pub directory: Option<ObjectName>,
}

impl FromStr for TreeLocation {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let text = without_scheme(text);
        let (hosts, directory) = text.split_once('/').unwrap_or((text, ""));
        let name = |text: &str| {
            let name = text.strip_suffix('/').unwrap_or(text);
            name.parse().map_err(|error| format!("bad name of a directory: {error}"))
        };
        let directory = match directory {
            "" => None,
            text => Some(name(text)?),
        };
        Ok(TreeLocation { hosts: parse_hosts(hosts)?, directory })
    }
}

/// What is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Object(Location),
    Tree(TreeLocation),
}

impl FromStr for Source {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.ends_with('/') {
            true => text.parse().map(Source::Tree),
            false => text.parse().map(Source::Object),
        }
    }
}

/// A place as Python's URLs name it, too: `wellspring://HOST/OBJECT`.
pub fn without_scheme(text: &str) -> &str {
    text.strip_prefix("wellspring://").unwrap_or(text)
}

/// Hosts for people.
pub fn list(hosts: &[Host]) -> String {
    hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(", ")
}

fn parse_hosts(hosts: &str) -> Result<Vec<Host>, String> {
    let host =
        |host: &str| host.parse().map_err(|error: wellspring_client::NotAHost| error.to_string());
    hosts.split(',').map(host).collect()
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
        let (hosts, name) = without_scheme(text)
            .split_once('/')
            .ok_or("write HOST/OBJECT or HOST,HOST/OBJECT, or HOST/DIR/ for a directory")?;
        let hosts = parse_hosts(hosts)?;
        let name = name.parse().map_err(|error| format!("bad object name: {error}"))?;
        Ok(Location { hosts, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Network {
        #[command(flatten)]
        network: NetworkArgs,
    }

    fn driver(args: &[&str]) -> Result<DriverConfig, clap::Error> {
        let any = SocketAddr::from(([0; 4], 0));
        let args = ["network"].iter().chain(args);
        Network::try_parse_from(args).map(|parsed| parsed.network.driver(any))
    }

    #[test]
    fn lttp_has_a_congestion_controller_if_one_is_asked_for() {
        let chosen = |args: &[&str]| {
            let config = driver(args).expect("arguments");
            (config.scdp.congestion, config.lttp.congestion)
        };
        assert_eq!(chosen(&[]), (Algorithm::Veno, None));
        assert_eq!(chosen(&["--congestion", "bbr"]), (Algorithm::Bbr, Some(Algorithm::Bbr)));
    }

    #[test]
    fn priorities_are_class_selectors_where_switches_trim_and_can_be_chosen() {
        let shared = driver(&[]).expect("the defaults");
        assert_eq!((shared.dscp.control, shared.dscp.of_symbol(3)), (0, 0));
        let trimming = driver(&["--fabric", "trimming"]).expect("a fabric");
        let dscps: Vec<u8> = (1..=6).map(|class| trimming.dscp.of_symbol(class)).collect();
        assert_eq!(dscps, [40, 32, 24, 16, 8, 8]);
        // Switches as sold choose the queue by the three highest bits.
        assert!(dscps[..5].is_sorted_by(|one, next| one >> 3 > next >> 3));
        assert_eq!(trimming.scdp.demotion_thresholds, [10_000, 100_000, 1_000_000, 10_000_000]);
        let chosen = ["--dscp-control", "46", "--dscp-symbols", "34,26", "--demote-at", "5k,2M"];
        let chosen = driver(&[&chosen[..], &["--burst", "8"]].concat()).expect("all settable");
        assert_eq!((chosen.dscp.control, chosen.dscp.messages, chosen.scdp.burst), (46, 46, 8));
        assert_eq!((chosen.dscp.of_symbol(1), chosen.dscp.of_symbol(9)), (34, 26));
        assert_eq!(chosen.scdp.demotion_thresholds, [5_000, 2_000_000]);
        for wrong in [
            ["--demote-at", "2M,5k"],
            ["--demote-at", "1,2,3,4,5,6,7"],
            ["--dscp-symbols", "64"],
            ["--burst", "0"],
        ] {
            assert!(driver(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_slash_at_the_end_means_a_directory() {
        let tree = |text: &str| match text.parse() {
            Ok(Source::Tree(tree)) => tree.directory.map(|d| d.to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!(tree("a,b:5/x/y/"), Some("x/y".to_owned()));
        assert_eq!(tree("a/"), None);
        assert!(matches!("a/x".parse(), Ok(Source::Object(_))));
        assert_eq!(tree("wellspring://a/x/"), Some("x".to_owned()));
        for bad in ["a", "a//", "a/../", "a/x//", "/x/", "wellspring://a", "http://a/x"] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }

    #[test]
    fn locations_have_hosts_and_a_safe_name() {
        let location: Location = "a,[::1]:5,c:7/x/y".parse().expect("a location");
        assert_eq!("wellspring://a,[::1]:5,c:7/x/y".parse(), Ok(location.clone()));
        assert_eq!(location.hosts.len(), 3);
        assert_eq!(location.name.as_str(), "x/y");
        for bad in ["a", "a/", "/x", "a,/x", "a/../x", "a//x", "a/x\\y"] {
            assert!(bad.parse::<Location>().is_err(), "{bad}");
        }
    }
}
