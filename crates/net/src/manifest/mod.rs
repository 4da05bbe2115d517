//! Manifests: the hash tree of an object, page by page, under the object's digest.
//!
//! BLAKE3 hashes an object as a tree of chunks of 1,024 bytes, whose root is the digest that
//! `b3sum` prints. The chaining values of the tree's nodes of one length are therefore a list of
//! digests of the object's parts under that very root. A *page* has up to 32 such nodes, which are
//! the children of one node of the page above; a page is believed once its nodes hash to that node,
//! the uppermost one once they hash to the digest. So a receiver verifies each block by itself, keeps
//! in memory only what it works on, and takes no page on trust.

mod cache;
mod file;
mod sink;

use std::collections::BTreeMap;
use std::ops::Range;

use blake3::CHUNK_LEN;
use blake3::hazmat::{Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};

use wellspring_transport::scdp::ObjectInfo;
use wellspring_wire::control::Geometry;

use crate::store::{Check, Digest, Node, hash_node};

pub use cache::Manifests;
pub use file::{hash_sections, keep_sections, kept_sections};
pub use sink::Verified;

/// Nodes of a page, at most.
pub const PAGE_NODES: u64 = 32;
/// Pages at the lowest level that are kept, at most: 1 KiB each.
const MAX_PAGES: usize = 4_096;

/// Length of the blocks in which an object is cut that would be cut in blocks of so many symbols:
/// the longest subtree of the hash tree that is no longer \[bytes\].
pub fn block_len(symbol_size: u16, symbols_per_block: u32) -> u64 {
    let len = (u64::from(symbol_size) * u64::from(symbols_per_block)).max(CHUNK_LEN as u64);
    1 << len.ilog2()
}

/// An object as it is cut by a geometry that hosts were told: in blocks of [`block_len`].
pub fn object_of(size: u64, geometry: &Geometry, tag: u64) -> ObjectInfo {
    let len = block_len(geometry.symbol_size, geometry.symbols_per_block);
    ObjectInfo::in_blocks_of(len, size, geometry.symbol_size, tag)
}

/// Numbering epoch of a sender that begins with the first block that is missing.
pub const RESUMED_EPOCH: u8 = 1;

/// The first block that is missing, where these ascending runs of blocks are there.
pub fn first_missing(held: &[Range<u32>]) -> u32 {
    held.first().filter(|run| run.start == 0).map_or(0, |run| run.end)
}

/// A page's place in the tree of an object: the length of its nodes \[bytes\], a power of two, and
/// its number among the pages of such nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageId {
    /// Length of its nodes \[bytes\].
    pub node_len: u64,
    /// Its number.
    pub index: u64,
}

impl PageId {
    /// The page of that number whose nodes have 2^`log` bytes; `None` if no object has it.
    pub fn of(log: u8, index: u64) -> Option<PageId> {
        let in_range = (CHUNK_LEN.ilog2()..=56).contains(&log.into());
        let page = PageId { node_len: 1_u64.checked_shl(log.into())?, index };
        (in_range && page.index.checked_mul(page.span()).is_some()).then_some(page)
    }

    /// Binary logarithm of the nodes' length.
    pub fn log(&self) -> u8 {
        self.node_len.ilog2() as u8
    }

    /// Bytes of the object below a page that is not the last.
    fn span(&self) -> u64 {
        self.node_len.saturating_mul(PAGE_NODES)
    }

    /// The bytes below it, of an object of that size.
    pub fn range(&self, size: u64) -> Range<u64> {
        let start = self.index.saturating_mul(self.span()).min(size);
        start..size.min(start.saturating_add(self.span()))
    }

    /// Nodes of it, in an object of that size.
    pub fn nodes(&self, size: u64) -> usize {
        let range = self.range(size);
        (range.end - range.start).div_ceil(self.node_len) as usize
    }

    /// The page that has it as a node, and as which.
    fn parent(&self) -> (PageId, usize) {
        let node_len = self.span();
        let parent = PageId { node_len, index: self.index / PAGE_NODES };
        (parent, (self.index % PAGE_NODES) as usize)
    }
}

/// The hash of consecutive nodes of one length.
enum Hashed {
    Root(Digest),
    Node(Node),
}

/// Hashes the nodes over `range`, which begins where such nodes do. `is_root`: they are the whole
/// object, of two nodes at least.
fn merge_nodes(nodes: &[Node], range: Range<u64>, node_len: u64, is_root: bool) -> Hashed {
    let len = range.end - range.start;
    let [first, rest @ ..] = nodes else { return Hashed::Node([0; 32]) };
    if rest.is_empty() || len <= node_len {
        return Hashed::Node(*first);
    }
    let left_len = left_subtree_len(len);
    let middle = range.start + left_len;
    let (left, right) = nodes.split_at((left_len / node_len) as usize);
    let child = |nodes, range| match merge_nodes(nodes, range, node_len, false) {
        Hashed::Node(value) => value,
        Hashed::Root(digest) => digest.0,
    };
    let (left, right) = (child(left, range.start..middle), child(right, middle..range.end));
    if is_root {
        let root = merge_subtrees_root(&left, &right, Mode::Hash);
        Hashed::Root(Digest(*root.as_bytes()))
    } else {
        Hashed::Node(merge_subtrees_non_root(&left, &right, Mode::Hash))
    }
}

/// The digest of an object from its nodes of one length, of which there are two at least.
fn root_of(nodes: &[Node], size: u64, node_len: u64) -> Option<Digest> {
    match merge_nodes(nodes, 0..size, node_len, true) {
        Hashed::Root(digest) => Some(digest),
        Hashed::Node(_) => None,
    }
}

/// Reads the nodes of a page.
///
/// # Errors
/// They are not as many as they would have to be.
pub fn parse_nodes(page: PageId, size: u64, bytes: &[u8]) -> Result<Vec<Node>, WrongPage> {
    let (nodes, rest) = bytes.as_chunks();
    if !rest.is_empty() || nodes.len() != page.nodes(size) {
        return Err(WrongPage);
    }
    Ok(nodes.to_vec())
}

/// A page is not one of the object's manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongPage;

/// What is known of an object's hash tree, down to nodes of a block's length.
#[derive(Debug)]
pub struct Manifest {
    digest: Digest,
    size: u64,
    block_len: u64,
    pages: BTreeMap<PageId, Vec<Node>>,
}

impl Manifest {
    /// Nothing known but the digest.
    pub fn new(digest: Digest, size: u64, block_len: u64) -> Self {
        Manifest { digest, size, block_len, pages: BTreeMap::new() }
    }

    /// The page that must come next for the node of that length at `offset` to be known; `None` if
    /// it is.
    pub fn wanted_for(&self, offset: u64, node_len: u64) -> Option<PageId> {
        if self.size <= node_len {
            return None;
        }
        let lowest = PageId { node_len, index: offset / (node_len * PAGE_NODES) };
        let mut wanted = None;
        let mut page = lowest;
        while !self.pages.contains_key(&page) {
            wanted = Some(page);
            if page.range(self.size) == (0..self.size) {
                break;
            }
            page = page.parent().0;
        }
        wanted
    }

    /// The pages that must come next for all blocks in `range` to be known, up to `limit`.
    pub fn wanted(&self, range: Range<u64>, limit: usize) -> Vec<PageId> {
        let mut wanted: Vec<PageId> = Vec::new();
        let step = self.block_len * PAGE_NODES;
        let mut at = range.start / step * step;
        while at < range.end.min(self.size) && wanted.len() < limit {
            if let Some(page) = self.wanted_for(at, self.block_len)
                && !wanted.contains(&page)
            {
                wanted.push(page);
            }
            at += step;
        }
        wanted
    }

    /// Takes a page if it is the object's.
    ///
    /// # Errors
    /// Whoever sent it does not have the object, or lies.
    pub fn accept(&mut self, page: PageId, nodes: Vec<Node>) -> Result<(), WrongPage> {
        let range = page.range(self.size);
        if nodes.len() != page.nodes(self.size) || nodes.is_empty() {
            return Err(WrongPage);
        }
        let is_whole = range == (0..self.size);
        let right = match merge_nodes(&nodes, range, page.node_len, is_whole) {
            Hashed::Root(digest) => is_whole && digest == self.digest,
            Hashed::Node(value) => {
                let (parent, place) = page.parent();
                !is_whole && self.pages.get(&parent).and_then(|p| p.get(place)) == Some(&value)
            }
        };
        if !right {
            return Err(WrongPage);
        }
        self.pages.insert(page, nodes);
        Ok(())
    }

    /// Pages below whose blocks nothing is wanted any more, and which are too many, are forgotten.
    pub fn forget_below(&mut self, offset: u64) {
        let node_len = self.block_len;
        let lowest = PageId { node_len, index: 0 };
        let passed = PageId { node_len, index: offset / (node_len * PAGE_NODES) };
        if self.pages.range(lowest..passed).count() > MAX_PAGES / 2 {
            self.pages.retain(|page, _| page.node_len != node_len || *page >= passed);
        }
    }

    /// The chaining value of the node of that length at `offset`, if it is known.
    fn node(&self, offset: u64, node_len: u64) -> Option<Node> {
        let number = offset / node_len;
        let page = PageId { node_len, index: number / PAGE_NODES };
        self.pages.get(&page)?.get((number % PAGE_NODES) as usize).copied()
    }

    /// What the bytes of the node of that length at `offset` are to be.
    pub fn expected(&self, offset: u64, node_len: u64) -> Expected {
        if !offset.is_multiple_of(node_len) || offset >= self.size {
            return Expected::Nothing;
        }
        if self.size <= node_len {
            return Expected::Object { digest: self.digest, len: self.size };
        }
        let len = node_len.min(self.size - offset);
        match self.node(offset, node_len) {
            None => Expected::Unknown,
            Some(value) => Expected::Node { value, offset, len },
        }
    }

    /// What the block at `offset` is to be.
    pub fn expected_block(&self, offset: u64) -> Expected {
        self.expected(offset, self.block_len)
    }
}

/// What some bytes are to be.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// There are no such bytes.
    Nothing,
    /// Not known yet.
    Unknown,
    /// The whole object.
    Object {
        /// Its digest.
        digest: Digest,
        /// Its length \[bytes\].
        len: u64,
    },
    /// A node of its tree.
    Node {
        /// Its chaining value.
        value: Node,
        /// Where its bytes begin in the object.
        offset: u64,
        /// Their number.
        len: u64,
    },
}

impl Expected {
    /// Whether bytes that hash to that node are right.
    pub fn is_node(&self, node: &Node) -> bool {
        matches!(self, Expected::Node { value, .. } if value == node)
    }

    /// Checks the bytes.
    pub fn check(&self, bytes: &[u8]) -> Check {
        let is_right = match *self {
            Expected::Nothing => false,
            Expected::Unknown => return Check::Unknown,
            Expected::Object { digest, len } => {
                bytes.len() as u64 == len && *blake3::hash(bytes).as_bytes() == digest.0
            }
            Expected::Node { value, offset, len } => {
                bytes.len() as u64 == len && hash_node(bytes, offset) == value
            }
        };
        if is_right { Check::Right } else { Check::Wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + i / 251 + i / 65_537) as u8).collect()
    }

    /// A page of an object, by hashing what is below it.
    fn page_of(bytes: &[u8], page: PageId) -> Vec<Node> {
        let range = page.range(bytes.len() as u64);
        let below = &bytes[range.start as usize..range.end as usize];
        let parts = (range.start..).step_by(page.node_len as usize);
        parts
            .zip(below.chunks(page.node_len as usize))
            .map(|(at, part)| hash_node(part, at))
            .collect()
    }

    fn fill(manifest: &mut Manifest, bytes: &[u8]) -> usize {
        let mut pages = 0;
        loop {
            let wanted = manifest.wanted(0..bytes.len() as u64, 4);
            if wanted.is_empty() {
                return pages;
            }
            for page in wanted {
                manifest.accept(page, page_of(bytes, page)).expect("the object's");
                pages += 1;
            }
        }
    }

    #[test]
    fn blocks_are_the_longest_subtrees_that_fit() {
        assert_eq!(block_len(1_376, 100), 128 << 10);
        assert_eq!(block_len(8_192, 100), 512 << 10);
        assert_eq!(block_len(1_376, 10), 8 << 10);
        assert_eq!(block_len(1, 1), 1 << 10);
        assert_eq!(block_len(1_024, 128), 128 << 10, "exactly");
    }

    #[test]
    fn a_page_of_another_object_another_length_or_another_place_is_refused() {
        let bytes = object(3_000_000);
        let mut other = bytes.clone();
        other[2_999_999] ^= 1;
        let digest = Digest(*blake3::hash(&bytes).as_bytes());
        let fresh = || Manifest::new(digest, bytes.len() as u64, 4_096);
        let top = fresh().wanted(0..1, 1)[0];
        assert_eq!(top, PageId { node_len: 128 << 10, index: 0 });
        let right = page_of(&bytes, top);
        assert_eq!(fresh().accept(top, page_of(&other, top)), Err(WrongPage));
        assert_eq!(fresh().accept(top, right[1..].to_vec()), Err(WrongPage));
        assert_eq!(fresh().accept(top, [&right[..], &right[..1]].concat()), Err(WrongPage));
        assert_eq!(fresh().accept(top, Vec::new()), Err(WrongPage));
        let below = PageId { node_len: 4_096, index: 3 };
        assert_eq!(fresh().accept(below, page_of(&bytes, below)), Err(WrongPage), "out of order");
        let mut manifest = fresh();
        manifest.accept(top, right).expect("the object's");
        let last = PageId { node_len: 4_096, index: 22 };
        assert_eq!(manifest.accept(last, page_of(&other, last)), Err(WrongPage));
        assert_eq!(
            manifest.accept(below, page_of(&bytes, PageId { index: 4, ..below })),
            Err(WrongPage)
        );
        manifest.accept(last, page_of(&bytes, last)).expect("the object's");
        let beyond = PageId { node_len: 4_096, index: 23 };
        assert_eq!(manifest.accept(beyond, vec![[0; 32]; 32]), Err(WrongPage), "beyond the end");
        let absurd = PageId { node_len: 1 << 56, index: 0 };
        assert_eq!(manifest.accept(absurd, vec![[0; 32]]), Err(WrongPage));
        assert_eq!(PageId::of(56, u64::MAX), None);
        assert_eq!((PageId::of(9, 0), PageId::of(200, 0)), (None, None));
    }

    #[test]
    fn pages_of_blocks_that_are_there_are_forgotten() {
        let size = u64::from(u32::MAX) * 1_000;
        let mut manifest = Manifest::new(Digest([0; 32]), size, 1_024);
        for index in 0..3 * MAX_PAGES as u64 {
            manifest.pages.insert(PageId { node_len: 1_024, index }, vec![[0; 32]; 32]);
            manifest.forget_below(index * 32 * 1_024);
            assert!(manifest.pages.len() <= MAX_PAGES);
        }
    }

    proptest! {
        #[test]
        fn noise_is_refused_and_never_panics(
            size in 1_u64..=u64::MAX / 2, log in 0_u8..=255, index: u64, block_log in 10_u32..25,
            nodes in prop::collection::vec(any::<[u8; 32]>(), 0..40), cut in 0_usize..32, at: u64,
        ) {
            let mut manifest = Manifest::new(Digest([7; 32]), size, 1 << block_log);
            let wanted = manifest.wanted(0..size.min(1 << 25), 3);
            for page in PageId::of(log, index).into_iter().chain(wanted) {
                let bytes = nodes.as_flattened();
                let _ = parse_nodes(page, size, &bytes[..bytes.len().saturating_sub(cut)]);
                prop_assert!(manifest.accept(page, nodes.clone()).is_err());
                let mut fitting = vec![[1; 32]; page.nodes(size).min(PAGE_NODES as usize)];
                fitting.truncate(page.nodes(size));
                prop_assert!(manifest.accept(page, fitting).is_err());
            }
            prop_assert_ne!(manifest.expected_block(at).check(&[0; 100]), Check::Right);
        }

        #[test]
        fn every_block_of_any_object_is_verified_under_the_digest_of_b3sum(
            len in 1_usize..300_000, log in 10_u32..16, flip in any::<prop::sample::Index>(),
        ) {
            let (bytes, block_len) = (object(len), 1_u64 << log);
            let digest = Digest(*blake3::hash(&bytes).as_bytes());
            let mut manifest = Manifest::new(digest, len as u64, block_len);
            fill(&mut manifest, &bytes);
            let mut altered = bytes.clone();
            let place = flip.index(len);
            altered[place] ^= 0x10;
            for (number, at) in (0..len).step_by(block_len as usize).enumerate() {
                let end = len.min(at + block_len as usize);
                prop_assert_eq!(
                    manifest.expected_block(at as u64).check(&bytes[at..end]), Check::Right, "{}", number
                );
                let expected =
                    if (at..end).contains(&place) { Check::Wrong } else { Check::Right };
                prop_assert_eq!(manifest.expected_block(at as u64).check(&altered[at..end]), expected);
            }
        }
    }
}
