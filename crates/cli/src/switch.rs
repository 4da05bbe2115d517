//! `wellspring switch`: software switch with the simulator's queues.

use std::io;

use clap::Args;
use serde_json::json;
use wellspring_appliance::switch::{Marking, PortCounters, Switch, SwitchConfig};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::until_signal;
use wellspring_console::output::{Stderr, Stdout};
use wellspring_console::units::{bit_rate, parse_rate};

/// Run a software switch between interfaces that trims packets instead of dropping them.
///
/// It learns addresses as an Ethernet switch does, and has the queues of the simulator. When a queue is full, an
/// arriving packet is trimmed to its headers, which are sent before all data (with --drop, it is dropped). The
/// switch runs until Ctrl-C and then prints the counters of each port. It is for test networks of up to about 1
/// Gbit/s. It needs root and interfaces without addresses. Interfaces that send to it must have offloads off
/// (`wellspring-lab lab plain`).
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The default DSCPs are those of `--fabric trimming`: 40, 32, 24, 16 and 8 for symbols by priority, 48 for pulls,
11 for trimmed packets. Other packets are dropped when the queue is full.

Examples:
  wellspring switch port1 port2 port3 port4
  wellspring switch port1 port2 port3 --rate 200M --queue 12 --json
  wellspring switch port1 port2 port3 --drop --queue 100 --mark-at 20    # for DCTCP")]
pub struct SwitchArgs {
    /// The interfaces.
    #[arg(required = true, num_args = 2.., value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Rate of each port.
    #[arg(long, value_name = "RATE", default_value = "1G", value_parser = parse_rate)]
    rate: wellspring_core::Rate,
    /// Maximum number of data packets in the queue of a port.
    #[arg(long, value_name = "PACKETS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    queue: u32,
    /// Drop packets instead of trimming them, with one queue a port.
    #[arg(long)]
    drop: bool,
    /// ECN threshold: mark ECN-capable packets when the queue has this many packets.
    #[arg(long, value_name = "PACKETS")]
    mark_at: Option<u32>,
    /// Length of a trimmed IP packet; at least the IP and UDP headers and 16 bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    keep: usize,
    /// DSCP of control packets.
    #[arg(long, value_name = "DSCP", default_value_t = 48, value_parser = dscp())]
    dscp_control: u8,
    /// DSCPs of packets that may be trimmed, highest priority first, at most 8.
    #[arg(long, value_name = "DSCP", value_delimiter = ',', default_value = "40,32,24,16,8", value_parser = dscp())]
    dscp_symbols: Vec<u8>,
    /// DSCP of trimmed packets.
    #[arg(long, value_name = "DSCP", default_value_t = 11, value_parser = dscp())]
    dscp_trimmed: u8,
    /// Run at normal priority instead of real-time priority.
    #[arg(long)]
    no_priority: bool,
    /// Print the counters of each port as a JSON object, one per line.
    #[arg(long)]
    json: bool,
}

fn dscp() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..64)
}

impl SwitchArgs {
    fn config(&self) -> Result<SwitchConfig, Failed> {
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
            queue: self.queue,
            trim: !self.drop,
            mark_at: self.mark_at,
            keep: self.keep,
            marking: Marking {
                control: self.dscp_control,
                symbols: symbols.clone(),
                trimmed: self.dscp_trimmed,
            },
            first: !self.no_priority,
            ..SwitchConfig::default()
        })
    }
}

pub async fn run(args: &SwitchArgs, quiet: bool) -> Result<(), Failed> {
    let switch = Switch::open(&args.interfaces, args.config()?).map_err(|error| {
        let not_allowed = error.kind() == io::ErrorKind::PermissionDenied;
        let failed = Failed::system("cannot open the ports", &error);
        if not_allowed { failed.hint("Packet sockets need root, or CAP_NET_RAW.") } else { failed }
    })?;
    if !quiet {
        let ports = args.interfaces.join(", ");
        let rate = bit_rate(args.rate.as_bits_per_second() as f64);
        writeln!(Stderr, "{ports} joined, at {rate} each; Ctrl-C ends it");
    }
    let ports = until_signal(move |stop| {
        switch.run(stop).map_err(|error| Failed::system("the switch failed", &error))
    })
    .await?;
    for (name, port) in args.interfaces.iter().zip(&ports) {
        if args.json {
            writeln!(Stdout, "{}", to_json(name, port))?;
        } else {
            writeln!(Stdout, "{}", to_text(name, port))?;
        }
    }
    let unlike: u64 = ports.iter().map(|port| port.unlike).sum();
    if unlike > 0 && !quiet {
        writeln!(
            Stderr,
            "{unlike} frames were lost because they were not as on the wire.\n\
             Switch off offloads of what sends to these interfaces: wellspring-lab lab plain INTERFACE"
        );
    }
    Ok(())
}

fn to_json(name: &str, port: &PortCounters) -> serde_json::Value {
    json!({
        "interface": name, "received": port.received, "received_bytes": port.received_bytes,
        "unwanted": port.unwanted, "unlike": port.unlike, "sent": port.sent,
        "sent_bytes": port.sent_bytes, "refused": port.refused, "trimmed": port.trimmed,
        "marked": port.marked, "dropped": port.dropped,
        "dropped_control": port.dropped_control, "longest_queue": port.longest,
    })
}

fn to_text(name: &str, port: &PortCounters) -> String {
    format!(
        "{name}: {} in ({} lost on the way), {} out ({} refused); of what was to leave {} trimmed, \
         {} marked, {} dropped, {} of control; {} waited at most",
        port.received,
        port.unwanted,
        port.sent,
        port.refused,
        port.trimmed,
        port.marked,
        port.dropped,
        port.dropped_control,
        port.longest,
    )
}
