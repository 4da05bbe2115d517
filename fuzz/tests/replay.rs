//! Replay of the fuzz corpora: each seed once through its target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wellspring_fuzz::{TARGETS, target};

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The paths in a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = listing.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Runs a target on every input of its corpus and on no bytes at all.
fn replay(name: &str) {
    let run = target(name).expect("a target of that name").run;
    run(&[]);
    let inputs = entries(&corpora().join(name));
    assert!(!inputs.is_empty(), "no seed for {name}");
    for input in inputs {
        println!("{}", input.display());
        run(&std::fs::read(&input).unwrap());
    }
}

// A test each, so that they run side by side and a failure names its target.
macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*
    };
}

wellspring_fuzz::for_each_target!(replays);

#[test]
fn every_corpus_has_a_target() {
    let targets: BTreeSet<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let folders: BTreeSet<_> = entries(&corpora())
        .iter()
        .map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(targets, folders);
}
