//! Listing of what a tree that takes another's place has, or is to lose.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use wellspring_tree::{Content, Cursor, Listing, Pair, compare};

use super::adopt::Adoption;
use super::filter::is_below;
use super::scan::{Scan, scan};
use super::swap::NextTree;

impl NextTree {
    /// A listing, and what the other tree has by now and is to lose: that which `goes` by its path, and is not there in the
    /// place of something that the listing skips.
    ///
    /// # Errors
    /// The system's.
    pub fn listed_or_lost(
        &self,
        listing: Cursor<'_>,
        goes: impl Fn(&str) -> bool,
    ) -> io::Result<Listing> {
        let there = match File::open(&self.target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Listing::default(),
            root => scan(&OwnedFd::from(root?), Scan::ALL).map_err(io::Error::other)?,
        };
        let there = Cursor::new(there.as_bytes()).map_err(io::Error::other)?;
        let (mut all, mut skipped) = (Listing::new(), None::<String>);
        let compared = compare(listing, there, |pair, _| {
            let entry = match pair {
                Pair::First(listed) => listed,
                // Below a directory something may go, whatever is listed in its place.
                Pair::Both(listed, there) if listed.content != there.content => {
                    let is_skipped = matches!(listed.content, Content::Skipped(_));
                    let is_directory = there.content == Content::Directory;
                    if is_skipped {
                        skipped = Some(listed.path.to_owned());
                    }
                    if is_directory && !is_skipped { there } else { listed }
                }
                Pair::Both(listed, _) => listed,
                Pair::Second(there) => {
                    let stays = skipped.as_deref().is_some_and(|above| is_below(there.path, above));
                    let leads_on = there.content == Content::Directory;
                    if stays || !leads_on && !goes(there.path) {
                        return Ok(());
                    }
                    there
                }
            };
            all.push(&entry).map_err(io::Error::other)?;
            Ok::<(), Adoption>(())
        });
        compared.map_err(|Adoption(error)| error)?;
        Ok(all)
    }
}
