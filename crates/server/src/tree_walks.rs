//! Walks of trees that clients put: what is lacking, and whether all is there.
//!
//! Whether all is there is looked at while others wait who would put something. Where digests are compared, the files are
//! therefore read before; while others wait, it is only looked whether they are still what was read.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::handler::Handler;
use super::taken_tree::TakenTree;
use super::tree_puts::of_tree;
use super::tree_swaps::Stays;
use crate::store::tree::listing::Listing;
use crate::store::tree::{
    LinksOut, Plan, PlanOptions, Scan, ScanError, ScanHelp, TreeTarget, Walked, WalkedDigests,
    scan_with,
};
use crate::store::{Existing, StoreError};

/// How often files are read that change meanwhile, at most.
const ATTEMPTS: u32 = 4;
/// What was written in this moment may be written again without a trace for so long.
const SETTLES: Duration = Duration::from_millis(30);

impl Handler {
    /// What is lacking in the directory that a tree is written into.
    pub(super) fn compare(
        &self,
        tree: &TakenTree,
        surplus: bool,
        help: ScanHelp<'_>,
    ) -> Result<Plan, StoreError> {
        if tree.atomic {
            self.begin_next(tree)?;
        }
        self.compare_with(tree, &tree.place(), surplus, help)
    }

    /// What is lacking in a directory.
    pub(super) fn compare_with(
        &self,
        tree: &TakenTree,
        directory: &str,
        surplus: bool,
        help: ScanHelp<'_>,
    ) -> Result<Plan, StoreError> {
        let options =
            PlanOptions { dry_run: true, delete: surplus, ..tree.options(Existing::Keep) };
        let root = match self.store.open_tree(directory) {
            Err(StoreError::NotFound(_)) => None,
            root => Some(root?),
        };
        let local = root.as_ref().map(|root| scan_with(root, self.how(tree), help)).transpose();
        let local = local.map_err(io::Error::other)?.unwrap_or_default();
        let target = root.map(TreeTarget::of);
        Plan::of_target(&options, tree.listed.whole(), (target, &local)).map_err(of_tree)
    }

    fn how(&self, tree: &TakenTree) -> Scan {
        let (digests, keeps) = (tree.has_digests, tree.keeps);
        Scan {
            hidden: self.permissions().hidden,
            deep: true,
            digests,
            keeps,
            links_out: LinksOut::Skipped,
        }
    }

    /// Help for a walk that goes on until the server ends.
    pub(super) fn until_the_end(&self) -> ScanHelp<'_> {
        self.with(Walked::Nothing)
    }

    fn with<'a>(&'a self, walked: Walked<'a>) -> ScanHelp<'a> {
        ScanHelp { digests: None, progress: &self.trees.walking, walked }
    }

    /// [Closes](Self::close_place) the directory that a tree was written into, and walks it. Long files are read before,
    /// while nobody waits.
    pub(super) fn close_walked(
        &self,
        tree: &TakenTree,
    ) -> Result<(OwnedFd, Stays<'_>, Listing), StoreError> {
        let walked = WalkedDigests::default();
        let mut attempt = 1;
        loop {
            if tree.has_digests {
                self.walk_ahead(tree, &walked)?;
            }
            let (root, stays) = self.close_place(tree)?;
            match scan_with(&root, self.how(tree), self.with(Walked::Relies(&walked))) {
                Ok(local) => return Ok((root, stays, local)),
                // A file has changed since it was read, or was written in that moment.
                Err(ScanError::Changed(_)) if tree.has_digests && attempt < ATTEMPTS => {
                    drop(stays);
                    std::thread::sleep(SETTLES);
                    attempt += 1;
                }
                Err(error) => return Err(io::Error::other(error).into()),
            }
        }
    }

    /// Reads the files of a tree as far as that was not done.
    fn walk_ahead(&self, tree: &TakenTree, walked: &WalkedDigests) -> Result<(), StoreError> {
        let Ok(root) = self.store.open_tree(&tree.place()) else { return Ok(()) };
        match scan_with(&root, self.how(tree), self.with(Walked::Adds(walked))) {
            Err(error @ ScanError::Stopped) => Err(io::Error::other(error).into()),
            // Whatever else is wrong is told by the walk that counts.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;
    use std::sync::{Arc, PoisonError};
    use std::time::Duration;

    use super::*;
    use crate::limit_tests::handler;
    use crate::listed::Listed;
    use crate::protocols::Unattended;
    use crate::store::Digest;
    use crate::store::tree::{Meta, Wanted};
    use crate::taken_tree::TreeStep;

    const LEN: u64 = 8 << 20;

    /// The tree of a directory that is there, as if it had been put.
    fn tree_of(handler: &Handler, directory: &str) -> Arc<TakenTree> {
        let root = handler.store.open_tree(directory).expect("there");
        let how = Scan {
            hidden: false,
            deep: true,
            digests: true,
            keeps: Default::default(),
            links_out: LinksOut::Skipped,
        };
        let listing = scan_with(&root, how, ScanHelp::none()).expect("walked").into_bytes();
        let digest = Digest(*blake3::hash(&listing).as_bytes());
        let listed = Listed::new(directory, digest, listing).expect("a listing");
        let tree = TakenTree::new((listed, false), false, |name| handler.name_to_take(name));
        Arc::new(tree.expect("a listing"))
    }

    /// Waits until so many bytes were read in walks of trees at their end.
    fn wait_until_read(handler: &Handler, bytes: u64) {
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while handler.trees.walking.done() < bytes {
            assert!(std::time::Instant::now() < deadline, "nothing is read while others wait");
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_tree_is_read_before_others_have_to_wait_for_its_end() {
        let home = tempfile::tempdir().expect("temporary directory");
        let file = home.path().join("d/x");
        std::fs::create_dir(home.path().join("d")).expect("made");
        std::fs::write(&file, vec![7; LEN as usize]).expect("written");
        let unattended = Unattended::new().expect("a driver");
        let handler = handler(home.path(), &unattended);
        let tree = tree_of(&handler, "d");
        // Somebody else's tree takes its directory's place.
        let other = handler.trees.places.write().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| {
                let (_, _stays, local) = handler.close_walked(&tree).expect("walked");
                local.into_bytes()
            });
            wait_until_read(&handler, LEN);
            // What was read is not there any more: that is noticed.
            let written = std::fs::File::options().write(true).open(&file).expect("open");
            written.write_all_at(b"8", 0).expect("written");
            drop(other);
            let now = tree_of(&handler, "d");
            assert_ne!(now.listed.digest(), tree.listed.digest());
            let local = closing.join().expect("it ends");
            assert_eq!(local.as_slice(), now.listed.whole().bytes.as_slice());
        });
    }

    #[tokio::test]
    async fn an_offer_of_a_file_of_a_tree_does_not_wait_for_who_swaps() {
        let home = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(home.path().join("d")).expect("made");
        std::fs::write(home.path().join("d/x"), "bytes").expect("written");
        let unattended = Unattended::new().expect("a driver");
        let handler = handler(home.path(), &unattended);
        let tree = tree_of(&handler, "d");
        let mut cursor = tree.listed.before(0);
        let meta = Meta::from(&cursor.next_entry().expect("read").expect("an entry"));
        let file = Wanted { path: "y".to_owned(), size: 5, meta };
        let step = TreeStep::File { tree: Arc::clone(&tree), file, existing: Existing::Keep };
        let other = handler.trees.places.write().unwrap_or_else(PoisonError::into_inner);
        assert!(matches!(handler.prepare_step(&step), Ok(false)));
        drop(other);
        assert!(matches!(handler.prepare_step(&step), Ok(true)));
    }
}
