//! A session at its receiver (SCDP Algorithm 2, for several senders and pipelined blocks).

mod assigned;
mod block;
mod blocks;
mod endings;
mod flow;
mod group;
mod paths;
mod pulls;
mod stream;
mod stream_account;

use alloc::vec::Vec;
use core::ops::Range;
use wellspring_core::{
    DropReason, Duration, HostId, Identity, Priority, SessionId, Time, Verdict, Work,
};
use wellspring_wire::scdp::{Mode, Symbol};

use self::block::Intake;
use self::blocks::BlockWindow;
use self::flow::{Answer, Flow};
pub(super) use self::pulls::Grant;
use super::context::Context;
use super::{Config, Event, FailReason, ObjectInfo, ReceiveSession, ReceiveStats, Share};

/// A symbol as it arrived.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub source: HostId,
    /// The path it came by.
    pub path: u16,
    pub symbol: &'a Symbol,
    pub trimmed: bool,
    pub marked: bool,
}

/// One receive session.
#[derive(Debug)]
pub(super) struct Receiver {
    session: SessionId,
    object: ObjectInfo,
    blocks: BlockWindow,
    /// The announced senders in the order of their shares, and then further paths to them.
    flows: Vec<Flow>,
    /// Into how many shares the announced senders divide the symbols; 1 if not announced.
    shares: u8,
    /// Which flow is asked next.
    turn: usize,
    /// A pull to repeat as a sign of life, by flow.
    keepalive: Option<usize>,
    priority: Priority,
    decoded_blocks: u32,
    decode_free_blocks: u32,
    failed_decodes: u32,
    /// Source symbols of the blocks that were not there from the beginning.
    needed: u64,
    over: bool,
    /// How often a sign of life is given.
    keepalive_interval: Duration,
    /// How often it is given to a group's sender, at least.
    group_keepalive: Duration,
    /// How long the application may take to win a sender back once all have closed the session;
    /// `None`: it does not try.
    grace: Option<Duration>,
    /// All senders have closed the session: when it fails, and why.
    abandoned: Option<(Time, FailReason)>,
}

impl Receiver {
    /// A session announced by the application: its senders are known, their initial windows on
    /// their way.
    pub(super) fn announced(now: Time, command: &ReceiveSession, config: &Config) -> Self {
        let mut receiver = Self::empty(command.session, command.object, config);
        receiver.blocks.set_complete(&command.complete);
        let symbols = |run: &Range<u32>| {
            let [first, end] =
                [run.start, run.end].map(|b| command.object.first_symbol_of_block(b));
            end.saturating_sub(first)
        };
        let done = command.complete.iter().map(symbols).sum();
        receiver.needed = receiver.needed.saturating_sub(done);
        let count = command.senders.len().min(255) as u8;
        let in_group = command.mode == Mode::OneToMany;
        receiver.shares = count.max(1);
        if !(in_group && command.priority.is_background()) {
            receiver.priority = command.priority;
        }
        receiver.blocks.set_streaming(in_group);
        let several = count > 1 || config.paths > 1 || command.mode == Mode::ManyToOne;
        if config.directed && several && !in_group {
            receiver.blocks.direct();
        }
        for (index, &host) in (0_u8..count).zip(&command.senders) {
            let share = Share { index, count };
            let pushed = share.initial_window(&command.object, command.initial_window);
            let mut flow = Flow::new(now, host, u32::from(command.initial_window), config);
            flow.group = in_group;
            if receiver.priority.is_background() {
                flow.yield_to_others();
            }
            receiver.flows.push(flow);
            receiver.grant_pushed(now, index.into(), pushed);
            receiver.flows[usize::from(index)].rearm(config);
        }
        receiver
    }

    /// A session opened by an unannounced `syn`.
    pub(super) fn unannounced(session: SessionId, object: ObjectInfo, config: &Config) -> Self {
        Self::empty(session, object, config)
    }

    fn empty(session: SessionId, object: ObjectInfo, config: &Config) -> Self {
        let limits = &config.limits;
        Receiver {
            session,
            object,
            blocks: BlockWindow::new(
                object,
                config.overhead,
                limits.extra_symbols,
                limits.open_blocks_of(&object),
            ),
            flows: Vec::new(),
            shares: 1,
            turn: 0,
            keepalive: None,
            priority: Priority::Normal,
            decoded_blocks: 0,
            decode_free_blocks: 0,
            failed_decodes: 0,
            needed: object.total_symbols(),
            over: false,
            keepalive_interval: keepalive_interval(config.peer_timeout),
            group_keepalive: config.stragglers.judge_over / 4,
            grace: None,
            abandoned: None,
        }
    }

    /// Waits for silent senders as long as they wait for this receiver; and, if the application
    /// tries to win them back, as long for that when all have closed the session.
    pub(super) fn wait_for(&mut self, peer_timeout: Duration, win_back: bool, config: &Config) {
        self.grace = win_back.then_some(peer_timeout);
        self.keepalive_interval = keepalive_interval(peer_timeout);
        self.flows.iter_mut().for_each(|flow| flow.wait_for(peer_timeout, config));
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn priority(&self) -> Priority {
        self.priority
    }

    pub(super) fn is_complete(&self) -> bool {
        self.blocks.all_complete()
    }

    pub(super) fn object(&self) -> ObjectInfo {
        self.object
    }

    /// Takes in a symbol or a trimmed header.
    pub(super) fn on_symbol(&mut self, cx: &mut Context<'_>, arrival: Arrival<'_>) -> Verdict {
        let symbol = arrival.symbol;
        if let Some(options) = &symbol.options
            && !self.object.is_announced_by(options)
        {
            return Verdict::Drop(DropReason::Malformed);
        }
        if symbol.sbn >= self.object.source_blocks {
            return Verdict::Drop(DropReason::Malformed);
        }
        let Some(index) = self.flow_of(cx, &arrival) else {
            return Verdict::Drop(DropReason::UnknownPeer);
        };
        let before = self.flows[index].liveness;
        let counts = self.settle(cx, index, &arrival);
        if before != self.flows[index].liveness {
            self.couple_paths();
        }
        self.flows[index].rearm(cx.config);
        let verdict = match (arrival.trimmed, counts) {
            (true, false) => Verdict::Drop(DropReason::Duplicate),
            (true, true) => {
                self.flows[index].stats.trimmed += 1;
                Verdict::Consumed
            }
            (false, _) => self.keep(cx, index, symbol),
        };
        if counts {
            self.follow_stream(index, &arrival, verdict);
        }
        self.give_up_gaps(cx, index);
        self.hedge(cx.now, index);
        self.check_exhausted(cx);
        verdict
    }

    /// The flow this symbol belongs to: known, new in an unannounced session, or restarted.
    fn flow_of(&mut self, cx: &mut Context<'_>, arrival: &Arrival<'_>) -> Option<usize> {
        let (now, config) = (cx.now, cx.config);
        let known = self.flow_by(arrival.source, arrival.path);
        let Some(options) = &arrival.symbol.options else { return known };
        let window = u32::from(options.initial_window);
        let index = match known {
            Some(index) => index,
            // Only a session opened by its symbols takes senders nobody named, and a group's stream
            // is one sender's alone.
            None if config.accept_unannounced && self.takes_sender(options.mode) => {
                let mut flow = Flow::new(now, arrival.source, window, config);
                flow.group = options.mode == Mode::OneToMany;
                self.blocks.set_streaming(flow.group);
                self.flows.push(flow);
                self.flows.len() - 1
            }
            None => return None,
        };
        let epoch = arrival.symbol.epoch;
        if epoch > self.flows[index].epoch {
            // The sender came back, or serves us by unicast from now on.
            self.forget_credits(index);
            self.blocks.forget_share(index as u8);
            self.blocks.restart_stream();
            self.leave_paths(arrival.source);
            let flow = &mut self.flows[index];
            flow.restart(now, epoch);
            if flow.group && options.mode != Mode::OneToMany {
                flow.group = false;
                self.blocks.set_streaming(false);
                cx.events.push_back(Event::MovedToUnicast { session: self.session });
            }
        }
        let flow = &mut self.flows[index];
        if epoch == flow.epoch && flow.granted() < window {
            // The initial window is granted by its announcement.
            self.grant_pushed(now, index, window);
        }
        Some(index)
    }

    /// Notes that a sender pushes its symbols up to number `through` unasked. On those of a sender
    /// that takes over from another nothing is counted.
    fn grant_pushed(&mut self, now: Time, index: usize, through: u32) {
        let flow = &mut self.flows[index];
        let counted = flow.epoch == 0 && !flow.group;
        // The index of one of at most 255 flows.
        let share = Share { index: index as u8, count: self.shares.max(index as u8 + 1) };
        self.blocks.open_through(0);
        for number in flow.granted() + 1..=through {
            let (sbn, esi) = share.pushed_symbol(&self.object, number);
            let counted = counted && self.blocks.open_through(sbn);
            flow.grant_pushed(now, (sbn, esi), counted);
            if counted && self.blocks.is_directed() {
                self.blocks.assign(sbn, esi, 1);
            } else if counted {
                self.blocks.ask(sbn, share.index, 1, true);
            }
        }
    }

    fn takes_sender(&self, mode: Mode) -> bool {
        let is_group = mode == Mode::OneToMany || self.blocks.is_streaming();
        if is_group { self.flows.is_empty() } else { self.flows.len() < 255 }
    }

    /// Settles the credit an arrival answers. False if it says nothing: a trimmed header that may be a copy of one that
    /// has come before. Anybody on the path can send as many of them as he likes.
    fn settle(&mut self, cx: &Context<'_>, index: usize, arrival: &Arrival<'_>) -> bool {
        let flow = &mut self.flows[index];
        let symbol = arrival.symbol;
        if symbol.epoch != flow.epoch {
            return !arrival.trimmed; // of an earlier epoch: its credit is long given up
        }
        let mut number = symbol.number;
        if arrival.trimmed
            && let Some(whole) = flow.number_like(number)
        {
            number = whole;
        }
        if symbol.options.is_some() {
            flow.note_pushed(number);
        }
        let answer = flow.answer(cx.now, number, arrival.trimmed);
        let is_first = flow.is_first(number, answer);
        if arrival.trimmed && !is_first {
            return false;
        }
        flow.heard(cx.now);
        if answer == Answer::NeverGranted && flow.group && !flow.is_far_ahead(number) {
            // Other members of the group drive it on.
            flow.skip_to(number, arrival.trimmed);
        }
        flow.note_run(number, arrival.trimmed);
        if arrival.trimmed || arrival.marked {
            flow.on_congestion(cx.now, number);
        }
        if let Answer::Settles(settled) = answer
            && settled.counted
        {
            self.blocks.settle(settled.sbn);
        }
        if arrival.trimmed && !self.flows[index].group {
            self.blocks.note_loss(symbol.sbn);
        }
        true
    }

    fn keep(&mut self, cx: &mut Context<'_>, index: usize, symbol: &Symbol) -> Verdict {
        let session = self.session;
        let (sbn, esi) = (symbol.sbn, symbol.esi);
        let mut intake = self.blocks.receive(sbn, esi);
        if intake == Intake::OutOfRange && self.flows[index].group && self.blocks.open_through(sbn)
        {
            intake = self.blocks.receive(sbn, esi);
        }
        let stats = &mut self.flows[index].stats;
        match intake {
            Intake::Redundant => {
                stats.redundant += 1;
                return Verdict::Drop(DropReason::Duplicate);
            }
            Intake::OutOfRange => {
                stats.redundant += 1;
                return Verdict::Drop(DropReason::OverLimit);
            }
            Intake::Kept => {}
            Intake::Finishable { decode } => {
                cx.work.push_back(Work::Finish { session, sbn, decode });
            }
        }
        stats.useful += 1;
        Verdict::Keep(Identity::Symbol { session, sbn, esi })
    }

    fn give_up_gaps(&mut self, cx: &Context<'_>, index: usize) {
        while let Some(lost) = self.flows[index].next_gap(cx.now, cx.config) {
            if self.flows[index].group {
                continue; // the stream shows its block
            }
            if lost.counted {
                self.blocks.settle(lost.sbn);
            }
            self.blocks.note_loss(lost.sbn);
        }
        self.resolve_stream(index);
    }

    /// When nothing is left to ask for but symbols in flight from slower senders, a sender that
    /// is done asks for them again: a slow sender costs its share and no more. Each credit is
    /// hedged at most once.
    fn hedge(&mut self, now: Time, fast: usize) {
        if self.flows.len() < 2 || self.blocks.wants() || self.blocks.all_complete() {
            return;
        }
        let flow = &self.flows[fast];
        let (true, Some(round_trip)) = (flow.spare() > 0, flow.rtt.smoothed()) else { return };
        let within = round_trip + round_trip / 2;
        let blocks = &mut self.blocks;
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if index != fast {
                flow.doubt_slower_than(now, within, |slow| blocks.give_back(slow.sbn, slow.esi));
            }
        }
    }

    /// A block was finished: decoded if need be, and handed over.
    pub(super) fn on_finished(&mut self, cx: &mut Context<'_>, sbn: u32) {
        let Some(decoded) = self.blocks.finished(sbn) else { return };
        if decoded {
            self.decoded_blocks += 1;
        } else {
            self.decode_free_blocks += 1;
        }
        let session = self.session;
        cx.events.push_back(Event::BlockComplete { session, sbn, decoded });
        if self.blocks.all_complete() {
            self.over = true;
            cx.events.push_back(Event::Received { session, stats: self.stats(cx.now) });
        }
    }

    /// A block did not decode: it wants so many more symbols.
    pub(super) fn on_need_more(&mut self, cx: &mut Context<'_>, sbn: u32, more: u32) {
        self.failed_decodes += 1;
        if !self.blocks.need_more(sbn, more) {
            self.fail(cx, FailReason::Exhausted);
        }
    }

    /// A block's bytes are wrong.
    pub(super) fn on_wrong(&mut self, cx: &mut Context<'_>, sbn: u32, more: u32) {
        if !self.blocks.wrong(sbn, more) {
            self.fail(cx, FailReason::Exhausted);
        }
    }

    /// The account so far.
    pub(super) fn stats(&self, now: Time) -> ReceiveStats {
        ReceiveStats {
            needed: self.needed,
            decoded_blocks: self.decoded_blocks,
            decode_free_blocks: self.decode_free_blocks,
            failed_decodes: self.failed_decodes,
            senders: self.sender_stats(now),
        }
    }

    /// Source symbols of an open block that have not come, ascending.
    pub(super) fn missing_symbols(&self, sbn: u32, missing: &mut Vec<u32>) {
        if (self.blocks.floor()..self.blocks.horizon()).contains(&sbn) {
            missing.extend(self.blocks.open(sbn).missing());
        }
    }

    /// First block no sender has been asked for: what a sender that comes back need not mistrust.
    pub(super) fn horizon(&self) -> (u32, u32) {
        (self.blocks.floor(), self.blocks.horizon())
    }
}

/// A receiver that has nothing to ask for (its disk is slow) repeats its last pull that often, so
/// that senders do not take it for gone.
fn keepalive_interval(peer_timeout: Duration) -> Duration {
    peer_timeout / 4
}
