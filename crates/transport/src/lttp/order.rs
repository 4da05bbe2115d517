//! Choice of the block of a server's next symbol.
//!
//! The paper's server sends symbols of one block until the stop comes, and so a round trip's worth of
//! each block for nothing. With [`Config::overlap`] a server that expects a block to be enough for its
//! client goes on with the next one while the stop is under way:
//!
//! - What a block takes it learns from the stops of those before: the symbols that had been sent a
//!   round trip before the stop came, lost ones among them. The first block is sent as in the paper.
//! - Less than that is taken as enough. A block that lacks symbols costs nothing while the next one is
//!   of use; one that has too many costs each of them.
//! - One symbol in [`AHEAD`] + 1 is of the block that is not stopped, whatever is expected: so it is
//!   completed in the end, without a timer.
//! - When the next block has as many symbols as are enough, the rest is of the first again. So a
//!   client never sees symbols of more than two blocks.

use super::config::Config;
use super::header::Parameters;
use alloc::collections::VecDeque;
use wellspring_core::{Duration, Time};

/// Symbols of the next block between two of the block that is not stopped. A decision: of the symbols
/// sent while a stop is under way an eighth is redundant, as long as a round trip is shorter than a
/// block, and a block that lacks d symbols has them when 7d of the next one are out.
const AHEAD: u32 = 7;
/// What is taken as enough is less than what blocks took, by this part of k. A decision: what is
/// lacking comes with the eighth, what is too much is redundant.
const SHORT_BY: u32 = 16;
/// A block's sending times are kept to such a part of k.
const RESOLUTION: u32 = 128;
/// Sending times kept of a block.
const MAX_MARKS: usize = 512;

/// What has been sent of a block.
#[derive(Debug, Default)]
struct Sent {
    symbols: u64,
    /// When every so-manieth symbol was sent; the last ones, if there are many.
    marks: VecDeque<Time>,
}

impl Sent {
    fn note(&mut self, now: Time, step: u32) {
        self.symbols += 1;
        if self.symbols.is_multiple_of(step.into()) {
            if self.marks.len() == MAX_MARKS {
                self.marks.pop_front();
            }
            self.marks.push_back(now);
        }
    }

    /// How many had been sent at that time, to within a step.
    fn sent_by(&self, time: Time, step: u32) -> u64 {
        let later = self.marks.iter().rev().take_while(|mark| mark.is_after(time)).count() as u64;
        (self.symbols / u64::from(step)).saturating_sub(later) * u64::from(step)
    }

    fn clear(&mut self) {
        self.symbols = 0;
        self.marks.clear();
    }
}

/// The order of a session's symbols.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The first block that is not stopped.
    sbn: u32,
    sent: Sent,
    /// Of the block behind it.
    ahead: Sent,
    /// Symbols of that one since the last of the other.
    run: u32,
    /// Symbols that a full block takes, as those before show.
    need: Option<u64>,
}

impl Order {
    /// The first block that is not stopped.
    pub fn sbn(&self) -> u32 {
        self.sbn
    }

    /// Block and ID of the next symbol, which is sent now.
    pub fn next(&mut self, now: Time, parameters: &Parameters, config: &Config) -> (u32, u32) {
        let ahead = config.overlap && self.goes_ahead(parameters);
        self.run = if ahead { self.run + 1 } else { 0 };
        let (sbn, sent) = match ahead {
            true => (self.sbn + 1, &mut self.ahead),
            false => (self.sbn, &mut self.sent),
        };
        // Who has not decoded by then has lost nearly all of them: the first ones will do again.
        let esi = (sent.symbols % u64::from(config.max_symbols.max(1))) as u32;
        sent.note(now, step(parameters));
        (sbn, esi)
    }

    fn goes_ahead(&self, parameters: &Parameters) -> bool {
        let Some(need) = self.need else { return false };
        let full = u64::from(parameters.block_symbols.max(1));
        let enough = |sbn| {
            let k = u64::from(parameters.symbols_in_block(sbn));
            (need.saturating_sub(full / u64::from(SHORT_BY)).max(full) * k).div_ceil(full)
        };
        let behind = self.sbn.saturating_add(1);
        self.sent.symbols >= enough(self.sbn)
            && self.ahead.symbols < enough(behind)
            && self.run < AHEAD
    }

    /// The client has the blocks below `next`. `round_trip` is what the stop took, if that is known.
    pub fn on_stop(
        &mut self,
        now: Time,
        next: u32,
        round_trip: Option<Duration>,
        parameters: &Parameters,
    ) {
        if next <= self.sbn {
            return;
        }
        if parameters.symbols_in_block(self.sbn) == parameters.block_symbols
            && let Some(round_trip) = round_trip
        {
            self.learn(self.sent.sent_by(now - round_trip, step(parameters)));
        }
        core::mem::swap(&mut self.sent, &mut self.ahead);
        self.ahead.clear();
        if next > self.sbn.saturating_add(1) {
            self.sent.clear();
        }
        (self.sbn, self.run) = (next, 0);
    }

    /// A block took that many symbols, or less: the stop may have been longer under way than a report
    /// is. So less is believed at once, and more bit by bit.
    fn learn(&mut self, took: u64) {
        self.need = Some(match self.need {
            Some(need) if took > need => need + (took - need).div_ceil(4),
            _ => took,
        });
    }
}

/// Symbols between two sending times that are kept.
fn step(parameters: &Parameters) -> u32 {
    (parameters.block_symbols / RESOLUTION).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use wellspring_core::{HostId, Seed};

    const K: u32 = 64;

    fn parameters(blocks: u64) -> Parameters {
        let transfer_len = blocks * u64::from(K) * 1_024;
        Parameters { transfer_len, symbol_size: 1_024, block_symbols: K }
    }

    fn config(overlap: bool) -> Config {
        Config { overlap, ..Config::new(HostId(0), Seed(1)) }
    }

    /// A symbol a microsecond, so many.
    struct Run {
        now: Time,
        order: Order,
        config: Config,
        parameters: Parameters,
    }

    impl Run {
        fn new(overlap: bool, blocks: u64) -> Run {
            let (order, parameters) = (Order::default(), parameters(blocks));
            Run { now: Time::ZERO, order, config: config(overlap), parameters }
        }

        fn send(&mut self, count: u32) -> Vec<(u32, u32)> {
            let mut symbols = Vec::new();
            for _ in 0..count {
                self.now = self.now + Duration::from_micros(1);
                symbols.push(self.order.next(self.now, &self.parameters, &self.config));
            }
            symbols
        }

        /// A stop that was 50 us under way, there and back.
        fn stop(&mut self, next: u32) {
            let round_trip = Some(Duration::from_micros(50));
            self.order.on_stop(self.now, next, round_trip, &self.parameters);
        }
    }

    fn of(symbols: &[(u32, u32)], block: u32) -> usize {
        symbols.iter().filter(|(sbn, _)| *sbn == block).count()
    }

    #[test]
    fn without_overlap_one_block_is_sent_until_the_stop() {
        let mut run = Run::new(false, 3);
        for block in 0..3 {
            let symbols = run.send(200);
            assert!(symbols.iter().enumerate().all(|(at, s)| *s == (block, at as u32)));
            run.stop(block + 1);
        }
    }

    #[test]
    fn the_next_block_goes_ahead_behind_what_blocks_took_before() {
        let mut run = Run::new(true, 4);
        // The first block shows it: 80 symbols had been sent 50 before the stop.
        assert_eq!(of(&run.send(130), 0), 130);
        run.stop(1);
        let symbols = run.send(76 + 48);
        assert!(symbols[..76].iter().all(|(sbn, _)| *sbn == 1), "a sixteenth of k less is enough");
        assert_eq!((of(&symbols, 1), of(&symbols, 2)), (76 + 6, 42));
        // Of what went ahead nothing is sent again.
        run.stop(2);
        let symbols = run.send(40);
        assert_eq!(symbols[0], (2, 42));
    }

    #[test]
    fn a_block_whose_stop_does_not_come_is_sent_on_for_ever_and_no_third_one_begins() {
        let mut run = Run::new(true, 4);
        run.send(130);
        run.stop(1);
        let symbols = run.send(10_000);
        assert_eq!(of(&symbols, 2), 76, "no more than may be enough");
        assert_eq!(of(&symbols, 1) + 76, 10_000);
    }

    #[test]
    fn nothing_goes_ahead_of_the_last_block() {
        let mut run = Run::new(true, 2);
        run.send(130);
        run.stop(1);
        assert_eq!(of(&run.send(1_000), 1), 1_000);
        run.stop(u32::MAX);
        assert_eq!(run.order.sbn(), u32::MAX);
    }

    #[test]
    fn a_block_that_takes_more_is_believed_bit_by_bit_and_less_at_once() {
        let mut order = Order::default();
        for (took, need) in [(100, 100), (140, 110), (70, 70), (71, 71)] {
            order.learn(took);
            assert_eq!(order.need, Some(need));
        }
    }
}
