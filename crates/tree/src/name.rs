//! Names of the objects that a server makes of a tree.

use std::fmt;

use crate::attributes::Keeps;
use crate::selection::Selection;

/// What of a tree is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreePart {
    /// The listing of all that is in it.
    Listing,
    /// The listing with the digests of all files.
    Digests,
    /// The listing of all that is in it with owners or extended attributes.
    Attributes {
        /// Which of these.
        keeps: Keeps,
        /// Whether it has the digests of all files, too.
        digests: bool,
    },
    /// The listing of the directory alone, without what is in its directories.
    Level,
    /// The contents of some files, one behind the other.
    Files {
        /// First half of the digest of the listing that numbers the files.
        listing: [u8; 16],
        /// Which.
        files: Selection,
    },
    /// The listing of a tree that a client puts.
    Put {
        /// Whether it is to take the place of the directory as a whole.
        atomic: bool,
    },
    /// Which files of a listing that was put are lacking, and what stands in its way.
    Lacks {
        /// First half of the listing's digest.
        listing: [u8; 16],
        /// Whether it also says what the listing does not have.
        surplus: bool,
    },
    /// Paths that make room for a tree that is put, before its files come.
    Clear {
        /// First half of the listing's digest.
        listing: [u8; 16],
    },
    /// All files of a tree that is put are there: what needs no bytes is made, and these paths are removed.
    Finish {
        /// First half of the listing's digest.
        listing: [u8; 16],
    },
    /// Bytes for a trial of the path, of the root alone.
    Sample {
        /// How many.
        size: SampleSize,
    },
}

/// Length of the bytes that are sent for a trial. There are few, so that a server keeps all it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SampleSize {
    /// 64 KB.
    Small,
    /// 512 KB.
    Medium,
    /// 4 MB.
    Large,
    /// 15 MB.
    Largest,
}

impl SampleSize {
    /// All, ascending: together less than 20 MB.
    pub const ALL: [SampleSize; 4] =
        [SampleSize::Small, SampleSize::Medium, SampleSize::Large, SampleSize::Largest];

    /// How long that is \[bytes\].
    // Not a container: there is no empty one.
    #[expect(clippy::len_without_is_empty, reason = "no sample is empty")]
    pub fn len(self) -> usize {
        match self {
            SampleSize::Small => 64_000,
            SampleSize::Medium => 512_000,
            SampleSize::Large => 4_000_000,
            SampleSize::Largest => 15_000_000,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.len().to_string() == text)
    }
}

impl TreePart {
    /// Whether it is asked for, or sent, by a client that puts a tree.
    pub fn is_of_put(&self) -> bool {
        use TreePart::*;
        matches!(self, Put { .. } | Lacks { .. } | Clear { .. } | Finish { .. })
    }
}

/// The name of an object that a server makes of a tree: `DIR/` for its listing, and `DIR//` with what
/// is asked for. No file has such a name. The root of what is served is the directory of no name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeName<'a> {
    /// The directory; empty for the root.
    pub directory: &'a str,
    /// What of it.
    pub part: TreePart,
}

const DIGESTS: &str = "digests";
const WITH_DIGESTS: &str = "digests:";
const WITH: &str = "listing:";
const LEVEL: &str = "level";
const FILES: &str = "files:";
const PUT: &str = "put";
const PUT_ATOMIC: &str = "put:atomic";
const LACKS: &str = "lacks:";
const SURPLUS: &str = ":surplus";
const CLEAR: &str = "clear:";
const FINISH: &str = "finish:";
const SAMPLE: &str = "sample:";

impl<'a> TreeName<'a> {
    /// Whether a name can only be that of a part of a tree.
    pub fn is_one(name: &str) -> bool {
        name.ends_with('/') || name.contains("//")
    }

    /// Reads a name; `None` if it is not that of a part of a tree. The directory is not checked.
    pub fn parse(name: &'a str) -> Option<Self> {
        if let Some((directory, part)) = name.split_once("//") {
            let part = match part {
                DIGESTS => TreePart::Digests,
                LEVEL => TreePart::Level,
                PUT => TreePart::Put { atomic: false },
                PUT_ATOMIC => TreePart::Put { atomic: true },
                part if part.starts_with(WITH) => {
                    let keeps = Keeps::parse(part.strip_prefix(WITH)?)?;
                    TreePart::Attributes { keeps, digests: false }
                }
                part if part.starts_with(WITH_DIGESTS) => {
                    let keeps = Keeps::parse(part.strip_prefix(WITH_DIGESTS)?)?;
                    TreePart::Attributes { keeps, digests: true }
                }
                part if part.starts_with(LACKS) => {
                    let part = part.strip_prefix(LACKS)?;
                    let listing = part.strip_suffix(SURPLUS);
                    let surplus = listing.is_some();
                    TreePart::Lacks { listing: from_hex(listing.unwrap_or(part))?, surplus }
                }
                part if part.starts_with(CLEAR) => {
                    TreePart::Clear { listing: from_hex(part.strip_prefix(CLEAR)?)? }
                }
                part if part.starts_with(FINISH) => {
                    TreePart::Finish { listing: from_hex(part.strip_prefix(FINISH)?)? }
                }
                part if part.starts_with(SAMPLE) && directory.is_empty() => {
                    TreePart::Sample { size: SampleSize::parse(part.strip_prefix(SAMPLE)?)? }
                }
                part => {
                    let (listing, files) = part.strip_prefix(FILES)?.split_once(':')?;
                    let files = Selection::parse(files).ok()?;
                    TreePart::Files { listing: from_hex(listing)?, files }
                }
            };
            return Some(TreeName { directory, part });
        }
        let directory = name.strip_suffix('/')?;
        Some(TreeName { directory, part: TreePart::Listing })
    }
}

impl fmt::Display for TreeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = self.directory;
        match &self.part {
            TreePart::Listing => write!(f, "{directory}/"),
            TreePart::Digests => write!(f, "{directory}//{DIGESTS}"),
            TreePart::Attributes { keeps, digests } => {
                let with = if *digests { WITH_DIGESTS } else { WITH };
                write!(f, "{directory}//{with}{}", keeps.letters())
            }
            TreePart::Level => write!(f, "{directory}//{LEVEL}"),
            TreePart::Files { listing, files } => {
                write!(f, "{directory}//{FILES}{:032x}:{files}", u128::from_be_bytes(*listing))
            }
            TreePart::Sample { size } => write!(f, "{directory}//{SAMPLE}{}", size.len()),
            TreePart::Put { atomic: false } => write!(f, "{directory}//{PUT}"),
            TreePart::Put { atomic: true } => write!(f, "{directory}//{PUT_ATOMIC}"),
            TreePart::Lacks { listing, surplus } => {
                let surplus = if *surplus { SURPLUS } else { "" };
                write!(f, "{directory}//{LACKS}{:032x}{surplus}", u128::from_be_bytes(*listing))
            }
            TreePart::Clear { listing } => {
                write!(f, "{directory}//{CLEAR}{:032x}", u128::from_be_bytes(*listing))
            }
            TreePart::Finish { listing } => {
                write!(f, "{directory}//{FINISH}{:032x}", u128::from_be_bytes(*listing))
            }
        }
    }
}

fn from_hex(text: &str) -> Option<[u8; 16]> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_no_object_has_one() {
        const OWNER: Keeps = Keeps { owner: true, xattrs: false, acls: false };
        let mut files = Selection::default();
        [1, 2, 9].into_iter().for_each(|file| files.push(file));
        for directory in ["", "a", "a/b"] {
            for part in [
                TreePart::Listing,
                TreePart::Digests,
                TreePart::Level,
                TreePart::Attributes { keeps: OWNER, digests: false },
                TreePart::Attributes { keeps: Keeps { acls: true, ..OWNER }, digests: true },
                TreePart::Files { listing: [0xab; 16], files: files.clone() },
                TreePart::Put { atomic: false },
                TreePart::Put { atomic: true },
                TreePart::Lacks { listing: [1; 16], surplus: false },
                TreePart::Lacks { listing: [1; 16], surplus: true },
                TreePart::Clear { listing: [2; 16] },
                TreePart::Finish { listing: [3; 16] },
            ] {
                let name = TreeName { directory, part };
                let text = name.to_string();
                assert!(TreeName::is_one(&text), "{text}");
                assert_eq!(TreeName::parse(&text), Some(name), "{text}");
            }
        }
        for size in SampleSize::ALL {
            let name = TreeName { directory: "", part: TreePart::Sample { size } };
            assert_eq!(TreeName::parse(&name.to_string()), Some(name));
        }
        for name in ["//sample:", "//sample:1", "//sample:064000", "a//sample:64000"] {
            assert_eq!(TreeName::parse(name), None, "{name}");
        }
        for name in ["a//listing:", "a//listing:ao", "a//digests:z"] {
            assert_eq!(TreeName::parse(name), None, "{name}");
        }
        for name in ["a//lacks:", "a//lacks:0:surplus", "a//clear:x", "a//finish:"] {
            assert_eq!(TreeName::parse(name), None, "{name}");
        }
        for name in ["", "a", "a/b", "a//", "a//x", "a//files:", "a//files:00:1", "a///"] {
            assert_eq!(TreeName::parse(name), None, "{name}");
        }
    }
}
