//! A path that is down for a while: a transfer outlives it if its time limit is longer.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{JoinHandle as Task, JoinSet};
use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, FetchOptions, FetchProtocol, FetchReport, Host, Method, PutOptions,
    Target, Update, Updates,
};
use wellspring_core::{Rate, Seed};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_trust::{Keyring, Rights};

use crate::keyrings::pinned;
use crate::served::blocks_of;

/// How long the path is down: longer than five seconds, which were once the most that was waited.
const DOWN: Duration = Duration::from_secs(7);
/// How long a server waits for clients that do not say how long they wait.
const SERVERS_OWN: Duration = Duration::from_secs(1);
/// Longer than that, and shorter than half of the client's limit.
const SHORT: Duration = Duration::from_secs(2);
/// Longer than half of the client's limit, and shorter than all of it.
const LONG: Duration = Duration::from_secs(5);
/// The client's limit.
const LIMIT: Duration = Duration::from_secs(8);

/// The path between one client and one server; it goes down once, when told to.
struct DownOnce {
    address: SocketAddr,
    down_since: Arc<Mutex<Option<Instant>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    connections: Task<()>,
}

/// Takes connections, and carries their bytes to the server and back unless the path is down.
async fn carry_connections(
    listener: TcpListener,
    server: SocketAddr,
    is_down: impl Fn() -> bool + Clone + Send + 'static,
) {
    listener.set_nonblocking(true).expect("set");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let mut directions = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let Ok(far) = tokio::net::TcpStream::connect(server).await else { continue };
        let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
        for (mut from, mut to) in [(near_in, far_out), (far_in, near_out)] {
            let is_down = is_down.clone();
            directions.spawn(async move {
                let mut buffer = [0; 4_096];
                while let Ok(len @ 1..) = from.read(&mut buffer).await {
                    while is_down() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    if to.write_all(&buffer[..len]).await.is_err() {
                        return;
                    }
                }
            });
        }
    }
}

/// Sockets of both kinds at one port.
fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
        // The port may be taken by TCP.
        if let Ok(listener) = TcpListener::bind(socket.local_addr().expect("bound")) {
            return (socket, listener);
        }
    }
}

impl DownOnce {
    fn to(server: SocketAddr, down: Duration) -> Self {
        let (inner, listener) = sockets();
        let outer = UdpSocket::bind("127.0.0.1:0").expect("socket");
        let client = Arc::new(Mutex::new(None::<SocketAddr>));
        let down_since = Arc::new(Mutex::new(None::<Instant>));
        let stop = Arc::new(AtomicBool::new(false));
        let address = inner.local_addr().expect("bound");
        for socket in [&inner, &outer] {
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("timeout");
        }
        let is_down = {
            let down_since = Arc::clone(&down_since);
            move || down_since.lock().expect("no panic").is_some_and(|at| at.elapsed() < down)
        };
        let forward = |from: UdpSocket, to: UdpSocket, inward: bool| {
            let (client, stop, is_down) = (Arc::clone(&client), Arc::clone(&stop), is_down.clone());
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while !stop.load(Relaxed) {
                    let Ok((len, who)) = from.recv_from(&mut buffer) else { continue };
                    let target = match inward {
                        true => {
                            *client.lock().expect("no panic") = Some(who);
                            Some(server)
                        }
                        false => *client.lock().expect("no panic"),
                    };
                    if let Some(target) = target.filter(|_| !is_down()) {
                        // A full buffer loses it, as any path may.
                        let _ = to.send_to(&buffer[..len], target);
                    }
                }
            })
        };
        let clones = (inner.try_clone().expect("dup"), outer.try_clone().expect("dup"));
        let threads = vec![forward(inner, outer, true), forward(clones.1, clones.0, false)];
        let connections = tokio::spawn(carry_connections(listener, server, is_down));
        DownOnce { address, down_since, stop, threads, connections }
    }

    fn host(&self) -> [Host; 1] {
        [self.address.to_string().parse().expect("host")]
    }

    /// Takes the path down at the first sign of bytes moving.
    fn go_down_half_way(&self) -> Updates {
        let down_since = Arc::clone(&self.down_since);
        Updates::to(move |update| {
            if let Update::Moving { done, total, .. } = update
                && done > 0
                && done < total
            {
                down_since.lock().expect("no panic").get_or_insert_with(Instant::now);
            }
        })
    }

    fn was_down(&self) -> bool {
        self.down_since.lock().expect("no panic").is_some()
    }
}

impl Drop for DownOnce {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.connections.abort();
        for thread in self.threads.drain(..) {
            thread.join().expect("no panic");
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("runtime")
}

/// Slow enough that a transfer takes a second or two.
fn slow() -> Option<Rate> {
    Some(Rate::from_mbps(20))
}

async fn serve(directory: &Path) -> Server {
    let bind = own_address();
    let mut config = ServerConfig::new(bind, directory.to_owned());
    config.allow_put = true;
    config.driver.faults.send_rate = slow();
    Server::bind(config).await.expect("server")
}

fn client() -> Client {
    client_with(Duration::from_secs(30), None)
}

fn client_with(timeout: Duration, keys: Option<Arc<Keyring>>) -> Client {
    let mut config = ClientConfig::default().timeout(timeout);
    config.driver.keys = keys;
    config.driver.socket.bind = "127.0.0.1:0".parse().expect("address");
    config.driver.faults.send_rate = slow();
    Client::new(config).expect("client")
}

fn an_object(seed: u64) -> Vec<u8> {
    let mut stream = Seed(seed).stream("object");
    (0..4_000_000).map(|_| stream.next_u64() as u8).collect()
}

#[test]
fn a_get_with_a_longer_time_limit_outlives_a_path_that_is_down() {
    let home = tempfile::tempdir().expect("temporary directory");
    let bytes = an_object(1);
    std::fs::write(home.path().join("x"), &bytes).expect("written");
    runtime().block_on(async {
        let server = serve(home.path()).await;
        let path = DownOnce::to(server.local_addr(), DOWN);
        let options =
            FetchOptions::new("x".parse().expect("name")).updates(path.go_down_half_way());
        let to = home.path().join("got");
        let target = Target::File { path: to.clone(), existing: Existing::Keep };
        let fetched = client().fetch(&path.host(), &options, target).await;
        fetched.expect("the limit is thirty seconds");
        assert!(path.was_down());
        assert!(std::fs::read(to).expect("read") == bytes);
    });
}

#[test]
fn a_put_with_a_longer_time_limit_outlives_a_path_that_is_down() {
    let home = tempfile::tempdir().expect("temporary directory");
    let (bytes, served) = (an_object(2), home.path().join("served"));
    std::fs::create_dir(&served).expect("directory");
    std::fs::write(home.path().join("x"), &bytes).expect("written");
    runtime().block_on(async {
        let server = serve(&served).await;
        let path = DownOnce::to(server.local_addr(), DOWN);
        let options = PutOptions::new("x".parse().expect("name")).updates(path.go_down_half_way());
        let file = home.path().join("x");
        let put = client().put(&file, &path.host(), &options).await;
        put.expect("the limit is thirty seconds");
        assert!(path.was_down());
        assert!(std::fs::read(served.join("x")).expect("read") == bytes);
    });
}

/// Fetches by a path that is down for longer than the server waits by itself, and shorter than the client.
fn fetched(down: Duration, options: FetchOptions, keys: bool) -> FetchReport {
    let home = tempfile::tempdir().expect("temporary directory");
    let (bytes, served) = (an_object(3), home.path().join("served"));
    std::fs::create_dir(&served).expect("directory");
    std::fs::write(served.join("x"), &bytes).expect("written");
    let (of_client, of_server) = match keys.then(|| pinned(Rights::all())) {
        Some((client, server)) => (Some(Arc::new(client)), Some(Arc::new(server))),
        None => (None, None),
    };
    runtime().block_on(async {
        let server = impatient_server(&served, of_server).await;
        let path = DownOnce::to(server.local_addr(), down);
        let options = options.updates(path.go_down_half_way());
        let to = home.path().join("got");
        let target = Target::File { path: to.clone(), existing: Existing::Keep };
        let client = client_with(LIMIT, of_client);
        let report = client.fetch(&path.host(), &options, target).await;
        let report = report.expect("the limit is longer");
        assert!(path.was_down());
        assert!(std::fs::read(to).expect("read") == bytes);
        report
    })
}

async fn impatient_server(directory: &Path, keys: Option<Arc<Keyring>>) -> Server {
    let mut config = ServerConfig::new(own_address(), directory.to_owned());
    let driver = &mut config.driver;
    driver.faults.send_rate = slow();
    driver.keys = keys;
    driver.scdp.peer_timeout = wellspring_core::Duration::from_secs(SERVERS_OWN.as_secs());
    driver.ndp.peer_timeout = driver.scdp.peer_timeout;
    driver.lttp.peer_timeout = driver.scdp.peer_timeout;
    config.lttp.timeout = SERVERS_OWN;
    Server::bind(config).await.expect("server")
}

fn options(protocol: FetchProtocol) -> FetchOptions {
    FetchOptions::new("x".parse().expect("name")).protocol(protocol)
}

fn by_lttp() -> FetchOptions {
    options(FetchProtocol::Lttp { method: Method::Improved }).cut(blocks_of(128))
}

#[test]
fn a_server_with_keys_waits_by_scdp_as_long_as_its_client() {
    let report = fetched(SHORT, options(FetchProtocol::Scdp), true);
    assert_eq!(report.replicas[0].losses, 0);
}

#[test]
fn a_server_waits_by_ndp_as_long_as_its_client() {
    fetched(LONG, options(FetchProtocol::Ndp), false);
}

#[test]
fn a_server_waits_by_lttp_as_long_as_its_client() {
    let report = fetched(SHORT, by_lttp(), false);
    assert_eq!(report.replicas[0].losses, 0, "{report:?}");
}

#[test]
fn a_server_that_is_silent_for_long_is_asked_by_lttp_over_a_new_connection() {
    let report = fetched(LONG, by_lttp(), true);
    let replica = &report.replicas[0];
    assert_eq!((replica.losses, replica.returns), (1, 1), "{report:?}");
}
