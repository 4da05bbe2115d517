//! Between values on the wire and the state machine's.
//!
//! A session has an endpoint of its own, so hosts and sessions have the same numbers everywhere.

use wellspring_core::{Destination, Ecn, Frame, HostId, SessionId};
use wellspring_transport::lttp::{LttpHeader, Parameters};
use wellspring_transport::tfrc::{Report, Stamp};
use wellspring_wire::lttp::{Datagram, Geometry, Message};

/// This host, to each endpoint.
pub(super) const OWN: HostId = HostId(0);
/// The other one.
pub(super) const PEER: HostId = HostId(1);
/// The session.
pub(super) const SESSION: SessionId = SessionId(0);

/// A frame that came from the peer.
pub(super) fn arrived(header: LttpHeader, payload_len: u16) -> Frame<LttpHeader> {
    Frame {
        source: PEER,
        destination: Destination::Host(OWN),
        session: SESSION,
        payload_len,
        path: 0,
        class: 0,
        ecn: Ecn::NotCapable,
        trimmed: false,
        header,
    }
}

/// What a datagram is to the state machine: its request is the hello, which says where to send.
pub(super) fn header_of(datagram: &Datagram<'_>) -> LttpHeader {
    match *datagram {
        Datagram::Symbol { sbn, esi, number, sent, rtt, .. } => {
            LttpHeader::Symbol { stamp: Stamp { number, sent, rtt }, sbn, esi }
        }
        Datagram::Report { echo, delay, receive_rate, loss_event_rate } => {
            LttpHeader::Report(Report { echo, delay, receive_rate, loss_event_rate })
        }
        Datagram::Hello => LttpHeader::Request,
    }
}

/// The datagram of a header without a payload; none for messages of the control channel.
pub(super) fn datagram_of(header: &LttpHeader) -> Option<Datagram<'static>> {
    match *header {
        LttpHeader::Request => Some(Datagram::Hello),
        LttpHeader::Report(Report { echo, delay, receive_rate, loss_event_rate }) => {
            Some(Datagram::Report { echo, delay, receive_rate, loss_event_rate })
        }
        _ => None,
    }
}

/// The message of a header of the control channel.
pub(super) fn message_of(header: &LttpHeader) -> Option<Message<'static>> {
    match *header {
        LttpHeader::Parameters(Parameters { transfer_len, symbol_size, block_symbols }) => {
            let geometry = Geometry { symbol_size, block_symbols };
            Some(Message::Parameters { transfer_len, geometry })
        }
        LttpHeader::Stop { next } => Some(Message::Stop { next }),
        LttpHeader::Stopped { next } => Some(Message::Stopped { next }),
        LttpHeader::Close => Some(Message::Close),
        LttpHeader::Request | LttpHeader::Symbol { .. } | LttpHeader::Report(_) => None,
    }
}

/// The header of a message within a session; none for those before it.
pub(super) fn control_of(message: &Message<'_>) -> Option<LttpHeader> {
    match *message {
        Message::Parameters { transfer_len, geometry } => {
            let Geometry { symbol_size, block_symbols } = geometry;
            Some(LttpHeader::Parameters(Parameters { transfer_len, symbol_size, block_symbols }))
        }
        Message::Stop { next } => Some(LttpHeader::Stop { next }),
        Message::Stopped { next } => Some(LttpHeader::Stopped { next }),
        Message::Close => Some(LttpHeader::Close),
        _ => None,
    }
}
