//! Memory of the frames that wait.

use super::vlan::{C_TAG, Tag};

/// Room before each frame for a VLAN tag \[bytes\].
const ROOM: usize = 4;
/// Where a tag stands in a frame: behind both addresses.
pub(super) const TAG_AT: usize = 12;

/// Frames' bytes, by number; memory is used again.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    slots: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Buffers {
    /// Keeps a copy of a frame.
    pub(super) fn keep(&mut self, frame: &[u8]) -> u32 {
        let slot = self.empty();
        let buffer = &mut self.slots[slot as usize];
        buffer.extend_from_slice(&[0; ROOM]);
        buffer.extend_from_slice(frame);
        slot
    }

    /// Keeps a copy of a frame with a tag put into it that this switch does not read.
    pub(super) fn keep_tagged(&mut self, frame: &[u8], protocol: u16, tag: Tag) -> u32 {
        let Some((addresses, rest)) = frame.split_at_checked(TAG_AT) else {
            return self.keep(frame);
        };
        let slot = self.keep(addresses);
        let buffer = &mut self.slots[slot as usize];
        buffer.extend_from_slice(&protocol.to_be_bytes());
        buffer.extend_from_slice(&tag.to_be_bytes());
        buffer.extend_from_slice(rest);
        slot
    }

    /// Keeps another copy of a frame.
    pub(super) fn copy(&mut self, of: u32) -> u32 {
        let slot = self.empty();
        let mut copy = core::mem::take(&mut self.slots[slot as usize]);
        copy.extend_from_slice(&self.slots[of as usize]);
        self.slots[slot as usize] = copy;
        slot
    }

    /// Takes a frame out for another thread's buffers, which [`adopt`](Self::adopt) it.
    pub(super) fn give(&mut self, slot: u32) -> Vec<u8> {
        self.release(slot);
        core::mem::take(&mut self.slots[slot as usize])
    }

    /// Keeps a frame that another thread's buffers gave.
    pub(super) fn adopt(&mut self, given: Vec<u8>) -> u32 {
        let slot = self.empty();
        self.slots[slot as usize] = given;
        slot
    }

    fn empty(&mut self) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Vec::new());
            u32::try_from(self.slots.len() - 1).expect("frames in memory fit 32 bits")
        });
        self.slots[slot as usize].clear();
        slot
    }

    /// A frame, without its tag.
    pub(super) fn get(&self, slot: u32) -> &[u8] {
        &self.slots[slot as usize][ROOM..]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut [u8] {
        &mut self.slots[slot as usize][ROOM..]
    }

    /// Cuts a frame to so many bytes.
    pub(super) fn truncate(&mut self, slot: u32, len: usize) {
        self.slots[slot as usize].truncate(ROOM + len);
    }

    /// Puts a tag into a frame that leaves. From then on [`on_wire`](Self::on_wire) alone gives the right bytes.
    pub(super) fn tag(&mut self, slot: u32, tag: Tag) {
        let buffer = &mut self.slots[slot as usize];
        if buffer.len() < ROOM + TAG_AT {
            return;
        }
        buffer.copy_within(ROOM..ROOM + TAG_AT, 0);
        buffer[TAG_AT..TAG_AT + 2].copy_from_slice(&C_TAG.to_be_bytes());
        buffer[TAG_AT + 2..TAG_AT + 4].copy_from_slice(&tag.to_be_bytes());
    }

    /// A frame as it leaves, which was tagged or not.
    pub(super) fn on_wire(&self, slot: u32, tagged: bool) -> &[u8] {
        &self.slots[slot as usize][if tagged { 0 } else { ROOM }..]
    }

    pub(super) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Frames that there was ever memory for at one time.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stand_behind_the_addresses() {
        let frame: Vec<u8> = (0..60).collect();
        let mut buffers = Buffers::default();
        let slot = buffers.keep(&frame);
        assert_eq!(buffers.on_wire(slot, false), frame);
        let copy = buffers.copy(slot);
        buffers.tag(copy, 5 << 13 | 10);
        let tagged = [&frame[..12], &[0x81, 0, 0xa0, 10], &frame[12..]].concat();
        assert_eq!(buffers.on_wire(copy, true), tagged);
        let other = buffers.keep_tagged(&frame, 0x8100, 5 << 13 | 10);
        assert_eq!(buffers.get(other), tagged);
        let mut others = Buffers::default();
        let adopted = others.adopt(buffers.give(slot));
        assert_eq!(others.get(adopted), frame);
        assert_eq!(buffers.keep(&frame[1..]), slot, "its place is free");
        assert_eq!(buffers.get(slot), &frame[1..]);
    }

    #[test]
    fn short_frames_stay_as_they_are() {
        let mut buffers = Buffers::default();
        for len in 0..12 {
            let slot = buffers.keep_tagged(&vec![7; len], 0x88a8, 1);
            buffers.tag(slot, 1);
            assert_eq!(buffers.get(slot), vec![7; len]);
        }
    }
}
