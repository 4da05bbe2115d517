//! A session at its sender (SCDP Algorithm 1, for groups, shares and pipelined blocks).

mod demand;
mod stream;
pub(super) mod symbols;

use alloc::vec::Vec;
use wellspring_core::{
    Class, Destination, DropReason, Duration, Ecn, Frame, HostId, SessionId, Time, Verdict,
};
use wellspring_wire::scdp::{CloseReason, Mode, Options, Pull, ScdpHeader, Symbol};

use self::stream::{NextSymbol, Standing, Stream, StreamPlan};
use self::symbols::SymbolStream;
use super::context::Context;
use super::{
    Config, Event, Fabric, FailReason, ObjectInfo, Resume, Role, SendSession, SendStats, Share,
    StragglerAction,
};

/// More packets than that are never pushed unasked: the options count them in 8 bits.
const MAX_PUSHED: u32 = 255;

/// Length of symbols for which the window is counted in packets; longer ones are counted by their
/// bytes \[bytes\]: jumbo frames.
const USUAL_LEN: u64 = 8_192;

/// One send session.
#[derive(Debug)]
pub(super) struct Sender {
    session: SessionId,
    object: ObjectInfo,
    initial_window: u8,
    fixed_class: Option<Class>,
    /// The stream opened first, then one a detached straggler.
    streams: Vec<Stream>,
    turn: usize,
    bytes_sent: u64,
    last_activity: Time,
    /// Symbols pushed in vain, and when to push the next.
    probes: u32,
    stats: SendStats,
    over: bool,
    /// When to look at the deadlines again: never later than the earliest, but activity that only
    /// postpones them is not followed (an early timeout is a no-op).
    check_at: Option<Time>,
    /// Credits a receiver may have outstanding \[packets\].
    window: u32,
    /// A receiver silent for that long is lost.
    peer_timeout: Duration,
    /// See [`Config::release_after`].
    release_after: Duration,
}

impl Sender {
    pub(super) fn new(now: Time, command: &SendSession, config: &Config) -> Self {
        let (destination, members, share): (_, &[HostId], _) = match &command.role {
            Role::Unicast { receiver, share } => {
                (Destination::Host(*receiver), core::slice::from_ref(receiver), *share)
            }
            Role::OneToMany { group, members } => {
                (Destination::Group(*group), members, Share::WHOLE)
            }
        };
        let plan = StreamPlan {
            destination,
            mode: command.role.mode(),
            epoch: command.resume.map_or(0, |r| r.epoch),
            symbols: SymbolStream::new(share, command.resume),
            initial_window: share.initial_window(&command.object, command.initial_window),
            window: window(&command.object, config),
            object: command.object,
        };
        let mut sender = Sender {
            session: command.session,
            object: command.object,
            initial_window: command.initial_window,
            fixed_class: command.class.map(|class| class.max(1)),
            streams: alloc::vec![Stream::new(now, plan, members)],
            turn: 0,
            bytes_sent: 0,
            last_activity: now,
            probes: 0,
            stats: SendStats::default(),
            over: false,
            check_at: None,
            window: window(&command.object, config),
            peer_timeout: config.peer_timeout,
            release_after: config.release_after,
        };
        sender.plan(config);
        sender
    }

    /// Waits for silent receivers as long as they wait for this sender; whoever may be silent for
    /// so long may also ask again for the last symbols so late.
    pub(super) fn wait_for(&mut self, peer_timeout: Duration, config: &Config) {
        self.peer_timeout = peer_timeout;
        self.release_after = config.release_after.max(peer_timeout);
        self.plan(config);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn object(&self) -> ObjectInfo {
        self.object
    }

    /// Every receiver still served.
    pub(super) fn receivers(&self) -> impl Iterator<Item = HostId> + '_ {
        let served = |s: Standing| matches!(s, Standing::Live | Standing::Finished);
        self.streams
            .iter()
            .flat_map(|s| &s.members)
            .filter(move |m| served(m.standing) && !m.closed)
            .map(|m| m.host)
    }

    /// Takes in a pull.
    pub(super) fn on_pull(&mut self, cx: &mut Context<'_>, source: HostId, pull: &Pull) -> Verdict {
        self.stats.pulls += 1;
        let mut outcome = Err(DropReason::UnknownPeer);
        for index in 0..self.streams.len() {
            if self.streams[index].member(source).is_none() {
                continue;
            }
            if self.streams[index].epoch != pull.epoch {
                outcome = Err(DropReason::Stale);
                continue;
            }
            outcome = self.streams[index].on_pull(cx.now, source, pull);
            if self.streams[index].mode == Mode::OneToMany {
                self.streams[index].note_hold_up(cx.now);
                self.check_stragglers(cx, index);
                self.plan(cx.config);
            }
            break;
        }
        if pull.fin || self.stats.pulls == 1 {
            self.plan(cx.config);
        }
        match outcome {
            Ok(()) => {
                self.last_activity = cx.now;
                Verdict::Consumed
            }
            Err(reason) => Verdict::Drop(reason),
        }
    }

    /// A receiver closed the session.
    pub(super) fn on_close(&mut self, cx: &mut Context<'_>, source: HostId, reason: CloseReason) {
        let session = self.session;
        for member in self.streams.iter_mut().filter_map(|s| s.member(source)) {
            if member.closed || matches!(member.standing, Standing::Lost | Standing::Detached) {
                continue;
            }
            let done = reason == CloseReason::Complete
                || (reason == CloseReason::UnknownSession && member.standing == Standing::Finished);
            if done {
                member.standing = Standing::Finished;
                member.closed = true;
                cx.events.push_back(Event::ReceiverFinished { session, receiver: source });
            } else if reason == CloseReason::UnknownSession && !member.heard {
                // Our first symbols may have overtaken the announcement.
            } else {
                member.standing = Standing::Lost;
                let reason = Some(reason);
                cx.events.push_back(Event::ReceiverLost { session, receiver: source, reason });
            }
        }
        self.end_if_done(cx);
        self.plan(cx.config);
    }

    /// Acts on deadlines: silent receivers, stragglers, symbols pushed in vain, release.
    pub(super) fn on_timeout(&mut self, cx: &mut Context<'_>) {
        let session = self.session;
        for index in 0..self.streams.len() {
            self.streams[index].note_hold_up(cx.now);
            self.check_stragglers(cx, index);
            for member in &mut self.streams[index].members {
                if member.standing == Standing::Live
                    && cx.now.has_reached(member.last_heard + self.peer_timeout)
                {
                    member.standing = Standing::Lost;
                    let receiver = member.host;
                    cx.events.push_back(Event::ReceiverLost { session, receiver, reason: None });
                }
            }
        }
        if self.next_probe(cx.config).is_some_and(|at| cx.now.has_reached(at)) {
            self.probes += 1;
            self.last_activity = cx.now;
            for stream in self.streams.iter_mut().filter(|s| wants_probe(s)) {
                stream.push_one_more();
            }
        }
        self.end_if_done(cx);
        self.plan(cx.config);
    }

    /// When `on_timeout` is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.check_at
    }

    /// Nothing is left to send for now: what was asked for last may have been the end.
    pub(super) fn on_idle(&mut self, config: &Config) {
        // Without a deadline nobody is waited for any more: it is time to think of release. And the
        // symbols pushed may all have been lost: a symbol is to be pushed long before the receiver
        // counts as silent.
        if self.check_at.is_none() || self.streams.iter().any(|s| s.fin || wants_probe(s)) {
            self.plan(config);
        }
    }

    /// Sets `check_at` to the earliest deadline.
    fn plan(&mut self, config: &Config) {
        let live =
            self.streams.iter().flat_map(|s| &s.members).filter(|m| m.standing == Standing::Live);
        let silences = live.flat_map(|m| {
            let straggles = m
                .holds_up_since
                .filter(|_| !m.reported)
                .map(|since| since + config.stragglers.silent_for);
            [Some(m.last_heard + self.peer_timeout), straggles]
        });
        let earliest = Time::earliest(
            silences.flatten().chain(self.next_probe(config)).chain(self.release_at()),
        );
        self.check_at = earliest;
    }

    /// When to push a symbol again, because nobody has answered the ones pushed.
    fn next_probe(&self, config: &Config) -> Option<Time> {
        self.streams
            .iter()
            .any(wants_probe)
            .then(|| self.last_activity + config.initial_rtt * 3 * (1 << self.probes.min(10)))
    }

    /// When a session whose receivers all have what they asked for is released.
    fn release_at(&self) -> Option<Time> {
        let busy = self
            .streams
            .iter()
            .any(|s| s.sendable() > 0 || s.members.iter().any(|m| m.standing == Standing::Live));
        (!busy).then(|| self.last_activity + self.release_after)
    }

    fn end_if_done(&mut self, cx: &mut Context<'_>) {
        let members = || self.streams.iter().flat_map(|s| &s.members);
        let settled = members()
            .all(|m| m.closed || matches!(m.standing, Standing::Lost | Standing::Detached));
        let released = self.release_at().is_some_and(|at| cx.now.has_reached(at));
        if self.over || !(settled || released) {
            return;
        }
        self.over = true;
        let session = self.session;
        let mut any_finished = false;
        for member in members().filter(|m| m.standing == Standing::Finished) {
            any_finished = true;
            if !member.closed {
                let receiver = member.host;
                cx.events.push_back(Event::ReceiverFinished { session, receiver });
            }
        }
        cx.events.push_back(if any_finished {
            Event::Sent { session, stats: self.stats }
        } else {
            Event::Failed { session, reason: FailReason::PeersLost }
        });
    }

    /// Reports (and, by policy, detaches) receivers of a group that hold it up or lag behind.
    fn check_stragglers(&mut self, cx: &mut Context<'_>, index: usize) {
        let policy = cx.config.stragglers;
        if self.streams[index].mode != Mode::OneToMany {
            return;
        }
        let session = self.session;
        let stream = &self.streams[index];
        let front = stream.members.iter().map(|m| m.floor).max().unwrap_or(0);
        let front_symbol = self.object.first_symbol_of_block(front.min(self.object.source_blocks));
        let (floor, began) = (stream.symbols.floor(), stream.began);
        let mut detached = Vec::new();
        for member in &mut self.streams[index].members {
            if !matches!(member.standing, Standing::Live | Standing::Finished) || member.closed {
                continue;
            }
            let behind =
                front_symbol.saturating_sub(self.object.first_symbol_of_block(member.floor));
            let held_up = member
                .holds_up_since
                .is_some_and(|since| cx.now.has_reached(since + policy.silent_for));
            // A receiver given up before has come back to find its blocks no longer served.
            let left_behind = member.floor < floor;
            // Behind alone costs nobody anything: its disk may be late, its credits not.
            let elapsed = cx.now.since(began);
            let costly = member.held_up(cx.now) * 2 >= elapsed;
            // On a fast link many symbols are a moment in which a host had no processor.
            let lasting = u128::from(behind) * u128::from(elapsed.as_micros())
                >= u128::from(front_symbol) * u128::from(policy.silent_for.as_micros());
            let slow = held_up || (costly && lasting && behind >= policy.symbols_behind);
            if left_behind || (slow && (policy.detach || !member.reported)) {
                member.reported = true;
                let detach = policy.detach || left_behind;
                let action = if detach { StragglerAction::Detached } else { StragglerAction::Kept };
                let (receiver, symbols_behind) = (member.host, behind);
                cx.events.push_back(Event::Straggler { session, receiver, symbols_behind, action });
                if detach {
                    member.standing = Standing::Detached;
                    detached.push((member.host, member.floor));
                }
            }
        }
        for (host, floor) in detached {
            self.serve_by_unicast(cx.now, index, host, floor);
        }
    }

    /// Opens a stream of its own for a receiver taken out of its group.
    fn serve_by_unicast(&mut self, now: Time, group: usize, host: HostId, floor: u32) {
        let group = &self.streams[group];
        let epoch = group.epoch + 1;
        let horizon = group.symbols.horizon();
        let plan = StreamPlan {
            destination: Destination::Host(host),
            mode: Mode::Unicast,
            epoch,
            symbols: SymbolStream::new(Share::WHOLE, Some(Resume { epoch, floor, horizon })),
            initial_window: u32::from(self.initial_window),
            window: self.window,
            object: self.object,
        };
        self.streams.push(Stream::new(now, plan, &[host]));
        self.last_activity = now;
    }

    /// The lowest block that is still served.
    pub(super) fn floor(&self) -> Option<u32> {
        self.streams.iter().map(|stream| stream.symbols.floor()).min()
    }

    /// Whether a symbol may go out.
    pub(super) fn can_send(&self) -> bool {
        !self.over && self.streams.iter().any(|s| s.sendable() > 0)
    }

    /// The next symbol.
    pub(super) fn next_frame(&mut self, now: Time, config: &Config) -> Option<Frame<ScdpHeader>> {
        if self.over {
            return None;
        }
        let streams = self.streams.len();
        for step in 0..streams {
            let index = (self.turn + step) % streams;
            if let Some(next) = self.streams[index].next() {
                // A stream keeps the turn, so that its packets stay together; it yields when it
                // runs dry.
                self.turn = index;
                self.last_activity = now;
                return Some(self.frame(config, index, next));
            }
        }
        None
    }

    fn frame(&mut self, config: &Config, index: usize, next: NextSymbol) -> Frame<ScdpHeader> {
        let stream = &self.streams[index];
        if next.esi < self.object.symbols_in_block(next.sbn) {
            self.stats.source_symbols += 1;
        } else {
            self.stats.repair_symbols += 1;
        }
        let class = self.class(config, next);
        self.bytes_sent += u64::from(self.object.symbol_size);
        let options = next.pushed.then(|| Options {
            transfer_len: self.object.transfer_len,
            object_tag: self.object.object_tag,
            source_blocks: self.object.source_blocks,
            symbol_size: self.object.symbol_size,
            mode: stream.mode,
            initial_window: stream.pushed.min(MAX_PUSHED) as u8,
        });
        let symbol = Symbol {
            sbn: next.sbn,
            esi: next.esi,
            number: next.number,
            epoch: stream.epoch,
            priority: class,
            fin: next.fin,
            options,
        };
        Frame {
            source: config.host,
            destination: stream.destination,
            session: self.session,
            payload_len: self.object.symbol_size,
            path: next.number as u16,
            class,
            ecn: match config.fabric {
                Fabric::Shared { .. } => Ecn::Capable,
                Fabric::Trimming | Fabric::Dedicated { .. } => Ecn::NotCapable,
            },
            trimmed: false,
            header: ScdpHeader::Symbol(symbol),
        }
    }

    /// MLFQ (SCDP §IV-B): the initial window and the last symbol go in the highest class of the
    /// symbols; the others sink as the session sends on. Unless the application chose a class.
    fn class(&self, config: &Config, next: NextSymbol) -> Class {
        if let Some(class) = self.fixed_class {
            return class;
        }
        if next.pushed || next.fin {
            return 1;
        }
        let sunk = config.demotion_thresholds.iter().filter(|&&t| t <= self.bytes_sent).count();
        1 + sunk.min(30) as Class
    }
}

/// Credits a receiver may have outstanding \[packets\]: what this host allows in flight, and if
/// symbols are long no more bytes than as many symbols of [`USUAL_LEN`] have.
fn window(object: &ObjectInfo, config: &Config) -> u32 {
    let bytes = u64::from(config.max_window) * USUAL_LEN;
    let packets = bytes / u64::from(object.symbol_size.max(1));
    config.max_window.min(u32::try_from(packets).unwrap_or(u32::MAX)).max(1)
}

/// Whether a stream's first symbols have found no answer yet.
fn wants_probe(stream: &Stream) -> bool {
    stream.sendable() == 0
        && stream.sent < MAX_PUSHED
        && stream.members.iter().any(|m| m.standing == Standing::Live && !m.heard)
}
