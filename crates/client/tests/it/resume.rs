//! Fetches that end half way, and take up what they had.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::relay::{Relay, is_symbol};
use crate::served::{parts, runtime, short_symbols, until_moved};
use wellspring_client::store::Existing;
use wellspring_client::{Client, ClientConfig, FetchOptions, FetchReport, Host, Target};
use wellspring_core::Rate;
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::random_bytes;
use wellspring_wire::control;

/// What no transfer here should take: a guard, not a measure.
const GUARD: Duration = Duration::from_secs(60);
const LEN: usize = 30_000_000;
const BLOCK: u64 = 128 << 10;

struct Replica {
    home: tempfile::TempDir,
    server: Server,
}

impl Replica {
    async fn new(bytes: &[u8]) -> Replica {
        let home = tempfile::tempdir().expect("temporary directory");
        fs::write(home.path().join("x"), bytes).expect("write");
        let bind = own_address();
        let mut config = ServerConfig::new(bind, home.path().to_owned());
        config.driver.faults.send_rate = Some(Rate::from_mbps(300));
        let server = Server::bind(config).await.expect("server");
        Replica { home, server }
    }

    fn host(&self) -> Host {
        self.server.local_addr().to_string().parse().expect("a host")
    }
}

fn client() -> Client {
    Client::new(ClientConfig::default()).expect("client")
}

fn options(resume: bool) -> FetchOptions {
    FetchOptions::new("x".parse().expect("name")).resume(resume).cut(short_symbols())
}

fn into(path: &Path) -> Target {
    Target::File { path: path.to_owned(), existing: Existing::Keep }
}

/// Fetches until so much is there, and then ends as when the program is stopped.
async fn fetch_a_part(hosts: &[Host], path: &Path, part: u64, resume: bool) {
    let (updates, reached) = until_moved(part);
    let client = client();
    let options = options(resume).updates(updates);
    tokio::select! {
        ended = client.fetch(hosts, &options, into(path)) => {
            panic!("ended before: {:?}", ended.map(|report| report.size));
        }
        told = reached => told.expect("told"),
    }
    tokio::task::spawn_blocking(move || drop(client)).await.expect("no panic");
}

async fn fetch(hosts: &[Host], path: &Path) -> FetchReport {
    let (client, options) = (client(), options(true));
    let fetched = client.fetch(hosts, &options, into(path));
    tokio::time::timeout(GUARD, fetched).await.expect("ends").expect("fetched")
}

#[test]
fn a_fetch_that_was_stopped_half_way_fetches_what_is_missing() {
    for replicas in [1, 3] {
        let bytes = random_bytes(LEN, 1);
        runtime().block_on(async {
            let mut servers = Vec::new();
            for _ in 0..replicas {
                servers.push(Replica::new(&bytes).await);
            }
            let hosts: Vec<Host> = servers.iter().map(Replica::host).collect();
            let out = servers[0].home.path().join("out");
            fetch_a_part(&hosts, &out, LEN as u64 / 2, true).await;
            let left = parts(servers[0].home.path());
            assert_eq!(left.len(), 1, "{left:?}");
            let mode = fs::metadata(&left[0]).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let report = fetch(&hosts, &out).await;
            assert!(fs::read(&out).expect("read") == bytes);
            assert!(report.resumed >= LEN as u64 / 2, "{} bytes", report.resumed);
            let missing = LEN as u64 - report.resumed;
            // Symbols that were asked for beyond the missing ones: a hundredth of the object.
            let most = (missing + LEN as u64 / 100).div_ceil(BLOCK) * 96;
            assert!(report.scdp().expect("by SCDP").useful() <= most, "{report:#?}");
            assert!(parts(servers[0].home.path()).is_empty());
        });
    }
}

#[test]
fn nothing_in_a_part_file_is_believed() {
    let bytes = random_bytes(LEN, 2);
    runtime().block_on(async {
        let replica = Replica::new(&bytes).await;
        let (hosts, home) = ([replica.host()], replica.home.path());
        let out = home.join("out");
        fetch_a_part(&hosts, &out, LEN as u64 / 2, true).await;
        let part = &parts(home)[0];
        let file = fs::OpenOptions::new().write(true).open(part).expect("ours");
        // As a power cut may leave it: torn, zeroed, and with what was there before.
        file.write_all_at(&[0; 5_000], 3 * BLOCK + 77).expect("write");
        file.write_all_at(&[9; 1], 20 * BLOCK).expect("write");
        file.write_all_at(&[7; 700_000], LEN as u64 - 700_000).expect("write");
        file.set_len(LEN as u64 + 99).expect("longer");
        drop(file);
        let report = fetch(&hosts, &out).await;
        assert!(fs::read(&out).expect("read") == bytes);
        assert!(report.resumed >= LEN as u64 / 2 - 2 * BLOCK, "{} bytes", report.resumed);
        // What was missing and what was wrong, by a session each.
        let (scdp, missing) = (report.scdp().expect("by SCDP"), LEN as u64 - report.resumed);
        assert!(scdp.stats.needed >= missing / 1_376, "{missing} bytes: {report:#?}");
        assert!(scdp.stats.needed <= missing.div_ceil(BLOCK) * 96, "{missing} bytes: {report:#?}");
        assert!(scdp.useful() >= scdp.stats.needed, "{report:#?}");
    });
}

#[test]
fn what_is_missing_is_asked_for_before_what_is_there_is_verified() {
    let bytes = random_bytes(LEN, 7);
    runtime().block_on(async {
        let replica = Replica::new(&bytes).await;
        let out = replica.home.path().join("out");
        fetch_a_part(&[replica.host()], &out, LEN as u64 / 2, true).await;
        // Nothing can be verified before the first symbol has come.
        let mut has_begun = false;
        let relay = Relay::start(replica.server.local_addr(), move |datagram| {
            has_begun |= is_symbol(datagram);
            let parsed = control::parse(datagram);
            let is_page = matches!(
                parsed,
                Ok(control::Parsed::Reply { reply: control::Reply::Manifest { .. }, .. })
            );
            if is_page && !has_begun {
                datagram.clear();
            }
        });
        let report = fetch(&[Host::from(relay.address())], &out).await;
        assert!(fs::read(&out).expect("read") == bytes);
        assert!(report.resumed >= LEN as u64 / 2, "{} bytes", report.resumed);
    });
}

#[test]
fn zeros_replace_what_a_part_file_had() {
    let mut bytes = random_bytes(LEN, 3);
    bytes[LEN / 2..].fill(0);
    runtime().block_on(async {
        let replica = Replica::new(&bytes).await;
        let (hosts, home) = ([replica.host()], replica.home.path());
        let out = home.join("out");
        fetch_a_part(&hosts, &out, LEN as u64 / 4, true).await;
        let part = &parts(home)[0];
        let file = fs::OpenOptions::new().write(true).open(part).expect("ours");
        file.write_all_at(&[7; 2_000_000], LEN as u64 - 2_000_000).expect("write");
        let report = fetch(&hosts, &out).await;
        assert!(report.resumed > 0);
        assert!(fs::read(&out).expect("read") == bytes);
    });
}

#[test]
fn a_part_file_that_is_whole_needs_no_transfer() {
    let bytes = random_bytes(1_000_000, 4);
    runtime().block_on(async {
        let replica = Replica::new(&bytes).await;
        let (hosts, home) = ([replica.host()], replica.home.path());
        let out = home.join("out");
        let digest = blake3::hash(&bytes).to_hex();
        let part = home.join(format!(".out.wellspring-{}.kept.part", &digest[..32]));
        fs::write(&part, &bytes).expect("write");
        let report = fetch(&hosts, &out).await;
        assert_eq!((report.resumed, report.scdp().expect("by SCDP").asked()), (1_000_000, 0));
        assert!(fs::read(&out).expect("read") == bytes);
        assert!(parts(home).is_empty());
    });
}

#[test]
fn without_resuming_nothing_stays() {
    let bytes = random_bytes(LEN, 5);
    runtime().block_on(async {
        let replica = Replica::new(&bytes).await;
        let (hosts, home) = ([replica.host()], replica.home.path());
        fetch_a_part(&hosts, &home.join("out"), LEN as u64 / 4, false).await;
        assert_eq!(parts(home), Vec::<PathBuf>::new());
    });
}

#[test]
fn what_is_left_of_other_bytes_is_removed_and_what_is_in_use_is_not_touched() {
    let bytes = random_bytes(LEN, 6);
    runtime().block_on(async {
        let replica = Replica::new(&bytes).await;
        let (hosts, home) = ([replica.host()], replica.home.path());
        let out = home.join("out");
        let of_others = home.join(format!(".other.wellspring-{:032x}.kept.part", 1));
        let outdated = home.join(format!(".out.wellspring-{:032x}.kept.part", 1));
        let lost = home.join(format!(".out.wellspring-{:016x}.part", 1));
        for path in [&of_others, &outdated, &lost] {
            fs::write(path, b"abc").expect("write");
        }
        // Somebody is at it: the second gets a part file of its own, which does not stay.
        let first = fetch_a_part(&hosts, &out, LEN as u64 / 4, true);
        let second = async {
            while parts(home)
                .iter()
                .all(|p| !p.to_string_lossy().contains(".kept") || *p == of_others)
            {
                tokio::task::yield_now().await;
            }
            fetch(&hosts, &home.join("other-name")).await
        };
        let (_, report) = tokio::join!(first, second);
        assert_eq!(report.resumed, 0);
        assert!(fs::read(home.join("other-name")).expect("read") == bytes);
        let left = parts(home);
        assert!(left.contains(&of_others), "a fetch of that file may take it up");
        assert!(!left.contains(&outdated) && !left.contains(&lost), "{left:?}");
        assert_eq!(left.len(), 2, "{left:?}");
        let cleaned = wellspring_client::store::clean(home).expect("a folder");
        assert_eq!(cleaned.removed, 2);
        assert!(cleaned.bytes >= LEN as u64 / 4);
        assert!(parts(home).is_empty());
    });
}
