//! Servers whose settings change while they send, and servers that stop.

use std::sync::Arc;
use std::time::Duration;

use crate::served::{self, GUARD, Served, client, fetch};
use tokio::task::JoinHandle;
use wellspring_client::store::tree::listing::SampleSize;
use wellspring_client::{Client, FetchError, FetchOptions, Updates};
use wellspring_core::Rate;
use wellspring_server::{ServerConfig, ServerEvent};
use wellspring_testkit::random_bytes;
use wellspring_trust::{Keyring, Peer, PrivateKey, Rights, private_from_text, private_to_text};

const LEN: usize = 2_000_000;
/// At which the object takes minutes.
const SLOW: Rate = Rate::from_mbps(1);

fn options() -> FetchOptions {
    FetchOptions::new("object".parse().expect("a name"))
}

/// A server that has begun to send slowly, and that fetch.
async fn slow(
    client: &Arc<Client>,
    change: impl FnOnce(&mut ServerConfig),
) -> (Served, JoinHandle<Result<(), FetchError>>) {
    let bytes = random_bytes(LEN, 5);
    let mut served = Served::with(&bytes, |config| {
        config.driver.send_rate = Some(SLOW);
        change(config);
    })
    .await;
    let (client, host) = (Arc::clone(client), served.host());
    let fetching = tokio::spawn(async move {
        let folder = tempfile::tempdir().expect("directory");
        let path = folder.path().join("fetched");
        client.fetch(&[host], &options(), served::to_file(&path)).await?;
        assert!(std::fs::read(path).expect("read") == bytes, "other bytes");
        Ok(())
    });
    served.wait_for(|event| matches!(event, ServerEvent::Sending { .. })).await;
    (served, fetching)
}

async fn end(fetching: JoinHandle<Result<(), FetchError>>) -> Result<(), FetchError> {
    tokio::time::timeout(GUARD, fetching).await.expect("it ends").expect("no panic")
}

fn copy(key: &PrivateKey) -> PrivateKey {
    private_from_text(&private_to_text(key)).expect("a key")
}

fn peer(name: &str, key: &PrivateKey, rights: Rights) -> Peer {
    Peer { name: name.to_owned(), key: key.public(), rights, addresses: Vec::new() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_taken_away_ends_no_transfer_and_begins_none() {
    let (own, servers) = (PrivateKey::generate(), PrivateKey::generate());
    let at_client = Keyring::new().with_own(copy(&own)).with_peer(peer(
        "server",
        &servers,
        Rights { serve: true, ..Rights::default() },
    ));
    let at_server =
        Keyring::new().with_own(copy(&servers)).with_peer(peer("alice", &own, Rights::all()));
    let client = Arc::new(client(|config| config.driver.keys = Some(Arc::new(at_client))));
    let with_keys = |config: &mut ServerConfig| config.driver.keys = Some(Arc::new(at_server));
    let (served, fetched) = slow(&client, with_keys).await;
    let mut settings = ServerConfig::new(served::loopback(), ".".into()).settings();
    assert!(served.server.reload(settings.clone()).is_err(), "without keys from now on");
    // Nobody is trusted any more, and the rate is lifted, or the fetch would not end.
    settings.keys = Some(Arc::new(Keyring::new().with_own(servers)));
    served.server.reload(settings).expect("reloaded");
    end(fetched).await.expect("fetched");
    let folder = tempfile::tempdir().expect("directory");
    let again = fetch(&client, &[&served], &options(), &folder.path().join("again")).await;
    let error = again.expect_err("refused").to_string();
    assert!(error.contains("no right"), "{error}");
    // Nor what every key may have.
    let server = served.server.local_addr();
    let sample = client.fetch_sample(server, SampleSize::Small, Updates::default()).await;
    let error = sample.expect_err("refused").to_string();
    assert!(error.contains("not known any more"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_change_while_a_server_runs() {
    let mut served = Served::new(b"x").await;
    std::fs::write(served.folder.path().join(".hidden"), b"y").expect("write");
    let client = client(|_| {});
    let folder = tempfile::tempdir().expect("directory");
    let hidden = FetchOptions::new(".hidden".parse().expect("a name"));
    let path = folder.path().join("fetched");
    fetch(&client, &[&served], &hidden, &path).await.expect_err("hidden");
    let mut settings = ServerConfig::new(served::loopback(), ".".into()).settings();
    settings.permissions.hidden = true;
    served.server.reload(settings).expect("reloaded");
    fetch(&client, &[&served], &hidden, &path).await.expect("not hidden any more");
    served.wait_for(|event| matches!(event, ServerEvent::Sent { .. })).await;
    let counters = served.server.counters();
    assert_eq!((counters.sends.begun, counters.sends.complete, counters.sends.failed), (1, 1, 0));
    assert!(counters.digests_computed > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_lets_transfers_end_and_begins_none() {
    let [client, stranger] = [(); 2].map(|()| Arc::new(client(|_| {})));
    let (served, fetched) = slow(&client, |_| {}).await;
    // At once: one is under way.
    assert_eq!(served.server.drain(Duration::ZERO).await, 1);
    assert!(served.server.is_draining());
    let folder = tempfile::tempdir().expect("directory");
    let other = fetch(&stranger, &[&served], &options(), &folder.path().join("other")).await;
    let error = other.expect_err("refused").to_string();
    assert!(error.contains("stopping"), "{error}");
    let draining = served.server.drain(GUARD);
    let mut settings = ServerConfig::new(served::loopback(), ".".into()).settings();
    settings.send_rate = None;
    served.server.reload(settings).expect("reloaded");
    let (left, fetched) = tokio::join!(draining, end(fetched));
    assert_eq!(left, 0);
    fetched.expect("fetched");
    served.server.shut_down().await;
}
