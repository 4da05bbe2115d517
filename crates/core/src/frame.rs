//! Frames: identities and lengths, never payload.

use core::fmt;

/// A host, numbered by the driver of the endpoints (the simulator's topology, the real
/// transport's table of addresses). Below 2^31.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct HostId(pub u32);

/// A multicast group, numbered likewise. Below 2^31.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct GroupId(pub u32);

/// One transport session between a set of hosts. Chosen by the side that starts the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub u32);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {:08x}", self.0)
    }
}

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Destination {
    /// One host.
    Host(HostId),
    /// Every member of a multicast group.
    Group(GroupId),
}

/// A priority level at switches: 0 is served first. SCDP keeps 0 for pulls and trimmed headers
/// (SCDP §IV-B) and uses 1 and above for symbols.
pub type Class = u8;

/// The ECN field of IP (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Ecn {
    /// The transport does not read marks.
    #[default]
    NotCapable,
    /// The transport reads marks; not marked.
    Capable,
    /// Congestion experienced.
    Marked,
}

/// A protocol's header: a small value, its length on the wire known without bytes.
pub trait Header: Copy + fmt::Debug {
    /// Bytes of the header on the wire behind IP (UDP header included, payload excluded).
    fn wire_len(&self) -> u16;
}

/// One packet as endpoints and switches see it: at most 64 bytes, `Copy`, without payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<H> {
    /// The sending host.
    pub source: HostId,
    /// The receiving host or group.
    pub destination: Destination,
    /// The session it belongs to.
    pub session: SessionId,
    /// Payload bytes that travel with it; 0 once trimmed.
    pub payload_len: u16,
    /// Path label: what multi-path switches hash beside the addresses (a source port, an ESI).
    pub path: u16,
    /// Priority level, 0 first.
    pub class: Class,
    /// ECN field.
    pub ecn: Ecn,
    /// True when a switch cut the payload away (SCDP's header packet).
    pub trimmed: bool,
    /// The protocol's header; switches do not look inside.
    pub header: H,
}

impl<H: Header> Frame<H> {
    /// The same frame with another header: for endpoints made of several.
    pub fn with_header<G>(self, header: G) -> Frame<G> {
        let Frame { source, destination, session, payload_len, path, class, ecn, trimmed, .. } =
            self;
        Frame { source, destination, session, payload_len, path, class, ecn, trimmed, header }
    }

    /// Bytes behind the IP header: protocol header and payload.
    pub fn transport_len(&self) -> u32 {
        u32::from(self.header.wire_len()) + u32::from(self.payload_len)
    }

    /// What a trimming switch forwards instead of this frame: the header, in the control class.
    pub fn trim(mut self) -> Self {
        self.payload_len = 0;
        self.trimmed = true;
        self.class = 0;
        self
    }
}
