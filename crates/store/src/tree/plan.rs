//! Difference between a directory and a listing, carried out as far as it needs no bytes.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wellspring_tree::{Content, Cursor, Entry, Lacks, Listing, Pair, Place, SkipReason, compare};

use super::filter::{FilterWalk, is_below};
use super::obstacles::{self, leaves_out};
use super::packs::{Pack, Packer, wanted};
use super::plan_options::{PlanError, PlanOptions, TreeChange, TreeListing};
use super::spelling::Spellings;
use super::{Meta, Scan, TreeTarget, Wanted};
use crate::objects::{ObjectName, remove_stale_parts};

/// Skipped paths that are kept for the report.
const SKIPPED_KEPT: usize = 100;

/// What is to be moved.
pub struct Plan {
    /// The tree that is to be.
    pub listing: TreeListing,
    /// Absent in a dry run into a directory that is not there.
    target: Option<TreeTarget>,
    /// Where that is, if it is known.
    directory: Option<PathBuf>,
    /// The files to move, in packs.
    pub packs: Vec<Pack>,
    /// Bytes to move.
    pub len: u64,
    /// Files to move, and what stands in the way.
    pub lacks: Lacks,
    /// Directories that were made, or would be, where surplus is said in full.
    pub made_directories: BTreeSet<String>,
    is_dry: bool,
    /// Something that is not of the tree, or left out of it, may not be on the disk.
    leaves_doubts: bool,
    filter: FilterWalk,
    /// Each path of what is surplus is there, not only the uppermost.
    surplus_in_full: bool,
    /// What the directory has of the tree under other names, which are no surplus.
    spellings: Spellings,
    /// What is left out, and why: the first hundred.
    pub skipped: Vec<(String, SkipReason)>,
    /// How much is left out.
    pub skipped_count: u64,
    /// Regular files of the tree.
    pub files: u64,
    /// Their length \[bytes\].
    pub bytes: u64,
    /// Directories, links and empty files that were made or mended, or would be.
    pub made: u64,
    hear: Arc<dyn Fn(TreeChange) + Send + Sync>,
}

impl Plan {
    /// A function that walks the directory, compares it with the listing, and makes directories, links
    /// and empty files. It blocks its thread.
    pub fn make(
        options: &PlanOptions,
        listing: TreeListing,
        directory: &Path,
        hear: Arc<dyn Fn(TreeChange) + Send + Sync>,
    ) -> impl FnOnce() -> Result<Plan, PlanError> + Send + 'static {
        let (options, directory) = (options.clone(), directory.to_owned());
        move || Maker::run(options, listing, directory, hear)
    }

    /// Compares a directory that is open, and was walked, with the listing, and makes there what needs no bytes.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn of_target(
        options: &PlanOptions,
        listing: TreeListing,
        (target, local): (Option<TreeTarget>, &Listing),
    ) -> Result<Plan, PlanError> {
        Maker::run_in(options.clone(), listing, (target, local), Arc::new(|_| {}))
    }

    /// The target, unless nothing is to be written.
    fn writable(&mut self) -> Option<&mut TreeTarget> {
        self.target.as_mut().filter(|_| !self.is_dry)
    }

    /// The target, for threads of their own.
    pub fn target(&self) -> Option<TreeTarget> {
        self.target.clone().filter(|_| !self.is_dry)
    }

    /// The files of a pack, as they are to be.
    ///
    /// # Errors
    /// The listing is none.
    pub fn wanted(&self, pack: &Pack) -> Result<Vec<Wanted>, PlanError> {
        Ok(wanted(Cursor::resume(&self.listing.bytes, &pack.place), &pack.files)?)
    }

    /// All files are in place: waits until they are on the disk, if something is to be removed, and removes what the tree
    /// does not have; gives directories their modes and times, and waits until all is on the disk, what an earlier call has
    /// left there included. Returns how much was removed. By then the directory must still be the one that its name leads
    /// to.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn finish(self) -> Result<u64, PlanError> {
        self.finish_by(|target, leaves_doubts| target.settle(leaves_doubts))
    }

    fn finish_by(
        mut self,
        settle: impl Fn(&TreeTarget, bool) -> io::Result<()>,
    ) -> Result<u64, PlanError> {
        let settle = |plan: &Plan| match plan.target.as_ref().filter(|_| !plan.is_dry) {
            None => Ok(()),
            Some(target) => settle(target, plan.leaves_doubts)
                .map_err(|error| PlanError::Place(String::new(), error)),
        };
        if !self.lacks.surplus.is_empty() {
            // A power cut never leaves neither what is removed nor what came for it.
            settle(&self)?;
        }
        let removed = self.remove_surplus()?;
        self.set_directories(|_| true)?;
        if let Some(target) = self.writable() {
            target.restore_modes();
        }
        settle(&self)?;
        let target = self.target.as_ref().filter(|_| !self.is_dry);
        // What was written may be gone with it.
        if target.zip(self.directory.as_ref()).is_some_and(|(target, at)| !target.is_at(at)) {
            return Err(PlanError::Replaced);
        }
        Ok(removed)
    }

    /// Whether something that is not of the tree, or left out of it, may not be on the disk.
    pub fn leaves_doubts(&self) -> bool {
        self.leaves_doubts
    }

    /// What is surplus, without names under which the directory lists what is of the tree. Behind what is in it comes a
    /// directory, in the other order. All files must be in place.
    pub fn removable(&mut self) -> Vec<String> {
        let mut surplus = self.lacks.surplus.clone();
        if let Some(target) = self.target.as_mut() {
            self.spellings.leave_others(target, &mut surplus);
        }
        surplus
    }

    fn remove_surplus(&mut self) -> Result<u64, PlanError> {
        let mut removed = 0;
        let in_full = self.surplus_in_full;
        for path in self.removable().iter().rev() {
            let placed = |error| PlanError::Place(path.clone(), error);
            let is_gone = match self.target.as_mut().filter(|_| !self.is_dry) {
                None => true,
                // What was left out of the tree stays, and so does its directory.
                Some(target) if in_full => target.remove_one(path).map_err(placed)?,
                Some(target) => target.remove(path).map(|()| true).map_err(placed)?,
            };
            if is_gone {
                removed += 1;
                (self.hear)(TreeChange::Removed(path.clone()));
            }
        }
        Ok(removed)
    }

    /// Gives directories their modes and times, if `whether` says so of their paths.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn set_directories(&mut self, whether: impl Fn(&str) -> bool) -> Result<(), PlanError> {
        let Some(target) = self.target.as_mut().filter(|_| !self.is_dry) else { return Ok(()) };
        let mut cursor = Cursor::new(&self.listing.bytes)?;
        self.filter.begin_again();
        while let Some(entry) = cursor.next_entry()? {
            let is_directory = entry.content == Content::Directory;
            if self.filter.passes(&entry) && is_directory && whether(entry.path) {
                let set = target.set_directory(entry.path, &Meta::from(&entry));
                set.map_err(|error| PlanError::Place(entry.path.to_owned(), error))?;
            }
        }
        Ok(())
    }
}

/// A plan while it is made.
struct Maker {
    options: PlanOptions,
    plan: Plan,
    /// What is surplus with all that is below it.
    removed: Option<String>,
    /// What is left out of the tree, and a directory here: what is below it may be of the tree, too.
    left_out: Option<String>,
    packer: Packer,
    /// Files that are here, and may not be on the disk.
    in_doubt: u64,
}

impl Maker {
    fn run(
        options: PlanOptions,
        listing: TreeListing,
        directory: PathBuf,
        hear: Arc<dyn Fn(TreeChange) + Send + Sync>,
    ) -> Result<Plan, PlanError> {
        let here = |error| PlanError::Place(directory.display().to_string(), error);
        let is_dry = options.dry_run;
        let mut target = match TreeTarget::open(&directory, !is_dry) {
            Err(error) if is_dry && error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map_err(here)?),
        };
        if !is_dry {
            // Of an earlier call that was killed. What cannot be looked at stays.
            let _ = remove_stale_parts(&directory, options.deep);
        }
        let keeps = options.keeps;
        let how = Scan {
            hidden: true,
            deep: options.deep,
            digests: options.checksum,
            keeps,
            ..Scan::ALL
        };
        let local = target.as_ref().map(|target| target.scan(how)).transpose()?;
        let local = local.unwrap_or_default();
        if let Some(target) = &mut target {
            let folds = match is_dry {
                true => obstacles::seems_to_fold(target, &local),
                false => target.folds_case().map_err(here)?,
            };
            obstacles::check(&options, &listing, (target, folds), &local)?;
        }
        let mut plan = Maker::run_in(options, listing, (target, &local), hear)?;
        plan.directory = Some(directory);
        Ok(plan)
    }

    fn run_in(
        options: PlanOptions,
        listing: TreeListing,
        (target, local): (Option<TreeTarget>, &Listing),
        hear: Arc<dyn Fn(TreeChange) + Send + Sync>,
    ) -> Result<Plan, PlanError> {
        let is_dry = options.dry_run;
        let plan = Plan {
            listing: listing.clone(),
            target,
            directory: None,
            packs: Vec::new(),
            len: 0,
            is_dry,
            leaves_doubts: false,
            filter: options.filter.walk(),
            surplus_in_full: options.surplus_in_full || !options.filter.is_everything(),
            lacks: Lacks::default(),
            made_directories: BTreeSet::new(),
            spellings: Spellings::default(),
            skipped: Vec::new(),
            skipped_count: 0,
            files: 0,
            bytes: 0,
            made: 0,
            hear,
        };
        let packer = Packer::new(options.pack_name_len);
        let mut maker = Maker { options, plan, removed: None, left_out: None, packer, in_doubt: 0 };
        maker.compare(&listing, local)?;
        if maker.in_doubt > 0 {
            tracing::warn!(
                files = maker.in_doubt,
                "an earlier transfer was cut off before its files were on the disk: moved again"
            );
        }
        maker.plan.packs = maker.packer.finish();
        Ok(maker.plan)
    }

    fn compare(&mut self, listing: &TreeListing, local: &Listing) -> Result<(), PlanError> {
        let remote = Cursor::new(&listing.bytes)?;
        let local = Cursor::new(local.as_bytes())?;
        // Where the listing stands before the file of that number, for packs.
        let mut follow = Cursor::new(&listing.bytes)?;
        compare(remote, local, |pair, number| {
            let (there, here) = match pair {
                Pair::First(there) => (Some(there), None),
                Pair::Second(here) => (None, Some(here)),
                Pair::Both(there, here) => (Some(there), Some(here)),
            };
            let Some(entry) = there.or(here) else { return Ok(()) };
            let passes = self.plan.filter.passes(&entry);
            let is_moved = there.is_some_and(|there| !matches!(there.content, Content::Skipped(_)));
            if !passes || !is_moved {
                self.plan.leaves_doubts |= here.is_some_and(|here| self.is_doubtful(&here));
            }
            if !passes {
                if let Some(reason) = there.and_then(|there| self.plan.filter.refuses(&there)) {
                    self.skip(entry.path, reason);
                }
                return Ok(());
            }
            let Some(there) = there else { return self.surplus(&entry) };
            let plan = &mut self.plan;
            let found = match plan.target.as_mut().filter(|_| here.is_none()) {
                Some(target) => plan.spellings.look(target, &there),
                None => None,
            };
            let here = here.or(found.as_ref().map(|found| found.entry(there.path)));
            self.entry(&there, here.as_ref(), |open| {
                if open {
                    while follow.files() < number {
                        follow.next_entry()?;
                    }
                }
                Ok((number, follow.place(&listing.bytes)))
            })
        })
    }

    /// Whether a file that is to be like that is here, and may not be on the disk.
    fn is_in_doubt(&mut self, file: &Entry<'_>) -> bool {
        let Content::File { size, .. } = file.content else { return false };
        let target = self.plan.target.as_mut();
        target.is_some_and(|target| target.is_in_doubt(file.path, size, file.modified))
    }

    /// Whether a file that is here, whatever it was to be, may not be on the disk.
    fn is_doubtful(&mut self, file: &Entry<'_>) -> bool {
        let Content::File { size, .. } = file.content else { return false };
        let target = self.plan.target.as_mut();
        target.is_some_and(|target| target.may_be_torn(file.path, size, file.modified))
    }

    /// Something that the tree does not have.
    fn surplus(&mut self, here: &Entry<'_>) -> Result<(), PlanError> {
        let whole = [&self.removed, &self.left_out];
        let below = whole.into_iter().flatten().any(|above| is_below(here.path, above));
        let stays = match here.content {
            Content::Skipped(SkipReason::Name) => true,
            // Known is only that it is no directory that can be looked into.
            Content::Skipped(reason) => [false, true].into_iter().any(|may_be_directory| {
                (!may_be_directory || reason == SkipReason::Unreadable)
                    && !self.options.filter.belongs(here.path, may_be_directory)
            }),
            _ => false,
        };
        if self.options.delete && !below && !stays {
            if here.content == Content::Directory && !self.plan.surplus_in_full {
                self.removed = Some(here.path.to_owned());
            }
            self.plan.lacks.surplus.push(here.path.to_owned());
        }
        Ok(())
    }

    /// Notes something that the tree has and that is left out.
    fn skip(&mut self, path: &str, reason: SkipReason) {
        self.plan.skipped_count += 1;
        if self.plan.skipped.len() < SKIPPED_KEPT {
            self.plan.skipped.push((path.to_owned(), reason));
        }
        (self.plan.hear)(TreeChange::Skipped(path.to_owned(), reason));
    }

    /// Something that the tree has; `place` gives its number among the files, and where the listing
    /// stands before it.
    fn entry(
        &mut self,
        there: &Entry<'_>,
        here: Option<&Entry<'_>>,
        place: impl FnOnce(bool) -> Result<(u32, Place), PlanError>,
    ) -> Result<(), PlanError> {
        let path = there.path;
        if let Content::Skipped(reason) = there.content {
            if self.options.filter.may_want(path, reason) {
                self.skip(path, reason);
            }
            // What lies here under that name is not surplus, nor what is in it.
            if here.is_some_and(|here| here.content == Content::Directory) {
                self.left_out = Some(path.to_owned());
            }
            return Ok(());
        }
        if !self.options.deep && matches!(there.content, Content::Link { .. }) {
            (self.plan.hear)(TreeChange::LinkLeftOut(path.to_owned()));
            return Ok(());
        }
        // The rules for objects hold for what is in trees.
        if let Err(error) = ObjectName::of_others(path) {
            return Err(PlanError::Place(path.to_owned(), io::Error::other(error)));
        }
        if let Content::File { size, .. } = there.content {
            self.plan.files += 1;
            self.plan.bytes = self.plan.bytes.saturating_add(size);
        }
        let is_same = here.is_some_and(|here| self.is_same(there, here));
        // Fetched again, in the place of an earlier try at this very file.
        let is_in_doubt = here.is_some() && self.is_in_doubt(there);
        self.in_doubt += u64::from(is_in_doubt);
        if is_same && !is_in_doubt {
            if let Content::File { size, .. } = there.content
                && here.is_some_and(|here| is_set_otherwise(there, here))
            {
                self.plan.lacks.push_replaced(path);
                self.do_here(there, |target| target.set_rights(path, size, &Meta::from(there)))?;
            } else if there.content != Content::Directory {
                (self.plan.hear)(TreeChange::Kept(path.to_owned()));
            }
            return Ok(());
        }
        let in_the_way = here.is_some_and(|here| here.content == Content::Directory);
        if in_the_way {
            self.plan.lacks.in_the_way.push(path.to_owned());
        } else if here.is_some() && !is_in_doubt {
            self.plan.lacks.push_replaced(path);
        }
        if in_the_way && self.options.delete {
            self.make_way(path)?;
        }
        let existing = self.options.existing;
        match there.content {
            Content::Directory => {
                if self.options.surplus_in_full {
                    self.plan.made_directories.insert(path.to_owned());
                }
                self.do_here(there, |target| target.make_directory(path, existing))
            }
            Content::Link { target: to } => self
                .do_here(there, |target| target.make_link(path, to, &Meta::from(there), existing)),
            // The listing of one directory does not say whether it may be served: it is asked for.
            Content::File { size: 0, .. } if self.options.deep => self.do_here(there, |target| {
                target.begin_file(path, there.mode)?.finish(&Meta::from(there), existing)
            }),
            Content::File { size, .. } => {
                self.plan.len = self.plan.len.saturating_add(size);
                let is_dry = self.plan.is_dry;
                if is_dry {
                    (self.plan.hear)(TreeChange::Fetched(path.to_owned(), size));
                }
                let lacks = &mut self.plan.lacks;
                self.packer.push(size, |open| {
                    let (number, place) = place(open)?;
                    lacks.push_file(number);
                    Ok((number, place))
                })
            }
            Content::Skipped(_) => Ok(()),
        }
    }

    /// Removes a directory that is in the way of something else, unless it has what is left out of the tree.
    fn make_way(&mut self, path: &str) -> Result<(), PlanError> {
        let filter = self.options.filter.clone();
        let Some(target) = self.plan.writable() else { return Ok(()) };
        let placed = |error| PlanError::Place(path.to_owned(), error);
        if leaves_out(target, path, &filter).map_err(placed)? {
            return Err(PlanError::InTheWay(path.to_owned()));
        }
        target.remove(path).map_err(placed)
    }

    /// Whether what is here need not be fetched or made again.
    fn is_same(&self, there: &Entry<'_>, here: &Entry<'_>) -> bool {
        match (there.content, here.content) {
            (Content::Directory, Content::Directory) => true,
            (Content::Link { target: one }, Content::Link { target: other }) => {
                one == other && there.attributes == here.attributes
            }
            (
                Content::File { size: one, digest: this },
                Content::File { size: other, digest: that },
            ) => {
                let same_bytes = this.zip(that).is_none_or(|(this, that)| this == that);
                let target = self.plan.target.as_ref();
                let same_time =
                    target.is_some_and(|target| target.is_time_of(there.modified, here.modified));
                one == other && same_time && same_bytes
            }
            _ => false,
        }
    }

    /// Does what needs no bytes.
    fn do_here(
        &mut self,
        there: &Entry<'_>,
        action: impl FnOnce(&mut TreeTarget) -> io::Result<()>,
    ) -> Result<(), PlanError> {
        self.plan.made += 1;
        self.plan.lacks.made += 1;
        (self.plan.hear)(TreeChange::Made(there.path.to_owned()));
        let Some(target) = self.plan.writable() else { return Ok(()) };
        action(target).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::IsADirectory => {
                PlanError::InTheWay(there.path.to_owned())
            }
            _ => PlanError::Place(there.path.to_owned(), error),
        })
    }
}

/// Whether a file that has the right bytes and time has another mode, owner or attributes.
fn is_set_otherwise(there: &Entry<'_>, here: &Entry<'_>) -> bool {
    here.mode != there.mode || here.attributes != there.attributes
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
