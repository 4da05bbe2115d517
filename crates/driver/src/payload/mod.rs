//! Payload of sessions: blocks that arrive and blocks to send, how they are cut and coded, and the workers.

pub(crate) mod codecs;
pub(crate) mod coding;
pub(crate) mod culprit;
pub(crate) mod geometry;
pub(crate) mod key;
pub(crate) mod receive_store;
pub(crate) mod send_store;
pub(crate) mod worker;
