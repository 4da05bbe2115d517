//! Trees of files below a directory: walked, read in packs, and written.

mod adopt;
mod alike;
mod attributes;
mod besides;
mod doubted;
mod doubts;
mod file;
mod filter;
mod in_place;
mod leftovers;
mod listed;
mod loosened;
mod lost;
#[cfg(target_os = "linux")]
mod mounts;
mod movable;
mod nameless;
mod new_file;
mod obstacles;
mod pack;
mod packs;
mod plan;
mod plan_options;
mod removal;
mod remove_all;
mod rescue;
mod scan;
mod spelling;
mod swap;
mod swap_note;
mod target;
mod unfinished;
mod unpack;
mod unsynced;
mod walked;
mod writers;

pub use attributes::{Meta, can_give_owners};
pub use doubted::{in_doubt, is_in_doubt, one_in_doubt};
pub use file::{LinksOut, path_of};
pub use filter::{FilterWalk, TreeFilter};
pub use loosened::Loosened;
pub use new_file::NewFile;
pub use obstacles::folded;
pub use pack::{
    MAX_PACK_LEN, PackError, PackState, open_listed, pack_state, read_pack, read_pack_and_state,
    unnamed_file,
};
pub use packs::{Pack, Packer, wanted};
pub use plan::Plan;
pub use plan_options::{PlanError, PlanOptions, TreeChange, TreeListing};
pub use scan::{Scan, ScanError, ScanHelp, scan, scan_named, scan_named_with, scan_with};
pub use swap::{NextTree, Swapped};
pub use target::TreeTarget;
pub use unfinished::clean_trees;
pub use unpack::{Unpack, Wanted};
pub use walked::{Walked, WalkedDigests};

pub use wellspring_tree as listing;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod rights_tests;
#[cfg(test)]
mod swap_tests;
#[cfg(test)]
mod tests;
