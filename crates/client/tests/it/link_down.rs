//! A path that is down for a while: a transfer outlives it if its time limit is longer.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, FetchOptions, Host, PutOptions, Target, Update, Updates,
};
use wellspring_core::{Rate, Seed};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;

/// How long the path is down: longer than five seconds, which were once the most that was waited.
const DOWN: Duration = Duration::from_secs(7);

/// The path between one client and one server; it goes down once, when told to.
struct DownOnce {
    address: SocketAddr,
    down_since: Arc<Mutex<Option<Instant>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl DownOnce {
    fn to(server: SocketAddr) -> Self {
        let inner = UdpSocket::bind("127.0.0.1:0").expect("socket");
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
            move || down_since.lock().expect("no panic").is_some_and(|at| at.elapsed() < DOWN)
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
        DownOnce { address, down_since, stop, threads }
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
    let mut config = ClientConfig::default().timeout(Duration::from_secs(30));
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
        let path = DownOnce::to(server.local_addr());
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
        let path = DownOnce::to(server.local_addr());
        let options = PutOptions::new("x".parse().expect("name")).updates(path.go_down_half_way());
        let file = home.path().join("x");
        let put = client().put(&file, &path.host(), &options).await;
        put.expect("the limit is thirty seconds");
        assert!(path.was_down());
        assert!(std::fs::read(served.join("x")).expect("read") == bytes);
    });
}
