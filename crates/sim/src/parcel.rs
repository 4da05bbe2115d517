//! Packets as switches move them: 24 bytes that point to a frame.

use wellspring_core::{Destination, Ecn, Frame, Header};
use wellspring_fabric::{FlowKey, Packet};

const GROUP: u32 = 1 << 31;
const SHARED: u32 = 1 << 31;
/// The length of what is left of a trimmed packet is counted in fours: it may be more than a byte holds.
const IN_FOURS: u32 = 1 << 30;

const CLASS: u8 = 0x0f;
const TRIMMABLE: u8 = 0x10;
const TRIMMED: u8 = 0x20;
const ECN_CAPABLE: u8 = 0x40;
const ECN_MARKED: u8 = 0x80;

/// How many bytes a frame is on the wire, beyond what its protocol says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireModel {
    /// IP header, framing and gaps of every packet \[bytes\].
    pub overhead: u8,
    /// Length of a trimmed packet \[bytes\]; `None` is its headers and the overhead. Above 255 a multiple of
    /// 4, and at most [`WireModel::MAX_TRIMMED`].
    pub trimmed_len: Option<u16>,
    /// Whether switches trim packets of multicast groups; otherwise they drop them.
    pub trims_groups: bool,
}

impl WireModel {
    /// Length of a trimmed packet, at most \[bytes\].
    pub const MAX_TRIMMED: u16 = 1_020;
}

impl Default for WireModel {
    /// An IPv4 header of 20 bytes, headers stay whole, and groups' packets are trimmed.
    fn default() -> Self {
        WireModel { overhead: 20, trimmed_len: None, trims_groups: true }
    }
}

/// A packet on its way: a handle to its frame and what switches read. What a switch does to it
/// (trim, mark) is noted here, so that the frame itself is touched only at the ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel {
    /// When it reaches the end of the link it is on \[ps\].
    pub arrives: u64,
    frame: u32,
    destination: u32,
    wire_len: u16,
    pub key: FlowKey,
    /// 0 if it is not trimmed, but dropped.
    trimmed_len: u8,
    bits: u8,
}

const _: () = assert!(size_of::<Parcel>() == 24);

impl Parcel {
    pub fn destination(&self) -> Destination {
        match self.destination & GROUP {
            0 => Destination::Host(wellspring_core::HostId(self.destination)),
            _ => Destination::Group(wellspring_core::GroupId(self.destination & !GROUP)),
        }
    }

    /// The destination as a host's number, or `None` for a group.
    #[inline]
    pub fn host(&self) -> Option<u32> {
        (self.destination & GROUP == 0).then_some(self.destination)
    }

    /// Whether it has a payload.
    pub fn has_payload(&self) -> bool {
        self.bits & TRIMMABLE != 0
    }

    fn handle(&self) -> u32 {
        self.frame & !(SHARED | IN_FOURS)
    }
}

impl Packet for Parcel {
    fn wire_len(&self) -> u32 {
        u32::from(self.wire_len)
    }
    fn class(&self) -> u8 {
        self.bits & CLASS
    }
    fn trimmable(&self) -> bool {
        self.has_payload() && self.trimmed_len > 0
    }
    fn trim(&mut self) {
        let unit = if self.frame & IN_FOURS == 0 { 1 } else { 4 };
        // What is shorter passes whole, but for its payload.
        self.wire_len = self.wire_len.min(u16::from(self.trimmed_len) * unit);
        self.bits = (self.bits & !(CLASS | TRIMMABLE)) | TRIMMED;
    }
    fn mark(&mut self) -> bool {
        let capable = self.bits & ECN_CAPABLE != 0;
        if capable {
            self.bits |= ECN_MARKED;
        }
        capable
    }
}

/// A frame in a cache line of its own, or two.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot<H>(Frame<H>);

/// The frames of all packets on their way.
#[derive(Debug)]
pub(crate) struct Frames<H> {
    slots: Vec<Slot<H>>,
    free: Vec<u32>,
    /// Copies in the network of each frame that was replicated, beyond the first.
    copies: Vec<u32>,
    live: u64,
}

impl<H: Header> Frames<H> {
    pub fn new() -> Self {
        Frames { slots: Vec::new(), free: Vec::new(), copies: Vec::new(), live: 0 }
    }

    /// Packets in the network, copies included.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Puts a frame into the network.
    pub fn insert(&mut self, frame: Frame<H>, wire: WireModel) -> Parcel {
        let headers = u32::from(frame.header.wire_len()) + u32::from(wire.overhead);
        let header_len = headers.min(255) as u8;
        let trimmed_len = wire.trimmed_len.unwrap_or(header_len.into()).min(WireModel::MAX_TRIMMED);
        let wire_len = if frame.trimmed {
            u32::from(trimmed_len)
        } else {
            headers + u32::from(frame.payload_len)
        };
        let ecn = match frame.ecn {
            Ecn::NotCapable => 0,
            Ecn::Capable => ECN_CAPABLE,
            Ecn::Marked => ECN_CAPABLE | ECN_MARKED,
        };
        let trim = match (frame.trimmed, frame.payload_len) {
            (true, _) => TRIMMED,
            (false, 0) => 0,
            (false, _) => TRIMMABLE,
        };
        let destination = match frame.destination {
            Destination::Host(host) => host.0,
            Destination::Group(group) => group.0 | GROUP,
        };
        let flow = FlowKey::hash_flow(frame.source.0, destination, frame.session.0);
        let (short, unit) = match u8::try_from(trimmed_len) {
            Ok(len) => (len, 0),
            Err(_) => ((trimmed_len / 4) as u8, IN_FOURS),
        };
        let is_trimmed = wire.trims_groups || matches!(frame.destination, Destination::Host(_));
        self.live += 1;
        let handle = match self.free.pop() {
            Some(handle) => {
                self.slots[handle as usize] = Slot(frame);
                handle
            }
            None => {
                self.slots.push(Slot(frame));
                (self.slots.len() - 1) as u32
            }
        };
        Parcel {
            arrives: 0,
            frame: handle | unit,
            destination,
            wire_len: wire_len.min(u32::from(u16::MAX)) as u16,
            key: FlowKey { flow, label: frame.path },
            trimmed_len: if is_trimmed { short } else { 0 },
            bits: frame.class.min(CLASS) | ecn | trim,
        }
    }

    /// One more packet of the same frame.
    pub fn replicate(&mut self, parcel: Parcel) -> Parcel {
        let handle = parcel.handle() as usize;
        if handle >= self.copies.len() {
            self.copies.resize(handle + 1, 0);
        }
        self.copies[handle] += 1;
        self.live += 1;
        Parcel { frame: parcel.frame | SHARED, ..parcel }
    }

    /// Marks a parcel whose frame was replicated.
    pub fn shared(parcel: Parcel) -> Parcel {
        Parcel { frame: parcel.frame | SHARED, ..parcel }
    }

    /// Reads a packet's frame.
    #[inline]
    pub fn touch(&self, parcel: Parcel) -> u32 {
        let slot = self.slots.get(parcel.handle() as usize);
        slot.map_or(0, |slot| slot.0.source.0)
    }

    /// A packet's frame, trimmed or marked as switches left it.
    #[inline]
    pub fn see(&self, parcel: Parcel) -> Frame<H> {
        let handle = parcel.handle();
        let mut frame = self.slots[handle as usize].0;
        if parcel.bits & TRIMMED != 0 && !frame.trimmed {
            frame = frame.trim();
        }
        if parcel.bits & ECN_MARKED != 0 {
            frame.ecn = Ecn::Marked;
        }
        frame
    }

    /// Takes a packet out of the network: its frame as it arrived.
    #[inline]
    pub fn take(&mut self, parcel: Parcel) -> Frame<H> {
        let frame = self.see(parcel);
        self.release(parcel);
        frame
    }

    /// Takes a packet out of the network unseen.
    pub fn release(&mut self, parcel: Parcel) {
        self.live -= 1;
        let handle = parcel.handle();
        if parcel.frame & SHARED != 0
            && let Some(copies) = self.copies.get_mut(handle as usize)
            && *copies > 0
        {
            *copies -= 1;
            return;
        }
        self.free.push(handle);
    }
}
