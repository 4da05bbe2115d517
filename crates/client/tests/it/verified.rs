//! Bytes that are wrong: replicas that lie, damage on the way, manifests that do not fit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::relay::{Relay, is_symbol};
use crate::served::{runtime, short_symbols};
use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, Cut, FetchError, FetchOptions, FetchReport, Host, LONG_SYMBOL_SIZE,
    PutError, PutOptions, PutReport, ReplicaState, Target,
};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::random_bytes;
use wellspring_wire::control::{MAX_NODES, Parsed, Reply, emit_reply, parse};

/// What no transfer here should take: a guard, not a measure.
const GUARD: Duration = Duration::from_secs(60);

async fn serve(bytes: &[u8]) -> (tempfile::TempDir, Server) {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), bytes).expect("write");
    let config = ServerConfig::new(own_address(), home.path().to_owned());
    let server = Server::bind(config).await.expect("server");
    (home, server)
}

fn host(address: std::net::SocketAddr) -> Host {
    address.to_string().parse().expect("a host")
}

async fn fetch(hosts: &[Host], path: &Path) -> Result<FetchReport, FetchError> {
    fetch_as(hosts, path, short_symbols()).await
}

async fn fetch_as(hosts: &[Host], path: &Path, cut: Cut) -> Result<FetchReport, FetchError> {
    let config = ClientConfig::default().timeout(Duration::from_secs(5));
    let client = Client::new(config).expect("client");
    let options = FetchOptions::new("x".parse().expect("name")).cut(cut);
    let target = Target::File { path: path.to_owned(), existing: Existing::Replace };
    let fetched = client.fetch(hosts, &options, target);
    tokio::time::timeout(GUARD, fetched).await.expect("ends")
}

/// Flips a bit of each symbol that `choose` picks; how many were flipped so far.
fn altering(
    choose: impl Fn(u64) -> bool + Send + 'static,
) -> (Arc<AtomicU64>, impl FnMut(&mut Vec<u8>) + Send + 'static) {
    let flipped = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&flipped);
    let mut symbols = 0;
    (flipped, move |datagram| {
        if is_symbol(datagram) {
            symbols += 1;
            if choose(symbols) {
                let last = datagram.len() - 1;
                datagram[last - 7] ^= 0x20;
                counter.fetch_add(1, Relaxed);
            }
        }
    })
}

#[test]
fn one_of_three_replicas_that_alters_a_hundredth_of_its_symbols_is_named_and_excluded() {
    let bytes = random_bytes(40_000_000, 1);
    runtime().block_on(async {
        let [a, b, c] = [serve(&bytes).await, serve(&bytes).await, serve(&bytes).await];
        let (flipped, alter) = altering(|symbol| symbol % 100 == 50);
        let liar = Relay::start(b.1.local_addr(), alter);
        let hosts = [host(a.1.local_addr()), host(liar.address()), host(c.1.local_addr())];
        let out = a.0.path().join("out");
        let report = fetch(&hosts, &out).await.expect("put right by the others");
        assert!(std::fs::read(&out).expect("read") == bytes);
        let replicas = &report.replicas;
        assert!(matches!(&replicas[1].state, ReplicaState::Excluded(r) if r.contains("altered")));
        assert!(replicas[1].altered >= 2 && flipped.load(Relaxed) >= 2);
        for honest in [0, 2] {
            assert_eq!(replicas[honest].state, ReplicaState::Served);
            assert_eq!(replicas[honest].altered, 0);
        }
        let over = report.scdp().expect("by SCDP").overhead_needed();
        assert!(over <= 0.02, "{over}: {report:#?}");
    });
}

#[test]
fn a_flip_on_the_way_costs_a_symbol_or_two_and_excludes_nobody() {
    let bytes = random_bytes(30_000_000, 2);
    runtime().block_on(async {
        let (home, server) = serve(&bytes).await;
        let (flipped, alter) = altering(|symbol| symbol == 5_000);
        let relay = Relay::start(server.local_addr(), alter);
        let out = home.path().join("out");
        let report = fetch(&[host(relay.address())], &out).await.expect("put right");
        assert_eq!(flipped.load(Relaxed), 1);
        assert!(std::fs::read(&out).expect("read") == bytes);
        assert_eq!(report.replicas[0].state, ReplicaState::Served);
        assert_eq!(report.replicas[0].altered, 1);
    });
}

#[test]
fn a_replica_that_lies_alone_is_named_in_the_error() {
    let bytes = random_bytes(3_000_000, 3);
    runtime().block_on(async {
        for one_in in [1, 5] {
            let (home, server) = serve(&bytes).await;
            let (_, alter) = altering(move |symbol| symbol % one_in == 0);
            let relay = Relay::start(server.local_addr(), alter);
            let out = home.path().join("out");
            let error = fetch(&[host(relay.address())], &out).await.expect_err("a liar");
            let text = error.to_string();
            assert!(text.contains(&relay.address().to_string()), "{text}");
            assert!(text.contains("altered symbols"), "{text}");
            assert!(!out.exists());
        }
    });
}

#[test]
fn two_of_three_replicas_may_lie() {
    let bytes = random_bytes(8_000_000, 4);
    runtime().block_on(async {
        let [a, b, c] = [serve(&bytes).await, serve(&bytes).await, serve(&bytes).await];
        let liars = [&a, &c].map(|(_, server)| {
            let (_, alter) = altering(|symbol| symbol % 3 == 0);
            Relay::start(server.local_addr(), alter)
        });
        let [first, last] = &liars;
        let hosts = [host(first.address()), host(b.1.local_addr()), host(last.address())];
        let out = a.0.path().join("out");
        let report = fetch(&hosts, &out).await.expect("one is honest");
        assert!(std::fs::read(&out).expect("read") == bytes);
        assert_eq!(report.replicas[1].state, ReplicaState::Served);
        for liar in [&report.replicas[0], &report.replicas[2]] {
            // Where the honest one was quick enough, a liar's symbols came too late to be of use.
            let used = liar.stats.as_ref().is_some_and(|stats| stats.useful > 0);
            let excluded = matches!(liar.state, ReplicaState::Excluded(_));
            assert!(excluded || !used, "{report:#?}");
        }
    });
}

/// Puts other nodes in the pages of manifests that pass.
fn forging(
    forge: impl Fn(&mut Vec<u8>) + Send + 'static,
) -> impl FnMut(&mut Vec<u8>) + Send + 'static {
    move |datagram| {
        let Ok(Parsed::Reply { nonce, reply: Reply::Manifest { nodes } }) = parse(datagram) else {
            return;
        };
        let mut nodes = nodes.to_vec();
        forge(&mut nodes);
        nodes.truncate(32 * MAX_NODES);
        let mut forged = Vec::new();
        emit_reply(nonce, &Reply::Manifest { nodes: &nodes }, &mut forged);
        *datagram = forged;
    }
}

/// What is done to the nodes of a page, and its name.
type Forgery = (&'static str, fn(&mut Vec<u8>));

#[test]
fn manifests_that_do_not_fit_are_refused_and_whoever_sent_them_is_named() {
    let forgeries: [Forgery; 4] = [
        ("another node", |nodes| nodes[40] ^= 1),
        ("too few", |nodes| nodes.truncate(32)),
        ("too many", |nodes| nodes.resize(32 * MAX_NODES, 9)),
        ("of another object", |nodes| nodes.fill(7)),
    ];
    let bytes = random_bytes(2_000_000, 5);
    runtime().block_on(async {
        for (name, forge) in forgeries {
            let [a, b] = [serve(&bytes).await, serve(&bytes).await];
            let relay = Relay::start(a.1.local_addr(), forging(forge));
            let out = a.0.path().join("out");
            let error = fetch(&[host(relay.address())], &out).await.expect_err("no manifest");
            let text = error.to_string();
            assert!(
                text.contains("manifest") && text.contains(&relay.address().to_string()),
                "{text}"
            );
            // Another replica has the right one.
            let hosts = [host(relay.address()), host(b.1.local_addr())];
            let report = fetch(&hosts, &out).await.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(std::fs::read(&out).expect("read") == bytes);
            let state = &report.replicas[0].state;
            let asked_the_other = *state == ReplicaState::Served;
            assert!(
                asked_the_other || matches!(state, ReplicaState::Excluded(_)),
                "{name}: {state:?}"
            );
        }
    });
}

#[test]
fn objects_of_any_size_are_verified() {
    runtime().block_on(async {
        let short = [1, 1_023, 1_025, 131_071, 131_072, 131_073, 5_000_000, 200_000_001]
            .map(|len| (len, short_symbols(), 131_072));
        let long = [1, 8_193, 524_287, 524_288, 524_289, 5_000_000]
            .map(|len| (len, Cut::default(), 64 * usize::from(LONG_SYMBOL_SIZE)));
        for (len, cut, block) in short.into_iter().chain(long) {
            let bytes = random_bytes(len, 6);
            let (home, server) = serve(&bytes).await;
            let out = home.path().join("out");
            let report = fetch_as(&[host(server.local_addr())], &out, cut).await.expect("fetched");
            assert!(std::fs::read(&out).expect("read") == bytes, "{len} bytes");
            assert_eq!(report.scdp().expect("by SCDP").blocks, len.div_ceil(block) as u32);
        }
    });
}

#[test]
fn a_writer_gets_only_verified_bytes() {
    struct Compare {
        expected: Arc<Vec<u8>>,
        at: usize,
    }
    impl std::io::Write for Compare {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            assert!(self.expected[self.at..self.at + bytes.len()] == *bytes, "at {}", self.at);
            self.at += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let bytes = Arc::new(random_bytes(10_000_000, 7));
    runtime().block_on(async {
        let (_home, server) = serve(&bytes).await;
        // Right for a while, and then wrong all the time.
        let (_, alter) = altering(|symbol| symbol > 4_000);
        let relay = Relay::start(server.local_addr(), alter);
        let client = Client::new(ClientConfig::default()).expect("client");
        let options = FetchOptions::new("x".parse().expect("name")).cut(short_symbols());
        let target = Target::Writer(Box::new(Compare { expected: Arc::clone(&bytes), at: 0 }));
        let hosts = [host(relay.address())];
        let fetched = client.fetch(&hosts, &options, target);
        let error = tokio::time::timeout(GUARD, fetched).await.expect("ends").expect_err("a liar");
        assert!(matches!(error, FetchError::NoReplicaLeft { .. }), "{error}");
    });
}

async fn taker() -> (tempfile::TempDir, Server) {
    let home = tempfile::tempdir().expect("temporary directory");
    let bind = own_address();
    let config = ServerConfig::new(bind, home.path().to_owned()).allow_put(true);
    let server = Server::bind(config).await.expect("server");
    (home, server)
}

async fn put(bytes: &[u8], hosts: &[Host]) -> Result<PutReport, PutError> {
    let home = tempfile::tempdir().expect("temporary directory");
    let path = home.path().join("x");
    std::fs::write(&path, bytes).expect("write");
    let config = ClientConfig::default().timeout(Duration::from_secs(5));
    let client = Client::new(config).expect("client");
    let options = PutOptions::new("x".parse().expect("name")).cut(short_symbols());
    let done = client.put(&path, hosts, &options);
    tokio::time::timeout(GUARD, done).await.expect("ends")
}

#[test]
fn a_flip_on_the_way_to_a_receiver_costs_a_symbol_or_two() {
    // The second has more than one page of 4 MiB nodes.
    for len in [100_000, 150_000_000] {
        let bytes = random_bytes(len, 8);
        runtime().block_on(async {
            let (home, server) = taker().await;
            let (flipped, alter) = altering(|symbol| symbol == 50);
            let relay = Relay::start_both(server.local_addr(), alter, |_| {});
            put(&bytes, &[host(relay.address())]).await.expect("put right");
            assert_eq!(flipped.load(Relaxed), 1);
            assert!(std::fs::read(home.path().join("x")).expect("there") == bytes);
        });
    }
}

#[test]
fn a_sender_that_alters_symbols_or_forges_its_manifest_puts_nothing() {
    let bytes = random_bytes(5_000_000, 9);
    runtime().block_on(async {
        let (home, server) = taker().await;
        let (_, alter) = altering(|symbol| symbol % 3 == 0);
        let relay = Relay::start_both(server.local_addr(), alter, |_| {});
        let error = put(&bytes, &[host(relay.address())]).await.expect_err("altered");
        let text = error.to_string();
        assert!(text.contains("do not have the digest announced"), "{text}");
        let forge = forging(|nodes| nodes[33] ^= 1);
        let relay = Relay::start_both(server.local_addr(), forge, |_| {});
        let error = put(&bytes, &[host(relay.address())]).await.expect_err("forged");
        let text = error.to_string();
        assert!(text.contains("do not have the digest announced"), "{text}");
        assert_eq!(std::fs::read_dir(home.path()).expect("a folder").count(), 0);
    });
}
