//! A fetch that takes up what an earlier one has left: what is missing is asked for at once, and what is there is verified
//! meanwhile. Blocks that turn out to be wrong are fetched after that.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wellspring_transport::scdp::{ObjectInfo, ReceiveStats, SenderStats};
use wellspring_wire::control::Cookie;

use super::Run;
use super::outcome::{Fetched, Unfetched};
use super::prepared::Prepared;
use crate::byte_range::Wanted;
use crate::fetch::verify::order_of;
use crate::holders::Replicas;
use crate::manifest::Manifest;
use crate::order::Order;
use crate::pages::Pages;
use crate::replicas::{Found, Replica};
use crate::resume::{Left, presume, without};
use crate::sink::Sink;
use crate::store::PartFile;
use crate::{Client, FetchOptions, Updates};

impl Client {
    /// Fetches what is wanted of an object, except what an earlier fetch has left in the part file.
    pub(super) async fn fetch_missing(
        &self,
        options: &FetchOptions,
        found: Found,
        wanted: Wanted,
        sink: Sink,
    ) -> Result<Fetched, Unfetched> {
        let Found { size, digest, geometry, .. } = found;
        let object = *wanted.object();
        let Some(left) = Presumed::of(self, options, &found, &sink, &object).await else {
            let complete = wanted.other_blocks();
            let (stats, replicas, sink) =
                self.run(options, found, wanted, (sink, complete)).await?;
            return Ok(Fetched { stats, replicas, sink, resumed: 0 });
        };
        let (stats, mut replicas, sink, refuted) = if left.is_whole() {
            let refuted = left.refuted(&options.updates).await;
            (ReceiveStats::default(), found.replicas, sink, refuted)
        } else {
            let (updates, fetched_all) = told_once_set(&options.updates);
            let complete = left.blocks.clone();
            let fetched = async {
                let fetched = self.run(options, found, wanted.clone(), (sink, complete)).await?;
                fetched_all.store(true, Ordering::Relaxed);
                Ok::<_, Unfetched>(fetched)
            };
            let refuted = async { Ok(left.refuted(&updates).await) };
            let ((stats, replicas, sink), refuted) = tokio::try_join!(fetched, refuted)?;
            (stats, replicas, sink, refuted)
        };
        let resumed = bytes_of(&object, &left.blocks) - bytes_of(&object, &refuted);
        if refuted.is_empty() {
            return Ok(Fetched { stats, replicas, sink, resumed });
        }
        tracing::info!(bytes = bytes_of(&object, &refuted), "left by an earlier fetch, and wrong");
        let before = Before::of(stats, &mut replicas);
        let found = Found { replicas, size, digest, geometry };
        let complete = without(slice::from_ref(&(0..object.source_blocks)), &refuted);
        let (mut stats, mut replicas, sink) =
            self.run(options, found, wanted, (sink, complete)).await?;
        before.add_to(&mut stats, &mut replicas);
        Ok(Fetched { stats, replicas, sink, resumed })
    }

    /// A session for all blocks but those that are complete.
    async fn run(
        &self,
        options: &FetchOptions,
        found: Found,
        wanted: Wanted,
        sink: (Sink, Vec<Range<u32>>),
    ) -> Result<(ReceiveStats, Vec<Replica>, Sink), Unfetched> {
        let prepared = Prepared::new(self, options, found, wanted, sink);
        let run = Run::begin(self, prepared, options)?;
        let (stats, mut replicas, sink) = run.follow().await?;
        // The protocol lists those with a share, in the order of their shares.
        let with_share = replicas.iter_mut().filter(|replica| replica.has_share);
        for (replica, sender) in with_share.zip(&stats.senders) {
            replica.stats = Some(*sender);
        }
        Ok((stats, replicas, sink))
    }
}

/// Blocks that an earlier fetch may have left.
struct Presumed {
    part: Arc<PartFile>,
    object: ObjectInfo,
    /// Ascending.
    blocks: Vec<Range<u32>>,
    order: Order,
    /// Who has pages of the manifest.
    addresses: BTreeMap<usize, SocketAddr>,
}

impl Presumed {
    /// Looks where the part file has bytes; `None` if it has none, or there is no such file.
    async fn of(
        client: &Client,
        options: &FetchOptions,
        found: &Found,
        sink: &Sink,
        object: &ObjectInfo,
    ) -> Option<Presumed> {
        let Sink::File(part) = sink else { return None };
        let blocks = presume(part, object).await;
        let live = found.replicas.iter().filter(|replica| replica.is_live());
        let addresses = live.filter_map(|replica| replica.address).enumerate().collect();
        let order = order_of(client, options, found);
        let (part, object) = (Arc::clone(part), *object);
        (!blocks.is_empty()).then_some(Presumed { part, object, blocks, order, addresses })
    }

    /// Whether nothing is missing if all is right.
    fn is_whole(&self) -> bool {
        self.blocks.first().is_some_and(|run| run.len() == self.object.source_blocks as usize)
    }

    /// Verifies them; those that are missing after all.
    async fn refuted(&self, updates: &Updates) -> Vec<Range<u32>> {
        let size = self.object.transfer_len;
        // Not those of the session, which forgets what it has passed.
        let manifest = Manifest::new(self.order.digest, size, self.object.block_len);
        let mut pages = Pages::new(manifest, size, self.addresses.len());
        let holders = Replicas { order: &self.order, addresses: &self.addresses, updates };
        let left = Left { part: &self.part, object: &self.object, holders: &holders, turns: None };
        left.refuted(&mut pages, &self.blocks).await
    }
}

/// What a session has come to that another one follows.
struct Before {
    stats: ReceiveStats,
    of_replicas: Vec<Option<SenderStats>>,
}

impl Before {
    /// The replicas begin anew.
    fn of(stats: ReceiveStats, replicas: &mut [Replica]) -> Before {
        let begin = |replica: &mut Replica| {
            (replica.epoch, replica.joining, replica.cookie) = (0, false, Cookie::NONE);
            replica.stats.take()
        };
        Before { stats, of_replicas: replicas.iter_mut().map(begin).collect() }
    }

    fn add_to(self, stats: &mut ReceiveStats, replicas: &mut [Replica]) {
        stats.needed += self.stats.needed;
        stats.decoded_blocks += self.stats.decoded_blocks;
        stats.decode_free_blocks += self.stats.decode_free_blocks;
        stats.failed_decodes += self.stats.failed_decodes;
        stats.senders.extend(self.stats.senders);
        for (replica, before) in replicas.iter_mut().zip(self.of_replicas) {
            let Some(before) = before else { continue };
            let now = replica
                .stats
                .get_or_insert(SenderStats { host: before.host, ..SenderStats::default() });
            now.useful += before.useful;
            now.redundant += before.redundant;
            now.trimmed += before.trimmed;
            now.lost += before.lost;
            now.granted += before.granted;
        }
    }
}

/// Updates of which nobody hears before the flag is set.
fn told_once_set(updates: &Updates) -> (Updates, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    let (updates, is_set) = (updates.clone(), Arc::clone(&flag));
    let told = Updates::to(move |update| {
        if is_set.load(Ordering::Relaxed) {
            updates.tell(update);
        }
    });
    (told, flag)
}

/// Bytes of these blocks.
fn bytes_of(object: &ObjectInfo, blocks: &[Range<u32>]) -> u64 {
    let bytes = blocks.iter().map(|run| object.byte_range_of_run(run));
    bytes.map(|bytes| bytes.end - bytes.start).sum()
}
