//! Protocols behind one interface for experiments.

mod coexist;
mod lttp;
mod ndp;
mod scdp;
mod tcp;
mod transfer;

pub use coexist::BesideTcp;
pub use lttp::Lttp;
pub use ndp::Ndp;
pub use scdp::Scdp;
pub use tcp::Tcp;

use crate::record::{Account, Reason};
use crate::scenario::Scenario;
use core::fmt::{Debug, Display};
use wellspring_core::{Endpoint, Frame, GroupId, HostId, Rate, Seed, SessionId};
use wellspring_sim::Actions;
use wellspring_sim::pcapng::Transport;

/// Events of a session, whatever the protocol.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SessionEvent {
    /// A receiver has heard of it.
    Accepted,
    /// A receiver has so many more bytes.
    Progress(u64),
    /// A receiver has it all.
    Received(Account),
    /// A sender's retransmission timer went off, by congestion window and data in flight \[bytes\].
    TimedOut {
        /// Congestion window before it.
        window: u64,
        /// Sent and not acknowledged.
        in_flight: u64,
    },
    /// It ended without success, at a receiver or a sender.
    Failed(Reason),
    /// A receiver of a group is served by itself from now on: it leaves the group.
    LeavesGroup,
    /// A sender has given this receiver up.
    Lost(HostId, Reason),
}

/// A protocol as experiments use it.
pub trait Adapter {
    /// One host of it.
    type Endpoint: Endpoint<CommandError: Display> + Debug;

    /// By a scenario.
    fn new(scenario: &Scenario, seed: Seed) -> Self;
    /// The endpoint of a host whose links carry so much towards it.
    fn endpoint(&self, host: HostId, link: Rate) -> Self::Endpoint;
    /// Bytes of a packet's headers that its frames do not account for.
    fn overhead(&self) -> u8;
    /// One sender, one receiver.
    fn unicast(&self, leg: Leg, actions: &mut ActionsOf<Self>);
    /// One sender, several receivers; false if the protocol cannot.
    fn one_to_many(&self, _leg: Leg, _to: &[u32], _actions: &mut ActionsOf<Self>) -> bool {
        false
    }
    /// Several senders, one receiver; false if the protocol cannot.
    fn many_to_one(&self, _leg: Leg, _from: &[u32], _actions: &mut ActionsOf<Self>) -> bool {
        false
    }
    /// Ends a session early at its sender.
    fn cancel(&self, leg: Leg, actions: &mut ActionsOf<Self>);
    /// What captures show of a frame behind its IP header: the real protocol's layout.
    fn captured(&self, frame: &FrameOf<Self>) -> Transport;
    /// What an event says, and of which session.
    fn session_event(
        &self,
        event: <Self::Endpoint as Endpoint>::Event,
    ) -> Option<(SessionId, SessionEvent)>;
    /// How far an endpoint is with a session, in a line.
    fn brief(endpoint: &Self::Endpoint, session: SessionId) -> String;
    /// Symbols of a block of an object of so many bytes, for the latency of decoding; 0 if the
    /// protocol has none.
    fn block_symbols(&self, _bytes: u64, _sbn: u32) -> u32 {
        0
    }
}

/// The multicast group of a session to several receivers.
pub(crate) fn multicast_group(session: SessionId) -> GroupId {
    GroupId(session.0 & 0x7fff_ffff)
}

/// The actions of a protocol's application.
pub type ActionsOf<A> = Actions<<<A as Adapter>::Endpoint as Endpoint>::Command>;

/// The frames of a protocol.
pub type FrameOf<A> = Frame<<<A as Adapter>::Endpoint as Endpoint>::Header>;

/// A session to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leg {
    /// Its number, not used before.
    pub session: SessionId,
    /// Sender (not used by many-to-one).
    pub from: u32,
    /// Receiver (not used by one-to-many).
    pub to: u32,
    /// Size \[bytes\].
    pub bytes: u64,
    /// Background: in the lowest class (SCDP §V-A), where there are several.
    pub background: bool,
    /// Of the TCP beside the scenario's protocol.
    pub beside: bool,
}
