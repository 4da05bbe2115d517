//! Commands of the application to an SCDP endpoint.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use wellspring_core::{Class, Duration, GroupId, HostId, Priority, SessionId};
use wellspring_wire::scdp::{Mode, Options};

/// The object of a session, as RFC 6330 partitions it, or in blocks of one length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectInfo {
    /// Object length F \[bytes\], 1 or more.
    pub transfer_len: u64,
    /// First eight bytes of the object's digest (see [`Options::object_tag`]).
    pub object_tag: u64,
    /// Symbol size T \[bytes\].
    pub symbol_size: u16,
    /// Number of source blocks Z.
    pub source_blocks: u32,
    /// Length of every block but the last \[bytes\]; the last symbol of each is filled up with zeros.
    /// 0: RFC 6330 partitions the object into blocks of about the same length.
    pub block_len: u64,
}

impl ObjectInfo {
    /// Cuts an object into blocks of at most `symbols_per_block` symbols (block pipelining,
    /// SCDP §IV-F; §V uses 100). Arguments of 0 count as 1.
    pub fn new(
        transfer_len: u64,
        symbol_size: u16,
        symbols_per_block: u32,
        object_tag: u64,
    ) -> Self {
        let transfer_len = transfer_len.max(1);
        let symbol_size = symbol_size.max(1);
        let symbols = transfer_len.div_ceil(u64::from(symbol_size));
        let blocks = symbols.div_ceil(u64::from(symbols_per_block.max(1)));
        let source_blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        ObjectInfo { transfer_len, object_tag, symbol_size, source_blocks, block_len: 0 }
    }

    /// Cuts an object into blocks of `block_len` bytes, so that each is one subtree of the object's
    /// digest and can be verified by itself. Arguments of 0 count as 1.
    pub fn in_blocks_of(
        block_len: u64,
        transfer_len: u64,
        symbol_size: u16,
        object_tag: u64,
    ) -> Self {
        let (block_len, transfer_len) = (block_len.max(1), transfer_len.max(1));
        let blocks = transfer_len.div_ceil(block_len);
        let source_blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let symbol_size = symbol_size.max(1);
        ObjectInfo { transfer_len, object_tag, symbol_size, source_blocks, block_len }
    }

    /// Whether a `syn` symbol announces this object; how its blocks are cut is not said there.
    pub fn is_announced_by(&self, options: &Options) -> bool {
        let announced = ObjectInfo::from_options(options);
        ObjectInfo { block_len: self.block_len, ..announced } == *self
    }

    /// What a `syn` symbol announced.
    pub fn from_options(options: &Options) -> Self {
        ObjectInfo {
            transfer_len: options.transfer_len,
            object_tag: options.object_tag,
            symbol_size: options.symbol_size,
            source_blocks: options.source_blocks,
            block_len: 0,
        }
    }

    /// Source symbols of the whole object, Kt (RFC 6330 §4.4.1.2).
    pub fn total_symbols(&self) -> u64 {
        if self.block_len > 0 {
            return self.first_symbol_of_block(self.source_blocks);
        }
        self.transfer_len.div_ceil(u64::from(self.symbol_size))
    }

    /// Bytes of a block, of an object in blocks of one length.
    fn len_of_block(&self, sbn: u32) -> u64 {
        let first = u64::from(sbn).saturating_mul(self.block_len);
        self.block_len.min(self.transfer_len.saturating_sub(first))
    }

    /// Source symbols K of that block: `Partition[Kt, Z]` (RFC 6330 §4.4.1.2); 0 beyond the last.
    pub fn symbols_in_block(&self, sbn: u32) -> u32 {
        if sbn >= self.source_blocks {
            return 0;
        }
        if self.block_len > 0 {
            return self.len_of_block(sbn).div_ceil(self.symbol_size.into()) as u32;
        }
        let (total, blocks) = (self.total_symbols(), u64::from(self.source_blocks));
        let long_blocks = total % blocks;
        (total / blocks + u64::from(u64::from(sbn) < long_blocks)) as u32
    }

    /// First source symbol of that block, counted over the object.
    pub fn first_symbol_of_block(&self, sbn: u32) -> u64 {
        if self.block_len > 0 {
            let last = self.source_blocks.saturating_sub(1);
            let whole = u64::from(sbn.min(last)) * u64::from(self.symbols_in_block(0));
            return whole + if sbn > last { self.symbols_in_block(last).into() } else { 0 };
        }
        let (total, blocks) = (self.total_symbols(), u64::from(self.source_blocks));
        let (short, long_blocks) = (total / blocks, total % blocks);
        u64::from(sbn) * short + u64::from(sbn).min(long_blocks)
    }

    /// First byte and length of that block in the object; the last block may end short of a
    /// whole symbol.
    pub fn byte_range_of_block(&self, sbn: u32) -> (u64, u64) {
        if self.block_len > 0 {
            let first = u64::from(sbn).saturating_mul(self.block_len).min(self.transfer_len);
            return (first, self.len_of_block(sbn));
        }
        let size = u64::from(self.symbol_size);
        let first = self.first_symbol_of_block(sbn) * size;
        let len = u64::from(self.symbols_in_block(sbn)) * size;
        (first, len.min(self.transfer_len.saturating_sub(first)))
    }

    /// The bytes of some blocks that follow each other; none where the run is empty.
    pub fn byte_range_of_run(&self, run: &Range<u32>) -> Range<u64> {
        let start = self.byte_range_of_block(run.start).0;
        if run.is_empty() {
            return start..start;
        }
        let (last, len) = self.byte_range_of_block(run.end - 1);
        start..last + len
    }
}

/// Blocks that an initial window may reach into. Receivers need as many open.
const PUSHED_BLOCKS: u32 = 8;

/// A sender's share of the stream of symbols: the ESIs that are `index` modulo `count`, so that
/// senders of one many-to-one session never send the same symbol (SCDP §IV-E).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// This sender's index, below `count`.
    pub index: u8,
    /// Number of senders.
    pub count: u8,
}

impl Share {
    /// All of it.
    pub const WHOLE: Share = Share { index: 0, count: 1 };

    /// Symbols a sender with this share pushes unasked when `window` is its initial window: no
    /// more than its source symbols of the first blocks.
    pub fn initial_window(self, object: &ObjectInfo, window: u8) -> u32 {
        let first = (0..object.source_blocks.min(PUSHED_BLOCKS))
            .map(|sbn| self.source_symbols(object.symbols_in_block(sbn)));
        first.fold(0, u32::saturating_add).min(u32::from(window))
    }

    /// The block that the `number`th symbol pushed unasked belongs to, counted from 1: the source
    /// symbols of the first blocks in their order, then more of the first. Both ends know it.
    pub fn pushed_block(self, object: &ObjectInfo, number: u32) -> u32 {
        self.pushed_symbol(object, number).0
    }

    /// That symbol: its block, and its ESI.
    pub fn pushed_symbol(self, object: &ObjectInfo, number: u32) -> (u32, u32) {
        let esi = |place: u32| {
            place.saturating_mul(u32::from(self.count.max(1))).saturating_add(self.index.into())
        };
        let mut left = number;
        for sbn in 0..object.source_blocks.min(PUSHED_BLOCKS) {
            let own = self.source_symbols(object.symbols_in_block(sbn));
            if left <= own {
                return (sbn, esi(left.saturating_sub(1)));
            }
            left -= own;
        }
        let own = self.source_symbols(object.symbols_in_block(0));
        (0, esi(own.saturating_add(left).saturating_sub(1)))
    }

    /// How many of a block's `k` source symbols belong to this share.
    pub fn source_symbols(self, k: u32) -> u32 {
        k.saturating_sub(u32::from(self.index)).div_ceil(u32::from(self.count.max(1)))
    }
}

/// Where a sender takes up a session that an earlier life of it, or a group, had begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resume {
    /// Numbering epoch, greater than any used between these two hosts in this session.
    pub epoch: u8,
    /// The receiver has all blocks below.
    pub floor: u32,
    /// Blocks below this one may have been served in part: only fresh repair symbols are sent.
    pub horizon: u32,
}

/// The receivers of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// To one host; one of several senders if the share says so.
    Unicast {
        /// The receiver.
        receiver: HostId,
        /// This sender's share: [`Share::WHOLE`] in a one-to-one session.
        share: Share,
    },
    /// To the members of a group.
    OneToMany {
        /// The multicast group.
        group: GroupId,
        /// Its members that must pull, at most 255.
        members: Vec<HostId>,
        /// Blocks that all members have, ascending: nothing of them is sent unasked.
        held: Vec<Range<u32>>,
    },
}

impl Role {
    /// The transfer mode announced.
    pub fn mode(&self) -> Mode {
        match self {
            Role::Unicast { share, .. } if share.count > 1 => Mode::ManyToOne,
            Role::Unicast { .. } => Mode::Unicast,
            Role::OneToMany { .. } => Mode::OneToMany,
        }
    }
}

/// Opens a session as a sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendSession {
    /// The session, not in use here.
    pub session: SessionId,
    /// What is sent.
    pub object: ObjectInfo,
    /// The receiver or receivers.
    pub role: Role,
    /// Symbols pushed unasked, w \[packets\] (SCDP §V: 12; 6 a sender in many-to-one).
    pub initial_window: u8,
    /// All symbols in this data class (1 is served first) instead of MLFQ's. Control packets keep class 0.
    pub class: Option<Class>,
    /// Its turns among the host's other sessions. Of one in the background all symbols are in the lowest class (SCDP §V-A)
    /// unless `class` says another.
    pub priority: Priority,
    /// Takes up an earlier sender's work; `None` for a new session.
    pub resume: Option<Resume>,
}

/// Announces a session to its receiver, who then knows the object and its senders before the
/// first symbol (and asks senders that stay silent).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiveSession {
    /// The session, not in use here.
    pub session: SessionId,
    /// What is received.
    pub object: ObjectInfo,
    /// How it is sent. Many-to-one with one sender is for a sender by several paths, which are
    /// [added](Command::AddPath) later.
    pub mode: Mode,
    /// The senders, in the order of their shares.
    pub senders: Vec<HostId>,
    /// Initial window of each sender \[packets\].
    pub initial_window: u8,
    /// Blocks that are there already, ascending: none of their symbols is asked for.
    pub complete: Vec<Range<u32>>,
    /// Its turns to pull among the host's other sessions. A group, whose other members would wait, is never in the
    /// background.
    pub priority: Priority,
}

/// What the application asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Open a session as a sender.
    Send(SendSession),
    /// Expect a session as a receiver.
    Receive(ReceiveSession),
    /// A sender given up for lost is back, numbering in a new epoch.
    SenderBack {
        /// The session.
        session: SessionId,
        /// The sender.
        sender: HostId,
        /// The epoch of its [`Resume`].
        epoch: u8,
    },
    /// A session may use another path to one of its peers: both ends are told, or those that were not drop
    /// what comes by it. A path that is there already stays as it is.
    AddPath {
        /// The session.
        session: SessionId,
        /// The peer.
        peer: HostId,
        /// The path: 1 and above, below [`Config::paths`](super::Config::paths).
        path: u16,
    },
    /// Has a session wait for a silent peer for so long instead of
    /// [`Config::peer_timeout`](super::Config::peer_timeout), because its peer waits as long.
    Wait {
        /// The session.
        session: SessionId,
        /// The longest silence.
        peer_timeout: Duration,
        /// Of a receive session: whether it outlives for so long that all its senders have closed
        /// it, so that one can be won back ([`SenderBack`](Command::SenderBack)).
        win_back: bool,
    },
    /// Take a receiver out of its group, and serve it by unicast from now on: it does not want the group's symbols. Of
    /// no effect if it has been taken out, or is gone.
    Detach {
        /// The session.
        session: SessionId,
        /// The receiver.
        receiver: HostId,
    },
    /// End a session and notify the peers.
    Cancel {
        /// The session.
        session: SessionId,
    },
}

/// Why a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CommandError {
    /// A session of that number is open.
    SessionInUse(SessionId),
    /// No session of that number is open.
    NoSuchSession(SessionId),
    /// The session has no such sender.
    NoSuchSender(HostId),
    /// The session has no such receiver.
    NoSuchReceiver(HostId),
    /// A limit of the configuration would be passed.
    OverLimit {
        /// Which.
        what: &'static str,
        /// What was asked for.
        got: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The command contradicts itself.
    Invalid(&'static str),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::SessionInUse(s) => write!(f, "{s:?} is in use"),
            CommandError::NoSuchSession(s) => write!(f, "{s:?} is not open"),
            CommandError::NoSuchSender(h) => write!(f, "host {} is no sender of it", h.0),
            CommandError::NoSuchReceiver(h) => write!(f, "host {} is no receiver of it", h.0),
            CommandError::OverLimit { what, got, limit } => {
                write!(f, "{what} is {got}, the limit {limit}")
            }
            CommandError::Invalid(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for CommandError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_tile_the_object(len in 1_u64..10_000_000, size in 1_u16..2_000, k in 1_u32..300) {
            let object = ObjectInfo::new(len, size, k, 0);
            let mut next = 0;
            for sbn in 0..object.source_blocks {
                let (first, bytes) = object.byte_range_of_block(sbn);
                prop_assert_eq!(first, next);
                prop_assert!(object.symbols_in_block(sbn) <= k);
                prop_assert_eq!(
                    bytes.div_ceil(u64::from(size)),
                    u64::from(object.symbols_in_block(sbn))
                );
                next += bytes;
            }
            prop_assert_eq!(next, len);
            prop_assert_eq!(object.symbols_in_block(object.source_blocks), 0);
        }

        #[test]
        fn blocks_of_one_length_tile_the_object(
            len in 1_u64..10_000_000, size in 1_u16..2_000, block in 1_u64..400_000,
        ) {
            let object = ObjectInfo::in_blocks_of(block, len, size, 0);
            let (mut next, mut symbols) = (0, 0);
            for sbn in 0..object.source_blocks.min(1_000) {
                let (first, bytes) = object.byte_range_of_block(sbn);
                prop_assert_eq!(first, next);
                prop_assert_eq!(object.first_symbol_of_block(sbn), symbols);
                prop_assert_eq!(bytes.div_ceil(size.into()), object.symbols_in_block(sbn).into());
                prop_assert!(bytes == block || sbn + 1 == object.source_blocks);
                next += bytes;
                symbols += u64::from(object.symbols_in_block(sbn));
            }
            if object.source_blocks <= 1_000 {
                prop_assert_eq!((next, symbols), (len, object.total_symbols()));
            }
            prop_assert_eq!(object.symbols_in_block(object.source_blocks), 0);
        }
    }
}
