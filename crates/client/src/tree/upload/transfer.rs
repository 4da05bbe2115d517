//! The steps of a tree that is put, each an object to all hosts that take part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::super::error::TreeError;
use super::super::gather::{Gather, collected};
use super::super::progress::{LANES, Progress};
use super::super::put_report::{HearPut, PutTreeOptions, PutTreeReport};
use super::hosts::{Receiver, State};
use super::packs::{Batch, batches, overlap};
use super::source::{Opened, Source, of_bytes};
use crate::Host;
use crate::put::OpenedFile;
use crate::store::tree::listing::{Cursor, Lacks, MAX_LISTING_LEN, TreePart, paths_to_bytes};
use crate::store::tree::{Pack, TreeChange, wanted};
use crate::store::{Digest, ObjectName};
use crate::{
    Client, FetchError, HostError, HostTrouble, PutError, PutOptions, ReceiverState, Target,
    Update, Updates,
};

/// A tree that is put.
pub(super) struct Upload<'a> {
    client: &'a Client,
    options: &'a PutTreeOptions,
    needed: usize,
    hear: Arc<HearPut>,
    state: Mutex<Progressed>,
}

/// What has happened.
#[derive(Default)]
struct Progressed {
    receivers: Vec<Receiver>,
    begun_again: u32,
    /// Of the listing that is put.
    digest: Option<Digest>,
    sent_files: u64,
    sent_bytes: u64,
    symbols: u64,
}

/// How a round ended.
pub(super) enum Round {
    Done,
    /// A host that is needed was lost on the way.
    Again,
}

impl<'a> Upload<'a> {
    pub(super) fn new(
        client: &'a Client,
        hosts: &[Host],
        options: &'a PutTreeOptions,
        hear: Arc<HearPut>,
    ) -> Result<Self, TreeError> {
        let name = ObjectName::new("tree").expect("a word is a name");
        let quorum = PutOptions::new(name).quorum(options.quorum);
        let needed = crate::put::check(hosts, &quorum).map_err(TreeError::Put)?;
        let receivers = hosts.iter().map(Receiver::new).collect();
        let state = Mutex::new(Progressed { receivers, ..Progressed::default() });
        Ok(Upload { client, options, needed, hear, state })
    }

    fn lock(&self) -> MutexGuard<'_, Progressed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins again with the hosts that are worth it; false if too few are, or if that was done often enough.
    pub(super) fn begin_again(&self, limit: u32) -> bool {
        self.lock().receivers.iter_mut().for_each(Receiver::revive);
        if self.hopeful() < self.needed || self.lock().begun_again + 1 >= limit {
            return false;
        }
        self.lock().begun_again += 1;
        true
    }

    /// Takes up what the tree is by now. Hosts that have it as it was before take part again.
    pub(super) fn take(&self, source: &Source) {
        let mut state = self.lock();
        let before = state.digest.replace(source.listing.digest);
        if before.is_some_and(|before| before != source.listing.digest) {
            state.receivers.iter_mut().for_each(Receiver::go_back);
        }
    }

    pub(super) fn report(&self, source: &Source, began: Instant) -> PutTreeReport {
        let state = self.lock();
        PutTreeReport {
            files: source.files.into(),
            bytes: source.bytes,
            sent_files: state.sent_files,
            sent_bytes: state.sent_bytes,
            skipped: source.skipped.clone(),
            skipped_count: source.skipped_count,
            digest: Some(source.listing.digest),
            elapsed: began.elapsed(),
            begun_again: state.begun_again,
            needed: self.needed,
            symbols_sent: state.symbols,
            receivers: state.receivers.iter().map(Receiver::report).collect(),
        }
    }

    fn live(&self) -> Vec<usize> {
        let state = self.lock();
        let live = |(index, receiver): (usize, &Receiver)| receiver.is_live().then_some(index);
        state.receivers.iter().enumerate().filter_map(live).collect()
    }

    /// How many have the tree, or may yet have it in this round.
    fn hopeful(&self) -> usize {
        let fails = |r: &&Receiver| !matches!(r.state, State::Failed { .. });
        self.lock().receivers.iter().filter(fails).count()
    }

    pub(super) async fn round(
        &self,
        source: &Arc<Source>,
        began: Instant,
    ) -> Result<Round, TreeError> {
        let live = self.live();
        let listing = Arc::clone(source);
        let opened = blocking(move || of_bytes(&listing.listing.bytes)).await?;
        // What would be done does not depend on how, and leaves nothing there.
        let atomic = self.options.atomic && !self.options.tree.dry_run;
        let part = self.options.tree.name(TreePart::Put { atomic });
        self.send(part, opened, &live, (Updates::default(), false)).await?;
        self.ask_what_is_lacking(source).await;
        if self.hopeful() < self.needed {
            return Err(TreeError::Put(self.not_accepted()));
        }
        self.check_conflicts(source)?;
        let batches = self.batches(source)?;
        if self.options.tree.dry_run {
            self.say_what_would_be_done(source, &batches)?;
            return Ok(Round::Done);
        }
        self.clear(source).await?;
        self.move_files(source, batches).await?;
        if self.hopeful() >= self.needed {
            self.finish(source, began).await?;
        }
        match self.hopeful() >= self.needed {
            true => Ok(Round::Done),
            false => Ok(Round::Again),
        }
    }

    fn not_accepted(&self) -> PutError {
        let error = |r: &Receiver| match &r.state {
            State::Failed { error, .. } => Some(error.clone()),
            _ => None,
        };
        let hosts = self.lock().receivers.iter().filter_map(error).collect();
        PutError::NotAccepted { needed: self.needed, hosts }
    }

    /// Asks each host what it lacks, all at once.
    async fn ask_what_is_lacking(&self, source: &Source) {
        let asked = self.live().into_iter().map(|index| async move {
            let host = self.lock().receivers[index].host.clone();
            (index, self.lacks_of(&host, source).await)
        });
        for (index, lacks) in join_all(asked.collect()).await {
            match lacks {
                Ok(lacks) => self.lock().receivers[index].lacks = lacks,
                Err((reason, trouble)) => self.fail(index, reason, trouble, false),
            }
        }
    }

    async fn lacks_of(&self, host: &Host, source: &Source) -> Result<Lacks, (String, HostTrouble)> {
        let part = TreePart::Lacks { listing: source.id(), surplus: self.options.tree.delete };
        let (target, bytes) = Gather::new();
        let updates = self.options.tree.updates.quiet();
        let tree = &self.options.tree;
        let fetch = tree.fetch(tree.name(part), MAX_LISTING_LEN as u64, updates);
        let target = Target::Writer(Box::new(target));
        match self.client.fetch(std::slice::from_ref(host), &fetch, target).await {
            Ok(_) => {}
            Err(FetchError::NoReplica(hosts)) => {
                let first = hosts.into_iter().next();
                return Err(first.map_or_else(Default::default, |e| (e.reason, e.trouble)));
            }
            Err(error) => return Err((error.to_string(), HostTrouble::Other)),
        }
        let lacks = Lacks::parse(&collected(&bytes), source.files);
        lacks.map_err(|error| (error.to_string(), HostTrouble::Other))
    }

    /// What must not be done is an error before anything is.
    fn check_conflicts(&self, source: &Source) -> Result<(), TreeError> {
        let state = self.lock();
        for receiver in state.receivers.iter().filter(|receiver| receiver.is_live()) {
            let Lacks { replaced, replaced_examples, in_the_way, .. } = &receiver.lacks;
            let host = receiver.host.to_string();
            if *replaced > 0 && !self.options.overwrite {
                let examples = replaced_examples.clone();
                return Err(TreeError::Occupied { host, count: *replaced, examples });
            }
            let removes = self.options.tree.delete && self.options.overwrite;
            let stays = |path: &&String| !removes || self.leaves_out(source, &receiver.lacks, path);
            if let Some(path) = in_the_way.iter().find(stays) {
                return Err(TreeError::DirectoryThere { host, path: path.clone() });
            }
        }
        Ok(())
    }

    fn batches(&self, source: &Source) -> Result<Vec<Batch>, TreeError> {
        let mut state = self.lock();
        let live = |(index, receiver): (usize, &Receiver)| {
            receiver.is_live().then(|| (index, receiver.lacks.files.clone()))
        };
        let lacking: Vec<_> = state.receivers.iter().enumerate().filter_map(live).collect();
        let lacking: Vec<_> = lacking.iter().map(|(index, files)| (*index, &files[..])).collect();
        let by_group = self.options.group.is_some();
        let batches = batches(&source.listing, &self.options.tree, &lacking, by_group)?;
        for batch in &batches {
            for host in &batch.hosts {
                let lacked = (batch.files, batch.len);
                state.receivers[*host].lacked.get_or_insert(lacked);
            }
        }
        Ok(batches)
    }

    fn say_what_would_be_done(&self, source: &Source, batches: &[Batch]) -> Result<(), TreeError> {
        for batch in batches {
            let hosts = self.names(&batch.hosts);
            for pack in &batch.packs {
                let files = wanted(Cursor::resume(&source.listing.bytes, &pack.place), &pack.files);
                for file in files? {
                    (self.hear)(TreeChange::Fetched(file.path, file.size), &hosts);
                }
            }
        }
        let live = self.live();
        let each: Vec<_> = live.iter().map(|at| (*at, self.to_remove(source, *at))).collect();
        self.say_what_is_removed(&each);
        Ok(())
    }

    /// Tells, and counts, what each host is to remove.
    fn say_what_is_removed(&self, each: &[(usize, Vec<String>)]) {
        let mut all: BTreeMap<&String, Vec<usize>> = BTreeMap::new();
        for (index, paths) in each {
            self.lock().receivers[*index].removed = paths.len() as u64;
            paths.iter().for_each(|path| all.entry(path).or_default().push(*index));
        }
        for (path, hosts) in all {
            (self.hear)(TreeChange::Removed(path.clone()), &self.names(&hosts));
        }
    }

    /// The hosts of these numbers, as the caller named them.
    fn names(&self, hosts: &[usize]) -> Vec<String> {
        let state = self.lock();
        hosts.iter().map(|host| state.receivers[*host].host.to_string()).collect()
    }

    /// What a host is to remove: what the tree does not have, but for what is left out of it.
    fn to_remove(&self, source: &Source, index: usize) -> Vec<String> {
        self.belonging(source, &self.lock().receivers[index].lacks.surplus)
    }

    /// Whether a directory of a host has something that is left out of the tree.
    fn leaves_out(&self, source: &Source, lacks: &Lacks, directory: &str) -> bool {
        let surplus = lacks.surplus.iter();
        let inside: Vec<_> = surplus.filter(|path| is_below(path, directory)).cloned().collect();
        self.belonging(source, &inside).len() < inside.len()
    }

    /// Those of ascending paths that may be of the tree.
    fn belonging(&self, source: &Source, surplus: &[String]) -> Vec<String> {
        let filter = &self.options.tree.filter;
        let mut outside: Option<&str> = None;
        let mut removed = Vec::new();
        for (at, path) in surplus.iter().enumerate() {
            if outside.is_some_and(|outside| is_below(path, outside)) {
                continue;
            }
            let has_something = surplus.get(at + 1).is_some_and(|next| is_below(next, path));
            let belongs = |is_directory| filter.belongs(path, is_directory);
            // One with nothing in it may be a file or a directory.
            let is_chosen = belongs(true) && (has_something || belongs(false));
            // What is no directory here and not listed is left out, and so is what is below it there.
            if is_chosen && (filter.is_everything() || !source.has_leaf(path)) {
                removed.push(path.clone());
            } else {
                outside = Some(path);
            }
        }
        removed
    }

    /// Has directories removed that are in the way of files.
    async fn clear(&self, source: &Source) -> Result<(), TreeError> {
        let part = TreePart::Clear { listing: source.id() };
        let paths = |index: usize| self.lock().receivers[index].lacks.in_the_way.clone();
        let each = self.live().into_iter().map(|index| (index, paths(index)));
        let each = each.filter(|(_, paths)| !paths.is_empty()).collect();
        self.send_paths(part, each).await
    }

    /// Sends lists of paths, the same to all that get the same.
    async fn send_paths(
        &self,
        part: TreePart,
        each: Vec<(usize, Vec<String>)>,
    ) -> Result<(), TreeError> {
        let mut alike: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (index, paths) in each {
            alike.entry(paths_to_bytes(&paths)).or_default().push(index);
        }
        for (bytes, hosts) in alike {
            let name = self.options.tree.name(part.clone());
            let opened = blocking(move || of_bytes(&bytes)).await?;
            self.send(name, opened, &hosts, (Updates::default(), true)).await?;
        }
        Ok(())
    }

    async fn finish(&self, source: &Source, began: Instant) -> Result<(), TreeError> {
        let live = self.live();
        let each: Vec<_> =
            live.iter().map(|index| (*index, self.to_remove(source, *index))).collect();
        self.say_what_is_removed(&each);
        self.options.tree.updates.tell(Update::Verifying);
        let requested: BTreeMap<usize, Vec<String>> = each.iter().cloned().collect();
        self.send_paths(TreePart::Finish { listing: source.id() }, each).await?;
        self.see_what_stayed(source, &requested).await;
        let mut state = self.lock();
        for receiver in state.receivers.iter_mut().filter(|receiver| receiver.is_live()) {
            receiver.state = State::Complete(began.elapsed());
            let host = receiver.host.to_string();
            self.options.tree.updates.tell(Update::Complete { host });
        }
        Ok(())
    }

    /// Asks hosts once more that were to remove something: a directory in which a host has what it does not list stays.
    async fn see_what_stayed(&self, source: &Source, requested: &BTreeMap<usize, Vec<String>>) {
        // Beside a directory that was swapped another would be begun.
        if self.options.atomic {
            return;
        }
        for index in self.live() {
            let Some(paths) = requested.get(&index).filter(|paths| !paths.is_empty()) else {
                continue;
            };
            let host = self.lock().receivers[index].host.clone();
            // It has the tree, whatever it answers.
            let Ok(Lacks { surplus, .. }) = self.lacks_of(&host, source).await else { continue };
            let there: BTreeSet<&String> = surplus.iter().collect();
            for path in paths.iter().filter(|path| there.contains(path)) {
                self.lock().receivers[index].removed -= 1;
                tracing::warn!(%host, path, "stays there: it has something that the host does not list");
            }
        }
    }

    /// Sends packs and large files, a few at a time.
    async fn move_files(&self, source: &Arc<Source>, batches: Vec<Batch>) -> Result<(), TreeError> {
        let total = batches.iter().map(|batch| batch.len).sum();
        let progress = Progress::of_put(total, &self.options.tree.updates, self.each(&batches));
        let batches = Mutex::new((batches, 0));
        let lane = |lane| self.lane(lane, source, &batches, &progress);
        const { assert!(LANES == 4) }
        tokio::try_join!(lane(0), lane(1), lane(2), lane(3)).map(|_| ())
    }

    /// What each host is to receive \[bytes\].
    fn each(&self, batches: &[Batch]) -> BTreeMap<String, u64> {
        let (state, mut each) = (self.lock(), BTreeMap::new());
        for batch in batches {
            for host in &batch.hosts {
                *each.entry(state.receivers[*host].host.to_string()).or_default() += batch.len;
            }
        }
        each
    }

    async fn lane(
        &self,
        lane: usize,
        source: &Arc<Source>,
        batches: &Mutex<(Vec<Batch>, usize)>,
        progress: &Arc<Progress>,
    ) -> Result<(), TreeError> {
        while let Some((hosts, pack)) = next_pack(batches) {
            if self.hopeful() < self.needed {
                return Ok(());
            }
            let takes = |index: &usize| {
                let receiver = &self.lock().receivers[*index];
                receiver.is_live() && overlap(&receiver.lacks.files, pack.files.runs())
            };
            let hosts: Vec<usize> = hosts.into_iter().filter(takes).collect();
            if !hosts.is_empty() {
                self.send_pack(source, &pack, &hosts, progress.updates(lane)).await?;
            }
            progress.end(lane, pack.len);
        }
        Ok(())
    }

    async fn send_pack(
        &self,
        source: &Arc<Source>,
        pack: &Pack,
        hosts: &[usize],
        updates: Updates,
    ) -> Result<(), TreeError> {
        let (here, wants) = (Arc::clone(source), pack.clone());
        let opened = match blocking(move || here.open(&wants)).await? {
            Opened::Bytes(opened) => opened,
            Opened::File(file, fingerprint) => {
                let hashed = self.client.hashed(file, fingerprint, &updates).await;
                hashed.map_err(TreeError::Put)?
            }
        };
        let part = TreePart::Files { listing: source.id(), files: pack.files.clone() };
        let of_hosts = updates.are_of_hosts();
        let moving = Updates::to(move |update| match update {
            Update::Started { .. } | Update::Moving { .. } | Update::Receivers { .. } => {
                updates.tell(update);
            }
            _ => {}
        });
        let moving = if of_hosts { moving.with_hosts() } else { moving };
        let sent = self.send(self.options.tree.name(part), opened, hosts, (moving, true)).await?;
        if sent > 0 {
            let hosts = self.names(hosts);
            for file in wanted(Cursor::resume(&source.listing.bytes, &pack.place), &pack.files)? {
                (self.hear)(TreeChange::Fetched(file.path, file.size), &hosts);
                let mut state = self.lock();
                state.sent_files += 1;
                state.sent_bytes += file.size;
            }
        }
        Ok(())
    }

    /// Sends part of the tree to hosts, by the group if there are several. Returns how many have it; the others have
    /// failed.
    async fn send(
        &self,
        part: String,
        opened: OpenedFile,
        to: &[usize],
        (updates, on_the_way): (Updates, bool),
    ) -> Result<usize, TreeError> {
        let hosts: Vec<Host> =
            to.iter().map(|index| self.lock().receivers[*index].host.clone()).collect();
        if hosts.is_empty() {
            return Ok(0);
        }
        let name = ObjectName::new("tree").expect("a word is a name");
        let mut options = PutOptions::new(name)
            .overwrite(self.options.overwrite)
            .group(self.options.group.filter(|_| hosts.len() > 1))
            .quorum(Some(1))
            .finish_rest(true)
            .priority(self.options.tree.priority)
            .cut(self.options.tree.cut)
            .updates(updates);
        options.tree_part = Some(part);
        let put = self.client.put_opened(opened, &hosts, &options, Instant::now()).await;
        let report = match put {
            Ok(report) => report,
            Err(PutError::Incomplete(report)) => *report,
            Err(PutError::NotAccepted { hosts: errors, .. }) => {
                for (index, host) in to.iter().zip(&hosts) {
                    let host = host.to_string();
                    let error = errors.iter().find(|error| error.host == host);
                    let (reason, trouble) = match error {
                        Some(HostError { reason, trouble, .. }) => (reason.clone(), *trouble),
                        None => ("did not take it".to_owned(), HostTrouble::Other),
                    };
                    self.fail(*index, reason, trouble, on_the_way);
                }
                return Ok(0);
            }
            Err(error) => return Err(TreeError::Put(error)),
        };
        self.lock().symbols += report.sent();
        for (index, receiver) in to.iter().zip(&report.receivers) {
            match &receiver.state {
                ReceiverState::Complete(_) => {}
                ReceiverState::Failed(reason) => {
                    self.fail(*index, reason.clone(), receiver.trouble, on_the_way);
                }
                ReceiverState::Unfinished => {
                    self.fail(*index, "got stuck".to_owned(), HostTrouble::Other, on_the_way);
                }
            }
        }
        Ok(report.complete())
    }

    fn fail(&self, index: usize, reason: String, trouble: HostTrouble, on_the_way: bool) {
        let mut state = self.lock();
        let receiver = &mut state.receivers[index];
        if !receiver.is_live() {
            return;
        }
        let host = receiver.host.to_string();
        receiver.fail(reason.clone(), trouble, on_the_way);
        self.options.tree.updates.tell(Update::Lost { host, reason });
    }
}

/// The next pack, of each batch in turn.
fn next_pack(batches: &Mutex<(Vec<Batch>, usize)>) -> Option<(Vec<usize>, Pack)> {
    let mut locked = batches.lock().unwrap_or_else(PoisonError::into_inner);
    let (batches, turn) = &mut *locked;
    for _ in 0..batches.len() {
        *turn = (*turn + 1) % batches.len();
        let batch = &mut batches[*turn];
        if let Some(pack) = batch.packs.pop_front() {
            return Some((batch.hosts.clone(), pack));
        }
    }
    None
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TreeError> + Send + 'static,
) -> Result<T, TreeError> {
    crate::task::spawn_blocking(work).await.map_err(|_| TreeError::Stopped)?
}

/// Waits for all of some futures at once.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(|context| {
        let mut ready = true;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                std::task::Poll::Ready(value) => *output = Some(value),
                std::task::Poll::Pending => ready = false,
            }
        }
        if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}
