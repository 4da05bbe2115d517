//! Lengths of what keys add to a datagram, for those who seal it and for those who simulate it.
//!
//! ```text
//! header, clear | header tag (8) | channel and counter (8) | payload, encrypted | tag (16)
//! ```

/// The tag that authenticates a header in clear: a trimming switch leaves the header and this \[bytes\].
pub const HEADER_TAG_LEN: usize = 8;
/// The channel's byte and the counter \[bytes\].
pub const COUNTER_LEN: usize = 8;
/// The tag of the cipher, over everything \[bytes\].
pub const TAG_LEN: usize = 16;
/// What sealing adds to a datagram \[bytes\].
pub const OVERHEAD: usize = HEADER_TAG_LEN + COUNTER_LEN + TAG_LEN;
