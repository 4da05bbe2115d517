//! One protocol's endpoint, run for the loop.

mod altered;
mod host;
mod inbound;
mod outbound;
mod queue;
mod run;
mod sessions;
mod work;

use crossbeam_channel::Receiver;
use wellspring_core::{Destination, Ecn, Endpoint as _, Frame, HostId, SessionId, Time};

use crate::event::{Failure, Refusal, SessionEvent};
use crate::payload::key::BlockKey;
use crate::protocol::{Action, Header, Meaning, Opening, Protocol, Report, Side, Sink};
use crate::protocol_handle::ProtocolCall;
use crate::runner::sessions::{NewSession, SessionTable};
use crate::socket::MAX_DATAGRAM_LEN;
pub(crate) use host::Host;
use queue::Queue;
pub(crate) use run::Run;

/// This host, to its own endpoints.
pub(crate) const OWN: HostId = HostId(0);
/// Longest header of any protocol \[bytes\].
const MAX_HEADER_LEN: usize = 128;
/// One protocol: its endpoint, its sessions, its frames on their way out.
pub(crate) struct Runner<P: Protocol> {
    protocol: P,
    endpoint: P::Endpoint,
    sessions: SessionTable<P>,
    queue: Queue,
    calls: Receiver<ProtocolCall<P>>,
    last_timeout: Time,
}

impl<P: Protocol> Runner<P> {
    pub(crate) fn new(
        number: u8,
        protocol: P,
        endpoint: P::Endpoint,
        calls: Receiver<ProtocolCall<P>>,
        now: Time,
    ) -> Self {
        Runner {
            protocol,
            endpoint,
            sessions: SessionTable::new(number),
            queue: Queue::new(),
            calls,
            last_timeout: now,
        }
    }

    fn serve(&mut self, host: &mut Host, call: ProtocolCall<P>) {
        let now = host.clock.now();
        match call {
            ProtocolCall::Open(opening) => self.open(host, *opening),
            ProtocolCall::Cancel(session) => {
                if let Some(key) = self.sessions.by_id(session).map(|session| session.key) {
                    self.fail(host, (key, 0), Failure::Cancelled);
                }
            }
            ProtocolCall::CheckAgain(session) => self.check_again(host, session),
            ProtocolCall::Exclude(session, sender) => {
                if let Some(peer) = host.peers.host(sender) {
                    self.exclude(host, session, peer);
                }
            }
            ProtocolCall::Other(call) => {
                match self.protocol.serve(&mut self.endpoint, &mut host.peers, now, call) {
                    Action::Nothing => {}
                    Action::Command(command) => {
                        let _ = self.endpoint.handle_command(now, command);
                    }
                    Action::Frame(session, header) => self.on_message(now, session, header),
                }
            }
        }
        self.drain_work(host);
        self.drain_events(host);
    }

    /// Takes in a header that came by another way than the socket.
    fn on_message(&mut self, now: Time, id: SessionId, header: Header<P>) {
        let Some(peer) = self.sessions.by_id(id).and_then(|session| session.peers.first()) else {
            return;
        };
        self.endpoint.handle_frame(now, &arrived_frame(*peer, id, header, 0, Ecn::NotCapable));
    }

    fn open(&mut self, host: &mut Host, opening: Opening<P>) {
        let Opening { session, geometry, coding, peers, key, .. } = opening;
        let Opening { side, state, protocol, progress, events, .. } = opening;
        let group = match &side {
            Side::Sending { group, .. } => *group,
            Side::Receiving { .. } => None,
        };
        if self.sessions.by_id(session).is_some() {
            let refusal = Refusal::Invalid("a session number that is in use");
            return self.refuse(host, session, Vec::new(), events, refusal.into());
        }
        let named = host.name_peers((&peers, key), group);
        let peers = match named {
            Ok(peers) => peers,
            Err(failure) => return self.refuse(host, session, Vec::new(), events, failure),
        };
        let side = match side {
            Side::Sending { source, group, .. } => {
                Side::Sending { source, group, members: peers.clone() }
            }
            receiving @ Side::Receiving { .. } => receiving,
        };
        let over = |what, got, limit| Err(Refusal::OverLimit { what, got, limit });
        let longest = (MAX_DATAGRAM_LEN - MAX_HEADER_LEN) as u64;
        let (symbol, limit) = (u64::from(geometry.symbol_size()), host.received.limit() as u64);
        let block = coding.reserved(geometry.longest_block());
        let possible = match side {
            _ if symbol > longest => over("symbol size", symbol, longest),
            Side::Receiving { .. } if block > limit => over("bytes of a block", block, limit),
            _ => Ok(()),
        };
        if let Err(refusal) = possible {
            return self.refuse(host, session, peers, events, refusal.into());
        }
        let command = self.protocol.open(session, &state, protocol, &peers);
        let now = host.clock.now();
        match command.map_or(Ok(()), |command| self.endpoint.handle_command(now, command)) {
            Ok(()) => {
                let id = session;
                let new = NewSession { id, geometry, coding, progress, peers, side, state, events };
                self.sessions.insert(new);
            }
            Err(error) => {
                self.refuse(host, session, peers, events, Failure::Refused(Box::new(error)));
            }
        }
    }

    fn refuse(
        &mut self,
        host: &mut Host,
        session: SessionId,
        peers: Vec<HostId>,
        mut events: Sink<P>,
        failure: Failure,
    ) {
        host.release(peers);
        // A number that is in use is another session's.
        if self.sessions.by_id(session).is_none() {
            self.protocol.on_closed(session);
        }
        events(SessionEvent::Failed(failure));
    }

    /// Ends a session from this side, for a reason of this side.
    fn fail(&mut self, host: &mut Host, key: BlockKey, failure: Failure) {
        let Some(session) = self.sessions.by_key(key.0) else { return };
        if session.is_over() {
            return session.spoil(failure);
        }
        session.failure.get_or_insert(failure);
        let id = session.id;
        let now = host.clock.now();
        // The endpoint may have ended it in the same turn; then there is nothing left to cancel.
        let _ = self.endpoint.handle_command(now, P::cancel(id));
        self.drain_events(host);
        // An endpoint whose sessions end with their cancelling reports no end of its own.
        if let Some(session) = self.sessions.by_key(key.0).filter(|s| !s.is_over()) {
            let failure = session.failure.take().unwrap_or(Failure::Cancelled);
            self.end_session(host, id, SessionEvent::Failed(failure));
        }
    }

    /// Reports to the applications what the endpoint has to report.
    fn drain_events(&mut self, host: &mut Host) {
        while let Some(event) = self.endpoint.poll_event() {
            match self.protocol.on_event(event) {
                Meaning::Nothing => {}
                Meaning::Received { session, stats, senders } => {
                    let senders = senders.iter().filter_map(|sender| host.peers.peer(*sender));
                    let senders = senders.map(|peer| peer.address).collect();
                    self.end_session(host, session, SessionEvent::Received { stats, senders });
                }
                Meaning::Sent { session, stats } => {
                    self.end_session(host, session, SessionEvent::Sent { stats });
                }
                Meaning::Failed { session: id, failure } => {
                    let Some(session) = self.sessions.by_id(id) else { continue };
                    let failure = session.failure.take().unwrap_or(failure);
                    self.end_session(host, id, SessionEvent::Failed(failure));
                }
                Meaning::Session { session, report } => {
                    if let Some(session) = self.sessions.by_id(session) {
                        session.report(report);
                    }
                }
                Meaning::Peer { session, peer, leaves, report } => {
                    let Some(session) = self.sessions.by_id(session) else { continue };
                    if leaves && let Side::Sending { members, .. } = &mut session.side {
                        members.retain(|host| *host != peer);
                    }
                    if let Some(address) = host.peers.peer(peer).map(|peer| peer.address)
                        && let Some(report) = report(address, &mut session.state, peer)
                    {
                        session.report(report);
                    }
                }
            }
        }
    }

    /// The endpoint is done with a session.
    fn end_session(&mut self, host: &mut Host, id: SessionId, last: Report<P>) {
        // Closes to its peers may still wait at the endpoint: they go out while the peers are
        // known.
        self.transmit(host);
        if let Some((key, peers)) = self.sessions.end(id, last) {
            host.received.close_session(key);
            host.to_send.close_session(key);
            host.release(peers);
            self.protocol.on_closed(id);
            // Some endpoints would go on to have the end confirmed: there is nobody to hear of it.
            let _ = self.endpoint.handle_command(host.clock.now(), P::cancel(id));
        }
    }
}

/// A frame that came from `source`.
fn arrived_frame<H>(
    source: HostId,
    session: SessionId,
    header: H,
    payload_len: usize,
    ecn: Ecn,
) -> Frame<H> {
    Frame {
        source,
        destination: Destination::Host(OWN),
        session,
        payload_len: payload_len as u16,
        path: 0,
        class: 0,
        ecn,
        trimmed: false,
        header,
    }
}
