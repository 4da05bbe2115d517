//! Trees over loopback, and what others see and do in the midst of a fetch.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::served::runtime;
use crate::tree_files::{contents, write};
use crate::tree_puts;
use crate::trees::{client, everything, fetch, serve};
use wellspring_client::{PutTreeOptions, TreeChange, TreeFilter};
use wellspring_core::Rate;
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::random_bytes;

#[test]
fn a_large_file_never_has_its_name_without_its_mode_and_time() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for number in 0..8 {
        let name = format!("secret-{number}");
        write(served.path(), &name, &random_bytes(1 << 20, number));
        let file = std::fs::File::options().write(true).open(served.path().join(&name));
        let file = file.expect("open");
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).expect("mode");
        file.set_modified(modified).expect("time");
    }
    let (here, stop) = (home.path().join("here"), AtomicBool::new(false));
    let look = || {
        let names = std::fs::read_dir(&here).into_iter().flatten().flatten();
        let named = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("secret"));
        let found = named.filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?)));
        let with_what = found.map(|(name, meta)| {
            (name, meta.permissions().mode() & 0o777, meta.modified().expect("a time"))
        });
        with_what.collect::<Vec<_>>()
    };
    let seen = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                seen.extend(look());
            }
            seen
        });
        runtime().block_on(async {
            let (_server, host) = serve(served.path()).await;
            fetch(&[host], &everything(), &here).await.report();
        });
        stop.store(true, Ordering::Relaxed);
        looking.join().expect("no panic")
    });
    assert_eq!(look().len(), 8);
    let is_other = |(_, mode, time): &&(_, u32, SystemTime)| *mode != 0o600 || *time != modified;
    let other: Vec<_> = seen.iter().filter(is_other).collect();
    assert!(other.is_empty(), "{other:?}");
}

/// Gives the names of large files, as soon as these are there, to files of its own that have another time, until the transfer
/// has ended. No transfer sets that time: it would say that these bytes are those of the tree.
fn takes_names(directory: &Path, modified: SystemTime, transfer: impl FnOnce()) {
    let home = tempfile::tempdir().expect("dir");
    let time = modified + Duration::from_secs(1_000);
    let (names, is_over) = (large_files(), AtomicBool::new(false));
    let theirs = names.clone().map(|name| {
        write(home.path(), &name, &[1; 100]);
        let file = File::options().write(true).open(home.path().join(&name)).expect("open");
        file.set_modified(time).expect("time");
        (name, file)
    });
    let theirs: Vec<(String, File)> = theirs.collect();
    let take = || {
        let mut left: Vec<String> = names.collect();
        loop {
            let is_last = is_over.load(Ordering::Relaxed);
            left.retain(|name| {
                let is_there = directory.join(name).exists();
                // In between anybody may have it.
                !is_there || fs::rename(home.path().join(name), directory.join(name)).is_err()
            });
            if is_last {
                return left.len();
            }
        }
    };
    std::thread::scope(|scope| {
        let taking = scope.spawn(take);
        transfer();
        is_over.store(true, Ordering::Relaxed);
        assert!(taking.join().expect("no panic") < theirs.len(), "no name was taken");
    });
    for (name, file) in theirs {
        assert_eq!(file.metadata().expect("stat").modified().expect("a time"), time, "{name}");
    }
}

fn large_files() -> impl Iterator<Item = String> + Clone {
    (0..12).map(|number| format!("large-{number}"))
}

#[test]
fn who_takes_the_name_of_a_large_file_keeps_the_time_of_theirs() {
    let (from, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (seed, name) in (0..).zip(large_files()) {
        write(from.path(), &name, &random_bytes(1 << 20, seed));
        let file = File::options().write(true).open(from.path().join(&name)).expect("open");
        file.set_modified(modified).expect("time");
    }
    let here = home.path().join("here");
    takes_names(&here, modified, || {
        runtime().block_on(async {
            let (_server, host) = serve(from.path()).await;
            fetch(&[host], &everything(), &here).await.report();
        });
    });
    let served = home.path().join("served");
    fs::create_dir(&served).expect("directory");
    takes_names(&served.join("t"), modified, || {
        runtime().block_on(async {
            let (_server, host) = tree_puts::serve(&served).await;
            let options = PutTreeOptions::new(tree_puts::to_t()).overwrite(true);
            // It may find the tree changed by others as often as it tries.
            let _ = tree_puts::put(from.path(), &[host], &options).await;
        });
    });
}

#[test]
fn what_a_filter_leaves_out_and_others_make_in_the_moment_before_a_swap_is_kept() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let here = home.path().join("here");
    write(served.path(), "d/theirs", b"theirs");
    for (path, bytes) in [("d/log", "old"), ("d/surplus", "goes"), ("of/surplus", "goes, too")] {
        write(&here, path, bytes.as_bytes());
    }
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        let logs = TreeFilter::by(|path, _| !path.contains("log"));
        let options = everything().atomic(true).delete(true).filter(logs);
        let at = here.clone();
        let hear = Arc::new(move |change| {
            // What the other tree has was looked at before, and both are about to be swapped.
            if change == TreeChange::Removed("d/surplus".to_owned()) {
                write(&at, "d/log.new", b"new");
                std::fs::remove_file(at.join("d/log")).expect("removed");
                write(&at, "d/log", b"another");
            }
        });
        let report = client().fetch_tree(&[host], &options, &here, hear).await.expect("a tree");
        assert_eq!(report.removed, 3);
    });
    let read = |path: &str| std::fs::read_to_string(here.join(path)).expect(path);
    assert_eq!((read("d/log.new"), read("d/log")), ("new".to_owned(), "another".to_owned()));
    assert_eq!(read("d/theirs"), "theirs");
    assert!(!here.join("d/surplus").exists() && !here.join("of").exists());
}

/// As by `cp -p` from a backup: the listing is the same as before.
#[test]
fn small_files_that_are_replaced_under_their_length_and_time_are_sent_as_they_are() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let place = |name: &str, seed| {
        let beside = served.path().with_extension("beside");
        std::fs::write(&beside, random_bytes(40_000, seed)).expect("written");
        let file = std::fs::File::options().write(true).open(&beside).expect("open");
        file.set_modified(long_ago).expect("a time");
        std::fs::rename(&beside, served.path().join(name)).expect("in place");
    };
    ["1", "2", "3"].into_iter().zip(1..).for_each(|(name, seed)| place(name, seed));
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        for (round, seed) in [("first", 2), ("second", 7), ("third", 8)] {
            place("2", seed);
            // Long enough for another state of the file to show.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let here = home.path().join(round);
            fetch(std::slice::from_ref(&host), &everything(), &here).await.report();
            assert!(contents(&here) == contents(served.path()), "{round}");
        }
    });
}

#[test]
fn a_large_file_that_changes_while_it_is_sent_has_the_directory_listed_again() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    write(served.path(), "log", &random_bytes(3_000_000, 1));
    for number in 2..5 {
        write(served.path(), &format!("d{number}"), &random_bytes(1_100_000, number));
    }
    runtime().block_on(async {
        let mut config = ServerConfig::new(own_address(), served.path().to_owned());
        config.driver.send_rate = Some(Rate::from_mbps(20));
        let server = Server::bind(config).await.expect("server");
        let hosts = [server.local_addr().to_string().parse().expect("a host")];
        let (client, options, here) = (client(), everything(), home.path().to_owned());
        let fetched = client.fetch_tree(&hosts, &options, &here, Arc::new(|_| {}));
        let change = async {
            let is_sent = || {
                let mut names = std::fs::read_dir(&here).expect("there").flatten();
                names.any(|entry| entry.file_name().to_string_lossy().starts_with(".log."))
            };
            while !is_sent() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            write(served.path(), "log", &random_bytes(3_000_100, 9));
        };
        let (report, ()) = tokio::join!(fetched, change);
        let report = report.expect("a tree");
        assert_eq!(report.listed_again, 1);
        assert!(contents(&here) == contents(served.path()));
    });
}
