//! Messages by which hosts and routers speak of multicast groups: IGMP (RFC 1112, 2236, 3376), MLD (RFC 2710, 3810).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const IGMP: u8 = 2;
const HOP_BY_HOP: u8 = 0;
const ICMPV6: u8 = 58;

/// A family of addresses; each has a querier of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    /// IPv4, by IGMP.
    V4,
    /// IPv6, by MLD.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }
}

/// What a frame for many stations carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// No IP multicast: a broadcast, or another protocol.
    Other,
    /// A packet to that group.
    Data(IpAddr),
    /// A message about groups.
    Message(Message<'a>),
    /// A message about groups that is not believed: of a wrong checksum, or not whole.
    Malformed,
}

/// A message about groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// A querier asks for memberships.
    Query(Query),
    /// A host is a member (version 1 or 2 of IGMP, version 1 of MLD).
    Join(IpAddr),
    /// A host leaves.
    Leave(IpAddr),
    /// A host says what it is a member of (version 3 of IGMP, version 2 of MLD).
    Report(Records<'a>),
}

/// A querier's question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// The family that it is about.
    pub family: Family,
    /// About this group alone; all if none.
    pub group: Option<IpAddr>,
    /// Whether it comes from a router: a switch that asks in a router's place has no address to ask from (RFC 4541,
    /// 2.1.1).
    pub from_router: bool,
    /// Timers are to be left as they are ("suppress router-side processing").
    pub suppress: bool,
    /// How long hosts may take for their answers.
    pub response: Duration,
    /// How many messages may be lost, plus one; 0 if it does not say.
    pub robustness: u32,
    /// Time between queries, if it says so.
    pub interval: Option<Duration>,
}

/// Group records of a report, whose lengths are right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Records<'a> {
    family: Family,
    count: usize,
    bytes: &'a [u8],
}

/// What a record says of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// The host wants packets of the group, from some sources at least.
    Wanted,
    /// It wants none any more.
    Ended,
    /// It wants no more and no less than before, as far as groups go.
    Unchanged,
}

impl Records<'_> {
    /// The family of the groups.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The groups, and what is said of each.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, Interest)> {
        let (family, mut rest) = (self.family, self.bytes);
        (0..self.count).map_while(move |_| {
            let (group, interest, len) = record(family, rest)?;
            rest = &rest[len..];
            Some((group, interest))
        })
    }

    fn check(self) -> Option<Self> {
        let mut rest = self.bytes;
        for _ in 0..self.count {
            let (_, _, len) = record(self.family, rest)?;
            rest = &rest[len..];
        }
        Some(self)
    }
}

/// The first record of some, and its length.
fn record(family: Family, bytes: &[u8]) -> Option<(IpAddr, Interest, usize)> {
    let (group, address) = address_at(family, bytes, 4)?;
    let sources = usize::from(word(bytes, 2)?);
    let len = 4 + address + sources * address + 4 * usize::from(bytes[1]);
    bytes.get(..len)?;
    // RFC 3376, 4.2.12; RFC 3810, 5.2.12.
    let interest = match (bytes[0], sources) {
        // Packets from those sources, or from a few more.
        (1 | 3 | 5, 1..) => Interest::Wanted,
        // From all but those.
        (2 | 4, _) => Interest::Wanted,
        // From none.
        (3, 0) => Interest::Ended,
        _ => Interest::Unchanged,
    };
    Some((group, interest, len))
}

/// Reads a frame without a tag that is for many stations.
pub fn read(frame: &[u8]) -> Content<'_> {
    match frame.get(12..ETHERNET) {
        Some([0x08, 0x00]) => ipv4(&frame[ETHERNET..]).unwrap_or(Content::Other),
        Some([0x86, 0xdd]) => ipv6(&frame[ETHERNET..]).unwrap_or(Content::Other),
        _ => Content::Other,
    }
}

/// None if it is no packet, or not for a group.
fn ipv4(packet: &[u8]) -> Option<Content<'_>> {
    let header = usize::from(packet.first()? & 15) * 4;
    let len = usize::from(word(packet, 2)?);
    if packet[0] >> 4 != 4 || header < IPV4 {
        return None;
    }
    let (source, _) = address_at(Family::V4, packet, 12)?;
    let (group, _) = address_at(Family::V4, packet, 16)?;
    if !group.is_multicast() {
        return None;
    }
    let fragment = word(packet, 6)? & 0x3fff != 0;
    if packet[9] != IGMP || fragment {
        return Some(Content::Data(group));
    }
    let whole = packet.get(header..len).filter(|message| checksum(message, 0) == 0);
    let valid = checksum(packet.get(..header)?, 0) == 0;
    let Some(message) = whole.filter(|_| valid) else { return Some(Content::Malformed) };
    Some(igmp(message, source).unwrap_or(Content::Malformed))
}

fn igmp(message: &[u8], source: IpAddr) -> Option<Content<'_>> {
    let (group, _) = address_at(Family::V4, message, 4)?;
    let group_of = |message: fn(IpAddr) -> Message<'static>| {
        Some(if group.is_multicast() {
            Content::Message(message(group))
        } else {
            Content::Malformed
        })
    };
    match message[0] {
        0x11 => {
            let v3 = message.get(8..12);
            let tenths = match message[1] {
                // Version 1 does not say.
                0 => 100,
                code if v3.is_some() => float(code.into(), 8),
                code => code.into(),
            };
            Some(Content::Message(Message::Query(Query {
                family: Family::V4,
                group: asked(group)?,
                from_router: !source.is_unspecified(),
                response: Duration::from_millis(100 * u64::from(tenths)),
                ..timing(Family::V4, v3)
            })))
        }
        0x12 | 0x16 => group_of(Message::Join),
        0x17 => group_of(Message::Leave),
        0x22 => {
            let records = Records {
                family: Family::V4,
                count: word(message, 6)?.into(),
                bytes: message.get(8..)?,
            };
            Some(Content::Message(Message::Report(records.check()?)))
        }
        // What a later version says is for all (RFC 4541, 2.1.1).
        _ => Some(Content::Other),
    }
}

fn ipv6(packet: &[u8]) -> Option<Content<'_>> {
    let header = packet.get(..IPV6)?;
    let (group, _) = address_at(Family::V6, packet, 24)?;
    if header[0] >> 4 != 6 || !group.is_multicast() {
        return None;
    }
    // MLD has a router alert before it, so that routers look at it (RFC 2710, 3).
    let payload = packet.get(IPV6..IPV6 + usize::from(word(packet, 4)?));
    let after = |options: &[u8]| Some(8 * (1 + usize::from(*options.get(1)?)));
    let icmp = match payload {
        Some(payload) if header[6] == HOP_BY_HOP && payload.first() == Some(&ICMPV6) => {
            after(payload).and_then(|len| payload.get(len..))
        }
        _ => return Some(Content::Data(group)),
    };
    let Some(icmp) = icmp else { return Some(Content::Malformed) };
    if !matches!(icmp.first(), Some(130..=132 | 143)) {
        return Some(Content::Data(group));
    }
    let (source, _) = address_at(Family::V6, packet, 8)?;
    let pseudo = sum(&packet[8..IPV6], 0) + icmp.len() as u32 + u32::from(ICMPV6);
    // No router passes MLD on.
    if checksum(icmp, pseudo) != 0 || header[7] != 1 {
        return Some(Content::Malformed);
    }
    Some(mld(icmp, source).unwrap_or(Content::Malformed))
}

fn mld(message: &[u8], source: IpAddr) -> Option<Content<'_>> {
    let link_local = matches!(source, IpAddr::V6(source) if source.is_unicast_link_local());
    if message[0] == 143 {
        let records = Records {
            family: Family::V6,
            count: word(message, 6)?.into(),
            bytes: message.get(8..)?,
        };
        return Some(Content::Message(Message::Report(records.check()?)));
    }
    let (group, _) = address_at(Family::V6, message, 8)?;
    if message[0] == 130 {
        let v2 = message.get(24..28);
        let code = word(message, 4)?;
        let millis = if v2.is_some() { float(code.into(), 16) } else { code.into() };
        return Some(Content::Message(Message::Query(Query {
            family: Family::V6,
            group: asked(group)?,
            from_router: link_local,
            response: Duration::from_millis(millis.into()),
            ..timing(Family::V6, v2)
        })));
    }
    if !group.is_multicast() {
        return None;
    }
    Some(Content::Message(match message[0] {
        131 => Message::Join(group),
        _ => Message::Leave(group),
    }))
}

/// The group that a query is about: all if it is no address at all.
fn asked(group: IpAddr) -> Option<Option<IpAddr>> {
    match group {
        group if group.is_unspecified() => Some(None),
        group if group.is_multicast() => Some(Some(group)),
        _ => None,
    }
}

/// What a query's last bytes say about timers (RFC 3376, 4.1; RFC 3810, 5.1); earlier versions have none.
fn timing(family: Family, bytes: Option<&[u8]>) -> Query {
    let (flags, code) = match bytes {
        Some([flags, code, ..]) => (*flags, *code),
        _ => (0, 0),
    };
    let interval = (code != 0).then(|| Duration::from_secs(float(code.into(), 8).into()));
    Query {
        family,
        group: None,
        from_router: false,
        suppress: flags & 8 != 0,
        response: Duration::ZERO,
        robustness: (flags & 7).into(),
        interval,
    }
}

/// A number of so many bits: as it is in its lower half, else a floating-point number of a hidden bit, three bits of
/// exponent above the mantissa (RFC 3376, 4.1.1 and 4.1.7; RFC 3810, 5.1.3).
fn float(code: u32, bits: u32) -> u32 {
    if code < 1 << (bits - 1) {
        return code;
    }
    let mantissa = bits - 4;
    let exponent = code >> mantissa & 7;
    (code & ((1 << mantissa) - 1) | 1 << mantissa) << (exponent + 3)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// An address, and its length \[bytes\].
fn address_at(family: Family, bytes: &[u8], at: usize) -> Option<(IpAddr, usize)> {
    let bytes = bytes.get(at..)?;
    Some(match family {
        Family::V4 => (Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(), 4),
        Family::V6 => (Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(), 16),
    })
}

/// Sum of 16-bit words that is not folded (RFC 1071). Of what a packet holds it fits 32 bits.
fn sum(bytes: &[u8], before: u32) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |last| u32::from(*last) << 8);
    words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum::<u32>() + last + before
}

/// The checksum of bytes that follow what gave that sum: 0 if they hold their own and it is right.
pub(super) fn checksum(bytes: &[u8], before: u32) -> u16 {
    let sum = sum(bytes, before);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
