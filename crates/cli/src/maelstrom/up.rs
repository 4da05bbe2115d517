//! `wellspring maelstrom up`: one appliance, from its arguments to its summary.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use wellspring_appliance::{
    AggregateConfig, Appliance, CacheConfig, Config, Controls, DEFAULT_PORT, FailoverPeers, IpNet,
    SetupError, SplitConfig, Status, parse_prefix,
};
use wellspring_codec::interleave::MAX_WINDOW;
use wellspring_console::exit::{self, Failed};
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::Stdout;
use wellspring_console::units::{part, percent};
use wellspring_core::Duration;
use wellspring_maelstrom::{CongestionLoss, Family, Limits, ReceiveConfig, SendConfig};

use super::code_args::CodeArgs;
use crate::config::Line;

/// How often the state is looked at.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(200);

/// Start an appliance: repair packet loss on the link behind --wan, together with a peer.
///
/// Run it on the machine that routes between the local network and the long link, and run its peer
/// at the other end. The kernel still forwards all packets. The appliance observes them, sends repairs
/// to the peer, and injects packets recovered from the peer's repairs into the local network. It runs
/// until Ctrl-C, SIGTERM or `wellspring maelstrom down`. When it ends for any reason, traffic
/// continues unprotected. While it runs, offloads that change packets from their form on the wire are
/// off on both interfaces. Repairs are longer than packets, by
/// 80 bytes and 10 for each packet in an XOR (160 for --rate 8,3; 20 more over IPv6). Where the MTU of the long
/// link leaves no room for that, TCP's segments between the sites are clamped (by nft) while it runs.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring maelstrom key /etc/wellspring/maelstrom.key     # once; copy it to the other end
  wellspring maelstrom up --lan eth0 --wan eth1 --peer 192.0.2.2 --key /etc/wellspring/maelstrom.key
  wellspring maelstrom up --lan eth0 --wan eth1 --peer 192.0.2.2 --key KEY \\
      --remote 10.2.0.0/16 --metrics 127.0.0.1:9714
  # two appliances on one router that share the load, with failover (more: --failover-peer once for each other):
  wellspring maelstrom up --name one ... --failover-listen 127.0.0.1:4801 --failover-peer 127.0.0.1:4802
  wellspring maelstrom up --name two ... --failover-listen 127.0.0.1:4802 --failover-peer 127.0.0.1:4801")]
pub struct UpArgs {
    #[command(flatten)]
    line: Line,
    /// Interface of the local network.
    #[arg(long, value_name = "IF")]
    lan: String,
    /// Interface of the long link.
    #[arg(long, value_name = "IF")]
    wan: String,
    /// The other appliance: an address, or ADDR:PORT for a port other than 4714 (the same at both
    /// ends). When its authenticated datagrams come from another address or port, as from behind NAT, repairs
    /// go there. `any` (or `any:PORT`, `[::]:PORT` for IPv6) waits for a peer whose address is not known.
    #[arg(long, value_name = "ADDR", value_parser = parse_peer)]
    peer: SocketAddr,
    /// File with the secret that both ends share; only its owner may have read permission.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Encrypt what the appliances send to each other: repairs, reports, trunks of split mode, bundles. Needs the same
    /// option at the other end. Packets of hosts pass the link as they are.
    #[arg(long)]
    encrypt: bool,
    /// Addresses behind the other appliance, such as 10.2.0.0/16; may be given several times
    /// [default: all addresses that are routed over --wan].
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix)]
    remote: Vec<IpNet>,
    #[command(flatten)]
    code: CodeArgs,
    /// Use the paper's code, (8,3) with interleaves 1, 20 and 40, all the time. Recovers what queues drop, too.
    #[arg(long, conflicts_with_all = ["code", "rate", "interleave", "delayed", "adaptive"])]
    paper: bool,
    /// Adapt the code to the loss that the peer measures, and turn it off while nothing is lost [default unless
    /// --paper, --rate, --interleave or --delayed is given].
    #[arg(long, conflicts_with_all = ["rate", "interleave", "delayed"])]
    adaptive: bool,
    /// Of a code that adapts: the maximum number of repairs per packet.
    #[arg(long, value_name = "PART", default_value_t = 0.5, value_parser = parse_overhead,
          conflicts_with_all = ["paper", "rate", "interleave", "delayed"])]
    max_overhead: f64,
    /// Of a code that adapts: the longest burst to protect against, in packets.
    #[arg(long, value_name = "PACKETS", default_value_t = 67,
          conflicts_with_all = ["paper", "rate", "interleave", "delayed"],
          value_parser = clap::value_parser!(u16).range(2..=4096))]
    max_interleave: u16,
    /// Packets stored to recover others [default: 1024, or as many as the interleaves require].
    #[arg(long, value_name = "PACKETS")]
    packets: Option<usize>,
    /// Size of the capture ring of each partition, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    ring: u16,
    /// Milliseconds without a packet after which incomplete repairs of the first layer are sent.
    #[arg(long, value_name = "MS", default_value_t = 5)]
    flush: u64,
    /// Milliseconds that packets wait in a repair of the near layers for others that fill it; in the far layers
    /// four times as long. What is not full by then is sent as it is [default: a fifth of the round trip where the
    /// code adapts, and no such deadline otherwise].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    repair_within: Option<u64>,
    /// Milliseconds for which a recovered packet is held, unless it is TCP's. If the packet was only
    /// overtaken by its repair, it arrives in this time and is not delivered twice.
    #[arg(long, value_name = "MS", default_value_t = 1.0, value_parser = parse_hold)]
    hold: f64,
    /// Leave TCP's time stamps as they are in all packets that are brought back. Where the code adapts, one that comes
    /// after a retransmission of its connection gets that one's time stamp: with its own, the receiver refuses it.
    #[arg(long)]
    keep_time_stamps: bool,
    /// Longest packet that the path to the peer takes, in bytes, if that is less than the MTU of --wan, as on paths of the
    /// Internet through tunnels.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..))]
    path_mtu: Option<u16>,
    /// Start even if packets of the local network can be too long to be protected, and do not clamp TCP's
    /// segments.
    #[arg(long)]
    allow_unprotected: bool,
    /// Endpoints of TCP connections: the hosts (end-to-end), or the appliances (split), which answer at
    /// once and relay over their own connections. Split mode needs --remote, nft and ip, and the same
    /// mode at both ends; firewalls must accept TCP port 4714 between them.
    #[arg(long, value_enum, default_value_t = Mode::EndToEnd)]
    mode: Mode,
    /// With --mode split: the maximum number of connections; further ones are end to end.
    #[arg(long, value_name = "N", default_value_t = 4_096,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    split_connections: u32,
    /// With --mode split: kernel buffer of each relayed connection and direction, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    split_buffer: u16,
    /// Cache datagrams that arrive for local hosts, in at most this many MiB. A host that lost one can
    /// request it here instead of from its sender (see `wellspring maelstrom ask`).
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..))]
    cache: Option<u16>,
    /// With --cache: the local address for requests of hosts.
    #[arg(long, value_name = "ADDR:PORT")]
    cache_at: Option<SocketAddr>,
    /// With --cache: milliseconds for which datagrams are kept.
    #[arg(long, value_name = "MS", default_value_t = 2_000,
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    cache_age: u64,
    /// Aggregate UDP packets of at most this many bytes, including headers, in datagrams between the
    /// appliances (UDP port 4713), so that the long link carries fewer packets. Needs --remote, nft
    /// and ip, and the same option at the other end. A datagram must hold them: 82 bytes less than the longest
    /// protected packet (102 over IPv6).
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(28..=1_000))]
    aggregate: Option<u16>,
    /// With --aggregate: microseconds that a packet waits for others.
    #[arg(long, value_name = "US", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    aggregate_hold: u64,
    /// Carry UDP packets of this multicast group to the other site (UDP port 4713), which must have the
    /// same option; may be given several times.
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    multicast: Vec<IpAddr>,
    /// Number of threads that share the load, each with a part of the addresses on both sides. The
    /// number must be the same at all appliances of both sites. Each thread has a UDP port from 4714 on.
    /// Load moves between appliances of a site by whole partitions: give some for each
    /// [default: 1, or one for each appliance of this site].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    partitions: Option<u8>,
    /// Share the partitions with another appliance of this site that sees the same packets. This is
    /// its address for hellos; may be given several times, once for each other. When one is silent, the others
    /// protect its partitions too.
    #[arg(long, value_name = "ADDR:PORT")]
    failover_peer: Vec<SocketAddr>,
    /// With --failover-peer: the address at which this appliance receives hellos.
    #[arg(long, value_name = "ADDR:PORT")]
    failover_listen: Option<SocketAddr>,
    /// With --failover-peer: milliseconds without a hello after which an appliance's partitions are taken
    /// over.
    #[arg(long, value_name = "MS", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(50..=3_600_000))]
    failover_silence: u64,
    /// With --failover-peer: seconds between two moves of a partition from the appliance with the most packets to the
    /// one with the fewest; 0 moves none.
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(0..=86_400))]
    failover_balance: u64,
    /// The address that the other site's --peer names, if this machine only forwards to it.
    #[arg(long, value_name = "ADDR")]
    site_address: Option<IpAddr>,
    /// Serve Prometheus metrics at this address, under /metrics.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    instance: InstanceArgs,
}

/// Which appliance of this machine.
#[derive(Args, Clone, Debug)]
struct InstanceArgs {
    /// Name of the appliance [default: the interface of the long link].
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

/// Endpoints of TCP connections (§4.2).
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
            "{}: protecting packets of up to {} bytes{} between {} and {}{at}",
            args.instance.name(&args.wan),
            appliance.longest(),
            if appliance.clamps() { ", to which TCP's segments are clamped," } else { "" },
            args.wan,
            if args.peer.ip().is_unspecified() {
                "a peer yet unknown".into()
            } else {
                args.peer.to_string()
            }
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

/// Refuses options that say nothing without another one.
fn check_needs(args: &UpArgs) -> Result<(), Failed> {
    let (cache, peer) = (args.cache.is_some(), !args.failover_peer.is_empty());
    // These ask for a service: wherever they are set, an appliance without it is not what was meant.
    for (option, needed, is_missing) in [
        ("--cache", "--cache-at", cache && args.cache_at.is_none()),
        ("--failover-peer", "--failover-listen", peer && args.failover_listen.is_none()),
    ] {
        if is_missing {
            return Err(Failed::usage(format!("{option} needs {needed}")));
        }
    }
    let split = args.mode == Mode::Split;
    args.line.check_needs(&[
        ("split_connections", "mode split", split),
        ("split_buffer", "mode split", split),
        ("cache_at", "cache", cache),
        ("cache_age", "cache", cache),
        ("aggregate_hold", "aggregate", args.aggregate.is_some()),
        ("failover_listen", "failover_peer", peer),
        ("failover_silence", "failover_peer", peer),
        ("failover_balance", "failover_peer", peer),
    ])
}

fn config(args: &UpArgs) -> Result<Config, Failed> {
    check_needs(args)?;
    let adapts = !args.paper && !args.code.is_given();
    let family = args.code.family();
    // With limits a code is chosen within those instead.
    let fixed = if adapts { Family::Layers } else { family.unwrap_or(Family::Layers) };
    let code = args.code.code(fixed)?;
    let limits = adapts.then(|| Limits {
        family: family.unwrap_or_default(),
        overhead: args.max_overhead,
        interleave: args.max_interleave,
        ..Limits::default()
    });
    let reach = match &limits {
        // The peer's limits are its own; reckon with ones like these, and delayed repairs.
        Some(limits) if limits.family == Family::Sliding => usize::from(MAX_WINDOW),
        Some(limits) => usize::from(limits.interleave) * (usize::from(limits.rate) + 1),
        None => code.reach(),
    };
    let receive = ReceiveConfig::default();
    let packets = args.packets.unwrap_or(receive.packets.max(2 * reach));
    let key = wellspring_appliance::read_key(&args.key).map_err(|error| of_setup(&error))?;
    Ok(Config {
        lan: args.lan.clone(),
        wan: args.wan.clone(),
        peer: args.peer,
        key: if args.encrypt { key.encrypting() } else { key },
        remote: args.remote.clone(),
        send: SendConfig {
            code,
            adaptive: limits,
            longest: 0,
            flush_after: Duration::from_millis(args.flush),
            repair_within: args.repair_within.map(Duration::from_millis),
        },
        receive: ReceiveConfig {
            packets,
            hold: Duration::from_nanos((args.hold * 1e6) as u64),
            // A fixed code is the paper's.
            congestion: match limits {
                Some(_) => CongestionLoss::Signal,
                None => CongestionLoss::Recover,
            },
            renew_stamps: limits.is_some() && !args.keep_time_stamps,
            ..receive
        },
        allow_unprotected: args.allow_unprotected,
        path_mtu: args.path_mtu.map(usize::from),
        ring: usize::from(args.ring) << 20,
        // One for each appliance of the site.
        partitions: args.partitions.unwrap_or((args.failover_peer.len() + 1).min(64) as u8),
        failover: args.failover_listen.map(|listen| FailoverPeers {
            listen,
            peers: args.failover_peer.clone(),
            silence: std::time::Duration::from_millis(args.failover_silence),
            balance: Some(std::time::Duration::from_secs(args.failover_balance))
                .filter(|balance| !balance.is_zero()),
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
    // IPv4, unless an unspecified address of IPv6 says otherwise.
    let text = text.strip_prefix("any").map_or(text.into(), |rest| format!("0.0.0.0{rest}"));
    text.parse()
        .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DEFAULT_PORT)))
        .map_err(|_| {
            "write an address such as 192.0.2.2, 192.0.2.2:4714 or [2001:db8::2]:4714, or `any`"
                .into()
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
