//! Manifests that a server keeps.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::file::{SECTION, hash_page};
use super::{Hashed, PAGE_NODES, PageId, merge_nodes};
use crate::store::{Digest, Node};

/// Nodes kept of all objects' sections, at most: 8 MiB, for 1 TiB of objects.
const MAX_SECTIONS: usize = 1 << 18;
/// Pages kept, at most: 4 MiB, for 16 GiB of objects in blocks of 128 KiB.
const MAX_PAGES: usize = 4_096;

/// Sections of objects that were hashed, and pages that were asked for, within a bound of memory.
#[derive(Debug, Default)]
pub struct Manifests {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    sections: BTreeMap<Digest, Arc<[Node]>>,
    /// Oldest first.
    objects: VecDeque<Digest>,
    nodes: usize,
    pages: BTreeMap<(Digest, PageId), Vec<Node>>,
    page_order: VecDeque<(Digest, PageId)>,
}

impl Manifests {
    /// Keeps the sections of an object, unless that alone passes the bound.
    pub fn learn(&self, digest: Digest, sections: Vec<Node>) {
        if sections.is_empty() {
            return;
        }
        let mut kept = self.lock();
        kept.nodes += sections.len();
        match kept.sections.insert(digest, sections.into()) {
            Some(before) => kept.nodes -= before.len(),
            None => kept.objects.push_back(digest),
        }
        // One object is kept, however long: 1/131,072 of its length.
        while kept.nodes > MAX_SECTIONS && kept.objects.len() > 1 {
            let Some(oldest) = kept.objects.pop_front() else { return };
            if let Some(sections) = kept.sections.remove(&oldest) {
                kept.nodes -= sections.len();
            }
        }
    }

    /// A page of an object of that digest and size: from what is kept, or else computed from its
    /// file, if `file` is given. `None` where neither is possible: the object's sections are to be
    /// hashed first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn page(
        &self,
        digest: Digest,
        size: u64,
        page: PageId,
        file: Option<&File>,
    ) -> io::Result<Option<Vec<Node>>> {
        let kept = self.lock();
        if let Some(nodes) = kept.pages.get(&(digest, page)) {
            return Ok(Some(nodes.clone()));
        }
        let sections = kept.sections.get(&digest).cloned();
        drop(kept);
        if !page.is_read(size) {
            return Ok(sections.map(|sections| from_sections(&sections, size, page)));
        }
        let Some(file) = file else { return Ok(None) };
        let nodes = hash_page(file, size, page)?;
        let mut kept = self.lock();
        if kept.pages.insert((digest, page), nodes.clone()).is_none() {
            kept.page_order.push_back((digest, page));
        }
        while kept.page_order.len() > MAX_PAGES {
            let Some(oldest) = kept.page_order.pop_front() else { break };
            kept.pages.remove(&oldest);
        }
        Ok(Some(nodes))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A page whose nodes have a section's length or more.
fn from_sections(sections: &[Node], size: u64, page: PageId) -> Vec<Node> {
    let range = page.range(size);
    let first = page.index * PAGE_NODES;
    (first..first + page.nodes(size) as u64)
        .map(|number| {
            let start = number * page.node_len;
            let end = range.end.min(start + page.node_len);
            let below = (start / SECTION) as usize..end.div_ceil(SECTION) as usize;
            match merge_nodes(&sections[below], start..end, SECTION, false) {
                Hashed::Node(value) => value,
                Hashed::Root(digest) => digest.0,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    use super::super::{Manifest, hash_sections};
    use crate::store::HashProgress;

    #[test]
    fn a_receiver_takes_every_page_that_a_server_makes() {
        let bytes: Vec<u8> =
            (0..35 * SECTION as usize + 4_321).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("temporary file");
        file.write_all(&bytes).expect("written");
        for (size, block_len) in [
            (bytes.len(), 128 << 10),
            (bytes.len(), 8 << 20),
            (900_000, 32 << 10),
            (5 << 20, 1 << 20),
        ] {
            let size = size as u64;
            let (digest, sections) =
                hash_sections(&file, size, &HashProgress::default()).expect("hashed");
            let manifests = Manifests::default();
            manifests.learn(digest, sections);
            let mut manifest = Manifest::new(digest, size, block_len);
            loop {
                let wanted = manifest.wanted(0..size, 100);
                if wanted.is_empty() {
                    break;
                }
                for page in wanted {
                    let nodes = manifests.page(digest, size, page, Some(&file)).expect("read");
                    let nodes = nodes.unwrap_or_else(|| panic!("{page:?} of {size}"));
                    manifest.accept(page, nodes).unwrap_or_else(|_| panic!("{page:?} of {size}"));
                }
            }
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let manifests = Manifests::default();
        for object in 0..100_u8 {
            manifests.learn(Digest([object; 32]), vec![[0; 32]; 10_000]);
        }
        let kept = manifests.lock();
        assert!(kept.nodes <= MAX_SECTIONS && kept.sections.len() == kept.objects.len());
        assert_eq!(kept.nodes, kept.sections.values().map(|s| s.len()).sum::<usize>());
        assert!(kept.sections.contains_key(&Digest([99; 32])));
    }
}
