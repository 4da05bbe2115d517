//! Trees that clients put and that take the place of a directory as a whole.
//!
//! Such a tree grows beside the directory, and begins with the same files as further names of them. Its end gives it
//! what others have changed in the directory meanwhile, and swaps both in one step.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use super::event_limit::ANYBODY;
use super::handler::Handler;
use super::taken_tree::{TakenTree, at};
use crate::store::tree::listing::{Cursor, Lacks};
use crate::store::tree::{NextTree, TreeFilter, path_of};
use crate::store::{StoreError, is_same_directory};

/// A tree beside the directory that it is to be, whose parent stays open as long.
struct Beside {
    next: NextTree,
    _parent: OwnedFd,
}

/// Directories stay where they are.
pub(super) enum Stays<'a> {
    /// Others may write.
    Others(RwLockReadGuard<'a, bool>),
    /// Whoever has it may swap.
    Alone(RwLockWriteGuard<'a, bool>),
}

impl Stays<'_> {
    /// The same, if the server has not ended.
    fn checked(self) -> Result<Self, StoreError> {
        let has_ended = match &self {
            Stays::Others(ended) => **ended,
            Stays::Alone(ended) => **ended,
        };
        match has_ended {
            true => Err(StoreError::Io(std::io::Error::other("the server has ended"))),
            false => Ok(self),
        }
    }
}

impl Handler {
    /// Opens the directory that the files of a tree are written into, and keeps it what it is.
    pub(super) fn open_place(&self, tree: &TakenTree) -> Result<(OwnedFd, Stays<'_>), StoreError> {
        let stays = self.stay().checked()?;
        let root = match tree.atomic {
            true => self.open_next(tree)?,
            false => self.store.make_tree(tree.directory())?,
        };
        Ok((root, stays))
    }

    /// As long as the result is held no tree takes a directory's place: what is put into one that is gone is lost, and what
    /// is written to a tree whose place was taken is in the new one.
    pub(super) fn stay(&self) -> Stays<'_> {
        Stays::Others(self.trees.places.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether somebody is, or waits for, having a tree take a directory's place: whoever would put something waits.
    pub(super) fn is_swapping(&self) -> bool {
        matches!(self.trees.places.try_read(), Err(TryLockError::WouldBlock))
    }

    /// Opens the tree beside the directory, if it is still the one that was made, or found, when the client asked what is
    /// lacking.
    fn open_next(&self, tree: &TakenTree) -> Result<OwnedFd, StoreError> {
        let changed = || StoreError::Changed(format!("{}/", tree.directory()));
        let opened = self.store.open_tree(&tree.place()).map_err(|error| match error {
            StoreError::NotFound(_) => changed(),
            error => error,
        })?;
        let next = tree.next.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next.as_ref().ok_or_else(changed)?;
        if is_same_directory(next, &opened) { Ok(opened) } else { Err(changed()) }
    }

    /// Whether a tree that was written is what has the name of its directory: another one may have taken the place of that,
    /// or of all that is served.
    pub(super) fn check_is_served(
        &self,
        directory: &str,
        written: &OwnedFd,
    ) -> Result<(), StoreError> {
        match self.store.open_tree(directory) {
            Ok(named) if is_same_directory(&named, written) => Ok(()),
            Ok(_) | Err(StoreError::NotFound(_) | StoreError::NoDirectory(_)) => {
                Err(StoreError::Replaced(format!("{directory}/")))
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the directory that a tree was written into, to see whether it is complete; one that is to take another's place
    /// may do so as long as the result is held, and nobody writes.
    pub(super) fn close_place(&self, tree: &TakenTree) -> Result<(OwnedFd, Stays<'_>), StoreError> {
        if !tree.atomic {
            return self.open_place(tree);
        }
        let alone = self.trees.places.write().unwrap_or_else(PoisonError::into_inner);
        let alone = Stays::Alone(alone).checked()?;
        Ok((self.open_next(tree)?, alone))
    }

    /// Makes the tree beside the directory, unless it is there.
    pub(super) fn begin_next(&self, tree: &TakenTree) -> Result<(), StoreError> {
        let _one = self.trees.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.beside(tree)?.next.share().map_err(|error| match error.kind() {
            std::io::ErrorKind::ResourceBusy => {
                at(tree.directory(), std::io::Error::other("a program there is swapping it"))
            }
            _ => error.into(),
        })?;
        *tree.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
        Ok(())
    }

    fn beside(&self, tree: &TakenTree) -> Result<Beside, StoreError> {
        // Where a link stands under that name, what it leads to would be swapped.
        match self.store.open_tree(tree.directory()) {
            Ok(_) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let (above, name) = tree.directory().rsplit_once('/').unwrap_or(("", tree.directory()));
        let parent = self.store.make_tree(above)?;
        let path = path_of(&parent)?.join(name);
        let next = NextTree::beside(&path).map_err(|error| at(tree.directory(), error))?;
        Ok(Beside { next, _parent: parent })
    }

    /// Whether the tree took the place of the directory before: its client did not hear of it.
    pub(super) fn is_swapped(
        &self,
        tree: &TakenTree,
        requested: &BTreeSet<String>,
    ) -> Result<bool, StoreError> {
        match self.store.open_tree(&tree.place()) {
            Err(StoreError::NotFound(_)) => {}
            Ok(_) => return Ok(false),
            Err(error) => return Err(error),
        }
        let plan =
            self.compare_with(tree, tree.directory(), !requested.is_empty(), self.until_the_end())?;
        let Lacks { files, made, replaced, in_the_way, surplus, .. } = plan.lacks;
        let is_there = files.is_empty() && made == 0 && replaced == 0 && in_the_way.is_empty();
        if is_there && !surplus.iter().any(|path| requested.contains(path)) {
            return Ok(true);
        }
        Err(StoreError::Changed(format!("{}/", tree.directory())))
    }

    /// Gives the tree what the directory has and the listing does not.
    pub(super) fn adopt(&self, tree: &TakenTree) -> Result<(), StoreError> {
        Ok(self.beside(tree)?.next.adopt(tree.listed.before(0), &TreeFilter::default())?)
    }

    /// Has the tree take the place of the directory, and keep what that has besides, less what is to be removed.
    pub(super) fn swap(
        &self,
        tree: &TakenTree,
        requested: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let _one = self.trees.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let (beside, listing) = (self.beside(tree)?, tree.listed.before(0));
        let goes = |path: &str| requested.contains(path);
        let listed = match requested.is_empty() {
            true => None,
            false => Some(beside.next.listed_or_lost(listing.clone(), goes)?),
        };
        let listing = match &listed {
            None => listing,
            Some(listed) => Cursor::new(listed.as_bytes()).map_err(std::io::Error::other)?,
        };
        let swapped = beside.next.swap(Some((listing, &TreeFilter::default())))?;
        drop(tree.next.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(suppressed) = self.limit.pass_line(ANYBODY, crate::clock::now()) {
            tracing::info!(
                directory = tree.directory(),
                ?swapped,
                suppressed,
                "a tree took the place of a directory"
            );
        }
        Ok(())
    }
}
