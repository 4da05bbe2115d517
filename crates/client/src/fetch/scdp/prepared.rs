//! A fetch before its session: shares are dealt, and what an earlier fetch has left is verified.

use std::ops::Range;

use wellspring_core::SessionId;
use wellspring_transport::scdp::ObjectInfo;

use crate::byte_range::Wanted;
use crate::holders::Replicas;
use crate::manifest::{Manifest, object_of};
use crate::pages::Pages;
use crate::replicas::{Found, Order, Replica};
use crate::resume::Left;
use crate::sink::Sink;
use crate::{Client, FetchOptions};

/// A transfer before its session.
pub(super) struct Prepared {
    pub(super) order: Order,
    pub(super) object: ObjectInfo,
    pub(super) wanted: Wanted,
    pub(super) replicas: Vec<Replica>,
    /// Which replica has which share: index into `replicas` by share.
    pub(super) shares: Vec<usize>,
    pub(super) sink: Sink,
    pub(super) pages: Pages,
    /// Blocks that an earlier fetch has left, or that are not wanted.
    pub(super) complete: Vec<Range<u32>>,
}

impl Prepared {
    /// Deals the shares, and verifies what an earlier fetch has left.
    pub(super) async fn new(
        client: &Client,
        options: &FetchOptions,
        found: Found,
        wanted: Wanted,
        sink: Sink,
    ) -> Prepared {
        let Found { mut replicas, size, digest, geometry } = found;
        let session = SessionId(crate::random::number() as u32);
        // Who has not answered yet keeps a share: shares cannot be dealt again later.
        let shares: Vec<usize> =
            (0..replicas.len()).filter(|&i| replicas[i].takes_part()).collect();
        shares.iter().for_each(|&i| replicas[i].has_share = true);
        let object = object_of(size, &geometry, digest.tag());
        let manifest = Manifest::new(digest, size, object.block_len);
        let mut pages = Pages::new(manifest, size, shares.len());
        let order = Order {
            requester: client.requester.clone(),
            session,
            name: options.asked().to_owned(),
            digest,
            size,
            geometry,
            shares: shares.len() as u8,
            timeout: client.config.timeout,
        };
        let live = (0..).zip(&shares).filter(|(_, index)| replicas[**index].is_live());
        let live = live.filter_map(|(share, index)| Some((share, replicas[*index].address?)));
        let live = live.collect();
        let complete = match &sink {
            Sink::File(part) => {
                let updates = &options.updates;
                let holders = Replicas { order: &order, addresses: &live, updates };
                Left { part, object: &object, holders: &holders }.blocks(&mut pages).await
            }
            Sink::Stream { .. } => wanted.other_blocks(),
        };
        Prepared { order, object, wanted, replicas, shares, sink, pages, complete }
    }

    /// Bytes that an earlier fetch has left \[bytes\].
    pub(super) fn resumed(&self) -> u64 {
        let Sink::File(_) = &self.sink else { return 0 };
        let runs = self.complete.iter().map(|run| self.object.byte_range_of_run(run));
        runs.map(|bytes| bytes.end - bytes.start).sum()
    }
}
