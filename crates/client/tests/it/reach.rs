//! Transfers that outlive faults, at full size: `lab/trust` prints what they come to as a table.
//!
//! `REACH_MB` is the size of an object (200 MB, or for the nightly run 10 GB; the disk must have room for two), and
//! `REACH_DOWN` for how long a link is down \[s\]. What takes time is in the table and asserted by no test.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::process::Process;
use crate::relay::{Relay, is_symbol};
use crate::served::{runtime, short_symbols};
use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, FetchError, FetchOptions, FetchReport, Host, ReplicaState, Target,
    Update, Updates,
};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::{random_bytes, reach};
use wellspring_wire::scdp::parse;

/// The test that is a program to be killed.
const PROGRAM: &str = concat!(module_path!(), "::program_that_is_killed");
const MB: u64 = 1_000_000;
/// Bytes before the payload of a symbol that has no options.
const HEADER_LEN: u64 = 24;
/// Symbols of a block.
const SYMBOLS: u64 = 96;
/// Bytes that are on their way or of incomplete blocks when a process is killed, at most \[bytes\].
const UNDER_WAY: u64 = 4 * MB;

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().map_or(usual, |text| {
        text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}"))
    })
}

/// An object of full size in a folder of its own.
struct Place {
    home: tempfile::TempDir,
    size: u64,
}

impl Place {
    fn new() -> Place {
        let (home, size) =
            (tempfile::tempdir().expect("temporary directory"), number("REACH_MB", 200) * MB);
        fs::create_dir(home.path().join("served")).expect("directory");
        let mut file = File::create(home.path().join("served/x")).expect("created");
        // No two chunks are alike, so none can lie in another's place.
        let mut chunk = random_bytes(8 << 20, 1);
        for (number, at) in (0..size).step_by(chunk.len()).enumerate() {
            chunk[..8].copy_from_slice(&number.to_le_bytes());
            let len = (size - at).min(chunk.len() as u64) as usize;
            file.write_all(&chunk[..len]).expect("room for the object");
        }
        Place { home, size }
    }

    async fn serve(&self) -> Server {
        let bind = own_address();
        Server::bind(ServerConfig::new(bind, self.home.path().join("served")))
            .await
            .expect("server")
    }

    fn out(&self) -> PathBuf {
        self.home.path().join("out")
    }

    /// What was fetched is the object.
    fn assert_fetched(&self) {
        let open = |path: &Path| File::open(path).expect("there");
        let (mut one, mut other) = (open(&self.home.path().join("served/x")), open(&self.out()));
        assert_eq!(other.metadata().expect("stat").len(), self.size);
        let (mut left, mut right) = (vec![0; 8 << 20], vec![0; 8 << 20]);
        for at in (0..self.size).step_by(left.len()) {
            let len = (self.size - at).min(left.len() as u64) as usize;
            one.read_exact(&mut left[..len]).expect("read");
            other.read_exact(&mut right[..len]).expect("read");
            assert!(left[..len] == right[..len], "other bytes from {at} on");
        }
    }

    fn in_text(&self) -> String {
        match self.size % 1_000_000_000 {
            0 => format!("{} GB", self.size / 1_000_000_000),
            _ => format!("{} MB", self.size / MB),
        }
    }
}

async fn fetch(
    hosts: &[Host],
    to: PathBuf,
    timeout: Duration,
    updates: Updates,
) -> Result<FetchReport, FetchError> {
    let client = Client::new(ClientConfig::default().timeout(timeout)).expect("client");
    let options =
        FetchOptions::new("x".parse().expect("a name")).updates(updates).cut(short_symbols());
    let target = Target::File { path: to, existing: Existing::Keep };
    client.fetch(hosts, &options, target).await
}

fn through(relay: &Relay) -> Host {
    Host::from(relay.address())
}

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
#[ignore = "minutes at full size: lab/trust"]
fn one_of_three_replicas_alters_a_hundredth_of_its_symbols() {
    let place = Place::new();
    runtime().block_on(async {
        let servers = [place.serve().await, place.serve().await, place.serve().await];
        let mut symbols = 0_u64;
        let liar = Relay::start(servers[1].local_addr(), move |datagram| {
            if is_symbol(datagram) {
                symbols += 1;
                let at = datagram.len() - 8;
                datagram[at] ^= if symbols % 100 == 50 { 0x20 } else { 0 };
            }
        });
        let hosts =
            [Host::from(servers[0].local_addr()), through(&liar), servers[2].local_addr().into()];
        let fetched = fetch(&hosts, place.out(), PATIENCE, Updates::default()).await;
        let report = fetched.expect("put right by the others");
        place.assert_fetched();
        let over = 100.0 * report.scdp().expect("by SCDP").overhead_needed();
        let is_named = matches!(report.replicas[1].state, ReplicaState::Excluded(_));
        let honest = [0, 2].map(|replica| report.replicas[replica].state == ReplicaState::Served);
        let is_met = is_named && honest == [true; 2] && over <= 2.0;
        reach::row(
            &format!("one of three replicas alters 1 % of its symbols, {}", place.in_text()),
            "fetched, named, <= 2 % more bytes",
            &format!("fetched, {}named, {over:.2} %", if is_named { "" } else { "not " }),
            is_met,
        );
        assert!(is_met, "{report:#?}");
    });
}

#[test]
#[ignore = "minutes at full size: lab/trust"]
fn one_flip_on_the_way_costs_less_than_a_block() {
    let place = Place::new();
    let half = place.size / 2 / 1_376;
    runtime().block_on(async {
        let server = place.serve().await;
        let mut symbols = 0;
        let relay = Relay::start(server.local_addr(), move |datagram| {
            if is_symbol(datagram) {
                symbols += 1;
                let at = datagram.len() - 8;
                datagram[at] ^= u8::from(symbols == half);
            }
        });
        let fetched = fetch(&[through(&relay)], place.out(), PATIENCE, Updates::default()).await;
        let report = fetched.expect("put right");
        place.assert_fetched();
        let scdp = report.scdp().expect("by SCDP");
        let more = scdp.useful().saturating_sub(scdp.stats.needed);
        let altered = report.replicas[0].altered;
        let is_met = altered == 1 && more <= SYMBOLS;
        reach::row(
            &format!("one flip in {}", place.in_text()),
            &format!("one block ({SYMBOLS} symbols) again"),
            &format!("{altered} altered symbol found, {more} symbols more than needed"),
            is_met,
        );
        assert!(is_met, "{report:#?}");
    });
}

#[test]
#[ignore = "minutes at full size: lab/trust"]
fn a_link_that_is_down_for_two_thirds_of_the_time_limit() {
    let place = Place::new();
    let down = Duration::from_secs(number("REACH_DOWN", 60));
    runtime().block_on(async {
        let server = place.serve().await;
        let since = Arc::new(Mutex::new(None::<Instant>));
        let is_down = {
            let since = Arc::clone(&since);
            move || since.lock().expect("no panic").is_some_and(|at| at.elapsed() < down)
        };
        let (up, upstream) = (is_down.clone(), move |datagram: &mut Vec<u8>| {
            if is_down() {
                datagram.clear();
            }
        });
        let relay = Relay::start_both(server.local_addr(), upstream, move |datagram| {
            if up() {
                datagram.clear();
            }
        });
        let goes_down = Arc::clone(&since);
        let updates = Updates::to(move |update| {
            if matches!(update, Update::Moving { done, total, .. } if done > total / 10) {
                goes_down.lock().expect("no panic").get_or_insert_with(Instant::now);
            }
        });
        let limit = down * 3 / 2;
        let fetched = fetch(&[through(&relay)], place.out(), limit, updates).await;
        let went_down = since.lock().expect("no panic").is_some();
        assert!(went_down, "it was over before the link could go down");
        reach::row(
            &format!("link down {} s under --timeout {}", down.as_secs(), limit.as_secs()),
            "fetched",
            &fetched.as_ref().map_or_else(ToString::to_string, |_| "fetched".to_owned()),
            fetched.is_ok(),
        );
        fetched.expect("the limit is longer");
        place.assert_fetched();
    });
}

/// A client process that the next test kills.
#[test]
#[ignore = "no test: the tests of this file start it as a client"]
fn program_that_is_killed() {
    let arguments = std::env::var("ARGUMENTS").expect("given");
    let (out, host) = arguments.split_once('\n').expect("two");
    let updates = Updates::to(|update| {
        if let Update::Moving { done, .. } = update {
            println!("moved {done}");
        }
    });
    let host = host.parse().expect("a host");
    // It is killed before that.
    let _ = runtime().block_on(fetch(&[host], out.into(), PATIENCE, updates));
}

#[test]
#[ignore = "minutes at full size: lab/trust"]
fn a_client_that_is_killed_half_way_and_starts_again() {
    let place = Place::new();
    runtime().block_on(async {
        let server = place.serve().await;
        let (passed, again) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let first = Arc::new(Mutex::new(None::<Instant>));
        let (count, is_again, seen) = (Arc::clone(&passed), Arc::clone(&again), Arc::clone(&first));
        let mut killed = None;
        let relay = Relay::start(server.local_addr(), move |datagram| {
            if is_symbol(datagram) {
                count.fetch_add(datagram.len() as u64 - HEADER_LEN, Relaxed);
                let session = parse(datagram).expect("as the server sent it").session;
                if !is_again.load(Relaxed) {
                    killed = Some(session);
                } else if killed != Some(session) {
                    seen.lock().expect("no panic").get_or_insert_with(Instant::now);
                }
            }
        });
        let (out, host) = (place.out(), relay.address().to_string());
        let arguments = [out.to_str().expect("text"), &host];
        let mut client = Process::start(PROGRAM, "client", &arguments);
        while client.says("moved").parse::<u64>().expect("a number") < place.size / 2 {}
        client.kill();
        // Symbols of the session that was killed may still come: they are no new bytes.
        again.store(true, Relaxed);
        let began = Instant::now();
        let fetched = fetch(&[through(&relay)], out.clone(), PATIENCE, Updates::default()).await;
        let report = fetched.expect("fetched");
        place.assert_fetched();
        let more = passed.load(Relaxed).saturating_sub(place.size);
        let part = 100.0 * more as f64 / place.size as f64;
        let first = first.lock().expect("no panic").expect("a symbol of the new session");
        let after = first.duration_since(began);
        let is_little = more <= UNDER_WAY.max(place.size / 100);
        reach::row(
            &format!("kill -9 of the client at 50 % of {}, again", place.in_text()),
            "<= 1 % (or 4 MB) again, a new byte within 1 s",
            &format!("{part:.2} % again, {} MB resumed, after {after:.1?}", report.resumed / MB),
            is_little && after <= Duration::from_secs(1),
        );
        assert!(report.resumed > place.size * 4 / 10, "{} bytes", report.resumed);
        assert!(is_little, "{more} bytes more than the object has");
    });
}
