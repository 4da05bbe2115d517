//! LTTP over loopback: whole objects from one and many servers, through loss, and what happens when
//! a server dies.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use wellspring_core::{Rate, Seed};
use wellspring_net::store::{Digest, Existing, StoreError};
use wellspring_net::{
    FetchError, Host, LttpClient, LttpClientConfig, LttpOptions, LttpReport, LttpServer,
    LttpServerConfig, LttpServerEvent, Method, Target, Update, Updates,
};

/// What no transfer here should take: a guard, not a measure.
const GUARD: Duration = Duration::from_secs(120);

fn random_bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut stream = Seed(seed).stream("object");
    let mut bytes = vec![0; len];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&stream.next_u64().to_le_bytes()[..chunk.len()]);
    }
    bytes
}

fn loopback() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)
}

/// A server of one object, in a folder of its own.
struct Served {
    server: LttpServer,
    folder: tempfile::TempDir,
    events: mpsc::UnboundedReceiver<LttpServerEvent>,
}

impl Served {
    async fn new(bytes: &[u8]) -> Served {
        Served::with(bytes, |_| {}).await
    }

    async fn with(bytes: &[u8], change: impl FnOnce(&mut LttpServerConfig)) -> Served {
        let folder = tempfile::tempdir().expect("temporary directory");
        std::fs::write(folder.path().join("object"), bytes).expect("write");
        let mut config = LttpServerConfig::new(loopback(), folder.path().to_owned());
        let (told, events) = mpsc::unbounded_channel();
        config.events = Arc::new(move |event| {
            // A test that has seen enough does not listen any more.
            let _ = told.send(event);
        });
        change(&mut config);
        let server = LttpServer::bind(config).await.expect("a server");
        Served { server, folder, events }
    }

    fn host(&self) -> Host {
        self.server.local_addr().into()
    }

    /// Waits for an event that `wanted` says is the one.
    async fn wait_for(&mut self, wanted: impl Fn(&LttpServerEvent) -> bool) -> LttpServerEvent {
        let waiting = async {
            loop {
                let event = self.events.recv().await.expect("the server runs");
                if wanted(&event) {
                    return event;
                }
            }
        };
        tokio::time::timeout(GUARD, waiting).await.expect("the server tells")
    }
}

fn options() -> LttpOptions {
    LttpOptions::new("object".parse().expect("a name"))
}

fn client(change: impl FnOnce(&mut LttpClientConfig)) -> LttpClient {
    let mut config = LttpClientConfig::default();
    change(&mut config);
    LttpClient::new(config).expect("a client")
}

fn to_file(path: &Path) -> Target {
    Target::File { path: path.to_owned(), existing: Existing::Keep }
}

async fn fetch(
    client: &LttpClient,
    servers: &[&Served],
    options: &LttpOptions,
    path: &Path,
) -> Result<LttpReport, FetchError> {
    let hosts: Vec<Host> = servers.iter().map(|served| served.host()).collect();
    let fetching = client.fetch(&hosts, options, to_file(path), Arc::new(|_| {}));
    tokio::time::timeout(GUARD, fetching).await.expect("it ends")
}

/// Names of what is in a folder, hidden files too.
fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Fetches `bytes` from so many servers and compares.
async fn goes_round(bytes: &[u8], servers: usize, options: &LttpOptions, loss: f64) -> LttpReport {
    let mut served = Vec::new();
    for _ in 0..servers {
        served.push(Served::new(bytes).await);
    }
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|config| config.settings.faults.loss = loss);
    let served: Vec<&Served> = served.iter().collect();
    let report = fetch(&client, &served, options, &path).await.expect("fetched");
    assert!(std::fs::read(&path).expect("read") == bytes, "the bytes differ");
    assert_eq!(listing(folder.path()), ["copy"]);
    assert_eq!(report.size, bytes.len() as u64);
    assert_eq!(report.digest, Digest(*blake3::hash(bytes).as_bytes()));
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_gives_the_object() {
    let bytes = random_bytes(3_000_001, 1);
    let report = goes_round(&bytes, 1, &options(), 0.0).await;
    assert_eq!(report.needed(), 3_000_001_u64.div_ceil(1_408));
    assert!(report.used() >= report.needed());
}
