//! Removal beside what a filter or the source leaves out of a tree: that stays, whatever has its name on either side.

use std::os::unix::fs::symlink;
use std::path::Path;

use wellspring_client::{PutTreeOptions, TreeFilter};

use crate::served::runtime;
use crate::tree_files::write;
use crate::tree_puts::{done, serve as serve_puts, to_t};
use crate::trees::{everything, fetch, serve};

/// A source with a link that leads out, and a target with a directory in its place.
fn make(from: &Path, to: &Path) {
    write(from, "kept.bin", b"kept");
    symlink("/dev/null", from.join("cache")).expect("linked");
    for file in ["cache/x.bin", "cache/deep/y.bin", "gone.bin"] {
        write(to, file, b"mine");
    }
}

fn check(to: &Path) {
    for file in ["cache/x.bin", "cache/deep/y.bin", "kept.bin"] {
        assert!(to.join(file).exists(), "{file}");
    }
    assert!(!to.join("gone.bin").exists());
}

fn filters() -> [TreeFilter; 2] {
    let excludes = TreeFilter::by(|path, _| path != "cache");
    let includes = TreeFilter::by(|path, is_directory| is_directory || path.ends_with(".bin"));
    [excludes, includes]
}

#[test]
fn a_get_removes_nothing_below_it() {
    for filter in filters() {
        let (from, to) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        make(from.path(), to.path());
        runtime().block_on(async {
            let (_server, host) = serve(from.path()).await;
            let options = everything().filter(filter).delete(true);
            assert_eq!(fetch(&[host], &options, to.path()).await.report().removed, 1);
        });
        check(to.path());
    }
}

#[test]
fn a_put_removes_nothing_below_it() {
    for filter in filters() {
        let (from, served) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        let to = served.path().join("t");
        make(from.path(), &to);
        runtime().block_on(async {
            let (_server, host) = serve_puts(served.path()).await;
            let tree = to_t().filter(filter).delete(true);
            done(from.path(), &[host], &PutTreeOptions::new(tree).overwrite(true)).await;
        });
        check(&to);
    }
}
