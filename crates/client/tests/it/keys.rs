//! Transfers under keys, and attackers who have none: on the path, in the clear, with other keys.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::keyrings::{peer, pinned, serving};
use crate::served::runtime;
use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, FetchError, FetchOptions, FetchProtocol, FetchReport, Host, PutError,
    PutOptions, PutReport, Target,
};
use wellspring_core::SessionId;
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_transport::scdp::ReceiveStats;
use wellspring_trust::{ClusterKey, Folders, Keyring, Peer, Rights, TrustCounters};
use wellspring_wire::scdp::{Close, CloseReason, Pull, ScdpHeader, Symbol, emit};

const LEN: usize = 3_000_000;
const LOOPBACK: &str = "127.0.0.1:0";

fn object() -> Vec<u8> {
    let mut stream = wellspring_core::Seed(11).stream("object");
    (0..LEN).map(|_| stream.next_u64() as u8).collect()
}

fn folders(name: &str) -> Folders {
    let mut folders = Folders::NONE;
    folders.add(name).expect("a name");
    folders
}

fn cluster(keys: &[&ClusterKey]) -> Keyring {
    keys.iter().fold(Keyring::new(), |ring, key| ring.with_cluster((*key).clone(), Rights::all()))
}

/// A server of a directory with an object in two folders, and a client.
struct Place {
    home: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    server: Server,
    client: Client,
}

impl Place {
    fn new(client: Option<Keyring>, server: Option<Keyring>) -> Self {
        let (home, runtime) = (tempfile::tempdir().expect("directory"), runtime());
        let dir = home.path().join("served");
        for folder in ["models", "private"] {
            std::fs::create_dir_all(dir.join(folder)).expect("directory");
            std::fs::write(dir.join(folder).join("x"), object()).expect("write");
        }
        let server = runtime.block_on(serve(&dir, own_address(), server));
        let client = runtime.block_on(async { client_with(client) });
        Place { home, runtime, server, client }
    }

    fn output(&self) -> PathBuf {
        self.home.path().join("fetched")
    }

    fn fetch(&self, from: SocketAddr, name: &str) -> Result<FetchReport, FetchError> {
        self.runtime.block_on(fetch(&self.client, from, name, &self.output()))
    }

    fn assert_fetched(&self) {
        assert!(std::fs::read(self.output()).expect("read") == object(), "other bytes");
    }

    fn put(
        &self,
        name: &str,
        options: impl FnOnce(&mut PutOptions),
    ) -> Result<PutReport, PutError> {
        let file = self.home.path().join("served/models/x");
        let host = [host(self.server.local_addr())];
        let mut of = PutOptions::new(name.parse().expect("a name"));
        options(&mut of);
        self.runtime.block_on(self.client.put(&file, &host, &of))
    }

    fn at_server(&self) -> TrustCounters {
        self.server.statistics().expect("running").trust.expect("keys")
    }

    fn at_client(&self) -> TrustCounters {
        self.client.statistics().expect("running").trust.expect("keys")
    }
}

async fn serve(dir: &Path, bind: SocketAddr, keys: Option<Keyring>) -> Server {
    let mut config = ServerConfig::new(bind, dir.to_owned());
    config.allow_put = true;
    config.driver.keys = keys.map(Arc::new);
    Server::bind(config).await.expect("server")
}

fn client_with(keys: Option<Keyring>) -> Client {
    let mut config = ClientConfig::default().timeout(Duration::from_secs(3));
    config.driver.socket.bind = LOOPBACK.parse().expect("address");
    config.driver.keys = keys.map(Arc::new);
    Client::new(config).expect("client")
}

fn host(address: SocketAddr) -> Host {
    address.to_string().parse().expect("a host")
}

async fn fetch(
    client: &Client,
    from: SocketAddr,
    name: &str,
    path: &Path,
) -> Result<FetchReport, FetchError> {
    let options = FetchOptions::new(name.parse().expect("a name"));
    let target = Target::File { path: path.to_owned(), existing: Existing::Replace };
    client.fetch(&[host(from)], &options, target).await
}

/// Somebody on the path between a client and a server, who sees all and sends as either.
struct OnPath {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What is done to a datagram to or from the server, with the session, once it is known: what goes to the client and
/// what to the server.
type Attack = Box<dyn FnMut(bool, &[u8], Option<u32>) -> Vec<(bool, Vec<u8>)> + Send>;

impl OnPath {
    fn before(server: SocketAddr, mut attack: Attack) -> Self {
        let (front, back) = (UdpSocket::bind(LOOPBACK), UdpSocket::bind(LOOPBACK));
        let (front, back) = (front.expect("socket"), back.expect("socket"));
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        }
        let address = front.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut client, mut session, mut buffer) = (None, None, vec![0; 65_536]);
            while !stopped.load(Relaxed) {
                for to_server in [true, false] {
                    let socket = if to_server { &front } else { &back };
                    // As many as have come, and then the other way again.
                    for _ in 0..64 {
                        let Ok((len, from)) = socket.recv_from(&mut buffer) else { break };
                        let bytes = &buffer[..len];
                        if to_server {
                            client = Some(from);
                        } else if bytes[0] == 0x10 {
                            session =
                                Some(u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]));
                        }
                        for (goes_to_server, bytes) in attack(to_server, bytes, session) {
                            // What is lost is lost: the hosts repeat it.
                            let _ = match (goes_to_server, client) {
                                (true, _) => back.send_to(&bytes, server),
                                (false, Some(client)) => front.send_to(&bytes, client),
                                (false, None) => Ok(0),
                            };
                        }
                    }
                }
            }
        });
        OnPath { address, stop, thread: Some(thread) }
    }
}

impl Drop for OnPath {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

/// Passes everything on, and with every eighth datagram of the server's what `forge` makes for the session.
fn forging(to_server: bool, forge: fn(u32, u32) -> Vec<u8>) -> Attack {
    let mut count = 0;
    Box::new(move |goes_to_server, bytes, session| {
        let mut out = vec![(goes_to_server, bytes.to_vec())];
        count += 1;
        if let (Some(session), 0) = (session, count % 8) {
            out.push((to_server, forge(session, count)));
        }
        out
    })
}

fn packet(session: u32, header: &ScdpHeader, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; 72 + payload];
    let len = emit(SessionId(session), header, &[0; 32], 1_344, &mut bytes);
    bytes.truncate(len + payload);
    bytes
}

fn close(session: u32, reason: CloseReason, from_receiver: bool) -> Vec<u8> {
    packet(session, &ScdpHeader::Close(Close { reason, from_receiver }), 0)
}

fn symbol(session: u32, number: u32, epoch: u8, payload: usize) -> Vec<u8> {
    let header = Symbol {
        sbn: 9,
        esi: 700_000 + number,
        number,
        epoch,
        priority: 1,
        fin: false,
        options: None,
    };
    packet(session, &ScdpHeader::Symbol(header), payload)
}

fn pull(session: u32, granted: u32, floor: u32, fin: bool) -> Vec<u8> {
    packet(
        session,
        &ScdpHeader::Pull(Pull { sbn: 0, first: None, granted, floor, run: 1, epoch: 0, fin }),
        0,
    )
}

/// An attack of one forged packet: its name, whether it goes to the server, and the packet.
type Forgery = (&'static str, bool, fn(u32, u32) -> Vec<u8>);

const FORGERIES: &[Forgery] = &[
    ("the receiver cancels", true, |s, _| close(s, CloseReason::Cancelled, true)),
    ("the receiver has all", true, |s, _| close(s, CloseReason::Complete, true)),
    ("the sender cancels", false, |s, _| close(s, CloseReason::Cancelled, false)),
    ("no block is wanted", true, |s, _| pull(s, 1, 1_000, false)),
    ("sixty thousand credits", true, |s, n| pull(s, 60_000 + n, 0, false)),
    ("another epoch", false, |s, n| symbol(s, n, 200, 1_344)),
    ("poisoned symbols", false, |s, n| symbol(s, n, 0, 1_344)),
    ("trimmed headers", false, |s, n| symbol(s, 1_000_000 + n, 0, 0)),
];

#[test]
fn forged_packets_are_dropped_and_counted_and_the_transfer_is_unharmed() {
    for (name, to_server, forge) in FORGERIES {
        let (client, server) = pinned(Rights { read: Folders::all(), ..Rights::default() });
        let place = Place::new(Some(client), Some(server));
        let on_path = OnPath::before(place.server.local_addr(), forging(*to_server, *forge));
        let report = place
            .fetch(on_path.address, "models/x")
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        place.assert_fetched();
        assert_eq!(report.replicas[0].losses, 0, "{name}");
        assert_eq!(stats(&report).failed_decodes, 0, "{name}");
        let counters = if *to_server { place.at_server() } else { place.at_client() };
        assert!(counters.forged + counters.clear > 0, "{name}: {counters:?}");
    }
}

fn stats(report: &FetchReport) -> &ReceiveStats {
    &report.scdp().expect("by SCDP").stats
}

#[test]
fn the_same_packets_do_harm_where_there_are_no_keys() {
    // Others never end, which is harm, too, but makes no test.
    let harmful = ["the receiver cancels", "the receiver has all", "the sender cancels"];
    for (name, to_server, forge) in FORGERIES.iter().filter(|(name, ..)| harmful.contains(name)) {
        let place = Place::new(None, None);
        let on_path = OnPath::before(place.server.local_addr(), forging(*to_server, *forge));
        let harmed = match place.fetch(on_path.address, "models/x") {
            Ok(report) => report.replicas[0].losses > 0,
            Err(_) => true,
        };
        assert!(harmed, "{name}: then the test above shows nothing");
    }
}

#[test]
fn what_a_switch_trims_is_taken_by_its_header_and_a_changed_header_is_not() {
    for changed in [false, true] {
        let (client, server) = pinned(Rights::all());
        let place = Place::new(Some(client), Some(server));
        let mut count = 0;
        let trimming: Attack = Box::new(move |to_server, bytes, _| {
            let mut bytes = bytes.to_vec();
            if !to_server && bytes[0] == 0x10 && bytes.len() > 1_000 {
                count += 1;
                if count % 16 == 0 {
                    bytes.truncate(64);
                    // The packet number: another credit would count as answered.
                    bytes[18] ^= u8::from(changed);
                }
            }
            vec![(to_server, bytes)]
        });
        let on_path = OnPath::before(place.server.local_addr(), trimming);
        let report = place.fetch(on_path.address, "models/x").expect("fetched");
        place.assert_fetched();
        let counters = place.at_client();
        if changed {
            assert!(counters.forged > 0 && counters.trimmed == 0, "{counters:?}");
            assert_eq!(stats(&report).senders[0].trimmed, 0);
        } else {
            assert!(counters.trimmed > 0 && counters.forged == 0, "{counters:?}");
            assert!(stats(&report).senders[0].trimmed > 0);
        }
    }
}

#[test]
fn everything_played_again_is_dropped() {
    let (client, server) = pinned(Rights::all());
    let place = Place::new(Some(client), Some(server));
    let twice: Attack = Box::new(|to_server, bytes, _| {
        vec![(to_server, bytes.to_vec()), (to_server, bytes.to_vec())]
    });
    let on_path = OnPath::before(place.server.local_addr(), twice);
    place.fetch(on_path.address, "models/x").expect("fetched");
    place.assert_fetched();
    let (at_server, at_client) = (place.at_server(), place.at_client());
    assert!(at_server.replayed > 0 && at_client.replayed > 0, "{at_server:?} {at_client:?}");
    // A busy server answers late, and is greeted again.
    assert!(at_server.handshakes == 1 && at_server.handshakes_replayed > 0, "{at_server:?}");
}

#[test]
fn nothing_that_is_sent_can_be_read() {
    let (client, server) = pinned(Rights::all());
    let place = Place::new(Some(client), Some(server));
    let object = object();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seen_here = Arc::clone(&seen);
    // Each look at a payload is slow: the first symbols are enough, and are looked at when all is over.
    let mut payloads = 0;
    let reading: Attack = Box::new(move |to_server, bytes, _| {
        payloads += u32::from(bytes.len() > 1_000);
        if bytes.len() <= 1_000 || payloads <= 3 {
            seen_here.lock().expect("no panic").push(bytes.to_vec());
        }
        vec![(to_server, bytes.to_vec())]
    });
    let on_path = OnPath::before(place.server.local_addr(), reading);
    place.fetch(on_path.address, "models/x").expect("fetched");
    place.assert_fetched();
    drop(on_path);
    let seen = seen.lock().expect("no panic");
    assert!(seen.iter().filter(|bytes| bytes.len() > 1_000).count() == 3, "symbols were seen");
    for bytes in seen.iter() {
        assert!(!bytes.windows(8).any(|window| window == b"models/x"), "a name in clear");
        let payload = bytes.len() > 1_000
            && bytes[100..200].windows(64).any(|w| object.windows(64).any(|o| o == w));
        assert!(!payload, "a payload in clear");
    }
}

fn refusal(place: &Place, name: &str) -> String {
    match place.fetch(place.server.local_addr(), name) {
        Err(error @ FetchError::NoReplica(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn hosts_that_do_not_trust_each_other_say_so() {
    let (client, server) = pinned(Rights::all());
    let (stranger, _) = pinned(Rights::all());
    let own = client.own().expect("a key").public().to_string();
    // The server's key, without its trust.
    let server_key = server.own().expect("a key").public();
    let text = wellspring_trust::private_to_text(stranger.own().expect("a key"));
    let unknown = wellspring_trust::private_from_text(&text).expect("a key");
    let unknown = Keyring::new().with_own(unknown).with_peer(peer("server", server_key, serving()));
    let shown = stranger.own().expect("a key").public().to_string();
    let place = Place::new(Some(unknown), Some(server));
    let told = refusal(&place, "models/x");
    assert!(told.contains("does not trust this host's key") && told.contains(&shown), "{told}");
    // Once for each greeting: a client whose answer is late greets again.
    assert!(place.at_server().handshakes_untrusted >= 1);
    // The client pins another key than the server has.
    let place = Place::new(Some(stranger), Some(pinned(Rights::all()).1));
    assert!(refusal(&place, "models/x").contains("another key"), "{own}");
    assert!(place.at_server().handshakes_wrong >= 1);
    let place = Place::new(
        Some(cluster(&[&ClusterKey::generate()])),
        Some(cluster(&[&ClusterKey::generate()])),
    );
    assert!(refusal(&place, "models/x").contains("another key"));
}

#[test]
fn hosts_with_and_without_keys_do_not_speak_and_say_why() {
    let place = Place::new(None, Some(pinned(Rights::all()).1));
    assert!(refusal(&place, "models/x").contains("only with keys"));
    assert!(place.at_server().clear > 0);
    let place = Place::new(Some(pinned(Rights::all()).0), None);
    assert!(refusal(&place, "models/x").contains("runs without keys"));
}

#[test]
fn rights_are_kept_by_folder_and_a_refusal_names_key_and_right() {
    let rights = Rights { read: folders("models"), put: folders("incoming"), ..Rights::default() };
    let (client, server) = pinned(rights);
    let fingerprint = client.own().expect("a key").public().fingerprint().to_string();
    let place = Place::new(Some(client), Some(server));
    place.fetch(place.server.local_addr(), "models/x").expect("fetched");
    place.assert_fetched();
    let told = refusal(&place, "private/x");
    for part in ["alice", &fingerprint, "no right to read private/x"] {
        assert!(told.contains(part), "{told}");
    }
    std::fs::create_dir(place.home.path().join("served/incoming")).expect("directory");
    place.put("incoming/y", |_| {}).expect("put");
    assert!(std::fs::read(place.home.path().join("served/incoming/y")).expect("read") == object());
    let told = place.put("models/y", |_| {}).expect_err("no right").to_string();
    assert!(told.contains("no right to put models/y"), "{told}");
    assert!(!place.home.path().join("served/models/y").exists());
    // A put creates. What is there stays.
    std::fs::write(place.home.path().join("served/incoming/y"), b"mine").expect("write");
    assert!(place.put("incoming/y", |_| {}).is_err());
    assert!(place.put("incoming/y", |options| options.overwrite = true).is_err());
    assert_eq!(std::fs::read(place.home.path().join("served/incoming/y")).expect("read"), b"mine");
    let refused = place.server.counters().refused;
    assert!(refused.values().sum::<u64>() >= 4, "{refused:?}");
}

#[test]
fn a_cluster_key_is_changed_host_by_host() {
    let (old, new) = (ClusterKey::generate(), ClusterKey::generate());
    for (client, server) in [
        (vec![&old], vec![&old, &new]),
        (vec![&new, &old], vec![&old, &new]),
        (vec![&new], vec![&new, &old]),
    ] {
        let place = Place::new(Some(cluster(&client)), Some(cluster(&server)));
        place.fetch(place.server.local_addr(), "models/x").expect("fetched");
        place.assert_fetched();
        place.put("y", |_| {}).expect("put");
    }
}

#[test]
fn a_server_that_starts_again_is_greeted_again() {
    let (client, server) = pinned(Rights::all());
    let text = wellspring_trust::private_to_text(server.own().expect("a key"));
    let peers: Vec<Peer> = server.peers().cloned().collect();
    let mut place = Place::new(Some(client), Some(server));
    place.fetch(place.server.local_addr(), "models/x").expect("fetched");
    let (bind, dir) = (place.server.local_addr(), place.home.path().join("served"));
    let own = wellspring_trust::private_from_text(&text).expect("a key");
    let ring = peers.into_iter().fold(Keyring::new().with_own(own), Keyring::with_peer);
    let spare = place.runtime.block_on(serve(&dir, own_address(), None));
    let first = std::mem::replace(&mut place.server, spare);
    place.runtime.block_on(first.shut_down());
    place.server = place.runtime.block_on(serve(&dir, bind, Some(ring)));
    place.fetch(bind, "models/x").expect("fetched again");
    place.assert_fetched();
}

#[test]
fn ndp_runs_under_keys() {
    let (client, server) = pinned(Rights::all());
    let place = Place::new(Some(client), Some(server));
    let hosts = [host(place.server.local_addr())];
    let options = FetchOptions::new("models/x".parse().expect("a name"));
    let target = Target::File { path: place.output(), existing: Existing::Replace };
    let options = options.protocol(FetchProtocol::Ndp);
    let ndp = place.client.fetch(&hosts, &options, target);
    place.runtime.block_on(ndp).expect("fetched");
    place.assert_fetched();
}
