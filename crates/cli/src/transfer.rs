//! Arguments that all transfers share: the object, how it is cut, the network, the report.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wellspring_console::units::{parse_loss, parse_rate, parse_seconds};
use wellspring_core::Rate;
use wellspring_net::driver::{DriverConfig, DscpMap, TrimTaps};
use wellspring_net::store::ObjectName;
use wellspring_net::{Cut, DEFAULT_INITIAL_WINDOW, DEFAULT_SYMBOLS_PER_BLOCK, Host};
use wellspring_transport::scdp::Fabric;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_have_hosts_and_a_safe_name() {
        let location: Location = "a,[::1]:5,c:7/x/y".parse().expect("a location");
        assert_eq!(location.hosts.len(), 3);
        assert_eq!(location.name.as_str(), "x/y");
        for bad in ["a", "a/", "/x", "a,/x", "a/../x", "a//x", "a/x\\y"] {
            assert!(bad.parse::<Location>().is_err(), "{bad}");
        }
    }
}
