//! Trees of files: listings, names of what a server makes of a tree, and differences.
//!
//! A [listing](Listing) is the manifest of a tree: one entry for each directory, regular file and
//! symbolic link, in the order of a walk, without contents. A listing that comes from the network is
//! checked while it is read ([`Cursor`]): whatever bytes it has, its paths stay below the tree, none
//! occurs twice, and each entry stands in a directory of the listing. The crate opens no file.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod attributes;
mod builder;
mod cursor;
mod difference;
mod entry;
mod lacks;
mod name;
mod number;
mod path;
mod selection;

pub use attributes::{
    ACL_NAMES, Attributes, Keeps, MAX_XATTR_NAME, MAX_XATTR_VALUE, MAX_XATTRS_LEN, OwnedAttributes,
    Owner, Xattrs,
};
pub use builder::{Listing, ListingFull, MAX_LISTING_LEN};
pub use cursor::{Cursor, ListingError, Place};
pub use difference::{Pair, compare};
pub use entry::{Content, Entry, Modified, SkipReason};
pub use lacks::{Lacks, LacksError, MAX_EXAMPLES, parse_paths, paths_to_bytes};
pub use name::{SampleSize, TreeName, TreePart};
pub use path::{
    MAX_COMPONENT_LEN, MAX_DEPTH, MAX_PATH_LEN, PathError, check_link, check_path, order,
};
pub use selection::{MAX_SELECTED, Selection, SelectionError};
