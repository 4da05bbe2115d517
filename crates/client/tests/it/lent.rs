//! Fetches into memory that the caller lends.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::served::{GUARD, Served, client, runtime};
use wellspring_client::store::Place;
use wellspring_client::{
    ByteRange, Client, FetchError, FetchOptions, FetchProtocol, Host, Method, Target,
};
use wellspring_testkit::random_bytes;

const BLOCK: u64 = 128 << 10;

#[derive(Clone, Debug)]
struct Lent(Arc<Mutex<Vec<u8>>>);

fn no_such_place() -> io::Error {
    io::Error::other("no such place")
}

impl Place for Lent {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut memory = self.0.lock().expect("no panic");
        let place = memory.get_mut(at as usize..).and_then(|rest| rest.get_mut(..bytes.len()));
        place.ok_or_else(no_such_place)?.copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let memory = self.0.lock().expect("no panic");
        let place = memory.get(at as usize..).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(place.ok_or_else(no_such_place)?);
        Ok(())
    }
}

async fn read(
    client: &Client,
    hosts: &[Host],
    options: &FetchOptions,
    len: u64,
) -> Result<Vec<u8>, FetchError> {
    let lent = Lent(Arc::new(Mutex::new(vec![0xEE; len as usize])));
    let fetching = client.fetch(hosts, options, Target::Memory(Box::new(lent.clone())));
    tokio::time::timeout(GUARD, fetching).await.expect("it ends")?;
    Ok(std::mem::take(&mut *lent.0.lock().expect("no panic")))
}

fn options(protocol: FetchProtocol, range: Option<&Range<u64>>) -> FetchOptions {
    let between =
        |range: &Range<u64>| ByteRange::Between { first: range.start, last: range.end - 1 };
    let options = FetchOptions::new("object".parse().expect("a name")).range(range.map(between));
    options.protocol(protocol)
}

#[test]
fn lent_memory_has_the_object_by_each_protocol_or_exactly_a_range_of_it() {
    let size = 9_000_001_u64;
    let bytes = random_bytes(size as usize, 21);
    runtime().block_on(async {
        let served = [Served::new(&bytes).await, Served::new(&bytes).await];
        let (client, hosts) = (client(|_| {}), served.each_ref().map(|served| served.host()));
        let lttp = FetchProtocol::Lttp { method: Method::Elimination };
        for protocol in [FetchProtocol::Scdp, lttp, FetchProtocol::Ndp] {
            let got = read(&client, &hosts, &options(protocol, None), size).await.expect("fetched");
            assert!(got == bytes, "{protocol:?}");
        }
        for range in [
            0..1,
            BLOCK - 1..BLOCK + 1,
            size - 40..size,
            0..size,
            5 * BLOCK + 7..30 * BLOCK + 9,
            3 * BLOCK + 1..4 * BLOCK - 1,
        ] {
            // What is longer than the range keeps what it had.
            let len = range.end - range.start;
            let options = options(FetchProtocol::Scdp, Some(&range));
            let got = read(&client, &hosts, &options, len + 3).await.expect("fetched");
            let (there, beyond) = got.split_at(len as usize);
            assert!(there == &bytes[range.start as usize..range.end as usize], "{range:?}");
            assert_eq!(beyond, [0xEE; 3]);
        }
        let empty = Served::new(b"").await;
        let got = read(&client, &[empty.host()], &options(FetchProtocol::Scdp, None), 2).await;
        assert_eq!(got.expect("fetched"), [0xEE; 2]);
    });
}

#[test]
fn lent_memory_that_is_too_short_ends_the_fetch() {
    let bytes = random_bytes(1_000_000, 22);
    runtime().block_on(async {
        let served = Served::new(&bytes).await;
        let (client, hosts) = (client(|_| {}), [served.host()]);
        for range in [None, Some(&(10..999_000))] {
            let options = options(FetchProtocol::Scdp, range);
            let failed = read(&client, &hosts, &options, 998_989).await.expect_err("too short");
            assert!(failed.to_string().contains("no such place"), "{failed}");
        }
    });
}
