//! Hosts that are not there, and hosts that go away and come back.

mod served;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use served::runtime;
use wellspring_core::{Rate, Seed};
use wellspring_net::store::Existing;
use wellspring_net::{
    Client, ClientConfig, FetchOptions, Host, PutOptions, Server, ServerConfig, Target, Update,
    Updates,
};

/// A client that would wait for an hour.
fn client() -> Client {
    let config = ClientConfig::default().timeout(Duration::from_secs(3_600));
    Client::new(config).expect("client")
}

/// An address where nobody listens.
fn nobody() -> Host {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("socket");
    socket.local_addr().expect("bound").to_string().parse().expect("host")
}

async fn serve(directory: &Path, bind: &str) -> Server {
    let mut config = ServerConfig::new(bind.parse().expect("address"), directory.to_owned());
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
fn a_fetch_from_one_host_outlives_its_restart_which_is_named() {
    let home = tempfile::tempdir().expect("temporary directory");
    let mut stream = Seed(3).stream("object");
    let bytes: Vec<u8> = (0..4_000_000).map(|_| stream.next_u64() as u8).collect();
    let served = home.path().join("served");
    std::fs::create_dir(&served).expect("directory");
    std::fs::write(served.join("x"), &bytes).expect("write");
    runtime().block_on(async {
        let first = serve(&served, "127.0.0.1:0").await;
        let address = first.local_addr().to_string();
        let (half, seen) = (Arc::new(tokio::sync::Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let restart = {
            let (half, served, address) = (Arc::clone(&half), served.clone(), address.clone());
            tokio::spawn(async move {
                half.notified().await;
                first.shut_down().await;
                serve(&served, &address).await
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
        let hosts = [address.parse().expect("host")];
        client().fetch(&hosts, &options, target).await.expect("it is back");
        restart.await.expect("restarted").shut_down().await;
        assert!(std::fs::read(to).expect("read") == bytes);
        let seen = seen.lock().expect("no panic");
        assert!(seen.iter().any(|update| update.contains("has restarted")), "{seen:?}");
    });
}
