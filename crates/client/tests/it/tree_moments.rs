//! Trees over loopback, and what others see and do in the midst of a fetch.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::served::runtime;
use crate::tree_files::write;
use crate::trees::{client, everything, fetch, serve};
use wellspring_client::{TreeChange, TreeFilter};
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
