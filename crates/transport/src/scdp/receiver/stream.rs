//! A group's stream at one of its receivers: what of every block is still coming of itself, what
//! was lost, and what to ask for beyond.
//!
//! The sender of a group sends every block's K symbols unasked, the lowest block first, and then
//! what receivers ask for, so a receiver knows from the symbols' places in their blocks (not from
//! the numbers of its credits, which other receivers may use up) what has passed it by.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::block::{Block, Phase};
use super::blocks::BlockWindow;
use crate::scdp::sender::symbols::resumed_base;

/// Places of a block that are kept account of: a pull says how many are wanted in 16 bits.
const MAX_PLACES: u32 = u16::MAX as u32;
/// Packets whose consequences wait for others sent before them, at most.
const MAX_ARRIVALS: usize = 65_536;
/// Trimmed places of a block remembered until they are resolved, at most; one more is asked for
/// when the stream has passed it.
const MAX_TRIMMED: usize = 1_024;

/// What of a block the group's stream brings.
///
/// Symbols of a block are sent in the order of their *places*: place 0 is the first one sent.
#[derive(Debug, Default)]
pub(super) struct Coming {
    /// Places that will be sent, as far as this receiver knows or has asked for.
    wanted: u32,
    /// Places below are accounted for: here, or lost.
    resolved: u32,
    /// Places from `resolved` on that are here, or were trimmed.
    ahead: u32,
    /// Places from `resolved` on that were trimmed.
    trimmed: Vec<u32>,
    /// Places below were sent, as one of them shows.
    seen: u32,
    /// Times in a row that more was asked for and no place beyond `seen` came.
    asks: u32,
    /// ESI of place 0.
    base: u32,
    /// Packets beyond this number were sent after what was asked for last was known; none as long
    /// as nobody was told.
    asked_at: Option<u32>,
    untold: bool,
}

impl Coming {
    fn outstanding(&self) -> u32 {
        self.wanted - self.resolved - self.ahead
    }
}

impl Block {
    /// All K symbols come of themselves.
    fn expect_stream(&mut self) {
        self.coming = Coming { wanted: self.source_symbols, ..Coming::default() };
        self.expected = self.source_symbols;
    }

    /// Nothing comes but what is asked for from now on.
    fn expect_nothing(&mut self) {
        self.coming = Coming::default();
        self.expected = 0;
    }

    /// A symbol that was not there before has come, or what was left of it.
    fn come(&mut self, place: u32, trimmed: bool) {
        let coming = &mut self.coming;
        if trimmed && coming.trimmed.len() >= MAX_TRIMMED {
            return;
        }
        // Beyond what this receiver knows of, others have asked for it and all before it.
        coming.wanted = coming.wanted.max(place + 1);
        if place >= coming.seen {
            coming.seen = place + 1;
            coming.asks = 0;
        }
        if place >= coming.resolved && !coming.trimmed.contains(&place) {
            coming.ahead += 1;
            if trimmed {
                coming.trimmed.push(place);
            }
        }
        self.expected = coming.outstanding();
    }

    /// Nothing below that place is on its way any more. True if something was lost.
    fn resolve(&mut self, through: u32) -> bool {
        let through = through.min(self.coming.wanted);
        if through <= self.coming.resolved {
            return false;
        }
        let (from, base) = (self.coming.resolved, self.coming.base);
        let here = (from..through).filter(|&place| self.is_here(base + place)).count() as u32;
        let coming = &mut self.coming;
        let trimmed = coming.trimmed.iter().filter(|&&place| place < through).count() as u32;
        coming.trimmed.retain(|&place| place >= through);
        coming.resolved = through;
        coming.ahead = coming.ahead.saturating_sub(here + trimmed);
        if self.phase != Phase::Filling {
            // Symbols that come now are not marked.
            coming.ahead = 0;
        }
        self.expected = coming.outstanding();
        self.phase == Phase::Filling && here < through - from
    }

    /// Asks for `count` symbols beyond those wanted so far.
    ///
    /// An ask that brought nothing may have been lost itself, and then it is to be repeated, or
    /// what it brought was lost, and then it is to be exceeded. Exceeding it at every power of two
    /// does both, and asks that nobody hears do not add up.
    fn ask_beyond(&mut self, count: u32) {
        let coming = &mut self.coming;
        coming.asks = coming.asks.saturating_add(1);
        if coming.asks.is_power_of_two() && coming.wanted + count <= MAX_PLACES {
            coming.wanted += count;
        } else {
            let outstanding = coming.outstanding() + count;
            coming.resolved = coming.resolved.min(coming.seen);
            let enough = coming.resolved + coming.ahead + outstanding;
            coming.wanted = coming.wanted.max(enough.min(MAX_PLACES));
        }
        coming.asked_at = None;
        coming.untold = true;
        self.expected = coming.outstanding();
    }
}

/// Progress of a group's stream over the blocks.
#[derive(Debug, Default)]
pub(super) struct Streaming {
    /// `(number, block, place)` of packets that others sent before may still follow.
    arrivals: VecDeque<(u32, u32, u32)>,
    /// All that was to come of blocks below is accounted for.
    passed: u32,
    /// Some block's sender is to be told that more is wanted.
    untold: bool,
    /// More is wanted of some block of which all was sent that a pull can ask for.
    exhausted: bool,
}

/// A packet of the group's stream.
#[derive(Clone, Copy)]
pub(super) struct StreamPacket {
    pub(super) number: u32,
    pub(super) sbn: u32,
    pub(super) esi: u32,
    pub(super) epoch: u8,
    /// Not a symbol but what a switch left of it.
    pub(super) trimmed: bool,
    /// A symbol that was not there before.
    pub(super) new: bool,
}

impl BlockWindow {
    /// Blocks are (or are no longer) filled by a group's stream.
    pub(super) fn set_streaming(&mut self, streaming: bool) {
        if self.streaming.is_some() == streaming {
            return;
        }
        self.streaming = streaming.then(Streaming::default);
        for block in &mut self.blocks {
            if streaming { block.expect_stream() } else { block.expect_nothing() }
        }
    }

    pub(super) fn is_streaming(&self) -> bool {
        self.streaming.is_some()
    }

    /// Prepares a block just opened.
    pub(super) fn stream_opens(&self, block: &mut Block) {
        if self.is_streaming() {
            block.expect_stream();
        }
    }

    /// The stream starts anew: of the open blocks nothing comes unasked.
    pub(super) fn restart_stream(&mut self) {
        if self.is_streaming() {
            self.streaming = Some(Streaming::default());
            self.blocks.iter_mut().for_each(Block::expect_nothing);
            (self.floor()..self.horizon()).for_each(|sbn| self.ask_for_deficit(sbn));
        }
    }

    /// Takes note of a packet. [`BlockWindow::resolve_stream`] is to follow.
    pub(super) fn stream_packet(&mut self, packet: StreamPacket) {
        let StreamPacket { number, sbn, esi, epoch, trimmed, new } = packet;
        let base = if epoch > 0 && esi >= resumed_base(epoch) { resumed_base(epoch) } else { 0 };
        let place = esi - base;
        if place >= MAX_PLACES {
            return; // no receiver can have asked for it
        }
        self.open_through(sbn);
        let Some(streaming) = &mut self.streaming else { return };
        if !trimmed && streaming.arrivals.len() < MAX_ARRIVALS {
            // The number of a trimmed packet may have been cut.
            streaming.arrivals.push_back((number, sbn, place));
        }
        let Some(block) = self.block(sbn) else { return };
        block.coming.base = base;
        if (new || trimmed) && block.phase == Phase::Filling {
            block.come(place, trimmed);
        }
        if trimmed {
            self.note_loss(sbn);
            self.ask_for_deficit(sbn);
        }
    }

    /// All packets numbered below `settled` have come or are lost: draws the conclusions.
    pub(super) fn resolve_stream(&mut self, settled: u32) {
        loop {
            let Some(streaming) = &mut self.streaming else { return };
            let Some(&(number, sbn, place)) = streaming.arrivals.front() else { return };
            if number >= settled {
                return;
            }
            streaming.arrivals.pop_front();
            self.pass_below(sbn, number);
            self.resolve(sbn, place + 1);
        }
    }

    /// A symbol of block `sbn` was sent by that number: nothing that the sender knew was wanted of
    /// a lower block was left.
    fn pass_below(&mut self, sbn: u32, number: u32) {
        let Some(streaming) = &self.streaming else { return };
        let first = streaming.passed.max(self.floor());
        let mut passed = first;
        for lower in first..sbn.min(self.horizon()) {
            let coming = &self.open(lower).coming;
            if !coming.untold && coming.asked_at.is_none_or(|asked| asked < number) {
                self.resolve(lower, u32::MAX);
            }
            let coming = &self.open(lower).coming;
            if coming.resolved == coming.wanted && passed == lower {
                passed += 1;
            }
        }
        if let Some(streaming) = &mut self.streaming {
            streaming.passed = passed;
        }
    }

    fn resolve(&mut self, sbn: u32, through: u32) {
        let Some(block) = self.block(sbn) else { return };
        if block.resolve(through) {
            self.note_loss(sbn);
        }
        self.ask_for_deficit(sbn);
    }

    /// Asks for what a block will be short of, if anything.
    pub(super) fn ask_for_deficit(&mut self, sbn: u32) {
        let deficit = self.block(sbn).map_or(0, |b| b.deficit());
        if deficit > 0 {
            self.ask_beyond(sbn, deficit);
        }
    }

    /// Nothing came for too long: one more symbol of the lowest block that waits for some shows
    /// whether they are lost.
    pub(super) fn doubt_stream(&mut self) {
        let waits = |b: &Block| b.phase == Phase::Filling && b.expected > 0;
        if let Some(index) = self.blocks.iter().position(waits) {
            self.ask_beyond(self.floor() + index as u32, 1);
        }
    }

    fn ask_beyond(&mut self, sbn: u32, count: u32) {
        let Some(block) = self.block(sbn) else { return };
        block.ask_beyond(count);
        let exhausted = block.coming.seen >= MAX_PLACES;
        if let Some(streaming) = &mut self.streaming {
            streaming.exhausted |= exhausted;
            streaming.passed = streaming.passed.min(sbn);
            streaming.untold = true;
        }
    }

    /// Whether more is wanted of some block of which all was sent that can be asked for.
    pub(super) fn is_exhausted(&self) -> bool {
        self.streaming.as_ref().is_some_and(|s| s.exhausted)
    }

    /// Whether the sender is to be told that more of some block is wanted.
    pub(super) fn has_untold(&self) -> bool {
        self.streaming.as_ref().is_some_and(|s| s.untold)
    }

    /// A block of which more is wanted than was told (or else the lowest), and how many symbols of
    /// it in all. The pull that tells so is behind `granted` credits.
    pub(super) fn tell(&mut self, granted: u32) -> (u32, u32) {
        let untold = |b: &Block| b.coming.untold && b.phase == Phase::Filling;
        let index = if self.has_untold() { self.blocks.iter().position(untold) } else { None };
        if index.is_none()
            && let Some(streaming) = &mut self.streaming
        {
            streaming.untold = false;
        }
        let index = index.unwrap_or(0);
        let sbn = self.floor() + index as u32;
        let Some(block) = self.blocks.get_mut(index) else { return (sbn, 1) };
        if block.coming.untold {
            block.coming.untold = false;
            block.coming.asked_at = Some(granted);
        }
        let wanted = block.coming.wanted;
        let more = self.has_untold() && self.blocks.iter().any(untold);
        if let Some(streaming) = &mut self.streaming {
            streaming.untold = more;
        }
        (sbn, wanted)
    }

    /// Symbols that are still to come, as far as blocks may be open for them; counting stops at
    /// `enough`.
    pub(super) fn outstanding(&self, enough: u32) -> u32 {
        let mut sum = self.unopened();
        for block in &self.blocks {
            if sum >= u64::from(enough) {
                break;
            }
            sum += u64::from(block.expected);
        }
        sum.min(enough.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scdp::ObjectInfo;
    use crate::scdp::receiver::block::Intake;

    fn window(k: u32, blocks: u32) -> BlockWindow {
        let mut window =
            BlockWindow::new(ObjectInfo::new(u64::from(k * blocks) * 10, 10, k, 0), 2, 8, 64);
        window.set_streaming(true);
        window.open_through(0);
        window
    }

    fn come(window: &mut BlockWindow, number: u32, sbn: u32, esi: u32) -> Intake {
        window.open_through(sbn);
        let intake = window.receive(sbn, esi);
        let new = intake == Intake::Kept;
        let packet = StreamPacket { number, sbn, esi, epoch: 0, trimmed: false, new };
        window.stream_packet(packet);
        window.resolve_stream(number + 1);
        intake
    }

    #[test]
    fn a_stream_without_loss_is_not_asked_for_anything() {
        let mut window = window(3, 2);
        assert_eq!(window.outstanding(100), 6);
        for number in 0..6 {
            come(&mut window, number + 1, number / 3, number % 3);
            assert!(!window.has_untold());
        }
        assert_eq!(window.outstanding(100), 0);
        assert_eq!(window.tell(6), (0, 3), "nothing is new");
    }

    #[test]
    fn a_gap_in_a_block_is_lost_once_numbers_say_so() {
        let mut window = window(4, 2);
        come(&mut window, 1, 0, 0);
        window.receive(0, 2);
        let packet =
            StreamPacket { number: 3, sbn: 0, esi: 2, epoch: 0, trimmed: false, new: true };
        window.stream_packet(packet);
        window.resolve_stream(2);
        assert!(!window.has_untold(), "number 2 may still come");
        window.resolve_stream(4);
        assert_eq!(window.tell(7), (0, 7), "the lost one, and two more for K + 2");
        assert!(!window.has_untold());
        assert_eq!(window.outstanding(100), 1 + 3 + 4);
    }

    #[test]
    fn what_a_later_block_overtakes_is_lost_if_the_sender_knew_of_it() {
        let mut window = window(3, 3);
        come(&mut window, 1, 0, 0);
        come(&mut window, 2, 0, 1);
        come(&mut window, 4, 1, 0);
        assert_eq!(window.tell(6), (0, 6));
        come(&mut window, 5, 1, 1);
        come(&mut window, 6, 1, 2);
        assert!(!window.has_untold(), "sent before the sender could know");
        come(&mut window, 7, 2, 0);
        assert_eq!(window.tell(9).0, 0, "asked for again");
    }

    #[test]
    fn symbols_others_asked_for_count() {
        let mut window = window(4, 1);
        for (number, esi) in [(1, 0), (2, 1), (5, 4)] {
            come(&mut window, number, 0, esi);
        }
        assert_eq!(window.tell(6), (0, 8), "K + 2 need three more than the one others asked for");
    }

    #[test]
    fn trimmed_symbols_are_asked_for_at_once_and_once() {
        let mut window = window(3, 1);
        let trimmed =
            StreamPacket { number: 2, sbn: 0, esi: 1, epoch: 0, trimmed: true, new: false };
        window.stream_packet(trimmed);
        window.resolve_stream(1);
        assert_eq!(window.tell(6), (0, 6));
        come(&mut window, 1, 0, 0);
        come(&mut window, 3, 0, 2);
        assert!(!window.has_untold());
    }

    #[test]
    fn what_a_stranger_sends_is_bounded() {
        let mut window = window(3, 1);
        for esi in 0..1 << 17 {
            let trimmed =
                StreamPacket { number: 9, sbn: 0, esi, epoch: 0, trimmed: true, new: false };
            window.stream_packet(trimmed);
            window.stream_packet(StreamPacket { trimmed: false, ..trimmed });
        }
        assert_eq!(window.open(0).coming.trimmed.len(), MAX_TRIMMED);
        let waiting = window.streaming.as_ref().map_or(0, |s| s.arrivals.len());
        assert!(waiting <= MAX_ARRIVALS, "{waiting}");
        assert!(window.open(0).coming.wanted <= MAX_PLACES);
    }

    #[test]
    fn asks_that_nobody_hears_do_not_add_up() {
        let mut window = window(3, 3);
        come(&mut window, 1, 0, 0);
        for number in 1..10_000 {
            come(&mut window, 2 * number, 1, number % 3);
            let (sbn, wanted) = window.tell(2 * number);
            assert_eq!(sbn, 0);
            assert!(wanted <= 3 + 4 * 15, "{number}: {wanted}");
            assert!(window.open(0).expected >= 4, "{number}");
        }
        assert!(!window.is_exhausted());
    }

    #[test]
    fn a_block_of_which_all_was_sent_is_exhausted() {
        let mut window = window(3, 2);
        come(&mut window, 1, 0, MAX_PLACES - 1);
        assert!(window.is_exhausted(), "two more are wanted, and cannot be asked for");
    }

    #[test]
    fn silence_asks_for_one_more() {
        let mut window = window(3, 1);
        window.doubt_stream();
        assert_eq!(window.tell(3), (0, 4));
        come(&mut window, 4, 0, 3);
        assert_eq!(window.tell(5), (0, 8), "its place tells that three were lost");
    }

    #[test]
    fn leaving_the_group_counts_on_nothing() {
        let mut window = window(3, 1);
        window.set_streaming(false);
        assert!(window.wants());
    }
}
