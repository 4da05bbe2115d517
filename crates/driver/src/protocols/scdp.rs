//! SCDP on the driver.

mod objects;

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::mpsc;

use wellspring_core::{Duration, Frame, GroupId, HostId, Priority, Rate, SessionId, Time};
use wellspring_transport::scdp::{
    self, Command, Event, ObjectInfo, ReceiveSession, ReceiveStats, Resume, Role, SendSession,
    SendStats, Share, StragglerAction,
};
use wellspring_wire::scdp::{
    Close, CloseReason, HEADER_LEN, HEADER_WITH_OPTIONS_LEN, Mode, ScdpHeader, emit, parse,
};

use super::complete::CompleteSessions;
use crate::network::peers::PeerTable;
use crate::payload::geometry::Geometry;
use crate::protocol::{Action, Admission, Arrived, Meaning, Protocol, Unknown, Unusable};
use crate::{Builder, DriverConfig, ProtocolHandle, SessionEvent};

pub use objects::{ReceiveObject, Recipients, SendObject};

/// Adds SCDP to a driver.
pub(super) fn add(builder: &mut Builder, config: &DriverConfig) -> ProtocolHandle<Scdp> {
    let mut protocol = config.scdp.clone();
    protocol.host = HostId(0);
    // Here sessions are always announced first, by control messages.
    protocol.accept_unannounced = false;
    let scdp = Scdp { labels_are_paths: protocol.labels_are_paths(), ..Scdp::default() };
    builder.add(scdp, scdp::Endpoint::new(protocol))
}

/// SCDP, to the driver.
#[derive(Default)]
pub(crate) struct Scdp {
    complete: CompleteSessions,
    /// Whether path labels are numbers of paths.
    labels_are_paths: bool,
}

/// What is kept of a session.
pub(crate) struct Session {
    /// The digest that its sender announces, or is to announce.
    digest: [u8; 32],
    /// Senders that announced other bytes.
    refused: Vec<HostId>,
}

/// The side that is begun.
pub(crate) enum Start {
    Send {
        object: ObjectInfo,
        to: To,
        initial_window: u8,
        resume: Option<Resume>,
        priority: Priority,
    },
    Receive {
        object: ObjectInfo,
        mode: Mode,
        initial_window: u8,
        complete: Vec<Range<u32>>,
        priority: Priority,
    },
}

/// To whom the peers of a session are sent.
pub(crate) enum To {
    One(Share),
    Many { held: Vec<Range<u32>> },
}

/// What an application asks of SCDP alone.
pub(crate) enum Call {
    SenderBack {
        session: SessionId,
        sender: SocketAddr,
        epoch: u8,
    },
    Detach {
        session: SessionId,
        receiver: SocketAddr,
    },
    Wait {
        session: SessionId,
        peer_timeout: Duration,
        win_back: bool,
    },
    /// The peer, which is known by one address, is at another now.
    MovePeer {
        from: SocketAddr,
        to: SocketAddr,
    },
    /// The peer is known by one address, and may be at another by this path.
    AddPath {
        session: SessionId,
        peer: SocketAddr,
        path: u16,
        at: At,
    },
    ResumePoint {
        session: SessionId,
        reply: mpsc::SyncSender<Option<(u32, u32)>>,
    },
    /// Pulls are to fill a link of that rate.
    LinkRate(Rate),
    /// What was received so far, if the session is open here.
    Account {
        session: SessionId,
        reply: mpsc::SyncSender<ReceiveStats>,
    },
    /// What each of these sessions has sent or received so far.
    Accounts {
        sessions: Vec<SessionId>,
        reply: mpsc::SyncSender<Vec<Option<Account>>>,
    },
}

/// What a session has sent or received so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Account {
    /// It sends.
    Sent(SendStats),
    /// It receives.
    Received(ReceiveStats),
}

fn account(endpoint: &scdp::Endpoint, session: SessionId, now: Time) -> Option<Account> {
    let sent = endpoint.send_stats(session).map(Account::Sent);
    sent.or_else(|| endpoint.receive_stats(session, now).map(Account::Received))
}

/// Where a peer is by a further path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// At the address by which it is known; this host has another port for the path.
    ItsAddress,
    /// At another, which it has shown.
    Shown(SocketAddr),
    /// At another, to which this host's port of the path's number leads.
    Other(SocketAddr),
}

/// Closes of a session with a sender that is refused: as if from the sender, and to it.
fn refusal() -> [ScdpHeader; 2] {
    [false, true].map(|from_receiver| {
        ScdpHeader::Close(Close { reason: CloseReason::Refused, from_receiver })
    })
}

impl Protocol for Scdp {
    type Endpoint = scdp::Endpoint;
    type Session = Session;
    type Opening = Start;
    type Call = Call;
    type ReceiveStats = ReceiveStats;
    type SendStats = SendStats;

    const KINDS: std::ops::RangeInclusive<u8> = 0..=2;

    fn parse<'a>(&self, datagram: &'a [u8]) -> Result<Arrived<'a, ScdpHeader>, Unusable> {
        let parsed = parse(datagram).map_err(|_| Unusable::Malformed)?;
        Ok(Arrived {
            session: parsed.session,
            header: parsed.header,
            payload: parsed.payload,
            trimmed: parsed.trimmed,
            digest: parsed.digest,
        })
    }

    fn symbol(header: &ScdpHeader, _: &Geometry) -> Option<(u32, u32)> {
        match header {
            ScdpHeader::Symbol(symbol) => Some((symbol.sbn, symbol.esi)),
            ScdpHeader::Pull(_) | ScdpHeader::Close(_) => None,
        }
    }

    fn header_len(header: &ScdpHeader) -> usize {
        match header {
            ScdpHeader::Symbol(symbol) if symbol.options.is_some() => HEADER_WITH_OPTIONS_LEN,
            ScdpHeader::Symbol(_) => HEADER_LEN,
            ScdpHeader::Pull(_) | ScdpHeader::Close(_) => 0,
        }
    }

    fn emit(
        &self,
        frame: &Frame<ScdpHeader>,
        session: Option<&mut Session>,
        out: &mut [u8],
    ) -> Option<usize> {
        let digest = session.map_or([0; 32], |session| session.digest);
        Some(emit(frame.session, &frame.header, &digest, frame.payload_len, out))
    }

    fn path(&self, frame: &Frame<ScdpHeader>) -> u16 {
        if self.labels_are_paths { frame.path } else { 0 }
    }

    fn is_pull(header: &ScdpHeader) -> bool {
        matches!(header, ScdpHeader::Pull(_))
    }

    fn admit(session: &mut Session, peer: HostId, arrived: &Arrived<'_, ScdpHeader>) -> Admission {
        if session.refused.contains(&peer) {
            return Admission::Refused;
        }
        match arrived.digest {
            Some(announced) if *announced != session.digest => {
                Admission::Other { announced: *announced }
            }
            _ => Admission::Take,
        }
    }

    fn exclude(session: &mut Session, peer: HostId) -> Option<(ScdpHeader, ScdpHeader)> {
        if session.refused.contains(&peer) {
            return None;
        }
        session.refused.push(peer);
        let [instead, answer] = refusal();
        Some((instead, answer))
    }

    fn on_unknown(&mut self, arrived: &Arrived<'_, ScdpHeader>, _: SocketAddr) -> Unknown<Self> {
        let (from_receiver, reason) = match arrived.header {
            ScdpHeader::Symbol(_) if self.complete.contains(arrived.session) => {
                (true, CloseReason::Complete)
            }
            ScdpHeader::Symbol(_) => (true, CloseReason::UnknownSession),
            ScdpHeader::Pull(_) => (false, CloseReason::UnknownSession),
            // A close is never answered.
            ScdpHeader::Close(_) => return Unknown::Ignore,
        };
        Unknown::Answer(ScdpHeader::Close(Close { reason, from_receiver }))
    }

    fn open(
        &mut self,
        session: SessionId,
        _: &Session,
        opening: Start,
        peers: &[HostId],
    ) -> Option<Command> {
        Some(match opening {
            Start::Send { object, to, initial_window, resume, priority } => {
                let role = match (to, peers) {
                    (To::One(share), &[receiver]) => Role::Unicast { receiver, share },
                    // The group's number means nothing: its session says where its symbols go.
                    (To::Many { held }, peers) => {
                        Role::OneToMany { group: GroupId(0), members: peers.to_vec(), held }
                    }
                    (To::One(_), _) => return None,
                };
                let class = None;
                Command::Send(SendSession {
                    session,
                    object,
                    role,
                    initial_window,
                    class,
                    resume,
                    priority,
                })
            }
            Start::Receive { object, mode, initial_window, complete, priority } => {
                let senders = peers.to_vec();
                Command::Receive(ReceiveSession {
                    session,
                    object,
                    mode,
                    senders,
                    initial_window,
                    complete,
                    priority,
                })
            }
        })
    }

    fn cancel(session: SessionId) -> Command {
        Command::Cancel { session }
    }

    fn on_event(&mut self, event: Event) -> Meaning<Self> {
        match event {
            // Sessions are always announced; progress has its own counters.
            Event::Accepted { .. } | Event::BlockComplete { .. } => Meaning::Nothing,
            Event::Received { session, stats } => {
                self.complete.add(session);
                let senders = stats.senders.iter().map(|sender| sender.host).collect();
                Meaning::Received { session, stats, senders }
            }
            Event::Sent { session, stats } => Meaning::Sent { session, stats },
            Event::Failed { session, reason } => {
                Meaning::Failed { session, failure: reason.into() }
            }
            Event::MovedToUnicast { session } => {
                Meaning::Session { session, report: SessionEvent::MovedToUnicast }
            }
            Event::SenderLost { session, sender, reason } => Meaning::Peer {
                session,
                peer: sender,
                leaves: false,
                // One refused here has been reported already.
                report: Box::new(move |at, session: &mut Session, peer| {
                    let known = session.refused.contains(&peer);
                    (!known).then_some(SessionEvent::SenderLost { sender: at, reason })
                }),
            },
            Event::ReceiverFinished { session, receiver } => Meaning::Peer {
                session,
                peer: receiver,
                leaves: true,
                report: Box::new(|at, _, _| Some(SessionEvent::ReceiverFinished { receiver: at })),
            },
            Event::ReceiverLost { session, receiver, reason } => Meaning::Peer {
                session,
                peer: receiver,
                leaves: true,
                report: Box::new(move |at, _, _| {
                    Some(SessionEvent::ReceiverLost { receiver: at, reason })
                }),
            },
            Event::Straggler { session, receiver, symbols_behind, cause, action } => {
                Meaning::Peer {
                    session,
                    peer: receiver,
                    leaves: action == StragglerAction::Detached,
                    report: Box::new(move |at, _, _| {
                        Some(SessionEvent::Straggler {
                            receiver: at,
                            symbols_behind,
                            cause,
                            action,
                        })
                    }),
                }
            }
        }
    }

    fn serve(
        &mut self,
        endpoint: &mut scdp::Endpoint,
        peers: &mut PeerTable,
        now: Time,
        call: Call,
    ) -> Action<Self> {
        match call {
            Call::SenderBack { session, sender, epoch } => match peers.host(sender) {
                Some(sender) => Action::Command(Command::SenderBack { session, sender, epoch }),
                None => Action::Nothing,
            },
            Call::MovePeer { from, to } => {
                if !peers.move_host(from, to) {
                    tracing::debug!(%from, %to, "a peer that moved is not followed");
                }
                Action::Nothing
            }
            Call::AddPath { session, peer, path, at } => {
                let Some(peer) = peers.host(peer) else { return Action::Nothing };
                let is_known = match at {
                    At::ItsAddress => true,
                    At::Shown(address) => peers.add_path(peer, path, (address, 0)),
                    At::Other(address) => u8::try_from(path)
                        .is_ok_and(|port| peers.add_path(peer, path, (address, port))),
                };
                if !is_known {
                    return Action::Nothing;
                }
                Action::Command(Command::AddPath { session, peer, path })
            }
            Call::Detach { session, receiver } => match peers.host(receiver) {
                Some(receiver) => Action::Command(Command::Detach { session, receiver }),
                None => Action::Nothing,
            },
            Call::Wait { session, peer_timeout, win_back } => {
                Action::Command(Command::Wait { session, peer_timeout, win_back })
            }
            Call::ResumePoint { session, reply } => {
                // A caller that has gone away needs no answer.
                let _ = reply.send(endpoint.progress(session));
                Action::Nothing
            }
            Call::LinkRate(rate) => {
                endpoint.set_link_rate(now, rate);
                Action::Nothing
            }
            Call::Account { session, reply } => {
                if let Some(stats) = endpoint.receive_stats(session, now) {
                    // Nobody waits: a caller that has gone away needs no answer.
                    let _ = reply.try_send(stats);
                }
                Action::Nothing
            }
            Call::Accounts { sessions, reply } => {
                let all = sessions.into_iter().map(|session| account(endpoint, session, now));
                let _ = reply.try_send(all.collect());
                Action::Nothing
            }
        }
    }

    fn floor(endpoint: &mut scdp::Endpoint, symbol: &Frame<ScdpHeader>) -> Option<u32> {
        endpoint.floor(symbol.session)
    }

    fn pause(
        endpoint: &mut scdp::Endpoint,
        now: Time,
        symbol: &Frame<ScdpHeader>,
        is_paused: bool,
    ) {
        endpoint.pause(now, symbol.session, is_paused);
    }

    fn left_late(endpoint: &mut scdp::Endpoint, now: Time, symbol: &Frame<ScdpHeader>) {
        if let ScdpHeader::Symbol(header) = &symbol.header {
            endpoint.left_late(now, symbol.session, header);
        }
    }

    fn missing(endpoint: &scdp::Endpoint, session: SessionId, sbn: u32, missing: &mut Vec<u32>) {
        endpoint.missing_symbols(session, sbn, missing);
    }

    fn trimmed_len(datagram: &[u8]) -> Option<usize> {
        let is_symbol = datagram.first()? & 0x0f == 0;
        (is_symbol && datagram.len() > HEADER_WITH_OPTIONS_LEN).then_some(HEADER_WITH_OPTIONS_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_wire::scdp::Pull;

    fn arrived(session: u32, header: ScdpHeader) -> Arrived<'static, ScdpHeader> {
        let session = SessionId(session);
        Arrived { session, header, payload: &[], trimmed: false, digest: None }
    }

    #[test]
    fn a_close_is_never_answered_and_complete_sessions_are_remembered_up_to_a_bound() {
        let mut scdp = Scdp::default();
        let from = "192.0.2.1:7".parse().expect("an address");
        let close = Close { reason: CloseReason::Cancelled, from_receiver: true };
        let answer = scdp.on_unknown(&arrived(1, ScdpHeader::Close(close)), from);
        assert!(matches!(answer, Unknown::Ignore));
        let pull = Pull { sbn: 0, granted: 1, floor: 0, run: 1, epoch: 0, fin: false, first: None };
        let answer = scdp.on_unknown(&arrived(1, ScdpHeader::Pull(pull)), from);
        let unknown = Close { reason: CloseReason::UnknownSession, from_receiver: false };
        let Unknown::Answer(header) = answer else { panic!("not answered") };
        assert_eq!(header, ScdpHeader::Close(unknown));
        for session in 0..2_000 {
            let (session, stats) = (SessionId(session), ReceiveStats::default());
            scdp.on_event(Event::Received { session, stats });
        }
        assert!(scdp.complete.contains(SessionId(1_999)));
        assert!(!scdp.complete.contains(SessionId(975)), "1,024 are remembered");
    }
}
