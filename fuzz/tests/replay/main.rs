//! Replay of the fuzz corpora: each seed once through its target, and what is made of it by a fixed row of changes.

mod mutation;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wellspring_core::Seed;
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

/// Inputs made of each seed. Those that make their way by coverage are libFuzzer's: `make fuzz`.
const MADE_OF_EACH: u64 = 100;

/// An input that is under way; kept in a file if the target panics.
struct Tried<'a> {
    target: &'a str,
    input: &'a [u8],
}

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = std::env::temp_dir().join(format!("{}-failed", self.target));
            let kept = std::fs::write(&path, self.input);
            println!("an input of {} fails: {} {kept:?}", self.target, path.display());
        }
    }
}

/// Runs a target on every input of its corpus, on others made of them, and on no bytes at all.
fn replay(name: &str) {
    let run = target(name).expect("a target of that name").run;
    let run = |input: &[u8]| {
        let _tried = Tried { target: name, input };
        run(input);
    };
    run(&[]);
    let inputs = entries(&corpora().join(name));
    assert!(!inputs.is_empty(), "no seed for {name}");
    let inputs: Vec<_> = inputs.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let mut random = Seed(1).stream(name);
    for (number, input) in inputs.iter().enumerate() {
        run(input);
        let other = &inputs[(number + 1) % inputs.len()];
        for _ in 0..MADE_OF_EACH {
            run(&mutation::mutated(input, other, &mut random));
        }
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
