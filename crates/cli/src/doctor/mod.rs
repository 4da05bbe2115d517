//! `wellspring doctor`: what this host and a server can do together.

mod check;
mod group;
mod judge;

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use wellspring_client::{
    Client, ClientConfig, FetchError, Greeting, Host, HostTrouble, Update, Updates,
};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Report, Stderr};
use wellspring_console::units::bytes;
use wellspring_net::driver::{DriverConfig, DscpMap};
use wellspring_net::socket::{Interface, TrimTap, largest_payload_towards};
use wellspring_net::store::tree::listing::SampleSize;
use wellspring_net::wellspring_wire::control::Abilities;

use crate::config::Line;
use crate::exit;
use crate::keys::KeyArgs;
use crate::transfer::{FabricArg, NetworkArgs};
use check::{Check, Verdict};

/// Probes that measure the round trip.
const PROBES: u32 = 10;
/// Longest time that a probe is waited for.
const LONGEST_PATIENCE: Duration = Duration::from_secs(2);
/// Time after which the trial begins no further transfer.
const TRIAL: Duration = Duration::from_secs(2);
/// How long the network is asked why it is silent, and TCP for an answer.
const SECOND_OPINION: Duration = Duration::from_secs(2);

/// Examine what this host and a server can do together, and say what to do about it.
///
/// Name, port, keys, round trip, lengths of datagrams, offloads, marks, clock, and the rate of a short trial: at
/// most 20 MB, begun within two seconds, are made up by the server, fetched with the options given here, and dropped.
/// Exit status 11 says that a transfer would fail.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring doctor a.example
  wellspring doctor a.example --group 239.255.47.11   # multicast, too
  wellspring doctor a.example --json | jq '.checks[] | select(.verdict != \"ok\")'")]
pub struct DoctorArgs {
    #[command(flatten)]
    line: Line,
    /// The server: NAME, NAME:PORT or `[IPV6]:PORT`.
    host: Host,
    /// Do not measure rate and loss by a trial.
    #[arg(long)]
    no_trial: bool,
    /// Try this multicast group [default port: 4712]. The server must let this host put objects; what is offered to it
    /// is withdrawn at once.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = crate::put::parse_group)]
    group: Option<SocketAddr>,
    /// Interface that sends multicast: its name, or an address of it.
    #[arg(long, value_name = "IF")]
    interface: Option<Interface>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    network: NetworkArgs,
}

pub async fn run(args: &DoctorArgs, quiet: bool) -> Result<(), Failed> {
    args.line.check_needs(&[("interface", "group", args.group.is_some())])?;
    let mut interrupt = Interrupt::new()?;
    args.keys.warn_client();
    if !quiet && !args.no_trial {
        let most: usize = SampleSize::ALL.iter().map(|size| size.len()).sum();
        let most = bytes(most as u64);
        writeln!(
            Stderr,
            "{}: up to {most} are fetched as a trial, in about 2 s (--no-trial: none)",
            args.host
        );
    }
    let checks = interrupt.guard(examine(args)).await??;
    if args.json {
        writeln!(Report, "{}", check::to_json(&args.host.to_string(), &checks))?;
    } else {
        write!(Report, "{}", check::to_table(&checks))?;
    }
    if check::worst(&checks) < Verdict::Failure {
        return Ok(());
    }
    let failed = checks.iter().filter(|check| check.verdict == Verdict::Failure);
    let names: Vec<_> = failed.map(|check| check.name).collect();
    let text = format!("a transfer with {} would fail: {}", args.host, names.join(", "));
    Err(Failed::new(exit::UNHEALTHY, text))
}

/// The checks that can be made, in order.
async fn examine(args: &DoctorArgs) -> Result<Vec<Check>, Failed> {
    let addresses = match resolve(&args.host, args.network.timeout).await {
        Ok(found) => found,
        Err(check) => return Ok(vec![check]),
    };
    let patient = Patient::new(args, &addresses).await?;
    let server = patient.server;
    let mut checks = vec![of_name(server, addresses.len())];
    if let Err(error) = largest_payload_towards(server) {
        let check = Check::failure("route", format!("no way leads there: {error}"));
        checks.push(check.advice("Look at the routes of this host: ip route get ADDRESS."));
        return Ok(checks);
    }
    let host = args.host.to_string();
    let (greeted, tcp) = tokio::join!(patient.client.greet(&host, server), by_tcp(server));
    match greeted {
        Ok(greeting) => patient.examine(&greeting, tcp, &mut checks).await?,
        Err(error) if error.trouble == HostTrouble::Clear => return Err(exit::in_clear(&error)),
        Err(error) => {
            let icmp = icmp_says(server).await;
            checks.extend(judge::of_trouble(&error, icmp.as_deref(), tcp.is_ok()));
        }
    }
    Ok(checks)
}

/// A server that answers, and the client that examines it.
struct Patient<'a> {
    args: &'a DoctorArgs,
    server: SocketAddr,
    config: ClientConfig,
    client: Client,
    keyed: bool,
}

impl<'a> Patient<'a> {
    async fn new(args: &'a DoctorArgs, addresses: &[SocketAddr]) -> Result<Self, Failed> {
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        let keys = args.keys.load()?;
        let keyed = keys.is_some();
        let driver = args.network.driver(any).keys(keys);
        let config = ClientConfig::default()
            .insecure(args.keys.insecure)
            .driver(driver)
            .timeout(args.network.timeout);
        let mut unfragmented = config.clone();
        unfragmented.driver.socket.unfragmented = true;
        let client = Client::new(unfragmented).map_err(|error| exit::of_start(&error))?;
        let server = match addresses {
            [only] => *only,
            several => client.first_to_answer(several).await.unwrap_or(several[0]),
        };
        Ok(Patient { args, server, config, client, keyed })
    }

    async fn examine(
        &self,
        greeting: &Greeting,
        tcp: io::Result<()>,
        checks: &mut Vec<Check>,
    ) -> Result<(), Failed> {
        checks.push(Check::ok("port", "answers by UDP"));
        checks.push(of_tcp(&tcp));
        checks.push(self.of_keys(greeting));
        let trips = self.client.round_trips(self.server, PROBES, LONGEST_PATIENCE).await;
        checks.push(judge::of_round_trips(&trips));
        let Some(longest) = trips.times.last() else { return Ok(()) };
        let patience = (*longest * 3 + Duration::from_millis(50))
            .clamp(Duration::from_millis(100), LONGEST_PATIENCE);
        let lens = self.client.datagram_lens(self.server, patience).await;
        // Its line stands here, and takes the trial to judge.
        let place = checks.len();
        self.of_hosts(greeting.abilities, checks);
        self.of_classes(patience, checks).await;
        checks.extend(judge::of_clock(&trips));
        if let Some(group) = self.args.group {
            checks.push(
                group::examine(&self.config, &self.args.host, group, self.args.interface.as_ref())
                    .await?,
            );
        }
        let trial = if self.args.no_trial { None } else { Some(self.trial().await?) };
        let passed = trial.as_ref().map(|check| check.verdict < Verdict::Failure);
        let overhead = self.client.sealing_overhead();
        let datagrams = match lens {
            Ok(lens) => judge::of_datagrams(&lens, overhead, passed),
            Err(error) => Check::failure("datagrams", error.to_string()),
        };
        checks.insert(place, datagrams);
        checks.extend(trial);
        Ok(())
    }

    fn of_keys(&self, greeting: &Greeting) -> Check {
        let takes = match (
            greeting.abilities.has(Abilities::TAKES),
            greeting.abilities.has(Abilities::REPLACES),
        ) {
            (false, _) => "the server takes no objects",
            (true, false) => "the server takes objects, and replaces none",
            (true, true) => "the server takes objects, and replaces them",
        };
        if !self.keyed {
            return Check::warning("keys", format!("none on either host; {takes}"))
                .advice("Nothing is encrypted, and nobody is known: `wellspring key --help` says how to make keys.");
        }
        let rights = &greeting.rights;
        Check::ok("keys", format!("trusted on both hosts; there this host is {rights}; {takes}"))
            .figure("rights", rights.clone())
    }

    /// What the hosts can do, whatever the path.
    fn of_hosts(&self, there: Abilities, checks: &mut Vec<Check>) {
        let statistics = self.client.statistics().unwrap_or_default();
        let here = Abilities::default()
            .with(Abilities::SEGMENTATION, statistics.segmentation)
            .with(Abilities::COALESCING, statistics.coalescing);
        checks.push(judge::of_offload(here, there));
        let asked = self.config.driver.socket.receive_buffer;
        checks.push(judge::of_buffers(statistics.receive_buffer, asked));
        let port = self.client.local_addr().port();
        let allowed = TrimTap::open(port, self.server.is_ipv6()).is_ok();
        checks.push(judge::of_trims(allowed, there.has(Abilities::TRIMS), self.is_trimming()));
    }

    fn is_trimming(&self) -> bool {
        self.args.network.fabric == FabricArg::Trimming
    }

    async fn of_classes(&self, patience: Duration, checks: &mut Vec<Check>) {
        let echo = |class| self.client.class_echo(self.server, class, patience);
        let (plain, capable, marked) = (echo(0).await, echo(2).await, echo(3).await);
        checks.push(judge::of_ecn(plain, capable, marked));
        let mut echoes = Vec::new();
        for dscp in self.dscps() {
            echoes.push(echo(dscp << 2).await);
        }
        checks.push(judge::of_dscp(&echoes, self.is_trimming()));
    }

    /// DSCPs that priorities would use.
    fn dscps(&self) -> Vec<u8> {
        let DriverConfig { dscp, .. } = &self.config.driver;
        let used = if *dscp == DscpMap::default() { &DscpMap::trimming() } else { dscp };
        let mut all: Vec<u8> = used.symbols.iter().copied().chain([used.control]).collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|dscp| *dscp != 0);
        all
    }

    /// Fetches longer and longer samples while there is time, as a get with these options would.
    async fn trial(&self) -> Result<Check, Failed> {
        // The path is to be used as a get uses it, which lets the system cut datagrams up.
        let client = Client::new(self.config.clone()).map_err(|error| exit::of_start(&error))?;
        let mut began = Instant::now();
        let mut last: Option<wellspring_client::FetchReport> = None;
        let mut sizes = SampleSize::ALL.into_iter();
        let mut next = sizes.next();
        while let Some(size) = next {
            let left = TRIAL.saturating_sub(began.elapsed());
            let patience = match &last {
                None => self.config.timeout,
                // As long as it takes at the last rate, if that is short enough.
                Some(report)
                    if report.elapsed.mul_f64(size.len() as f64 / report.size as f64)
                        > 2 * left =>
                {
                    break;
                }
                Some(_) => 2 * left,
            };
            let moved = Arc::new(Mutex::new(Moved::default()));
            let updates = progress(&moved);
            let fetched = timeout(patience, client.fetch_sample(self.server, size, updates)).await;
            let Moved { done, shortened } = *moved.lock().unwrap_or_else(PoisonError::into_inner);
            match fetched {
                // What was lost of it was too long for the path, which the client knows by now: once more.
                Ok(Ok(_)) if shortened => began = Instant::now(),
                Ok(Ok(report)) => (last, next) = (Some(report), sizes.next()),
                Ok(Err(error)) => return Ok(of_failed_trial(&error)),
                Err(_) if last.is_some() => break,
                Err(_) => {
                    let (done, size) = (bytes(done), bytes(size.len() as u64));
                    let text = format!("{done} of {size} arrived in {} s", patience.as_secs_f64());
                    return Ok(Check::failure("transfer", text).advice(SYMBOLS_DO_NOT_PASS));
                }
            }
        }
        Ok(judge::of_transfer(&last.expect("the first sample came, or was reported")))
    }
}

const SYMBOLS_DO_NOT_PASS: &str =
    "Requests pass and symbols do not: see the lines of the datagrams and of ECN.";

fn of_failed_trial(error: &FetchError) -> Check {
    let text = match error {
        FetchError::NoReplicaLeft { done, size, .. } => {
            format!("{} of {} arrived, and then nothing", bytes(*done), bytes(*size))
        }
        error => error.to_string().replace('\n', " "),
    };
    Check::failure("transfer", text).advice(SYMBOLS_DO_NOT_PASS)
}

/// How far a transfer is.
#[derive(Clone, Copy, Default)]
struct Moved {
    /// \[bytes\]
    done: u64,
    /// Its first symbols were too long for the path.
    shortened: bool,
}

/// Keeps how far a transfer is.
fn progress(kept: &Arc<Mutex<Moved>>) -> Updates {
    let kept = Arc::clone(kept);
    Updates::to(move |update| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        match update {
            Update::Moving { done, .. } => kept.done = done,
            Update::Shortened { .. } => kept.shortened = true,
            _ => {}
        }
    })
}

/// The addresses of a host, one at least.
async fn resolve(host: &Host, patience: Duration) -> Result<Vec<SocketAddr>, Check> {
    let failed = |reason: String| {
        let check = Check::failure("name", reason);
        check.advice(
            "Check the spelling of the host, and the name service of this one (getent hosts NAME).",
        )
    };
    match timeout(patience, host.resolve()).await {
        Err(_) => Err(failed("the name service does not answer".to_owned())),
        Ok(Err(error)) => Err(failed(format!("cannot be resolved: {error}"))),
        Ok(Ok(addresses)) if addresses.is_empty() => Err(failed("has no address".to_owned())),
        Ok(Ok(addresses)) => Ok(addresses),
    }
}

fn of_name(server: SocketAddr, addresses: usize) -> Check {
    let more = match addresses {
        1 => String::new(),
        several => format!(", one of {several} addresses"),
    };
    Check::ok("name", format!("{server}{more}")).figure("address", server.to_string())
}

/// Whether the server's port is open for TCP.
async fn by_tcp(server: SocketAddr) -> io::Result<()> {
    let connected = timeout(SECOND_OPINION, TcpStream::connect(server)).await;
    connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map(drop)
}

fn of_tcp(tcp: &io::Result<()>) -> Check {
    match tcp {
        Ok(()) => Check::ok("TCP", "the port is open for TCP as well, which LTTP asks by"),
        Err(error) => {
            Check::warning("TCP", format!("the port answers by UDP, and not by TCP: {error}"))
                .advice("Only --protocol lttp needs it: let TCP through to the same port.")
        }
    }
}

/// What the network reports of a datagram that is not answered.
async fn icmp_says(server: SocketAddr) -> Option<String> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let ask = async {
        let socket = UdpSocket::bind(any).await?;
        socket.connect(server).await?;
        // No packet of ours: nothing but the network answers it.
        socket.send(&[0; 64]).await?;
        socket.recv(&mut [0; 64]).await
    };
    timeout(SECOND_OPINION, ask).await.ok()?.err().map(|error| error.to_string())
}
