//! Puts that end half way, and go on with what the servers have.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::process::Process;
use crate::served::{parts, runtime, until_moved};
use wellspring_client::{
    Client, ClientConfig, Cut, Host, PutOptions, PutReport, ReceiverState, Update, Updates,
};
use wellspring_core::Rate;
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::random_bytes;
use wellspring_testkit::wait::wait_until;

/// The test that is a program to be killed.
const PROGRAM: &str = concat!(module_path!(), "::program_that_is_killed");
/// What no transfer here should take: a guard, not a measure.
const GUARD: Duration = Duration::from_secs(60);
const LEN: usize = 30_000_000;
const BLOCK: u64 = 128 << 10;
/// Symbols of a block: 96 of 1,376 bytes.
const SYMBOLS: u64 = 96;
const NAME: &str = "x";

/// A port that nobody is bound to.
fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
    socket.local_addr().expect("bound").port()
}

/// A file to put, and folders of servers beside it.
struct Home {
    home: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Home {
    fn new(len: usize, seed: u64) -> Home {
        let home = tempfile::tempdir().expect("temporary directory");
        let bytes = random_bytes(len, seed);
        fs::write(home.path().join("file"), &bytes).expect("written");
        Home { home, bytes }
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("file")
    }

    fn folder(&self, server: usize) -> PathBuf {
        let folder = self.home.path().join(format!("server-{server}"));
        fs::create_dir_all(&folder).expect("directory");
        folder
    }

    fn assert_is_at(&self, server: usize) {
        assert!(fs::read(self.folder(server).join(NAME)).expect("there") == self.bytes);
        // The part file of a session that has just ended may outlive the report by a moment.
        let left = || parts(&self.folder(server));
        wait_until(|| format!("no part file: {:?}", left()), || left().is_empty());
    }

    /// The whole blocks of the object that a server has.
    fn blocks_at(&self, server: usize) -> u64 {
        // Of a server that was stopped in this process, a thread may still have the part file, and gives it the name by which
        // it is found again.
        let found = || parts(&self.folder(server));
        let is_left = |part: &PathBuf| fs::File::open(part).is_ok_and(|it| it.try_lock().is_ok());
        wait_until(|| "nobody has the part file", || found().iter().all(is_left));
        let parts = found();
        assert!(parts.len() <= 1, "{parts:?}");
        let Some(part) = parts.first() else { return 0 };
        let mode = fs::metadata(part).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let there = fs::read(part).expect("read");
        let blocks = self.bytes.chunks(BLOCK as usize).zip(there.chunks(BLOCK as usize));
        blocks.filter(|(block, there)| block == there).count() as u64
    }
}

fn server_config(folder: &Path) -> ServerConfig {
    let bind = own_address();
    let mut config =
        ServerConfig::new(bind, folder.to_owned()).allow_put(true).allow_overwrite(true);
    config.interface = "127.0.0.1".parse().ok();
    config
}

async fn serve(folder: &Path) -> Server {
    Server::bind(server_config(folder)).await.expect("server")
}

fn host(server: &Server) -> Host {
    server.local_addr().to_string().parse().expect("a host")
}

fn client(rate: Option<Rate>) -> Client {
    let mut config = ClientConfig::default();
    config.driver.socket.bind = "127.0.0.1:0".parse().expect("address");
    config.driver.socket.multicast_interface = "127.0.0.1".parse().ok();
    config.driver.faults.send_rate = rate;
    Client::new(config).expect("client")
}

fn options() -> PutOptions {
    // Whatever path the system has for multicast.
    PutOptions::new(NAME.parse().expect("name")).cut(Cut::default().symbol_size(Some(1_376)))
}

/// Puts until so much is there, and then ends as when the program is stopped.
async fn put_a_part(home: &Home, hosts: &[Host], options: PutOptions, part: u64) {
    let (updates, reached) = until_moved(part);
    let (client, file) = (client(Some(Rate::from_mbps(200))), home.file());
    let options = options.updates(updates);
    tokio::select! {
        ended = client.put(&file, hosts, &options) => {
            panic!("ended before: {:?}", ended.map(|report| report.size));
        }
        told = reached => told.expect("told"),
    }
    tokio::task::spawn_blocking(move || drop(client)).await.expect("no panic");
}

async fn put(home: &Home, hosts: &[Host], options: &PutOptions) -> PutReport {
    let client = client(None);
    let file = home.file();
    let put = client.put(&file, hosts, options);
    tokio::time::timeout(GUARD, put).await.expect("ends").expect("put")
}

/// Ends servers as the system does it: their tasks stop, and what they have written stays.
async fn stop(servers: Vec<Server>) {
    for server in servers {
        tokio::task::spawn_blocking(move || drop(server)).await.expect("no panic");
    }
}

/// Next to nothing of the object went out beside what was missing: a hundredth, and as much for a busy machine.
fn assert_little_again(report: &PutReport, missing: u64) {
    let most = missing * SYMBOLS + (LEN as u64).div_ceil(BLOCK) * SYMBOLS / 50;
    assert!(report.sent() <= most, "{} of {most}: {report:#?}", report.sent());
}

#[test]
fn a_put_that_was_stopped_half_way_sends_each_host_what_it_lacks() {
    let home = Home::new(LEN, 1);
    runtime().block_on(async {
        let servers = [serve(&home.folder(0)).await, serve(&home.folder(1)).await];
        let third = serve(&home.folder(2)).await;
        let hosts = [host(&servers[0]), host(&servers[1]), host(&third)];
        put_a_part(&home, &hosts[..2], options(), LEN as u64 / 3).await;
        put_a_part(&home, &hosts[1..2], options(), 2 * LEN as u64 / 3).await;
        // The clients are gone, their sessions end; and a restart is no different.
        stop(servers.into()).await;
        let blocks = [home.blocks_at(0), home.blocks_at(1), 0];
        assert!(blocks[0] * 3 >= LEN as u64 / BLOCK - 3, "{blocks:?}");
        assert!(blocks[1] * 3 >= 2 * (LEN as u64 / BLOCK - 3), "{blocks:?}");
        let servers = [serve(&home.folder(0)).await, serve(&home.folder(1)).await];
        let hosts = [host(&servers[0]), host(&servers[1]), host(&third)];
        let report = put(&home, &hosts, &options()).await;
        (0..3).for_each(|server| home.assert_is_at(server));
        for (receiver, blocks) in report.receivers.iter().zip(blocks) {
            assert!(receiver.resumed >= blocks.saturating_sub(1) * BLOCK, "{blocks}: {receiver:?}");
            assert!(receiver.resumed <= blocks * BLOCK, "{blocks}: {receiver:?}");
        }
        let all = 3 * (LEN as u64).div_ceil(BLOCK);
        assert_little_again(&report, all - blocks.iter().sum::<u64>());
    });
}

#[test]
fn a_server_that_runs_on_does_not_read_again_what_it_has_verified() {
    let home = Home::new(LEN, 11);
    runtime().block_on(async {
        let server = serve(&home.folder(0)).await;
        let hosts = [host(&server)];
        for is_touched in [false, true] {
            put_a_part(&home, &hosts, options(), LEN as u64 / 3).await;
            let blocks = home.blocks_at(0);
            if is_touched {
                let part = fs::OpenOptions::new().write(true).open(&parts(&home.folder(0))[0]);
                part.expect("ours").write_all_at(&[9; 1], 3 * BLOCK).expect("written");
            }
            let verified = Arc::new(AtomicBool::new(false));
            let told = Arc::clone(&verified);
            let updates = Updates::to(move |update| {
                told.fetch_or(matches!(update, Update::Hashing { host: Some(_), .. }), Relaxed);
            });
            let report = put(&home, &hosts, &options().updates(updates)).await;
            home.assert_is_at(0);
            assert_eq!(verified.load(Relaxed), is_touched);
            let there = blocks - u64::from(is_touched);
            assert!(report.receivers[0].resumed >= (there - 1) * BLOCK, "{there}: {report:#?}");
            assert!(report.receivers[0].resumed <= there * BLOCK, "{there}: {report:#?}");
            fs::remove_file(home.folder(0).join(NAME)).expect("there");
        }
    });
}

#[test]
fn a_group_is_sent_what_any_of_its_members_lacks() {
    let home = Home::new(LEN, 2);
    runtime().block_on(async {
        let servers = [serve(&home.folder(0)).await, serve(&home.folder(1)).await];
        let hosts: Vec<Host> = servers.iter().map(host).collect();
        put_a_part(&home, &hosts, options(), LEN as u64 / 2).await;
        stop(servers.into()).await;
        let blocks = [home.blocks_at(0), home.blocks_at(1)];
        assert!(blocks.iter().any(|blocks| blocks * 3 > LEN as u64 / BLOCK), "{blocks:?}");
        let servers = [serve(&home.folder(0)).await, serve(&home.folder(1)).await];
        let hosts: Vec<Host> = servers.iter().map(host).collect();
        let group = SocketAddr::new("239.255.47.31".parse().expect("a group"), free_port());
        let report = put(&home, &hosts, &options().group(Some(group))).await;
        (0..2).for_each(|server| home.assert_is_at(server));
        for (receiver, blocks) in report.receivers.iter().zip(blocks) {
            assert!(receiver.resumed >= blocks.saturating_sub(1) * BLOCK, "{blocks}: {receiver:?}");
        }
        let there = report.receivers.iter().map(|r| r.resumed / BLOCK).min().expect("two");
        let missing = (LEN as u64).div_ceil(BLOCK) - there;
        assert!(report.symbols_needed <= (missing + 2) * SYMBOLS, "{report:#?}");
        // What either lacks goes out once, and the rest of it to whoever is slow besides.
        if report.receivers.iter().all(|r| r.detached.is_none()) {
            assert_little_again(&report, missing + 2);
        }
    });
}

#[test]
fn a_part_file_with_wrong_bytes_costs_their_blocks_and_a_whole_one_nothing_else() {
    let home = Home::new(LEN, 3);
    runtime().block_on(async {
        let server = serve(&home.folder(0)).await;
        let hosts = [host(&server)];
        let digest = blake3::hash(&home.bytes).to_hex();
        let part = home.folder(0).join(format!(".x.wellspring-{}.kept.part", &digest[..32]));
        fs::write(&part, &home.bytes).expect("written");
        let file = fs::OpenOptions::new().write(true).open(&part).expect("there");
        for at in [1_000, 9_000_000, LEN as u64 - 1] {
            let byte = home.bytes[at as usize] ^ 1;
            file.write_all_at(&[byte], at).expect("written");
        }
        let report = put(&home, &hosts, &options()).await;
        home.assert_is_at(0);
        assert_little_again(&report, 3);
        fs::write(&part, &home.bytes).expect("written");
        fs::remove_file(home.folder(0).join(NAME)).expect("removed");
        let report = put(&home, &hosts, &options()).await;
        home.assert_is_at(0);
        assert_eq!((report.sent(), report.symbols_needed), (0, 0), "{report:#?}");
        assert!(matches!(report.receivers[0].state, ReceiverState::Complete(_)));
    });
}

#[test]
fn without_resuming_nothing_stays_and_nothing_is_used() {
    let home = Home::new(LEN, 4);
    runtime().block_on(async {
        let server = serve(&home.folder(0)).await;
        let hosts = [host(&server)];
        put_a_part(&home, &hosts, options().resume(false), LEN as u64 / 3).await;
        stop(vec![server]).await;
        // The file goes with the store's last user, a thread perhaps.
        wait_until(|| "no part file", || parts(&home.folder(0)).is_empty());
        let server = serve(&home.folder(0)).await;
        let hosts = [host(&server)];
        put_a_part(&home, &hosts, options(), LEN as u64 / 3).await;
        stop(vec![server]).await;
        assert_eq!(parts(&home.folder(0)).len(), 1, "it could be taken up");
        let server = serve(&home.folder(0)).await;
        let report = put(&home, &[host(&server)], &options().resume(false)).await;
        assert_eq!(report.receivers[0].resumed, 0);
        assert!(report.sent() >= (LEN as u64 / BLOCK) * SYMBOLS);
        assert!(fs::read(home.folder(0).join(NAME)).expect("there") == home.bytes);
        // Of the server that was stopped a task may hold the file for a while yet: then it is in use.
        let folder = home.folder(0);
        let clean = || wellspring_client::store::clean(&folder).expect("a folder").removed;
        wait_until(|| "one part file that nobody holds", || clean() == 1);
        assert_eq!(parts(&folder), Vec::<PathBuf>::new());
    });
}

#[test]
fn what_is_left_is_bounded() {
    let home = Home::new(LEN, 5);
    runtime().block_on(async {
        let server = serve(&home.folder(0)).await;
        put_a_part(&home, &[host(&server)], options(), LEN as u64 / 3).await;
        stop(vec![server]).await;
        assert!(home.blocks_at(0) > 0);
        // Of the server that was stopped a task may still hold the file.
        while !parts(&home.folder(0)).is_empty() {
            let mut config = server_config(&home.folder(0));
            config.parts.bytes = 1 << 20;
            stop(vec![Server::bind(config).await.expect("server")]).await;
        }
    });
}

/// What the processes do that the next tests kill.
#[test]
#[ignore = "no test: the tests of this file start it as a server or a client"]
fn program_that_is_killed() {
    let role = std::env::var("ROLE").expect("given");
    let arguments = std::env::var("ARGUMENTS").expect("given");
    let arguments: Vec<&str> = arguments.lines().collect();
    runtime().block_on(async {
        if role == "server" {
            let server = serve(Path::new(arguments[0])).await;
            println!("listening {}", server.local_addr());
            std::future::pending::<()>().await;
        }
        let host = arguments[1].parse().expect("a host");
        let updates = Updates::to(|update| {
            if let Update::Moving { done, .. } = update {
                println!("moved {done}");
            }
        });
        let client = client(Some(Rate::from_mbps(200)));
        let options = options().updates(updates);
        let _ = client.put(Path::new(arguments[0]), &[host], &options).await;
    });
}

/// Has a client process put to a server process until half is there.
fn run_to_half(home: &Home) -> (Process, Process, String, u64) {
    let folder = home.folder(0);
    let mut server = Process::start(PROGRAM, "server", &[folder.to_str().expect("text")]);
    let host = server.says("listening");
    let file = home.file();
    let mut client = Process::start(PROGRAM, "client", &[file.to_str().expect("text"), &host]);
    let mut moved = 0;
    while moved < LEN as u64 / 2 {
        moved = client.says("moved").parse().expect("a number");
    }
    (client, server, host, moved)
}

#[test]
fn a_client_that_is_killed_half_way_sends_no_more_than_a_hundredth_again() {
    let home = Home::new(LEN, 6);
    let (client, server, host, moved) = run_to_half(&home);
    client.kill();
    // The server believes for a while that the client lives, and has its part file open.
    let blocks = home.blocks_at(0);
    assert!(blocks * BLOCK + BLOCK >= moved, "{blocks} blocks, {moved} bytes");
    runtime().block_on(async {
        let report = put(&home, &[host.parse().expect("a host")], &options()).await;
        home.assert_is_at(0);
        assert_little_again(&report, (LEN as u64).div_ceil(BLOCK) - blocks);
    });
    server.kill();
}

#[test]
fn a_server_that_is_killed_half_way_is_sent_no_more_than_a_hundredth_again() {
    let home = Home::new(LEN, 7);
    let (client, server, _, moved) = run_to_half(&home);
    server.kill();
    let folder = home.folder(0);
    let blocks = home.blocks_at(0);
    assert!(blocks * BLOCK + BLOCK >= moved, "{blocks} blocks, {moved} bytes");
    client.kill();
    let mut server = Process::start(PROGRAM, "server", &[folder.to_str().expect("text")]);
    let host = server.says("listening").parse().expect("a host");
    runtime().block_on(async {
        let report = put(&home, &[host], &options()).await;
        home.assert_is_at(0);
        assert_little_again(&report, (LEN as u64).div_ceil(BLOCK) - blocks);
    });
    server.kill();
}
