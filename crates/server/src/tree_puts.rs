//! Trees that clients put: a listing, packs of the files that are lacking, large files, and their end.
//!
//! Each comes as an object of its own, with a name that no file has. The listing is kept in memory under its digest;
//! the client then asks what is lacking, which is found by a walk. A pack is taken apart into its files when it is
//! complete, and a large file is an ordinary part file that can be taken up. The end walks the tree once more: it
//! succeeds only if every file of the listing is in its place.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use wellspring_wire::control::{Offer, RefusalCode};

use super::address_limit::source_of;
use super::answer::{Owner, Refusal};
use super::handler::Handler;
use super::listed::Listed;
use super::taken_tree::{TakenTree, TreeStep, at, in_directory};
use crate::store::tree::listing::{
    Keeps, Lacks, ListingError, MAX_LISTING_LEN, Selection, TreeName, TreePart, parse_paths,
};
use crate::store::tree::{
    MAX_PACK_LEN, Plan, PlanError, PlanOptions, ScanHelp, TreeTarget, Unpack, Wanted, wanted,
};
use crate::store::{Digest, Existing, Fingerprint, ObjectName, PartFile, StoreError};

/// Longest list of paths that are to be removed \[bytes\].
const MAX_REMOVAL_LEN: u64 = 64 << 20;
/// Bytes of a pack that are taken apart at a time.
const CHUNK: usize = 256 << 10;

impl Handler {
    /// An object of a tree that is offered: the name of its part file, and what becomes of it.
    pub(super) fn tree_step(
        &self,
        owner: Owner,
        offer: &Offer<'_>,
    ) -> Result<(ObjectName, TreeStep), Refusal> {
        let bad = || Refusal::new(RefusalCode::BadName, "no part of a tree that can be put");
        let name = TreeName::parse(offer.name.as_str()).ok_or_else(bad)?;
        let directory = name.directory;
        if !directory.is_empty() {
            self.name_to_take(directory)?;
        }
        let existing = if offer.overwrite { Existing::Replace } else { Existing::Keep };
        let (step, longest) = match name.part {
            TreePart::Put { atomic: true } if directory.is_empty() => {
                let text = "the served directory itself cannot be swapped: name one in it";
                return Err(Refusal::new(RefusalCode::BadName, text));
            }
            TreePart::Put { atomic } => {
                let directory = directory.to_owned();
                let of = source_of(owner.client);
                (TreeStep::Listing { directory, atomic, of }, MAX_LISTING_LEN as u64)
            }
            TreePart::Files { listing, files } => {
                let tree = self.taken_tree(directory, listing)?;
                return self.files_step(tree, &files, offer.size, existing);
            }
            TreePart::Clear { .. } if !offer.overwrite => {
                let text = "nothing is removed unless objects may be replaced";
                return Err(Refusal::new(RefusalCode::NotAllowed, text));
            }
            TreePart::Clear { listing } => {
                (TreeStep::Clear { tree: self.taken_tree(directory, listing)? }, MAX_REMOVAL_LEN)
            }
            TreePart::Finish { listing } => {
                let tree = self.taken_tree(directory, listing)?;
                (TreeStep::Finish { tree, existing }, MAX_REMOVAL_LEN)
            }
            _ => return Err(bad()),
        };
        if offer.size == 0 || offer.size > longest {
            return Err(StoreError::TooLarge { got: offer.size, limit: longest }.into());
        }
        Ok((scratch_name()?, step))
    }

    /// Some files of a tree that are offered.
    fn files_step(
        &self,
        tree: Arc<TakenTree>,
        files: &Selection,
        size: u64,
        existing: Existing,
    ) -> Result<(ObjectName, TreeStep), Refusal> {
        let first = files.runs().first().map_or(0, |run| run.start);
        let failed = |error: ListingError| Refusal::new(RefusalCode::Failed, error.to_string());
        let files = wanted(tree.listed.before(first), files).map_err(failed)?;
        let len = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size));
        if size != len || size == 0 {
            return Err(changed("the files have other lengths than the listing says"));
        }
        if let [file] = &files[..] {
            let name = self.name_to_take(&in_directory(tree.directory(), &file.path))?;
            let name = match tree.atomic {
                true => ObjectName::new(&in_directory(&tree.place(), &file.path))
                    .map_err(StoreError::from)?,
                false => name,
            };
            let file = file.clone();
            let existing = match self.is_in_doubt(&tree, &file) {
                // An earlier try at this very file.
                true => Existing::Replace,
                false => existing,
            };
            return Ok((name, TreeStep::File { tree, file, existing }));
        }
        if size > MAX_PACK_LEN {
            return Err(StoreError::TooLarge { got: size, limit: MAX_PACK_LEN }.into());
        }
        Ok((scratch_name()?, TreeStep::Pack { tree, files, existing }))
    }

    /// Whether a file of a tree is there, and may not be on the disk.
    pub(super) fn is_in_doubt(&self, tree: &TakenTree, file: &Wanted) -> bool {
        self.store.open_tree(&tree.place()).is_ok_and(|root| {
            TreeTarget::of(root).is_in_doubt(&file.path, file.size, file.meta.modified)
        })
    }

    /// A tree whose listing was put.
    fn taken_tree(&self, directory: &str, id: [u8; 16]) -> Result<Arc<TakenTree>, Refusal> {
        let tree = self.trees.lock().taken(directory, id);
        let tree = tree.ok_or_else(|| changed("the listing is not kept any more"))?;
        match &tree.refused {
            None => Ok(tree),
            Some(reason) => Err(Refusal::new(RefusalCode::BadName, reason.clone())),
        }
    }
}

/// What is done with objects that have arrived.
impl Handler {
    /// Whether nothing needs to be sent of a step of a tree.
    pub(super) fn has_step(&self, step: &TreeStep, digest: Digest) -> bool {
        let TreeStep::Listing { directory, atomic, .. } = step else { return false };
        let mut id = [0; 16];
        id.copy_from_slice(&digest.0[..16]);
        self.trees
            .lock()
            .taken(directory, id)
            .is_some_and(|tree| tree.listed.whole().digest == digest && tree.atomic == *atomic)
    }

    /// Makes room for the part file of a step; false if that is to be tried again, since a tree is taking the place of a
    /// directory: who is waited for here holds up the answers to others.
    pub(super) fn prepare_step(&self, step: &TreeStep) -> Result<bool, StoreError> {
        let TreeStep::File { tree, file, existing } = step else { return Ok(true) };
        if self.is_swapping() {
            return Ok(false);
        }
        let (root, _stays) = self.open_place(tree)?;
        let mut target = tree.target(root);
        tree.make_parents(&mut target, std::slice::from_ref(file), *existing)?;
        // For the part file. Whether it can be made is told when it is.
        let _ = target.directory_to_change(&file.path);
        if target.is_in_doubt(&file.path, file.size, file.meta.modified) {
            // What comes now is not.
            target.begin()?;
        }
        // What has the name stays until all bytes are there. A directory with something in it stays for good.
        match target.has_besides(&file.path, |_| false).map_err(|error| at(&file.path, error))? {
            true => Err(StoreError::Exists(file.path.clone())),
            false => Ok(true),
        }
    }

    /// Carries out a step whose bytes are there.
    pub(super) fn place_step(
        &self,
        step: &TreeStep,
        digest: Digest,
        part: Option<&PartFile>,
    ) -> Result<Option<Fingerprint>, StoreError> {
        match step {
            TreeStep::Listing { directory, atomic, of } => {
                if let Some(part) = part {
                    self.keep_listing(*of, (directory, *atomic), digest, part)?;
                }
            }
            TreeStep::Pack { tree, files, existing } => {
                let part = part.ok_or_else(nothing_there)?;
                self.unpack(tree, files, *existing, part)?;
            }
            TreeStep::File { tree, file, existing } => {
                let part = part.ok_or_else(nothing_there)?;
                let (root, _stays) = self.open_place(tree)?;
                part.check_place()?;
                if *existing == Existing::Replace {
                    let made = tree.target(root).make_way(&file.path);
                    made.map_err(|error| at(&file.path, error))?;
                }
                part.commit_as(&file.meta).map_err(|error| match error {
                    StoreError::Io(error) => at(&file.path, error),
                    error => error,
                })?;
            }
            TreeStep::Clear { tree } => {
                let paths = removal(part)?;
                let Lacks { in_the_way, surplus, .. } =
                    self.compare(tree, true, self.until_the_end())?.lacks;
                let in_the_way: BTreeSet<String> = in_the_way.into_iter().collect();
                let cleared: BTreeSet<&str> = paths
                    .iter()
                    .map(String::as_str)
                    .filter(|path| in_the_way.contains(*path))
                    .collect();
                let is_in_one = |path: &str| {
                    path.match_indices('/').any(|(end, _)| cleared.contains(&path[..end]))
                };
                let (root, _stays) = self.open_place(tree)?;
                let mut target = tree.target(root);
                let known: BTreeSet<&str> = surplus.iter().map(String::as_str).collect();
                for path in &cleared {
                    // What is hidden here keeps its directory, and all else in it.
                    let known = |inner: &str| known.contains(inner);
                    if target.has_besides(path, known).map_err(|error| at(path, error))? {
                        return Err(StoreError::Exists((*path).to_owned()));
                    }
                }
                for path in surplus.iter().rev().filter(|path| is_in_one(path)) {
                    target.remove_one(path).map_err(|error| at(path, error))?;
                }
                for path in cleared {
                    // Something may have come into it in this moment.
                    if !target.remove_one(path).map_err(|error| at(path, error))? {
                        return Err(StoreError::Exists(path.to_owned()));
                    }
                }
            }
            TreeStep::Finish { tree, existing } => self.finish_tree(tree, *existing, part)?,
        }
        Ok(None)
    }

    /// Gives a large file that was found in its place, and read, what else it is to have; false if it is not there any
    /// more in that state.
    pub(super) fn set_found(
        &self,
        step: &TreeStep,
        read: &Fingerprint,
    ) -> Result<bool, StoreError> {
        let TreeStep::File { tree, file, existing: Existing::Replace } = step else {
            // Somebody else's file of the same bytes.
            return Ok(true);
        };
        let (root, _stays) = self.open_place(tree)?;
        let set = tree.target(root).set_file(&file.path, read, &file.meta);
        set.map_err(|error| at(&file.path, error))
    }

    fn keep_listing(
        &self,
        of: IpAddr,
        (directory, atomic): (&str, bool),
        digest: Digest,
        part: &PartFile,
    ) -> Result<(), StoreError> {
        let _one = self.trees.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let invalid = |error: &dyn std::fmt::Display| {
            StoreError::Io(io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
        };
        let listed = Listed::new(directory, digest, whole(part)?).map_err(|e| invalid(&e))?;
        let folds_case = self.folds_case();
        let tree = TakenTree::new((listed, atomic), folds_case, |name| self.name_to_take(name));
        let mut tree = tree.map_err(|e| invalid(&e))?;
        if let Err(reason) = self.check_attributes(tree.keeps) {
            tree.refused.get_or_insert(reason);
        }
        Ok(self.trees.lock().keep_taken(of, tree)?)
    }

    /// Says why files cannot get owners or attributes that a client asks for.
    fn check_attributes(&self, keeps: Keeps) -> Result<(), String> {
        if keeps.is_nothing() {
            return Ok(());
        }
        if !self.permissions().attributes {
            return Err("this server takes no owners and no extended attributes \
                 (it runs without --allow-attributes)"
                .to_owned());
        }
        if keeps.owner && !crate::store::tree::can_give_owners() {
            return Err(
                "this server does not run as root, and cannot give files their owners".to_owned()
            );
        }
        Ok(())
    }

    /// Whether the served directory takes names that differ in case alone for the same.
    fn folds_case(&self) -> bool {
        let look = || {
            let root = self.store.open_tree("").ok()?;
            TreeTarget::of(root).folds_case().ok()
        };
        *self.trees.folds_case.get_or_init(|| look().unwrap_or(false))
    }

    fn unpack(
        &self,
        tree: &TakenTree,
        files: &[Wanted],
        existing: Existing,
        part: &PartFile,
    ) -> Result<(), StoreError> {
        let (root, _stays) = self.open_place(tree)?;
        let mut target = tree.target(root);
        tree.make_parents(&mut target, files, existing)?;
        let unpack = Unpack::new(target, files.to_vec(), |_| {});
        let mut unpack = unpack.of_put(existing, tree.has_digests);
        let mut buffer = vec![0; CHUNK];
        let mut offset = 0;
        while offset < part.size() {
            let len = CHUNK.min(usize::try_from(part.size() - offset).unwrap_or(CHUNK));
            part.read_at(offset, &mut buffer[..len])?;
            unpack.write_all(&buffer[..len]).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => StoreError::Exists(error.to_string()),
                _ => error.into(),
            })?;
            offset += len as u64;
        }
        Ok(unpack.flush()?)
    }

    /// The server has ended: waits for what writes trees, and brings onto the disk what is there of those that have not
    /// come to their end. Their clients may be gone.
    pub(super) fn settle_trees(&self) {
        self.trees.walking.stop();
        *self.trees.places.write().unwrap_or_else(PoisonError::into_inner) = true;
        self.each_place(|directory, tree| {
            if let Err(error) = tree.settle_what_was_left() {
                tracing::warn!(directory, %error, "files may not be on the disk");
            }
        });
    }

    /// Brings onto the disk what a tree was given, one at a time. The system tells once that it cannot: then what others were
    /// given is in doubt, too.
    fn settle(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _one = self.trees.settling.lock().unwrap_or_else(PoisonError::into_inner);
        sync().inspect_err(|_| {
            self.each_place(|directory, tree| {
                if let Err(error) = tree.doubt() {
                    tracing::warn!(directory, %error, "cannot note that files may not be on the disk");
                }
            });
        })
    }

    /// Visits the directories into which trees are, or were, put.
    fn each_place(&self, visit: impl Fn(&str, TreeTarget)) {
        let places = self.trees.lock().places();
        for place in places {
            // What is not there any more, or never was, needs nothing.
            if let Ok(root) = self.store.open_tree(&place) {
                visit(&place, TreeTarget::of(root));
            }
        }
    }

    /// What of a tree is lacking here; `surplus` says whether what it does not have is to be named.
    pub(super) fn lacks(
        &self,
        directory: &str,
        id: [u8; 16],
        surplus: bool,
        help: ScanHelp<'_>,
    ) -> Result<Lacks, Refusal> {
        if surplus && !self.permissions().overwrite {
            let text = "this server lets nothing be removed (it runs without --allow-overwrite)";
            return Err(Refusal::new(RefusalCode::NotAllowed, text));
        }
        let tree = self.taken_tree(directory, id)?;
        Ok(self.compare(&tree, surplus, help)?.lacks)
    }

    /// Makes what needs no bytes, and removes what the client says, if it is surplus. All files must be there.
    fn finish_tree(
        &self,
        tree: &TakenTree,
        existing: Existing,
        part: Option<&PartFile>,
    ) -> Result<(), StoreError> {
        let requested: BTreeSet<String> = removal(part)?.into_iter().collect();
        let may_replace = existing == Existing::Replace;
        if !requested.is_empty() && !may_replace {
            return Err(StoreError::Exists("what is to be removed".to_owned()));
        }
        if tree.atomic && self.is_swapped(tree, &requested)? {
            // Another session may have swapped it in this moment, and not have come to the disk.
            let target = TreeTarget::of(self.store.open_tree(tree.directory())?);
            return Ok(self.settle(|| target.sync())?);
        }
        let (root, _stays, local) = self.close_walked(tree)?;
        let written = root.try_clone()?;
        let mut target = tree.target(root);
        let options = PlanOptions { delete: !requested.is_empty(), ..tree.options(existing) };
        let plan = |dry: bool| {
            let options = PlanOptions { dry_run: dry, ..options.clone() };
            let target = Some(target.clone());
            Plan::of_target(&options, tree.listed.whole(), (target, &local)).map_err(of_tree)
        };
        let Lacks { files, replaced_examples, in_the_way, .. } = plan(true)?.lacks;
        if !files.is_empty() {
            return Err(StoreError::Changed(format!("{}/", tree.directory())));
        }
        let obstacle = replaced_examples.into_iter().filter(|_| !may_replace).chain(in_the_way);
        if let Some(path) = obstacle.into_iter().next() {
            return Err(StoreError::Exists(path));
        }
        let mut plan = plan(false)?;
        if tree.atomic {
            self.adopt(tree)?;
        }
        let mut surplus = plan.removable();
        surplus.retain(|path| requested.contains(path));
        if !surplus.is_empty() && !tree.atomic {
            // A power cut never leaves neither what is removed nor what came for it.
            self.settle(|| target.sync())?;
        }
        // Behind what is in it comes a directory, in the other order; what else is in it keeps it.
        for path in surplus.iter().rev() {
            target.remove_one(path).map_err(|error| at(path, error))?;
        }
        let made = tree.made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ours = std::mem::take(&mut plan.made_directories);
        let set = |path: &str| may_replace || made.contains(path) || ours.contains(path);
        plan.set_directories(set).map_err(of_tree)?;
        target.restore_modes();
        self.settle(|| target.settle(plan.leaves_doubts()))?;
        if tree.atomic {
            self.swap(tree, &requested)?;
            self.settle(|| target.sync())?;
        }
        self.check_is_served(tree.directory(), &written)
    }
}

/// The paths that a client wants removed.
fn removal(part: Option<&PartFile>) -> Result<Vec<String>, StoreError> {
    let bytes = whole(part.ok_or_else(nothing_there)?)?;
    Ok(parse_paths(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?)
}

fn whole(part: &PartFile) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; usize::try_from(part.size()).map_err(io::Error::other)?];
    part.read_at(0, &mut bytes)?;
    Ok(bytes)
}

fn nothing_there() -> StoreError {
    StoreError::Io(io::Error::other("a step of a tree without bytes"))
}

pub(super) fn of_tree(error: PlanError) -> StoreError {
    match error {
        PlanError::Place(path, error) => at(&path, error),
        PlanError::InTheWay(path) => StoreError::Exists(path),
        error => StoreError::Io(io::Error::other(error.to_string())),
    }
}

/// The name of a part file that gets no name.
fn scratch_name() -> Result<ObjectName, StoreError> {
    Ok(ObjectName::new(&format!("tree-{:016x}", crate::random::number()))?)
}

fn changed(text: &str) -> Refusal {
    Refusal::new(RefusalCode::Changed, text.to_owned())
}
