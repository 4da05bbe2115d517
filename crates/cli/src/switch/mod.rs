//! `wellspring switch`: software switch with the simulator's queues.

mod report;
mod vlans;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use wellspring_appliance::switch::snooping::SnoopingConfig;
use wellspring_appliance::switch::{
    CaptureConfig, LEAST_KEPT, Marking, Monitor, OpenError, PortSet, QueueLimit, Switch,
    SwitchConfig,
};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::until_signal;
use wellspring_console::output::{Stderr, Stdout};
use wellspring_console::units::{bit_rate, bytes, counted, parse_rate, parse_size};

use crate::config::Line;
use crate::exit::TARGET_EXISTS;
use vlans::VlanArgs;

/// Run a software switch between interfaces that trims packets instead of dropping them.
///
/// It learns addresses as an Ethernet switch does, and has the queues of the simulator. When a queue is full, an
/// arriving packet is trimmed to its headers, which are sent before all data (with --drop, it is dropped). The
/// switch runs until Ctrl-C and then prints the counters of each port. It is for test networks of up to about 1
/// Gbit/s. It needs root and interfaces without addresses. Interfaces that send to it must have offloads off
/// (`wellspring-lab lab plain`). Tags of VLANs are kept as they are unless ports have VLANs (--access, --trunk).
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The default DSCPs are those of `--fabric trimming`: 40, 32, 24, 16 and 8 for symbols by priority, 48 for pulls,
11 for trimmed packets. Other packets are dropped when the queue is full.

Examples:
  wellspring switch port1 port2 port3 port4
  wellspring switch port1 port2 port3 --rate 200M --queue 12 --json
  wellspring switch port1 port2 port3 --drop --queue 100 --mark-at 20    # for DCTCP
  wellspring switch port1 port2 port3 --access port1=10 --access port2=10 --trunk port3=10,20
  wellspring switch port1 port2 port3 --snooping --unknown-groups routers
  wellspring switch port1 port2 --capture frames.pcapng --capture-limit 100M
  wellspring switch port1 port2 --metrics 127.0.0.1:9465                 # for Prometheus")]
pub struct SwitchArgs {
    #[command(flatten)]
    line: Line,
    /// The interfaces.
    #[arg(required = true, num_args = 2.., value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Rate of each port.
    #[arg(long, value_name = "RATE", default_value = "1G", value_parser = parse_rate)]
    rate: wellspring_core::Rate,
    /// Maximum number of data packets in the queue of a port.
    #[arg(long, value_name = "PACKETS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    queue: u32,
    /// Maximum length of the data queue of a port in bytes on the wire, instead of packets.
    #[arg(long, value_name = "SIZE", conflicts_with = "queue", value_parser = parse_size)]
    queue_bytes: Option<u64>,
    /// Maximum length of the queue of headers and control packets of a port.
    #[arg(long, value_name = "SIZE", default_value = "256KiB", conflicts_with = "drop", value_parser = parse_size)]
    control_queue: u64,
    /// Drop packets instead of trimming them, with one queue a port.
    #[arg(long)]
    drop: bool,
    /// ECN threshold: mark ECN-capable packets when the queue has this many packets. Must be below --queue.
    #[arg(long, value_name = "PACKETS")]
    mark_at: Option<u32>,
    /// Length of a trimmed IP packet; at least the IP and UDP headers and 16 bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 64, conflicts_with = "drop", value_parser = keep())]
    keep: u64,
    /// DSCP of control packets.
    #[arg(long, value_name = "DSCP", default_value_t = 48, value_parser = dscp())]
    dscp_control: u8,
    /// DSCPs of packets that may be trimmed, highest priority first, at most 8.
    #[arg(long, value_name = "DSCP", value_delimiter = ',', default_value = "40,32,24,16,8", value_parser = dscp())]
    dscp_symbols: Vec<u8>,
    /// DSCP of trimmed packets.
    #[arg(long, value_name = "DSCP", default_value_t = 11, value_parser = dscp())]
    dscp_trimmed: u8,
    #[command(flatten)]
    vlans: VlanArgs,
    /// Forward packets of a multicast group only to ports that asked for it, by IGMP or MLD, and to ports with routers.
    /// Without a querier in the VLAN, they go to all ports.
    #[arg(long)]
    snooping: bool,
    /// What to do with packets of a group that no port asked for: to all ports, or to ports with routers only.
    #[arg(long, value_enum, default_value_t = UnknownGroups::Flood)]
    unknown_groups: UnknownGroups,
    /// A port with a multicast router. Ports where queries come from are found without this.
    #[arg(long, value_name = "INTERFACE")]
    router_port: Vec<String>,
    /// Record the frames that come in and leave into this file (pcapng, for Wireshark). It must not exist yet.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Ports whose frames are recorded (default: all).
    #[arg(long, value_name = "INTERFACES", value_delimiter = ',')]
    capture_ports: Vec<String>,
    /// The longest that the file becomes; what passes then is not recorded.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    capture_limit: u64,
    /// Serve Prometheus metrics at this address, under /metrics.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Threads to divide the ports among (default: a quarter of the processors, and one at least).
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Run at normal priority instead of real-time priority.
    #[arg(long)]
    no_priority: bool,
    /// Print the counters of each port as a JSON object, one per line.
    #[arg(long)]
    json: bool,
}

/// Where packets of groups go that no port asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum UnknownGroups {
    /// To all ports.
    Flood,
    /// To ports with multicast routers.
    Routers,
}

fn dscp() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..64)
}

fn keep() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(LEAST_KEPT as u64..=u64::from(u16::MAX))
}

impl SwitchArgs {
    /// The ports of these names, which an option gave.
    fn ports(&self, option: &str, names: &[String]) -> Result<PortSet, Failed> {
        let port = |name: &String| {
            self.interfaces.iter().position(|port| port == name).ok_or_else(|| {
                Failed::usage(format!("{option} {name}: not a port of this switch"))
                    .hint("Name the interface among the ports, too.")
            })
        };
        names.iter().map(port).collect()
    }

    fn capture(&self) -> Result<Option<CaptureConfig>, Failed> {
        let Some(file) = self.capture.clone() else { return Ok(None) };
        let ports = match self.capture_ports.as_slice() {
            [] => PortSet::first(self.interfaces.len()),
            names => self.ports("--capture-ports", names)?,
        };
        Ok(Some(CaptureConfig { file, ports, limit: self.capture_limit }))
    }

    fn snooping(&self) -> Result<Option<SnoopingConfig>, Failed> {
        let routers = self.ports("--router-port", &self.router_port)?;
        let restrict_unknown = self.unknown_groups == UnknownGroups::Routers;
        Ok(self.snooping.then_some(SnoopingConfig { restrict_unknown, routers }))
    }

    fn config(&self) -> Result<SwitchConfig, Failed> {
        let capture = self.capture.is_some();
        self.line.check_needs(&[
            ("unknown_groups", "snooping", self.snooping),
            ("router_port", "snooping", self.snooping),
            ("capture_ports", "capture", capture),
            ("capture_limit", "capture", capture),
        ])?;
        let symbols = &self.dscp_symbols;
        if symbols.len() > 8 {
            return Err(Failed::usage(format!("{} classes of symbols", symbols.len()))
                .hint("A port has 8 at most: give fewer DSCPs."));
        }
        let others = [self.dscp_control, self.dscp_trimmed];
        let twice = |(i, one): (usize, &u8)| others.contains(one) || symbols[..i].contains(one);
        if symbols.iter().enumerate().any(twice) {
            return Err(Failed::usage("a DSCP means two things")
                .hint("Symbols' must differ from each other, from control's and from what trimmed packets get."));
        }
        Ok(SwitchConfig {
            rate: Some(self.rate.as_bits_per_second()),
            queue: self.queue_bytes.map_or(QueueLimit::Frames(self.queue), QueueLimit::Bytes),
            trim: !self.drop,
            mark_at: self.mark_at,
            control_queue: self.control_queue,
            keep: self.keep as usize, // below 65,536, see `keep`
            marking: Marking {
                control: self.dscp_control,
                symbols: symbols.clone(),
                trimmed: self.dscp_trimmed,
            },
            vlans: self.vlans.of(&self.interfaces)?,
            snooping: self.snooping()?,
            capture: self.capture()?,
            threads: self
                .threads
                .unwrap_or_else(|| SwitchConfig::threads_for(self.interfaces.len())),
            first: !self.no_priority,
        })
    }
}

pub async fn run(args: &SwitchArgs, quiet: bool) -> Result<(), Failed> {
    let switch = Switch::open(&args.interfaces, args.config()?).map_err(|error| of_open(&error))?;
    let monitor = switch.monitor();
    let metrics = args.metrics.map(|at| {
        monitor.serve_metrics(at).map_err(|error| {
            Failed::system(format_args!("cannot listen at {at}"), &error)
                .hint("Choose another address by --metrics; port 0 lets the system choose.")
        })
    });
    let metrics = metrics.transpose()?;
    if !quiet {
        let ports = args.interfaces.join(", ");
        let rate = bit_rate(args.rate.as_bits_per_second() as f64);
        let at = metrics.map(|at| format!(", metrics at http://{at}/metrics")).unwrap_or_default();
        writeln!(Stderr, "{ports} joined, at {rate} each{at}; Ctrl-C ends it");
    }
    until_signal(move |stop| {
        switch.run(stop).map_err(|error| Failed::system("the switch failed", &error))
    })
    .await?;
    report(args, &monitor, quiet)
}

fn of_open(error: &OpenError) -> Failed {
    match error {
        OpenError::Refused(refusal) => Failed::usage(refusal.to_string()).hint(refusal.hint()),
        OpenError::Capture(file, error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Failed::new(TARGET_EXISTS, format!("{} exists", file.display()))
                .hint("Choose another name by --capture, or take the file away.")
        }
        OpenError::Capture(file, error) => Failed::system(file.display(), error),
        OpenError::System(error) => {
            let failed = Failed::system("cannot open the ports", error);
            match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    failed.hint("Packet sockets need root, or CAP_NET_RAW.")
                }
                _ => failed,
            }
        }
    }
}

fn report(args: &SwitchArgs, monitor: &Monitor, quiet: bool) -> Result<(), Failed> {
    let status = monitor.status();
    for (name, port) in &status.ports {
        if args.json {
            writeln!(Stdout, "{}", report::to_json(name, port, status.data_queues))?;
        } else {
            writeln!(Stdout, "{}", report::to_text(name, port))?;
        }
    }
    if let Some(capture) = &status.capture {
        if let Some(error) = &capture.error {
            return Err(Failed::other(format!("the capture ended early: {error}")));
        }
        if !quiet {
            writeln!(
                Stderr,
                "{} in the capture, {}; {} beyond its limit, {} missed",
                counted(capture.frames, "frame"),
                bytes(capture.bytes),
                capture.beyond_limit,
                capture.missed
            );
        }
    }
    let unlike: u64 = status.ports.iter().map(|(_, port)| port.unlike).sum();
    if unlike > 0 && !quiet {
        writeln!(
            Stderr,
            "{unlike} frames were lost because they were not as on the wire.\n\
             Switch off offloads of what sends to these interfaces: wellspring-lab lab plain INTERFACE"
        );
    }
    Ok(())
}
