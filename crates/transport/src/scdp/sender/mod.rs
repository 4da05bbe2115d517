//! A session at its sender (SCDP Algorithm 1, for groups, shares and pipelined blocks).

mod demand;
mod member;
mod paths;
mod straggler;
mod stream;
pub(super) mod symbols;

use alloc::vec::Vec;
use wellspring_core::{
    Class, Destination, DropReason, Duration, Ecn, Frame, HostId, Priority, SessionId, Time,
    Verdict,
};
use wellspring_wire::scdp::{CloseReason, Mode, Options, Pull, ScdpHeader, Symbol};

use self::member::{Member, Standing};
use self::straggler::Stragglers;
use self::stream::{NextSymbol, Stream, StreamPlan};
use self::symbols::SymbolStream;
use super::context::Context;
use super::{
    Config, Event, Fabric, FailReason, ObjectInfo, Resume, Role, SendSession, SendStats, Share,
    StragglerAction, StragglerCause,
};

/// More packets than that are never pushed unasked: the options count them in 8 bits.
const MAX_PUSHED: u32 = 255;

/// Length of symbols for which the window is counted in packets; longer ones are counted by their
/// bytes \[bytes\]: jumbo frames.
const USUAL_LEN: u64 = 8_192;

/// Runs of the first stream for one of those beside it, while both have something to send: receivers that were
/// taken out of a group cost the others one run in so many.
const RUNS_OF_THE_FIRST: u32 = 16;

/// Which stream sends next: the first, and after some of its runs one of the others; paths to one receiver take
/// turns run by run.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// All streams are paths to one receiver.
    paths: bool,
    /// The stream that sends, and how many packets it has sent in a row.
    stream: usize,
    packets: u32,
    /// Which of the others is next, counted without the first.
    other: usize,
}

impl Turn {
    /// The streams to try, in that order: the one whose turn it is, the first, the others.
    fn order(self, streams: usize) -> impl Iterator<Item = usize> {
        let others = streams - 1;
        let beside = (0..others).map(move |step| 1 + (self.other + step) % others);
        [self.stream.min(others), 0].into_iter().chain(beside)
    }

    /// A stream has sent a packet. Runs are `burst` long.
    fn sent(&mut self, stream: usize, streams: usize, burst: u16) {
        let others = streams - 1;
        if self.stream != stream {
            (self.stream, self.packets) = (stream, 0);
        }
        self.packets += 1;
        if self.paths {
            if self.packets >= u32::from(burst) {
                (self.stream, self.packets) = ((stream + 1) % streams, 0);
            }
            return;
        }
        let runs = if stream == 0 { RUNS_OF_THE_FIRST } else { 1 };
        if self.packets < runs * u32::from(burst) || others == 0 {
            return;
        }
        if stream > 0 {
            self.other = stream % others;
        }
        self.stream = if stream == 0 { 1 + self.other % others } else { 0 };
        self.packets = 0;
    }
}

/// One send session.
#[derive(Debug)]
pub(super) struct Sender {
    session: SessionId,
    object: ObjectInfo,
    initial_window: u8,
    fixed_class: Option<Class>,
    priority: Priority,
    /// The stream opened first, then one a detached straggler.
    streams: Vec<Stream>,
    stragglers: Stragglers,
    turn: Turn,
    bytes_sent: u64,
    last_activity: Time,
    /// Symbols pushed in vain, and when to push the next.
    probes: u32,
    stats: SendStats,
    over: bool,
    /// Its symbols wait for their blocks.
    is_paused: bool,
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
        let (destination, members, share, held): (_, &[HostId], _, &[_]) = match &command.role {
            Role::Unicast { receiver, share } => {
                (Destination::Host(*receiver), core::slice::from_ref(receiver), *share, &[])
            }
            Role::OneToMany { group, members, held } => {
                (Destination::Group(*group), members, Share::WHOLE, held)
            }
        };
        let plan = StreamPlan {
            destination,
            path: 0,
            mode: command.role.mode(),
            epoch: command.resume.map_or(0, |r| r.epoch),
            symbols: SymbolStream::new(share, command.resume),
            initial_window: share.initial_window(&command.object, command.initial_window),
            window: window(&command.object, config),
            object: command.object,
            held: held.to_vec(),
        };
        let mut sender = Sender {
            session: command.session,
            object: command.object,
            initial_window: command.initial_window,
            fixed_class: fixed_class(command, config),
            priority: command.priority,
            streams: alloc::vec![Stream::new(now, plan, members)],
            stragglers: Stragglers::new(now),
            turn: Turn::default(),
            bytes_sent: 0,
            last_activity: now,
            probes: 0,
            stats: SendStats::default(),
            over: false,
            is_paused: false,
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

    pub(super) fn priority(&self) -> Priority {
        self.priority
    }

    pub(super) fn stats(&self) -> SendStats {
        self.stats
    }

    /// The streams by whose members the session ends: one for each receiver, its first path.
    fn first_paths(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().filter(|stream| stream.path == 0)
    }

    /// The receivers, each once.
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.first_paths().flat_map(|stream| &stream.members)
    }

    /// Takes in a pull.
    pub(super) fn on_pull(
        &mut self,
        cx: &mut Context<'_>,
        (source, path): (HostId, u16),
        pull: &Pull,
    ) -> Verdict {
        self.stats.pulls += 1;
        let mut outcome = Err(DropReason::UnknownPeer);
        for index in 0..self.streams.len() {
            if self.streams[index].path != path || self.streams[index].member(source).is_none() {
                continue;
            }
            if self.streams[index].epoch != pull.epoch {
                outcome = Err(DropReason::Stale);
                continue;
            }
            outcome = self.streams[index].on_pull(cx.now, source, pull);
            if self.turn.paths && outcome != Err(DropReason::Malformed) {
                self.streams.iter_mut().for_each(|s| s.hear_elsewhere(cx.now, source, pull));
            }
            if self.streams[index].mode == Mode::OneToMany {
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
        let first = self.streams.iter_mut().filter(|stream| stream.path == 0);
        for member in first.filter_map(|s| s.member(source)) {
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
            if self.streams[index].path > 0 {
                continue;
            }
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
    pub(super) fn on_idle(&mut self, now: Time, config: &Config) {
        if self.is_paused {
            return;
        }
        let groups = self.streams.iter_mut().filter(|s| s.mode == Mode::OneToMany);
        groups.for_each(|group| group.note_hold_up(now));
        // Without a deadline nobody is waited for any more: it is time to think of release. And the
        // symbols pushed may all have been lost: a symbol is to be pushed long before the receiver
        // counts as silent.
        if self.check_at.is_none() || self.streams.iter().any(|s| s.fin || wants_probe(s)) {
            self.plan(config);
        }
    }

    /// Sets `check_at` to the earliest deadline.
    fn plan(&mut self, config: &Config) {
        let live = self.members().filter(|m| m.standing == Standing::Live);
        let silences = live.map(|m| m.last_heard + self.peer_timeout);
        let stragglers = self
            .streams
            .iter()
            .filter_map(|s| self.stragglers.deadline(s, &s.fit_to_path(config.stragglers)));
        let earliest = Time::earliest(
            silences.chain(stragglers).chain(self.next_probe(config)).chain(self.release_at()),
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
        // What they have asked for besides goes out meanwhile, and each symbol puts the release off. What cannot go out, as of a
        // block that is none, keeps nobody waiting.
        let busy = self.members().any(|m| m.standing == Standing::Live);
        (!busy).then(|| self.last_activity + self.release_after)
    }

    fn end_if_done(&mut self, cx: &mut Context<'_>) {
        let settled = self
            .members()
            .all(|m| m.closed || matches!(m.standing, Standing::Lost | Standing::Detached));
        let released = self.release_at().is_some_and(|at| cx.now.has_reached(at));
        if self.over || !(settled || released) {
            return;
        }
        let session = self.session;
        let mut any_finished = false;
        for member in self.members().filter(|m| m.standing == Standing::Finished) {
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
        self.over = true;
    }

    /// Reports (and, by policy, detaches) receivers of a group that hold it up or lag behind.
    fn check_stragglers(&mut self, cx: &mut Context<'_>, index: usize) {
        let session = self.session;
        let object = self.object;
        let policy = self.streams[index].fit_to_path(cx.config.stragglers);
        let found = self.stragglers.find(cx.now, &mut self.streams[index], &object, &policy);
        for straggler in found {
            let detached = straggler.detach;
            let action = if detached { StragglerAction::Detached } else { StragglerAction::Kept };
            let (receiver, cause) = (straggler.host, straggler.cause);
            let symbols_behind = straggler.behind;
            let event = Event::Straggler { session, receiver, symbols_behind, cause, action };
            cx.events.push_back(event);
            if detached {
                self.serve_by_unicast(cx.now, index, straggler.host, straggler.floor);
            }
        }
    }

    /// Takes a receiver out of its group, as it has asked for.
    pub(super) fn detach(&mut self, cx: &mut Context<'_>, receiver: HostId) {
        let session = self.session;
        let groups = self.streams.iter_mut().enumerate();
        let found =
            groups.filter(|(_, stream)| stream.mode == Mode::OneToMany).find_map(|(i, s)| {
                let member = s.member(receiver).filter(|m| !m.closed)?;
                matches!(member.standing, Standing::Live | Standing::Finished).then(|| {
                    member.standing = Standing::Detached;
                    (i, member.floor)
                })
            });
        let Some((index, floor)) = found else { return };
        let (symbols_behind, action) = (0, StragglerAction::Detached);
        let cause = StragglerCause::Asked;
        cx.events.push_back(Event::Straggler { session, receiver, symbols_behind, cause, action });
        self.serve_by_unicast(cx.now, index, receiver, floor);
        self.plan(cx.config);
    }

    /// Opens a stream of its own for a receiver taken out of its group.
    fn serve_by_unicast(&mut self, now: Time, group: usize, host: HostId, floor: u32) {
        let group = &self.streams[group];
        let epoch = group.epoch + 1;
        let horizon = group.symbols.horizon();
        let plan = StreamPlan {
            destination: Destination::Host(host),
            path: 0,
            mode: Mode::Unicast,
            epoch,
            symbols: SymbolStream::new(Share::WHOLE, Some(Resume { epoch, floor, horizon })),
            initial_window: u32::from(self.initial_window),
            window: self.window,
            object: self.object,
            held: Vec::new(),
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
        !self.over && !self.is_paused && self.streams.iter().any(|s| s.sendable() > 0)
    }

    /// Yields no symbols for now, or goes on.
    pub(super) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// The next symbol.
    pub(super) fn next_frame(&mut self, now: Time, config: &Config) -> Option<Frame<ScdpHeader>> {
        if self.over || self.is_paused {
            return None;
        }
        let streams = self.streams.len();
        for index in self.turn.order(streams) {
            if let Some(next) = self.streams[index].next() {
                self.turn.sent(index, streams, config.burst.max(1));
                self.last_activity = now;
                if self.streams[index].first_sent.is_none() {
                    self.streams[index].first_sent = Some(now);
                    self.plan(config);
                }
                return Some(self.frame(config, index, next));
            }
        }
        None
    }

    /// That symbol, which waited for its block, has gone out. Who is to hear a stream's first one is waited for from now on.
    pub(super) fn left_late(&mut self, now: Time, symbol: &Symbol) {
        let of_first = self.streams.iter_mut().filter(|stream| stream.epoch == symbol.epoch);
        if symbol.number == 1 {
            of_first.for_each(|stream| stream.first_sent = Some(now));
        }
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
            path: if config.labels_are_paths() { stream.path } else { next.number as u16 },
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
        class_below(sunk)
    }
}

/// The class of symbols that have sunk so many times; the header has five bits for it.
fn class_below(sunk: usize) -> Class {
    1 + sunk.min(30) as Class
}

/// The class of all symbols of a session that do not sink.
fn fixed_class(command: &SendSession, config: &Config) -> Option<Class> {
    let lowest = || class_below(config.demotion_thresholds.len());
    let of_background = command.priority.is_background().then(lowest);
    command.class.map(|class| class.max(1)).or(of_background)
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
