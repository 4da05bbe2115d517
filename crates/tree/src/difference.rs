//! Differences of two trees.

use std::cmp::Ordering;

use crate::cursor::{Cursor, ListingError};
use crate::entry::Entry;
use crate::path::order;

/// The entries of a path in two trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pair<'a> {
    /// Only the first has it.
    First(Entry<'a>),
    /// Only the second has it.
    Second(Entry<'a>),
    /// Both have it.
    Both(Entry<'a>, Entry<'a>),
}

/// Goes through two trees side by side, in the [order] of their paths. `see` gets each path, and the
/// number of the file if the first tree has a file there.
///
/// # Errors
/// Of one of the listings, or of `see`.
pub fn compare<E: From<ListingError>>(
    mut first: Cursor<'_>,
    mut second: Cursor<'_>,
    mut see: impl FnMut(Pair<'_>, u32) -> Result<(), E>,
) -> Result<(), E> {
    let mut number = first.files();
    let mut one = first.next_entry()?;
    let mut other = second.next_entry()?;
    loop {
        let side = match (&one, &other) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => order(one.path, other.path),
        };
        match (side, one, other) {
            (Ordering::Less, Some(entry), _) => see(Pair::First(entry), number)?,
            (Ordering::Greater, _, Some(entry)) => see(Pair::Second(entry), number)?,
            (Ordering::Equal, Some(entry), Some(same)) => see(Pair::Both(entry, same), number)?,
            _ => return Ok(()),
        }
        if side != Ordering::Greater {
            number = first.files();
            one = first.next_entry()?;
        }
        if side != Ordering::Less {
            other = second.next_entry()?;
        }
    }
}
