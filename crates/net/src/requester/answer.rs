//! Answers of servers, and the reasons why none came.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use wellspring_wire::control::{Abilities, Cookie, PutState, RefusalCode};

use crate::driver::KeyTrouble;
use crate::host_error::{HostTrouble, NO_ANSWER};
use crate::socket::Unreached;
use crate::store::Digest;

/// A final answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The host has the object.
    Info {
        /// Its length \[bytes\].
        size: u64,
        /// Its digest.
        digest: Digest,
        /// For asking the host to send it, once.
        cookie: Cookie,
        /// Which life of the host it is.
        instance: u32,
    },
    /// What was asked for is done, or begun.
    Accepted,
    /// Nodes of a manifest, one behind the other.
    Manifest(Vec<u8>),
    /// Runs of blocks that were there before.
    Held(Vec<Range<u32>>),
    /// How far an object is that is put.
    Status {
        /// Its state.
        state: PutState,
        /// Blocks that are there.
        blocks_done: u32,
        /// All its blocks.
        blocks_total: u32,
    },
    /// A probe was answered.
    Probed(Echo),
    /// By which other addresses the server is reached.
    Addresses(Vec<SocketAddr>),
}

/// How a probe arrived, and how its reply did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Echo {
    /// Traffic class of the probe when it arrived there.
    pub class_there: u8,
    /// Traffic class of the reply when it arrived here.
    pub class_here: u8,
    /// Largest UDP payload that the path back seems to carry \[bytes\].
    pub largest_back: u16,
    /// The host's clock \[us\].
    pub clock_us: u64,
    /// What the host's sockets can do.
    pub abilities: Abilities,
    /// The rights of this host's key there, as text.
    pub rights: String,
}

/// Why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskError {
    /// Nothing came for so long.
    NoAnswer(Duration),
    /// The host is there, and nobody listens at that port.
    PortClosed,
    /// What is sent does not get there, as the network or this host says.
    Unreachable(Unreached),
    /// The server says no.
    Refused {
        /// Why.
        code: RefusalCode,
        /// Why, in words; may be empty.
        text: String,
    },
    /// The server's answer makes no sense.
    Nonsense,
    /// Keys are in the way.
    Keys(KeyTrouble),
    /// It is another machine, and this host has no keys: nothing was sent.
    Clear,
    /// Our driver has stopped.
    Stopped,
}

impl AskError {
    /// What kind of trouble with the host it is.
    pub fn trouble(&self) -> HostTrouble {
        match self {
            AskError::NoAnswer(_) | AskError::Unreachable(_) => HostTrouble::Silent,
            AskError::PortClosed => HostTrouble::PortClosed,
            AskError::Refused { code: RefusalCode::NotFound | RefusalCode::BadName, .. } => {
                HostTrouble::NotFound
            }
            AskError::Refused { code: RefusalCode::NotAllowed | RefusalCode::Exists, .. } => {
                HostTrouble::NotAllowed
            }
            AskError::Refused {
                code: RefusalCode::NoSpace | RefusalCode::TooLarge | RefusalCode::OverQuota,
                ..
            } => HostTrouble::NoRoom,
            AskError::Refused { code: RefusalCode::Changed, .. } => HostTrouble::Changed,
            AskError::Keys(_) => HostTrouble::Keys,
            AskError::Clear => HostTrouble::Clear,
            AskError::Refused { .. } | AskError::Nonsense | AskError::Stopped => HostTrouble::Other,
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoAnswer(after) => {
                write!(f, "{NO_ANSWER} within {:.1} s", after.as_secs_f64())
            }
            AskError::PortClosed => Unreached::PortClosed.fmt(f),
            AskError::Unreachable(unreached) => unreached.fmt(f),
            AskError::Refused { code, text } if text.is_empty() => write!(f, "refused: {code}"),
            AskError::Refused { text, .. } => write!(f, "refused: {text}"),
            AskError::Keys(trouble) => trouble.fmt(f),
            AskError::Clear => f.write_str(
                "it is another machine, and this one has no keys: nothing is sent in clear unasked",
            ),
            AskError::Nonsense => f.write_str("an answer that makes no sense"),
            AskError::Stopped => f.write_str("the socket is closed"),
        }
    }
}
