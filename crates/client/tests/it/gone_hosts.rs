//! Hosts that are not there, and hosts that go away and come back.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::relay::Relay;
use crate::served::runtime;
use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, FetchOptions, Host, PutOptions, ReplicaState, Target, Update, Updates,
};
use wellspring_core::{Rate, Seed};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_wire::control::{Parsed, Request, parse};

/// A client that would wait for ten minutes.
fn client() -> Client {
    let config = ClientConfig::default().timeout(Duration::from_secs(600));
    Client::new(config).expect("client")
}

/// An address where nobody listens.
fn nobody() -> Host {
    let socket = std::net::UdpSocket::bind(own_address()).expect("socket");
    socket.local_addr().expect("bound").to_string().parse().expect("host")
}

async fn serve(directory: &Path, bind: SocketAddr) -> Server {
    let mut config = ServerConfig::new(bind, directory.to_owned());
    config.driver.faults.send_rate = Some(Rate::from_mbps(20));
    Server::bind(config).await.expect("server")
}

#[test]
fn a_closed_port_is_known_at_once_and_named() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), b"hello").expect("write");
    runtime().block_on(async {
        let client = client();
        let options = FetchOptions::new("x".parse().expect("name"));
        let target = Target::File { path: home.path().join("got"), existing: Existing::Keep };
        let error = client.fetch(&[nobody()], &options, target).await;
        let text = error.expect_err("nobody is there").to_string();
        assert!(text.contains("connection refused"), "{text}");
        let options = PutOptions::new("x".parse().expect("name"));
        let file = home.path().join("x");
        let error = client.put(&file, &[nobody()], &options).await;
        let text = error.expect_err("nobody is there").to_string();
        assert!(text.contains("connection refused"), "{text}");
    });
}

#[test]
fn a_closed_port_beside_a_host_that_serves_is_named_in_the_report() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), vec![7; 1_000_000]).expect("write");
    runtime().block_on(async {
        let server = serve(home.path(), own_address()).await;
        let hosts = [server.local_addr().to_string().parse().expect("host"), nobody()];
        let options = FetchOptions::new("x".parse().expect("name"));
        let target = Target::File { path: home.path().join("got"), existing: Existing::Keep };
        let report = client().fetch(&hosts, &options, target).await.expect("one host serves");
        match &report.replicas[1].state {
            ReplicaState::Unused(reason) => {
                assert!(reason.contains("connection refused"), "{reason}");
            }
            state => panic!("{state:?}"),
        }
    });
}

#[test]
fn a_fetch_from_one_host_outlives_its_restart_which_is_named() {
    let home = tempfile::tempdir().expect("temporary directory");
    let mut stream = Seed(3).stream("object");
    let bytes: Vec<u8> = (0..4_000_000).map(|_| stream.next_u64() as u8).collect();
    let served = home.path().join("served");
    std::fs::create_dir(&served).expect("directory");
    std::fs::write(served.join("x"), &bytes).expect("write");
    runtime().block_on(async {
        let first = serve(&served, own_address()).await;
        let address = first.local_addr();
        let (half, seen) = (Arc::new(tokio::sync::Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let restart = {
            let (half, served, address) = (Arc::clone(&half), served.clone(), address);
            tokio::spawn(async move {
                half.notified().await;
                first.shut_down().await;
                serve(&served, address).await
            })
        };
        let updates = {
            let (seen, told) = (Arc::clone(&seen), AtomicBool::new(false));
            Updates::to(move |update| match update {
                Update::Moving { done, total, .. } => {
                    if done > total / 10 && !told.swap(true, Relaxed) {
                        half.notify_one();
                    }
                }
                update => seen.lock().expect("no panic").push(format!("{update:?}")),
            })
        };
        let options = FetchOptions::new("x".parse().expect("name")).updates(updates);
        let to = home.path().join("got");
        let target = Target::File { path: to.clone(), existing: Existing::Keep };
        let hosts = [Host::from(address)];
        client().fetch(&hosts, &options, target).await.expect("it is back");
        restart.await.expect("restarted").shut_down().await;
        assert!(std::fs::read(to).expect("read") == bytes);
        let seen = seen.lock().expect("no panic");
        assert!(seen.iter().any(|update| update.contains("has restarted")), "{seen:?}");
    });
}

/// An ICMP message that says that nobody listens at `server`, as if in answer to a datagram of `client`'s.
fn port_unreachable(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let (SocketAddr::V4(client), SocketAddr::V4(server)) = (client, server) else {
        panic!("IPv4 only")
    };
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&[0x45, 0, 1, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    message.extend_from_slice(&client.ip().octets());
    message.extend_from_slice(&server.ip().octets());
    message.extend_from_slice(&client.port().to_be_bytes());
    message.extend_from_slice(&server.port().to_be_bytes());
    message.extend_from_slice(&[1, 8, 0, 0]);
    let pairs = message.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = pairs.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let check = !((folded & 0xffff) + (folded >> 16)) as u16;
    message[2..4].copy_from_slice(&check.to_be_bytes());
    message
}

#[test]
fn forged_reports_of_a_closed_port_end_no_request() {
    let raw = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::RAW,
        Some(socket2::Protocol::ICMPV4),
    );
    let raw = match raw {
        Ok(raw) => raw,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI has the right to open raw sockets");
            return println!("NOT TESTED: no CAP_NET_RAW: {error}");
        }
    };
    let home = tempfile::tempdir().expect("temporary directory");
    let served = home.path().join("served");
    std::fs::create_dir(&served).expect("directory");
    std::fs::write(served.join("x"), vec![7; 100_000]).expect("write");
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("socket");
    let (front, back) = (bind(), bind());
    for socket in [&front, &back] {
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
    }
    let address = front.local_addr().expect("bound");
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = runtime();
    let server = runtime.block_on(serve(&served, own_address()));
    let (server_at, stopped) = (server.local_addr(), Arc::clone(&stop));
    // Loses the first attempt, and meets every datagram of the client's with three forged reports.
    let forger = std::thread::spawn(move || {
        let (mut buffer, mut client, mut reports) = (vec![0; 65_536], None, 0);
        while !stopped.load(Relaxed) {
            if let Ok((len, from)) = front.recv_from(&mut buffer) {
                for _ in 0..3 {
                    let report = port_unreachable(from, address);
                    raw.send_to(&report, &from.into()).expect("sent");
                    reports += 1;
                }
                if client.replace(from).is_some() {
                    back.send_to(&buffer[..len], server_at).expect("sent");
                }
            }
            if let (Ok((len, _)), Some(client)) = (back.recv_from(&mut buffer), client) {
                front.send_to(&buffer[..len], client).expect("sent");
            }
        }
        reports
    });
    let mut config = ClientConfig::default().timeout(Duration::from_secs(20));
    config.driver.socket.bind = "127.0.0.1:0".parse().expect("an address");
    let fetched = runtime.block_on(async {
        let client = Client::new(config).expect("client");
        let options = FetchOptions::new("x".parse().expect("name"));
        let target = Target::File { path: home.path().join("got"), existing: Existing::Keep };
        let host: Host = address.to_string().parse().expect("host");
        let report = client.fetch(&[host], &options, target).await;
        (report, client.statistics().expect("running").received.icmp_errors)
    });
    stop.store(true, Relaxed);
    let reports = forger.join().expect("no panic");
    let (report, seen) = fetched;
    println!("{reports} reports were forged, {seen} seen");
    report.expect("fetched");
    assert!(seen >= 2, "then nothing is shown");
}

#[test]
fn a_host_that_falls_silent_holds_up_no_page_of_the_hash_tree() {
    let home = tempfile::tempdir().expect("temporary directory");
    let mut stream = Seed(5).stream("object");
    let bytes: Vec<u8> = (0..2_000_000).map(|_| stream.next_u64() as u8).collect();
    std::fs::write(home.path().join("x"), &bytes).expect("write");
    runtime().block_on(async {
        let servers =
            [serve(home.path(), own_address()).await, serve(home.path(), own_address()).await];
        // It sends symbols, and never learns that it is asked for a page.
        let deaf = |datagram: &mut Vec<u8>| {
            if let Ok(Parsed::Request { request: Request::Manifest { .. }, .. }) = parse(datagram) {
                datagram.clear();
            }
        };
        let relay = Relay::start_both(servers[1].local_addr(), deaf, |_| {});
        let [heard, silent] = [servers[0].local_addr(), relay.address()];
        // Whichever is asked first.
        for (name, hosts) in [("one", [heard, silent]), ("other", [silent, heard])] {
            let hosts = hosts.map(|address| address.to_string().parse().expect("host"));
            let options = FetchOptions::new("x".parse().expect("name"));
            let to = home.path().join(name);
            let target = Target::File { path: to.clone(), existing: Existing::Keep };
            let client = client();
            let fetch = client.fetch(&hosts, &options, target);
            let ended = tokio::time::timeout(Duration::from_secs(60), fetch).await;
            ended.expect("it would wait for ten minutes").expect("fetched");
            assert!(std::fs::read(to).expect("read") == bytes);
        }
    });
}
