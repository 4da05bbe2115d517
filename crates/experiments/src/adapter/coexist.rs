//! TCP for some of the requests, beside another protocol on the same hosts.

use super::{ActionsOf, Adapter, FrameOf, Leg, SessionEvent, Tcp};
use crate::scenario::Scenario;
use core::fmt::{self, Display};
use wellspring_core::{
    Endpoint, Frame, Header, HostId, Rate, Seed, SessionId, Time, Verdict, Work, WorkDone,
};
use wellspring_sim::pcapng::Transport;
use wellspring_transport::tcp;

/// One of two: the scenario's protocol, or the TCP beside it.
#[derive(Clone, Copy, Debug)]
pub enum Of<P, T> {
    /// The scenario's protocol.
    Protocol(P),
    /// The TCP beside it.
    Tcp(T),
}

impl<P: Display, T: Display> Display for Of<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Of::Protocol(of) => of.fmt(f),
            Of::Tcp(of) => of.fmt(f),
        }
    }
}

/// A header of either protocol.
#[derive(Clone, Copy, Debug)]
pub struct OfHeader<P> {
    of: Of<P, tcp::TcpHeader>,
    /// What this protocol's frames lack of a packet's headers, beyond what both lack \[bytes\].
    more: u8,
}

impl<P: Header> Header for OfHeader<P> {
    fn wire_len(&self) -> u16 {
        let own = match self.of {
            Of::Protocol(header) => header.wire_len(),
            Of::Tcp(header) => header.wire_len(),
        };
        own + u16::from(self.more)
    }
}

/// A host with an endpoint of each. A session belongs to one of them, as a frame's header says.
#[derive(Debug)]
pub struct Both<E> {
    protocol: E,
    tcp: tcp::Endpoint,
    /// As in [`OfHeader`], of the protocol's frames and of TCP's.
    more: (u8, u8),
    /// Whether TCP is asked first for the next frame: they take turns.
    tcp_first: bool,
}

impl<E: Endpoint> Both<E> {
    fn transmit_protocol(&mut self, now: Time) -> Option<Frame<OfHeader<E::Header>>> {
        let frame = self.protocol.poll_transmit(now)?;
        self.tcp_first = true;
        let header = OfHeader { of: Of::Protocol(frame.header), more: self.more.0 };
        Some(frame.with_header(header))
    }

    fn transmit_tcp(&mut self, now: Time) -> Option<Frame<OfHeader<E::Header>>> {
        let frame = self.tcp.poll_transmit(now)?;
        self.tcp_first = false;
        let header = OfHeader { of: Of::Tcp(frame.header), more: self.more.1 };
        Some(frame.with_header(header))
    }
}

impl<E: Endpoint> Endpoint for Both<E> {
    type Header = OfHeader<E::Header>;
    type Command = Of<E::Command, tcp::Command>;
    type Event = Of<E::Event, tcp::Event>;
    type CommandError = Of<E::CommandError, tcp::CommandError>;

    fn handle_command(
        &mut self,
        now: Time,
        command: Self::Command,
    ) -> Result<(), Self::CommandError> {
        match command {
            Of::Protocol(command) => {
                self.protocol.handle_command(now, command).map_err(Of::Protocol)
            }
            Of::Tcp(command) => self.tcp.handle_command(now, command).map_err(Of::Tcp),
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame<Self::Header>) -> Verdict {
        match frame.header.of {
            Of::Protocol(header) => self.protocol.handle_frame(now, &frame.with_header(header)),
            Of::Tcp(header) => self.tcp.handle_frame(now, &frame.with_header(header)),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.protocol.handle_timeout(now);
        self.tcp.handle_timeout(now);
    }

    fn handle_work_done(&mut self, now: Time, done: WorkDone) {
        // TCP asks for none.
        self.protocol.handle_work_done(now, done);
    }

    fn poll_work(&mut self) -> Option<Work> {
        self.protocol.poll_work()
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        let event = self.protocol.poll_event().map(Of::Protocol);
        event.or_else(|| self.tcp.poll_event().map(Of::Tcp))
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Frame<Self::Header>> {
        match self.tcp_first {
            true => self.transmit_tcp(now).or_else(|| self.transmit_protocol(now)),
            false => self.transmit_protocol(now).or_else(|| self.transmit_tcp(now)),
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        Time::earliest(
            [self.protocol.poll_timeout(), self.tcp.poll_timeout()].into_iter().flatten(),
        )
    }
}

/// A protocol, and TCP beside it.
#[derive(Debug)]
pub struct BesideTcp<A> {
    protocol: A,
    tcp: Tcp,
}

impl<A: Adapter> Adapter for BesideTcp<A> {
    type Endpoint = Both<A::Endpoint>;

    fn new(scenario: &Scenario, seed: Seed) -> Self {
        let protocol = A::new(scenario, seed);
        let tcp = match &scenario.beside {
            Some(beside) => Scenario { protocol: beside.protocol.clone(), ..scenario.clone() },
            None => scenario.clone(),
        };
        BesideTcp { protocol, tcp: Tcp::new(&tcp, seed) }
    }

    fn endpoint(&self, host: HostId, link: Rate) -> Self::Endpoint {
        let both = self.overhead();
        Both {
            protocol: self.protocol.endpoint(host, link),
            tcp: self.tcp.endpoint(host, link),
            more: (self.protocol.overhead() - both, self.tcp.overhead() - both),
            tcp_first: false,
        }
    }

    fn overhead(&self) -> u8 {
        self.protocol.overhead().min(self.tcp.overhead())
    }

    fn unicast(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        match leg.beside {
            true => actions.translated(Of::Tcp, |actions| self.tcp.unicast(leg, actions)),
            false => {
                actions.translated(Of::Protocol, |actions| self.protocol.unicast(leg, actions))
            }
        }
    }

    fn one_to_many(&self, leg: Leg, to: &[u32], actions: &mut ActionsOf<Self>) -> bool {
        !leg.beside
            && actions
                .translated(Of::Protocol, |actions| self.protocol.one_to_many(leg, to, actions))
    }

    fn many_to_one(&self, leg: Leg, from: &[u32], actions: &mut ActionsOf<Self>) -> bool {
        !leg.beside
            && actions
                .translated(Of::Protocol, |actions| self.protocol.many_to_one(leg, from, actions))
    }

    fn cancel(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        match leg.beside {
            true => actions.translated(Of::Tcp, |actions| self.tcp.cancel(leg, actions)),
            false => actions.translated(Of::Protocol, |actions| self.protocol.cancel(leg, actions)),
        }
    }

    fn captured(&self, frame: &FrameOf<Self>) -> Transport {
        match frame.header.of {
            Of::Protocol(header) => self.protocol.captured(&frame.with_header(header)),
            Of::Tcp(header) => self.tcp.captured(&frame.with_header(header)),
        }
    }

    fn session_event(
        &self,
        event: <Self::Endpoint as Endpoint>::Event,
    ) -> Option<(SessionId, SessionEvent)> {
        match event {
            Of::Protocol(event) => self.protocol.session_event(event),
            Of::Tcp(event) => self.tcp.session_event(event),
        }
    }

    fn brief(endpoint: &Self::Endpoint, session: SessionId) -> String {
        let [protocol, tcp] =
            [A::brief(&endpoint.protocol, session), Tcp::brief(&endpoint.tcp, session)];
        format!("{protocol}; beside it {tcp}")
    }

    fn block_symbols(&self, bytes: u64, sbn: u32) -> u32 {
        self.protocol.block_symbols(bytes, sbn)
    }
}
