//! A server of several event loops, and clients whose addresses are in all of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use wellspring_client::driver::Steering;
use wellspring_client::{
    Client, ClientConfig, FetchOptions, FetchProtocol, Method, PutOptions, ReceiverState,
};
use wellspring_core::Rate;
use wellspring_server::{ReloadError, ServerConfig, ServerEvent};
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::random_bytes;
use wellspring_trust::{ClusterKey, Keyring, Rights};

use crate::paths::Router;
use crate::served::{GUARD, Served, client, fetch, short_symbols};

const LOOPS: u8 = 3;

/// An address of this machine in that loop, beyond so many others.
fn in_loop(number: u8, beyond: usize) -> IpAddr {
    let all = (2..=250).map(|last| IpAddr::from([127, 0, 0, last]));
    let mut of_it = all.filter(|ip| Steering::among(LOOPS).of(*ip) == number);
    of_it.nth(beyond).expect("there are enough")
}

fn of_loops(config: &mut ServerConfig) {
    config.driver.loops = LOOPS;
    config.allow_put = true;
}

fn client_at(ip: IpAddr, change: impl FnOnce(&mut ClientConfig)) -> Client {
    client(|config| {
        config.driver.socket.bind = (ip, 0).into();
        change(config);
    })
}

fn put_options(name: &str) -> PutOptions {
    PutOptions::new(name.parse().expect("a name")).cut(short_symbols())
}

async fn put(client: &Client, served: &Served, file: &Path, options: &PutOptions) {
    let hosts = [served.host()];
    let putting = client.put(file, &hosts, options);
    let report = tokio::time::timeout(GUARD, putting).await.expect("it ends").expect("put");
    let state = &report.receivers[0].state;
    assert!(matches!(state, ReceiverState::Complete(_)), "{state:?}");
}

/// Clients of two addresses in each loop fetch by that protocol, and put, all at one time.
async fn transfers_of_all_loops(protocol: FetchProtocol, keys: Option<Arc<Keyring>>) {
    let bytes = random_bytes(1_000_000, 7);
    let of_server = keys.clone();
    let served = Served::with(&bytes, |config| {
        of_loops(config);
        config.driver.keys = of_server;
    });
    let served = &served.await;
    let home = tempfile::tempdir().expect("directory");
    let (home, bytes) = (home.path(), &bytes);
    let transfer = async |number: u8| {
        let ip = in_loop(number % LOOPS, usize::from(number / LOOPS));
        let client = client_at(ip, |config| config.driver.keys = keys.clone());
        let options = FetchOptions::new("object".parse().expect("a name")).protocol(protocol);
        let path = home.join(number.to_string());
        let fetched = fetch(&client, &[served], &options, &path).await;
        fetched.unwrap_or_else(|error| panic!("{ip}: {error}"));
        assert!(std::fs::read(&path).expect("read") == *bytes, "{ip}");
        let name = format!("of-{number}");
        put(&client, served, &path, &put_options(&name)).await;
        let taken = std::fs::read(served.folder.path().join(name)).expect("read");
        assert!(taken == *bytes, "{ip}");
    };
    tokio::join!(transfer(0), transfer(1), transfer(2), transfer(3), transfer(4), transfer(5));
    let each = served.server.statistics_by_loop().expect("running");
    assert_eq!(each.len(), usize::from(LOOPS));
    for one in &each {
        assert!(one.sent.bytes > 2_000_000 && one.received.bytes > 2_000_000, "{one:?}");
    }
    let all = served.server.statistics().expect("running");
    assert_eq!(all.sent.bytes, each.iter().map(|one| one.sent.bytes).sum::<u64>());
}

fn cluster() -> Option<Arc<Keyring>> {
    Some(Arc::new(Keyring::new().with_cluster(ClusterKey::generate(), Rights::all())))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_all_loops_fetch_and_put() {
    for keys in [None, cluster()] {
        transfers_of_all_loops(FetchProtocol::default(), keys).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_all_loops_fetch_by_lttp_and_by_ndp() {
    for keys in [None, cluster()] {
        let lttp = FetchProtocol::Lttp { method: Method::Improved };
        transfers_of_all_loops(lttp, keys.clone()).await;
        transfers_of_all_loops(FetchProtocol::Ndp, keys).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_uses_further_ports_of_its_client() {
    let bytes = random_bytes(4_000_000, 8);
    let served = Served::with(&bytes, of_loops).await;
    let home = tempfile::tempdir().expect("directory");
    let (file, own) = (home.path().join("object"), in_loop(2, 0));
    std::fs::write(&file, &bytes).expect("written");
    // It takes a while, so that all paths are open long before its end.
    let slow = |config: &mut ClientConfig| {
        config.driver.ports = 4;
        config.driver.faults.send_rate = Some(Rate::from_mbps(20));
    };
    let IpAddr::V4(of_router) = own else { panic!("IPv4") };
    let router = Router::at(of_router, None);
    router.leads_to(served.server.local_addr());
    let client = client_at(Ipv4Addr::LOCALHOST.into(), slow);
    client.put(&file, &router.host(), &put_options("put")).await.expect("put");
    assert!(std::fs::read(served.folder.path().join("put")).expect("read") == bytes);
    let symbols = router.symbols();
    assert!(symbols.len() == 4 && symbols.iter().all(|path| *path > 10), "{symbols:?}");
    let each = served.server.statistics_by_loop().expect("running");
    let kept: Vec<bool> = each.iter().map(|one| one.received.symbols_kept > 0).collect();
    assert_eq!(kept, [false, false, true], "all by the loop of its address");
}

/// Puts through two routers, by the addresses of which the server knows the client: symbols by router.
async fn put_from_two_addresses(addresses: [IpAddr; 2]) -> ([u64; 2], Served) {
    let bytes = random_bytes(4_000_000, 9);
    let routers = addresses.map(|ip| match ip {
        IpAddr::V4(ip) => Router::at(ip, None),
        IpAddr::V6(_) => panic!("IPv4"),
    });
    let served = Served::with(&[], |config| {
        of_loops(config);
        config.further_addresses = routers.iter().map(|router| router.address).collect();
    });
    let served = served.await;
    routers.iter().for_each(|router| router.leads_to(served.server.local_addr()));
    let home = tempfile::tempdir().expect("directory");
    let file = home.path().join("object");
    std::fs::write(&file, &bytes).expect("written");
    let client = client_at(Ipv4Addr::LOCALHOST.into(), |config| {
        config.driver.faults.send_rate = Some(Rate::from_mbps(20));
    });
    client.put(&file, &routers[0].host(), &put_options("put")).await.expect("put");
    assert!(std::fs::read(served.folder.path().join("put")).expect("read") == bytes);
    (routers.each_ref().map(|router| router.symbols().iter().sum()), served)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_from_an_address_of_another_loop_is_refused_and_the_transfer_goes_on() {
    let (symbols, _served) = put_from_two_addresses([in_loop(0, 3), in_loop(0, 4)]).await;
    assert!(symbols.iter().all(|path| *path > 100), "of one loop: {symbols:?}");
    let (symbols, mut served) = put_from_two_addresses([in_loop(0, 3), in_loop(1, 3)]).await;
    assert!(symbols[0] > 1_000 && symbols[1] == 0, "of two: {symbols:?}");
    let refused = |event: &ServerEvent| matches!(event, ServerEvent::Refused { reason, .. } if reason.contains("event loop"));
    served.wait_for(refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_to_a_group_comes_to_servers_of_several_loops() {
    let bytes = random_bytes(2_000_000, 10);
    let multicast = || Some("127.0.0.1".parse().expect("an interface"));
    for keys in [None, cluster()] {
        let mut servers = Vec::new();
        for _ in 0..2 {
            let served = Served::with(&[], |config| {
                of_loops(config);
                config.interface = multicast();
                config.driver.keys = keys.clone();
            });
            servers.push(served.await);
        }
        let home = tempfile::tempdir().expect("directory");
        let file = home.path().join("object");
        std::fs::write(&file, &bytes).expect("written");
        let free = std::net::UdpSocket::bind("0.0.0.0:0").expect("a port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let group = SocketAddr::from((Ipv4Addr::new(239, 255, 79, 11), port));
        let client = client_at(in_loop(1, 5), |config| {
            config.driver.socket.multicast_interface = multicast();
            config.driver.keys = keys.clone();
        });
        let hosts: Vec<_> = servers.iter().map(Served::host).collect();
        let options = put_options("put").group(Some(group));
        let putting = client.put(&file, &hosts, &options);
        tokio::time::timeout(GUARD, putting).await.expect("it ends").expect("put");
        for served in &servers {
            assert!(std::fs::read(served.folder.path().join("put")).expect("read") == bytes);
            let each = served.server.statistics_by_loop().expect("running");
            let kept: Vec<bool> = each.iter().map(|one| one.received.symbols_kept > 0).collect();
            assert_eq!(kept, [false, true, false], "by the loop of the client's address");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_several_loops_takes_no_send_rate() {
    let served = Served::with(&[], of_loops).await;
    let rate = Some(Rate::from_mbps(100));
    let refused = served.server.set_send_rate(rate).expect_err("refused");
    assert!(matches!(refused, ReloadError::RateOfLoops), "{refused}");
    let mut settings = ServerConfig::new(own_address(), served.folder.path().to_owned()).settings();
    settings.permissions.put = true;
    served.server.reload(settings.clone()).expect("no rate");
    settings.send_rate = rate;
    let refused = served.server.reload(settings).expect_err("refused").to_string();
    assert!(refused.contains("several event loops"), "{refused}");
}
