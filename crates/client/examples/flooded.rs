//! Measures honest transfers beside a flood of hostile datagrams, as many as one core sends.
//!
//! `cargo run --release -p wellspring-client --example flooded -- [MB=200] [ROUNDS=3]`
//!
//! Fetches a file over loopback, alone and beside a thread that sends forged datagrams to the server and to the client
//! without a pause, with keys and without. Prints goodput, the flood's rate, what was dropped of it, and what the
//! sockets' buffers lost: on a machine of few cores the flood takes the transfer's processors, too.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use wellspring_client::driver::Statistics;
use wellspring_client::store::Existing;
use wellspring_client::{Client, ClientConfig, FetchOptions, Host, Target};
use wellspring_core::{Seed, SessionId};
use wellspring_server::{Server, ServerConfig};
use wellspring_trust::{ClusterKey, Keyring, Rights};
use wellspring_wire::scdp::{Close, CloseReason, Pull, ScdpHeader, Symbol, emit};

type Failure = Box<dyn std::error::Error>;

/// Different datagrams of the flood.
const KINDS: usize = 512;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let home = tempfile::tempdir()?;
    let served = home.path().join("served");
    std::fs::create_dir(&served)?;
    let mut stream = Seed(1).stream("object");
    let bytes: Vec<u8> =
        (0..megabytes * 125_000).flat_map(|_| stream.next_u64().to_le_bytes()).collect();
    std::fs::write(served.join("object"), bytes)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let key = ClusterKey::generate();
    let ring = || Arc::new(Keyring::new().with_cluster(key.clone(), Rights::all()));
    for (name, keys) in [("without keys", None), ("with keys", Some(ring()))] {
        for round in 1..=rounds {
            for flooded in [false, true] {
                let output = home.path().join("out");
                let row = runtime.block_on(measure(&served, &output, keys.clone(), flooded))?;
                println!("{name}, round {round}: {row}");
            }
        }
    }
    Ok(())
}

/// One fetch.
struct Row {
    gbps: f64,
    /// Hostile datagrams sent, and a second; none if alone.
    flood: Option<(u64, f64)>,
    /// What the two sockets lost for want of room.
    socket_dropped: u64,
    /// What both ends dropped after a look at it.
    refused: u64,
    losses: u32,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Row { gbps, flood, socket_dropped, refused, losses } = self;
        write!(f, "{gbps:.2} Gbit/s, ")?;
        match flood {
            None => f.write_str("alone")?,
            Some((sent, rate)) => write!(f, "beside {sent} hostile datagrams ({rate:.0}/s)")?,
        }
        write!(
            f,
            "; {refused} refused, {socket_dropped} lost by full sockets, {losses} losses of the server"
        )
    }
}

async fn measure(
    served: &Path,
    output: &Path,
    keys: Option<Arc<Keyring>>,
    flooded: bool,
) -> Result<Row, Failure> {
    let bind: SocketAddr = "127.0.0.1:0".parse()?;
    let mut config = ServerConfig::new(bind, served.to_owned());
    config.driver.keys = keys.clone();
    let server = Server::bind(config).await?;
    let mut config = ClientConfig::default();
    (config.driver.socket.bind, config.driver.keys) = (bind, keys);
    let client = Client::new(config)?;
    // The digest is known before it counts.
    fetch(&client, &server, output).await?;
    let flood = flooded.then(|| Flood::begin([server.local_addr(), client.local_addr()]));
    let before = [client.statistics()?, server.statistics()?];
    let report = fetch(&client, &server, output).await?;
    let after = [client.statistics()?, server.statistics()?];
    let grown = |of: fn(&Statistics) -> u64| -> u64 {
        after.iter().zip(&before).map(|(after, before)| of(after) - of(before)).sum()
    };
    Ok(Row {
        gbps: report.goodput() / 1e9,
        socket_dropped: grown(|statistics| statistics.received.socket_dropped),
        refused: grown(refused),
        losses: report.replicas[0].losses,
        flood: flood.map(Flood::end),
    })
}

async fn fetch(
    client: &Client,
    server: &Server,
    output: &Path,
) -> Result<wellspring_client::FetchReport, Failure> {
    let target = Target::File { path: output.to_owned(), existing: Existing::Replace };
    let options = FetchOptions::new("object".parse()?);
    let hosts = [Host::from(server.local_addr())];
    Ok(client.fetch(&hosts, &options, target).await?)
}

/// Datagrams that were looked at and not used.
fn refused(statistics: &Statistics) -> u64 {
    let received = &statistics.received;
    let by_protocol = received.dropped.values().sum::<u64>();
    let trust = statistics.trust.unwrap_or_default();
    let by_keys = trust.clear + trust.forged + trust.handshakes_wrong + trust.handshakes_put_off;
    received.malformed + received.strangers + by_protocol + by_keys
}

/// A thread that sends hostile datagrams.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    began: Instant,
    thread: std::thread::JoinHandle<()>,
}

impl Flood {
    fn begin(victims: [SocketAddr; 2]) -> Flood {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&sent));
        let datagrams = datagrams();
        let thread = std::thread::spawn(move || {
            let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else { return };
            for (datagram, victim) in datagrams.iter().cycle().zip(victims.iter().cycle()) {
                if stopped.load(Relaxed) {
                    return;
                }
                // A socket without room is what it is about.
                if socket.send_to(datagram, victim).is_ok() {
                    counter.fetch_add(1, Relaxed);
                }
            }
        });
        Flood { stop, sent, began: Instant::now(), thread }
    }

    /// How many were sent, and how many a second.
    fn end(self) -> (u64, f64) {
        self.stop.store(true, Relaxed);
        let (sent, seconds) = (self.sent.load(Relaxed), self.began.elapsed().as_secs_f64());
        // It has nothing to tell.
        let _ = self.thread.join();
        (sent, sent as f64 / seconds)
    }
}

/// Packets of sessions that are not the sender's, datagrams that look sealed, handshakes, and noise.
fn datagrams() -> Vec<Vec<u8>> {
    let mut random = Seed(2).stream("flood");
    (0..KINDS)
        .map(|_| {
            let mut bytes: Vec<u8> = (0..1_472).map(|_| random.next_u64() as u8).collect();
            let header = match random.below(6) {
                0 => ScdpHeader::Symbol(Symbol {
                    sbn: random.below(40) as u32,
                    esi: random.below(1 << 24) as u32,
                    number: random.next_u64() as u32,
                    epoch: 0,
                    priority: 1,
                    fin: false,
                    options: None,
                }),
                1 => ScdpHeader::Pull(Pull {
                    sbn: 0,
                    granted: random.next_u64() as u32,
                    floor: 0,
                    run: 1,
                    epoch: 0,
                    fin: false,
                    first: None,
                }),
                2 => ScdpHeader::Close(Close {
                    reason: CloseReason::Cancelled,
                    from_receiver: random.chance(0.5),
                }),
                kind => {
                    // Sealed, an initiation, or anything.
                    let first = [0x1e, 0x1c, random.next_u64() as u8][kind as usize - 3];
                    bytes[0] = first;
                    bytes.truncate(64 + random.below(1_400) as usize);
                    return bytes;
                }
            };
            let session = SessionId(random.next_u64() as u32);
            emit(session, &header, &[9; 32], 1_344, &mut bytes);
            bytes
        })
        .collect()
}
