//! How tasks and threads speak to the loop, and hear from it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::mpsc;
use wellspring_codec::lt::Decoder;
use wellspring_transport::lttp::{LttpHeader, ReceiveStats, SendStats};
use wellspring_wire::lttp::Cookie;

use super::counters::{Counters, LttpStatistics};
use super::receiving::Receiving;
use super::sending::Sending;
use crate::driver::wait::LoopWaker;

/// What waits for the loop, at most: senders wait beyond.
pub(super) const MAX_INPUTS: usize = 1_024;
/// What the loop has to say to a connection, at most: who does not take it is gone.
pub(super) const MAX_TOLD: usize = 64;

/// What the loop is told.
pub(super) enum Input {
    /// A session begins.
    Open(Box<Opening>),
    /// A message came by the control channel.
    Control(Cookie, LttpHeader),
    /// The session's connection is closed: so is the session.
    Gone(Cookie),
    /// A block has been read.
    Loaded(Cookie, u32, io::Result<Vec<u8>>),
    /// A block has been written; its decoder comes back.
    Written(Cookie, Box<Decoder>, io::Result<()>),
    /// All sessions end, and so does the loop.
    ShutDown,
}

/// A session to begin.
pub(super) struct Opening {
    pub cookie: Cookie,
    /// The host at the other end of the TCP connection: datagrams of others are dropped.
    pub peer: IpAddr,
    /// Where its datagrams come from and go to; a server learns it from the hello.
    pub address: Option<SocketAddr>,
    pub side: Side,
    pub told: mpsc::Sender<Told>,
}

/// Which side this host is on, and its bytes.
pub(super) enum Side {
    Sending(Sending),
    Receiving(Receiving),
}

/// What a connection is told of its session. When the channel closes, the session is over.
#[derive(Debug)]
pub(super) enum Told {
    /// Send this to the peer.
    Say(LttpHeader),
    /// Everything is received and written.
    Received(ReceiveStats),
    /// The peer has everything.
    Sent(SendStats),
    /// It ended otherwise, and why.
    Failed(Ending),
}

/// Why a session ended before its end.
#[derive(Debug)]
pub(super) enum Ending {
    /// The peer was silent.
    Silent,
    /// The peer closed it.
    Closed,
    /// What the server sends is cut otherwise than it was asked for.
    OtherParameters,
    /// The decoder's room is used up.
    Exhausted,
    /// Bytes could not be read.
    Read(io::Error),
    /// Bytes could not be written.
    Write(io::Error),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Silent => f.write_str("fell silent"),
            Ending::Closed => f.write_str("closed the session"),
            Ending::OtherParameters => f.write_str("sends other symbols than it was asked for"),
            Ending::Exhausted => f.write_str("sent too many symbols that do not give a block"),
            Ending::Read(error) => write!(f, "cannot read the object: {error}"),
            Ending::Write(error) => write!(f, "cannot write the object: {error}"),
        }
    }
}

/// A way to the loop.
#[derive(Clone)]
pub(super) struct Handle {
    pub inputs: mpsc::Sender<Input>,
    pub waker: Arc<LoopWaker>,
    pub counters: Arc<Counters>,
    pub local_addr: SocketAddr,
}

impl Handle {
    /// Tells the loop; waits while too much waits for it. False if it has ended.
    pub(super) async fn tell(&self, input: Input) -> bool {
        let told = self.inputs.send(input).await.is_ok();
        self.waker.wake();
        told
    }

    /// The same from a thread that may wait.
    pub(super) fn tell_blocking(&self, input: Input) {
        // A loop that has ended needs nothing any more.
        let _ = self.inputs.blocking_send(input);
        self.waker.wake();
    }

    pub(super) fn statistics(&self) -> LttpStatistics {
        self.counters.read()
    }
}
