//! A listing of a tree as a server sends it, and names of parts of trees: whatever the bytes are, each entry that is
//! read stands in a directory of the listing, no path occurs twice or leads out, and what was read comes back the same.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use wellspring_tree::{
    Content, Cursor, Entry, Listing, ListingError, Pair, PathError, TreeName, check_path, compare,
    order,
};

/// What is known of the entries so far.
#[derive(Default)]
struct Model {
    last: Option<String>,
    directories: BTreeSet<String>,
    files: u32,
}

impl Model {
    fn see(&mut self, entry: &Entry<'_>) {
        let path = entry.path;
        match check_path(path) {
            Ok(()) => {}
            Err(PathError::TooLong | PathError::TooDeep) => {
                assert!(matches!(entry.content, Content::Skipped(_)), "{entry:?}");
            }
            Err(error) => panic!("{entry:?}: {error}"),
        }
        assert!(!path.split('/').any(|component| matches!(component, "" | "." | "..")));
        let ascends = |last: &String| order(last, path) == Ordering::Less;
        assert!(self.last.as_ref().is_none_or(ascends), "{:?}, {path:?}", self.last);
        if let Some((parent, _)) = path.rsplit_once('/') {
            assert!(self.directories.contains(parent), "{path:?} has no parent");
        }
        match entry.content {
            Content::Directory => {
                self.directories.insert(path.to_owned());
            }
            Content::File { .. } => self.files += 1,
            Content::Link { target } => assert!(stays_within(path, target), "{entry:?}"),
            Content::Skipped(_) => {}
        }
        self.last = Some(path.to_owned());
    }
}

/// Whether a link leads to a place in the tree, step by step.
fn stays_within(path: &str, target: &str) -> bool {
    let mut at: Vec<&str> = path.split('/').collect();
    at.pop();
    !target.starts_with('/')
        && target.split('/').all(|component| match component {
            "" | "." => true,
            ".." => at.pop().is_some(),
            component => {
                at.push(component);
                true
            }
        })
}

fn read(listing: &[u8]) -> Result<(), ListingError> {
    let mut cursor = Cursor::new(listing)?;
    let (mut model, mut again, mut entries) = (Model::default(), Listing::new(), 0);
    let outcome = loop {
        let place = cursor.place(listing);
        let mut resumed = Cursor::resume(listing, &place);
        let next = cursor.next_entry();
        assert_eq!(resumed.next_entry(), next);
        match next {
            Ok(Some(entry)) => {
                model.see(&entry);
                again.push(&entry).expect("no longer than the input");
                entries += 1;
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        assert_eq!(cursor.files(), model.files);
    };
    assert_eq!(again.entries(), entries);
    // Of bytes that are no listing the entries before the error make one.
    let whole = if outcome.is_ok() { listing } else { again.as_bytes() };
    let mut both = 0;
    compare(Cursor::new(whole)?, Cursor::new(again.as_bytes())?, |pair, _| match pair {
        Pair::Both(one, other) => {
            assert_eq!(one, other);
            both += 1;
            Ok::<_, ListingError>(())
        }
        pair => panic!("{pair:?}"),
    })
    .expect("what was written can be read");
    assert_eq!(both, entries);
    outcome
}

fn read_name(name: &str) {
    if let Some(parsed) = TreeName::parse(name) {
        assert!(TreeName::is_one(name));
        let again = parsed.to_string();
        assert_eq!(TreeName::parse(&again), Some(parsed), "{name:?}");
    }
}

/// The first byte says whether to begin as a listing does; the rest is the listing, and a name.
pub fn run(input: &[u8]) {
    let Some((begun, rest)) = input.split_first() else { return };
    if let Ok(name) = std::str::from_utf8(rest) {
        read_name(name);
    }
    let begin = if begun % 2 == 1 { Listing::new().into_bytes() } else { Vec::new() };
    let listing = [&begin[..], rest].concat();
    // Most bytes are none.
    let _ = read(&listing);
}
