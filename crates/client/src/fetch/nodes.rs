//! Nodes of an object's hash tree as blocks of any length and order make them whole.

use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::sink::Arriving;
use crate::store::ObjectSink;

/// Writes blocks, and tells which nodes have become whole by them. Each byte comes once.
pub(super) struct Nodes {
    to: Arriving,
    node_len: u64,
    /// Nodes that are right: what comes of them is not written.
    known: Vec<bool>,
    /// Bytes that are missing of each node.
    missing: Mutex<Vec<u64>>,
    whole: mpsc::UnboundedSender<u64>,
}

impl Nodes {
    /// Nothing has come yet of an object. Beginnings of nodes that become whole and are not known come by the channel.
    pub(super) fn new(
        to: Arriving,
        size: u64,
        node_len: u64,
        known: Vec<bool>,
    ) -> (Self, mpsc::UnboundedReceiver<u64>) {
        // One message a node.
        let (whole, becomes_whole) = mpsc::unbounded_channel();
        let starts = (0..size).step_by(node_len as usize);
        let missing = Mutex::new(starts.map(|start| node_len.min(size - start)).collect());
        (Nodes { to, node_len, known, missing, whole }, becomes_whole)
    }
}

impl ObjectSink for Nodes {
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        let pieces = pieces(offset, block.len() as u64, self.node_len);
        for (node, start, len) in pieces.clone() {
            if !self.known.get(node).copied().unwrap_or(false) {
                let at = (start - offset) as usize;
                self.to.write_block(start, &block[at..at + len as usize])?;
            }
        }
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        for (node, _, len) in pieces {
            let Some(left) = missing.get_mut(node) else { continue };
            *left = left.saturating_sub(len);
            if *left == 0 && !self.known[node] {
                // Nobody listens when the fetch has been dropped.
                let _ = self.whole.send(node as u64 * self.node_len);
            }
        }
        Ok(())
    }
}

/// The pieces of a block by nodes: number of the node, beginning and length \[bytes\].
fn pieces(offset: u64, len: u64, node_len: u64) -> impl Iterator<Item = (usize, u64, u64)> + Clone {
    let end = offset + len;
    let nodes = offset / node_len..end.div_ceil(node_len);
    nodes.map(move |node| {
        let start = offset.max(node * node_len);
        (node as usize, start, end.min((node + 1) * node_len) - start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Digest, ScratchFile};
    use std::sync::Arc;

    #[test]
    fn nodes_become_whole_by_blocks_in_any_order_and_known_ones_are_not_written() {
        let digest = Digest([0; 32]);
        let scratch = Arc::new(ScratchFile::of_verified(2_500, digest).expect("memory"));
        let to = Arriving::Scratch(Arc::clone(&scratch));
        let (nodes, mut whole) = Nodes::new(to, 2_500, 1_000, vec![false, true, false]);
        let mut told = || std::iter::from_fn(|| whole.try_recv().ok()).collect::<Vec<_>>();
        nodes.write_block(1_800, &[3; 700]).expect("written");
        assert_eq!(told(), [2_000]);
        nodes.write_block(0, &[1; 600]).expect("written");
        assert_eq!(told(), []);
        nodes.write_block(600, &[2; 1_200]).expect("written");
        assert_eq!(told(), [0]);
        let mut bytes = vec![9; 2_500];
        scratch.read_at(0, &mut bytes).expect("read");
        let of = |byte: u8, count: usize| std::iter::repeat_n(byte, count);
        let expected: Vec<u8> =
            of(1, 600).chain(of(2, 400)).chain(of(0, 1_000)).chain(of(3, 500)).collect();
        assert!(bytes == expected);
        assert_eq!(*scratch.contiguous().borrow(), 0, "nothing counts before it is verified");
    }
}
