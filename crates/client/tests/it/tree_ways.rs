//! Trees over loopback where something else has the place of what comes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::served::runtime;
use crate::tree_files::write;
use crate::tree_puts::{done, put, serve_by, to_t};
use crate::trees::{client, everything, serve};
use wellspring_client::store::{Existing, StoreError};
use wellspring_client::{FetchError, PutTreeOptions, TreeChange, TreeError};
use wellspring_testkit::random_bytes;

#[test]
fn a_directory_in_the_way_that_has_what_nobody_sees_keeps_all_that_is_in_it() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let to = there.path().join("t");
    write(here.path(), "x", b"a file");
    runtime().block_on(async {
        let (_server, host) = serve_by(there.path(), |config| config.allow_overwrite = true).await;
        let hosts = [host];
        let options = PutTreeOptions::new(to_t().delete(true)).overwrite(true);
        write(&to, "x/data", b"data");
        for hidden in [&b".keep"[..], b".y.wellspring-0123456789abcdef.part", b"\xff"] {
            let hidden = to.join("x/inner").join(OsStr::from_bytes(hidden));
            std::fs::create_dir_all(to.join("x/inner")).expect("made");
            std::fs::write(&hidden, b"hidden").expect("written");
            let (refused, _) = put(here.path(), &hosts, &options).await;
            assert!(refused.is_err(), "{hidden:?}");
            assert_eq!(std::fs::read(to.join("x/data")).expect("read"), b"data", "{hidden:?}");
            assert!(hidden.exists(), "{hidden:?}");
            std::fs::remove_file(hidden).expect("removed");
        }
        done(here.path(), &hosts, &options).await;
        assert_eq!(std::fs::read(to.join("x")).expect("read"), b"a file");
    });
}

#[test]
fn a_link_stays_until_the_large_file_that_takes_its_place_is_there() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let (large, to) = (random_bytes(3_000_000, 1), there.path().join("t"));
    write(here.path(), "large", &large);
    write(&to, "other", b"other");
    std::os::unix::fs::symlink("other", to.join("large")).expect("linked");
    let options = PutTreeOptions::new(to_t()).overwrite(true);
    runtime().block_on(async {
        let set = |len| {
            move |config: &mut wellspring_server::ServerConfig| {
                (config.allow_overwrite, config.limits.object_len) = (true, len);
            }
        };
        let (server, host) = serve_by(there.path(), set(1_000_000)).await;
        let (refused, _) = put(here.path(), &[host], &options).await;
        assert!(refused.is_err(), "{refused:?}");
        assert!(to.join("large").is_symlink());
        server.shut_down().await;
        let (_server, host) = serve_by(there.path(), set(1 << 30)).await;
        done(here.path(), &[host], &options).await;
    });
    assert!(!to.join("large").is_symlink());
    assert!(std::fs::read(to.join("large")).expect("read") == large);
    assert_eq!(std::fs::read(to.join("other")).expect("read"), b"other");
}

#[test]
fn what_somebody_makes_while_a_tree_is_fetched_is_replaced_only_if_that_is_asked_for() {
    let served = tempfile::tempdir().expect("dir");
    std::fs::create_dir(served.path().join("d")).expect("made");
    write(served.path(), "x", b"x");
    runtime().block_on(async {
        let (_server, host) = serve(served.path()).await;
        for len in [10, 3_000_000] {
            let theirs = random_bytes(len, 1);
            write(served.path(), "y", &theirs);
            for existing in [Existing::Keep, Existing::Replace] {
                let home = tempfile::tempdir().expect("dir");
                let here = home.path().to_owned();
                let hear = Arc::new(move |change| {
                    // What is here was looked at before.
                    if change == TreeChange::Made("d".to_owned()) {
                        write(&here, "y", b"mine");
                    }
                });
                let options = everything().existing(existing);
                let hosts = [host.clone()];
                let fetched = client().fetch_tree(&hosts, &options, home.path(), hear).await;
                let y = std::fs::read(home.path().join("y")).expect("read");
                match (existing, fetched) {
                    (Existing::Replace, Ok(_)) => assert!(y == theirs),
                    (
                        Existing::Keep,
                        Err(TreeError::Fetch(FetchError::Store(StoreError::Exists(_)))),
                    ) => assert_eq!(y, b"mine"),
                    (_, fetched) => panic!("{existing:?}: {fetched:?}"),
                }
            }
        }
    });
}
