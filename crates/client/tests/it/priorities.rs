//! Priorities of fetches and puts, as other hosts see them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::relay::{Relay, is_symbol};
use crate::served::{GUARD, Served, client, options, runtime, short_symbols, to_file};
use wellspring_client::{
    Client, FetchError, FetchOptions, FetchProtocol, Host, Priority, PutOptions, Target,
    TreeOptions,
};
use wellspring_testkit::random_bytes;
use wellspring_wire::control::{Parsed, Request, parse};

/// What passed by a relay: requests that said that they are of the background or not, and classes of symbols.
#[derive(Clone, Default)]
struct Passed(Arc<Mutex<(Vec<bool>, Vec<u8>)>>);

impl Passed {
    fn take(&self) -> (Vec<bool>, Vec<u8>) {
        let mut passed = self.0.lock().expect("no panic");
        passed.1.dedup();
        std::mem::take(&mut *passed)
    }

    fn look(&self, datagram: &[u8]) {
        let mut passed = self.0.lock().expect("no panic");
        if is_symbol(datagram) {
            passed.1.push(datagram[1] >> 3);
        } else if let Some(background) = says_background(datagram) {
            passed.0.push(background);
        }
    }
}

/// Whether a request that begins a transfer says that it is of the background.
fn says_background(datagram: &[u8]) -> Option<bool> {
    match parse(datagram).ok()? {
        Parsed::Request { request: Request::Start(start), .. } => Some(start.background),
        Parsed::Request { request: Request::Offer(offer), .. } => Some(offer.background),
        _ => None,
    }
}

fn relay(server: SocketAddr) -> (Relay, Passed) {
    let passed = Passed::default();
    let (up, down) = (passed.clone(), passed.clone());
    let relay = Relay::start_both(server, move |there| up.look(there), move |back| down.look(back));
    (relay, passed)
}

fn fetching(priority: Priority) -> FetchOptions {
    FetchOptions::new("object".parse().expect("a name")).cut(short_symbols()).priority(priority)
}

fn putting(priority: Priority) -> PutOptions {
    let name = priority.as_str().parse().expect("a name");
    PutOptions::new(name).cut(short_symbols()).priority(priority)
}

#[test]
fn servers_learn_of_the_background_alone_and_send_it_in_the_lowest_class() {
    let bytes = random_bytes(1_000_000, 1);
    runtime().block_on(async {
        let served = Served::with(&bytes, |config| config.allow_put = true).await;
        let (relay, passed) = relay(served.server.local_addr());
        let hosts: [Host; 1] = [relay.address().into()];
        let client = client(|_| {});
        let place = tempfile::tempdir().expect("directory");
        for priority in Priority::ALL {
            let to = place.path().join(priority.as_str());
            let options = fetching(priority);
            let fetched = client.fetch(&hosts, &options, to_file(&to));
            tokio::time::timeout(GUARD, fetched).await.expect("it ends").expect("fetched");
            assert!(std::fs::read(&to).expect("there") == bytes);
            check(&passed, priority, "get");
            let put = putting(priority);
            let put = client.put(&to, &hosts, &put);
            tokio::time::timeout(GUARD, put).await.expect("it ends").expect("put");
            check(&passed, priority, "put");
            let options = TreeOptions::new(None).priority(priority);
            let to = place.path().join(format!("tree of {priority}"));
            std::fs::create_dir(&to).expect("made");
            fetch_tree(&client, &hosts, &options, &to).await;
            check(&passed, priority, "get of a tree");
        }
    });
}

async fn fetch_tree(client: &Client, hosts: &[Host], options: &TreeOptions, to: &Path) {
    let fetched = client.fetch_tree(hosts, options, to, Arc::new(|_| {}));
    tokio::time::timeout(GUARD, fetched).await.expect("it ends").expect("fetched");
}

/// Checks what the servers were asked, and in which classes symbols went.
fn check(passed: &Passed, priority: Priority, what: &str) {
    let (asked, classes) = passed.take();
    let is_background = priority == Priority::Background;
    assert!(!asked.is_empty() && !classes.is_empty(), "{what}, {priority}: nothing passed");
    assert!(asked.iter().all(|said| *said == is_background), "{what}, {priority}: {asked:?}");
    let (lowest, first) = (classes.iter().max(), classes.first());
    let expected = if is_background { 5 } else { 1 };
    assert_eq!(first, Some(&expected), "{what}, {priority}: {classes:?}");
    assert!(!is_background || classes == [5] && lowest == Some(&5), "{what}: {classes:?}");
}

/// Servers that know no priorities drop requests of the background as malformed.
#[test]
fn who_asks_an_older_server_for_the_background_is_told_why_nothing_comes() {
    let bytes = random_bytes(100_000, 2);
    runtime().block_on(async {
        let served = Served::with(&bytes, |config| config.allow_put = true).await;
        let drop_background = |datagram: &mut Vec<u8>| {
            if says_background(datagram) == Some(true) {
                datagram.clear();
            }
        };
        let relay = Relay::start_both(served.server.local_addr(), drop_background, |_| {});
        let hosts: [Host; 1] = [relay.address().into()];
        let client = client(|config| config.timeout = Duration::from_secs(1));
        let place = tempfile::tempdir().expect("directory");
        let to = place.path().join("object");
        let fetch = |priority: Priority| {
            let (client, to, hosts) = (&client, to.clone(), &hosts);
            async move {
                let options = fetching(priority);
                let fetched = client.fetch(hosts, &options, to_file(&to));
                tokio::time::timeout(GUARD, fetched).await.expect("it ends")
            }
        };
        let said = fetch(Priority::Background).await.expect_err("dropped").to_string();
        assert!(said.contains("older version"), "{said}");
        fetch(Priority::Normal).await.expect("a usual request is read");
        let put = |priority| {
            let (client, to, hosts) = (&client, to.clone(), &hosts);
            async move {
                let options = putting(priority);
                let put = client.put(&to, hosts, &options);
                tokio::time::timeout(GUARD, put).await.expect("it ends")
            }
        };
        let said = put(Priority::Background).await.expect_err("dropped").to_string();
        assert!(said.contains("older version"), "{said}");
        put(Priority::Normal).await.expect("a usual offer is read");
    });
}

#[test]
fn other_protocols_have_no_priorities() {
    runtime().block_on(async {
        let served = Served::new(&random_bytes(1_000, 3)).await;
        let (client, hosts) = (client(|_| {}), [served.host()]);
        let by_ndp = options().protocol(FetchProtocol::Ndp);
        for options in [options(), by_ndp] {
            let options = options.priority(Priority::Urgent);
            let target = Target::Writer(Box::new(std::io::sink()));
            let failed = client.fetch(&hosts, &options, target).await;
            assert!(matches!(failed, Err(FetchError::PriorityByProtocol)));
        }
    });
}
