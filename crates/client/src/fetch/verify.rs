//! Objects that arrive in blocks that are no subtrees of their digest: written first, counted once verified.

use std::io;
use std::ops::Range;

use crate::task::{JoinSet, spawn_blocking};
use wellspring_core::SessionId;
use wellspring_transport::scdp::ObjectInfo;

use crate::holders::Replicas;
use crate::manifest::Manifest;
use crate::order::Order;
use crate::pages::{Pages, Question, SharedManifest, lock};
use crate::replicas::{Found, Replica, Standing};
use crate::resume::Left;
use crate::sink::{Arriving, Sink};
use crate::store::Check;
use crate::{Client, FetchError, FetchOptions, HostError, Update};

/// Nodes that an object is verified by, at most: so its manifest has at most 67 pages, and is fetched as a whole.
const MAX_NODES: u64 = 2_048;
/// Shortest nodes \[bytes\].
const SHORTEST_NODE: u64 = 16 << 10;
/// Bytes hashed in one go \[bytes\]: another may begin meanwhile.
const AT_ONCE: u64 = 64 << 20;

/// Length of the nodes of the object's hash tree that it is verified by \[bytes\].
pub(super) fn node_len(size: u64) -> u64 {
    size.div_ceil(MAX_NODES).next_power_of_two().max(SHORTEST_NODE)
}

/// Verifies what has been written of an object.
#[derive(Clone)]
pub(super) struct Checker {
    pages: SharedManifest,
    to: Arriving,
    size: u64,
    node_len: u64,
}

impl Checker {
    pub(super) fn new(pages: &Pages, to: Arriving, size: u64) -> Self {
        let pages = SharedManifest::clone(&pages.manifest);
        Checker { pages, to, size, node_len: node_len(size) }
    }

    /// Length of the nodes \[bytes\].
    pub(super) fn node_len(&self) -> u64 {
        self.node_len
    }

    /// Verifies nodes that are written. Those that are right count from now on, up to the first that is wrong, whose
    /// beginning is returned. `range` begins with a node, and ends with one or with the object.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) async fn check(&self, mut range: Range<u64>) -> io::Result<Option<u64>> {
        while range.start < range.end {
            let next = range.start..range.end.min(range.start + AT_ONCE.max(self.node_len));
            range.start = next.end;
            let checker = self.clone();
            let checked = spawn_blocking(move || checker.check_now(&next)).await;
            let checked =
                checked.unwrap_or_else(|_| Err(io::Error::other("verifying panicked")))?;
            if checked.is_some() {
                return Ok(checked);
            }
        }
        Ok(None)
    }

    fn check_now(&self, range: &Range<u64>) -> io::Result<Option<u64>> {
        if self.size <= self.node_len {
            let mut bytes = vec![0; self.size as usize];
            self.to.read_at(0, &mut bytes)?;
            let check = lock(&self.pages).expected(0, self.node_len).check(&bytes);
            let is_right = check == Check::Right;
            if is_right {
                self.to.note(0..self.size);
            }
            return Ok((!is_right).then_some(0));
        }
        let nodes = self.to.hash_nodes(range.clone(), self.node_len)?;
        let starts = (range.start..).step_by(self.node_len as usize);
        let pages = lock(&self.pages);
        let wrong = starts
            .zip(&nodes)
            .find(|(start, node)| !pages.expected(*start, self.node_len).is_node(node))
            .map(|(start, _)| start);
        drop(pages);
        let right = range.start..wrong.unwrap_or(range.end);
        if !right.is_empty() {
            self.to.note(right);
        }
        Ok(wrong)
    }
}

/// The requests for a manifest that replicas are sent.
pub(super) fn order_of(client: &Client, options: &FetchOptions, found: &Found) -> Order {
    Order {
        requester: client.requester.clone(),
        session: SessionId(0),
        name: options.asked().to_owned(),
        digest: found.digest,
        size: found.size,
        geometry: found.geometry,
        shares: 1,
        background: false,
        timeout: client.config.timeout,
    }
}

/// Fetches the manifest of an object as a whole from its replicas. One that gives none is not used, one that gives
/// another is named.
///
/// # Errors
/// [`FetchError::NoReplicaLeft`].
pub(super) async fn learn(
    order: &Order,
    replicas: &mut [Replica],
    options: &FetchOptions,
) -> Result<Pages, FetchError> {
    let size = order.size;
    let manifest = Manifest::new(order.digest, size, node_len(size));
    let mut pages = Pages::new(manifest, size, replicas.len());
    let mut asked = JoinSet::new();
    loop {
        let wanted = lock(&pages.manifest).wanted(0..size, usize::MAX);
        if wanted.is_empty() {
            return Ok(pages);
        }
        for Question { share, page, cookie } in pages.ask(wanted, |i| replicas[i].is_live()) {
            let Some(address) = replicas[share].address else { continue };
            let order = order.clone();
            asked.spawn(async move { (share, page, order.page(address, page, &cookie).await) });
        }
        let Some(answered) = asked.join_next().await else {
            let hosts = replicas.iter().map(Replica::complaint).collect();
            return Err(FetchError::NoReplicaLeft { hosts, done: 0, size });
        };
        let Ok((share, page, answer)) = answered else { continue };
        let standing = match answer {
            Ok(bytes) if pages.answered(page, &bytes).is_ok() => continue,
            Ok(_) => {
                let reason = "sent a manifest that does not fit the object's digest";
                Standing::Excluded(reason.to_owned())
            }
            Err(error) => {
                pages.unanswered(page);
                Standing::Lost(format!("gives no manifest of the object ({error})"))
            }
        };
        give_up(&mut replicas[share], standing, options);
    }
}

/// What is to be fetched, ascending: all of the object but the nodes that an earlier fetch has left.
pub(super) async fn missing(
    sink: &Sink,
    order: &Order,
    pages: &mut Pages,
    replicas: &[Replica],
    options: &FetchOptions,
) -> Vec<Range<u64>> {
    let (size, mut missing, mut at) = (order.size, Vec::new(), 0);
    if let Sink::File(part) = sink {
        let live = replicas.iter().enumerate().filter(|(_, replica)| replica.is_live());
        let addresses = live.filter_map(|(index, replica)| Some((index, replica.address?)));
        let addresses = addresses.collect();
        let holders = Replicas { order, addresses: &addresses, updates: &options.updates };
        let object = ObjectInfo::in_blocks_of(node_len(size), size, 1, 0);
        let there =
            Left { part, object: &object, holders: &holders, turns: None }.blocks(pages).await;
        for run in there {
            let start = u64::from(run.start) * object.block_len;
            missing.push(at..start);
            at = size.min(u64::from(run.end) * object.block_len);
        }
    }
    missing.push(at..size);
    missing.retain(|range| !range.is_empty());
    missing
}

/// Goes on without a replica.
pub(super) fn give_up(replica: &mut Replica, standing: Standing, options: &FetchOptions) {
    if replica.is_live() {
        replica.losses += u32::from(matches!(standing, Standing::Lost(_)));
        replica.standing = standing;
        let HostError { host, reason, .. } = replica.complaint();
        options.updates.tell(Update::Lost { host, reason });
    }
}

/// How a replica stands that has sent wrong bytes for so many times.
pub(super) fn liar(at: u64) -> Standing {
    Standing::Excluded(format!("sent wrong bytes (at byte {at}), and was excluded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_has_few_pages_and_short_objects_short_nodes() {
        for (size, expected) in [
            (0, 16 << 10),
            (1, 16 << 10),
            (32 << 20, 16 << 10),
            ((32 << 20) + 1, 32 << 10),
            (10_000_000_000, 8 << 20),
        ] {
            assert_eq!(node_len(size), expected, "{size}");
            assert!(size.div_ceil(node_len(size)) <= MAX_NODES);
        }
    }
}
