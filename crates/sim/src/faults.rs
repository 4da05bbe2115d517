//! Failures and repairs during a run.

use crate::topology::NodeId;

/// A failure or a repair. Packets queued at, or travelling on, what fails are lost. A link works while neither it nor a node
/// at its ends is failed; a repair takes back all failures of what it names, and of nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// All links between two nodes fail, both ways.
    LinkDown(NodeId, NodeId),
    /// They are repaired.
    LinkUp(NodeId, NodeId),
    /// A node stops: all its links fail.
    NodeDown(NodeId),
    /// It is back.
    NodeUp(NodeId),
}
