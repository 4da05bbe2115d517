//! Answers of hosts to a tree that is put, and lists of paths, as bytes.

use std::fmt;
use std::ops::Range;

use crate::number::{put, take};
use crate::path::check_path;

/// First bytes, with the version of the form.
const MAGIC: &[u8; 4] = b"wsl1";
const PATHS_MAGIC: &[u8; 4] = b"wsp1";

/// Longest list of paths in memory \[bytes\]: what paths share takes no bytes on the way.
const MAX_PATHS_LEN: usize = 256 << 20;

/// Paths that stand for all that would be replaced, at most.
pub const MAX_EXAMPLES: usize = 20;

/// What a host lacks of a tree that is put, and what stands there in its way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lacks {
    /// Numbers of the files that it lacks, ascending, with gaps between.
    pub files: Vec<Range<u32>>,
    /// Directories, links and empty files that are to be made.
    pub made: u64,
    /// Files and links that would be replaced.
    pub replaced: u64,
    /// The first of them.
    pub replaced_examples: Vec<String>,
    /// Directories where the tree has something else.
    pub in_the_way: Vec<String>,
    /// What the tree does not have, if that was asked for; a directory is before what is in it.
    pub surplus: Vec<String>,
}

/// Bytes are no answer about a tree, or no list of paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LacksError;

impl fmt::Display for LacksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a malformed answer about a tree")
    }
}

impl std::error::Error for LacksError {}

impl Lacks {
    /// Takes note of a file, whose number is above all others.
    pub fn push_file(&mut self, file: u32) {
        match self.files.last_mut() {
            Some(run) if run.end == file => run.end += 1,
            _ => self.files.push(file..file + 1),
        }
    }

    /// Takes note of something that would be replaced.
    pub fn push_replaced(&mut self, path: &str) {
        self.replaced += 1;
        if self.replaced_examples.len() < MAX_EXAMPLES {
            self.replaced_examples.push(path.to_owned());
        }
    }

    /// How many files are lacking.
    pub fn count(&self) -> u64 {
        self.files.iter().map(|run| run.len() as u64).sum()
    }

    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put(self.files.len() as u64, &mut out);
        let mut end = 0;
        for run in &self.files {
            put((run.start - end).into(), &mut out);
            put(run.len() as u64, &mut out);
            end = run.end;
        }
        put(self.made, &mut out);
        put(self.replaced, &mut out);
        for paths in [&self.replaced_examples, &self.in_the_way, &self.surplus] {
            put_paths(paths, &mut out);
        }
        out
    }

    /// Reads bytes about a listing of so many files.
    ///
    /// # Errors
    /// [`LacksError`].
    pub fn parse(bytes: &[u8], files: u32) -> Result<Self, LacksError> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(LacksError)?;
        let mut lacks = Lacks::default();
        let mut end = 0_u32;
        for index in 0..number(&mut rest)? {
            let gap = u32::try_from(number(&mut rest)?).map_err(|_| LacksError)?;
            let len = u32::try_from(number(&mut rest)?).map_err(|_| LacksError)?;
            let start = end.checked_add(gap).ok_or(LacksError)?;
            end = start.checked_add(len).filter(|end| *end <= files).ok_or(LacksError)?;
            if len == 0 || gap == 0 && index > 0 {
                return Err(LacksError);
            }
            lacks.files.push(start..end);
        }
        (lacks.made, lacks.replaced) = (number(&mut rest)?, number(&mut rest)?);
        lacks.replaced_examples = take_paths(&mut rest)?;
        lacks.in_the_way = take_paths(&mut rest)?;
        lacks.surplus = take_paths(&mut rest)?;
        let enough = lacks.replaced_examples.len() <= MAX_EXAMPLES;
        if rest.is_empty() && enough { Ok(lacks) } else { Err(LacksError) }
    }
}

/// A list of paths as bytes.
pub fn paths_to_bytes(paths: &[String]) -> Vec<u8> {
    let mut out = PATHS_MAGIC.to_vec();
    put_paths(paths, &mut out);
    out
}

/// Reads a list of paths, each of which has a place in a tree.
///
/// # Errors
/// [`LacksError`].
pub fn parse_paths(bytes: &[u8]) -> Result<Vec<String>, LacksError> {
    let mut rest = bytes.strip_prefix(PATHS_MAGIC).ok_or(LacksError)?;
    let paths = take_paths(&mut rest)?;
    if rest.is_empty() { Ok(paths) } else { Err(LacksError) }
}

fn number(rest: &mut &[u8]) -> Result<u64, LacksError> {
    take(rest).ok_or(LacksError)
}

/// How many there are, and each as the number of bytes that it shares with the one before, and the rest.
fn put_paths(paths: &[String], out: &mut Vec<u8>) {
    put(paths.len() as u64, out);
    let mut last = "";
    for path in paths {
        let same = |(a, b): &(u8, u8)| a == b;
        let mut shared = last.bytes().zip(path.bytes()).take_while(same).count();
        while !path.is_char_boundary(shared) {
            shared -= 1;
        }
        put(shared as u64, out);
        put((path.len() - shared) as u64, out);
        out.extend_from_slice(&path.as_bytes()[shared..]);
        last = path;
    }
}

fn take_paths(rest: &mut &[u8]) -> Result<Vec<String>, LacksError> {
    let count = number(rest)?;
    let (mut paths, mut in_memory) = (Vec::<String>::new(), 0);
    for _ in 0..count {
        let shared = usize::try_from(number(rest)?).map_err(|_| LacksError)?;
        let len = usize::try_from(number(rest)?).map_err(|_| LacksError)?;
        let last = paths.last().map_or("", String::as_str);
        let head = last.get(..shared).ok_or(LacksError)?;
        let (tail, behind) = rest.split_at_checked(len).ok_or(LacksError)?;
        let tail = std::str::from_utf8(tail).map_err(|_| LacksError)?;
        let path = format!("{head}{tail}");
        check_path(&path).map_err(|_| LacksError)?;
        in_memory += path.len() + size_of::<String>();
        if in_memory > MAX_PATHS_LEN {
            return Err(LacksError);
        }
        *rest = behind;
        paths.push(path);
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_beyond_the_listing_and_paths_out_of_the_tree_are_refused() {
        let lacks = Lacks { files: vec![0..2, 5..6], ..Lacks::default() };
        assert_eq!(Lacks::parse(&lacks.to_bytes(), 6), Ok(lacks.clone()));
        assert_eq!(Lacks::parse(&lacks.to_bytes(), 5), Err(LacksError));
        for path in ["../x", "/x", "a//b", ""] {
            assert_eq!(parse_paths(&paths_to_bytes(&[path.to_owned()])), Err(LacksError), "{path}");
        }
        assert_eq!(parse_paths(&paths_to_bytes(&[])), Ok(Vec::new()));
        // A count without the paths to it allocates nothing.
        let mut hostile = PATHS_MAGIC.to_vec();
        put(u64::MAX, &mut hostile);
        assert_eq!(parse_paths(&hostile), Err(LacksError));
    }

    proptest! {
        #[test]
        fn answers_come_back(
            files in prop::collection::btree_set(0..500_u32, 0..100),
            paths in prop::collection::btree_set("[a-zü]{1,3}(/[a-zü]{1,3}){0,2}", 0..20),
            made: u64,
        ) {
            let mut lacks = Lacks { made, ..Lacks::default() };
            files.iter().for_each(|file| lacks.push_file(*file));
            paths.iter().for_each(|path| lacks.push_replaced(path));
            lacks.surplus = paths.into_iter().collect();
            prop_assert_eq!(lacks.count(), files.len() as u64);
            prop_assert_eq!(Lacks::parse(&lacks.to_bytes(), 500), Ok(lacks));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), cut in 0..40_usize) {
            let with = |magic: &[u8]| [magic, &bytes[..]].concat();
            let _ = Lacks::parse(&with(MAGIC), 100);
            let _ = parse_paths(&with(PATHS_MAGIC));
            let lacks = Lacks { files: vec![1..2, 4..5], surplus: vec!["a/b".into()], ..Lacks::default() };
            let mut whole = lacks.to_bytes();
            whole.truncate(cut);
            prop_assert!(whole == lacks.to_bytes() || Lacks::parse(&whole, 9).is_err());
        }
    }
}
