//! Probes of a path: datagrams of a length and a traffic class that the client chooses, both ways.

use alloc::vec::Vec;

use super::text::{put_text, text};
use super::{MAX_TEXT_LEN, REQUEST_MIN_LEN};
use crate::ParseError;
use crate::bytes::Reader;

/// Longest probe \[bytes\]: with IPv4's and UDP's headers a frame of 9,000 bytes.
pub const MAX_PROBE_LEN: usize = 8_972;

/// Asks how a datagram arrives. Both lengths are between [`REQUEST_MIN_LEN`] and [`MAX_PROBE_LEN`], and the reply's is
/// not the longer one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Length of this request \[bytes\].
    pub len: u16,
    /// Length that the reply is to have \[bytes\].
    pub reply_len: u16,
    /// Traffic class (DSCP and ECN) that the reply is to have.
    pub class: u8,
}

impl Probe {
    /// A probe of these lengths, if they are allowed.
    pub fn new(len: u16, reply_len: u16, class: u8) -> Option<Self> {
        let is_allowed = usize::from(reply_len) >= REQUEST_MIN_LEN
            && reply_len <= len
            && usize::from(len) <= MAX_PROBE_LEN;
        is_allowed.then_some(Probe { len, reply_len, class })
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.len.to_be_bytes());
        out.extend_from_slice(&self.reply_len.to_be_bytes());
        out.push(self.class);
    }

    pub(super) fn parse(body: &mut Reader<'_>, datagram_len: usize) -> Result<Self, ParseError> {
        let probe = Probe::new(body.u16()?, body.u16()?, body.u8()?);
        let is_as_long = |probe: &Probe| usize::from(probe.len) == datagram_len;
        probe.filter(is_as_long).ok_or(ParseError::BadField("length"))
    }
}

/// What a server has and allows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Abilities(pub u8);

impl Abilities {
    /// Sends by segmentation offload (GSO).
    pub const SEGMENTATION: Abilities = Abilities(1);
    /// Receives coalesced datagrams (GRO).
    pub const COALESCING: Abilities = Abilities(2);
    /// Sees datagrams that a switch has trimmed.
    pub const TRIMS: Abilities = Abilities(4);
    /// Takes objects.
    pub const TAKES: Abilities = Abilities(8);
    /// Lets an object that it takes replace one of the same name.
    pub const REPLACES: Abilities = Abilities(16);

    /// Whether all of these are among them.
    pub fn has(self, these: Abilities) -> bool {
        self.0 & these.0 == these.0
    }

    /// With these besides, if so.
    #[must_use]
    pub fn with(self, these: Abilities, so: bool) -> Self {
        if so { Abilities(self.0 | these.0) } else { self }
    }
}

/// How a probe arrived, and what the server knows of the path and of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeReply<'a> {
    /// Length of this reply \[bytes\].
    pub reply_len: u16,
    /// Traffic class that the probe arrived with.
    pub class: u8,
    /// Largest UDP payload that the server's system takes for one datagram on the way back \[bytes\]; 0 if it does not say.
    pub largest_back: u16,
    /// The server's clock: time since 1970 \[us\].
    pub clock_us: u64,
    /// What the server has and allows.
    pub abilities: Abilities,
    /// Who the client is there, and its rights, for people; at most [`MAX_TEXT_LEN`] bytes. Empty if nobody is
    /// known there.
    pub rights: &'a str,
}

impl<'a> ProbeReply<'a> {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.reply_len.to_be_bytes());
        out.push(self.class);
        out.extend_from_slice(&self.largest_back.to_be_bytes());
        out.extend_from_slice(&self.clock_us.to_be_bytes());
        out.push(self.abilities.0);
        put_text(self.rights, out);
    }

    pub(super) fn parse(body: &mut Reader<'a>, datagram_len: usize) -> Result<Self, ParseError> {
        let (reply_len, class, largest_back) = (body.u16()?, body.u8()?, body.u16()?);
        if usize::from(reply_len) != datagram_len {
            return Err(ParseError::BadField("length"));
        }
        let (clock_us, abilities) = (body.u64()?, Abilities(body.u8()?));
        let len = usize::from(body.u8()?);
        let rights = text(body, len, MAX_TEXT_LEN)?;
        Ok(ProbeReply { reply_len, class, largest_back, clock_us, abilities, rights })
    }
}
