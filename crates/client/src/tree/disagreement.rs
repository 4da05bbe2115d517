//! Search for the path in which the trees of hosts differ that should have the same one.
//!
//! Hosts are asked for a tree's parts as for objects, and told apart by their digests. For people the file matters in
//! which they differ: it is looked for by halves, or in the listings of the hosts one by one.

use std::cmp::Ordering;

use super::super::Client;
use super::super::replicas::{Late, find};
use super::error::{TreeDisagreement, TreeError};
use super::options::TreeOptions;
use crate::store::Digest;
use crate::store::tree::listing::{
    Content, Cursor, Entry, ListingError, Selection, TreeName, TreePart, order,
};
use crate::store::tree::{MAX_PACK_LEN, TreeListing};
use crate::{FetchError, Host, Updates};

impl Client {
    /// An error because hosts differ, with the first path in which they do; others, and those whose cause is gone
    /// meanwhile, as they are. `listing` is of the tree.
    pub(super) async fn locate(
        &self,
        error: TreeError,
        (hosts, options): (&[Host], &TreeOptions),
        listing: Option<&TreeListing>,
    ) -> TreeError {
        let TreeError::Fetch(FetchError::Differ { name, .. }) = &error else { return error };
        let files = match TreeName::parse(name).map(|name| name.part) {
            Some(TreePart::Files { listing, files }) => Some((listing, files)),
            _ => None,
        };
        let found = match (files, listing) {
            (Some((digest, files)), Some(listing)) => {
                self.differing_file(hosts, options, (listing, digest), &files).await
            }
            _ => self.differing_entry(hosts, options).await,
        };
        found.map_or(error, |found| TreeError::Disagreement(Box::new(found)))
    }

    /// The first of these files of which hosts have other bytes, by halves.
    async fn differing_file(
        &self,
        hosts: &[Host],
        options: &TreeOptions,
        (listing, digest): (&TreeListing, [u8; 16]),
        files: &Selection,
    ) -> Option<TreeDisagreement> {
        let mut left: Vec<u32> = files.runs().iter().cloned().flatten().collect();
        loop {
            let half = left.len().div_ceil(2);
            let held = self.held(hosts, options, digest, &left[..half]).await?;
            match (held, left.len()) {
                (None, 1) => return None,
                (None, _) => drop(left.drain(..half)),
                (Some(hosts), 1) => {
                    let said = |(host, size, digest): (String, u64, Digest)| {
                        (host, format!("{size} bytes, digest {digest}"))
                    };
                    let path = path_of(listing, left[0]).ok()??;
                    let hosts = hosts.into_iter().map(said).collect();
                    return Some(TreeDisagreement { path, hosts });
                }
                (Some(_), _) => left.truncate(half),
            }
        }
    }

    /// What each host has as these files, if they differ in that; `None` if they cannot say.
    async fn held(
        &self,
        hosts: &[Host],
        options: &TreeOptions,
        listing: [u8; 16],
        files: &[u32],
    ) -> Option<Option<Vec<(String, u64, Digest)>>> {
        let mut selection = Selection::default();
        files.iter().for_each(|file| selection.push(*file));
        let part = options.name(TreePart::Files { listing, files: selection });
        // A file of its own may be longer than a pack.
        let longest = if files.len() == 1 { u64::MAX } else { MAX_PACK_LEN };
        let fetch = options.fetch(part, longest, Updates::default());
        let how = (self.config.timeout, Late::Joins, 0);
        match find(&self.requester, hosts, &fetch, how).await {
            Ok(_) => Some(None),
            Err(FetchError::Differ { replicas, .. }) => Some(Some(replicas)),
            Err(_) => None,
        }
    }

    /// The first entry in which the listings of hosts differ.
    async fn differing_entry(
        &self,
        hosts: &[Host],
        options: &TreeOptions,
    ) -> Option<TreeDisagreement> {
        let mut listings = Vec::new();
        for host in hosts {
            // Who has none is not one of those that differ.
            if let Ok(listing) = self.listed(std::slice::from_ref(host), options).await {
                listings.push((host.to_string(), listing));
            }
        }
        first_difference(&listings).ok()?
    }
}

fn path_of(listing: &TreeListing, file: u32) -> Result<Option<String>, ListingError> {
    let mut cursor = Cursor::new(&listing.bytes)?;
    loop {
        let number = cursor.files();
        let Some(entry) = cursor.next_entry()? else { return Ok(None) };
        if number == file && matches!(entry.content, Content::File { .. }) {
            return Ok(Some(entry.path.to_owned()));
        }
    }
}

/// Goes through listings side by side to the first path in which one has something else than the first.
fn first_difference(
    listings: &[(String, TreeListing)],
) -> Result<Option<TreeDisagreement>, ListingError> {
    let mut cursors = Vec::new();
    for (_, listing) in listings {
        cursors.push(Cursor::new(&listing.bytes)?);
    }
    loop {
        let mut entries = Vec::new();
        for cursor in &mut cursors {
            entries.push(cursor.next_entry()?);
        }
        let paths = entries.iter().flatten().map(|entry| entry.path);
        let Some(first) = paths.min_by(|one, other| order(one, other)) else { return Ok(None) };
        let differ = |entry: &Option<Entry<'_>>| *entry != entries[0];
        if !entries.iter().any(differ) {
            continue;
        }
        let here = |entry: Option<Entry<'_>>| match entry {
            Some(entry) if order(entry.path, first) == Ordering::Equal => described(&entry),
            _ => "not there".to_owned(),
        };
        let path = first.to_owned();
        let hosts = listings.iter().map(|(host, _)| host.clone());
        let hosts = hosts.zip(entries.iter().copied().map(here)).collect();
        return Ok(Some(TreeDisagreement { path, hosts }));
    }
}

fn described(entry: &Entry<'_>) -> String {
    let Entry { mode, modified, .. } = entry;
    let (seconds, nanos) = (modified.seconds, modified.nanos);
    let meta = format!("mode {mode:o}, modified {seconds}.{nanos:09} s after 1970");
    match entry.content {
        Content::Directory => format!("a directory, {meta}"),
        Content::File { size, digest: None } => format!("{size} bytes, {meta}"),
        Content::File { size, digest: Some(digest) } => {
            format!("{size} bytes, {meta}, digest {}", Digest(digest))
        }
        Content::Link { target } => format!("a link to {target}, {meta}"),
        Content::Skipped(reason) => format!("something that {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::tree::listing::{Attributes, Listing, Modified};

    fn listed(entries: &[(&str, u64)]) -> (String, TreeListing) {
        let mut listing = Listing::new();
        for (path, size) in entries {
            let content = Content::File { size: *size, digest: None };
            let modified = Modified { seconds: 7, nanos: 5 };
            let attributes = Attributes::default();
            let entry = Entry { path, mode: 0o644, modified, content, attributes };
            listing.push(&entry).expect("room");
        }
        let bytes = Arc::new(listing.into_bytes());
        ("host".to_owned(), TreeListing { bytes, digest: Digest([0; 32]) })
    }

    fn differ(listings: &[&[(&str, u64)]]) -> Option<(String, Vec<String>)> {
        let listings: Vec<_> = listings.iter().map(|entries| listed(entries)).collect();
        let found = first_difference(&listings).expect("listings")?;
        Some((found.path, found.hosts.into_iter().map(|(_, has)| has).collect()))
    }

    #[test]
    fn the_first_path_is_named_in_which_one_has_something_else() {
        assert_eq!(differ(&[&[("a", 1), ("b", 2)], &[("a", 1), ("b", 2)]]), None);
        let size = |size| format!("{size} bytes, mode 644, modified 7.000000005 s after 1970");
        let (path, has) = differ(&[&[("a", 1), ("b", 2)], &[("a", 1), ("b", 3)]]).expect("one");
        assert_eq!((path.as_str(), has), ("b", vec![size(2), size(3)]));
        let three: [&[(&str, u64)]; 3] =
            [&[("a", 1), ("c", 2)], &[("a", 1), ("b", 9)], &[("a", 1)]];
        let (path, has) = differ(&three).expect("one");
        let no = || "not there".to_owned();
        assert_eq!((path.as_str(), has), ("b", vec![no(), size(9), no()]));
        assert_eq!(differ(&[&[("a", 1)], &[]]).expect("one").1, [size(1), no()]);
    }

    #[test]
    fn files_are_found_by_their_numbers() {
        let (_, listing) = listed(&[("a", 1), ("b", 0), ("c", 2)]);
        let path = |file| path_of(&listing, file).expect("a listing");
        assert_eq!(path(0).as_deref(), Some("a"));
        assert_eq!(path(2).as_deref(), Some("c"));
        assert_eq!(path(3), None);
    }
}
