//! Transfers by several ports through a router that has a path for each: all of them carry, and one that dies is done
//! without.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::served::short_symbols;
use wellspring_client::store::Existing;
use wellspring_client::{Client, ClientConfig, FetchOptions, Host, PutOptions, Target};
use wellspring_core::{Rate, Seed};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_trust::{ClusterKey, Keyring, Rights};

/// Bytes of the object: each path has some hundred runs to carry.
pub(crate) const SIZE: usize = 24_000_000;

/// What a sender sends at most: an object takes 0.3 s, so that no path joins when all is over.
pub(crate) const RATE: Rate = Rate::from_mbps(600);

/// What becomes of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dies {
    /// Number of the path, by the order in which they were first heard of.
    pub(crate) path: usize,
    /// Symbols that it carries before.
    pub(crate) after: u64,
}

/// A path: from one port of the client to the server and back.
struct Line {
    back: UdpSocket,
    symbols: Arc<AtomicU64>,
    number: usize,
}

/// A router with a path for each of the client's ports.
pub(crate) struct Router {
    pub(crate) address: SocketAddr,
    server: Arc<OnceLock<SocketAddr>>,
    stop: Arc<AtomicBool>,
    lines: Arc<Mutex<BTreeMap<SocketAddr, Line>>>,
    thread: Option<JoinHandle<()>>,
}

fn socket(own: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((own, 0)).expect("socket");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
    let reference = socket2::SockRef::from(&socket);
    reference.set_recv_buffer_size(4 << 20).expect("set");
    reference.set_send_buffer_size(4 << 20).expect("set");
    socket
}

/// Whether a datagram passes; symbols are counted.
fn passes(datagram: &[u8], symbols: &AtomicU64, number: usize, dies: Option<Dies>) -> bool {
    let is_symbol = datagram.len() > 200 && datagram[0] & 0x0f == 0;
    let so_far = symbols.fetch_add(u64::from(is_symbol), Relaxed);
    dies.is_none_or(|dies| dies.path != number || so_far < dies.after)
}

impl Router {
    fn start(server: SocketAddr, dies: Option<Dies>) -> Router {
        let router = Router::at(Ipv4Addr::LOCALHOST, dies);
        router.leads_to(server);
        router
    }

    /// Begins to carry to a server, which sees clients at addresses of this router.
    pub(crate) fn leads_to(&self, server: SocketAddr) {
        self.server.set(server).expect("leads nowhere yet");
    }

    /// A router that leads nowhere yet, and whose two sides have that address.
    pub(crate) fn at(own: Ipv4Addr, dies: Option<Dies>) -> Router {
        let front = socket(own);
        let address = front.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let lines = Arc::<Mutex<BTreeMap<SocketAddr, Line>>>::default();
        let server = Arc::<OnceLock<SocketAddr>>::default();
        let thread = {
            let (stop, lines) = (Arc::clone(&stop), Arc::clone(&lines));
            let leads_to = Arc::clone(&server);
            std::thread::spawn(move || {
                let (mut buffer, mut backs) = (vec![0; 65_536], Vec::new());
                while !stop.load(Relaxed) {
                    let Ok((len, from)) = front.recv_from(&mut buffer) else { continue };
                    let Some(server) = leads_to.get() else { continue };
                    let mut lines = lines.lock().expect("no panic");
                    let number = lines.len();
                    let line = lines.entry(from).or_insert_with(|| {
                        let back = socket(own);
                        back.connect(server).expect("connected");
                        let symbols = Arc::new(AtomicU64::new(0));
                        let (front, stop) = (front.try_clone().expect("clone"), Arc::clone(&stop));
                        let (from_server, counted) =
                            (back.try_clone().expect("clone"), Arc::clone(&symbols));
                        backs.push(std::thread::spawn(move || {
                            let mut buffer = vec![0; 65_536];
                            while !stop.load(Relaxed) {
                                let Ok(len) = from_server.recv(&mut buffer) else { continue };
                                if passes(&buffer[..len], &counted, number, dies) {
                                    // A lost datagram is what networks do.
                                    let _ = front.send_to(&buffer[..len], from);
                                }
                            }
                        }));
                        Line { back, symbols, number }
                    });
                    if passes(&buffer[..len], &line.symbols, line.number, dies) {
                        let _ = line.back.send(&buffer[..len]);
                    }
                }
                backs.into_iter().for_each(|back| back.join().expect("no panic"));
            })
        };
        Router { address, server, stop, lines, thread: Some(thread) }
    }

    pub(crate) fn host(&self) -> [Host; 1] {
        [self.address.to_string().parse().expect("host")]
    }

    /// Symbols by path.
    pub(crate) fn symbols(&self) -> Vec<u64> {
        let lines = self.lines.lock().expect("no panic");
        let mut symbols: Vec<_> =
            lines.values().map(|line| (line.number, line.symbols.load(Relaxed))).collect();
        symbols.sort_unstable();
        symbols.into_iter().map(|(_, symbols)| symbols).collect()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

/// Keys of a host, if it has any.
pub(crate) type Keys = Option<Arc<Keyring>>;

pub(crate) fn client(ports: u8, keys: Keys) -> Client {
    let mut config = ClientConfig::default().timeout(Duration::from_secs(5));
    config.driver = config.driver.ports(ports);
    config.driver.socket.bind = "127.0.0.1:0".parse().expect("an address");
    config.driver.faults.send_rate = Some(RATE);
    config.driver.keys = keys;
    Client::new(config).expect("a client")
}

async fn server(directory: &Path, paths: u16, keys: Keys) -> Server {
    let bind = own_address();
    let mut config = ServerConfig::new(bind, directory.to_owned()).allow_put(true);
    config.driver.scdp.paths = paths;
    config.driver.faults.send_rate = Some(RATE);
    config.driver.keys = keys;
    Server::bind(config).await.expect("loopback")
}

pub(crate) fn write_object(directory: &Path) -> Vec<u8> {
    let mut random = Seed(30).stream("object");
    let bytes: Vec<u8> = (0..SIZE / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    std::fs::write(directory.join("x"), &bytes).expect("written");
    bytes
}

/// Fetches through a router; symbols by path.
async fn fetch(ports: u8, paths: u16, dies: Option<Dies>) -> Vec<u64> {
    fetch_with(ports, paths, dies, None).await
}

async fn fetch_with(ports: u8, paths: u16, dies: Option<Dies>, keys: Keys) -> Vec<u64> {
    let (served, got) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let bytes = write_object(served.path());
    let server = server(served.path(), paths, keys.clone()).await;
    let router = Router::start(server.local_addr(), dies);
    let path = got.path().join("x");
    let target = Target::File { path: path.clone(), existing: Existing::Keep };
    let options = FetchOptions::new("x".parse().expect("a name")).cut(short_symbols());
    let report =
        client(ports, keys).fetch(&router.host(), &options, target).await.expect("fetched");
    assert!(std::fs::read(path).expect("there") == bytes);
    assert_eq!(report.replicas.len(), 1, "one host, whatever the paths");
    router.symbols()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_uses_a_path_for_each_port() {
    let symbols = fetch(4, 16, None).await;
    assert_eq!(symbols.len(), 4);
    assert!(symbols.iter().all(|path| *path > 100), "{symbols:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_goes_on_without_a_path_that_dies() {
    for path in [0, 2] {
        let symbols = fetch(4, 16, Some(Dies { path, after: 500 })).await;
        let others: u64 =
            symbols.iter().enumerate().filter(|(number, _)| *number != path).map(|(_, n)| n).sum();
        assert!(others as usize * 1_376 > SIZE * 9 / 10, "{symbols:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_begins_by_another_port_if_the_first_leads_nowhere() {
    let symbols = fetch(3, 16, Some(Dies { path: 0, after: 0 })).await;
    assert!(symbols[0] == 0 && symbols[1] > 1_000, "{symbols:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_by_every_path() {
    let ring = Keyring::new().with_cluster(ClusterKey::generate(), Rights::all());
    let keys = Some(Arc::new(ring));
    let symbols = fetch_with(4, 16, Some(Dies { path: 1, after: 500 }), keys).await;
    assert!(symbols.len() == 4 && symbols.iter().all(|path| *path > 100), "{symbols:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_limits_paths() {
    let symbols = fetch(4, 2, None).await;
    assert_eq!(symbols.iter().filter(|symbols| **symbols > 0).count(), 2, "{symbols:?}");
    let one = fetch(4, 1, None).await;
    assert_eq!(one.iter().filter(|symbols| **symbols > 0).count(), 1, "{one:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_uses_a_path_for_each_port_and_goes_on_without_one_that_dies() {
    let dies = |path| Some(Dies { path, after: 500 });
    for dies in [None, dies(2), dies(0)] {
        let (source, taken) =
            (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        let bytes = write_object(source.path());
        let server = server(taken.path(), 16, None).await;
        let router = Router::start(server.local_addr(), dies);
        let options = PutOptions::new("y".parse().expect("a name")).cut(short_symbols());
        let client = client(4, None);
        client.put(&source.path().join("x"), &router.host(), &options).await.expect("put");
        assert!(std::fs::read(taken.path().join("y")).expect("there") == bytes);
        let symbols = router.symbols();
        assert!(symbols.len() == 4 && symbols.iter().all(|path| *path > 100), "{symbols:?}");
    }
}
