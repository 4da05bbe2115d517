//! Quotas of keys and addresses: what is beyond them is refused, counted and explained, and others are not affected.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, FetchOptions, FetchReport, Host, PutOptions, PutTreeOptions, Target,
    TreeOptions,
};
use wellspring_server::{Server, ServerConfig, ServerEvent};
use wellspring_testkit::loopback::own_address;
use wellspring_trust::{Folders, Keyring, PrivateKey, Rights, private_from_text, private_to_text};
use wellspring_wire::control::RefusalCode;

use crate::keyrings::{peer, serving};
use crate::served::{by_lttp, loopback, runtime};

/// A server that knows two clients, of which the first has a quota.
struct Place {
    home: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    server_key: PrivateKey,
    alice: Client,
    bob: Client,
    known: [wellspring_trust::PublicKey; 2],
    quota: &'static str,
    server: Option<Server>,
    told: Arc<std::sync::Mutex<Vec<ServerEvent>>>,
}

impl Place {
    fn new(quota: &'static str) -> Self {
        let (home, runtime) = (tempfile::tempdir().expect("directory"), runtime());
        let server_key = PrivateKey::generate();
        let client = || {
            let own = PrivateKey::generate();
            let public = own.public();
            let keys = Keyring::new().with_own(own).with_peer(peer(
                "server",
                server_key.public(),
                serving(),
            ));
            let mut config = ClientConfig::default().timeout(Duration::from_secs(5));
            config.driver.socket.bind = loopback();
            config.driver.keys = Some(Arc::new(keys));
            let client = runtime.block_on(async { Client::new(config).expect("a client") });
            (client, public)
        };
        let ((alice, a), (bob, b)) = (client(), client());
        let known = [a, b];
        std::fs::create_dir(home.path().join("served")).expect("directory");
        let told = Arc::default();
        let mut place =
            Place { home, runtime, server_key, alice, bob, known, quota, server: None, told };
        place.start(|_| {});
        place
    }

    /// Starts the server, or starts it again.
    fn start(&mut self, set: impl FnOnce(&mut ServerConfig)) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.shut_down());
        }
        let mut config = ServerConfig::new(own_address(), self.served("").to_owned());
        (config.allow_put, config.allow_overwrite, config.allow_hidden) = (true, true, true);
        let told = Arc::clone(&self.told);
        config.events = Arc::new(move |event| told.lock().expect("no panic").push(event));
        config.driver.keys = Some(Arc::new(self.keys()));
        set(&mut config);
        self.server = Some(self.runtime.block_on(Server::bind(config)).expect("a server"));
    }

    fn keys(&self) -> Keyring {
        let [alice, bob] = self.known;
        let all = || Rights { read: Folders::all(), put: Folders::all(), ..Rights::default() };
        let limited = Rights { quota: self.quota.parse().expect("a quota"), ..all() };
        Keyring::new()
            .with_own(self.own_key())
            .with_peer(peer("alice", alice, limited))
            .with_peer(peer("bob", bob, all()))
    }

    fn own_key(&self) -> PrivateKey {
        private_from_text(&private_to_text(&self.server_key)).expect("a key")
    }

    fn served(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join("served").join(name)
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    fn host(&self) -> Host {
        self.server().local_addr().into()
    }

    fn put(&self, client: &Client, name: &str, size: usize) -> Result<(), String> {
        let file = self.home.path().join("put");
        std::fs::write(&file, vec![7; size]).expect("written");
        let mut options = PutOptions::new(name.parse().expect("a name"));
        options.overwrite = true;
        let put = self.runtime.block_on(client.put(&file, &[self.host()], &options));
        put.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn fetch(
        &self,
        client: &Client,
        of: &FetchOptions,
        to: &str,
    ) -> Result<FetchReport, String> {
        let path = self.home.path().join(to);
        let target = Target::File { path, existing: Existing::Replace };
        let fetched = client.fetch(&[self.host()], of, target).await;
        fetched.map_err(|error| error.to_string())
    }

    fn refused(&self) -> u64 {
        let refused = self.server().counters().refused;
        refused.get(&RefusalCode::OverQuota).copied().unwrap_or(0)
    }
}

fn object(name: &str) -> FetchOptions {
    FetchOptions::new(name.parse().expect("a name"))
}

#[test]
fn a_key_puts_as_many_bytes_and_files_as_it_may_also_after_a_start() {
    let mut place = Place::new("max-bytes=3M max-files=3");
    place.put(&place.alice, "a", 2_000_000).expect("room");
    let told = place.put(&place.alice, "b", 1_000_001).expect_err("beyond");
    for part in ["quota max-bytes=3M of key alice", "2000000 bytes", "1000001 more", "operator"] {
        assert!(told.contains(part), "{told}");
    }
    assert!(!place.served("b").exists());
    place.put(&place.bob, "b", 1_000_001).expect("another key");
    place.put(&place.alice, "c", 0).expect("room");
    place.put(&place.alice, "d", 1_000_000).expect("to the last byte");
    let told = place.put(&place.alice, "e", 0).expect_err("beyond");
    assert!(told.contains("quota max-files=3 of key alice"), "{told}");
    let counters = place.server().counters().over_quota;
    assert_eq!((counters.sessions, counters.bytes, counters.files), (0, 1, 1));
    assert_eq!(place.refused(), 2);
    let is_told = |event: &ServerEvent| matches!(event, ServerEvent::Refused { reason, .. } if reason.contains("key alice"));
    assert_eq!(
        place.told.lock().expect("no panic").iter().filter(|event| is_told(event)).count(),
        2
    );
    // The same object again costs nothing.
    place.put(&place.alice, "a", 2_000_000).expect("it is there");

    place.start(|_| {});
    place.put(&place.alice, "e", 0).expect_err("what is kept counts after a start");
    place.put(&place.bob, "e", 0).expect("another key");
    std::fs::remove_file(place.served("a")).expect("removed");
    place.start(|_| {});
    place.put(&place.alice, "f", 2_000_000).expect("what is gone counts no more");
    // Who replaces a file has it.
    place.put(&place.bob, "f", 2_000_001).expect("another key");
    place.put(&place.alice, "g", 2_000_000).expect("room");
}

#[test]
fn the_accounts_are_those_of_the_servers_that_take_something() {
    let mut place = Place::new("max-files=3");
    place.put(&place.alice, "a", 5).expect("room");
    place.put(&place.alice, "b", 5).expect("room");
    std::fs::remove_file(place.served("a")).expect("removed");
    let bind = |set: &dyn Fn(&mut ServerConfig)| {
        let mut config = ServerConfig::new(own_address(), place.served("").to_owned());
        set(&mut config);
        place.runtime.block_on(Server::bind(config)).map_err(|error| error.to_string())
    };
    // One that does not start writes nothing, and one that takes nothing reads nothing.
    let before = std::fs::read(place.served(".wellspring-quotas")).expect("a ledger");
    let taken = place.server().local_addr();
    let failed = bind(&|config| {
        config.driver.socket.bind = taken;
        config.allow_put = true;
    });
    assert!(failed.is_err(), "its address is taken");
    let reader = bind(&|_| {}).expect("a server");
    place.runtime.block_on(reader.shut_down());
    assert_eq!(std::fs::read(place.served(".wellspring-quotas")).expect("a ledger"), before);
    // Another one at another port shares it.
    let second = bind(&|config| config.allow_put = true).expect("a server");
    place.put(&place.alice, "c", 5).expect("room");
    place.put(&place.alice, "d", 5).expect("room");
    place.runtime.block_on(second.shut_down());
    place.start(|_| {});
    let told = place.put(&place.alice, "e", 5).expect_err("beyond");
    assert!(told.contains("it has 3 there"), "{told}");

    // Who cannot read it takes nothing, and says what it is about.
    let stopped = place.server.take().expect("it runs");
    place.runtime.block_on(stopped.shut_down());
    std::fs::remove_file(place.served(".wellspring-quotas")).expect("removed");
    std::fs::create_dir(place.served(".wellspring-quotas")).expect("no file");
    let bind = |takes: bool| {
        let mut config = ServerConfig::new(own_address(), place.served("").to_owned());
        config.allow_put = takes;
        place.runtime.block_on(Server::bind(config)).map_err(|error| error.to_string())
    };
    let Err(told) = bind(true) else { panic!("it cannot be read") };
    assert!(told.contains(".wellspring-quotas: "), "{told}");
    let reader = bind(false).expect("a server");
    place.runtime.block_on(reader.shut_down());
}

#[test]
fn nobody_reads_or_writes_the_accounts_and_they_are_no_part_of_a_directory() {
    let place = Place::new("max-files=1");
    place.put(&place.alice, "a", 5).expect("room");
    assert!(place.served(".wellspring-quotas").exists());
    for name in [".wellspring-quotas", ".Wellspring-quotas"] {
        assert!(name.parse::<wellspring_client::store::ObjectName>().is_err(), "{name}");
    }
    let (hosts, options) = ([place.host()], TreeOptions::new(None));
    let list = place.bob.list(&hosts, &options);
    let listing = place.runtime.block_on(list).expect("a listing");
    let text = String::from_utf8_lossy(&listing.bytes).into_owned();
    assert!(text.contains('a') && !text.contains("wellspring-quotas"), "{text}");
}

#[test]
fn a_directory_counts_by_its_files_and_again_by_none() {
    let place = Place::new("max-files=7");
    let from = place.home.path().join("tree");
    std::fs::create_dir_all(from.join("empty")).expect("directory");
    for name in ["1", "2", "3", "4"] {
        std::fs::write(from.join(name), name).expect("written");
    }
    std::fs::write(from.join("nothing"), "").expect("written");
    let put = |to: &str| {
        let options = PutTreeOptions::new(TreeOptions::new(Some(to.parse().expect("a name"))));
        let hosts = [place.host()];
        let quiet = Arc::new(|_, _: &[String]| {});
        let put = place.alice.put_tree(&from, &hosts, &options, quiet);
        place.runtime.block_on(put).map(|_| ()).map_err(|error| error.to_string())
    };
    // Four files with bytes, one without, a directory.
    put("t").expect("room");
    put("t").expect("nothing new");
    place.put(&place.alice, "one more", 1).expect("seven");
    let told = put("u").expect_err("beyond");
    assert!(told.contains("quota max-files=7 of key alice"), "{told}");
    assert!(!place.served("u/1").exists());
}

#[test]
fn a_key_has_as_many_transfers_at_one_time_as_it_may_by_all_protocols_together() {
    let mut place = Place::new("max-sessions=1");
    std::fs::write(place.served("long"), vec![7; 3_000_000]).expect("written");
    std::fs::write(place.served("short"), vec![7; 1_000]).expect("written");
    // So slowly that it runs until it is ended.
    place.start(|config| {
        config.driver.send_rate = wellspring_core::Rate::from_bits_per_second(2_000_000)
    });
    let (long, short) = (object("long"), object("short"));
    let told = place.runtime.block_on(async {
        let mut running = std::pin::pin!(place.fetch(&place.alice, &long, "1"));
        let begun = async {
            while place.server().counters().sending == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            ended = &mut running => panic!("{:?}", ended.err()),
            () = begun => {}
        }
        let others = async {
            let again = place.fetch(&place.alice, &short, "2").await.expect_err("the second");
            let by_lttp = by_lttp("short");
            let lttp = place.fetch(&place.alice, &by_lttp, "3").await.expect_err("the second");
            let mut to_put = PutOptions::new("put".parse().expect("a name"));
            to_put.overwrite = true;
            let from = place.served("short");
            let put =
                place.alice.put(&from, &[place.host()], &to_put).await.expect_err("the second");
            place.fetch(&place.bob, &short, "4").await.expect("another key");
            [again, lttp, put.to_string()]
        };
        tokio::select! {
            ended = &mut running => panic!("{:?}", ended.err()),
            told = others => told,
        }
    });
    for text in told {
        assert!(text.contains("quota max-sessions=1 of key alice"), "{text}");
    }
    assert_eq!(place.server().counters().over_quota.sessions, 3);
    assert_eq!(place.refused(), 3);
    // Transfers do not outlive the server.
    place.start(|_| {});
    place.runtime.block_on(place.fetch(&place.alice, &short, "2")).expect("the only one");
    assert!(Path::new(&place.home.path().join("2")).exists());
}

#[test]
fn other_quotas_count_as_soon_as_the_keys_are_read_again() {
    let mut place = Place::new("max-files=1");
    place.put(&place.alice, "a", 1).expect("room");
    place.put(&place.alice, "b", 1).expect_err("beyond");
    place.quota = "max-files=2";
    let mut config = ServerConfig::new(own_address(), place.served("").to_owned());
    config.driver.keys = Some(Arc::new(place.keys()));
    (config.allow_put, config.allow_overwrite) = (true, true);
    place.server().reload(config.settings()).expect("reloaded");
    place.put(&place.alice, "b", 1).expect("room");
    place.put(&place.alice, "c", 1).expect_err("beyond");
}
