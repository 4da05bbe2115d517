//! Objects that are made of a tree: listings, and packs of its files.
//!
//! A listing is made anew for each cookie, so that it is never older than the request, and is kept
//! under its digest. A pack names the listing that numbers its files; each file must still be what
//! that listing says. What was made lies in a file without a name, and is sent like any object.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use wellspring_wire::control::{Geometry, RefusalCode};

use super::address_limit::source_of;
use super::answer::{Outcome, Refusal, Shown};
use super::cookie::Purpose;
use super::digests::{Begin, Known};
use super::handler::{Handler, OpenObject};
use super::listed::Listed;
use super::samples;
use super::trees::Made;
use crate::store::tree::listing::{Keeps, Selection, TreeName, TreePart};
use crate::store::tree::{
    LinksOut, PackError, PackState, Scan, ScanHelp, Walked, in_doubt, one_in_doubt, open_listed,
    pack_state, read_pack_and_state, scan_named_with, unnamed_file,
};
use crate::store::{Digest, FileSource, Fingerprint, HashProgress, StoreError};

/// Work that a client has asked for.
struct Job {
    /// Whose share it is counted in.
    of: IpAddr,
    /// Tells when the client has gone.
    progress: HashProgress,
}

impl Handler {
    /// Answers what a client asks of an object that is made of a tree.
    pub(super) fn tree_info(
        &self,
        shown: Shown<'_>,
        text: &str,
        geometry: Geometry,
    ) -> Result<Outcome, Refusal> {
        let Shown { client, cookie, .. } = shown;
        let name = self.tree_name(text)?;
        if name.part.is_of_put() && !self.permissions().put {
            let text = "this server takes no objects (it runs without --allow-put)";
            return Err(Refusal::new(RefusalCode::NotAllowed, text));
        }
        if let Some(number) = single(&name) {
            return self.single_info(shown, (text, geometry), &name, number);
        }
        let info = |made: &Made| {
            let start = Purpose::Start { name: text, digest: made.digest, geometry };
            let cookie = self.jar.bake(client, start);
            Ok(Outcome::Info { cookie, size: made.fingerprint.size(), digest: made.digest })
        };
        let pending = Ok(Outcome::Pending { done: 0, total: 0 });
        let purpose = Purpose::Digest { name: text };
        let good = self.jar.is_good(client, cookie, purpose);
        let pack = if good { self.pack_at_hand(text, &name) } else { None };
        let job = {
            let mut kept = self.trees.lock();
            // A sample has but one content; a listing has that of the moment it was asked for.
            let made = match (&name.part, kept.of_job(client, cookie)) {
                (TreePart::Sample { .. }, None) => kept.made(text, None),
                (TreePart::Files { .. }, None) => pack,
                (_, None) => None,
                (_, Some(None)) => return pending,
                (_, Some(Some(digest))) => kept.made(text, Some(digest)),
            };
            if let Some(made) = made {
                return info(&made);
            }
            if !good {
                return Ok(Outcome::Challenge(self.jar.bake(client, purpose)));
            }
            let Some(progress) = kept.begin_job(client, cookie) else { return pending };
            Job { of: shown.source(), progress }
        };
        let made = self.make(&job, text, &name);
        let digest = made.as_ref().ok().map(|made| made.digest);
        self.trees.lock().end_job(client, cookie, digest);
        info(&made?)
    }

    /// A pack that was made before, if its files are still those: others may have the lengths and times of the listing, too.
    fn pack_at_hand(&self, text: &str, name: &TreeName<'_>) -> Option<Made> {
        let TreePart::Files { listing, files } = &name.part else { return None };
        let made = self.trees.lock().made(text, None)?;
        let listed = self.listed(name.directory, *listing).ok()?;
        let root = self.open_undoubted(name, &listed, files).ok()?;
        let before = listed.before(files.runs().first()?.start);
        let state = pack_state(&root, before, files, LinksOut::Skipped).ok()?;
        (made.of == Some(state)).then_some(made)
    }

    /// A file of a tree that is asked for alone: the file itself, as long as it is what was listed.
    fn single_info(
        &self,
        shown: Shown<'_>,
        (text, geometry): (&str, Geometry),
        name: &TreeName<'_>,
        number: u32,
    ) -> Result<Outcome, Refusal> {
        let Shown { client, cookie, .. } = shown;
        let purpose = Purpose::Digest { name: text };
        let proven = self.jar.is_good(client, cookie, purpose);
        let (file, fingerprint) = self.open_single(name, number)?;
        let begin = proven.then_some(Begin::of(shown.source()));
        let size = fingerprint.size();
        match self.digests.of(&file, fingerprint, begin) {
            Known::Digest(digest) => {
                let start = Purpose::Start { name: text, digest, geometry };
                Ok(Outcome::Info { cookie: self.jar.bake(client, start), size, digest })
            }
            Known::Pending(done) => Ok(Outcome::Pending { done, total: size }),
            Known::Failed(reason) => Err(Refusal::new(RefusalCode::Failed, reason)),
            Known::Unknown => Ok(Outcome::Challenge(self.jar.bake(client, purpose))),
        }
    }

    /// Opens an object of that digest that is made of a tree.
    pub(super) fn open_of_tree(
        &self,
        shown: Shown<'_>,
        text: &str,
        wanted: Digest,
    ) -> Result<Result<OpenObject, (u64, u64)>, Refusal> {
        let name = self.tree_name(text)?;
        let (file, fingerprint) = match single(&name) {
            Some(number) => {
                let (file, fingerprint) = self.open_single(&name, number)?;
                match self.digests.of(&file, fingerprint, Some(Begin::of(shown.source()))) {
                    Known::Digest(digest) if digest == wanted => {}
                    Known::Digest(_) => return Err(changed(text)),
                    Known::Pending(done) => return Ok(Err((done, fingerprint.size()))),
                    Known::Failed(reason) => return Err(Refusal::new(RefusalCode::Failed, reason)),
                    Known::Unknown => return Err(Refusal::failed("the digest is not known")),
                }
                (file, fingerprint)
            }
            None => {
                let has_one_content =
                    matches!(name.part, TreePart::Files { .. } | TreePart::Sample { .. });
                let digest = (!has_one_content).then_some(wanted);
                let made = self.trees.lock().made(text, digest);
                let made = match made {
                    Some(made) => made,
                    None if has_one_content => match self.make_to_send(shown, text, &name)? {
                        Some(made) => made,
                        None => return Ok(Err((0, 0))),
                    },
                    None => return Err(changed(text)),
                };
                if made.digest != wanted {
                    return Err(changed(text));
                }
                (made.file.try_clone().map_err(Refusal::failed)?, made.fingerprint)
            }
        };
        let source = FileSource::new(file, fingerprint, wanted);
        Ok(Ok(OpenObject {
            name: text.to_owned(),
            source,
            size: fingerprint.size(),
            digest: wanted,
        }))
    }

    /// Makes what was not kept until it is sent, within the limit of what clients ask about; nothing if too much is being
    /// made.
    fn make_to_send(
        &self,
        Shown { client, cookie, .. }: Shown<'_>,
        text: &str,
        name: &TreeName<'_>,
    ) -> Result<Option<Made>, Refusal> {
        let begun = self.trees.lock().begin_job(client, cookie);
        let Some(progress) = begun else { return Ok(None) };
        let made = self.make(&Job { of: source_of(client), progress }, text, name);
        self.trees.lock().end_job(client, cookie, None);
        made.map(Some)
    }

    /// The file of an object of that digest that is made of a tree, if it is at hand.
    pub(super) fn tree_file(&self, text: &str, digest: Digest) -> Option<(File, Fingerprint)> {
        let name = self.tree_name(text).ok()?;
        if let Some(number) = single(&name) {
            let (file, fingerprint) = self.open_single(&name, number).ok()?;
            let known = self.digests.of(&file, fingerprint, None);
            return matches!(known, Known::Digest(found) if found == digest)
                .then_some((file, fingerprint));
        }
        let made = self.trees.lock().made(text, Some(digest))?;
        Some((made.file.try_clone().ok()?, made.fingerprint))
    }

    fn tree_name<'a>(&self, text: &'a str) -> Result<TreeName<'a>, Refusal> {
        let name = TreeName::parse(text).ok_or_else(|| {
            Refusal::new(RefusalCode::BadName, "neither an object nor a part of a tree")
        })?;
        if !name.directory.is_empty() {
            self.name_to_serve(name.directory)?;
        }
        Ok(name)
    }

    fn make(&self, job: &Job, text: &str, name: &TreeName<'_>) -> Result<Made, Refusal> {
        if let TreePart::Lacks { listing, surplus } = name.part {
            let (digests, walked) = (None, Walked::Nothing);
            let help = ScanHelp { digests, progress: &job.progress, walked };
            let bytes = self.lacks(name.directory, listing, surplus, help)?.to_bytes();
            return self.keep_made(text, &bytes, None);
        }
        if let TreePart::Sample { size } = name.part {
            return self.keep_made(text, &samples::bytes(size), None);
        }
        let hidden = self.permissions().hidden;
        let how = |keeps, deep, digests| Scan {
            hidden,
            deep,
            digests,
            keeps,
            links_out: LinksOut::Skipped,
        };
        let nothing = Keeps::default();
        let how = match &name.part {
            TreePart::Listing => how(nothing, true, false),
            TreePart::Digests => how(nothing, true, true),
            TreePart::Level => how(nothing, false, false),
            &TreePart::Attributes { keeps, digests } => how(keeps, true, digests),
            TreePart::Files { listing, files } => {
                let listed = self.listed(name.directory, *listing)?;
                let first = files.runs().first().map_or(0, |run| run.start);
                let root = self.open_undoubted(name, &listed, files)?;
                let before = listed.before(first);
                let (pack, of) = read_pack_and_state(&root, before, files, LinksOut::Skipped)
                    .map_err(refused)?;
                return self.keep_made(text, &pack, of);
            }
            TreePart::Put { .. }
            | TreePart::Sample { .. }
            | TreePart::Lacks { .. }
            | TreePart::Clear { .. }
            | TreePart::Finish { .. } => {
                return Err(Refusal::new(RefusalCode::BadName, "this is put, and not asked for"));
            }
        };
        self.make_listing(job, (text, name), how)
    }

    fn make_listing(
        &self,
        job: &Job,
        (text, name): (&str, &TreeName<'_>),
        how: Scan,
    ) -> Result<Made, Refusal> {
        // As trusted as that of an object that is asked for by itself.
        let digests = Some(&*self.config.cache);
        let help = ScanHelp { digests, progress: &job.progress, walked: Walked::Nothing };
        let open = || Ok::<_, Refusal>(self.store.open_tree(name.directory)?);
        let (root, listing) = scan_named_with(open, how, help)?;
        let bytes = listing.into_bytes();
        // Whoever wants to look may do so; the files that he asks for then are looked at one by one.
        if name.part != TreePart::Level {
            let top = self.store.open_tree("")?;
            let found = in_doubt(root, &top, &bytes).map_err(Refusal::failed)?;
            if let Some((path, count)) = found {
                return Err(not_on_the_disk(&path, count));
            }
        }
        let made = self.keep_made(text, &bytes, None)?;
        let listed = Listed::new(name.directory, made.digest, bytes).map_err(refused)?;
        let kept = self.trees.lock().keep_listing(job.of, listed);
        // Who only looks does not need it.
        kept.or_else(|full| if name.part == TreePart::Level { Ok(()) } else { Err(full) })
            .map_err(StoreError::from)?;
        Ok(made)
    }

    fn keep_made(&self, text: &str, bytes: &[u8], of: Option<PackState>) -> Result<Made, Refusal> {
        let (file, fingerprint) = unnamed_file(bytes).map_err(StoreError::from)?;
        let digest = self.digests.of_made(&file, bytes).map_err(StoreError::from)?;
        let (name, file) = (text.to_owned(), Arc::new(file));
        let made = Made { name, file, fingerprint, digest, of };
        self.trees.lock().keep_made(made.clone());
        Ok(made)
    }

    fn open_single(
        &self,
        name: &TreeName<'_>,
        number: u32,
    ) -> Result<(File, Fingerprint), Refusal> {
        let TreePart::Files { listing, files } = &name.part else {
            return Err(Refusal::failed("no file of a tree"));
        };
        let listed = self.listed(name.directory, *listing)?;
        let root = self.open_undoubted(name, &listed, files)?;
        open_listed(&root, listed.before(number), number, LinksOut::Skipped).map_err(refused)
    }

    /// Opens a directory of which files are about to be read, unless these may not be what was put there.
    fn open_undoubted(
        &self,
        name: &TreeName<'_>,
        listed: &Listed,
        files: &Selection,
    ) -> Result<OwnedFd, Refusal> {
        let root = self.store.open_tree(name.directory)?;
        let top = self.store.open_tree("")?;
        let first = files.runs().first().map_or(0, |run| run.start);
        let looked_at = root.try_clone().map_err(Refusal::failed)?;
        match one_in_doubt(looked_at, &top, listed.before(first), files).map_err(Refusal::failed)? {
            None => Ok(root),
            Some(path) => Err(not_on_the_disk(&path, 1)),
        }
    }

    fn listed(&self, directory: &str, id: [u8; 16]) -> Result<Arc<Listed>, Refusal> {
        self.trees.lock().listing(directory, id).ok_or_else(|| {
            let text = "the tree has changed, or its listing is not kept any more";
            Refusal::new(RefusalCode::Changed, text)
        })
    }
}

/// So many files may not be what was put there, the first of them of that path.
pub(super) fn not_on_the_disk(path: &str, count: u64) -> Refusal {
    let others = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    let text = format!(
        "{path}{others} may have wrong bytes: a transfer there was cut off by a power cut or a failed sync. Repeat it; or, if all is \
         right, remove .wellspring-unsynced there"
    );
    Refusal::new(RefusalCode::Failed, text)
}

/// The number of a file that is asked for alone: it is sent as it is, whatever its length.
fn single(name: &TreeName<'_>) -> Option<u32> {
    let one = |files: &Selection| (files.count() == 1).then(|| files.runs()[0].start);
    match &name.part {
        TreePart::Files { files, .. } => one(files),
        _ => None,
    }
}

fn changed(name: &str) -> Refusal {
    Refusal::new(RefusalCode::Changed, format!("{name} has changed"))
}

fn refused(error: PackError) -> Refusal {
    let code = match &error {
        PackError::Changed(_) => RefusalCode::Changed,
        PackError::NoSuchFile => RefusalCode::NotFound,
        PackError::TooLong(_) => RefusalCode::TooLarge,
        _ => RefusalCode::Failed,
    };
    Refusal::new(code, error.to_string())
}
