//! Packs and large files of a tree, fetched a few at a time.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::replicas::{Late, find};
use super::super::{Client, FetchError, Target, Updates};
use super::error::TreeError;
use super::moved::Moved;
use super::options::TreeOptions;
use super::progress::{LANES, Progress};
use crate::Host;
use crate::driver::Failure;
use crate::store::tree::listing::TreePart;
use crate::store::tree::{
    MAX_PACK_LEN, Pack, Plan, PlanError, TreeChange, TreeTarget, Unpack, Wanted, path_of,
};
use crate::store::{Digest, Existing, Fingerprint, HashProgress, StoreError, hash_file};

/// Who hears what is done.
type Hear = Arc<dyn Fn(TreeChange) + Send + Sync>;

/// Fetches of a tree's parts under way.
struct Transfer<'a> {
    client: &'a Client,
    hosts: &'a [Host],
    options: &'a TreeOptions,
    plan: &'a Plan,
    target: TreeTarget,
    packs: Mutex<VecDeque<Pack>>,
    progress: Arc<Progress>,
    hear: &'a Hear,
    moved: &'a Arc<Moved>,
    /// What of the files was here already \[bytes\].
    resumed: &'a AtomicU64,
}

impl Client {
    /// Fetches what a plan says is missing, and counts what of it was here already.
    pub(super) async fn move_files(
        &self,
        hosts: &[Host],
        options: &TreeOptions,
        plan: &Plan,
        (hear, moved, resumed): (&Hear, &Arc<Moved>, &AtomicU64),
    ) -> Result<(), TreeError> {
        let Some(target) = plan.target() else { return Ok(()) };
        let packs = Mutex::new(plan.packs.iter().cloned().collect());
        let progress = Progress::new(plan.len, &options.updates);
        let client = self;
        let transfer = Transfer {
            client,
            hosts,
            options,
            plan,
            target,
            packs,
            progress,
            hear,
            moved,
            resumed,
        };
        let lane = |lane| transfer.lane(lane);
        const { assert!(LANES == 4) }
        tokio::try_join!(lane(0), lane(1), lane(2), lane(3)).map(|_| ())
    }
}

impl Transfer<'_> {
    async fn lane(&self, lane: usize) -> Result<(), TreeError> {
        loop {
            let next = self.packs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(pack) = next else { return Ok(()) };
            let mut wanted = self.plan.wanted(&pack)?;
            let updates = self.progress.updates(lane);
            match (pack.files.count(), wanted.pop()) {
                (1, Some(file)) => self.file(&pack, file, updates).await?,
                (_, Some(file)) => {
                    wanted.push(file);
                    self.pack(&pack, wanted, updates).await?;
                }
                (_, None) => {}
            }
            self.progress.end(lane, pack.len);
        }
    }

    fn name(&self, pack: &Pack) -> String {
        let mut listing = [0; 16];
        listing.copy_from_slice(&self.plan.listing.digest.0[..16]);
        self.options.name(TreePart::Files { listing, files: pack.files.clone() })
    }

    async fn pack(
        &self,
        pack: &Pack,
        wanted: Vec<Wanted>,
        updates: Updates,
    ) -> Result<(), TreeError> {
        let hear = Arc::clone(self.hear);
        let unpack = Unpack::new(self.target.clone(), wanted, move |file| {
            hear(TreeChange::Fetched(file.path.clone(), file.size));
        });
        let moved = Arc::clone(self.moved);
        let unpack = unpack.over(self.options.existing, move |path| moved.is_ours(path));
        let options = self.options.fetch(self.name(pack), MAX_PACK_LEN, updates);
        let target = Target::Writer(Box::new(unpack));
        match self.client.fetch(self.hosts, &options, target).await {
            Err(FetchError::Write(error) | FetchError::Session(Failure::Write(error)))
                if error.kind() == io::ErrorKind::AlreadyExists =>
            {
                Err(FetchError::Store(StoreError::Exists(error.to_string())).into())
            }
            fetched => Ok(fetched.map(|_| ())?),
        }
    }

    async fn file(&self, pack: &Pack, file: Wanted, updates: Updates) -> Result<(), TreeError> {
        let placed =
            |path: String| move |error| -> TreeError { PlanError::Place(path, error).into() };
        let mut target = self.target.clone();
        let name = self.name(pack);
        let mut resumed = file.size;
        let is_in_doubt = target.is_in_doubt(&file.path, file.size, file.meta.modified);
        let is_here = match is_in_doubt {
            true => false,
            false => self.is_here(&name, &file, &mut target).await?,
        };
        if !is_here {
            // A path that leads to the directory that was opened, whatever its name leads to by now.
            let directory = target.directory_to_change(&file.path);
            let directory = directory.map_err(placed(file.path.clone()))?;
            let file_name = file.path.rsplit('/').next().unwrap_or(&file.path);
            let path = path_of(&directory).map_err(placed(file.path.clone()))?.join(file_name);
            let existing = match is_in_doubt || self.moved.is_ours(&file.path) {
                true => Existing::Replace,
                false => self.options.existing,
            };
            let to = Target::File { path, existing };
            let mut options = self.options.fetch(name, file.size, updates);
            options.given = Some(file.meta.clone());
            let fetched = self.client.fetch(self.hosts, &options, to).await;
            let fetched = fetched.map_err(|error| match error {
                FetchError::Store(StoreError::Io(error) | StoreError::Unsynced(error)) => {
                    TreeError::Plan(PlanError::Place(file.path.clone(), error))
                }
                error => error.into(),
            })?;
            resumed = fetched.resumed;
        }
        self.resumed.fetch_add(resumed, Ordering::Relaxed);
        (self.hear)(TreeChange::Fetched(file.path, file.size));
        Ok(())
    }

    /// Whether the file is here already, and only its time is another: then its digest is the one that the hosts have, and
    /// it is given the time and what else it is to have.
    async fn is_here(
        &self,
        name: &str,
        file: &Wanted,
        target: &mut TreeTarget,
    ) -> Result<bool, TreeError> {
        let Some(here) = target.open_file(&file.path, file.size) else { return Ok(false) };
        let options = self.options.fetch(name.to_owned(), file.size, Updates::default());
        let timeout = self.client.config.timeout;
        let (requester, late) = (&self.client.requester, Late::Joins);
        let found = find(requester, self.hosts, &options, (timeout, late, 0)).await?;
        let hash = move || -> io::Result<(Digest, Fingerprint)> {
            let before = Fingerprint::of(&here)?;
            Ok((hash_file(&here, before.size(), &HashProgress::default())?, before))
        };
        match crate::task::spawn_blocking(hash).await {
            // One that has changed meanwhile, or has given its name to another, is fetched.
            Ok(Ok((digest, read))) if digest == found.digest => {
                let set = target.set_file(&file.path, &read, &file.meta);
                set.map_err(|error| PlanError::Place(file.path.clone(), error).into())
            }
            // And so is one that cannot be read.
            _ => Ok(false),
        }
    }
}
