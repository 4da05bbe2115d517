use std::path::{Path, PathBuf};

use super::*;

fn account(owner: &str, quota: &str) -> Account {
    let quota = quota.parse().expect("a quota");
    Account { owner: owner.into(), shown: format!("key {owner}"), quota }
}

/// Those of a server that has started.
fn quotas_of(directory: &Path) -> Arc<Quotas> {
    let quotas = Quotas::new(Arc::new(Root::open(directory).expect("a directory")));
    quotas.read().expect("a ledger, or none");
    quotas
}

/// A directory with files that are put without a server.
struct Place {
    home: tempfile::TempDir,
    quotas: Arc<Quotas>,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("directory");
        let quotas = quotas_of(home.path());
        Place { home, quotas }
    }

    fn start_again(&mut self) {
        self.quotas = quotas_of(self.home.path());
    }

    fn ledger(&self) -> PathBuf {
        self.home.path().join(crate::store::QUOTA_LEDGER)
    }

    fn promise(&self, of: &Account, files: &[(&str, u64)]) -> Result<Promise, Exceeded> {
        let files = files.iter().map(|(name, size)| ((*name).to_owned(), *size));
        self.quotas.promise(of, files.collect(), Instant::now())
    }

    fn write(&self, files: &[(&str, u64)]) -> Result<(), StoreError> {
        for (name, size) in files {
            let size = usize::try_from(*size).expect("short");
            std::fs::write(self.home.path().join(name), vec![7; size])?;
        }
        Ok(())
    }

    fn put(&self, of: &Account, files: &[(&str, u64)]) -> Result<(), Exceeded> {
        let promise = self.promise(of, files)?;
        self.quotas.place(promise, || self.write(files)).expect("placed");
        Ok(())
    }

    fn used(&self, of: &Account) -> (u64, u64) {
        used(&self.quotas, of)
    }
}

/// Bytes and files that a client has.
fn used(quotas: &Quotas, of: &Account) -> (u64, u64) {
    let mut kept = quotas.kept();
    kept.refresh().expect("a ledger");
    let used = kept.used.get(&of.owner).copied().unwrap_or_default();
    assert_eq!((used.promised_bytes, used.promised_files), (0, 0));
    (used.bytes, used.files)
}

#[test]
fn transfers_are_counted_for_each_owner_and_come_back() {
    let place = Place::new();
    let (alice, bob) = (account("alice", "max-sessions=2"), account("bob", "max-sessions=1"));
    let take = |of: &Account| place.quotas.session(Some(of));
    let first = take(&alice).expect("one");
    let _second = take(&alice).expect("two");
    let full = take(&alice).expect_err("three");
    assert!(full.to_string().starts_with("quota max-sessions=2 of key alice is used up"), "{full}");
    let _other = take(&bob).expect("another's");
    drop(first);
    drop(take(&alice).expect("a place came back"));
    assert!(place.quotas.session(None).expect("no quota").is_none());
    let unlimited = account("carol", "max-bytes=1");
    assert!(place.quotas.session(Some(&unlimited)).expect("no limit").is_none());
    assert_eq!(place.quotas.refused(), QuotaRefusals { sessions: 1, bytes: 0, files: 0 });
    drop((_second, _other));
    assert!(place.quotas.sessions().is_empty(), "nothing is kept of who has none");
}

#[test]
fn bytes_and_files_count_to_the_last_one_also_those_on_their_way_and_after_a_start() {
    let mut place = Place::new();
    let alice = account("alice", "max-bytes=1K max-files=3");
    place.put(&alice, &[("a", 600)]).expect("room");
    let on_its_way = place.promise(&alice, &[("b", 400)]).expect("to the last byte");
    let full = place.promise(&alice, &[("c", 1)]).expect_err("a byte too many");
    let text = full.to_string();
    assert!(
        text.contains("max-bytes=1K of key alice: it has 1000 bytes there, and 1 more"),
        "{text}"
    );
    place.promise(&account("bob", "max-bytes=1K"), &[("c", 1_000)]).expect("another's");
    drop(on_its_way);
    place.put(&alice, &[("c", 0), ("d", 1)]).expect("three files");
    let full = place.promise(&alice, &[("e", 0)]).expect_err("a file too many");
    assert!(full.to_string().contains("max-files=3 of key alice: it has 3 there"), "{full}");
    place.promise(&alice, &[("d", 0)]).expect("no further file");
    assert_eq!(place.used(&alice), (601, 3));
    place.start_again();
    assert_eq!(place.used(&alice), (601, 3));
    place.promise(&alice, &[("e", 0)]).expect_err("still");
    assert_eq!(place.quotas.refused(), QuotaRefusals { sessions: 0, bytes: 0, files: 1 });
}

#[test]
fn who_replaces_a_file_has_it_and_what_is_gone_counts_no_more() {
    let mut place = Place::new();
    let alice = account("alice", "max-bytes=1K max-files=2");
    let bob = account("bob", "max-bytes=1K");
    place.put(&alice, &[("a", 600), ("b", 100)]).expect("room");
    place.put(&bob, &[("a", 10)]).expect("room");
    assert_eq!((place.used(&alice), place.used(&bob)), ((100, 1), (10, 1)));
    place.put(&bob, &[("a", 900)]).expect("beside the old one there is room");
    place.put(&bob, &[("a", 900)]).expect_err("twice 900 bytes are there until it is in place");
    place.quotas.disown(["a"].into_iter());
    assert_eq!(place.used(&bob), (0, 0));
    place.start_again();
    assert_eq!((place.used(&alice), place.used(&bob)), ((100, 1), (0, 0)));
    place.put(&alice, &[("c", 1)]).expect("room");
    std::fs::remove_file(place.home.path().join("b")).expect("removed");
    place.put(&alice, &[("d", 900)]).expect("it is looked what is there");
    assert_eq!(place.used(&alice), (901, 2));
    // A file that was changed here is not the one that was put.
    std::fs::write(place.home.path().join("d"), b"mine").expect("written");
    place.start_again();
    assert_eq!(place.used(&alice), (1, 1));
}

#[test]
fn a_look_at_what_is_there_is_not_repeated_at_once() {
    let place = Place::new();
    let alice = account("alice", "max-files=1");
    place.put(&alice, &[("a", 1)]).expect("room");
    let now = Instant::now();
    let promise = |after| place.quotas.promise(&alice, vec![("b".to_owned(), 1)], now + after);
    promise(Duration::ZERO).expect_err("looked, and is there");
    std::fs::remove_file(place.home.path().join("a")).expect("removed");
    promise(PAUSE_A_FILE / 2).expect_err("not looked again");
    promise(PAUSE_A_FILE).expect("looked again");
}

#[test]
fn what_does_not_come_about_is_given_back() {
    let mut place = Place::new();
    let (alice, bob) = (account("alice", "max-files=9"), account("bob", "max-files=9"));
    place.put(&bob, &[("a", 5)]).expect("room");
    let fail = || Err(StoreError::Exists("a".to_owned()));
    let promise = place.promise(&alice, &[("a", 5)]).expect("room");
    place.quotas.place(promise, fail as fn() -> Result<(), StoreError>).expect_err("it exists");
    assert_eq!((place.used(&alice), place.used(&bob)), ((0, 0), (5, 1)));
    // Of a pack a part may be in place.
    let files = [("x", 1), ("y", 2), ("z", 3)];
    let promise = place.promise(&alice, &files).expect("room");
    let some = || {
        place.write(&files[..2])?;
        fail()
    };
    place.quotas.place(promise, some).expect_err("a part");
    assert_eq!(place.used(&alice), (3, 2));
    place.start_again();
    assert_eq!((place.used(&alice), place.used(&bob)), ((3, 2), (5, 1)));
    // One that has its name, which may be lost in a power cut, counts until it is.
    let promise = place.promise(&alice, &[("a", 5)]).expect("room");
    let unsynced = || Err(StoreError::Unsynced(io::Error::other("the disk failed")));
    place.quotas.place(promise, unsynced as fn() -> Result<(), StoreError>).expect_err("told");
    assert_eq!((place.used(&alice), place.used(&bob)), ((8, 3), (0, 0)));
}

#[test]
fn a_ledger_that_was_cut_or_holds_nonsense_costs_no_more_than_its_bad_lines() {
    let mut place = Place::new();
    let alice = account("alice", "max-files=9");
    place.put(&alice, &[("a", 1), ("with a space", 2)]).expect("room");
    let mut text = std::fs::read(place.ledger()).expect("a ledger");
    for line in ["alice x a", "alice", "", "alice 9 ../a", "alice 5 none", "\u{0}", "alice 7 a"] {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text.extend(vec![b'x'; 5_000]);
    text.extend_from_slice(b"\nalice 1");
    std::fs::write(place.ledger(), text).expect("written");
    place.start_again();
    assert_eq!(place.used(&alice), (3, 2));
    place.put(&alice, &[("b", 1)]).expect("room");
    place.start_again();
    assert_eq!(place.used(&alice), (4, 3));
    let text = std::fs::read_to_string(place.ledger()).expect("a ledger");
    assert_eq!(text.lines().count(), 3, "{text}");
    let mode = std::fs::metadata(place.ledger()).expect("there");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&mode) & 0o777, 0o600);
}

#[test]
fn a_ledger_does_not_grow_without_end() {
    let place = Place::new();
    let alice = account("alice", "max-files=100");
    let names: Vec<String> = (0..100).map(|n| format!("file {n}")).collect();
    for size in 0..25 {
        let files: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), size % 2)).collect();
        place.put(&alice, &files).expect("room");
    }
    let text = std::fs::read_to_string(place.ledger()).expect("a ledger");
    assert!(text.lines().count() <= 1_200, "{} lines", text.lines().count());
    assert_eq!(place.used(&alice), (0, 100));
}

#[test]
fn servers_of_one_directory_lose_nothing_of_each_other() {
    let mut place = Place::new();
    let (alice, bob) = (account("alice", "max-files=5"), account("bob", "max-files=9"));
    place.put(&alice, &[("a", 1), ("gone", 1)]).expect("room");
    std::fs::remove_file(place.home.path().join("gone")).expect("removed");
    // It writes the ledger anew: there is less than that says.
    let other = quotas_of(place.home.path());
    let put = |quotas: &Arc<Quotas>, of: &Account, name: &str| {
        let promise = quotas.promise(of, vec![(name.to_owned(), 1)], Instant::now());
        promise.map(|promise| quotas.place(promise, || place.write(&[(name, 1)])).expect("placed"))
    };
    let servers = [&place.quotas, &other];
    for name in ["b", "c", "d", "e"] {
        for (server, name) in servers.iter().zip([name, &*name.repeat(2)]) {
            put(server, if name.len() == 1 { &alice } else { &bob }, name).expect("room");
        }
    }
    for server in servers {
        assert_eq!((used(server, &alice), used(server, &bob)), ((5, 5), (4, 4)));
        put(server, &alice, "f").expect_err("all files together");
    }
    // What one takes for gone before it has its name is there.
    let promise = place.promise(&bob, &[("late", 1)]).expect("room");
    let late = || {
        let all = (0..3).map(|n| (format!("x{n}"), 1)).collect();
        let later = Instant::now() + Duration::from_secs(9);
        other.promise(&account("bob", "max-files=5"), all, later).expect_err("too many");
        assert_eq!(used(&other, &bob), (4, 4), "gone, it says");
        place.write(&[("late", 1)])
    };
    place.quotas.place(promise, late).expect("placed");
    place.quotas.disown(["a"].into_iter());
    assert_eq!((used(&other, &alice), used(&other, &bob)), ((4, 4), (5, 5)));
    place.start_again();
    assert_eq!((place.used(&alice), place.used(&bob)), ((4, 4), (5, 5)));
}

#[test]
fn a_directory_that_takes_the_place_of_another_counts_by_what_is_there() {
    let home = tempfile::tempdir().expect("directory");
    let at = |path: &str| home.path().join(path);
    let make = |to: &str, files: &[(&str, usize)]| {
        std::fs::create_dir(at(to)).expect("made");
        for (name, size) in files {
            std::fs::write(at(to).join(name), vec![7; *size]).expect("written");
        }
    };
    make("served", &[]);
    let quotas = quotas_of(&at("served"));
    let (alice, bob) = (account("alice", "max-files=9"), account("bob", "max-files=9"));
    let put = |of: &Account, name: &str, size: usize| {
        let file = (name.to_owned(), size as u64);
        let promise = quotas.promise(of, vec![file], Instant::now()).expect("room");
        let write = || Ok(std::fs::write(at("served").join(name), vec![7; size])?);
        quotas.place(promise, write).expect("placed");
    };
    put(&alice, "a", 1);
    put(&alice, "b", 2);
    put(&bob, "c", 3);
    let swap = |next: &str, aside: &str| {
        std::fs::rename(at("served"), at(aside)).expect("renamed");
        std::fs::rename(at(next), at("served")).expect("renamed");
    };
    // Without a ledger, ...
    make("next", &[("a", 1), ("b", 1), ("c", 3)]);
    swap("next", "old");
    put(&alice, "d", 4);
    assert_eq!((used(&quotas, &alice), used(&quotas, &bob)), ((5, 2), (3, 1)));
    let again = quotas_of(&at("served"));
    assert_eq!((used(&again, &alice), used(&again, &bob)), ((5, 2), (3, 1)));
    // ... and with one.
    make("next", &[("a", 1), ("c", 3)]);
    std::fs::write(at("next").join(crate::store::QUOTA_LEDGER), "bob 1 a\n").expect("written");
    swap("next", "older");
    put(&bob, "e", 1);
    let again = quotas_of(&at("served"));
    for quotas in [&quotas, &again] {
        assert_eq!((used(quotas, &alice), used(quotas, &bob)), ((0, 0), (5, 3)));
    }
    // Removed, it is written anew with what is known.
    std::fs::remove_file(at("served").join(crate::store::QUOTA_LEDGER)).expect("removed");
    put(&bob, "f", 1);
    assert_eq!(used(&quotas_of(&at("served")), &bob), (6, 4));
}
