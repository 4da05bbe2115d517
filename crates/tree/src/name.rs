//! Names of the objects that a server makes of a tree.

use std::fmt;

use crate::selection::Selection;

/// What of a tree is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreePart {
    /// The listing of all that is in it.
    Listing,
    /// The listing with the digests of all files.
    Digests,
    /// The listing of the directory alone, without what is in its directories.
    Level,
    /// The contents of some files, one behind the other.
    Files {
        /// First half of the digest of the listing that numbers the files.
        listing: [u8; 16],
        /// Which.
        files: Selection,
    },
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
const LEVEL: &str = "level";
const FILES: &str = "files:";

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
            TreePart::Level => write!(f, "{directory}//{LEVEL}"),
            TreePart::Files { listing, files } => {
                write!(f, "{directory}//{FILES}{:032x}:{files}", u128::from_be_bytes(*listing))
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
        let mut files = Selection::default();
        [1, 2, 9].into_iter().for_each(|file| files.push(file));
        for directory in ["", "a", "a/b"] {
            for part in [
                TreePart::Listing,
                TreePart::Digests,
                TreePart::Level,
                TreePart::Files { listing: [0xab; 16], files: files.clone() },
            ] {
                let name = TreeName { directory, part };
                let text = name.to_string();
                assert!(TreeName::is_one(&text), "{text}");
                assert_eq!(TreeName::parse(&text), Some(name), "{text}");
            }
        }
        for name in ["", "a", "a/b", "a//", "a//x", "a//files:", "a//files:00:1", "a///"] {
            assert_eq!(TreeName::parse(name), None, "{name}");
        }
    }
}
