//! Ranges of an object: the blocks that hold them, and no more.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::relay::{Relay, is_symbol};
use crate::served::{GUARD, Served, client, listing, options, runtime, to_file};
use wellspring_client::store::{Existing, StoreError};
use wellspring_client::{
    ByteRange, Client, FetchError, FetchOptions, FetchReport, Host, ReplicaReport, ReplicaState,
    Target, Update, Updates,
};
use wellspring_core::{Rate, Seed};
use wellspring_testkit::random_bytes;

const BLOCK: u64 = 128 << 10;
/// Symbols of a block.
const SYMBOLS: u64 = 96;

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn of(range: ByteRange) -> FetchOptions {
    FetchOptions::new("object".parse().expect("a name")).range(Some(range))
}

fn between(range: &Range<u64>) -> ByteRange {
    ByteRange::Between { first: range.start, last: range.end - 1 }
}

async fn read(
    client: &Client,
    hosts: &[Host],
    options: &FetchOptions,
) -> Result<(Vec<u8>, FetchReport), FetchError> {
    let memory = Memory::default();
    let fetching = client.fetch(hosts, options, Target::Writer(Box::new(memory.clone())));
    let report = tokio::time::timeout(GUARD, fetching).await.expect("it ends")?;
    let bytes = std::mem::take(&mut *memory.0.lock().expect("no panic"));
    Ok((bytes, report))
}

/// Source symbols of the blocks that hold a range, in an object of that size.
fn symbols_of(range: &Range<u64>, size: u64) -> u64 {
    let blocks = range.start / BLOCK..=(range.end - 1) / BLOCK;
    blocks.map(|block| (size - block * BLOCK).min(BLOCK).div_ceil(1_376)).sum()
}

#[test]
fn only_the_blocks_of_a_range_are_fetched_from_one_host_and_from_three() {
    let size = 9_000_001_u64;
    let bytes = random_bytes(size as usize, 1);
    let mut random = Seed(1).stream("ranges");
    let mut ranges = vec![
        0..1,
        0..BLOCK,
        BLOCK - 1..BLOCK + 1,
        size - 1..size,
        size - 40..size,
        0..size,
        5 * BLOCK..30 * BLOCK,
    ];
    ranges.extend((0..6).map(|_| {
        let start = random.below(size);
        start..start + 1 + random.below(size - start)
    }));
    runtime().block_on(async {
        let served =
            [Served::new(&bytes).await, Served::new(&bytes).await, Served::new(&bytes).await];
        let client = client(|_| {});
        for hosts in [1, 3] {
            let hosts: Vec<Host> = served[..hosts].iter().map(Served::host).collect();
            for range in &ranges {
                let (got, report) =
                    read(&client, &hosts, &of(between(range))).await.expect("fetched");
                assert!(got == bytes[range.start as usize..range.end as usize], "{range:?}");
                assert_eq!((report.range.clone(), report.size), (range.clone(), size));
                let scdp = report.scdp().expect("by SCDP");
                let needed = symbols_of(range, size);
                assert_eq!(scdp.stats.needed, needed, "{range:?}");
                // Beyond it: initial windows, what is lost, and what is under way at the end.
                let most = 2 * needed + 3 * SYMBOLS;
                assert!(scdp.asked() <= most, "{range:?}: {} for {needed}", scdp.asked());
            }
        }
    });
}

#[test]
fn ranges_to_the_end_are_those_of_http_and_one_beyond_it_is_an_error() {
    let bytes = random_bytes(300_000, 2);
    runtime().block_on(async {
        let (served, empty) = (Served::new(&bytes).await, Served::new(b"").await);
        let (client, hosts) = (client(|_| {}), [served.host()]);
        for (range, expected) in [
            (ByteRange::From(299_000), 299_000..300_000),
            (ByteRange::Last(10), 299_990..300_000),
            (ByteRange::Last(10_000_000), 0..300_000),
            (ByteRange::Between { first: 299_999, last: u64::MAX }, 299_999..300_000),
        ] {
            let (got, _) = read(&client, &hosts, &of(range)).await.expect("fetched");
            assert!(got == bytes[expected], "{range}");
        }
        for (hosts, range) in [
            (&hosts[..], ByteRange::From(300_000)),
            (&hosts[..], ByteRange::Last(0)),
            (&[empty.host()][..], ByteRange::From(0)),
        ] {
            let failed = read(&client, hosts, &of(range)).await;
            assert!(matches!(failed, Err(FetchError::NoSuchRange { .. })), "{range}");
        }
        let by_lttp = options().range(Some(ByteRange::From(0)));
        let failed = read(&client, &hosts, &by_lttp).await;
        assert!(matches!(failed, Err(FetchError::RangeByProtocol)));
    });
}

#[test]
fn one_of_three_that_lies_is_excluded_and_its_bytes_are_not_delivered() {
    let size = 20_000_000;
    let bytes = random_bytes(size, 3);
    runtime().block_on(async {
        let served =
            [Served::new(&bytes).await, Served::new(&bytes).await, Served::new(&bytes).await];
        let liar = Relay::start(served[1].server.local_addr(), |datagram| {
            if is_symbol(datagram) {
                let last = datagram.len() - 1;
                datagram[last - 7] ^= 0x20;
            }
        });
        let hosts = [served[0].host(), liar.address().into(), served[2].host()];
        let range = 4_000_000..12_345_678;
        let (got, report) =
            read(&client(|_| {}), &hosts, &of(between(&range))).await.expect("by the others");
        assert!(got == bytes[4_000_000..12_345_678]);
        let [first, second, third] = &report.replicas[..] else { panic!("{report:#?}") };
        assert!(matches!(second.state, ReplicaState::Excluded(_)), "{report:#?}");
        assert_eq!((first.altered, third.altered), (0, 0));
    });
}

#[test]
fn a_host_that_ends_meanwhile_leaves_the_range_to_the_others() {
    let bytes = random_bytes(20_000_000, 4);
    runtime().block_on(async {
        let slow = |config: &mut wellspring_server::ServerConfig| {
            config.driver.faults.send_rate = Some(Rate::from_mbps(100));
        };
        let [a, b] = [Served::with(&bytes, slow).await, Served::with(&bytes, slow).await];
        let hosts = [a.host(), b.host()];
        let range = 1_000_000..11_000_000;
        let (sender, begun) = tokio::sync::oneshot::channel();
        let sender = Mutex::new(Some(sender));
        let updates = Updates::to(move |update| {
            if let Update::Moving { done, total, .. } = update {
                assert!(done <= total && total == 10_000_000, "{done} of {total}");
                if done > 1_000_000
                    && let Some(sender) = sender.lock().expect("no panic").take()
                {
                    let _ = sender.send(());
                }
            }
        });
        let client = client(|config| config.timeout = std::time::Duration::from_secs(2));
        let options = of(between(&range)).updates(updates);
        let ends = async {
            begun.await.expect("bytes move");
            drop(b);
        };
        let (fetched, ()) = tokio::join!(read(&client, &hosts, &options), ends);
        let (got, report) = fetched.expect("by the other");
        assert!(got == bytes[1_000_000..11_000_000]);
        let useful = |replica: &ReplicaReport| replica.stats.map_or(0, |stats| stats.useful);
        assert!(useful(&report.replicas[1]) < useful(&report.replicas[0]), "{report:#?}");
    });
}

#[test]
fn a_file_has_the_range_and_no_later_fetch_takes_it_for_more() {
    let bytes = random_bytes(3_000_000, 5);
    runtime().block_on(async {
        let served = Served::with(&bytes, |config| {
            config.driver.faults.send_rate = Some(Rate::from_mbps(50));
        })
        .await;
        let (client, hosts) = (client(|_| {}), [served.host()]);
        let home = tempfile::tempdir().expect("temporary directory");
        let out = home.path().join("object");
        let options = of(between(&(200_000..1_500_000)));
        // Ended half way it leaves nothing.
        let (sender, begun) = tokio::sync::oneshot::channel();
        let sender = Mutex::new(Some(sender));
        let told = Updates::to(move |update| {
            if matches!(update, Update::Moving { done: 1.., .. })
                && let Some(sender) = sender.lock().expect("no panic").take()
            {
                let _ = sender.send(());
            }
        });
        let half = options.clone().updates(told);
        tokio::select! {
            ended = client.fetch(&hosts, &half, to_file(&out)) => panic!("{:?}", ended.is_ok()),
            begun = begun => begun.expect("bytes move"),
        }
        assert_eq!(listing(home.path()), [""; 0]);
        client.fetch(&hosts, &options, to_file(&out)).await.expect("fetched");
        assert!(std::fs::read(&out).expect("read") == bytes[200_000..1_500_000]);
        assert_eq!(listing(home.path()), ["object"]);
        let whole = FetchOptions::new("object".parse().expect("a name"));
        for options in [&whole, &options] {
            let kept = client.fetch(&hosts, options, to_file(&out)).await;
            assert!(matches!(kept, Err(FetchError::Store(StoreError::Exists(_)))));
        }
        let target = Target::File { path: out.clone(), existing: Existing::Replace };
        let report = client.fetch(&hosts, &whole, target).await.expect("fetched");
        assert_eq!(report.resumed, 0);
        assert!(std::fs::read(&out).expect("read") == bytes);
        assert_eq!(listing(home.path()), ["object"]);
        let nowhere = client.fetch(&hosts, &options, to_file(&home.path().join("none/x"))).await;
        assert!(matches!(nowhere, Err(FetchError::Store(StoreError::NoParent(_)))));
    });
}
