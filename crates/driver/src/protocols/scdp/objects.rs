//! Objects that applications send and receive by SCDP.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use wellspring_core::{Priority, SessionId};
use wellspring_transport::scdp::{ObjectInfo, Resume, Share};
use wellspring_trust::Fingerprint;
use wellspring_wire::scdp::Mode;

use super::{Scdp, Session, Start, To};
use crate::payload::coding::Coding;
use crate::payload::geometry::Geometry;
use crate::protocol::{Opening, Side};
use crate::store::{ObjectSink, ObjectSource};
use crate::{EventSink, SessionProgress};

/// To whom an object is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recipients {
    /// One host; one of several senders if the share says so.
    One {
        /// The receiver's address.
        receiver: SocketAddr,
        /// This sender's share: [`Share::WHOLE`] in a one-to-one session.
        share: Share,
    },
    /// Several hosts that receive the same symbols.
    Many {
        /// The multicast group and port the symbols go to; without one, every symbol is sent to
        /// each member by unicast.
        group: Option<SocketAddr>,
        /// The members' own addresses, from which their pulls come.
        members: Vec<SocketAddr>,
        /// Blocks that all members have, ascending: nothing of them is sent unasked.
        held: Vec<Range<u32>>,
    },
}

/// Asks a driver to send an object.
pub struct SendObject {
    /// The session, not in use at this host.
    pub session: SessionId,
    /// What is sent.
    pub object: ObjectInfo,
    /// The object's digest (BLAKE3), announced with the first symbols.
    pub digest: [u8; 32],
    /// Where its bytes come from.
    pub source: Arc<dyn ObjectSource>,
    /// To whom.
    pub to: Recipients,
    /// Symbols pushed unasked \[packets\].
    pub initial_window: u8,
    /// Takes up an earlier sender's work; `None` for a new session.
    pub resume: Option<Resume>,
    /// Its turns among the host's other sessions; of one in the background all symbols are in the lowest class.
    pub priority: Priority,
    /// The key that it is asked by, where hosts have keys: the session's datagrams go to and come from its owner alone.
    /// `None`: whoever has the address.
    pub key: Option<Fingerprint>,
}

/// Asks a driver to expect an object.
pub struct ReceiveObject {
    /// The session, not in use at this host.
    pub session: SessionId,
    /// What is received.
    pub object: ObjectInfo,
    /// The object's digest (BLAKE3). A sender that announces another one is refused before any
    /// symbol of it is used. The bytes themselves are checked by whoever owns the sink.
    pub digest: [u8; 32],
    /// How it is sent.
    pub mode: Mode,
    /// The senders' addresses, in the order of their shares.
    pub senders: Vec<SocketAddr>,
    /// Initial window of each sender \[packets\].
    pub initial_window: u8,
    /// Where the bytes go.
    pub sink: Arc<dyn ObjectSink>,
    /// Blocks that are there already, ascending.
    pub complete: Vec<Range<u32>>,
    /// Its turns to pull among the host's other sessions.
    pub priority: Priority,
    /// The key that it is asked by, where hosts have keys: the session's datagrams go to and come from its owner alone.
    /// `None`: whoever has the address.
    pub key: Option<Fingerprint>,
}

impl SendObject {
    /// What opening its session takes.
    pub(in super::super) fn opening(self, events: EventSink) -> Opening<Scdp> {
        let SendObject {
            session,
            object,
            digest,
            source,
            to,
            initial_window,
            resume,
            priority,
            key,
        } = self;
        let (peers, group, to) = match to {
            Recipients::One { receiver, share } => (vec![receiver], None, To::One(share)),
            Recipients::Many { members, group, held } => (members, group, To::Many { held }),
        };
        let side = Side::Sending { source, group, members: Vec::new() };
        let start = Start::Send { object, to, initial_window, resume, priority };
        opening((session, key), &object, digest, (peers, side, start), events)
    }
}

impl ReceiveObject {
    /// What opening its session takes.
    pub(in super::super) fn opening(self, events: EventSink) -> Opening<Scdp> {
        let ReceiveObject {
            session,
            object,
            digest,
            mode,
            senders,
            initial_window,
            sink,
            complete,
            priority,
            key,
        } = self;
        let done = complete.iter().map(|run| (run.len() as u64, object.byte_range_of_run(run)));
        let done: Vec<(u64, Range<u64>)> = done.collect();
        let start = Start::Receive { object, mode, initial_window, complete, priority };
        let sides = (senders, Side::Receiving { sink }, start);
        let opening = opening((session, key), &object, digest, sides, events);
        for (blocks, bytes) in done {
            opening.progress.add_blocks(blocks, bytes.end - bytes.start);
        }
        opening
    }
}

fn opening(
    (session, key): (SessionId, Option<Fingerprint>),
    object: &ObjectInfo,
    digest: [u8; 32],
    (peers, side, protocol): (Vec<SocketAddr>, Side, Start),
    events: EventSink,
) -> Opening<Scdp> {
    Opening {
        session,
        geometry: Geometry::from(*object),
        coding: Coding::RaptorQ,
        peers,
        key,
        side,
        state: Session { digest, refused: Vec::new() },
        protocol,
        progress: SessionProgress::new(object.transfer_len),
        events,
    }
}
