//! Hosts whose paths are down when a put begins.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::relay::Relay;
use crate::served::runtime;
use wellspring_client::{Client, ClientConfig, Host, PutOptions};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::random_bytes;

/// How long the path is down: longer than a host that has accepted waits for others as a rule.
const DOWN: Duration = Duration::from_secs(5);
const LEN: usize = 3_000_000;

async fn serve(folder: &Path, bind: SocketAddr) -> Server {
    fs::create_dir_all(folder).expect("directory");
    let config = ServerConfig::new(bind, folder.to_owned()).allow_put(true);
    Server::bind(config).await.expect("server")
}

/// A relay that passes nothing at first.
fn down_at_first(server: SocketAddr) -> Relay {
    let up = Instant::now() + DOWN;
    let pass = move |datagram: &mut Vec<u8>| {
        if Instant::now() < up {
            datagram.clear();
        }
    };
    Relay::start_both(server, pass, |_| {})
}

/// Puts an object to two hosts, to one of which the path is down at first: both have it in the end.
async fn put_to_two(options: PutOptions) {
    let home = tempfile::tempdir().expect("temporary directory");
    let (file, bytes) = (home.path().join("file"), random_bytes(LEN, 1));
    fs::write(&file, &bytes).expect("written");
    let folders = ["a", "b"].map(|name| home.path().join(name));
    let first = serve(&folders[0], own_address()).await;
    let second = serve(&folders[1], own_address()).await;
    let relay = down_at_first(second.local_addr());
    let mut config = ClientConfig::default().timeout(Duration::from_secs(30));
    config.driver.socket.bind = "127.0.0.1:0".parse().expect("address");
    let client = Client::new(config).expect("client");
    let hosts = [first.local_addr(), relay.address()];
    let hosts: Vec<Host> = hosts.map(|a| a.to_string().parse().expect("host")).into();
    let report = client.put(&file, &hosts, &options).await.expect("both have it");
    assert!(report.elapsed > DOWN, "it was down: {report:#?}");
    for folder in folders {
        assert!(fs::read(folder.join("x")).expect("there") == bytes);
    }
}

fn options() -> PutOptions {
    PutOptions::new("x".parse().expect("name"))
}

#[test]
fn a_put_waits_for_a_host_whose_path_is_down_at_first() {
    runtime().block_on(put_to_two(options()));
}

#[test]
fn a_group_waits_for_a_member_whose_path_is_down_at_first() {
    let port = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let port = port.local_addr().expect("bound").port();
    let group = SocketAddr::new("239.255.47.32".parse().expect("a group"), port);
    runtime().block_on(put_to_two(options().group(Some(group))));
}
