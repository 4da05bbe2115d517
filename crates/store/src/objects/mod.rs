//! Objects: files below a directory, and what is known of them.

mod beneath;
mod digest_cache;
mod directory;
mod disk;
mod error;
mod file_source;
mod folders;
mod hash;
mod memory;
mod mode;
mod name;
mod node_files;
mod part_file;
mod payload;
mod prefix;
mod reserve;
mod root;
mod scratch;
mod sparse;
mod stale;
mod write_back;

pub use digest_cache::{DigestCache, Fingerprint};
pub use directory::Store;
pub use disk::{Disk, SystemDisk};
pub use error::StoreError;
pub use file_source::FileSource;
pub use hash::{Digest, HashProgress, Node, NotADigest, hash_file, hash_node, hash_nodes};
pub use name::{MAX_NAME_LEN, NameError, ObjectName, QUOTA_LEDGER, next_name};
pub use part_file::PartFile;
pub use payload::{Check, ObjectSink, ObjectSource};
pub use reserve::{Limits, Reservation, Reservations};
pub use root::{Root, is_same_directory};
pub use scratch::{Place, ScratchFile};
pub use stale::{Cleaned, PartLimits, clean, remove_stale_parts, remove_stale_parts_on};
pub use write_back::WriteBack;

pub(crate) use beneath::{open_directory_beneath, split_path};
pub(crate) use name::{
    NEXT_TREE, UNSYNCED, check_plain, is_reserved, name_of_next, part_file_name,
};
pub(crate) use stale::{claim, is_left_to_take_up, lock_left, visit_below};

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
