//! Writers of one name: whatever is said to be complete is there, and what is there can be had.

use std::path::Path;
use std::sync::Arc;

use crate::served::runtime;
use tokio::task::JoinSet;
use wellspring_client::store::{Digest, Existing};
use wellspring_client::{Client, ClientConfig, FetchOptions, Host, PutError, PutOptions, Target};
use wellspring_core::Seed;
use wellspring_server::{Server, ServerConfig, ServerEvent};
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::reach;

const WRITERS: usize = 6;
const NAME: &str = "x";

async fn serve(directory: &Path) -> (Server, Host) {
    let bind = own_address();
    let config =
        ServerConfig::new(bind, directory.to_owned()).allow_put(true).allow_overwrite(true);
    let server = Server::bind(config).await.expect("server");
    let host = server.local_addr().to_string().parse().expect("host");
    (server, host)
}

fn client() -> Arc<Client> {
    let mut config = ClientConfig::default();
    config.driver.socket.bind = "127.0.0.1:0".parse().expect("address");
    config.driver.workers = 1;
    Arc::new(Client::new(config).expect("client"))
}

/// A file of each writer: all of one length, all different.
fn files(directory: &Path, seed: u64, len: usize) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    (0..WRITERS)
        .map(|writer| {
            let mut stream = Seed(seed).stream(&format!("writer {writer}"));
            let bytes: Vec<u8> = (0..len).map(|_| stream.next_u64() as u8).collect();
            let path = directory.join(format!("writer-{writer}"));
            std::fs::write(&path, &bytes).expect("written");
            (path, bytes)
        })
        .collect()
}

fn options(overwrite: bool) -> PutOptions {
    PutOptions::new(NAME.parse().expect("name")).overwrite(overwrite)
}

/// Has all writers put at once; tells who was told that the object is complete.
async fn put_at_once(
    clients: &[Arc<Client>],
    files: &[(std::path::PathBuf, Vec<u8>)],
    host: &Host,
    overwrite: bool,
) -> Vec<(usize, Result<(), PutError>)> {
    let mut puts = JoinSet::new();
    for (writer, client) in clients.iter().enumerate() {
        let (client, path, host) = (Arc::clone(client), files[writer].0.clone(), host.clone());
        puts.spawn(async move {
            let put = client.put(&path, &[host], &options(overwrite)).await;
            (writer, put.map(|_| ()))
        });
    }
    puts.join_all().await
}

async fn get(client: &Client, host: &Host, to: &Path) -> (Digest, Vec<u8>) {
    let options = FetchOptions::new(NAME.parse().expect("name"));
    let target = Target::File { path: to.to_owned(), existing: Existing::Replace };
    let report = client
        .fetch(std::slice::from_ref(host), &options, target)
        .await
        .expect("whatever is served can be had");
    (report.digest, std::fs::read(to).expect("read"))
}

#[test]
fn six_writers_of_one_name_leave_one_object_that_verifies_and_nobody_is_lied_to() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let seed = std::env::var("SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    println!("SEED={seed} ROUNDS={rounds}");
    let home = tempfile::tempdir().expect("temporary directory");
    let served = home.path().join("served");
    std::fs::create_dir(&served).expect("directory");
    runtime().block_on(async {
        let (_server, host) = serve(&served).await;
        let clients: Vec<_> = (0..WRITERS).map(|_| client()).collect();
        for round in 0..rounds {
            let files = files(home.path(), seed + round, 20_000);
            let puts = put_at_once(&clients, &files, &host, true).await;
            for (writer, put) in puts {
                put.unwrap_or_else(|error| panic!("round {round}, writer {writer}: {error}"));
            }
            let (digest, bytes) = get(&clients[0], &host, &home.path().join("got")).await;
            assert_eq!(digest.0, *blake3::hash(&bytes).as_bytes());
            assert!(files.iter().any(|(_, written)| *written == bytes), "round {round}");
            // One after the other: what is said to be complete lies there.
            for (writer, client) in clients.iter().enumerate() {
                let (path, written) = &files[writer];
                let put = client.put(path, std::slice::from_ref(&host), &options(true)).await;
                put.unwrap_or_else(|error| panic!("round {round}, writer {writer}: {error}"));
                let there = std::fs::read(served.join(NAME)).expect("read");
                assert!(there == *written, "round {round}: writer {writer} was lied to");
            }
        }
        assert_eq!(std::fs::read_dir(&served).expect("directory").count(), 1, "part files left");
    });
    let what = format!("six writers of one name, {rounds} rounds");
    reach::row(&what, "no lie, no wrong byte", "none", true);
}

#[test]
fn of_six_writers_that_may_not_overwrite_one_succeeds_and_the_others_are_told_so() {
    let home = tempfile::tempdir().expect("temporary directory");
    let served = home.path().join("served");
    std::fs::create_dir(&served).expect("directory");
    runtime().block_on(async {
        let (_server, host) = serve(&served).await;
        let clients: Vec<_> = (0..WRITERS).map(|_| client()).collect();
        for round in 0..10 {
            let files = files(home.path(), 1_000 + round, 20_000);
            let puts = put_at_once(&clients, &files, &host, false).await;
            let winners: Vec<usize> =
                puts.iter().filter(|(_, put)| put.is_ok()).map(|(writer, _)| *writer).collect();
            assert_eq!(winners.len(), 1, "round {round}: {puts:?}");
            let there = std::fs::read(served.join(NAME)).expect("read");
            assert!(there == files[winners[0]].1, "round {round}");
            for (writer, put) in &puts {
                if let Err(error) = put {
                    let text = error.to_string();
                    assert!(text.contains("exists"), "round {round}, writer {writer}: {text}");
                }
            }
            std::fs::remove_file(served.join(NAME)).expect("removed");
        }
    });
}

#[test]
fn a_wrong_digest_in_the_cache_makes_no_put_complete() {
    let home = tempfile::tempdir().expect("temporary directory");
    let served = home.path().join("served");
    std::fs::create_dir(&served).expect("directory");
    // Both lengths: short files are verified at once, long ones beside other requests.
    for len in [30_000, 6_000_000] {
        let files = files(home.path(), 7, len);
        std::fs::write(served.join(NAME), &files[0].1).expect("written");
        let there = std::fs::File::open(served.join(NAME)).expect("open");
        let cache = Arc::new(wellspring_client::store::DigestCache::in_memory());
        let fingerprint = wellspring_client::store::Fingerprint::of(&there).expect("stat");
        cache.insert_own(fingerprint, Digest(*blake3::hash(&files[1].1).as_bytes()));
        runtime().block_on(async {
            let bind = own_address();
            let config = ServerConfig::new(bind, served.clone())
                .allow_put(true)
                .allow_overwrite(true)
                .cache(cache);
            let server = Server::bind(config).await.expect("server");
            let host = [server.local_addr().to_string().parse().expect("host")];
            let client = client();
            let kept = client.put(&files[1].0, &host, &options(false)).await;
            let error = kept.expect_err("other bytes are there").to_string();
            assert!(error.contains("exists"), "{error}");
            client.put(&files[1].0, &host, &options(true)).await.expect("put");
            assert!(std::fs::read(served.join(NAME)).expect("read") == files[1].1);
            // And once more: now it is there, and nothing is sent.
            let again = client.put(&files[1].0, &host, &options(false)).await;
            assert_eq!(again.expect("there already").stats.source_symbols, 0);
        });
    }
}

#[test]
fn a_put_into_a_directory_whose_place_another_one_takes_is_not_complete() {
    let home = tempfile::tempdir().expect("temporary directory");
    let (served, old) = (home.path().join("served"), home.path().join("old"));
    std::fs::create_dir(&served).expect("directory");
    let files = files(home.path(), 9, 1_000_000);
    runtime().block_on(async {
        let mut config = ServerConfig::new(own_address(), served.clone()).allow_put(true);
        let (from, to) = (served.clone(), old.clone());
        config.events = Arc::new(move |event| {
            if matches!(event, ServerEvent::Receiving { .. }) && !to.exists() {
                std::fs::rename(&from, &to).expect("renamed");
                std::fs::create_dir(&from).expect("made");
            }
        });
        let server = Server::bind(config).await.expect("server");
        let host = [server.local_addr().to_string().parse().expect("host")];
        let client = client();
        let put = client.put(&files[0].0, &host, &options(false)).await;
        let told = put.expect_err("it is not in the place").to_string();
        assert!(told.contains("put it again"), "{told}");
        assert!(old.exists() && !old.join(NAME).exists() && !served.join(NAME).exists());
        client.put(&files[0].0, &host, &options(false)).await.expect("put");
        assert!(std::fs::read(served.join(NAME)).expect("read") == files[0].1);
    });
}
