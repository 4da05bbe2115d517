//! The seam between the driver and a protocol.
//!
//! The driver has the sockets, the clock, the peers' addresses, the blocks' bytes and the threads
//! that read, decode and write. A protocol is a state machine that knows none of them
//! ([`Endpoint`]), and what is written here: its bytes on the wire, the geometry and the code of
//! its blocks, and what an application can ask of it besides opening and cancelling sessions.

use std::error::Error;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use wellspring_core::{Endpoint, Frame, HostId, SessionId, Time};
use wellspring_trust::Fingerprint;

use crate::event::{EventSink, Failure, SessionEvent};
use crate::network::peers::PeerTable;
use crate::payload::coding::Coding;
use crate::payload::geometry::Geometry;
use crate::progress::SessionProgress;
use crate::store::{ObjectSink, ObjectSource};

/// A protocol's header as a value.
pub(crate) type Header<P> = <<P as Protocol>::Endpoint as Endpoint>::Header;
/// What its endpoint can be asked.
pub(crate) type Command<P> = <<P as Protocol>::Endpoint as Endpoint>::Command;
/// What its endpoint reports.
pub(crate) type EndpointEvent<P> = <<P as Protocol>::Endpoint as Endpoint>::Event;
/// What its sessions report to applications.
pub(crate) type Report<P> = SessionEvent<<P as Protocol>::ReceiveStats, <P as Protocol>::SendStats>;
/// Where its sessions report to.
pub(crate) type Sink<P> = EventSink<<P as Protocol>::ReceiveStats, <P as Protocol>::SendStats>;

/// A protocol that the driver can run.
///
/// # Contract
/// 1. Nothing here waits, and no datagram, however hostile, panics or makes it allocate without
///    bound: all runs on the driver's thread.
/// 2. [`KINDS`](Self::KINDS) of the protocols of one driver do not overlap.
/// 3. Payloads are symbols of blocks: [`symbol`](Self::symbol) says which one a header carries, the
///    session's [`Coding`] what it is made of. An endpoint whose code is [`Coding::Uncoded`] need
///    not ask for blocks to be finished; the driver sees when one is whole. An endpoint that does
///    ask, asks with `decode` if [`missing`](Self::missing) says which source symbols have not come.
/// 4. An endpoint reports the end of each session once, but need not if it was cancelled.
pub(crate) trait Protocol: Sized + Send + 'static {
    /// The state machine.
    type Endpoint: Endpoint<Header: Send, CommandError: Error + Send + Sync + 'static> + Send;
    /// What is kept of each session beside the driver's own record.
    type Session: Send;
    /// What opening a session needs beside the driver's part of it.
    type Opening: Send;
    /// What applications ask besides opening and cancelling sessions.
    type Call: Send;
    /// The counters of a receive session.
    type ReceiveStats: Debug + Send + 'static;
    /// The counters of a send session.
    type SendStats: Debug + Send + 'static;

    /// The kinds of its datagrams: low nibble of the first byte.
    const KINDS: RangeInclusive<u8>;
    /// Whether symbols at an object's end are filled up with zeros to the symbol size.
    const PADS: bool = true;

    /// Reads a datagram.
    ///
    /// # Errors
    /// Why it is of no use.
    fn parse<'a>(&self, datagram: &'a [u8]) -> Result<Arrived<'a, Header<Self>>, Unusable>;

    /// Block and encoding symbol id of the payload that goes with a header, if one does.
    fn symbol(header: &Header<Self>, geometry: &Geometry) -> Option<(u32, u32)>;

    /// Bytes that [`emit`](Self::emit) will write for a header that carries a symbol; 0 for others.
    fn header_len(header: &Header<Self>) -> usize;

    /// Writes a frame's header into `out`, which holds any header, and returns its length; `None`
    /// if the frame does not leave as a datagram. `session` is absent once it is over.
    fn emit(
        &self,
        frame: &Frame<Header<Self>>,
        session: Option<&mut Self::Session>,
        out: &mut [u8],
    ) -> Option<usize>;

    /// The path that a frame is to take, if its label is a path's number.
    fn path(&self, _frame: &Frame<Header<Self>>) -> u16 {
        0
    }

    /// Whether a header asks for payload.
    fn is_pull(_header: &Header<Self>) -> bool {
        false
    }

    /// Whether a header may open a session at the endpoint, and so must not reach it unless the session
    /// is open here.
    fn may_open(_header: &Header<Self>) -> bool {
        false
    }

    /// Checks a symbol from `peer` before the endpoint sees it.
    fn admit(
        _session: &mut Self::Session,
        _peer: HostId,
        _arrived: &Arrived<'_, Header<Self>>,
    ) -> Admission {
        Admission::Take
    }

    /// Has a session take no more symbols from `peer`: what the endpoint is given as if the peer
    /// had sent it, and what the peer is told. `None` if it takes none already, or cannot do that.
    fn exclude(
        _session: &mut Self::Session,
        _peer: HostId,
    ) -> Option<(Header<Self>, Header<Self>)> {
        None
    }

    /// What to do about a datagram of a session that is not open here with its sender.
    fn on_unknown(
        &mut self,
        arrived: &Arrived<'_, Header<Self>>,
        from: SocketAddr,
    ) -> Unknown<Self>;

    /// The command that opens a session, now that its peers have numbers; `None` if its endpoint
    /// opens it when it hears of it.
    fn open(
        &mut self,
        session: SessionId,
        state: &Self::Session,
        opening: Self::Opening,
        peers: &[HostId],
    ) -> Option<Command<Self>>;

    /// The command that ends a session early.
    fn cancel(session: SessionId) -> Command<Self>;

    /// What an event of the endpoint means.
    fn on_event(&mut self, event: EndpointEvent<Self>) -> Meaning<Self>;

    /// Carries out what an application asks.
    fn serve(
        &mut self,
        endpoint: &mut Self::Endpoint,
        peers: &mut PeerTable,
        now: Time,
        call: Self::Call,
    ) -> Action<Self>;

    /// A session is over, or was refused; its number is free.
    fn on_closed(&mut self, _session: SessionId) {}

    /// Of the session that a symbol is sent in: the lowest block that may still be wanted, if the
    /// endpoint can tell.
    fn floor(_endpoint: &mut Self::Endpoint, _symbol: &Frame<Header<Self>>) -> Option<u32> {
        None
    }

    /// So many symbols of the session of `symbol` wait for their blocks that no more are wanted for now, or are again.
    fn pause(
        _endpoint: &mut Self::Endpoint,
        _now: Time,
        _symbol: &Frame<Header<Self>>,
        _is_paused: bool,
    ) {
    }

    /// A symbol that waited for its block has gone out.
    fn left_late(_endpoint: &mut Self::Endpoint, _now: Time, _symbol: &Frame<Header<Self>>) {}

    /// Source symbols of a block that have not come, ascending, into `missing`.
    fn missing(
        _endpoint: &Self::Endpoint,
        _session: SessionId,
        _sbn: u32,
        _missing: &mut Vec<u32>,
    ) {
    }

    /// The length to which a trimming switch would cut a datagram, if it is one that is trimmed;
    /// for trouble made on purpose.
    fn trimmed_len(_datagram: &[u8]) -> Option<usize> {
        None
    }
}

/// A datagram, understood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a, H> {
    pub session: SessionId,
    pub header: H,
    pub payload: &'a [u8],
    /// The payload is shorter than announced.
    pub trimmed: bool,
    /// The digest of the object that it announces.
    pub digest: Option<&'a [u8; 32]>,
}

/// Why a datagram is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unusable {
    /// Not one of the protocol's.
    Malformed,
    /// Of no session here.
    UnknownSession,
}

/// Whether a symbol may pass to the endpoint.
pub(crate) enum Admission {
    Take,
    /// Not used: its sender was refused before.
    Refused,
    /// Not used: it announces other bytes, and so its sender is to be [excluded](Protocol::exclude), if it is its sender's.
    Other {
        /// The digest that it announces.
        announced: [u8; 32],
    },
}

/// What to do about a datagram of a session that is not open.
pub(crate) enum Unknown<P: Protocol> {
    Ignore,
    /// Answer it, within the budget for strangers.
    Answer(Header<P>),
    /// Open this session with its sender, and then give the datagram to the endpoint.
    Open(Box<Opening<P>>),
}

/// What an event of an endpoint means.
pub(crate) enum Meaning<P: Protocol> {
    /// Nothing that applications are told.
    Nothing,
    /// A session succeeded. `senders` are in the order of the counters, if they list any.
    Received { session: SessionId, stats: P::ReceiveStats, senders: Vec<HostId> },
    /// A session succeeded.
    Sent { session: SessionId, stats: P::SendStats },
    /// A session ended otherwise; a failure on this side counts before this.
    Failed { session: SessionId, failure: Failure },
    /// Something about a session as a whole.
    Session { session: SessionId, report: Report<P> },
    /// Something about one peer of a session.
    Peer {
        session: SessionId,
        peer: HostId,
        /// It takes a group's symbols no more.
        leaves: bool,
        report: PeerReport<P>,
    },
}

/// What is reported about a peer, given its address; `None` if this is known already.
pub(crate) type PeerReport<P> =
    Box<dyn FnOnce(SocketAddr, &mut <P as Protocol>::Session, HostId) -> Option<Report<P>>>;

/// What follows from a call.
pub(crate) enum Action<P: Protocol> {
    Nothing,
    /// Give the endpoint this command. That it is refused has been told by an event, or will be.
    Command(Command<P>),
    /// Give the endpoint this frame, as if the session's first peer had sent it.
    Frame(SessionId, Header<P>),
}

/// What opening a session takes.
pub(crate) struct Opening<P: Protocol> {
    /// The session, not in use here.
    pub session: SessionId,
    pub geometry: Geometry,
    pub coding: Coding,
    /// Every host that it names.
    pub peers: Vec<SocketAddr>,
    /// Whose it is: its datagrams go to and come from the owner of that key alone.
    pub key: Option<Fingerprint>,
    pub side: Side,
    /// What the protocol keeps of it.
    pub state: P::Session,
    /// What the protocol's command needs.
    pub protocol: P::Opening,
    pub progress: SessionProgress,
    pub events: Sink<P>,
}

/// Which side of a session this host is.
pub(crate) enum Side {
    Sending {
        source: Arc<dyn ObjectSource>,
        /// The multicast group, if there is one.
        group: Option<SocketAddr>,
        /// Members that still take the group's symbols, for copies without multicast.
        members: Vec<HostId>,
    },
    Receiving {
        sink: Arc<dyn ObjectSink>,
    },
}

impl Side {
    /// Sends to one host.
    pub(crate) fn sending(source: Arc<dyn ObjectSource>) -> Self {
        Side::Sending { source, group: None, members: Vec::new() }
    }
}
