//! Packs of the files that hosts lack.

use std::collections::VecDeque;
use std::ops::Range;

use super::super::error::TreeError;
use super::super::options::TreeOptions;
use crate::store::tree::listing::{Content, Cursor};
use crate::store::tree::{Pack, Packer, TreeListing};

/// Packs for hosts that lack the same.
pub(super) struct Batch {
    pub hosts: Vec<usize>,
    pub packs: VecDeque<Pack>,
    /// Their length \[bytes\].
    pub len: u64,
    pub files: u64,
}

/// What is to be sent to whom. Without a group, hosts that lack the same files get the same packs; by a group, all
/// get what any lacks.
pub(super) fn batches(
    listing: &TreeListing,
    options: &TreeOptions,
    lacking: &[(usize, &[Range<u32>])],
    by_group: bool,
) -> Result<Vec<Batch>, TreeError> {
    let mut classes: Vec<(Vec<usize>, Vec<Range<u32>>)> = Vec::new();
    for (host, files) in lacking.iter().filter(|(_, files)| !files.is_empty()) {
        if by_group {
            match classes.first_mut() {
                Some((hosts, all)) => {
                    hosts.push(*host);
                    *all = in_either(all, files);
                }
                None => classes.push((vec![*host], files.to_vec())),
            }
        } else {
            match classes.iter_mut().find(|(_, same)| same == files) {
                Some((hosts, _)) => hosts.push(*host),
                None => classes.push((vec![*host], files.to_vec())),
            }
        }
    }
    classes.into_iter().map(|(hosts, files)| batch(listing, options, hosts, &files)).collect()
}

fn batch(
    listing: &TreeListing,
    options: &TreeOptions,
    hosts: Vec<usize>,
    files: &[Range<u32>],
) -> Result<Batch, TreeError> {
    let mut packer = Packer::new(options.pack_name_len());
    let (mut len, mut count) = (0_u64, 0);
    let mut cursor = Cursor::new(&listing.bytes)?;
    // Where the listing stands before the file that is looked at.
    let mut follow = Cursor::new(&listing.bytes)?;
    let mut runs = files.iter().peekable();
    while let Some(run) = runs.peek() {
        let number = cursor.files();
        if number >= run.end {
            runs.next();
            continue;
        }
        let Some(entry) = cursor.next_entry()? else { break };
        let Content::File { size, .. } = entry.content else { continue };
        if number < run.start || size == 0 {
            continue;
        }
        (len, count) = (len.saturating_add(size), count + 1);
        packer.push(size, |open| {
            while open && follow.files() < number {
                follow.next_entry()?;
            }
            Ok::<_, TreeError>((number, follow.place(&listing.bytes)))
        })?;
    }
    Ok(Batch { hosts, packs: packer.finish().into(), len, files: count })
}

/// The numbers that are in one of two ascending lists of runs.
fn in_either(a: &[Range<u32>], b: &[Range<u32>]) -> Vec<Range<u32>> {
    let mut all: Vec<Range<u32>> = a.iter().chain(b).cloned().collect();
    all.sort_unstable_by_key(|run| run.start);
    let mut either: Vec<Range<u32>> = Vec::with_capacity(all.len());
    for run in all {
        match either.last_mut() {
            Some(last) if last.end >= run.start => last.end = last.end.max(run.end),
            _ => either.push(run),
        }
    }
    either
}

/// Whether two ascending lists of runs have a number in common.
pub(super) fn overlap(a: &[Range<u32>], b: &[Range<u32>]) -> bool {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        if one.start < other.end && other.start < one.end {
            return true;
        }
        if one.end <= other.end {
            a.next();
        } else {
            b.next();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined_and_overlap_where_they_share_a_number() {
        let (a, b) = ([0..3, 5..9, 12..20], [1..6, 9..10, 30..31]);
        let expected = vec![0..10, 12..20, 30..31];
        assert_eq!(in_either(&a, &b), expected);
        assert_eq!(in_either(&b, &a), expected);
        assert!(overlap(&a, &b) && !overlap(&a, &[3..5, 20..99]) && !overlap(&a, &[]));
    }
}
