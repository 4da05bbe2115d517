//! The receiving side of a session.

use super::chosen_rate::ChosenRate;
use super::config::Config;
use super::header::{LttpHeader, Parameters};
use crate::tfrc::{RateReceiver, Report, Stamp};
use alloc::vec::Vec;
use wellspring_core::{Duration, HostId, SessionId, Time};

/// The account of a session at its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiveStats {
    /// Bytes asked for, and there in the end.
    pub bytes: u64,
    /// Source symbols of the blocks that are complete.
    pub source: u64,
    /// Distinct symbols that went into these blocks: what is beyond `source` is redundancy.
    pub symbols: u64,
    /// Symbols of blocks that were complete already, or being decoded.
    pub redundant: u64,
    /// Symbols that came twice.
    pub duplicates: u64,
    /// Attempts at decoding.
    pub attempts: u64,
    /// Reports sent.
    pub reports: u64,
}

/// What a symbol means to its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// It is new; and whether the block is to be finished now.
    Useful {
        /// See above.
        finish: bool,
    },
    Duplicate,
    /// Of a block that is complete or being decoded.
    Redundant,
    /// Of a block too far ahead, or beyond the limits.
    Malformed,
}

/// The symbols that came of a block.
#[derive(Debug, Default)]
struct Gathered {
    seen: Vec<u64>,
    count: u32,
}

impl Gathered {
    /// Notes a symbol; false if it came before.
    fn note(&mut self, esi: u32) -> bool {
        let (word, bit) = (esi as usize / 64, 1_u64 << (esi % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        self.count += u32::from(new);
        new
    }

    fn clear(&mut self) {
        self.count = 0;
        self.seen.fill(0);
    }
}

/// A session at its client.
#[derive(Debug)]
pub(super) struct Client {
    pub session: SessionId,
    pub server: HostId,
    pub path: u16,
    /// Length of a symbol \[bytes\].
    pub symbol_size: u16,
    /// Whether it stands in line to say something.
    pub talking: bool,
    parameters: Option<Parameters>,
    pub rate: RateReceiver,
    /// In place of TFRC's, if the configuration says so.
    chosen: Option<ChosenRate>,
    /// The block under way, and what came of it.
    sbn: u32,
    gathered: Gathered,
    /// What came of the block behind it.
    ahead: Gathered,
    /// Symbols that came, redundant ones too.
    arrived: u64,
    /// Whether the block is being finished.
    working: bool,
    /// The stop to send is not confirmed.
    stopping: bool,
    /// A control message is to be sent now; when the last one was, and when it is repeated.
    control_due: bool,
    asked_at: Time,
    control_at: Time,
    repeats: u32,
    last_heard: Time,
    pub stats: ReceiveStats,
}

impl Client {
    pub fn new(
        now: Time,
        (server, session): (HostId, SessionId),
        symbol_size: u16,
        path: u16,
        config: &Config,
    ) -> Self {
        Client {
            session,
            server,
            path,
            symbol_size,
            talking: false,
            parameters: None,
            rate: RateReceiver::new(config.segment_size(symbol_size), config.discounting),
            chosen: config
                .congestion
                .map(|algorithm| ChosenRate::new(algorithm, config.segment_size(symbol_size))),
            sbn: 0,
            gathered: Gathered::default(),
            ahead: Gathered::default(),
            arrived: 0,
            working: false,
            stopping: false,
            control_due: true,
            asked_at: now,
            control_at: now,
            repeats: 0,
            last_heard: now,
            stats: ReceiveStats::default(),
        }
    }

    /// The server answers: whether the first block is to be finished now; `None` if it contradicts
    /// itself or is out of bounds.
    pub fn on_parameters(
        &mut self,
        now: Time,
        parameters: Parameters,
        config: &Config,
    ) -> Option<bool> {
        let contradicts = self.parameters.is_some_and(|known| known != parameters);
        if contradicts || !parameters.are_valid() || parameters.block_symbols > config.max_symbols {
            return None;
        }
        self.last_heard = now;
        let new = self.parameters.is_none();
        if new {
            self.parameters = Some(parameters);
            self.stats.bytes = parameters.transfer_len;
            self.repeats = 0;
        }
        Some(new && self.is_ready())
    }

    /// k of the block under way, once known.
    pub fn source_symbols(&self) -> Option<u32> {
        self.parameters.map(|parameters| parameters.symbols_in_block(self.sbn))
    }

    /// Blocks complete, and all of them.
    pub fn progress(&self) -> (u32, u32) {
        (self.sbn, self.parameters.map_or(0, |parameters| parameters.blocks()))
    }

    /// Whether the block under way is to be finished now.
    pub fn is_ready(&self) -> bool {
        let enough = |k| k > 0 && self.gathered.count >= k;
        !self.working && self.source_symbols().is_some_and(enough)
    }

    /// Takes in a symbol.
    pub fn on_symbol(
        &mut self,
        now: Time,
        stamp: Stamp,
        (sbn, esi): (u32, u32),
        config: &Config,
    ) -> Arrival {
        let ahead = sbn > self.sbn;
        if ahead && !self.is_next(sbn) || esi >= config.max_symbols {
            return Arrival::Malformed;
        }
        self.last_heard = now;
        self.arrived += 1;
        self.rate.on_packet(now, stamp);
        if let Some(chosen) = &mut self.chosen
            && chosen.on_packet(now, stamp, self.rate.packets_lost())
        {
            self.rate.ask();
        }
        if sbn < self.sbn || self.is_complete() {
            self.stats.redundant += 1;
            self.on_redundant(now);
            return Arrival::Redundant;
        }
        // Symbols of the block under way do not show that the stop has arrived, because a server
        // that overlaps sends them before it. Symbols of the next block do, and an answer.
        self.stopping &= !ahead;
        if ahead && !config.overlap || !ahead && self.working {
            self.stats.redundant += 1;
            return Arrival::Redundant;
        }
        let gathered = if ahead { &mut self.ahead } else { &mut self.gathered };
        if !gathered.note(esi) {
            self.stats.duplicates += 1;
            return Arrival::Duplicate;
        }
        Arrival::Useful { finish: !ahead && self.is_ready() }
    }

    /// Whether it is the block behind the one under way, and may exist.
    fn is_next(&self, sbn: u32) -> bool {
        let may_exist = self.parameters.is_none_or(|parameters| sbn < parameters.blocks());
        may_exist && sbn.checked_sub(1) == Some(self.sbn)
    }

    /// The server has not stopped: either the stop is under way, or it was lost and is due again.
    fn on_redundant(&mut self, now: Time) {
        let patience = self.rate.rtt() * 4;
        if self.stopping && patience > Duration::ZERO && now.since(self.asked_at) >= patience {
            self.control_due = true;
        }
    }

    /// Symbols that came, redundant ones too.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The block is to be finished.
    pub fn begin_work(&mut self) {
        self.working = true;
        self.stats.attempts += 1;
    }

    /// The block under way, if it is being finished.
    pub fn works_on(&self) -> Option<u32> {
        self.working.then_some(self.sbn)
    }

    /// The decoder needs more symbols than there are.
    pub fn on_need_more(&mut self) {
        self.working = false;
    }

    /// The block is complete; true if it was the last one.
    pub fn on_finished(&mut self, now: Time) -> bool {
        // Its own decoder may have been what was silent.
        self.last_heard = now;
        self.stats.source += u64::from(self.source_symbols().unwrap_or(0));
        self.stats.symbols += u64::from(self.gathered.count);
        self.working = false;
        self.sbn += 1;
        core::mem::swap(&mut self.gathered, &mut self.ahead);
        self.ahead.clear();
        (self.stopping, self.control_due, self.repeats) = (true, true, 0);
        self.is_complete()
    }

    /// Whether all blocks are there.
    pub fn is_complete(&self) -> bool {
        self.parameters.is_some_and(|parameters| self.sbn >= parameters.blocks())
    }

    /// The server confirms; true if nothing is left to say.
    pub fn on_stopped(&mut self, now: Time, next: u32) -> bool {
        self.last_heard = now;
        if next == self.sbn {
            self.stopping = false;
        }
        !self.stopping && self.is_complete()
    }

    /// The control message that is due, if any.
    pub fn poll_control(&mut self, now: Time, config: &Config) -> Option<LttpHeader> {
        if !core::mem::take(&mut self.control_due) {
            return None;
        }
        self.asked_at = now;
        self.control_at = now + config.control_timeout(self.repeats);
        if self.parameters.is_none() {
            return Some(LttpHeader::Request);
        }
        self.stopping.then_some(LttpHeader::Stop { next: self.sbn })
    }

    /// Whether a control message or a report is due.
    pub fn has_something(&self) -> bool {
        (self.control_due && self.awaits_answer()) || self.rate.is_due()
    }

    /// A report that is due, if any.
    pub fn poll_report(&mut self, now: Time) -> Option<Report> {
        let report = self.rate.poll_report(now)?;
        self.stats.reports += 1;
        let chosen = self.chosen.as_ref();
        Some(chosen.map_or(report, |chosen| chosen.report(self.rate.rtt(), report)))
    }

    fn awaits_answer(&self) -> bool {
        self.parameters.is_none() || self.stopping
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub fn deadline(&self, config: &Config) -> Time {
        let lost_peer = self.last_heard + config.peer_timeout;
        let control = self.awaits_answer().then_some(self.control_at);
        [control, self.rate.deadline()].into_iter().flatten().fold(lost_peer, Time::earlier_of)
    }

    /// A deadline has come; false if the server is lost.
    pub fn on_timeout(&mut self, now: Time, config: &Config) -> bool {
        if now.has_reached(self.last_heard + config.peer_timeout) {
            return false;
        }
        self.rate.on_timeout(now);
        if self.awaits_answer() && now.has_reached(self.control_at) {
            self.repeats += u32::from(self.repeats < 10);
            self.control_due = true;
            self.control_at = now + config.control_timeout(self.repeats);
        }
        true
    }
}
