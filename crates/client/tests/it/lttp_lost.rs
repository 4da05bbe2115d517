//! LTTP when servers are lost on the way: what they had not sent comes from the others.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use crate::served::{GUARD, Served, blocks_of, client, fetch, listing, options, to_file};
use tokio::sync::watch;
use wellspring_client::{
    FetchError, FetchOptions, FetchReport, Host, PartReport, ReplicaState, Update, Updates,
};
use wellspring_core::Rate;
use wellspring_server::{ServerConfig, ServerEvent};
use wellspring_testkit::random_bytes;
use wellspring_testkit::wait::wait_until;
use wellspring_wire::control::{self, Parsed, Reply, emit_reply, parse};
use wellspring_wire::lttp::{
    Cookie, MESSAGE_HEADER_LEN, Message, emit_message, message_kind, parse_message,
};

/// A pace at which a server's share outlasts what a test does meanwhile.
fn slow(config: &mut ServerConfig) {
    config.driver.send_rate = Some(Rate::from_mbps(4));
}

fn small_blocks() -> FetchOptions {
    options().cut(blocks_of(32))
}

/// Told how much has arrived.
fn followed() -> (Updates, watch::Receiver<u64>) {
    let (told, arrived) = watch::channel(0);
    let updates = Updates::to(move |update| {
        if let Update::Moving { done, .. } = update {
            told.send_replace(done);
        }
    });
    (updates, arrived)
}

async fn until(arrived: &mut watch::Receiver<u64>, bytes: u64) {
    let waiting = arrived.wait_for(|done| *done > bytes);
    tokio::time::timeout(GUARD, waiting).await.expect("bytes arrive").expect("the fetch goes on");
}

/// Every byte has come, once, and who lost what is said.
fn is_whole(report: &FetchReport, lost: &[&Host]) {
    let lost: Vec<String> = lost.iter().map(|host| host.to_string()).collect();
    for replica in &report.replicas {
        let state = &replica.state;
        let is_lost = matches!(state, ReplicaState::Lost(_));
        assert_eq!(is_lost, lost.contains(&replica.host), "{}: {state:?}", replica.host);
        assert!(is_lost || *state == ReplicaState::Served, "{}: {state:?}", replica.host);
    }
    let mut end = 0;
    for part in parts(report) {
        assert_eq!(part.offset, end, "{report:?}");
        assert!(part.stats.is_some() || lost.contains(&part.host), "{part:?}");
        end += part.len;
    }
    assert_eq!(end, report.size);
}

fn parts(report: &FetchReport) -> &[PartReport] {
    &report.lttp().expect("by LTTP").parts
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_that_dies_had_not_sent_comes_from_the_others() {
    let bytes = random_bytes(3_000_000, 1);
    let (a, dying, c) =
        (Served::new(&bytes).await, Served::with(&bytes, slow).await, Served::new(&bytes).await);
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|config| config.driver.faults.loss = 0.01);
    let hosts = [a.host(), dying.host(), c.host()];
    let (updates, mut arrived) = followed();
    let options = small_blocks().updates(updates);
    let fetching = client.fetch(&hosts, &options, to_file(&path));
    let dies = async {
        // The other two have a third each: what is more is of the one that dies.
        until(&mut arrived, 2_000_000 + 2_000).await;
        dying.server.shut_down().await;
    };
    let (report, ()) =
        tokio::time::timeout(GUARD, async { tokio::join!(fetching, dies) }).await.expect("it ends");
    let report = report.expect("fetched");
    assert!(std::fs::read(&path).expect("read") == bytes, "the bytes differ");
    is_whole(&report, &[&hosts[1]]);
    let (whole, broken_off): (Vec<_>, Vec<_>) =
        parts(&report).iter().partition(|part| part.stats.is_some());
    assert_eq!(broken_off.len(), 1, "what had come is kept: {report:?}");
    assert_eq!(whole.len(), 4, "its rest is divided between two");
    assert_eq!(listing(folder.path()), ["copy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_of_three_is_enough() {
    let bytes = random_bytes(2_000_000, 2);
    let (mut a, b, mut c) = (
        Served::with(&bytes, slow).await,
        Served::new(&bytes).await,
        Served::with(&bytes, slow).await,
    );
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|_| {});
    let hosts = [a.host(), b.host(), c.host()];
    let (updates, mut arrived) = followed();
    let options = small_blocks().updates(updates);
    let fetching = client.fetch(&hosts, &options, to_file(&path));
    let die = async {
        for dying in [&mut a, &mut c] {
            dying.wait_for(|event| matches!(event, ServerEvent::SendingPart { .. })).await;
        }
        until(&mut arrived, 0).await;
        tokio::join!(a.server.shut_down(), c.server.shut_down());
    };
    let (report, ()) =
        tokio::time::timeout(GUARD, async { tokio::join!(fetching, die) }).await.expect("it ends");
    is_whole(&report.expect("fetched"), &[&hosts[0], &hosts[2]]);
    assert!(std::fs::read(&path).expect("read") == bytes, "the bytes differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_all_die_are_named_and_nothing_is_left() {
    let bytes = random_bytes(8_000_000, 3);
    let (mut a, mut b) = (Served::with(&bytes, slow).await, Served::with(&bytes, slow).await);
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|config| config.timeout = Duration::from_secs(2));
    let (hosts, options) = ([a.host(), b.host()], options().resume(false));
    let fetching = client.fetch(&hosts, &options, to_file(&path));
    let die = async {
        for dying in [&mut a, &mut b] {
            dying.wait_for(|event| matches!(event, ServerEvent::SendingPart { .. })).await;
        }
        a.server.shut_down().await;
        b.server.shut_down().await;
    };
    let (fetched, ()) =
        tokio::time::timeout(GUARD, async { tokio::join!(fetching, die) }).await.expect("it ends");
    match fetched {
        Err(FetchError::NoReplicaLeft { hosts: lost, size, .. }) => {
            let mut lost: Vec<String> = lost.into_iter().map(|lost| lost.host).collect();
            let mut named = hosts.map(|host| host.to_string());
            lost.sort();
            named.sort();
            assert_eq!((&lost[..], size), (&named[..], 8_000_000));
        }
        other => panic!("{other:?}"),
    }
    drop(client);
    // A block that was being written holds the part file for a moment more.
    wait_until(|| "the part file goes", || listing(folder.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_object_has_changed_does_not_stand_in_for_another() {
    let bytes = random_bytes(1_000_000, 4);
    let (changing, dying) = (Served::new(&bytes).await, Served::with(&bytes, slow).await);
    let mut changing = changing;
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|config| config.timeout = Duration::from_secs(2));
    let (hosts, options) = ([changing.host(), dying.host()], small_blocks());
    let fetching = client.fetch(&hosts, &options, to_file(&path));
    let changes = async {
        changing.wait_for(|event| matches!(event, ServerEvent::SentPart { .. })).await;
        let object = changing.folder.path().join("object");
        std::fs::write(object, random_bytes(1_000_000, 5)).expect("write");
        dying.server.shut_down().await;
    };
    let (fetched, ()) = tokio::time::timeout(GUARD, async { tokio::join!(fetching, changes) })
        .await
        .expect("it ends");
    match fetched {
        Err(FetchError::NoReplicaLeft { hosts, .. }) => {
            assert!(hosts[0].reason.contains("has changed"), "{hosts:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// Answers, by UDP, who asks for the object's digest.
fn tell_digest(socket: &UdpSocket, bytes: &[u8]) {
    let (size, digest) = (bytes.len() as u64, *blake3::hash(bytes).as_bytes());
    let mut buffer = [0; 2_048];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        let Ok(Parsed::Request { nonce, .. }) = parse(&buffer[..len]) else { continue };
        let mut reply = Vec::new();
        let info = Reply::Info { cookie: control::Cookie::NONE, size, digest, instance: 1 };
        emit_reply(nonce, &info, &mut reply);
        socket.send_to(&reply, from).expect("sent");
    }
}

/// A server that grants what it is asked for and then closes the connection, every time; how often
/// it was asked for a part.
fn closing_server(bytes: &[u8]) -> (Host, Arc<AtomicU32>) {
    let (listener, socket) = loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let at = listener.local_addr().expect("an address");
        // The port may be taken by UDP.
        if let Ok(socket) = UdpSocket::bind(at) {
            break (listener, socket);
        }
    };
    let host = listener.local_addr().expect("an address").into();
    let asked = Arc::new(AtomicU32::new(0));
    let (count, bytes) = (Arc::clone(&asked), bytes.to_vec());
    std::thread::spawn(move || tell_digest(&socket, &bytes));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut header = [0; MESSAGE_HEADER_LEN];
            if stream.read_exact(&mut header).is_err() {
                continue;
            }
            let (kind, len) = message_kind(header).expect("a message");
            let mut body = vec![0; len];
            stream.read_exact(&mut body).expect("a body");
            let message = parse_message(kind, &body).expect("a message");
            assert!(matches!(message, Message::Request { .. }), "{message:?}");
            count.fetch_add(1, SeqCst);
            let mut bytes = Vec::new();
            emit_message(&Message::Granted { cookie: Cookie(7), seed: 7 }, &mut bytes);
            // A client that is gone does not want to know.
            let _ = stream.write_all(&bytes);
        }
    });
    (host, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_always_closes_is_given_up_in_time_and_holds_nobody_up() {
    // One node: it needs no manifest, which these servers do not have.
    let bytes = random_bytes(16_000, 6);
    let served = Served::new(&bytes).await;
    let closing: Vec<_> = (0..3).map(|_| closing_server(&bytes)).collect();
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|config| config.timeout = Duration::from_millis(1_500));
    let mut hosts: Vec<Host> = closing.iter().map(|(host, _)| host.clone()).collect();
    let options = options();
    let alone = client.fetch(&hosts, &options, to_file(&path));
    let alone = tokio::time::timeout(GUARD, alone).await.expect("it ends");
    assert!(matches!(&alone, Err(FetchError::NoReplicaLeft { hosts, .. }) if hosts.len() == 3));
    assert_eq!(listing(folder.path()), [""; 0]);
    hosts.push(served.host());
    let beside = client.fetch(&hosts, &options, to_file(&path));
    let report = tokio::time::timeout(GUARD, beside).await.expect("it ends").expect("fetched");
    is_whole(&report, &hosts.iter().take(3).collect::<Vec<_>>());
    assert!(std::fs::read(&path).expect("read") == bytes, "the bytes differ");
    for (host, asked) in &closing {
        assert!(asked.load(SeqCst) >= 3, "{host}: again and again, as long as it is waited for");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_fewer_nodes_than_servers_keeps_the_others_in_reserve() {
    let bytes = random_bytes(100, 7);
    let (host, _) = closing_server(&bytes);
    let served = Served::new(&bytes).await;
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|_| {});
    let hosts = [host, served.host()];
    let options = options();
    let fetching = client.fetch(&hosts, &options, to_file(&path));
    let report = tokio::time::timeout(GUARD, fetching).await.expect("it ends").expect("fetched");
    is_whole(&report, &[&hosts[0]]);
    let alone = fetch(&client, &[&served], &options, &folder.path().join("other")).await;
    assert!(alone.is_ok(), "{alone:?}");
    assert!(std::fs::read(&path).expect("read") == bytes, "the bytes differ");
}
