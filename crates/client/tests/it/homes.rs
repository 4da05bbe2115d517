//! Transfers with a server that has several addresses: all of them carry, and one that leads nowhere is done without.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, FetchOptions, FetchReport, Host, PutOptions, ReplicaState, Target,
};
use wellspring_core::Rate;
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_trust::{ClusterKey, Keyring, Rights};

use crate::paths::{Dies, Keys, RATE, Router, SIZE, client, write_object};
use crate::served::short_symbols;

/// A server behind two routers with addresses of their own: the client has another address by each.
struct Homes {
    _server: Server,
    routers: [Router; 2],
}

impl Homes {
    /// A router dies as `dies` says: its number, and after how many symbols.
    async fn new(directory: &Path, tells: bool, dies: Option<(usize, u64)>, keys: Keys) -> Homes {
        let routers = [0, 1].map(|number| {
            let dies = dies.filter(|(router, _)| *router == number);
            let dies = dies.map(|(_, after)| Dies { path: 0, after });
            Router::at(Ipv4Addr::new(127, 0, 0, 1 + number as u8), dies)
        });
        let bind = own_address();
        let mut config = ServerConfig::new(bind, directory.to_owned()).allow_put(true);
        config.driver.faults.send_rate = Some(RATE);
        config.driver.keys = keys;
        if tells {
            config.further_addresses = routers.iter().map(|router| router.address).collect();
        }
        let server = Server::bind(config).await.expect("loopback");
        routers.iter().for_each(|router| router.leads_to(server.local_addr()));
        Homes { _server: server, routers }
    }

    /// Symbols by router.
    fn symbols(&self) -> [u64; 2] {
        self.routers.each_ref().map(|router| router.symbols().iter().sum())
    }
}

async fn fetch(homes: &Homes, hosts: &[Host], bytes: &[u8], keys: Keys) -> FetchReport {
    let got = tempfile::tempdir().expect("dir");
    let path = got.path().join("x");
    let target = Target::File { path: path.clone(), existing: Existing::Keep };
    let options = FetchOptions::new("x".parse().expect("a name")).cut(short_symbols());
    let report = client(1, keys).fetch(hosts, &options, target).await;
    let report = report.unwrap_or_else(|error| panic!("{error}; {:?}", homes.symbols()));
    assert!(std::fs::read(path).expect("there") == bytes);
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_uses_the_addresses_that_its_server_tells_of() {
    let served = tempfile::tempdir().expect("dir");
    let bytes = write_object(served.path());
    let homes = Homes::new(served.path(), true, None, None).await;
    let report = fetch(&homes, &homes.routers[0].host(), &bytes, None).await;
    assert_eq!(report.replicas.len(), 1, "one host, whatever its addresses");
    let symbols = homes.symbols();
    assert!(symbols.iter().all(|symbols| *symbols > 1_000), "{symbols:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_from_two_addresses_of_one_server_is_from_one_host() {
    let served = tempfile::tempdir().expect("dir");
    let bytes = write_object(served.path());
    let homes = Homes::new(served.path(), false, None, None).await;
    let hosts: Vec<Host> = homes.routers.iter().flat_map(Router::host).collect();
    let report = fetch(&homes, &hosts, &bytes, None).await;
    let states: Vec<_> = report.replicas.iter().map(|replica| &replica.state).collect();
    let served = states.iter().filter(|state| **state == &ReplicaState::Served).count();
    assert_eq!(served, 1, "{states:?}");
    let symbols = homes.symbols();
    assert!(symbols.iter().all(|symbols| *symbols > 1_000), "{symbols:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_goes_on_without_an_address_that_leads_nowhere_any_more() {
    let served = tempfile::tempdir().expect("dir");
    let bytes = write_object(served.path());
    for (dies, after) in [(1, 0), (1, 1_000), (0, 3_000)] {
        let homes = Homes::new(served.path(), true, Some((dies, after)), None).await;
        fetch(&homes, &homes.routers[0].host(), &bytes, None).await;
        let other = homes.symbols()[1 - dies];
        assert!(other as usize * 1_376 > SIZE / 2, "{dies}: {:?}", homes.symbols());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_by_every_address() {
    let served = tempfile::tempdir().expect("dir");
    let bytes = write_object(served.path());
    let ring = Keyring::new().with_cluster(ClusterKey::generate(), Rights::all());
    let keys = Some(Arc::new(ring));
    let homes = Homes::new(served.path(), true, None, keys.clone()).await;
    fetch(&homes, &homes.routers[0].host(), &bytes, keys).await;
    let symbols = homes.symbols();
    assert!(symbols.iter().all(|symbols| *symbols > 1_000), "{symbols:?}");
}

/// Puts an object to a host that tells of its addresses; symbols by address.
async fn put(dies: Option<(usize, u64)>, keys: Keys) -> [u64; 2] {
    let (source, taken) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let bytes = write_object(source.path());
    let homes = Homes::new(taken.path(), true, dies, keys.clone()).await;
    let options = PutOptions::new("y".parse().expect("a name")).cut(short_symbols());
    // It takes two seconds: the second path is open when much is left.
    let mut config = ClientConfig::default();
    config.driver.socket.bind = "127.0.0.1:0".parse().expect("an address");
    config.driver.faults.send_rate = Some(Rate::from_mbps(100));
    config.driver.keys = keys;
    let put = Client::new(config).expect("a client");
    let report = put.put(&source.path().join("x"), &homes.routers[0].host(), &options).await;
    report.unwrap_or_else(|error| panic!("{error}; {:?}", homes.symbols()));
    assert!(std::fs::read(taken.path().join("y")).expect("there") == bytes);
    homes.symbols()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_uses_the_addresses_that_its_host_tells_of() {
    let symbols = put(None, None).await;
    assert!(symbols.iter().all(|symbols| *symbols > 1_000), "{symbols:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_goes_on_without_an_address_that_leads_nowhere_any_more() {
    let ring = Keyring::new().with_cluster(ClusterKey::generate(), Rights::all());
    for keys in [None, Some(Arc::new(ring))] {
        for dies in [0, 1] {
            let symbols = put(Some((dies, 5_000)), keys.clone()).await;
            assert!(symbols[1 - dies] > 5_000, "{dies}: {symbols:?}");
        }
    }
}
