//! Trust without I/O: identities and rights, handshakes, sealed datagrams.
//!
//! Nothing here is cryptography of our own. The handshake is Noise (revision 34) by `snow`: IK where the
//! keys of hosts are pinned, `NNpsk0` where hosts share a cluster key. Datagrams are sealed by AES-128-GCM
//! or, where the processor has no instructions for it, ChaCha20-Poly1305, both of `aws-lc-rs`. What is left
//! of a datagram that a switch has trimmed is authenticated by SipHash-2-4 over its header.
//!
//! A [`Channel`] is what a handshake leaves: keys for each direction between two addresses.
//! [`Channels`] is a host's table of them: it opens every datagram that comes in and seals every one
//! that leaves. It takes no clock and no socket: time is an argument, and datagrams are byte slices.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod channel;
mod channels;
mod counters;
mod direction;
mod entry;
mod files;
mod gate;
mod groups;
mod handshake;
mod key;
mod keyring;
mod layout;
mod messages;
mod quota;
mod replay;
mod rights;
mod stream;

pub use channel::{Channel, ChannelId, Via};
pub use channels::{Channels, NoWay, Opened, without_keys};
pub use counters::TrustCounters;
pub use direction::{HEADROOM, MAX_OVERHEAD, Shape, Suite};
pub use files::{
    BadLine, cluster_from_text, cluster_to_text, peer_to_line, peers_from_text, private_from_text,
    private_to_text,
};
pub use groups::GroupKey;
pub use handshake::{Initiator, Refusal, Responder};
pub use key::{BadKey, ClusterKey, Fingerprint, PrivateKey, PublicKey};
pub use keyring::{Identity, Keyring, Peer};
pub use layout::{REFUSAL, REFUSAL_LEN};
pub use messages::{MAX_STREAM_MESSAGE_LEN, Opener, STREAM_OVERHEAD, Sealer};
pub use quota::Quota;
pub use rights::{EmptyFolder, Folders, Rights};
pub use stream::{
    Answered, Greeted, MAX_HANDSHAKE_LEN, StreamGreeting, StreamTrouble, answer_greeting,
};
