//! A group's stream at one of its receivers: what each packet of it shows of earlier ones, and which
//! symbols to ask for beyond it. The accounts are in `stream_account`.

use super::block::{Block, Phase};
use super::blocks::BlockWindow;
use super::stream_account::{MAX_ARRIVALS, MAX_PLACES, Streaming};
use crate::scdp::sender::symbols::resumed_base;

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
        // Of what is here nothing is lost.
        let is_lost = trimmed && !block.is_here(esi);
        if (new || is_lost) && block.phase == Phase::Filling {
            block.come(place, trimmed);
        }
        if is_lost {
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
            if !coming.unannounced && coming.asked_at.is_none_or(|asked| asked < number) {
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

    /// Nothing came for too long: one more symbol of the last block that the stream may have reached. It is sent
    /// behind all others, and shows which of them are lost.
    pub(super) fn doubt_stream(&mut self) {
        let waits = |b: &Block| b.phase == Phase::Filling && b.expected > 0;
        let last = self.last_to_open();
        self.open_through(last);
        if let Some(index) = self.blocks.iter().rposition(waits) {
            self.ask_beyond(self.floor() + index as u32, 1);
        }
    }

    /// Whether more is wanted of some block of which all was sent that can be asked for.
    pub(super) fn is_exhausted(&self) -> bool {
        self.streaming.as_ref().is_some_and(|s| s.exhausted)
    }

    /// Whether the sender is to learn that more of some block is wanted.
    pub(super) fn has_unannounced(&self) -> bool {
        self.streaming.as_ref().is_some_and(|s| s.unannounced)
    }

    /// A block of which more is wanted than was announced (or else the lowest), and how many symbols of
    /// it in all. The pull that announces so is behind `granted` credits.
    pub(super) fn announce(&mut self, granted: u32) -> (u32, u32) {
        let unannounced = |b: &Block| b.coming.unannounced && b.phase == Phase::Filling;
        let index =
            if self.has_unannounced() { self.blocks.iter().position(unannounced) } else { None };
        if index.is_none()
            && let Some(streaming) = &mut self.streaming
        {
            streaming.unannounced = false;
        }
        let index = index.unwrap_or(0);
        let sbn = self.floor() + index as u32;
        let Some(block) = self.blocks.get_mut(index) else { return (sbn, 1) };
        if block.coming.unannounced {
            block.coming.unannounced = false;
            block.coming.asked_at = Some(granted);
        }
        let wanted = block.coming.wanted;
        let more = self.has_unannounced() && self.blocks.iter().any(unannounced);
        if let Some(streaming) = &mut self.streaming {
            streaming.unannounced = more;
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
    use crate::scdp::receiver::stream_account::MAX_TRIMMED;

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
            assert!(!window.has_unannounced());
        }
        assert_eq!(window.outstanding(100), 0);
        assert_eq!(window.announce(6), (0, 3), "nothing is new");
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
        assert!(!window.has_unannounced(), "number 2 may still come");
        window.resolve_stream(4);
        assert_eq!(window.announce(7), (0, 7), "the lost one, and two more for K + 2");
        assert!(!window.has_unannounced());
        assert_eq!(window.outstanding(100), 1 + 3 + 4);
    }

    #[test]
    fn what_a_later_block_overtakes_is_lost_if_the_sender_knew_of_it() {
        let mut window = window(3, 3);
        come(&mut window, 1, 0, 0);
        come(&mut window, 2, 0, 1);
        come(&mut window, 4, 1, 0);
        assert_eq!(window.announce(6), (0, 6));
        come(&mut window, 5, 1, 1);
        come(&mut window, 6, 1, 2);
        assert!(!window.has_unannounced(), "sent before the sender could know");
        come(&mut window, 7, 2, 0);
        assert_eq!(window.announce(9).0, 0, "asked for again");
    }

    #[test]
    fn symbols_others_asked_for_count() {
        let mut window = window(4, 1);
        for (number, esi) in [(1, 0), (2, 1), (5, 4)] {
            come(&mut window, number, 0, esi);
        }
        assert_eq!(
            window.announce(6),
            (0, 8),
            "K + 2 need three more than the one others asked for"
        );
    }

    #[test]
    fn trimmed_symbols_are_asked_for_at_once_and_once() {
        let mut window = window(3, 1);
        let trimmed =
            StreamPacket { number: 2, sbn: 0, esi: 1, epoch: 0, trimmed: true, new: false };
        window.stream_packet(trimmed);
        window.resolve_stream(1);
        assert_eq!(window.announce(6), (0, 6));
        come(&mut window, 1, 0, 0);
        come(&mut window, 3, 0, 2);
        assert!(!window.has_unannounced());
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
    fn headers_of_symbols_that_are_here_count_for_none() {
        let mut window = window(100, 1);
        let whole = StreamPacket { number: 2, sbn: 0, esi: 1, epoch: 0, trimmed: false, new: true };
        for esi in 1..60 {
            window.receive(0, esi);
            window.stream_packet(StreamPacket { number: 1 + esi, esi, ..whole });
        }
        for esi in 1..60 {
            let number = 100 + esi;
            window.stream_packet(StreamPacket { number, esi, trimmed: true, new: false, ..whole });
        }
        assert_eq!((window.announce(200), window.open(0).expected), ((0, 100), 41));
        assert!(window.open(0).coming.trimmed.is_empty());
    }

    #[test]
    fn asks_that_nobody_hears_do_not_add_up() {
        let mut window = window(3, 3);
        come(&mut window, 1, 0, 0);
        for number in 1..10_000 {
            come(&mut window, 2 * number, 1, number % 3);
            let (sbn, wanted) = window.announce(2 * number);
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
        assert_eq!(window.announce(3), (0, 4));
        come(&mut window, 4, 0, 3);
        assert_eq!(window.announce(5), (0, 8), "its place shows that three were lost");
    }

    #[test]
    fn leaving_the_group_counts_on_nothing() {
        let mut window = window(3, 1);
        window.set_streaming(false);
        assert!(window.wants());
    }
}
