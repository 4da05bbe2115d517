//! NDP on the driver: SCDP's baseline over real sockets, packets without a code.
//!
//! A transfer is a session of one sender and one receiver. Its packets are the source symbols of blocks
//! of 100 packets, which the driver hands to the sink as they become whole.

use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use wellspring_core::{Duration, Frame, HostId, SessionId, Time};
use wellspring_transport::ndp::{
    self, Command, Event, NdpHeader, ReceiveStats, SendStats, SendTransfer,
};
use wellspring_trust::Fingerprint;
use wellspring_wire::ndp::{DATA_HEADER_LEN, KIND, emit_header, parse};

use super::complete::CompleteSessions;
use crate::network::peers::PeerTable;
use crate::payload::coding::Coding;
use crate::payload::geometry::Geometry;
use crate::protocol::{
    Action, Admission, Arrived, Meaning, Opening, Protocol, Side, Unknown, Unusable,
};
use crate::store::{ObjectSink, ObjectSource};
use crate::{
    Builder, DriverConfig, EachLoop, EventSink, HandleError, ProtocolHandle, SessionProgress,
};

/// Packets that are handed to a sink, or read, at one time.
const PACKETS_PER_BLOCK: u32 = 100;

/// Adds NDP to a driver.
pub(super) fn add(builder: &mut Builder, config: &DriverConfig) -> ProtocolHandle<Ndp> {
    let config = ndp::Config { host: HostId(0), ..config.ndp.clone() };
    builder.add(Ndp::default(), ndp::Endpoint::new(config))
}

/// A way to NDP's endpoint, or to those of several loops.
#[derive(Clone)]
pub struct NdpHandle {
    loops: EachLoop<ProtocolHandle<Ndp>>,
    /// Payload of a packet \[bytes\].
    pub payload: u16,
}

impl NdpHandle {
    pub(super) fn new(loops: EachLoop<ProtocolHandle<Ndp>>, payload: u16) -> Self {
        NdpHandle { loops, payload }
    }

    /// Sends that part of an object, which is not empty, to the owner of the key that it is asked by, where hosts have keys.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn send(
        &self,
        session: SessionId,
        part: Range<u64>,
        source: Arc<dyn ObjectSource>,
        receiver: (SocketAddr, Option<Fingerprint>),
        events: EventSink<ReceiveStats, SendStats>,
    ) -> Result<SessionProgress, HandleError> {
        self.open(session, part, Side::sending(source), receiver, events)
    }

    /// Expects that part of an object, which is not empty.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn receive(
        &self,
        session: SessionId,
        part: Range<u64>,
        sink: Arc<dyn ObjectSink>,
        sender: SocketAddr,
        events: EventSink<ReceiveStats, SendStats>,
    ) -> Result<SessionProgress, HandleError> {
        self.open(session, part, Side::Receiving { sink }, (sender, None), events)
    }

    fn open(
        &self,
        session: SessionId,
        part: Range<u64>,
        side: Side,
        (peer, key): (SocketAddr, Option<Fingerprint>),
        events: EventSink<ReceiveStats, SendStats>,
    ) -> Result<SessionProgress, HandleError> {
        let len = part.end - part.start;
        let geometry = Geometry::in_order(part.start, len, self.payload, PACKETS_PER_BLOCK);
        let sends = matches!(side, Side::Sending { .. }).then_some(len);
        let packets = u32::try_from(len.div_ceil(self.payload.into())).unwrap_or(u32::MAX);
        self.loops.of(peer).open(Opening {
            session,
            geometry,
            coding: Coding::Uncoded,
            peers: vec![peer],
            key,
            side,
            state: Session { packets },
            protocol: sends,
            progress: SessionProgress::new(len),
            events,
        })
    }

    /// Has the sender of a transfer wait for its silent receiver for so long, instead of for the configuration's
    /// `peer_timeout`. A transfer not sent here is passed over.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn wait_for_peer(
        &self,
        session: SessionId,
        peer_timeout: Duration,
    ) -> Result<(), HandleError> {
        self.loops.ask_all(|protocol| protocol.call(Call::Wait { session, peer_timeout }))
    }

    /// Ends a transfer.
    pub fn cancel(&self, session: SessionId) {
        // One that is over, or a driver that has stopped, is what was asked for.
        let _ = self.loops.ask_all(|protocol| protocol.cancel(session));
    }
}

/// What is asked of transfers under way.
pub(crate) enum Call {
    Wait { session: SessionId, peer_timeout: Duration },
}

/// NDP, to the driver.
#[derive(Default)]
pub(crate) struct Ndp {
    complete: CompleteSessions,
}

/// What is kept of a transfer.
pub(crate) struct Session {
    packets: u32,
}

impl Protocol for Ndp {
    type Endpoint = ndp::Endpoint;
    type Session = Session;
    /// The length, at a sender.
    type Opening = Option<u64>;
    type Call = Call;
    type ReceiveStats = ReceiveStats;
    type SendStats = SendStats;

    const KINDS: RangeInclusive<u8> = KIND..=KIND;
    const PADS: bool = false;

    fn parse<'a>(&self, datagram: &'a [u8]) -> Result<Arrived<'a, NdpHeader>, Unusable> {
        let parsed = parse(datagram).map_err(|_| Unusable::Malformed)?;
        Ok(Arrived {
            session: parsed.session,
            header: parsed.header,
            payload: parsed.payload,
            trimmed: parsed.trimmed,
            digest: None,
        })
    }

    fn symbol(header: &NdpHeader, geometry: &Geometry) -> Option<(u32, u32)> {
        let NdpHeader::Data(data) = header else { return None };
        let at = u64::from(data.number) * u64::from(geometry.symbol_size());
        Some(geometry.symbol_at(at))
    }

    fn header_len(header: &NdpHeader) -> usize {
        if matches!(header, NdpHeader::Data(_)) { DATA_HEADER_LEN } else { 0 }
    }

    fn emit(
        &self,
        frame: &Frame<NdpHeader>,
        _: Option<&mut Session>,
        out: &mut [u8],
    ) -> Option<usize> {
        Some(emit_header(frame.session, &frame.header, frame.payload_len, out))
    }

    fn is_pull(header: &NdpHeader) -> bool {
        matches!(header, NdpHeader::Pull { .. })
    }

    fn may_open(header: &NdpHeader) -> bool {
        matches!(header, NdpHeader::Data(_))
    }

    fn admit(session: &mut Session, _: HostId, arrived: &Arrived<'_, NdpHeader>) -> Admission {
        match &arrived.header {
            NdpHeader::Data(data) if data.total != session.packets => Admission::Refused,
            _ => Admission::Take,
        }
    }

    fn on_unknown(&mut self, arrived: &Arrived<'_, NdpHeader>, _: SocketAddr) -> Unknown<Self> {
        let is_data = matches!(arrived.header, NdpHeader::Data(_));
        match is_data && self.complete.contains(arrived.session) {
            true => Unknown::Answer(NdpHeader::Done),
            false => Unknown::Ignore,
        }
    }

    fn open(
        &mut self,
        session: SessionId,
        _: &Session,
        opening: Option<u64>,
        peers: &[HostId],
    ) -> Option<Command> {
        let (transfer_len, receiver) = (opening?, *peers.first()?);
        Some(Command::Send(SendTransfer { session, receiver, transfer_len, class: None }))
    }

    fn cancel(session: SessionId) -> Command {
        Command::Cancel { session }
    }

    fn on_event(&mut self, event: Event) -> Meaning<Self> {
        match event {
            Event::Accepted { .. } | Event::Progress { .. } => Meaning::Nothing,
            Event::Received { session, sender, stats } => {
                self.complete.add(session);
                Meaning::Received { session, stats, senders: vec![sender] }
            }
            Event::Sent { session, stats } => Meaning::Sent { session, stats },
            Event::TimedOut { state, .. } => match state {},
            Event::Failed { session, reason } => {
                Meaning::Failed { session, failure: reason.into() }
            }
        }
    }

    fn serve(
        &mut self,
        _: &mut ndp::Endpoint,
        _: &mut PeerTable,
        _: Time,
        call: Call,
    ) -> Action<Self> {
        match call {
            Call::Wait { session, peer_timeout } => {
                Action::Command(Command::Wait { session, peer_timeout })
            }
        }
    }

    fn trimmed_len(datagram: &[u8]) -> Option<usize> {
        let is_data = datagram.get(..2)? == [0x10 | KIND, 0];
        (is_data && datagram.len() > DATA_HEADER_LEN).then_some(DATA_HEADER_LEN)
    }
}
