//! Packet identity: the name by which both ends of the link know a packet (§4.6).
//!
//! The paper takes addresses, IP identification, length and a checksum of the payload. Today most
//! packets have an identification of 0, and a checksum is no identity at 10 Gbit/s. So the name is
//! a keyed 64-bit hash of the whole packet, without what routers change on the way: time to live,
//! traffic class, and the header checksum over them. With a million packets in memory and a million
//! new ones a second, two of them share a name once in half a year; a stranger who does not know the
//! key cannot make two that do.
//!
//! Names travel in the clear, so the hash is a pseudorandom function: half of the AES-128 block of a universal hash of
//! the packet's bytes and length, which nobody sees ([`UniversalHash`]). Two packets have one universal hash with a chance
//! of 2^-62. UMAC (RFC 4418) is made in the same way.
//!
//! What routers change is set to zero before a packet is mixed into a repair, and travels beside its
//! name, so that a recovered packet has it as it left.

use std::fmt;
use std::sync::Arc;

use aes::cipher::{BlockEncrypt, KeyInit};
use aes::{Aes128, Block};
use wellspring_codec::interleave::PacketName;
use wellspring_kernels::UniversalHash;

use crate::auth::PresharedKey;

/// IPv4's least header \[bytes\].
const IPV4_HEADER: usize = 20;
/// IPv6's header \[bytes\].
const IPV6_HEADER: usize = 40;
/// Hop-by-hop options, which routers may change (RFC 8200 §4.3).
const HOP_BY_HOP: u8 = 0;
/// The protocol, or next header, TCP.
const TCP: u8 = 6;

/// What routers may change in a packet, as it was when it left.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Volatile {
    /// IPv4's time to live or IPv6's hop limit.
    pub hops: u8,
    /// IPv4's type of service or IPv6's traffic class: DSCP and ECN.
    pub class: u8,
}

impl Volatile {
    /// Marks a packet for congestion (CE of RFC 3168); false if its flow does not listen to marks.
    pub(crate) fn mark(&mut self) -> bool {
        let listens = self.class & 3 != 0;
        if listens {
            self.class |= 3;
        }
        listens
    }
}

/// Who a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The same at both ends, and no other packet's.
    pub name: PacketName,
    /// Its length \[bytes\], which may be less than the frame's it came in.
    pub len: usize,
    /// What was set to zero.
    pub volatile: Volatile,
}

/// Why a packet is not protected. It is forwarded all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unprotected {
    /// Neither IPv4 nor IPv6, or shorter than its header says.
    NotIp,
    /// It has options that routers may change.
    Options,
    /// Longer than what a repair can hold.
    TooLong {
        /// Its length \[bytes\].
        got: usize,
        /// The longest protected \[bytes\].
        limit: usize,
    },
}

impl fmt::Display for Unprotected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unprotected::NotIp => f.write_str("no whole IP packet"),
            Unprotected::Options => f.write_str("options that routers may change"),
            Unprotected::TooLong { got, limit } => {
                write!(f, "{got} bytes, of which a repair holds at most {limit}")
            }
        }
    }
}

impl std::error::Error for Unprotected {}

/// Names packets. Both ends of a link have the same.
#[derive(Clone)]
pub struct Namer {
    universal: Arc<UniversalHash>,
    prf: Aes128,
}

impl fmt::Debug for Namer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Namer")
    }
}

impl Namer {
    /// The names that go with a key.
    pub fn new(key: &PresharedKey) -> Self {
        let mut universal = [0; UniversalHash::KEY];
        key.derive("wellspring maelstrom 3 packet hashes", &[], &mut universal);
        let mut secret = [0; 16];
        key.derive("wellspring maelstrom 3 packet names", &[], &mut secret);
        let universal = Arc::new(UniversalHash::new(&universal));
        Namer { universal, prf: Aes128::new(&secret.into()) }
    }

    /// The identity of an IP packet. What routers change is set to zero in it; [`restore`] undoes that.
    ///
    /// # Errors
    /// Why it has no identity; then it was not touched.
    pub fn identify(&self, packet: &mut [u8]) -> Result<Identity, Unprotected> {
        let (len, volatile) = normalise(packet)?;
        Ok(Identity { name: self.name(&packet[..len]), len, volatile })
    }

    /// The name of a packet in which what routers change is zero.
    pub(crate) fn name(&self, normal: &[u8]) -> PacketName {
        // Lengths differ in the first block, so that no packet's blocks begin another's, and chaining them is safe.
        let mut name = normal.len() as u128;
        for part in normal.chunks(UniversalHash::LONGEST) {
            let mut block = Block::from((name ^ self.universal.hash(part)).to_le_bytes());
            self.prf.encrypt_block(&mut block);
            name = u128::from_le_bytes(block.into());
        }
        PacketName(name as u64)
    }
}

/// Sets to zero what routers change; returns the packet's length and what was there.
fn normalise(packet: &mut [u8]) -> Result<(usize, Volatile), Unprotected> {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER => {
            let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let header = usize::from(packet[0] & 15) * 4;
            if header < IPV4_HEADER || len < header || len > packet.len() {
                return Err(Unprotected::NotIp);
            }
            if header > IPV4_HEADER {
                return Err(Unprotected::Options);
            }
            let volatile = Volatile { hops: packet[8], class: packet[1] };
            packet[1] = 0;
            packet[8] = 0;
            packet[10..12].fill(0);
            Ok((len, volatile))
        }
        Some(6) if packet.len() >= IPV6_HEADER => {
            let len = IPV6_HEADER + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            if len > packet.len() {
                return Err(Unprotected::NotIp);
            }
            if packet[6] == HOP_BY_HOP {
                return Err(Unprotected::Options);
            }
            let class = packet[0] << 4 | packet[1] >> 4;
            let volatile = Volatile { hops: packet[7], class };
            packet[0] &= 0xf0;
            packet[1] &= 0x0f;
            packet[7] = 0;
            Ok((len, volatile))
        }
        _ => Err(Unprotected::NotIp),
    }
}

/// Whether an identified packet is TCP's. Behind extension headers of IPv6 it is not seen.
pub(crate) fn is_tcp(packet: &[u8]) -> bool {
    let protocol = if packet.first().is_some_and(|first| first >> 4 == 4) { 9 } else { 6 };
    packet.get(protocol) == Some(&TCP)
}

/// Puts back into an identified packet what routers change, and IPv4's header checksum with it.
pub fn restore(packet: &mut [u8], volatile: Volatile) {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER => {
            packet[1] = volatile.class;
            packet[8] = volatile.hops;
            packet[10..12].fill(0);
            let sum = checksum(&packet[..IPV4_HEADER]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if packet.len() >= IPV6_HEADER => {
            packet[0] = packet[0] & 0xf0 | volatile.class >> 4;
            packet[1] = packet[1] & 0x0f | volatile.class << 4;
            packet[7] = volatile.hops;
        }
        _ => {}
    }
}

/// The internet checksum (RFC 1071) of whole 16-bit words.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
