//! Trees over loopback: what moves, what stays, and what never happens.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::served::runtime;
use crate::tree_files::{NOTE, contents, lose_small_files, make_tree, write};
use wellspring_client::store::tree::listing::Cursor;
use wellspring_client::store::{Existing, ObjectName};
use wellspring_client::{
    Client, ClientConfig, FetchError, FetchOptions, Host, Target, TreeChange, TreeError,
    TreeFilter, TreeOptions, TreeReport,
};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::random_bytes;

/// What no transfer here should take: a guard, not a measure.
const GUARD: Duration = Duration::from_secs(60);

pub async fn serve(directory: &Path) -> (Server, Host) {
    let config = ServerConfig::new(own_address(), directory.to_owned());
    let server = Server::bind(config).await.expect("server");
    let host = server.local_addr().to_string().parse().expect("a host");
    (server, host)
}

pub struct Fetched {
    pub result: Result<TreeReport, TreeError>,
    pub changes: Vec<TreeChange>,
}

impl Fetched {
    #[track_caller]
    pub fn report(self) -> TreeReport {
        self.result.expect("a tree")
    }
}

pub fn client() -> Client {
    Client::new(ClientConfig::default().timeout(Duration::from_secs(5))).expect("client")
}

pub async fn fetch(hosts: &[Host], options: &TreeOptions, to: &Path) -> Fetched {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&changes);
    let hear = Arc::new(move |change| seen.lock().expect("no panic").push(change));
    let client = client();
    let fetched = client.fetch_tree(hosts, options, to, hear);
    let result = tokio::time::timeout(GUARD, fetched).await.expect("ends");
    let changes = changes.lock().expect("no panic").clone();
    Fetched { result, changes }
}

pub fn everything() -> TreeOptions {
    TreeOptions::new(None)
}

#[test]
fn a_tree_arrives_as_it_is_and_then_only_what_differs_moves() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let (from, to) = (served.path(), home.path().join("new/tree"));
    make_tree(from);
    runtime().block_on(async {
        let (_server, host) = serve(from).await;
        let hosts = [host];
        let report = fetch(&hosts, &everything(), &to).await.report();
        assert_eq!(contents(from), contents(&to));
        // One of the small files is empty.
        assert_eq!((report.files, report.fetched_files), (302, 301));
        let report = fetch(&hosts, &everything(), &to).await.report();
        assert_eq!((report.fetched_files, report.made, report.removed), (0, 0, 0));

        write(from, "many/01/8", b"12345678");
        std::fs::remove_file(from.join("many/02/9")).expect("removed");
        std::fs::remove_dir(from.join("void")).expect("removed");
        write(from, "void", b"a file where a directory was");
        std::fs::remove_file(from.join("deep/link")).expect("removed");
        write(from, "deep/link/file", b"a directory where a link was");
        write(&to, "of/mine", b"kept");
        let report = fetch(&hosts, &everything(), &to).await.report();
        assert_eq!((report.fetched_files, report.removed), (3, 0));
        assert!(to.join("of/mine").exists() && to.join("many/02/9").exists());
        let dry = everything().delete(true).dry_run(true);
        let fetched = fetch(&hosts, &dry, &to).await;
        assert!(fetched.changes.contains(&TreeChange::Removed("of".to_owned())));
        assert_eq!(fetched.report().removed, 2);
        assert!(to.join("of/mine").exists(), "a dry run changes nothing");
        let report = fetch(&hosts, &everything().delete(true), &to).await.report();
        assert_eq!(report.removed, 2);
        assert_eq!(contents(from), contents(&to));
    });
}

#[test]
fn files_whose_bytes_alone_differ_are_found_by_their_digests() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    make_tree(served.path());
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let hosts = [host];
        fetch(&hosts, &everything(), home.path()).await.report();
        let path = home.path().join("many/01/8");
        let time = path.metadata().expect("stat").modified().expect("time");
        std::fs::write(&path, b"rotten!!").expect("write");
        let file = std::fs::File::options().write(true).open(&path).expect("open");
        file.set_modified(time).expect("time");
        assert_eq!(fetch(&hosts, &everything(), home.path()).await.report().fetched_files, 0);
        let report = fetch(&hosts, &everything().checksum(true), home.path()).await.report();
        assert_eq!(report.fetched_files, 1);
        assert_eq!(contents(served.path()), contents(home.path()));
        // A large file whose time alone is another is not moved.
        let large = home.path().join("large");
        let file = std::fs::File::options().write(true).open(&large).expect("open");
        file.set_modified(SystemTime::now()).expect("time");
        fetch(&hosts, &everything(), home.path()).await.report();
        assert_eq!(contents(served.path()), contents(home.path()));
    });
}

#[test]
fn a_part_of_a_tree_is_fetched_and_what_is_outside_of_it_is_left_alone() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    make_tree(served.path());
    write(home.path(), "a/b/x", b"mine");
    write(home.path(), "left", b"mine");
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let filter = TreeFilter::by(|path, _| path != "a/b" && path != "left");
        let directory = Some("deep".parse().expect("a name"));
        let options = TreeOptions::new(directory).filter(filter).delete(true);
        let report = fetch(std::slice::from_ref(&host), &options, home.path()).await.report();
        assert_eq!((report.fetched_files, report.removed, report.skipped_count), (0, 0, 1));
        assert!(home.path().join("a/b/x").exists() && home.path().join("left").exists());
        // What a filter leaves out keeps its mode and time, too.
        let before = contents(home.path());
        let nothing = TreeFilter::by(|path, is_directory| !is_directory && path == "large");
        let options = everything().filter(nothing);
        let report = fetch(std::slice::from_ref(&host), &options, home.path()).await.report();
        assert_eq!((report.files, report.fetched_files, report.made), (1, 1, 0));
        let mut after = contents(home.path());
        assert!(after.remove("large").is_some());
        assert_eq!(before, after);
        for bad in ["none", "large", "deep/link"] {
            let options = TreeOptions::new(Some(bad.parse().expect("a name")));
            let error = fetch(std::slice::from_ref(&host), &options, home.path())
                .await
                .result
                .expect_err(bad);
            assert!(matches!(error, TreeError::Fetch(FetchError::NoReplica(_))), "{bad}: {error}");
        }
    });
}

#[test]
fn what_is_left_out_is_not_removed_with_the_directory_that_it_is_in() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    write(served.path(), "x", b"x");
    write(home.path(), "old/mine.log", b"mine");
    write(home.path(), "old/theirs", b"gone");
    write(home.path(), "older/deep/theirs", b"gone");
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let no_logs = TreeFilter::by(|path, _| !path.ends_with(".log"));
        let options = everything().filter(no_logs).delete(true);
        let report = fetch(&[host], &options, home.path()).await.report();
        assert_eq!(report.removed, 4, "{report:?}");
        let left: Vec<String> = contents(home.path()).into_keys().collect();
        assert_eq!(left, ["old", "old/mine.log", "x"]);
    });
}

#[test]
fn replicas_send_together_and_must_agree() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("dir")).collect();
    let home = tempfile::tempdir().expect("dir");
    make_tree(dirs[0].path());
    runtime().block_on(async {
        let (_first, host) = serve(dirs[0].path()).await;
        fetch(std::slice::from_ref(&host), &everything(), dirs[1].path()).await.report();
        let (second, same) = serve(dirs[1].path()).await;
        let hosts = [host.clone(), same];
        fetch(&hosts, &everything(), home.path()).await.report();
        assert_eq!(contents(dirs[0].path()), contents(home.path()));
        drop(second);
        write(dirs[2].path(), "x", b"other");
        let (_third, other) = serve(dirs[2].path()).await;
        let error = fetch(&[host, other], &everything(), home.path()).await.result;
        let error = error.expect_err("they differ");
        let TreeError::Disagreement(found) = error else { panic!("{error}") };
        assert_eq!((found.path.as_str(), found.hosts.len()), ("deep", 2), "{found:?}");
        assert_eq!(found.hosts[1].1, "not there");
        assert_eq!(contents(dirs[0].path()), contents(home.path()));
    });
}

#[test]
fn replicas_of_one_listing_that_differ_are_told_apart_by_the_file() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("dir")).collect();
    for (number, dir) in dirs.iter().enumerate() {
        for file in 0..50_u64 {
            // One has bytes that a disk has altered: length and time are as before.
            let altered = u64::from(number == 1 && file == 37) * 1_000;
            let path = format!("d/{file}");
            write(dir.path(), &path, &random_bytes(3_000, file + altered));
            let opened = std::fs::File::open(dir.path().join(&path)).expect("open");
            opened.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
        }
        let opened = std::fs::File::open(dir.path().join("d")).expect("open");
        opened.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
    }
    let home = tempfile::tempdir().expect("dir");
    runtime().block_on(async {
        let (mut servers, mut hosts) = (Vec::new(), Vec::new());
        for dir in &dirs {
            let (server, host) = serve(dir.path()).await;
            servers.push(server);
            hosts.push(host);
        }
        let error = fetch(&hosts, &everything(), home.path()).await.result.expect_err("differ");
        let TreeError::Disagreement(found) = error else { panic!("{error}") };
        assert_eq!(found.path, "d/37");
        let said: Vec<&str> = found.hosts.iter().map(|(_, has)| has.as_str()).collect();
        assert!(said[0] == said[2] && said[0] != said[1], "{said:?}");
    });
}

#[test]
fn what_a_power_cut_may_have_torn_is_not_served() {
    let (torn, whole) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let home = tempfile::tempdir().expect("dir");
    for dir in [&torn, &whole] {
        write(dir.path(), "d/x", b"bytes");
        write(dir.path(), "d/y", b"");
        for path in ["d/x", "d/y", "d"] {
            let opened = std::fs::File::open(dir.path().join(path)).expect("open");
            opened.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
        }
    }
    // Of a put that did not come to its end in an earlier life of the machine.
    write(torn.path(), ".wellspring-unsynced", b"0 0 an-earlier-life\n");
    runtime().block_on(async {
        let (_torn, host) = serve(torn.path()).await;
        let (_whole, other) = serve(whole.path()).await;
        let alone = std::slice::from_ref(&host);
        let error = fetch(alone, &everything(), home.path()).await.result.expect_err("refused");
        assert!(error.to_string().contains("d/x (and 1 more) may have wrong"), "{error}");
        let client = client();
        client.list(alone, &everything().level(true)).await.expect("it can be looked at");
        // Objects of one directory come by such a listing: in a pack, alone, and without any bytes.
        write(torn.path(), "d/z", b"more");
        let level = TreeOptions::new(Some("d".parse().expect("a name"))).level(true);
        for names in ["xz", "x", "y"] {
            let asked = TreeFilter::by(move |path, _| names.contains(path));
            let to = home.path().join("level");
            let error = fetch(alone, &level.clone().filter(asked), &to).await.result;
            let error = error.expect_err("refused").to_string();
            assert!(error.contains(&format!("{} may have wrong bytes", &names[..1])), "{error}");
            assert!(!to.join(&names[..1]).exists(), "{names}");
        }
        std::fs::remove_file(torn.path().join("d/z")).expect("removed");
        let opened = std::fs::File::open(torn.path().join("d")).expect("open");
        opened.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
        let object = FetchOptions::new(ObjectName::new("d/x").expect("a name"));
        let file = Target::File { path: home.path().join("x"), existing: Existing::Keep };
        let error = client.fetch(alone, &object, file).await.expect_err("refused").to_string();
        assert!(error.contains("d/x may have wrong bytes"), "{error}");
        fetch(&[host, other], &everything(), home.path()).await.report();
        assert_eq!(std::fs::read(home.path().join("d/x")).expect("read"), b"bytes");
        // Who serves a part says nothing of what is above.
        let (_part, host) = serve(&torn.path().join("d")).await;
        fetch(&[host], &everything(), &home.path().join("part")).await.report();
    });
}

#[test]
fn a_fetch_that_was_cut_short_goes_on_where_it_was() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    for number in 0..400 {
        write(served.path(), &format!("d/{number}"), &random_bytes(100_000, number));
    }
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let (enough, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let hear = Arc::new(move |change| {
            // Nobody listens once the fetch was cut.
            let _ = enough.send(change);
        });
        let client = client();
        let options = everything();
        let hosts = [host];
        let mut fetched = 0;
        {
            let running = client.fetch_tree(&hosts, &options, home.path(), hear);
            tokio::pin!(running);
            while fetched < 50 {
                tokio::select! {
                    _ = &mut running => panic!("it is over"),
                    change = seen.recv() => {
                        fetched += u64::from(matches!(change, Some(TreeChange::Fetched(..))));
                    }
                }
            }
        }
        drop(client);
        // What is there is on the disk, and not in doubt when the machine has started anew.
        let began = std::time::Instant::now();
        while home.path().join(NOTE).exists() && began.elapsed() < GUARD {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!home.path().join(NOTE).exists());
        let report = fetch(&hosts, &everything(), home.path()).await.report();
        assert!(report.fetched_files <= 400 - fetched, "{report:?}");
        assert_eq!(contents(served.path()), contents(home.path()), "and no part file is left");
    });
}

#[test]
fn what_a_power_cut_has_taken_of_an_unfinished_fetch_is_fetched_again() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    make_tree(&served.path().join("t"));
    write(served.path(), "one/alone", b"an object of its own");
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let hosts = [host];
        for name in ["t", "one"] {
            let options = TreeOptions::new(Some(name.parse().expect("a name")));
            let (from, to) = (served.path().join(name), home.path().join(name));
            fetch(&hosts, &options, &to).await.report();
            let lost = lose_small_files(&to);
            let report = fetch(&hosts, &options, &to).await.report();
            assert_eq!(report.fetched_files, lost);
            assert_eq!(contents(&from), contents(&to), "and no note is left");
        }
    });
}

#[test]
fn a_tree_that_changes_while_it_is_fetched_is_listed_again() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    for number in 0..100 {
        write(served.path(), &format!("d/{number:03}"), &random_bytes(100_000, number));
    }
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let root = served.path().to_owned();
        let changed = Mutex::new(false);
        let hear = Arc::new(move |change| {
            // Directories are made when the listing is here and no pack was asked for.
            if change == TreeChange::Made("d".to_owned()) {
                let mut changed = changed.lock().expect("no panic");
                if !std::mem::replace(&mut *changed, true) {
                    write(&root, "d/099", b"shorter");
                }
            }
        });
        let client = client();
        let options = everything();
        let hosts = [host];
        let running = client.fetch_tree(&hosts, &options, home.path(), hear);
        let report = tokio::time::timeout(GUARD, running).await.expect("ends").expect("a tree");
        assert_eq!(contents(served.path()), contents(home.path()), "{report:?}");
        assert_eq!((report.listed_again, report.fetched_files), (1, 100));
    });
}

#[test]
fn a_tree_that_is_written_into_a_directory_whose_place_is_taken_is_written_again() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    (0..100)
        .for_each(|number| write(served.path(), &number.to_string(), &random_bytes(9_000, number)));
    let here = home.path().join("here");
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let (to, files) = (here.clone(), std::sync::atomic::AtomicU32::new(0));
        let hear = Arc::new(move |change| {
            // All are there, and not yet said to be.
            if matches!(change, TreeChange::Fetched(..))
                && files.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 99
            {
                std::fs::rename(&to, to.with_file_name("old")).expect("renamed");
                std::fs::create_dir(&to).expect("made");
            }
        });
        let (client, options, hosts) = (client(), everything(), [host]);
        let running = client.fetch_tree(&hosts, &options, &here, hear);
        let report = tokio::time::timeout(GUARD, running).await.expect("ends").expect("a tree");
        assert_eq!(report.listed_again, 1);
        assert_eq!(contents(served.path()), contents(&here));
    });
}

#[test]
fn what_is_made_in_a_directory_while_it_is_swapped_is_kept() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let (here, stop) = (home.path().join("here"), std::sync::atomic::AtomicBool::new(false));
    std::fs::create_dir_all(here.join("d")).expect("a directory");
    std::thread::scope(|scope| {
        let making = scope.spawn(|| {
            let mut made = 0_u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                write(&here, &format!("d/own-{made}"), made.to_string().as_bytes());
                made += 1;
                std::thread::sleep(Duration::from_micros(200));
            }
            made
        });
        runtime().block_on(async {
            let (_server, host) = serve(served.path()).await;
            let hosts = [host];
            for round in 0..20 {
                write(served.path(), "d/theirs", format!("of round {round}").as_bytes());
                fetch(&hosts, &everything().atomic(true), &here).await.report();
            }
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let made = making.join().expect("no panic");
        let is_lost = |own: &u32| !here.join(format!("d/own-{own}")).exists();
        let lost: Vec<u32> = (0..made).filter(is_lost).collect();
        assert!(made > 100 && lost.is_empty(), "of {made}: {lost:?}");
    });
}

#[test]
fn a_level_lists_a_directory_alone() {
    let served = tempfile::tempdir().expect("dir");
    make_tree(served.path());
    write(served.path(), ".hidden", b"not served");
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let listing = client().list(&[host], &everything().level(true)).await.expect("a listing");
        let mut cursor = Cursor::new(&listing.bytes).expect("a listing");
        let mut paths = Vec::new();
        while let Some(entry) = cursor.next_entry().expect("a listing") {
            paths.push(entry.path.to_owned());
        }
        assert_eq!(paths, ["deep", "large", "many", "void"]);
    });
}
