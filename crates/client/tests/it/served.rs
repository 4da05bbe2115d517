//! Servers of one object and clients over loopback, for tests of whole transfers.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, Cut, DEFAULT_SYMBOL_SIZE, FetchError, FetchOptions, FetchProtocol,
    FetchReport, Host, Method, Target, Update, Updates,
};
use wellspring_server::{Server, ServerConfig, ServerEvent};
use wellspring_testkit::loopback::own_address;

/// What no transfer here should take: a guard, not a measure.
pub const GUARD: Duration = Duration::from_secs(120);

/// A runtime for tests that block on parts of a transfer.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("runtime")
}

/// Symbols as Ethernet carries them: loopback would carry longer ones, and so fewer.
pub fn short_symbols() -> Cut {
    Cut::default().symbol_size(Some(DEFAULT_SYMBOL_SIZE))
}

pub fn loopback() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)
}

/// A server of one object, in a folder of its own.
pub struct Served {
    pub server: Server,
    pub folder: tempfile::TempDir,
    pub events: mpsc::UnboundedReceiver<ServerEvent>,
}

impl Served {
    pub async fn new(bytes: &[u8]) -> Served {
        Served::with(bytes, |_| {}).await
    }

    pub async fn with(bytes: &[u8], change: impl FnOnce(&mut ServerConfig)) -> Served {
        let folder = tempfile::tempdir().expect("temporary directory");
        std::fs::write(folder.path().join("object"), bytes).expect("write");
        let mut config = ServerConfig::new(own_address(), folder.path().to_owned());
        let (told, events) = mpsc::unbounded_channel();
        config.events = Arc::new(move |event| {
            // A test that has seen enough does not listen any more.
            let _ = told.send(event);
        });
        change(&mut config);
        let server = Server::bind(config).await.expect("a server");
        Served { server, folder, events }
    }

    pub fn host(&self) -> Host {
        self.server.local_addr().into()
    }

    /// Waits for an event that `wanted` says is the one.
    pub async fn wait_for(&mut self, wanted: impl Fn(&ServerEvent) -> bool) -> ServerEvent {
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

/// Any object, by LTTP and its improved decoder.
pub fn by_lttp(name: &str) -> FetchOptions {
    let protocol = FetchProtocol::Lttp { method: Method::Improved };
    FetchOptions::new(name.parse().expect("a name")).protocol(protocol)
}

pub fn options() -> FetchOptions {
    by_lttp("object")
}

/// Blocks of so many symbols.
pub fn blocks_of(symbols: u32) -> Cut {
    Cut::default().symbols_per_block(Some(symbols))
}

pub fn client(change: impl FnOnce(&mut ClientConfig)) -> Client {
    let mut config = ClientConfig::default();
    change(&mut config);
    Client::new(config).expect("a client")
}

pub fn to_file(path: &Path) -> Target {
    Target::File { path: path.to_owned(), existing: Existing::Keep }
}

pub async fn fetch(
    client: &Client,
    servers: &[&Served],
    options: &FetchOptions,
    path: &Path,
) -> Result<FetchReport, FetchError> {
    let hosts: Vec<Host> = servers.iter().map(|served| served.host()).collect();
    let fetching = client.fetch(&hosts, options, to_file(path));
    tokio::time::timeout(GUARD, fetching).await.expect("it ends")
}

/// Names of what is in a folder, hidden files too.
pub fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The part files in a folder.
pub fn parts(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("read").path());
    paths.filter(|path| path.to_string_lossy().ends_with(".part")).collect()
}

/// Updates that say by a channel that so many bytes are there.
pub fn until_moved(bytes: u64) -> (Updates, oneshot::Receiver<()>) {
    let (sender, reached) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let updates = Updates::to(move |update| {
        if matches!(update, Update::Moving { done, .. } if done >= bytes)
            && let Some(sender) = sender.lock().expect("no panic").take()
        {
            // A test that has seen enough does not listen any more.
            let _ = sender.send(());
        }
    });
    (updates, reached)
}
