//! LTTP and NDP with wrong bytes: found by the nodes of the object's hash tree, put right, and whoever sent them named.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

use crate::on_path::{OnDatagrams, OnPath, streams_pass};
use crate::served::{GUARD, Served, blocks_of, by_lttp, client, listing, loopback};
use wellspring_client::{
    Client, FetchError, FetchOptions, FetchProtocol, FetchReport, Host, ReplicaState, Target,
    Update, Updates,
};
use wellspring_core::Rate;
use wellspring_testkit::random_bytes;
use wellspring_wire::control::{Parsed, Reply, emit_reply, parse};
use wellspring_wire::{lttp, ndp};

/// The protocols, with small blocks.
fn protocols() -> [(&'static str, FetchOptions); 2] {
    let ndp = FetchOptions::new("object".parse().expect("a name")).protocol(FetchProtocol::Ndp);
    [("lttp", by_lttp("object").cut(blocks_of(100))), ("ndp", ndp)]
}

fn is_symbol(datagram: &[u8]) -> bool {
    let kind = datagram[0] & 0x0f;
    datagram.len() > 200 && (kind == *lttp::KINDS.start() || kind == ndp::KIND)
}

/// Flips a bit of each symbol from the server that `choose` picks, counted over all; how many were flipped so far.
fn altering(choose: impl Fn(u64) -> bool + Send + 'static) -> (Arc<AtomicU64>, OnDatagrams) {
    altering_those(move |count, _| choose(count))
}

/// The same once: all symbols of a block of LTTP's first session, since some of its symbols are not needed; some packets of
/// NDP's.
fn altering_once() -> (Arc<AtomicU64>, OnDatagrams) {
    let mut first = None;
    altering_those(move |count, datagram| {
        if datagram[0] & 0x0f == ndp::KIND {
            return (100..140).contains(&count);
        }
        let (cookie, block) = (&datagram[4..12], &datagram[12..16]);
        first.get_or_insert_with(|| cookie.to_vec()) == cookie && *block == [0, 0, 0, 5]
    })
}

fn altering_those(
    mut choose: impl FnMut(u64, &[u8]) -> bool + Send + 'static,
) -> (Arc<AtomicU64>, OnDatagrams) {
    let flipped = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&flipped);
    let mut symbols = 0;
    let alter: OnDatagrams = Box::new(move |to_server, datagram| {
        let mut datagram = datagram.to_vec();
        if !to_server && is_symbol(&datagram) {
            symbols += 1;
            if choose(symbols, &datagram) {
                let last = datagram.len() - 1;
                datagram[last - 7] ^= 0x20;
                counter.fetch_add(1, Relaxed);
            }
        }
        vec![(to_server, datagram)]
    });
    (flipped, alter)
}

fn before(served: &Served, datagrams: OnDatagrams) -> (OnPath, Host) {
    let on_path = OnPath::before(served.server.local_addr(), datagrams, streams_pass());
    let host = on_path.address().into();
    (on_path, host)
}

fn local() -> Client {
    client(|config| config.driver.socket.bind = loopback())
}

async fn fetch(
    hosts: &[Host],
    options: &FetchOptions,
    target: Target,
) -> Result<FetchReport, FetchError> {
    let client = local();
    let fetching = client.fetch(hosts, options, target);
    tokio::time::timeout(GUARD, fetching).await.expect("it ends")
}

fn to_file(path: &std::path::Path) -> Target {
    crate::served::to_file(path)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_alters_a_hundredth_of_its_symbols_is_named_and_excluded() {
    let bytes = random_bytes(8_000_000, 1);
    for (name, options) in protocols() {
        let [a, b, c] =
            [Served::new(&bytes).await, Served::new(&bytes).await, Served::new(&bytes).await];
        let (flipped, alter) = altering(|symbol| symbol % 100 == 50);
        let (_liar, lies) = before(&a, alter);
        let path = a.folder.path().join("out");
        let hosts = [lies, b.host(), c.host()];
        let report = fetch(&hosts, &options, to_file(&path)).await.expect("put right");
        assert!(std::fs::read(&path).expect("read") == bytes, "{name}");
        let state = &report.replicas[0].state;
        assert!(
            matches!(state, ReplicaState::Excluded(reason) if reason.contains("wrong bytes")),
            "{name}: {state:?}"
        );
        assert!(flipped.load(Relaxed) > 0);
        assert_eq!(report.replicas[1].state, ReplicaState::Served, "{name}");
        if let Some(lttp) = report.lttp() {
            // What the liar has sent was found out at once, not at its end.
            let of_liar = lttp.parts.iter().filter(|part| part.host == hosts[0].to_string());
            assert!(of_liar.map(|part| part.len).sum::<u64>() < 1_000_000, "{:?}", lttp.parts);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flips_on_the_way_cost_little_and_exclude_nobody() {
    let bytes = random_bytes(3_000_000, 2);
    for (name, options) in protocols() {
        let served = Served::new(&bytes).await;
        let (flipped, alter) = altering_once();
        let (_relay, host) = before(&served, alter);
        let path = served.folder.path().join("out");
        let report = fetch(&[host], &options, to_file(&path)).await.expect("put right");
        assert!(std::fs::read(&path).expect("read") == bytes, "{name}");
        assert!(flipped.load(Relaxed) > 0);
        let replica = &report.replicas[0];
        assert_eq!((&replica.state, replica.altered), (&ReplicaState::Served, 1), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zeros_are_put_right_where_other_bytes_were_written() {
    let bytes = vec![0; 1_000_000];
    for (name, options) in protocols() {
        let served = Served::new(&bytes).await;
        let (flipped, alter) = altering_once();
        let (_relay, host) = before(&served, alter);
        let path = served.folder.path().join("out");
        let report = fetch(&[host], &options, to_file(&path)).await.expect("put right");
        assert!(std::fs::read(&path).expect("read") == bytes, "{name}");
        assert!(flipped.load(Relaxed) > 0 && report.replicas[0].altered == 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_lies_alone_is_named_in_the_error() {
    let bytes = random_bytes(1_000_000, 3);
    for (name, options) in protocols() {
        let served = Served::new(&bytes).await;
        let (_, alter) = altering(|symbol| symbol % 5 == 0);
        let (_relay, host) = before(&served, alter);
        let path = served.folder.path().join("out");
        let fetched = fetch(std::slice::from_ref(&host), &options, to_file(&path)).await;
        let text = fetched.expect_err("a liar").to_string();
        assert!(text.contains(&host.to_string()) && text.contains("wrong bytes"), "{name}: {text}");
        assert!(!path.exists());
    }
}

/// Takes the bytes that are expected, and no others.
struct Compare {
    expected: Arc<Vec<u8>>,
    at: usize,
}

impl Write for Compare {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.expected[self.at..self.at + bytes.len()] != *bytes {
            return Err(io::Error::other("wrong bytes are written"));
        }
        self.at += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_gets_only_verified_bytes() {
    let bytes = Arc::new(random_bytes(3_000_000, 4));
    for (name, options) in protocols() {
        let served = Served::new(&bytes).await;
        let writer = || {
            let expected = Arc::clone(&bytes);
            Target::Writer(Box::new(Compare { expected, at: 0 }))
        };
        fetch(&[served.host()], &options, writer()).await.expect("fetched");
        // Right for a while, and then wrong all the time.
        let (_, alter) = altering(|symbol| symbol > 1_000);
        let (_relay, host) = before(&served, alter);
        let error = fetch(&[host], &options, writer()).await.expect_err("a liar");
        assert!(matches!(error, FetchError::NoReplicaLeft { .. }), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_another_manifest_is_named_and_another_replica_serves() {
    let bytes = random_bytes(1_000_000, 5);
    for (name, options) in protocols() {
        let [a, b] = [Served::new(&bytes).await, Served::new(&bytes).await];
        let forging: OnDatagrams = Box::new(|to_server, datagram| {
            let mut bytes = datagram.to_vec();
            if let Ok(Parsed::Reply { nonce, reply: Reply::Manifest { nodes } }) = parse(datagram) {
                let mut nodes = nodes.to_vec();
                nodes[40] ^= 1;
                bytes.clear();
                emit_reply(nonce, &Reply::Manifest { nodes: &nodes }, &mut bytes);
            }
            vec![(to_server, bytes)]
        });
        let (_relay, forger) = before(&a, forging);
        let path = a.folder.path().join("out");
        let alone = fetch(std::slice::from_ref(&forger), &options, to_file(&path)).await;
        let text = alone.expect_err("no manifest").to_string();
        assert!(text.contains("manifest") && text.contains(&forger.to_string()), "{name}: {text}");
        let report = fetch(&[forger, b.host()], &options, to_file(&path)).await.expect("fetched");
        assert!(std::fs::read(&path).expect("read") == bytes, "{name}");
        assert_eq!(
            report.replicas[1].state == ReplicaState::Served,
            name == "lttp" || { matches!(report.replicas[0].state, ReplicaState::Excluded(_)) }
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_by_lttp_goes_on_where_an_earlier_one_was_interrupted() {
    let bytes = random_bytes(6_000_000, 6);
    let slow = |config: &mut wellspring_server::ServerConfig| {
        config.driver.send_rate = Some(Rate::from_mbps(40));
    };
    let [a, b] = [Served::with(&bytes, slow).await, Served::with(&bytes, slow).await];
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("out");
    let hosts = [a.host(), b.host()];
    let (moved, mut arrived) = watch::channel(0);
    let updates = Updates::to(move |update| {
        if let Update::Moving { done, .. } = update {
            let _ = moved.send(done);
        }
    });
    let options = by_lttp("object").cut(blocks_of(100));
    {
        let client = local();
        let followed = options.clone().updates(updates);
        let fetching = client.fetch(&hosts, &followed, to_file(&path));
        let half = arrived.wait_for(|done| *done > 3_000_000);
        tokio::select! {
            fetched = fetching => panic!("not interrupted: {fetched:?}"),
            half = half => { half.expect("told"); }
        }
    }
    assert_eq!(listing(folder.path()).len(), 1, "the part file");
    let report = fetch(&hosts, &options, to_file(&path)).await.expect("fetched");
    assert!(std::fs::read(&path).expect("read") == bytes);
    let parts = &report.lttp().expect("by LTTP").parts;
    let sent: u64 = parts.iter().map(|part| part.len).sum();
    assert_eq!(sent + report.resumed, bytes.len() as u64);
    assert!(report.resumed > 1_500_000, "{} resumed", report.resumed);
    let mut by_host = BTreeMap::new();
    for part in parts {
        *by_host.entry(&part.host).or_insert(0) += part.len;
    }
    assert_eq!(by_host.len(), 2, "what is missing is dealt to both");
    assert_eq!(listing(folder.path()), ["out"]);
}
