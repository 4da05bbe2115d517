//! Networks: hosts, switches and the links between them.

mod fat_tree;
mod file;
mod graph;
mod regular;

pub use fat_tree::FatTree;
pub use file::GraphError;
pub(crate) use graph::Directed;
pub use graph::{EgressId, Graph, Link, NodeId};
pub use regular::{dumbbell, single_switch};
