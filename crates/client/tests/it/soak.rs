//! Transfers under random faults of processes, paths and disks, on real sockets.
//!
//! `SOAK_SECONDS` says for how long (twenty, or for the nightly run an hour), `SEED` which faults. A process stands still, and a
//! path is down, for up to a sixtieth of that time, and for a minute at most. Whatever happens: no wrong byte has a final name,
//! what was said to be complete stays, every transfer ends, and once the faults are over the next one succeeds.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::process::Process;
use crate::relay::{Relay, is_symbol};
use tokio::sync::Notify;
use wellspring_client::store::{DigestCache, Existing};
use wellspring_client::{
    Client, ClientConfig, FetchOptions, Host, PutError, PutOptions, ReceiverReport, ReceiverState,
    Target,
};
use wellspring_core::{RandomStream, Rate, Seed};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;

/// The test that is a program to be killed.
const PROGRAM: &str = concat!(module_path!(), "::program_that_is_killed");
/// Servers.
const SERVERS: usize = 3;
/// Names of objects.
const NAMES: u64 = 4;
/// Longest object \[bytes\].
const LONGEST: u64 = 2_000_000;
/// Size of the small disk, which the last server has if one can be mounted.
const SMALL_DISK: &str = "24m";
/// The name of the fault that only this disk can have.
const DISK_FULL: &str = "disk full";

/// What goes wrong in a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Nothing,
    /// `kill -9` of a server, and a new one at the same address.
    Kill,
    /// A server's process stands still for a while.
    Stop,
    /// A server's path carries nothing for a while.
    Down,
    /// Every so manieth symbol has a flipped bit and a right checksum.
    Damage(u64),
    /// The client goes away.
    Leave,
    /// The small disk is full for a while.
    FullDisk,
}

impl Fault {
    fn any(random: &mut RandomStream) -> Fault {
        match random.next_u64() % 8 {
            0 => Fault::Nothing,
            1 | 2 => Fault::Kill,
            3 => Fault::Stop,
            4 => Fault::Down,
            5 => Fault::Damage(1 + random.next_u64() % 300),
            6 => Fault::Leave,
            _ => Fault::FullDisk,
        }
    }

    /// The names of all but nothing.
    const KINDS: [&str; 6] = ["killed", "stopped", "down", "damaged", "left", DISK_FULL];

    fn name(self) -> &'static str {
        match self {
            Fault::Nothing => "without a fault",
            Fault::Kill => "killed",
            Fault::Stop => "stopped",
            Fault::Down => "down",
            Fault::Damage(_) => "damaged",
            Fault::Leave => "left",
            Fault::FullDisk => DISK_FULL,
        }
    }

    /// Whether a transfer must outlive it: it waits longer.
    fn is_outlived(self) -> bool {
        matches!(self, Fault::Nothing | Fault::Stop | Fault::Down)
    }
}

/// The path to a server.
#[derive(Default)]
struct PathState {
    is_down: AtomicBool,
    /// Every so manieth symbol is damaged; 0: none.
    damage: AtomicU64,
    symbols: AtomicU64,
    /// Datagrams until the fault of the transfer strikes; 0: it has.
    fuse: AtomicU64,
    strikes: Mutex<Option<Sender<()>>>,
}

impl PathState {
    fn pass(&self, datagram: &mut Vec<u8>) {
        if self.fuse.load(Relaxed) > 0
            && self.fuse.fetch_sub(1, Relaxed) == 1
            && let Some(strikes) = self.strikes.lock().expect("no panic").take()
        {
            let _ = strikes.send(());
        }
        if self.is_down.load(Relaxed) {
            return datagram.clear();
        }
        let damage = self.damage.load(Relaxed);
        if damage > 0 && is_symbol(datagram) {
            let symbol = self.symbols.fetch_add(1, Relaxed) + 1;
            if symbol.is_multiple_of(damage) {
                let last = datagram.len() - 1;
                datagram[last - 9] ^= 4;
            }
        }
    }
}

/// A server in a process of its own, behind a path.
struct Remote {
    folder: PathBuf,
    address: SocketAddr,
    process: Option<Process>,
    path: Arc<PathState>,
    relay: Relay,
}

impl Remote {
    fn start(folder: PathBuf) -> Remote {
        fs::create_dir_all(&folder).expect("directory");
        let address = free_address();
        let path = Arc::new(PathState::default());
        let (up, down) = (Arc::clone(&path), Arc::clone(&path));
        let relay = Relay::start_both(
            address,
            move |datagram| up.pass(datagram),
            move |datagram| down.pass(datagram),
        );
        let mut remote = Remote { folder, address, process: None, path, relay };
        remote.restart();
        remote
    }

    fn restart(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
        let (folder, address) = (self.folder.to_str().expect("text"), self.address.to_string());
        let mut process = Process::start(PROGRAM, "server", &[folder, &address]);
        process.says("listening");
        self.process = Some(process);
    }

    fn signal(&self, signal: &str) {
        let id = self.process.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().expect("kill");
        assert!(sent.success());
    }

    fn host(&self) -> Host {
        self.relay.address().to_string().parse().expect("a host")
    }

    fn object(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join(name)).ok()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }
}

fn free_address() -> SocketAddr {
    let socket = UdpSocket::bind(own_address()).expect("bound");
    socket.local_addr().expect("bound")
}

/// A disk of a few megabytes.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<SmallDisk> {
        fs::create_dir(at).expect("directory");
        let size = format!("size={SMALL_DISK}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).stderr(Stdio::null());
        match mount.status() {
            Ok(status) if status.success() => Some(SmallDisk(at.to_owned())),
            _ => {
                assert!(std::env::var_os("CI").is_none(), "not run: no small disk can be mounted");
                println!("NOT TESTED: a full disk (mounting needs root)");
                None
            }
        }
    }

    /// Fills it until the file is removed.
    fn fill(&self) -> PathBuf {
        let filler = self.0.join("filler");
        let mut file = File::create(&filler).expect("made");
        while file.write_all(&[1; 65_536]).is_ok() {}
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// What the servers have been sent.
#[derive(Default)]
struct Truth {
    /// All that was ever put under a name.
    versions: BTreeMap<String, Vec<Vec<u8>>>,
    /// What may be at a server under a name, the first if it was said to be complete.
    may_be: BTreeMap<(usize, String), (bool, Vec<usize>)>,
}

impl Truth {
    fn new_version(&mut self, name: &str, bytes: &[u8]) -> usize {
        let versions = self.versions.entry(name.to_owned()).or_default();
        versions.push(bytes.to_vec());
        versions.len() - 1
    }

    fn offered(&mut self, server: usize, name: &str, version: usize) {
        self.may_be.entry((server, name.to_owned())).or_default().1.push(version);
    }

    fn complete(&mut self, server: usize, name: &str, version: usize) {
        self.may_be.insert((server, name.to_owned()), (true, vec![version]));
    }

    fn check(&self, remotes: &[Remote]) {
        for ((server, name), (is_there, may_be)) in &self.may_be {
            let of = format!("{name} at server {server}");
            let Some(there) = remotes[*server].object(name) else {
                assert!(!is_there, "{of} was said to be complete, and is gone");
                continue;
            };
            let versions = &self.versions[name];
            let is_one = may_be.iter().any(|version| versions[*version] == there);
            assert!(is_one, "{of}: bytes that nobody has put there, or that were replaced");
        }
    }
}

struct Soak {
    random: RandomStream,
    remotes: Arc<Mutex<Vec<Remote>>>,
    small: Option<Arc<SmallDisk>>,
    truth: Truth,
    home: PathBuf,
    /// How long a process stands still or a path is down, at most.
    longest: Duration,
    counts: BTreeMap<&'static str, u64>,
}

/// A fault that waits for its moment, or is under way.
struct Striking {
    over: Sender<()>,
    /// Whether it has struck.
    thread: std::thread::JoinHandle<bool>,
    paths: Vec<Arc<PathState>>,
}

impl Striking {
    /// The transfer is over, and so is the fault; whether there was one.
    fn end(self) -> bool {
        for path in &self.paths {
            path.strikes.lock().expect("no panic").take();
            path.damage.store(0, Relaxed);
        }
        let _ = self.over.send(());
        self.thread.join().expect("no panic")
    }
}

impl Soak {
    /// Prepares a fault at one of those servers. It strikes after some datagrams.
    fn light(&mut self, fault: Fault, among: &[usize], left: &Arc<Notify>) -> Striking {
        let victim = among[(self.random.next_u64() % among.len() as u64) as usize];
        let while_for =
            Duration::from_millis(1 + self.random.next_u64() % self.longest.as_millis() as u64);
        let remotes = self.remotes.lock().expect("no panic");
        let paths: Vec<_> = remotes.iter().map(|remote| Arc::clone(&remote.path)).collect();
        drop(remotes);
        let path = Arc::clone(&paths[victim]);
        let (strikes, struck): (_, Receiver<()>) = mpsc::channel();
        let (over, is_over) = mpsc::channel();
        if let Fault::Damage(every) = fault {
            path.damage.store(every, Relaxed);
        }
        *path.strikes.lock().expect("no panic") = Some(strikes);
        // As often early as late, or most transfers would be over before.
        let latest = 16 << self.random.below(8);
        path.fuse.store(1 + self.random.below(latest), Relaxed);
        let (remotes, small) = (Arc::clone(&self.remotes), self.small.clone());
        let left = Arc::clone(left);
        let thread = std::thread::spawn(move || {
            if struck.recv().is_err() {
                return false; // the transfer was over before
            }
            // Ends when the time is over, or the transfer.
            let wait = || _ = is_over.recv_timeout(while_for);
            match fault {
                Fault::Nothing | Fault::Damage(_) => {}
                Fault::Kill => remotes.lock().expect("no panic")[victim].restart(),
                Fault::Stop => {
                    remotes.lock().expect("no panic")[victim].signal("-STOP");
                    wait();
                    remotes.lock().expect("no panic")[victim].signal("-CONT");
                }
                Fault::Down => {
                    path.is_down.store(true, Relaxed);
                    wait();
                    path.is_down.store(false, Relaxed);
                }
                Fault::Leave => left.notify_one(),
                Fault::FullDisk => {
                    let Some(small) = small else { return false };
                    let filler = small.fill();
                    wait();
                    fs::remove_file(filler).expect("removed");
                }
            }
            true
        });
        Striking { over, thread, paths }
    }

    fn client(&mut self) -> Client {
        let mut config = ClientConfig::default().timeout(self.longest * 3 + Duration::from_secs(5));
        config.driver.socket.bind = "127.0.0.1:0".parse().expect("address");
        config.driver.workers = 1;
        let mbps = 20 + self.random.next_u64() % 200;
        config.driver.faults.send_rate = Some(Rate::from_mbps(mbps));
        Client::new(config).expect("client")
    }

    /// No transfer takes longer, whatever happens.
    fn guard(&self) -> Duration {
        self.longest * 10 + Duration::from_secs(60)
    }

    fn hosts(&self, of: &[usize]) -> Vec<Host> {
        let remotes = self.remotes.lock().expect("no panic");
        of.iter().map(|server| remotes[*server].host()).collect()
    }

    async fn round(&mut self) {
        let name = format!("object-{}", self.random.next_u64() % NAMES);
        let fault = Fault::any(&mut self.random);
        if self.random.next_u64().is_multiple_of(2) {
            self.put(&name, fault).await;
        } else {
            self.get(&name, fault).await;
        }
        let remotes = self.remotes.lock().expect("no panic");
        self.truth.check(&remotes);
    }

    async fn put(&mut self, name: &str, fault: Fault) {
        let len = self.random.next_u64() % (LONGEST + 1);
        let bytes: Vec<u8> = (0..len).map(|_| self.random.next_u64() as u8).collect();
        let version = self.truth.new_version(name, &bytes);
        let file = self.home.join("put");
        fs::write(&file, &bytes).expect("written");
        let among: Vec<usize> =
            (0..SERVERS).filter(|_| self.random.next_u64().is_multiple_of(2)).collect();
        let among = if among.is_empty() { vec![SERVERS - 1] } else { among };
        among.iter().for_each(|server| self.truth.offered(*server, name, version));
        for fault in [fault, Fault::Nothing] {
            let left = Arc::new(Notify::new());
            let striking = self.light(fault, &among, &left);
            let (client, hosts) = (self.client(), self.hosts(&among));
            let options = PutOptions::new(name.parse().expect("name")).overwrite(true);
            let put = async {
                tokio::select! {
                    put = client.put(&file, &hosts, &options) => Some(put),
                    () = left.notified() => None,
                }
            };
            let put = tokio::time::timeout(self.guard(), put).await.expect("every put ends");
            self.count(if put.is_some() { "puts" } else { "puts not waited for" });
            let receivers = match &put {
                Some(Ok(report)) => report.receivers.clone(),
                Some(Err(PutError::Incomplete(report))) => report.receivers.clone(),
                _ => Vec::new(),
            };
            for (server, ReceiverReport { state, .. }) in among.iter().zip(&receivers) {
                if matches!(state, ReceiverState::Complete(_)) {
                    self.truth.complete(*server, name, version);
                }
            }
            self.end(fault, client, striking).await;
            let must_succeed = fault.is_outlived();
            match put {
                Some(Ok(_)) => return,
                Some(Err(error)) if must_succeed => panic!("{fault:?}, {name}: {error}"),
                _ => self.count("puts again"),
            }
        }
    }

    async fn get(&mut self, name: &str, fault: Fault) {
        let (among, bytes) = {
            let remotes = self.remotes.lock().expect("no panic");
            let there: Vec<_> = remotes.iter().map(|remote| remote.object(name)).collect();
            let Some(bytes) = there.iter().flatten().next().cloned() else { return };
            let has = |server: &usize| there[*server].as_ref() == Some(&bytes);
            ((0..SERVERS).filter(has).collect::<Vec<_>>(), bytes)
        };
        let out = self.home.join("got");
        let _ = fs::remove_file(&out);
        for fault in [fault, Fault::Nothing] {
            let left = Arc::new(Notify::new());
            let striking = self.light(fault, &among, &left);
            let (client, hosts) = (self.client(), self.hosts(&among));
            let options = FetchOptions::new(name.parse().expect("name"));
            let target = Target::File { path: out.clone(), existing: Existing::Keep };
            let fetch = async {
                tokio::select! {
                    fetch = client.fetch(&hosts, &options, target) => Some(fetch),
                    () = left.notified() => None,
                }
            };
            let fetch = tokio::time::timeout(self.guard(), fetch).await.expect("every get ends");
            self.count(if fetch.is_some() { "gets" } else { "gets not waited for" });
            self.end(fault, client, striking).await;
            if let Ok(there) = fs::read(&out) {
                assert!(there == bytes, "{fault:?}, {name}: wrong bytes under a final name");
            }
            match fetch {
                Some(Ok(_)) => return assert!(out.exists()),
                // Of a get that was not waited for the last step may outlive it, and the next finds the object there.
                _ if out.exists() => return,
                Some(Err(error)) if fault.is_outlived() => panic!("{fault:?}, {name}: {error}"),
                _ => self.count("gets again"),
            }
        }
    }

    /// Ends a client, and its fault.
    async fn end(&mut self, fault: Fault, client: Client, striking: Striking) {
        let ending = tokio::task::spawn_blocking(move || {
            drop(client);
            striking.end()
        });
        if ending.await.expect("no panic") {
            self.count(fault.name());
        }
    }

    /// In so many rounds faults have struck, and in many of them each kind: one round in fifteen or so has one of a kind.
    fn check_faults(&self, rounds: u64) {
        let kinds = Fault::KINDS.iter().filter(|kind| self.small.is_some() || **kind != DISK_FULL);
        let missing: Vec<_> =
            kinds.clone().filter(|kind| !self.counts.contains_key(*kind)).collect();
        assert!(rounds < 30 || missing.len() < kinds.count(), "no fault has struck");
        assert!(rounds < 400 || missing.is_empty(), "never: {missing:?}");
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

#[test]
fn whatever_fails_no_wrong_byte_has_a_name_and_nothing_complete_is_lost() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let (seconds, seed) = (number("SOAK_SECONDS").unwrap_or(20), number("SEED").unwrap_or(1));
    println!("SEED={seed} SOAK_SECONDS={seconds}");
    let home = tempfile::tempdir().expect("temporary directory");
    let small = SmallDisk::mount(&home.path().join("small")).map(Arc::new);
    let remotes = (0..SERVERS).map(|server| {
        let folder = match &small {
            Some(small) if server == SERVERS - 1 => small.0.join("served"),
            _ => home.path().join(format!("server-{server}")),
        };
        Remote::start(folder)
    });
    let mut soak = Soak {
        random: Seed(seed).stream("soak"),
        remotes: Arc::new(Mutex::new(remotes.collect())),
        small,
        truth: Truth::default(),
        home: home.path().to_owned(),
        longest: Duration::from_secs((seconds / 60).clamp(1, 60)),
        counts: BTreeMap::new(),
    };
    let until = Instant::now() + Duration::from_secs(seconds);
    runtime().block_on(async {
        let mut rounds = 0;
        while Instant::now() < until {
            soak.round().await;
            rounds += 1;
        }
        println!("{rounds} rounds: {:?}", soak.counts);
        soak.check_faults(rounds);
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("runtime")
}

/// The servers.
#[test]
#[ignore = "no test: the test of this file starts it as a server"]
fn program_that_is_killed() {
    let arguments = std::env::var("ARGUMENTS").expect("given");
    let arguments: Vec<&str> = arguments.lines().collect();
    let (folder, address) = (Path::new(arguments[0]), arguments[1]);
    runtime().block_on(async {
        let bind = address.parse().expect("address");
        let cache = DigestCache::open(&folder.with_extension("cache")).expect("opens");
        let mut config = ServerConfig::new(bind, folder.to_owned())
            .allow_put(true)
            .allow_overwrite(true)
            .cache(Arc::new(cache));
        config.limits.keep_free = 0;
        config.client_share = 100;
        config.driver.workers = 1;
        let server = Server::bind(config).await.expect("server");
        println!("listening {}", server.local_addr());
        std::future::pending::<()>().await;
    });
}
