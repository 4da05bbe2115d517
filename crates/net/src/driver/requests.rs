//! What handles ask of the loop.

use std::net::SocketAddr;

use wellspring_core::{Endpoint as _, GroupId, HostId};
use wellspring_transport::scdp::{
    Command, CommandError, ObjectInfo, ReceiveSession, Role, SendSession,
};
use wellspring_wire::scdp::HEADER_WITH_OPTIONS_LEN;

use super::engine::Engine;
use super::event::{EventSink, Failure, SessionEvent};
use super::handle::{ReceiveObject, Recipients, Request, SendObject};
use super::progress::SessionProgress;
use super::sessions::{NewSession, Side};
use crate::socket::MAX_DATAGRAM_LEN;

impl Engine {
    pub(super) fn serve(&mut self, request: Request) {
        let now = self.clock.now();
        match request {
            Request::Send(request, events, progress) => self.open_send(*request, events, progress),
            Request::Receive(request, events, progress) => {
                self.open_receive(*request, events, progress);
            }
            Request::SenderBack { session, sender, epoch } => {
                if let Some(sender) = self.peers.host(sender) {
                    let command = Command::SenderBack { session, sender, epoch };
                    // A session or sender that is gone meanwhile has been told of by an event.
                    let _ = self.endpoint.handle_command(now, command);
                }
            }
            Request::Cancel { session } => {
                if let Some(key) = self.sessions.by_id(session).map(|session| session.key) {
                    self.fail((key, 0), Failure::Cancelled);
                }
            }
            Request::ResumePoint { session, reply } => {
                // A caller that has gone away needs no answer; so below.
                let _ = reply.send(self.endpoint.progress(session));
            }
            Request::Control(message) => {
                self.shared.release_control();
                self.send_control(&message);
            }
            Request::GroupJoined { group, socket } => {
                self.groups.join(&self.waiter, group, socket);
            }
            Request::GroupLeft { group } => self.groups.leave(&self.waiter, group),
            Request::Statistics(reply) => {
                let _ = reply.send(self.snapshot());
            }
            Request::Shutdown => self.stopping = true,
        }
        self.drain_work();
        self.drain_events();
    }

    fn open_send(&mut self, request: SendObject, mut events: EventSink, progress: SessionProgress) {
        let SendObject { session, object, digest, source, to, initial_window, resume } = request;
        let (addresses, group) = match &to {
            Recipients::One { receiver, .. } => (vec![*receiver], None),
            Recipients::Many { members, group } => (members.clone(), *group),
        };
        let peers = match self.name_peers(&object, &addresses, group) {
            Ok(peers) => peers,
            Err(failure) => return events(SessionEvent::Failed(failure)),
        };
        let role = match to {
            Recipients::One { share, .. } => Role::Unicast { receiver: peers[0], share },
            // The group's number means nothing: its session says where its symbols go.
            Recipients::Many { .. } => {
                Role::OneToMany { group: GroupId(0), members: peers.clone() }
            }
        };
        let class = None;
        let command =
            Command::Send(SendSession { session, object, role, initial_window, class, resume });
        let side = Side::Sending { source, group, members: peers.clone() };
        let new = NewSession { id: session, object, digest, progress, peers, side, events };
        self.open(command, new);
    }

    fn open_receive(
        &mut self,
        request: ReceiveObject,
        mut events: EventSink,
        progress: SessionProgress,
    ) {
        let ReceiveObject { session, object, digest, mode, senders, initial_window, sink } =
            request;
        let peers = match self.name_peers(&object, &senders, None) {
            Ok(peers) => peers,
            Err(failure) => return events(SessionEvent::Failed(failure)),
        };
        let senders = peers.clone();
        let command =
            Command::Receive(ReceiveSession { session, object, mode, senders, initial_window });
        let side = Side::Receiving { sink, refused: Vec::new() };
        let new = NewSession { id: session, object, digest, progress, peers, side, events };
        let (_, block) = object.byte_range_of_block(0);
        let limit = self.received.limit() as u64;
        if block > limit {
            let what = "bytes of a block";
            let error = CommandError::OverLimit { what, got: block, limit };
            return self.refuse_session(new, Failure::Refused(error));
        }
        self.open(command, new);
    }

    fn open(&mut self, command: Command, new: NewSession) {
        let now = self.clock.now();
        match self.endpoint.handle_command(now, command) {
            Ok(()) => {
                self.sessions.insert(new);
            }
            Err(error) => self.refuse_session(new, Failure::Refused(error)),
        }
    }

    fn refuse_session(&mut self, mut new: NewSession, failure: Failure) {
        for peer in new.peers {
            self.peers.release(peer);
        }
        (new.events)(SessionEvent::Failed(failure));
    }

    /// Puts the hosts of a session into the table of peers, all or none.
    fn name_peers(
        &mut self,
        object: &ObjectInfo,
        addresses: &[SocketAddr],
        group: Option<SocketAddr>,
    ) -> Result<Vec<HostId>, Failure> {
        let invalid = |why| Err(Failure::Refused(CommandError::Invalid(why)));
        let longest = MAX_DATAGRAM_LEN - HEADER_WITH_OPTIONS_LEN;
        if usize::from(object.symbol_size) > longest {
            return Err(Failure::Refused(CommandError::OverLimit {
                what: "symbol size",
                got: object.symbol_size.into(),
                limit: longest as u64,
            }));
        }
        if !addresses.iter().chain(&group).all(|address| self.socket.reaches(address)) {
            return invalid("an address of a family that the driver's socket does not speak");
        }
        if group.is_some_and(|group| !group.ip().is_multicast()) {
            return invalid("a group without a multicast address");
        }
        let mut peers = Vec::with_capacity(addresses.len());
        let mut failure = None;
        for address in addresses {
            match self.peers.add(*address) {
                Some(host) if peers.contains(&host) => {
                    self.peers.release(host);
                    let why = "an address named twice";
                    failure = Some(Failure::Refused(CommandError::Invalid(why)));
                }
                Some(host) => peers.push(host),
                None => failure = Some(Failure::TooManyPeers(self.config.peers)),
            }
        }
        match failure {
            None => Ok(peers),
            Some(failure) => {
                for peer in peers {
                    self.peers.release(peer);
                }
                Err(failure)
            }
        }
    }
}
