//! LTTP on the driver.
//!
//! - Datagrams carry symbols, reports and hellos. The control channel is a TCP connection a session, on
//!   the port of the server's datagrams; [`LttpHandle`] stands between it and the endpoint.
//! - A session is named by a cookie that its server sends by TCP. Symbols go to the address from
//!   which the cookie comes by UDP, if that is the host at the other end of the TCP connection. So
//!   a client cannot make a server flood a third party.
//! - Where hosts have keys, the connection begins with a handshake of its own and then carries sealed messages, so the
//!   cookie is secret; datagrams are sealed by the channel of their addresses, as those of all protocols.
//! - The end of the TCP connection is the end of the session.

pub mod connection;
pub mod control;
pub mod keys;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tokio::sync::{mpsc, oneshot};
use wellspring_codec::lt::{LtError, MAX_SOURCE_SYMBOLS, Method};
use wellspring_core::{Duration, Frame, HostId, SessionId, Time};
use wellspring_transport::lttp::{
    self, Command, Event, LttpHeader, Parameters, ReceiveStats, SendStats,
};
use wellspring_transport::tfrc::{self, Stamp};
use wellspring_trust::Fingerprint;
use wellspring_wire::lttp::{
    self as wire, Cookie, Datagram, KINDS, SYMBOL_HEADER_LEN, emit_header, parse,
};

use crate::canonical;
use crate::network::peers::PeerTable;
use crate::payload::coding::{Coding, LtCoding};
use crate::payload::geometry::Geometry;
use crate::protocol::{
    Action, Arrived, Meaning, Opening, Protocol, Report, Side, Unknown, Unusable,
};
use crate::store::{ObjectSink, ObjectSource};
use crate::{Builder, DriverConfig, EachLoop, ProtocolHandle, SessionProgress};

/// The robust soliton's constants (LTTP §V-A); both ends must have the same.
const SOLITON: (f64, f64) = (0.2, 0.7);
/// Symbols a decoder keeps for each source symbol. Belief propagation needs less than twice as
/// many, the standard decoder up to 75 times (see the book's page on LT codes) but keeps only
/// those it can use.
const ROOM_FACTOR: u32 = 8;
/// Longest block \[bytes\].
const MAX_BLOCK_LEN: u64 = 8 << 20;
/// Messages that wait for a connection, at most: a peer that does not take them is considered gone.
const MAX_WAITING: usize = 64;

/// Whether both ends can work with blocks of that geometry: bounded memory, a code that exists.
pub fn is_possible(geometry: &wire::Geometry) -> bool {
    let wire::Geometry { symbol_size, block_symbols } = *geometry;
    let block = u64::from(symbol_size) * u64::from(block_symbols);
    block_symbols <= MAX_SOURCE_SYMBOLS && block <= MAX_BLOCK_LEN
}

/// Adds LTTP to a driver.
pub(super) fn add(builder: &mut Builder, config: &DriverConfig) -> ProtocolHandle<Lttp> {
    let config = lttp::Config { host: HostId(0), ..config.lttp.clone() };
    builder.add(Lttp::default(), lttp::Endpoint::new(config))
}

/// A contiguous part of an object, how it is cut, and its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where it begins in the object \[bytes\].
    pub offset: u64,
    /// How it is cut.
    pub parameters: Parameters,
    /// The code's seed.
    pub seed: u64,
}

impl Part {
    /// What opening a session of it takes, beside its peers.
    fn opening(
        &self,
        session: (SessionId, Cookie),
        side: Side,
        start: Start,
        (method, progress): (Method, SessionProgress),
        events: mpsc::Sender<ConnectionEvent>,
        protocol: ProtocolHandle<Lttp>,
    ) -> Result<Opening<Lttp>, LtError> {
        let Parameters { transfer_len, symbol_size, block_symbols } = self.parameters;
        let geometry = Geometry::in_order(self.offset, transfer_len, symbol_size, block_symbols);
        let code = LtCoding::new(&geometry, SOLITON, self.seed, method, ROOM_FACTOR)?;
        let (session, cookie) = session;
        let reports = events.clone();
        Ok(Opening {
            session,
            geometry,
            coding: Coding::Lt(Arc::new(code)),
            peers: Vec::new(),
            key: None,
            side,
            state: Session { cookie, connection: events, said: None },
            protocol: start,
            progress,
            events: Box::new(move |report| {
                // A connection that takes no more ends its session; its task sees the channel's end.
                if reports.try_send(ConnectionEvent::Report(report)).is_err() {
                    let _ = protocol.cancel(session);
                }
            }),
        })
    }
}

/// Events of a session for the task of its connection. The session is over when the channel closes.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// The client of an offer has said hello.
    Begun,
    /// Send this to the peer.
    Say(LttpHeader),
    /// What became of the session.
    Report(Report<Lttp>),
}

/// A way to LTTP's endpoint, or to those of several loops.
#[derive(Clone)]
pub struct LttpHandle {
    loops: EachLoop<ProtocolHandle<Lttp>>,
    /// The next session's number.
    next: Arc<AtomicU32>,
}

/// A session, until its connection's task lets go of it.
pub struct LttpSession {
    progress: SessionProgress,
    messages: Messages,
    events: mpsc::Receiver<ConnectionEvent>,
}

/// The way of a connection's messages to its session.
pub(crate) struct Messages {
    protocol: ProtocolHandle<Lttp>,
    session: SessionId,
}

impl LttpHandle {
    pub(super) fn new(loops: EachLoop<ProtocolHandle<Lttp>>) -> Self {
        LttpHandle { loops, next: Arc::default() }
    }

    /// Holds a part of an object ready for the client that comes from `peer` with that cookie, and for the owner of
    /// the key that it is asked by alone, where hosts have keys. When the client is silent it is waited for for so long.
    ///
    /// # Errors
    /// The code is not possible.
    pub fn offer(
        &self,
        cookie: Cookie,
        (peer, key): (IpAddr, Option<Fingerprint>),
        part: &Part,
        (source, peer_timeout): (Arc<dyn ObjectSource>, Duration),
    ) -> Result<LttpSession, LtError> {
        let side = Side::sending(source);
        let start = Start::Offer(part.parameters, peer_timeout);
        let progress = SessionProgress::new(part.parameters.transfer_len);
        let protocol = self.loops.at(peer);
        let decoding = (Method::Improved, progress);
        let (session, mut opening) =
            self.opening((protocol, cookie), part, side, start, decoding)?;
        opening.key = key;
        // A driver that has stopped drops the call, and so closes the channel.
        let _ = protocol.call(Call::Offer { peer, opening: Box::new(opening) });
        Ok(session)
    }

    /// Expects a part that a server has granted under that cookie.
    ///
    /// # Errors
    /// The code is not possible.
    pub fn expect(
        &self,
        cookie: Cookie,
        server: SocketAddr,
        part: &Part,
        sink: Arc<dyn ObjectSink>,
        decoding: (Method, SessionProgress),
    ) -> Result<LttpSession, LtError> {
        let side = Side::Receiving { sink };
        let start = Start::Request { symbol_size: part.parameters.symbol_size };
        let protocol = self.loops.of(server);
        let (session, mut opening) =
            self.opening((protocol, cookie), part, side, start, decoding)?;
        opening.peers.push(server);
        let _ = protocol.open(opening);
        Ok(session)
    }

    fn opening(
        &self,
        (protocol, cookie): (&ProtocolHandle<Lttp>, Cookie),
        part: &Part,
        side: Side,
        start: Start,
        decoding: (Method, SessionProgress),
    ) -> Result<(LttpSession, Opening<Lttp>), LtError> {
        let id = SessionId(self.next.fetch_add(1, Relaxed));
        let (sender, events) = mpsc::channel(MAX_WAITING);
        let progress = decoding.1.clone();
        let of_it = protocol.clone();
        let opening = part.opening((id, cookie), side, start, decoding, sender, of_it)?;
        let messages = Messages { protocol: protocol.clone(), session: id };
        Ok((LttpSession { progress, messages, events }, opening))
    }
}

impl LttpSession {
    /// How far it is.
    pub fn progress(&self) -> &SessionProgress {
        &self.progress
    }

    /// Ends it. From then on nothing of it is written any more.
    pub async fn end(&mut self) {
        self.messages.close();
        while self.events.recv().await.is_some() {}
    }
}

impl Messages {
    /// Gives the endpoint a message of the control channel, and waits until it has it: so a peer
    /// cannot say more than is listened to. False if the driver has stopped.
    pub(crate) async fn take(&self, header: LttpHeader) -> bool {
        let (taken, done) = oneshot::channel();
        let call = Call::Control { session: self.session, header, taken };
        self.protocol.call(call).is_ok() && done.await.is_ok()
    }

    /// The connection is closed: so is the session, unless all that is left is writing.
    pub(crate) fn close(&self) {
        // A session that is over, or a driver that has stopped, is what is asked for.
        let _ = self.protocol.call(Call::Withdraw(self.session));
        let _ = self.protocol.cancel(self.session);
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.close();
    }
}

/// LTTP, to the driver. A session has a number of this host's; on the wire it has a cookie.
#[derive(Default)]
pub(crate) struct Lttp {
    by_cookie: BTreeMap<Cookie, SessionId>,
    cookies: BTreeMap<SessionId, Cookie>,
    /// Offers whose clients have not said hello.
    offers: BTreeMap<SessionId, Offer>,
}

struct Offer {
    /// The host at the other end of the TCP connection.
    peer: IpAddr,
    opening: Box<Opening<Lttp>>,
}

/// What is kept of a session.
pub(crate) struct Session {
    cookie: Cookie,
    connection: mpsc::Sender<ConnectionEvent>,
    /// The last message sent. TCP delivers it, so the endpoint's repetitions of it are left out.
    said: Option<LttpHeader>,
}

/// The side that is begun.
pub(crate) enum Start {
    Offer(Parameters, Duration),
    Request { symbol_size: u16 },
}

/// What connections ask.
pub(crate) enum Call {
    /// Hold this ready for the client that comes from `peer`.
    Offer { peer: IpAddr, opening: Box<Opening<Lttp>> },
    /// It is not to be held ready any more.
    Withdraw(SessionId),
    /// A message came by the control channel.
    Control { session: SessionId, header: LttpHeader, taken: oneshot::Sender<()> },
}

impl Lttp {
    /// Makes a session known by its cookie, unless another one is.
    fn name(&mut self, session: SessionId, cookie: Cookie) {
        self.by_cookie.entry(cookie).or_insert(session);
        self.cookies.insert(session, cookie);
    }
}

impl Protocol for Lttp {
    type Endpoint = lttp::Endpoint;
    type Session = Session;
    type Opening = Start;
    type Call = Call;
    type ReceiveStats = ReceiveStats;
    type SendStats = SendStats;

    const KINDS: std::ops::RangeInclusive<u8> = KINDS;

    fn parse<'a>(&self, datagram: &'a [u8]) -> Result<Arrived<'a, LttpHeader>, Unusable> {
        let (cookie, datagram) = parse(datagram).map_err(|_| Unusable::Malformed)?;
        let session = *self.by_cookie.get(&cookie).ok_or(Unusable::UnknownSession)?;
        let (header, payload) = header_of(&datagram);
        Ok(Arrived { session, header, payload, trimmed: false, digest: None })
    }

    fn symbol(header: &LttpHeader, _: &Geometry) -> Option<(u32, u32)> {
        match header {
            LttpHeader::Symbol { sbn, esi, .. } => Some((*sbn, *esi)),
            _ => None,
        }
    }

    fn header_len(header: &LttpHeader) -> usize {
        if matches!(header, LttpHeader::Symbol { .. }) { SYMBOL_HEADER_LEN } else { 0 }
    }

    fn emit(
        &self,
        frame: &Frame<LttpHeader>,
        session: Option<&mut Session>,
        out: &mut [u8],
    ) -> Option<usize> {
        let session = session?;
        if let Some(datagram) = datagram_of(&frame.header) {
            return Some(emit_header(session.cookie, &datagram, out));
        }
        if session.said != Some(frame.header) {
            session.said = Some(frame.header);
            // A connection that takes no more ends its session with the next report.
            let _ = session.connection.try_send(ConnectionEvent::Say(frame.header));
        }
        None
    }

    fn on_unknown(&mut self, arrived: &Arrived<'_, LttpHeader>, from: SocketAddr) -> Unknown<Self> {
        let is_hello = matches!(arrived.header, LttpHeader::Request);
        let from = canonical(from);
        match self.offers.get(&arrived.session) {
            Some(offer) if is_hello && offer.peer == from.ip() => {}
            _ => return Unknown::Ignore,
        }
        match self.offers.remove(&arrived.session) {
            Some(Offer { mut opening, .. }) => {
                // Of an empty channel.
                let _ = opening.state.connection.try_send(ConnectionEvent::Begun);
                opening.peers.push(from);
                Unknown::Open(opening)
            }
            None => Unknown::Ignore,
        }
    }

    fn open(
        &mut self,
        session: SessionId,
        state: &Session,
        opening: Start,
        peers: &[HostId],
    ) -> Option<Command> {
        self.name(session, state.cookie);
        let peer = peers.first().copied().unwrap_or_default();
        Some(match opening {
            Start::Offer(parameters, peer_timeout) => {
                Command::OfferCut { session, client: peer, parameters, peer_timeout }
            }
            Start::Request { symbol_size } => {
                Command::RequestCut { session, server: peer, symbol_size }
            }
        })
    }

    fn cancel(session: SessionId) -> Command {
        Command::Cancel { session }
    }

    fn on_event(&mut self, event: Event) -> Meaning<Self> {
        match event {
            Event::Accepted { .. }
            | Event::Progress { .. }
            | Event::BlockComplete { .. }
            | Event::Rate { .. } => Meaning::Nothing,
            Event::Received { session, server, stats } => {
                Meaning::Received { session, stats, senders: vec![server] }
            }
            Event::Sent { session, stats } => Meaning::Sent { session, stats },
            Event::Failed { session, reason } => {
                Meaning::Failed { session, failure: reason.into() }
            }
        }
    }

    fn serve(
        &mut self,
        _: &mut lttp::Endpoint,
        _: &mut PeerTable,
        _: Time,
        call: Call,
    ) -> Action<Self> {
        match call {
            Call::Offer { peer, opening } => {
                self.name(opening.session, opening.state.cookie);
                self.offers.insert(opening.session, Offer { peer, opening });
                Action::Nothing
            }
            Call::Withdraw(session) => {
                if self.offers.remove(&session).is_some() {
                    self.on_closed(session);
                }
                Action::Nothing
            }
            Call::Control { session, header, taken } => {
                // A task that has gone away waits for nothing.
                let _ = taken.send(());
                Action::Frame(session, header)
            }
        }
    }

    fn on_closed(&mut self, session: SessionId) {
        if let Some(cookie) = self.cookies.remove(&session)
            && self.by_cookie.get(&cookie) == Some(&session)
        {
            self.by_cookie.remove(&cookie);
        }
    }

    fn floor(endpoint: &mut lttp::Endpoint, symbol: &Frame<LttpHeader>) -> Option<u32> {
        match symbol.destination {
            wellspring_core::Destination::Host(client) => endpoint.floor(client, symbol.session),
            wellspring_core::Destination::Group(_) => None,
        }
    }
}

/// What a datagram is to the state machine: its request is the hello, which says where to send.
fn header_of<'a>(datagram: &Datagram<'a>) -> (LttpHeader, &'a [u8]) {
    match *datagram {
        Datagram::Symbol { sbn, esi, number, sent, rtt, payload } => {
            let stamp = Stamp { number, sent, rtt };
            (LttpHeader::Symbol { stamp, sbn, esi }, payload)
        }
        Datagram::Report { echo, delay, receive_rate, loss_event_rate } => {
            let report = tfrc::Report { echo, delay, receive_rate, loss_event_rate };
            (LttpHeader::Report(report), &[])
        }
        Datagram::Hello => (LttpHeader::Request, &[]),
    }
}

/// The datagram of a header, without its payload; none for messages of the control channel.
fn datagram_of(header: &LttpHeader) -> Option<Datagram<'static>> {
    match *header {
        LttpHeader::Request => Some(Datagram::Hello),
        LttpHeader::Symbol { stamp: Stamp { number, sent, rtt }, sbn, esi } => {
            Some(Datagram::Symbol { sbn, esi, number, sent, rtt, payload: &[] })
        }
        LttpHeader::Report(tfrc::Report { echo, delay, receive_rate, loss_event_rate }) => {
            Some(Datagram::Report { echo, delay, receive_rate, loss_event_rate })
        }
        _ => None,
    }
}
