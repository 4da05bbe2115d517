//! NDP over loopback: whole objects, through loss and trims, and in spite of nonsense.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use crate::served::{GUARD, Served, client, listing, parts, to_file, until_moved};
use wellspring_client::{Client, FetchError, FetchOptions, FetchProtocol, FetchReport, Host};
use wellspring_core::{DropReason, SessionId, Time};
use wellspring_testkit::random_bytes;
use wellspring_testkit::wait::wait_until;
use wellspring_wire::ndp::{DATA_HEADER_LEN, Data, NdpHeader, emit_header};

fn options() -> FetchOptions {
    FetchOptions::new("object".parse().expect("a name")).protocol(FetchProtocol::Ndp)
}

async fn fetch(client: &Client, host: Host, path: &Path) -> Result<FetchReport, FetchError> {
    let (hosts, options) = ([host], options().resume(false));
    let fetching = client.fetch(&hosts, &options, to_file(path));
    tokio::time::timeout(GUARD, fetching).await.expect("it ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_any_length_arrive_whole() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let client = client(|_| {});
    for len in [0, 1, 1_408, 1_409, 140_800, 3_000_001] {
        let bytes = random_bytes(len, 1);
        let served = Served::new(&bytes).await;
        let path = folder.path().join(len.to_string());
        let report = fetch(&client, served.host(), &path).await.expect("fetched");
        assert!(std::fs::read(&path).expect("read") == bytes, "{len}");
        let stats = report.ndp().expect("by NDP");
        assert_eq!((stats.packets, stats.bytes), ((len as u64).div_ceil(1_408), len as u64));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_or_trimmed_comes_again() {
    let bytes = random_bytes(1_000_000, 2);
    let folder = tempfile::tempdir().expect("temporary directory");
    for (name, loss, trim) in [("lost", 0.02, 0.0), ("trimmed", 0.0, 0.2), ("both", 0.01, 0.1)] {
        let served = Served::with(&bytes, |config| config.driver.faults.loss = loss).await;
        let client = client(|config| {
            config.driver.faults.loss = loss;
            config.driver.faults.trim = trim;
        });
        let path = folder.path().join(name);
        let report = fetch(&client, served.host(), &path).await.expect("fetched");
        assert!(std::fs::read(&path).expect("read") == bytes, "{name}");
        let stats = report.ndp().expect("by NDP");
        assert_eq!(stats.trimmed > 0, trim > 0.0, "{name}: {stats:?}");
        let injected = client.statistics().expect("running").injected;
        assert_eq!((injected.lost > 0, injected.trimmed > 0), (loss > 0.0, trim > 0.0), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_an_error_and_leaves_nothing() {
    let bytes = random_bytes(20_000_000, 3);
    let slow = Some(wellspring_core::Rate::from_mbps(8));
    let served = Served::with(&bytes, |config| config.driver.send_rate = slow).await;
    let folder = tempfile::tempdir().expect("temporary directory");
    let client = client(|config| config.timeout = Duration::from_millis(500));
    let host = served.host();
    let path = folder.path().join("copy");
    let fetching = fetch(&client, host, &path);
    let goes = async {
        while client.statistics().expect("running").received.symbols_kept == 0 {
            tokio::task::yield_now().await;
        }
        served.server.shut_down().await;
    };
    let (fetched, ()) = tokio::join!(fetching, goes);
    assert!(
        matches!(fetched, Err(FetchError::NoReplicaLeft { .. } | FetchError::Session(_))),
        "{fetched:?}"
    );
    drop(client);
    // A block that was being written holds the part file for a moment more.
    wait_until(|| "the part file goes", || listing(folder.path()).is_empty());
}

fn datagram(session: u32, header: &NdpHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; DATA_HEADER_LEN];
    let len = emit_header(SessionId(session), header, payload.len() as u16, &mut bytes);
    bytes.truncate(len);
    bytes.extend_from_slice(payload);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_of_strangers_are_counted_and_open_nothing() {
    let bytes = random_bytes(100_000, 4);
    let served = Served::new(&bytes).await;
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let (sent, rtt) = (Time::from_picos(u64::MAX), wellspring_core::Duration::from_secs(400));
    let (total, window) = (u32::MAX, u16::MAX);
    let data =
        |number| NdpHeader::Data(Data { number, total, window, vanished: u32::MAX, sent, rtt });
    let hostile = [
        datagram(1, &data(0), &[7; 1_408]),
        datagram(1, &data(u32::MAX - 1), b"x"),
        datagram(1, &NdpHeader::Ack { number: u32::MAX, sent }, &[]),
        datagram(1, &NdpHeader::Nack { number: u32::MAX }, &[]),
        datagram(1, &NdpHeader::Pull { granted: u32::MAX }, &[]),
        datagram(1, &NdpHeader::Done, &[]),
        datagram(1, &NdpHeader::Close, &[]),
    ];
    let to = served.server.local_addr();
    for bytes in hostile.iter().chain([&vec![0x16; 36], &vec![0x16], &vec![0x16; 2_000]]) {
        stranger.send_to(bytes, to).expect("sent");
    }
    let statistics = || served.server.statistics().expect("running");
    wait_until(|| format!("{:?}", statistics()), || statistics().received.datagrams >= 10);
    let counted = statistics();
    assert_eq!((counted.received.strangers, counted.received.malformed), (7, 3));
    assert_eq!((counted.sessions, counted.sent.datagrams), (0, 0), "nothing opened, nothing said");
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    fetch(&client(|_| {}), to.into(), &path).await.expect("it goes on serving");
    assert!(std::fs::read(&path).expect("read") == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_contradicts_itself_is_not_believed() {
    // A server by hand: what it says is an object of ten packets is sent as one of four billion.
    use wellspring_wire::control::{Cookie, Parsed, Reply, Request, emit_reply, parse};
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let host: Host = socket.local_addr().expect("bound").into();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
    let liar = std::thread::spawn(move || {
        let mut buffer = [0; 2_000];
        let mut out = Vec::new();
        while !matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected)) {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
            let Ok(Parsed::Request { nonce, request, .. }) = parse(&buffer[..len]) else {
                continue;
            };
            let (cookie, digest) = (Cookie([1; 16]), [7; 32]);
            let reply = match request {
                Request::Info { .. } => Reply::Info { cookie, size: 14_080, digest, instance: 1 },
                Request::StartNdp(start) => {
                    let (sent, rtt) = (Time::ZERO, wellspring_core::Duration::ZERO);
                    for number in [0, 1, 999_999, u32::MAX - 1] {
                        let (total, window, vanished) = (u32::MAX, u16::MAX, 0);
                        let data = Data { number, total, window, vanished, sent, rtt };
                        let lie = datagram(start.session.0, &NdpHeader::Data(data), &[1; 1_408]);
                        socket.send_to(&lie, from).expect("sent");
                    }
                    Reply::Accepted
                }
                _ => continue,
            };
            emit_reply(nonce, &reply, &mut out);
            socket.send_to(&out, from).expect("sent");
        }
    });
    let folder = tempfile::tempdir().expect("temporary directory");
    let client = client(|config| config.timeout = Duration::from_millis(300));
    let fetched = fetch(&client, host, &folder.path().join("copy")).await;
    assert!(matches!(fetched, Err(FetchError::NoReplicaLeft { .. })), "{fetched:?}");
    let received = client.statistics().expect("running").received;
    let out_of_range = received.dropped.get(&DropReason::Malformed).copied().unwrap_or(0);
    assert_eq!((received.refused_senders + out_of_range, received.symbols_kept), (4, 0));
    drop(stop);
    liar.join().expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_was_interrupted_goes_on_where_it_was() {
    let bytes = random_bytes(4_000_000, 5);
    let slow = Some(wellspring_core::Rate::from_mbps(40));
    let served = Served::with(&bytes, |config| config.driver.send_rate = slow).await;
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let hosts = [served.host()];
    let first = client(|_| {});
    let (updates, moved) = until_moved(2_000_000);
    let following = options().updates(updates);
    tokio::select! {
        fetched = first.fetch(&hosts, &following, to_file(&path)) => panic!("{fetched:?}"),
        moved = moved => moved.expect("it is told"),
    }
    drop(first);
    assert_eq!(parts(folder.path()).len(), 1, "what has come stays");
    let options = options();
    let second = client(|_| {});
    let fetching = second.fetch(&hosts, &options, to_file(&path));
    let report = tokio::time::timeout(GUARD, fetching).await.expect("it ends").expect("fetched");
    assert!(std::fs::read(&path).expect("read") == bytes);
    assert!(report.resumed >= 1_500_000, "{}", report.resumed);
    let asked = report.ndp().expect("by NDP").bytes;
    assert!(asked >= 4_000_000 - report.resumed && asked <= 2_500_000, "{asked}");
    assert_eq!(listing(folder.path()), ["copy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_host_sends_what_the_first_had_not() {
    let bytes = random_bytes(4_000_000, 6);
    let slow = Some(wellspring_core::Rate::from_mbps(16));
    let served = Served::with(&bytes, |config| config.driver.send_rate = slow).await;
    let next = Served::new(&bytes).await;
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|config| config.timeout = Duration::from_secs(2));
    let (updates, moved) = until_moved(2_000_000);
    let (hosts, options) = ([served.host(), next.host()], options().updates(updates));
    let fetching = client.fetch(&hosts, &options, to_file(&path));
    let goes = async {
        moved.await.expect("it is told");
        served.server.shut_down().await;
    };
    let (report, ()) =
        tokio::time::timeout(GUARD, async { tokio::join!(fetching, goes) }).await.expect("it ends");
    report.expect("fetched");
    assert!(std::fs::read(&path).expect("read") == bytes);
    let sent = next.server.statistics().expect("running").sent.datagrams * 1_408;
    assert!(sent <= 2_500_000, "{sent}");
}
