//! `wellspring maelstrom up`: one appliance, from its arguments to its summary.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use wellspring_appliance::{
    AggregateConfig, Appliance, CacheConfig, Config, Controls, DEFAULT_PORT, FailoverPeer, IpNet,
    SetupError, SplitConfig, Status, parse_prefix,
};
use wellspring_console::exit::{self, Failed};
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::Stdout;
use wellspring_console::units::{part, percent};
use wellspring_core::Duration;
use wellspring_maelstrom::{CongestionLoss, Limits, ReceiveConfig, SendConfig};

use super::code_args::CodeArgs;

/// How often the state is looked at.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(200);

/// Start an appliance here: hide packet loss on the link behind --wan, with its peer.
///
/// Stands on the machine that routes between the local network and the long link; another stands at
/// the other end. The kernel goes on forwarding: this only watches, sends repairs to the peer, and
/// hands packets that the peer's repairs bring back to the local network. It runs until Ctrl-C,
/// SIGTERM or `wellspring maelstrom down`; if it ends, however it ends, traffic flows on
/// unprotected. Offloads that make packets look other than they are on the wire are switched off on
/// both interfaces while it runs. The long link's MTU must exceed the local network's by 80 bytes
/// and 10 for each packet in an XOR (160 at 8,3; 20 more over IPv6).
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring maelstrom key /etc/wellspring/maelstrom.key     # once; copy it to the other end
  wellspring maelstrom up --lan eth0 --wan eth1 --peer 192.0.2.2 --key /etc/wellspring/maelstrom.key
  wellspring maelstrom up --lan eth0 --wan eth1 --peer 192.0.2.2 --key KEY --adaptive \\
      --remote 10.2.0.0/16 --metrics 127.0.0.1:9714
  # two on one router that share the load, and take over from each other:
  wellspring maelstrom up --name one ... --failover-listen 127.0.0.1:4801 --failover-peer 127.0.0.1:4802
  wellspring maelstrom up --name two ... --failover-listen 127.0.0.1:4802 --failover-peer 127.0.0.1:4801")]
pub struct UpArgs {
    /// Interface of the local network.
    #[arg(long, value_name = "IF")]
    lan: String,
    /// Interface of the long link.
    #[arg(long, value_name = "IF")]
    wan: String,
    /// The other appliance: an address, or ADDR:PORT for another port than 4714 (both ends the
    /// same).
    #[arg(long, value_name = "ADDR", value_parser = parse_peer)]
    peer: SocketAddr,
    /// File with the secret that both ends share; nobody else may be allowed to read it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Addresses behind the other appliance, such as 10.2.0.0/16; may be given several times.
    /// [default: everything that is routed over --wan]
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix)]
    remote: Vec<IpNet>,
    #[command(flatten)]
    code: CodeArgs,
    /// Choose rate and interleaves by the loss that the peer measures, and follow it.
    #[arg(long, conflicts_with_all = ["rate", "interleave", "delayed"])]
    adaptive: bool,
    /// With --adaptive: repairs for each packet, at most.
    #[arg(long, value_name = "PART", default_value_t = 0.5, requires = "adaptive", value_parser = parse_overhead)]
    max_overhead: f64,
    /// With --adaptive: the longest burst to protect against, in packets.
    #[arg(long, value_name = "PACKETS", default_value_t = 67, requires = "adaptive",
          value_parser = clap::value_parser!(u16).range(2..=4096))]
    max_interleave: u16,
    /// Packets remembered to recover others with [default: 1024, or what the interleaves ask for].
    #[arg(long, value_name = "PACKETS")]
    packets: Option<usize>,
    /// Memory of the ring that each partition watches packets through, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    ring: u16,
    /// Milliseconds without a packet after which what the first layer has begun is sent.
    #[arg(long, value_name = "MS", default_value_t = 5)]
    flush: u64,
    /// Milliseconds that a recovered packet is held, unless it is TCP's: one that its repair has only
    /// overtaken comes meanwhile, and does not arrive twice.
    #[arg(long, value_name = "MS", default_value_t = 1.0, value_parser = parse_hold)]
    hold: f64,
    /// Start although packets of the local network can be too long to be protected.
    #[arg(long)]
    allow_unprotected: bool,
    /// Who the hosts' connections end at: the hosts (end-to-end), or the appliances, which answer at
    /// once and relay over connections of their own (split). Split mode needs --remote, nft and ip,
    /// and both ends in that mode; TCP port 4714 must pass between them.
    #[arg(long, value_enum, default_value_t = Mode::EndToEnd)]
    mode: Mode,
    /// In split mode: connections at a time; further ones pass end to end.
    #[arg(long, value_name = "N", default_value_t = 4_096,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    split_connections: u32,
    /// In split mode: MiB that the kernel may hold of each relayed connection and direction.
    #[arg(long, value_name = "MIB", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    split_buffer: u16,
    /// Keep datagrams that arrive for local hosts, in at most so many MiB: a host that lost one itself
    /// asks for it here, and not its sender (see `wellspring maelstrom ask`).
    #[arg(long, value_name = "MIB", requires = "cache_at", value_parser = clap::value_parser!(u16).range(1..))]
    cache: Option<u16>,
    /// With --cache: the address of the local network where hosts ask.
    #[arg(long, value_name = "ADDR:PORT", requires = "cache")]
    cache_at: Option<SocketAddr>,
    /// With --cache: milliseconds for which datagrams are kept.
    #[arg(long, value_name = "MS", default_value_t = 2_000, requires = "cache",
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    cache_age: u64,
    /// Carry UDP packets of at most so many bytes, headers too, to the other site together, in
    /// datagrams of the appliances (UDP port 4713): fewer packets on the long link. Needs --remote,
    /// nft and ip, and the same at the other end.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(28..=1_000))]
    aggregate: Option<u16>,
    /// With --aggregate: microseconds that a packet waits for others.
    #[arg(long, value_name = "US", default_value_t = 500, requires = "aggregate",
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    aggregate_hold: u64,
    /// Carry UDP to this multicast group to the other site (UDP port 4713), which gives the same
    /// group; may be given several times.
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    multicast: Vec<IpAddr>,
    /// Threads that share the load, each with its part of the addresses on both sides; the same
    /// number at all appliances of both sites, each with a UDP port from 4714 on [default: 1, or 2
    /// with --failover-peer].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    partitions: Option<u8>,
    /// Share the partitions with another appliance of this site that sees the same packets: where it
    /// hears hellos. When it is silent, this one protects its partitions too.
    #[arg(long, value_name = "ADDR:PORT", requires = "failover_listen")]
    failover_peer: Option<SocketAddr>,
    /// With --failover-peer: where this one hears hellos.
    #[arg(long, value_name = "ADDR:PORT", requires = "failover_peer")]
    failover_listen: Option<SocketAddr>,
    /// With --failover-peer: milliseconds without a hello after which its partitions are taken.
    #[arg(long, value_name = "MS", default_value_t = 1_000, requires = "failover_peer",
          value_parser = clap::value_parser!(u64).range(50..=3_600_000))]
    failover_silence: u64,
    /// The address that the other site's --peer names, if this machine only forwards to it.
    #[arg(long, value_name = "ADDR")]
    site_address: Option<IpAddr>,
    /// Answer Prometheus at this address, under /metrics.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    instance: InstanceArgs,
}

/// Which appliance of this machine.
#[derive(Args, Clone, Debug)]
struct InstanceArgs {
    /// What the appliance is called, where several run [default: the interface of the long link].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Folder of control sockets.
    #[arg(long, value_name = "DIR", default_value = "/run/wellspring/maelstrom")]
    run_dir: PathBuf,
}

impl InstanceArgs {
    fn name(&self, wan: &str) -> String {
        self.name.clone().unwrap_or_else(|| wan.to_owned())
    }
}

/// Who connections end at (§4.2).
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
enum Mode {
    EndToEnd,
    Split,
}

pub async fn run(args: &UpArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let config = config(args)?;
    let controls = Controls::new();
    let metrics = args.metrics.map(|at| controls.serve_metrics(at)).transpose();
    let metrics =
        metrics.map_err(|error| Failed::other(format!("cannot serve metrics: {error}")))?;
    let appliance = Appliance::new(config, controls.clone()).map_err(|error| of_setup(&error))?;
    if !quiet {
        let at = metrics.map(|at| format!(", metrics at http://{at}/metrics")).unwrap_or_default();
        // An appliance goes on working when nobody reads its output.
        let _ = writeln!(
            Stdout,
            "{}: protecting packets of up to {} bytes between {} and {}{at}",
            args.instance.name(&args.wan),
            appliance.longest(),
            args.wan,
            args.peer
        );
    }
    let stop = Arc::clone(&controls.stop);
    let mut work = tokio::task::spawn_blocking(move || appliance.run());
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut shown = None;
    let ended = loop {
        tokio::select! {
            ended = &mut work => break ended,
            () = interrupt.wait() => {
                stop.store(true, Ordering::Relaxed);
                break work.await;
            }
            _ = look.tick(), if !quiet => {
                let state = controls.status().and_then(|status| state(&status));
                if state.is_some() && state != shown {
                    let name = args.instance.name(&args.wan);
                    let _ = writeln!(Stdout, "{name}: {}", state.as_deref().unwrap_or_default());
                    shown = state;
                }
            }
        }
    };
    let status = ended.map_err(|error| Failed::other(error.to_string()))?;
    if !quiet {
        writeln!(Stdout, "{}", summary(&status))?;
    }
    Ok(())
}

/// Whether the peer is there, and what is wrong; none as long as neither is known.
fn state(status: &Status) -> Option<String> {
    let causes: Vec<&str> = status.sum.causes.iter().map(|cause| cause.text()).collect();
    if !causes.is_empty() {
        return Some(causes.join("; "));
    }
    status.peer_alive().then(|| "the peer is heard: protecting".to_owned())
}

fn config(args: &UpArgs) -> Result<Config, Failed> {
    let parameters = args.code.parameters()?;
    let limits = args.adaptive.then(|| Limits {
        overhead: args.max_overhead,
        interleave: args.max_interleave,
        ..Limits::default()
    });
    let reach = match &limits {
        // The peer's limits are its own; reckon with ones like these, and delayed repairs.
        Some(limits) => usize::from(limits.interleave) * (usize::from(limits.rate) + 1),
        None => parameters.reach(),
    };
    let receive = ReceiveConfig::default();
    let packets = args.packets.unwrap_or(receive.packets.max(2 * reach));
    Ok(Config {
        lan: args.lan.clone(),
        wan: args.wan.clone(),
        peer: args.peer,
        key: wellspring_appliance::read_key(&args.key).map_err(|error| of_setup(&error))?,
        remote: args.remote.clone(),
        send: SendConfig {
            parameters,
            adaptive: limits,
            longest: 0,
            flush_after: Duration::from_millis(args.flush),
        },
        receive: ReceiveConfig {
            packets,
            hold: Duration::from_nanos((args.hold * 1e6) as u64),
            // A fixed code is the paper's.
            congestion: match limits {
                Some(_) => CongestionLoss::Signal,
                None => CongestionLoss::Recover,
            },
            ..receive
        },
        allow_unprotected: args.allow_unprotected,
        ring: usize::from(args.ring) << 20,
        partitions: args.partitions.unwrap_or(if args.failover_peer.is_some() { 2 } else { 1 }),
        failover: args.failover_peer.zip(args.failover_listen).map(|(peer, listen)| FailoverPeer {
            listen,
            peer,
            silence: std::time::Duration::from_millis(args.failover_silence),
        }),
        site: args.site_address,
        aggregate: args.aggregate.map(|longest| AggregateConfig {
            longest,
            hold: std::time::Duration::from_micros(args.aggregate_hold),
        }),
        multicast: args.multicast.clone(),
        cache: args.cache.zip(args.cache_at).map(|(mebibytes, at)| CacheConfig {
            bytes: usize::from(mebibytes) << 20,
            age: std::time::Duration::from_millis(args.cache_age),
            at,
        }),
        split: (args.mode == Mode::Split).then_some(SplitConfig {
            connections: args.split_connections as usize,
            buffer: usize::from(args.split_buffer) << 20,
        }),
        run_dir: args.instance.run_dir.clone(),
        name: args.instance.name(&args.wan),
    })
}

/// What was done, in a line.
pub fn summary(status: &Status) -> String {
    let (sent, repairs) = (status.sum.send.packets, status.sum.send.repairs);
    let lost = status.sum.arriving.lost;
    format!(
        "sent {sent} packets and {repairs} repairs; the link lost {lost} of {} ({}), {} were \
         brought back",
        status.sum.arriving.packets,
        percent(part(lost, status.sum.arriving.packets)),
        status.sum.recovered(),
    )
}

fn parse_peer(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DEFAULT_PORT)))
        .map_err(|_| {
            "write an address such as 192.0.2.2, 192.0.2.2:4714 or [2001:db8::2]:4714".into()
        })
}

fn parse_overhead(text: &str) -> Result<f64, String> {
    let overhead: Option<f64> = text.parse().ok();
    // No code of those that are tried has less than a repair for twelve packets, or more than four for one.
    overhead
        .filter(|overhead| (0.05..=4.0).contains(overhead))
        .ok_or_else(|| "write repairs for each packet from 0.05 to 4, such as 0.5".into())
}

fn parse_hold(text: &str) -> Result<f64, String> {
    let hold: Option<f64> = text.parse().ok();
    hold.filter(|hold| (0.0..=1_000.0).contains(hold))
        .ok_or_else(|| "write milliseconds from 0 to 1000".into())
}

fn parse_group(text: &str) -> Result<IpAddr, String> {
    let group: Option<IpAddr> = text.parse().ok();
    group
        .filter(IpAddr::is_multicast)
        .ok_or_else(|| "write a multicast group such as 239.1.2.3 or ff05::123".into())
}

fn of_setup(error: &SetupError) -> Failed {
    let status = match error {
        SetupError::System(..)
        | SetupError::NotAllowed(_)
        | SetupError::SplitRules(_)
        | SetupError::AggregateRules(_) => exit::OTHER,
        _ => exit::USAGE,
    };
    Failed::new(status, error.to_string())
}
