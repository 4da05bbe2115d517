//! Trees that are put over loopback: what moves, what stays, and who may.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::served::runtime;
use crate::tree_files::{NOTE, contents, lose_small_files, make_tree, write};
use wellspring_client::{
    Client, ClientConfig, HearPut, Host, LinksOut, PutError, PutTreeOptions, PutTreeReport,
    ReceiverState, TreeChange, TreeError, TreeFilter, TreeOptions,
};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::random_bytes;
use wellspring_trust::{Folders, Keyring, Peer, PrivateKey, Rights};

/// What no transfer here should take: a guard, not a measure.
const GUARD: Duration = Duration::from_secs(60);
const LOOPBACK: &str = "127.0.0.1:0";

fn address() -> SocketAddr {
    LOOPBACK.parse().expect("address")
}

pub async fn serve_by(directory: &Path, set: impl FnOnce(&mut ServerConfig)) -> (Server, Host) {
    let mut config = ServerConfig::new(address(), directory.to_owned());
    config.allow_put = true;
    config.interface = "127.0.0.1".parse().ok();
    set(&mut config);
    let server = Server::bind(config).await.expect("server");
    let host = server.local_addr().to_string().parse().expect("a host");
    (server, host)
}

/// A server that takes objects, and replaces them if asked to.
pub async fn serve(directory: &Path) -> (Server, Host) {
    serve_by(directory, |config| config.allow_overwrite = true).await
}

fn client_with(keys: Option<Keyring>) -> Client {
    let mut config = ClientConfig::default().timeout(Duration::from_secs(5));
    config.driver.socket.bind = address();
    config.driver.socket.multicast_interface = "127.0.0.1".parse().ok();
    config.driver.keys = keys.map(Arc::new);
    Client::new(config).expect("client")
}

/// To the directory `t` of hosts.
pub fn to_t() -> TreeOptions {
    TreeOptions::new(Some("t".parse().expect("a name")))
}

pub async fn put(
    from: &Path,
    hosts: &[Host],
    options: &PutTreeOptions,
) -> (Result<PutTreeReport, TreeError>, Vec<TreeChange>) {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&changes);
    let hear = Arc::new(move |change, _: &[String]| seen.lock().expect("no panic").push(change));
    let client = client_with(None);
    let running = client.put_tree(from, hosts, options, hear);
    let result = tokio::time::timeout(GUARD, running).await.expect("ends");
    let changes = changes.lock().expect("no panic").clone();
    (result, changes)
}

pub async fn done(from: &Path, hosts: &[Host], options: &PutTreeOptions) -> PutTreeReport {
    put(from, hosts, options).await.0.expect("a tree")
}

#[test]
fn links_that_lead_out_are_skipped_or_sent_as_the_files_that_they_lead_to() {
    let (home, served) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let (blobs, from) = (home.path().join("blobs"), home.path().join("snapshot"));
    write(&from, "a/own", b"own");
    write(&blobs, "small", b"small");
    write(&blobs, "large", &random_bytes(3_000_000, 1));
    for (to, link) in [
        ("a/own", "inside"),
        ("../blobs/small", "small"),
        ("../blobs/large", "large"),
        ("../../blobs/small", "a/small"),
        ("../blobs", "directory"),
        ("../blobs/none", "broken"),
        ("/dev/null", "device"),
    ] {
        std::os::unix::fs::symlink(to, from.join(link)).expect("linked");
    }
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let (hosts, there) = ([host], served.path().join("t"));
        let skipped = |report: &PutTreeReport| {
            report.skipped.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>()
        };
        let options = PutTreeOptions::new(to_t());
        let report = done(&from, &hosts, &options).await;
        let of_links = ["a/small", "broken", "device", "directory", "large", "small"];
        assert_eq!((report.files, skipped(&report)), (1, of_links.map(str::to_owned).to_vec()));
        for checksum in [false, true] {
            let copied = PutTreeOptions::new(to_t().checksum(checksum)).overwrite(true);
            let report = done(&from, &hosts, &copied.links_out(LinksOut::Copied)).await;
            assert_eq!(skipped(&report), ["broken", "device", "directory"]);
            assert_eq!((report.files, report.sent_files), (4, if checksum { 0 } else { 3 }));
            for (path, blob) in [("small", "small"), ("a/small", "small"), ("large", "large")] {
                let is_file = there.join(path).symlink_metadata().expect("there").is_file();
                let read = |path: &Path| std::fs::read(path).expect("read");
                assert!(is_file && read(&there.join(path)) == read(&blobs.join(blob)), "{path}");
            }
            assert!(there.join("inside").is_symlink());
        }
    });
}

#[test]
fn a_tree_arrives_at_two_hosts_and_then_only_what_differs_moves() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("dir")).collect();
    let from = dirs[0].path();
    let (one, two) = (dirs[1].path().join("t"), dirs[2].path().join("t"));
    make_tree(from);
    runtime().block_on(async {
        let (_one, first) = serve(dirs[1].path()).await;
        let (_two, second) = serve(dirs[2].path()).await;
        let hosts = [first, second];
        let new = PutTreeOptions::new(to_t());
        let report = done(from, &hosts, &new).await;
        assert_eq!(contents(from), contents(&one));
        assert_eq!(contents(from), contents(&two));
        // One of the small files is empty.
        assert_eq!((report.files, report.sent_files, report.complete()), (302, 301, 2));
        let report = done(from, &hosts, &new).await;
        assert_eq!((report.sent_files, report.sent_bytes, report.complete()), (0, 0, 2));

        // What one host lacks is not sent to the other.
        std::fs::remove_dir_all(two.join("many/03")).expect("removed");
        let report = done(from, &hosts, &new).await;
        let lacked: Vec<u64> = report.receivers.iter().map(|r| r.lacked_files).collect();
        assert_eq!(lacked, [0, 43]);
        assert_eq!(contents(from), contents(&two));
    });
}

#[test]
fn nothing_is_replaced_or_removed_unless_asked_for_and_then_only_what_is_not_left_out() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let (from, to) = (here.path(), there.path().join("t"));
    make_tree(from);
    runtime().block_on(async {
        let (_server, host) = serve(there.path()).await;
        let hosts = [host];
        let new = PutTreeOptions::new(to_t());
        done(from, &hosts, &new).await;
        write(from, "many/01/8", b"12345678");
        write(from, "only/here", b"new");
        write(&to, "old/theirs", b"theirs");
        write(&to, "old/their.log", b"theirs");
        let before = contents(&to);
        let (refused, changes) = put(from, &hosts, &new).await;
        let examples = vec!["many/01/8".to_owned()];
        assert!(
            matches!(&refused, Err(TreeError::Occupied { examples: e, count: 1, .. }) if *e == examples),
            "{refused:?}"
        );
        assert_eq!((contents(&to), changes.len()), (before.clone(), 0), "before anything is done");

        let no_logs = TreeFilter::by(|path, _| !path.ends_with(".log"));
        let tree = to_t().delete(true).filter(no_logs);
        let force = PutTreeOptions::new(tree.clone()).overwrite(true);
        let dry = PutTreeOptions::new(tree.dry_run(true)).overwrite(true);
        let (report, changes) = put(from, &hosts, &dry).await;
        let report = report.expect("a tree");
        let removed = changes.iter().filter(|change| matches!(change, TreeChange::Removed(_)));
        let removed = u64::try_from(removed.count()).expect("a few");
        assert_eq!((report.sent_files, report.receivers[0].removed), (0, removed));
        assert!(changes.contains(&TreeChange::Fetched("only/here".to_owned(), 3)), "{changes:?}");
        assert!(changes.contains(&TreeChange::Removed("old/theirs".to_owned())), "{changes:?}");
        assert_eq!(contents(&to), before, "a dry run changes nothing");

        let report = done(from, &hosts, &force).await;
        assert_eq!(report.sent_files, 2);
        assert!(to.join("old/their.log").exists() && !to.join("old/theirs").exists());
        std::fs::remove_dir_all(to.join("old")).expect("removed");
        assert_eq!(contents(from), contents(&to));

        // A directory makes room for a file, and a link for a directory.
        std::fs::remove_dir_all(from.join("many/02")).expect("removed");
        write(from, "many/02", b"a file now");
        std::fs::remove_file(from.join("deep/link")).expect("removed");
        write(from, "deep/link/x", b"a directory now");
        let (refused, _) = put(from, &hosts, &PutTreeOptions::new(to_t()).overwrite(true)).await;
        assert!(matches!(&refused, Err(TreeError::DirectoryThere { .. })), "{refused:?}");
        done(from, &hosts, &force).await;
        assert_eq!(contents(from), contents(&to));
    });
}

#[test]
fn small_files_with_rotten_bytes_are_mended_by_their_digests() {
    let (from, served) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    (0..3).for_each(|number| write(from.path(), &number.to_string(), &random_bytes(900, number)));
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let (hosts, there) = ([host], served.path().join("t"));
        done(from.path(), &hosts, &PutTreeOptions::new(to_t())).await;
        for name in ["0", "2"] {
            let file = std::fs::File::options().write(true).open(there.join(name)).expect("open");
            let modified = file.metadata().expect("stat").modified().expect("a time");
            std::io::Write::write_all(&mut &file, b"rotten").expect("write");
            file.set_modified(modified).expect("a time");
        }
        for atomic in [false, true] {
            let by_digests = PutTreeOptions::new(to_t().checksum(true).atomic(atomic));
            let report = done(from.path(), &hosts, &by_digests.overwrite(true)).await;
            assert_eq!(report.sent_files, if atomic { 0 } else { 2 });
            assert_eq!(contents(from.path()), contents(&there));
        }
    });
}

#[test]
fn a_server_that_lets_nothing_be_replaced_takes_new_trees_alone() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    write(here.path(), "d/x", b"one");
    runtime().block_on(async {
        let (_server, host) = serve_by(there.path(), |_| {}).await;
        let hosts = [host];
        let forced = PutTreeOptions::new(to_t()).overwrite(true);
        done(here.path(), &hosts, &PutTreeOptions::new(to_t())).await;
        write(here.path(), "d/x", b"two");
        let (refused, _) = put(here.path(), &hosts, &forced).await;
        assert!(
            matches!(&refused, Err(TreeError::Put(PutError::NotAccepted { .. }))),
            "{refused:?}"
        );
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains("does not let objects be replaced"), "{text}");
        assert_eq!(std::fs::read(there.path().join("t/d/x")).expect("read"), b"one");
        // Hidden names are named, and leaving them out helps.
        std::fs::remove_dir_all(there.path().join("t")).expect("removed");
        write(here.path(), ".git/config", b"hidden");
        let (refused, _) = put(here.path(), &hosts, &PutTreeOptions::new(to_t())).await;
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains(".git"), "{text}");
        assert!(!there.path().join("t").exists(), "before anything is done");
        let plain = to_t().filter(TreeFilter::by(|path, _| !path.starts_with('.')));
        done(here.path(), &hosts, &PutTreeOptions::new(plain)).await;
        assert_eq!(std::fs::read(there.path().join("t/d/x")).expect("read"), b"two");
    });
}

#[test]
fn what_a_server_comes_to_allow_while_it_runs_counts_for_directories_as_well() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    write(here.path(), "d/x", b"one");
    write(here.path(), ".git/config", b"hidden");
    write(&there.path().join("t"), "d/old", b"old");
    runtime().block_on(async {
        let (server, host) = serve_by(there.path(), |config| config.allow_put = false).await;
        let options = PutTreeOptions::new(to_t().delete(true)).overwrite(true);
        let hosts = [host];
        put(here.path(), &hosts, &options).await.0.expect_err("it takes nothing");
        let mut settings = ServerConfig::new(address(), ".".into()).settings();
        let permissions = &mut settings.permissions;
        (permissions.put, permissions.overwrite, permissions.hidden) = (true, true, true);
        server.reload(settings).expect("reloaded");
        done(here.path(), &hosts, &options).await;
        assert_eq!(contents(here.path()), contents(&there.path().join("t")));
    });
}

#[test]
fn a_put_that_was_cut_short_goes_on_where_it_was_also_within_a_file() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    for number in 0..400 {
        write(here.path(), &format!("d/{number}"), &random_bytes(100_000, number));
    }
    runtime().block_on(async {
        let (server, host) = serve_by(there.path(), |_| {}).await;
        let (options, hosts) = (PutTreeOptions::new(to_t()), [host]);
        let sent = cut_short(here.path(), &hosts, &options).await;
        let report = done(here.path(), &hosts, &options).await;
        assert!(report.sent_files <= 400 - sent, "{report:?}");
        assert_eq!(contents(here.path()), contents(&there.path().join("t")));

        // A server that is stopped has it on the disk, and says no more of it.
        let to_u = PutTreeOptions::new(TreeOptions::new(Some("u".parse().expect("a name"))));
        cut_short(here.path(), &hosts, &to_u).await;
        let there = there.path().join("u");
        assert!(there.join(NOTE).exists());
        server.shut_down().await;
        assert!(there.join("d").exists() && !there.join(NOTE).exists());
    });
}

/// Puts a tree until fifty of its files are there; how many are.
async fn cut_short(from: &Path, hosts: &[Host], options: &PutTreeOptions) -> u64 {
    let (enough, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let hear = Arc::new(move |change, _: &[String]| {
        // Nobody listens once the put was cut.
        let _ = enough.send(change);
    });
    let client = client_with(None);
    let running = client.put_tree(from, hosts, options, hear);
    tokio::pin!(running);
    let mut sent = 0;
    while sent < 50 {
        tokio::select! {
            _ = &mut running => panic!("it is over"),
            change = seen.recv() => {
                sent += u64::from(matches!(change, Some(TreeChange::Fetched(..))));
            }
        }
    }
    sent
}

#[test]
fn what_a_power_cut_has_taken_of_an_unfinished_put_is_sent_again_without_leave_to_replace() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let to = there.path().join("t");
    make_tree(here.path());
    write(here.path(), "alone", b"in a pack of its own");
    runtime().block_on(async {
        let (_server, host) = serve_by(there.path(), |_| {}).await;
        let (options, hosts) = (PutTreeOptions::new(to_t()), [host]);
        done(here.path(), &hosts, &options).await;
        assert!(!to.join(NOTE).exists(), "all is on the disk");
        let lost = lose_small_files(&to);
        let report = done(here.path(), &hosts, &options).await;
        assert_eq!(report.sent_files, lost);
        assert_eq!(contents(here.path()), contents(&to), "and no note is left");

        // One file is an object of its own.
        let one = tempfile::tempdir().expect("dir");
        write(one.path(), "one", b"one");
        let to_u = PutTreeOptions::new(TreeOptions::new(Some("u".parse().expect("a name"))));
        done(one.path(), &hosts, &to_u).await;
        assert_eq!(lose_small_files(&there.path().join("u")), 1);
        assert_eq!(done(one.path(), &hosts, &to_u).await.sent_files, 1);
        assert_eq!(contents(one.path()), contents(&there.path().join("u")));
    });
}

#[test]
fn a_tree_that_changes_while_it_is_put_is_begun_with_again() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    for number in 0..100 {
        write(here.path(), &format!("d/{number:03}"), &random_bytes(300_000, number));
    }
    runtime().block_on(async {
        let (_server, host) = serve_by(there.path(), |_| {}).await;
        let root = here.path().to_owned();
        let changed = Mutex::new(false);
        let hear = Arc::new(move |_, _: &[String]| {
            let mut changed = changed.lock().expect("no panic");
            if !std::mem::replace(&mut *changed, true) {
                write(&root, "d/099", b"shorter");
            }
        });
        let (client, options, hosts) = (client_with(None), PutTreeOptions::new(to_t()), [host]);
        let running = client.put_tree(here.path(), &hosts, &options, hear);
        let report = tokio::time::timeout(GUARD, running).await.expect("ends").expect("a tree");
        assert_eq!(report.begun_again, 1, "{report:?}");
        assert!(contents(here.path()) == contents(&there.path().join("t")), "{report:?}");
    });
}

#[test]
fn hosts_that_fail_are_named_and_a_quorum_is_enough() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    make_tree(here.path());
    runtime().block_on(async {
        let (_server, host) = serve_by(there.path(), |_| {}).await;
        let (other, refuses) = serve_by(there.path(), |config| config.allow_put = false).await;
        let hosts = [host, refuses];
        let options = PutTreeOptions::new(to_t());
        let (refused, _) = put(here.path(), &hosts, &options).await;
        let text = refused.expect_err("one refuses").to_string();
        assert!(text.contains("--allow-put"), "{text}");
        let report = done(here.path(), &hosts, &options.quorum(Some(1))).await;
        assert_eq!(report.complete(), 1);
        assert!(matches!(&report.receivers[1].state, ReceiverState::Failed(_)), "{report:?}");
        assert_eq!(contents(here.path()), contents(&there.path().join("t")));
        drop(other);
    });
}

#[test]
fn a_group_gets_a_tree_at_once_each_member_what_it_lacks() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("dir")).collect();
    make_tree(dirs[0].path());
    runtime().block_on(async {
        let (_one, first) = serve(dirs[1].path()).await;
        let (_two, second) = serve(dirs[2].path()).await;
        let port = first.to_string().rsplit(':').next().and_then(|p| p.parse().ok());
        // A port that no other test's group has: the server's own, by UDP at another address.
        let group = SocketAddr::from(([239, 255, 47, 77], port.expect("a port")));
        let options = PutTreeOptions::new(to_t()).group(Some(group));
        let hosts = [first, second];
        done(dirs[0].path(), &hosts, &options).await;
        for dir in &dirs[1..] {
            assert_eq!(contents(dirs[0].path()), contents(&dir.path().join("t")));
        }
        std::fs::remove_file(dirs[2].path().join("t/large")).expect("removed");
        std::fs::remove_dir_all(dirs[1].path().join("t/many")).expect("removed");
        let report = done(dirs[0].path(), &hosts, &options).await;
        assert_eq!(report.complete(), 2);
        for dir in &dirs[1..] {
            assert_eq!(contents(dirs[0].path()), contents(&dir.path().join("t")));
        }
    });
}

#[test]
fn the_right_to_put_into_a_folder_is_what_it_takes() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    make_tree(here.path());
    let mut put = Folders::NONE;
    put.add("t").expect("a name");
    let (client, server) = (PrivateKey::generate(), PrivateKey::generate());
    let peer = |name: &str, key, rights| Peer {
        name: name.to_owned(),
        key,
        rights,
        addresses: Vec::new(),
    };
    let serves = Rights { serve: true, ..Rights::default() };
    let at_client = peer("server", server.public(), serves);
    let at_server = peer("alice", client.public(), Rights { put, ..Rights::default() });
    runtime().block_on(async {
        let keys = Keyring::new().with_own(server).with_peer(at_server);
        let (_server, host) =
            serve_by(there.path(), |config| config.driver.keys = Some(Arc::new(keys))).await;
        let client = client_with(Some(Keyring::new().with_own(client).with_peer(at_client)));
        let hosts = [host];
        let quiet: Arc<HearPut> = Arc::new(|_, _| {});
        let options = PutTreeOptions::new(to_t());
        let put = client.put_tree(here.path(), &hosts, &options, Arc::clone(&quiet));
        put.await.expect("a tree");
        assert_eq!(contents(here.path()), contents(&there.path().join("t")));
        // Not elsewhere, and what is there is not told.
        let elsewhere = PutTreeOptions::new(TreeOptions::new(Some("u".parse().expect("a name"))));
        let refused = client.put_tree(here.path(), &hosts, &elsewhere, quiet).await;
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains("no right to put u"), "{text}");
        assert!(!there.path().join("u").exists());
        let listed = client.list(&hosts, &to_t()).await.expect_err("no right to read").to_string();
        assert!(listed.contains("no right to read"), "{listed}");
    });
}

#[test]
fn trees_that_are_to_take_the_place_of_one_directory_at_one_time_do_not_mix() {
    let trees = [tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir")];
    let there = tempfile::tempdir().expect("dir");
    for (seed, tree) in trees.iter().enumerate() {
        for number in 0..40 {
            let path = format!("d{}/{number:02}", number % 3);
            write(tree.path(), &path, &random_bytes(400_000, number + 1_000 * seed as u64));
        }
        write(tree.path(), "large", &random_bytes(3_000_000, seed as u64));
    }
    runtime().block_on(async {
        let (_server, host) = serve(there.path()).await;
        let hosts = [host];
        let options = PutTreeOptions::new(to_t().delete(true)).overwrite(true).atomic(true);
        let wanted = trees.each_ref().map(|tree| contents(tree.path()));
        let mut complete = 0;
        for round in 0..12 {
            let [one, other] = trees.each_ref().map(|tree| put(tree.path(), &hosts, &options));
            // At other times in each other's course.
            let late = async {
                tokio::time::sleep(Duration::from_millis(15 * round)).await;
                other.await
            };
            let (one, other) = tokio::join!(one, late);
            let (one, other) = (one.0, other.0);
            if one.is_ok() || other.is_ok() {
                let mut there = contents(&there.path().join("t"));
                // Of the other's large file: no part of the tree, and removed when it is old.
                there.retain(|path, _| !path.ends_with(".kept.part"));
                assert!(wanted.contains(&there), "round {round}: {one:?}, {other:?}");
                complete += 1;
            }
        }
        assert!(complete > 0, "one of them comes to its end");
    });
}
