//! A fetch before its session: shares are dealt.

use std::ops::Range;

use wellspring_core::SessionId;
use wellspring_transport::scdp::ObjectInfo;

use crate::byte_range::Wanted;
use crate::manifest::{Manifest, object_of};
use crate::order::Order;
use crate::pages::Pages;
use crate::replicas::{Found, Replica};
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
    /// Blocks that an earlier fetch has left or may have left, or that are not wanted.
    pub(super) complete: Vec<Range<u32>>,
}

impl Prepared {
    /// Deals the shares. `complete` are the blocks that are not fetched, ascending.
    pub(super) fn new(
        client: &Client,
        options: &FetchOptions,
        found: Found,
        wanted: Wanted,
        (sink, complete): (Sink, Vec<Range<u32>>),
    ) -> Prepared {
        let Found { mut replicas, size, digest, geometry } = found;
        let session = SessionId(crate::random::number() as u32);
        // Who has not answered yet keeps a share: shares cannot be dealt again later.
        let shares: Vec<usize> =
            (0..replicas.len()).filter(|&i| replicas[i].takes_part()).collect();
        for (index, replica) in replicas.iter_mut().enumerate() {
            replica.has_share = shares.contains(&index);
        }
        let object = object_of(size, &geometry, digest.tag());
        let manifest = Manifest::new(digest, size, object.block_len);
        let pages = Pages::new(manifest, size, shares.len());
        let order = Order {
            requester: client.requester.clone(),
            session,
            name: options.asked().to_owned(),
            digest,
            size,
            geometry,
            shares: shares.len() as u8,
            background: options.priority.is_background(),
            timeout: client.config.timeout,
        };
        Prepared { order, object, wanted, replicas, shares, sink, pages, complete }
    }
}
