//! LTTP over loopback: whole objects from one and many servers, and through loss.

use std::time::Duration;

use crate::served::{Served, blocks_of, by_lttp, client, fetch, listing, options};
use wellspring_client::store::{Digest, StoreError};
use wellspring_client::{
    FetchError, FetchOptions, FetchProtocol, FetchReport, LttpReport, Method, ReplicaState,
};
use wellspring_core::Rate;
use wellspring_testkit::random_bytes;

/// Fetches `bytes` from so many servers and compares.
async fn goes_round(bytes: &[u8], servers: usize, options: &FetchOptions, loss: f64) -> LttpReport {
    let mut served = Vec::new();
    for _ in 0..servers {
        served.push(Served::new(bytes).await);
    }
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|config| config.driver.faults.loss = loss);
    let served: Vec<&Served> = served.iter().collect();
    let report = fetch(&client, &served, options, &path).await.expect("fetched");
    assert!(std::fs::read(&path).expect("read") == bytes, "the bytes differ");
    assert_eq!(listing(folder.path()), ["copy"]);
    assert_eq!(report.size, bytes.len() as u64);
    assert_eq!(report.digest, Digest(*blake3::hash(bytes).as_bytes()));
    of_lttp(&report)
}

fn of_lttp(report: &FetchReport) -> LttpReport {
    report.lttp().expect("by LTTP").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_gives_the_object() {
    let bytes = random_bytes(3_000_001, 1);
    let report = goes_round(&bytes, 1, &options(), 0.0).await;
    assert_eq!(report.needed(), 3_000_001_u64.div_ceil(1_408));
    assert!(report.used() >= report.needed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_one_address_speaks_from_it_by_tcp_as_by_udp() {
    let bytes = random_bytes(100_000, 4);
    let served = Served::new(&bytes).await;
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    // No system would choose it by itself.
    let bind = "127.0.0.201:0".parse().expect("an address");
    let client = client(|config| config.driver.socket.bind = bind);
    fetch(&client, &[&served], &options(), &path).await.expect("fetched");
    assert!(std::fs::read(&path).expect("read") == bytes, "the bytes differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_servers_give_a_share_each() {
    let bytes = random_bytes(2_500_007, 2);
    let report = goes_round(&bytes, 5, &options(), 0.0).await;
    assert_eq!(report.parts.len(), 5);
    let ends: Vec<u64> = report.parts.iter().map(|part| part.offset + part.len).collect();
    let begins: Vec<u64> = report.parts.iter().map(|part| part.offset).collect();
    assert_eq!(begins[1..], ends[..4]);
    assert_eq!((begins[0], ends[4]), (0, 2_500_007));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_no_byte_of_one_and_of_fewer_nodes_than_servers() {
    for len in [0, 1, 1_409, 16_384, 16_385] {
        let bytes = random_bytes(len, 3);
        let report = goes_round(&bytes, 3, &options(), 0.0).await;
        assert_eq!(report.parts.len(), len.div_ceil(16_384).min(3));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_is_made_good() {
    let bytes = random_bytes(600_000, 4);
    let options = options().cut(blocks_of(128));
    let report = goes_round(&bytes, 3, &options, 0.1).await;
    assert!(report.used() > report.needed());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decoder_gives_the_same_bytes() {
    let bytes = random_bytes(200_000, 5);
    for method in Method::ALL {
        let protocol = FetchProtocol::Lttp { method };
        let options = options().protocol(protocol).cut(blocks_of(64).symbol_size(Some(512)));
        goes_round(&bytes, 2, &options, 0.01).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_or_without_overlap_the_bytes_are_the_same() {
    let bytes = random_bytes(400_000, 12);
    let folder = tempfile::tempdir().expect("temporary directory");
    let options = options().cut(blocks_of(32));
    for (server, receiver) in [(true, true), (true, false), (false, true), (false, false)] {
        let served = Served::with(&bytes, |config| config.driver.lttp.overlap = server).await;
        let client = client(|config| {
            config.driver.lttp.overlap = receiver;
            config.driver.faults.loss = 0.02;
        });
        let path = folder.path().join(format!("{server}-{receiver}"));
        fetch(&client, &[&served], &options, &path).await.expect("fetched");
        assert!(std::fs::read(&path).expect("read") == bytes, "{server} {receiver}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_and_datagrams_out_of_order_change_nothing() {
    let bytes = random_bytes(400_000, 6);
    let served = Served::with(&bytes, |config| {
        config.driver.send_rate = Some(Rate::from_mbps(50));
    })
    .await;
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|config| {
        config.driver.faults.reorder = 0.2;
        config.driver.faults.reorder_by = wellspring_core::Duration::from_millis(2);
        config.driver.faults.duplicate = 0.05;
    });
    let report = fetch(&client, &[&served], &options(), &path).await.expect("fetched");
    assert!(std::fs::read(&path).expect("read") == bytes, "the bytes differ");
    assert!(of_lttp(&report).parts[0].stats.as_ref().expect("whole").duplicates > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_is_kept_and_what_is_not_there_is_said() {
    let bytes = random_bytes(10_000, 8);
    let served = Served::new(&bytes).await;
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    std::fs::write(&path, b"mine").expect("write");
    let client = client(|_| {});
    let kept = fetch(&client, &[&served], &options(), &path).await;
    assert!(matches!(kept, Err(FetchError::Store(StoreError::Exists(_)))), "{kept:?}");
    assert_eq!(std::fs::read(&path).expect("read"), b"mine");

    let missing = by_lttp("nothing");
    let missed = fetch(&client, &[&served], &missing, &folder.path().join("other")).await;
    match missed {
        Err(FetchError::NoReplica(hosts)) => {
            assert!(hosts[0].reason.contains("no object named nothing"), "{hosts:?}");
        }
        other => panic!("{other:?}"),
    }

    std::os::unix::fs::symlink("/etc/passwd", served.folder.path().join("link")).expect("link");
    let link = by_lttp("link");
    let followed = fetch(&client, &[&served], &link, &folder.path().join("other")).await;
    assert!(matches!(followed, Err(FetchError::NoReplica(_))), "{followed:?}");
    assert_eq!(listing(folder.path()), ["copy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_other_bytes_are_refused_or_passed_over() {
    let (bytes, others) = (random_bytes(10_000, 9), random_bytes(10_000, 10));
    let (right, wrong) = (Served::new(&bytes).await, Served::new(&others).await);
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("copy");
    let client = client(|_| {});
    let refused = fetch(&client, &[&right, &wrong], &options(), &path).await;
    assert!(matches!(refused, Err(FetchError::Differ { .. })), "{refused:?}");
    let digest = Some(Digest(*blake3::hash(&bytes).as_bytes()));
    let options = options().digest(digest);
    let report = fetch(&client, &[&wrong, &right], &options, &path).await.expect("fetched");
    assert_eq!(of_lttp(&report).parts.len(), 1);
    assert!(matches!(&report.replicas[0].state, ReplicaState::Unused(_)), "{report:?}");
    assert_eq!(report.replicas[1].state, ReplicaState::Served);
    assert!(std::fs::read(&path).expect("read") == bytes, "the bytes differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_says_so() {
    let bytes = random_bytes(10_000, 11);
    let served = Served::with(&bytes, |config| config.lttp.max_sessions = 0).await;
    let folder = tempfile::tempdir().expect("temporary directory");
    let client = client(|config| config.timeout = Duration::from_secs(1));
    let refused = fetch(&client, &[&served], &options(), &folder.path().join("x")).await;
    match refused {
        Err(FetchError::NoReplicaLeft { hosts, .. }) => {
            assert!(hosts[0].reason.contains("try again later"), "{hosts:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(listing(folder.path()), [""; 0]);
}
