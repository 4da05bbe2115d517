//! Transfers through a NAT that gives the client another port while they run.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use wellspring_client::{Client, ClientConfig, FetchOptions, Host, PutOptions};
use wellspring_core::Rate;
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_trust::{Keyring, Rights};

use crate::keyrings::pinned;
use crate::served::{runtime, to_file, until_moved};

const LOOPBACK: &str = "127.0.0.1:0";
const LEN: usize = 4_000_000;

/// Between one client and one server; ends when it is dropped.
struct Nat {
    address: SocketAddr,
    server: SocketAddr,
    /// The ports that the client has had at the server, the one in use last. Nothing is heard at the others.
    ports: Arc<Mutex<Vec<Arc<UdpSocket>>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Nat {
    fn before(server: SocketAddr) -> Self {
        let front = Arc::new(socket());
        let address = front.local_addr().expect("bound");
        let (ports, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let mut nat = Nat { address, server, ports, stop, threads: Vec::new() };
        nat.change_port();
        let client = Arc::new(Mutex::new(None));
        let there = {
            let (front, client) = (Arc::clone(&front), Arc::clone(&client));
            nat.relay(move |port, bytes| {
                let Ok((len, from)) = front.recv_from(bytes) else { return };
                *client.lock().expect("no panic") = Some(from);
                // A lost datagram is what networks do.
                let _ = port().send(&bytes[..len]);
            })
        };
        let back = nat.relay(move |port, bytes| {
            let Ok(len) = port().recv(bytes) else { return };
            if let Some(client) = *client.lock().expect("no panic") {
                let _ = front.send_to(&bytes[..len], client);
            }
        });
        nat.threads = vec![there, back];
        nat
    }

    /// Passes datagrams on, of which each is done by `one`, until the end.
    fn relay(
        &self,
        mut one: impl FnMut(&dyn Fn() -> Arc<UdpSocket>, &mut [u8]) + Send + 'static,
    ) -> JoinHandle<()> {
        let (ports, stop) = (Arc::clone(&self.ports), Arc::clone(&self.stop));
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            let port = || Arc::clone(ports.lock().expect("no panic").last().expect("one"));
            while !stop.load(Relaxed) {
                one(&port, &mut bytes);
            }
        })
    }

    /// Forgets the client, which has another port from now on.
    fn change_port(&self) {
        let port = socket();
        port.connect(self.server).expect("connected");
        self.ports.lock().expect("no panic").push(Arc::new(port));
    }

    fn host(&self) -> [Host; 1] {
        [self.address.into()]
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("no panic"));
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(LOOPBACK).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
    socket
}

/// So slow that a transfer takes a second or two.
fn slow() -> Option<Rate> {
    Some(Rate::from_mbps(20))
}

async fn serve(directory: &Path, keys: Keyring) -> Server {
    let mut config = ServerConfig::new(own_address(), directory.to_owned());
    config.allow_put = true;
    config.driver.keys = Some(Arc::new(keys));
    config.driver.faults.send_rate = slow();
    Server::bind(config).await.expect("a server")
}

fn client(keys: Keyring) -> Client {
    let mut config = ClientConfig::default().timeout(Duration::from_secs(20));
    config.driver.socket.bind = LOOPBACK.parse().expect("an address");
    config.driver.keys = Some(Arc::new(keys));
    config.driver.faults.send_rate = slow();
    Client::new(config).expect("a client")
}

fn content() -> Vec<u8> {
    (0..LEN).map(|n| ((n * n) >> 7) as u8).collect()
}

#[test]
fn a_get_goes_on_when_the_clients_port_changes() {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::write(home.path().join("object"), content()).expect("written");
    runtime().block_on(async {
        let (of_client, of_server) = pinned(Rights::all());
        let server = serve(home.path(), of_server).await;
        let (nat, client) = (Nat::before(server.local_addr()), client(of_client));
        let (updates, reached) = until_moved(LEN as u64 / 4);
        let options = FetchOptions::new("object".parse().expect("a name")).updates(updates);
        let (path, hosts) = (home.path().join("fetched"), nat.host());
        let change = async {
            reached.await.expect("it moves");
            nat.change_port();
        };
        let (fetched, ()) = tokio::join!(client.fetch(&hosts, &options, to_file(&path)), change);
        fetched.expect("fetched");
        assert!(std::fs::read(path).expect("there") == content());
    });
}

#[test]
fn a_put_goes_on_in_its_session_when_the_clients_port_changes() {
    let home = tempfile::tempdir().expect("a directory");
    let served = home.path().join("served");
    std::fs::create_dir(&served).expect("a directory");
    let path = home.path().join("object");
    std::fs::write(&path, content()).expect("written");
    runtime().block_on(async {
        let (of_client, of_server) = pinned(Rights::all());
        let server = serve(&served, of_server).await;
        let (nat, client) = (Nat::before(server.local_addr()), client(of_client));
        // The second finds a client that has moved before.
        for name in ["once", "again"] {
            let (updates, reached) = until_moved(LEN as u64 / 4);
            let options = PutOptions::new(name.parse().expect("a name")).updates(updates);
            let hosts = nat.host();
            let change = async {
                reached.await.expect("it moves");
                nat.change_port();
            };
            let (put, ()) = tokio::join!(client.put(&path, &hosts, &options), change);
            put.expect("put");
            assert!(std::fs::read(served.join(name)).expect("there") == content());
        }
        // Who comes from a strange port is not sent away before it can show its key.
        let sent = server.statistics().expect("running").sent;
        assert_eq!(sent.closes_to_strangers, 0, "{sent:?}");
    });
}
