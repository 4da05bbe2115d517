//! TCP segments with data, as far as flows are followed by them.

use crate::flow::{Flow, at};
use crate::identity::is_tcp;

const NO_OPERATION: u8 = 1;
pub(crate) const TIME_STAMPS: u8 = 8;
/// Options that sign the header (RFC 2385, RFC 5925).
pub(crate) const MD5: u8 = 19;
pub(crate) const AUTHENTICATION: u8 = 29;

/// A segment of an IP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub flow: Flow,
    /// The number of its first byte.
    pub sequence: u32,
    /// None if it has no time stamp, or one that is signed.
    pub stamp: Option<TimeStamp>,
}

/// A time stamp of a segment (RFC 7323 §3.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeStamp {
    pub value: u32,
    /// Where it is in the packet.
    pub at: usize,
}

impl Segment {
    /// Reads an IP packet. None if it has no TCP segment, or one without data.
    pub(crate) fn parse(packet: &[u8]) -> Option<Segment> {
        if !is_tcp(packet) {
            return None;
        }
        let flow = Flow::of(packet)?;
        let segment = packet.get(flow.segment_at..)?;
        let header = usize::from(segment.get(12)? >> 4) * 4;
        if segment.len() <= header {
            return None;
        }
        let options = segment.get(20..header)?;
        let stamp = stamp_in(options).and_then(|place| {
            let value = u32::from_be_bytes(at(options, place)?);
            Some(TimeStamp { value, at: flow.segment_at + 20 + place })
        });
        Some(Segment { flow, sequence: u32::from_be_bytes(at(segment, 4)?), stamp })
    }
}

/// Where the stamp is among a segment's options; nowhere if they sign it.
fn stamp_in(options: &[u8]) -> Option<usize> {
    // As they nearly always are (RFC 7323, appendix A).
    if options.len() == 12 && options.starts_with(&[NO_OPERATION, NO_OPERATION, TIME_STAMPS, 10]) {
        return Some(4);
    }
    let (mut place, mut found) = (0, None);
    while let Some(&kind) = options.get(place).filter(|&&kind| kind != 0) {
        if kind == NO_OPERATION {
            place += 1;
            continue;
        }
        let len = usize::from(*options.get(place + 1)?);
        match kind {
            MD5 | AUTHENTICATION => return None,
            TIME_STAMPS if len == 10 => found = Some(place + 2),
            _ => {}
        }
        place += len.max(2);
    }
    found.filter(|place| place + 8 <= options.len())
}
