//! Configuration of an appliance, and the checks before it starts.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use wellspring_maelstrom::{
    Bundler, KEY_LEN, MAX_PARTITIONS, MtuError, MtuPlan, PresharedKey, ReceiveConfig, SendConfig,
};

use crate::failover_peers::{FailoverError, FailoverPeers};
use crate::filter::MAX_GROUPS;
use crate::interface::{Interface, forwarding, networks};

/// The UDP port of appliances.
pub const DEFAULT_PORT: u16 = 4_714;

/// Configuration of an appliance.
#[derive(Clone, Debug)]
pub struct Config {
    /// The interface of the local network.
    pub lan: String,
    /// The interface of the long link.
    pub wan: String,
    /// The other appliance, and the port of both. Its address is followed when its datagrams come from another; one at no
    /// address in particular is sent nothing until it is heard.
    pub peer: SocketAddr,
    /// The secret of the pair.
    pub key: PresharedKey,
    /// Addresses behind the other appliance; all if there are none.
    pub remote: Vec<IpNet>,
    /// How packets are mixed. Its longest packet is set from the MTU plan.
    pub send: SendConfig,
    /// What is remembered. Its longest packet is set from the MTU plan.
    pub receive: ReceiveConfig,
    /// Start although packets of the local network can be too long to be protected, and do not shorten TCP's.
    pub allow_unprotected: bool,
    /// Longest packet that the path to the peer takes \[bytes\], where that is less than its interface says.
    pub path_mtu: Option<usize>,
    /// Memory of the ring that packets are watched through \[bytes\].
    pub ring: usize,
    /// Partitions of the addresses on both sides, 1 to
    /// [`MAX_PARTITIONS`](wellspring_maelstrom::MAX_PARTITIONS), each with a thread and a ring:
    /// the same number at all appliances of both sites.
    pub partitions: u8,
    /// The other appliances of this site, which share the partitions.
    pub failover: Option<FailoverPeers>,
    /// The address that the other site's appliances send to, if it is not this one's own.
    pub site: Option<IpAddr>,
    /// End TCP connections here and relay them, instead of letting them pass.
    pub split: Option<SplitConfig>,
    /// Keep what arrives for a while, for local hosts that ask.
    pub cache: Option<CacheConfig>,
    /// Carry small packets to the other site together.
    pub aggregate: Option<AggregateConfig>,
    /// Multicast groups that are carried to the other site.
    pub multicast: Vec<IpAddr>,
    /// A folder for the control socket and for what must be put back.
    pub run_dir: PathBuf,
    /// What this appliance is called there.
    pub name: String,
}

impl Config {
    /// Whether anything but repairs is sent to the peer, by sockets that know no other address than the given one.
    pub(crate) fn needs_address(&self) -> bool {
        self.split.is_some() || self.aggregate.is_some() || !self.multicast.is_empty()
    }
}

/// What is kept for local hosts that lose datagrams themselves (§4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheConfig {
    /// Memory \[bytes\].
    pub bytes: usize,
    /// For how long.
    pub age: Duration,
    /// Where hosts ask.
    pub at: SocketAddr,
}

/// How small packets are carried together (§4.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AggregateConfig {
    /// The longest that count as small, with their headers \[bytes\].
    pub longest: u16,
    /// How long one waits for others.
    pub hold: Duration,
}

/// How connections are relayed in split mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitConfig {
    /// Connections at a time, at most; further ones pass as if there were no split mode.
    pub connections: usize,
    /// What the kernel may hold of each trunk, each way \[bytes\]: the long link's delay times rate.
    pub buffer: usize,
}

/// Why an appliance does not start. The text says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// No such interface.
    NoInterface(String),
    /// An interface is down.
    Down(String),
    /// An interface belongs to a bridge or bond, where packets are not forwarded by address.
    Enslaved {
        /// The interface.
        interface: String,
        /// What it belongs to.
        master: String,
    },
    /// Both sides are the same interface.
    SameInterface(String),
    /// This machine forwards nothing.
    NotForwarding,
    /// Repairs do not fit.
    Mtu {
        /// Why.
        error: MtuError,
        /// The long link's interface.
        wan: String,
        /// The local network's.
        lan: String,
    },
    /// Repairs do not fit, and hosts could not be made to send shorter packets.
    Clamp {
        /// What would be refused without.
        refused: Box<SetupError>,
        /// Why.
        error: String,
    },
    /// Others may read the key.
    KeyReadable(PathBuf),
    /// The file does not hold a key.
    BadKey(PathBuf),
    /// What sends to the peer by sockets of its own cannot wait for its address.
    PeerUnknown,
    /// Packet sockets are for root.
    NotAllowed(io::Error),
    /// The peer cannot be this machine.
    PeerIsLocal(SocketAddr),
    /// The peer is in the local network: nothing of the long link is between the two.
    PeerInLan {
        /// The peer.
        peer: IpAddr,
        /// The local network.
        network: IpNet,
    },
    /// The local network's own addresses are given as those behind the peer.
    RemoteIsLan {
        /// What was given.
        remote: IpNet,
        /// The local network.
        network: IpNet,
    },
    /// Overhead that is no number, or that no code has.
    Overhead(f64),
    /// The clock shows a time before this program was written: sessions would not be believed.
    Clock,
    /// Too many partitions, or none, or no ports for them.
    Partitions {
        /// How many.
        got: u8,
        /// The port of the first.
        port: u16,
    },
    /// Too many multicast groups.
    Groups(usize),
    /// The site's appliances cannot share its partitions.
    Failover(FailoverError),
    /// Split mode needs to know which connections are for the other site.
    SplitWithoutRemote,
    /// Split mode keeps connections, which no failover peer can take over.
    SplitWithFailover,
    /// The kernel's rules could not be set.
    SplitRules(io::Error),
    /// Carrying small packets together needs to know which are for the other site.
    AggregateWithoutRemote,
    /// Packets would count as small that fit no bundle.
    AggregateTooLong {
        /// The longest that would.
        got: u16,
        /// The longest that fit.
        limit: usize,
    },
    /// What leads small packets here could not be set.
    AggregateRules(io::Error),
    /// An appliance of that name runs.
    Running(String),
    /// The code asks for more memory than there may be, or none.
    Code(String),
    /// The system refused something.
    System(&'static str, io::Error),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::NoInterface(name) => {
                write!(f, "no interface `{name}`: `ip link` lists those there are")
            }
            SetupError::Down(name) => {
                write!(f, "{name} is down: run `ip link set {name} up` first")
            }
            SetupError::Enslaved { interface, master } => write!(
                f,
                "{interface} belongs to {master}: packets must be forwarded by their addresses; \
                 take it out (`ip link set {interface} nomaster`) and route instead"
            ),
            SetupError::SameInterface(name) => {
                write!(f, "{name} is given for both sides: an appliance stands between two")
            }
            SetupError::NotForwarding => f.write_str(
                "this machine forwards no packets: run `sysctl -w net.ipv4.ip_forward=1` (and \
                 net.ipv6.conf.all.forwarding=1 for IPv6) and route the sites through it",
            ),
            SetupError::Mtu {
                error: error @ MtuError::LanTooLarge { limit, wan_needed, .. },
                wan,
                lan,
            } => {
                write!(
                    f,
                    "{error}: `ip link set {wan} mtu {wan_needed}` if the link carries it, else \
                     `ip link set {lan} mtu {limit}` here and on the hosts; --allow-unprotected \
                     starts all the same and leaves longer packets unprotected"
                )
            }
            SetupError::Mtu { error, .. } => error.fmt(f),
            SetupError::Clamp { refused, error } => write!(
                f,
                "TCP's segments cannot be shortened to what the long link protects ({error}). \
                 Without that: {refused}"
            ),
            SetupError::PeerUnknown => f.write_str(
                "split mode, --aggregate and --multicast need the peer's address: name it by --peer",
            ),
            SetupError::KeyReadable(path) => {
                let path = path.display();
                write!(f, "others may read the key: run `chmod 600 {path}`")
            }
            SetupError::BadKey(path) => write!(
                f,
                "{} holds no key, which is 64 hexadecimal digits: `wellspring maelstrom key FILE` \
                 makes one",
                path.display()
            ),
            SetupError::NotAllowed(error) => write!(
                f,
                "watching packets was refused ({error}): run as root, or with CAP_NET_RAW and \
                 CAP_NET_ADMIN"
            ),
            SetupError::PeerIsLocal(peer) => {
                write!(f, "{peer} is an address of this machine: --peer is the other appliance")
            }
            SetupError::PeerInLan { peer, network } => write!(
                f,
                "{peer} is in the local network {network}: --peer is the appliance at the other end of the \
                 long link"
            ),
            SetupError::RemoteIsLan { remote, network } => write!(
                f,
                "{remote} is in the local network {network}: --remote names the addresses behind the \
                 other appliance"
            ),
            SetupError::Overhead(overhead) => {
                write!(f, "an overhead of {overhead}: write repairs for each packet, such as 0.5")
            }
            SetupError::Clock => f.write_str(
                "the clock shows a time long past: set it, or the peer will take this life for an \
                 old one",
            ),
            SetupError::Partitions { got, port } => write!(
                f,
                "{got} partitions from UDP port {port}: 1 to {MAX_PARTITIONS}, each with a port of \
                 its own up to 65535"
            ),
            SetupError::Groups(got) => write!(
                f,
                "{got} multicast groups: {MAX_GROUPS} at most; leave out some --multicast"
            ),
            SetupError::Failover(error) => error.fmt(f),
            SetupError::SplitWithoutRemote => f.write_str(
                "split mode without --remote would end all connections here: name the addresses \
                 behind the other appliance, such as --remote 10.2.0.0/16",
            ),
            SetupError::SplitWithFailover => f.write_str(
                "split mode keeps connections, which a failover peer cannot take over: leave out \
                 --failover-peer, or \
                 --mode split",
            ),
            SetupError::SplitRules(error) => write!(
                f,
                "split mode's rules: {error}; it needs nft (nftables), ip (iproute2), and a kernel \
                 with CONFIG_NFT_TPROXY and CONFIG_NFT_SOCKET"
            ),
            SetupError::AggregateWithoutRemote => f.write_str(
                "--aggregate without --remote would take packets for everybody: name the addresses \
                 behind the other appliance, such as --remote 10.2.0.0/16",
            ),
            SetupError::AggregateTooLong { got, limit } => fits_no_bundle(f, *got, *limit),
            SetupError::AggregateRules(error) => write!(
                f,
                "the way of small packets: {error}; it needs nft (nftables), ip (iproute2) and \
                 /dev/net/tun"
            ),
            SetupError::Running(name) => write!(
                f,
                "an appliance `{name}` runs already: end it by `wellspring maelstrom down {name}`, \
                 or choose another --name"
            ),
            SetupError::Code(why) => f.write_str(why),
            SetupError::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

fn fits_no_bundle(f: &mut fmt::Formatter<'_>, got: u16, limit: usize) -> fmt::Result {
    write!(
        f,
        "--aggregate {got}: the long link carries packets of at most {limit} bytes together; write \
         --aggregate {limit}, or less"
    )
}

impl std::error::Error for SetupError {}

/// Both interfaces, and the plan that repairs fit.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub wan: Interface,
    pub plan: MtuPlan,
    /// Longest packet that is protected \[bytes\].
    pub longest: usize,
    /// Packets in a repair, at most, that the long link's MTU allows.
    pub rate: u8,
    /// Whether packets of the local network can be longer, and TCP is to send none that are.
    pub clamp: bool,
    lan: Interface,
}

impl Ground {
    /// Why the appliance does not start without the clamp.
    pub(crate) fn unclamped(&self, config: &Config, error: &io::Error) -> SetupError {
        let (wan, lan) = (config.wan.clone(), config.lan.clone());
        match self.plan.check(self.lan.mtu) {
            Ok(()) => SetupError::System(
                "the clamp of TCP's segments",
                io::Error::other(error.to_string()),
            ),
            Err(why) => SetupError::Clamp {
                refused: Box::new(SetupError::Mtu { error: why, wan, lan }),
                error: error.to_string(),
            },
        }
    }
}

/// Checks what can be checked before anything is opened or changed.
pub(crate) fn check(config: &Config) -> Result<Ground, SetupError> {
    if config.lan == config.wan {
        return Err(SetupError::SameInterface(config.lan.clone()));
    }
    let (got, port) = (config.partitions, config.peer.port());
    if !(1..=MAX_PARTITIONS).contains(&got) || port.checked_add(u16::from(got) - 1).is_none() {
        return Err(SetupError::Partitions { got, port });
    }
    check_groups(&config.multicast)?;
    if let Some(peers) = &config.failover {
        peers.check().map_err(SetupError::Failover)?;
    }
    let find = |name: &str| -> Result<Interface, SetupError> {
        let found = Interface::find(name).map_err(|e| SetupError::System("an interface", e))?;
        let interface = found.ok_or_else(|| SetupError::NoInterface(name.to_owned()))?;
        if !interface.up {
            return Err(SetupError::Down(name.to_owned()));
        }
        if let Some(master) = interface.master {
            return Err(SetupError::Enslaved { interface: interface.name, master });
        }
        Ok(interface)
    };
    let (lan, wan) = (find(&config.lan)?, find(&config.wan)?);
    if forwarding() == (false, false) {
        return Err(SetupError::NotForwarding);
    }
    if config.peer.ip().is_unspecified() && config.needs_address() {
        return Err(SetupError::PeerUnknown);
    }
    check_addresses(config, &networks(&config.lan))?;
    if let Some(limits) =
        config.send.adaptive.filter(|limits| limits.overhead.is_nan() || limits.overhead <= 0.0)
    {
        return Err(SetupError::Overhead(limits.overhead));
    }
    let mtu = |error| SetupError::Mtu { error, wan: wan.name.clone(), lan: lan.name.clone() };
    let rates = match &config.send.adaptive {
        Some(limits) => adaptive_rates(limits.rate),
        None => vec![config.send.code.mtu_rate()],
    };
    let path = config.path_mtu.map_or(wan.mtu, |path| path.min(wan.mtu));
    let (rate, plan) = plan_of(&rates, path, lan.mtu, config.peer.is_ipv6()).map_err(mtu)?;
    let clamp = plan.check(lan.mtu).is_err() && !config.allow_unprotected;
    let longest = plan.longest.min(lan.mtu);
    check_aggregate(config.aggregate.as_ref(), longest, config.peer.is_ipv6())?;
    Ok(Ground { wan, plan, longest, rate, clamp, lan })
}

/// Rates to try: the longer its XORs, the less an adaptive code costs, and the longer its repairs are.
fn adaptive_rates(most: u8) -> Vec<u8> {
    let least = most.min(8);
    let between = [16, 12, 10].into_iter().filter(|rate| (least + 1..most).contains(rate));
    std::iter::once(most).chain(between).chain([least]).collect()
}

/// The first of the rates whose repairs hold every packet of the local network, or the last.
fn plan_of(rates: &[u8], wan: usize, lan: usize, ipv6: bool) -> Result<(u8, MtuPlan), MtuError> {
    let (last, others) = rates.split_last().expect("there is a rate");
    let fitting = others.iter().find_map(|&rate| {
        let plan = MtuPlan::new(wan, ipv6, rate).ok()?;
        plan.check(lan).is_ok().then_some((rate, plan))
    });
    fitting.map_or_else(|| MtuPlan::new(wan, ipv6, *last).map(|plan| (*last, plan)), Ok)
}

/// Refuses to take packets that fit no bundle, which is itself a packet of at most `longest` bytes.
fn check_aggregate(
    aggregate: Option<&AggregateConfig>,
    longest: usize,
    ipv6: bool,
) -> Result<(), SetupError> {
    let headers = if ipv6 { 48 } else { 28 };
    let limit = Bundler::longest_packet(longest.saturating_sub(headers));
    let got = aggregate.map_or(0, |aggregate| aggregate.longest);
    if usize::from(got) > limit { Err(SetupError::AggregateTooLong { got, limit }) } else { Ok(()) }
}

fn check_groups(groups: &[IpAddr]) -> Result<(), SetupError> {
    if groups.len() > MAX_GROUPS { Err(SetupError::Groups(groups.len())) } else { Ok(()) }
}

/// Refuses addresses of the local network where those of the other end are meant.
fn check_addresses(config: &Config, lan: &[IpNet]) -> Result<(), SetupError> {
    let peer = config.peer.ip();
    if let Some(&network) = lan.iter().find(|network| network.contains(&peer)) {
        return Err(SetupError::PeerInLan { peer, network });
    }
    for &remote in &config.remote {
        if let Some(&network) = lan.iter().find(|network| network.contains(&remote)) {
            return Err(SetupError::RemoteIsLan { remote, network });
        }
    }
    Ok(())
}

/// Reads a pre-shared key: 64 hexadecimal digits in a file that nobody else may read.
///
/// # Errors
/// It cannot be read, others may read it, or it holds something else.
pub fn read_key(path: &Path) -> Result<PresharedKey, SetupError> {
    let system = |error| SetupError::System("the key file", error);
    let mode = fs::metadata(path).map_err(system)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(SetupError::KeyReadable(path.to_owned()));
    }
    let text = fs::read_to_string(path).map_err(system)?;
    let digits = text.trim().as_bytes();
    let bad = || SetupError::BadKey(path.to_owned());
    if digits.len() != 2 * KEY_LEN {
        return Err(bad());
    }
    let mut key = [0; KEY_LEN];
    for (byte, digits) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let text = std::str::from_utf8(digits).map_err(|_| bad())?;
        *byte = u8::from_str_radix(text, 16).map_err(|_| bad())?;
    }
    Ok(PresharedKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn an_adaptive_code_fits_the_long_link() {
        let rate =
            |wan: usize| plan_of(&adaptive_rates(16), wan, 1_500, false).map(|found| found.0);
        assert_eq!([1_740, 1_739, 1_700, 1_699, 1_660].map(rate), [16, 12, 12, 10, 8].map(Ok));
        // The last one's plan says what would help.
        let (last, plan) = plan_of(&adaptive_rates(16), 1_500, 1_500, false).expect("a plan");
        assert_eq!((last, plan.longest), (8, 1_340));
        assert!(plan.check(1_500).is_err());
        assert_eq!(adaptive_rates(4), [4, 4]);
    }

    #[test]
    fn small_packets_that_fit_no_bundle_are_refused() {
        let check = |longest, ipv6| {
            // Of an interface or a path of 1,200 bytes.
            let room = MtuPlan::new(1_200, ipv6, 8).expect("room").longest;
            check_aggregate(Some(&AggregateConfig { longest, hold: Duration::ZERO }), room, ipv6)
        };
        assert!(check(958, false).is_ok() && check(918, true).is_ok());
        let refused = check(959, false).expect_err("refused").to_string();
        assert!(
            refused.contains("--aggregate 959") && refused.contains("--aggregate 958, or less")
        );
        assert!(check(919, true).is_err());
        assert!(check_aggregate(None, 0, false).is_ok());
    }

    #[test]
    fn more_groups_than_a_filter_holds_are_refused() {
        let group = IpAddr::from([239, 1, 2, 3]);
        assert!(check_groups(&[group; MAX_GROUPS]).is_ok());
        let refused = check_groups(&[group; MAX_GROUPS + 1]).expect_err("refused").to_string();
        assert!(refused.contains("41 multicast groups: 40 at most"), "{refused}");
    }

    #[test]
    fn a_key_is_read_only_if_nobody_else_can() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_owned();
        writeln!(file, "{}", "0a".repeat(32)).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(matches!(read_key(&path), Err(SetupError::KeyReadable(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        assert!(read_key(&path).is_ok());
        for bad in ["", "0a", &"0g".repeat(32), &"0a".repeat(33), &"\u{e9}".repeat(32)] {
            fs::write(&path, bad).expect("written");
            assert!(matches!(read_key(&path), Err(SetupError::BadKey(_))), "{bad}");
        }
    }
}
