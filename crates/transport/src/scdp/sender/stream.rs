//! One numbered stream of symbols: to one host, or to a multicast group.

use alloc::vec::Vec;
use core::ops::Range;
use wellspring_core::{Destination, DropReason, Duration, HostId, Time};
use wellspring_wire::scdp::{MAX_ESI, Mode, Pull};

use super::demand::Demand;
use super::member::{Member, Request, Standing};
use super::symbols::SymbolStream;
use crate::scdp::ObjectInfo;

/// Credits beyond these are not believed at all \[packets\].
const MAX_PENDING: u32 = 65_536;

/// A receiver that does not know how far the stream is hears of it that often.
const TELL_EVERY: Duration = Duration::from_millis(40);

/// What a stream is to be.
pub(super) struct StreamPlan {
    pub(super) destination: Destination,
    /// Number of the path to it: 0, or a further path of a unicast session.
    pub(super) path: u16,
    pub(super) mode: Mode,
    pub(super) epoch: u8,
    pub(super) symbols: SymbolStream,
    /// Symbols pushed unasked \[packets\].
    pub(super) initial_window: u32,
    /// Credits a receiver may have outstanding \[packets\]; what a pull asks for beyond is ignored.
    pub(super) window: u32,
    pub(super) object: ObjectInfo,
    /// Of a group: blocks that all its members have.
    pub(super) held: Vec<Range<u32>>,
}

/// A stream of symbols.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) destination: Destination,
    /// Number of the path to it. On further paths nothing is decided: the receiver's standing is that of path 0.
    pub(super) path: u16,
    pub(super) mode: Mode,
    pub(super) epoch: u8,
    pub(super) began: Time,
    /// When its first symbol went out.
    pub(super) first_sent: Option<Time>,
    pub(super) members: Vec<Member>,
    pub(super) symbols: SymbolStream,
    /// In a group: what it wants. One receiver's credits say that themselves.
    demand: Option<Demand>,
    /// Symbols pushed unasked so far, announced in their options \[packets\].
    pub(super) pushed: u32,
    pub(super) window: u32,
    object: ObjectInfo,
    /// The time from the first symbol to the first pull of any receiver.
    pub(super) round_trip: Option<Duration>,
    /// Packets numbered so far.
    pub(super) sent: u32,
    /// The next symbol answers a `fin` pull.
    pub(super) fin: bool,
}

impl Stream {
    pub(super) fn new(now: Time, plan: StreamPlan, members: &[HostId]) -> Self {
        let StreamPlan {
            destination,
            path,
            mode,
            epoch,
            symbols,
            initial_window,
            window,
            object,
            held,
        } = plan;
        let demand = (mode == Mode::OneToMany).then(|| Demand::new(object, &symbols, held));
        Stream {
            destination,
            path,
            mode,
            epoch,
            began: now,
            first_sent: None,
            members: members.iter().map(|&h| Member::new(now, h, initial_window)).collect(),
            symbols,
            demand,
            pushed: initial_window,
            window,
            object,
            round_trip: None,
            sent: 0,
            fin: false,
        }
    }

    pub(super) fn member(&mut self, host: HostId) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.host == host)
    }

    /// Its receiver has said by another path what a pull says beside its credits.
    pub(super) fn hear_elsewhere(&mut self, now: Time, source: HostId, pull: &Pull) {
        let blocks = self.object.source_blocks;
        let Some(member) = self.member(source).filter(|member| !member.closed) else { return };
        member.last_heard = now;
        member.heard = true;
        member.floor = member.floor.max(pull.floor.min(blocks));
        member.standing = if pull.fin { Standing::Finished } else { Standing::Live };
        self.raise_floor();
    }

    /// Takes in a pull (SCDP Algorithm 1, lines 14-26).
    pub(super) fn on_pull(
        &mut self,
        now: Time,
        source: HostId,
        pull: &Pull,
    ) -> Result<(), DropReason> {
        let (sent, source_blocks) = (self.sent, self.object.source_blocks);
        let most = sent.saturating_add(self.window);
        let in_group = self.demand.is_some();
        if pull.sbn >= source_blocks || pull.floor > source_blocks {
            return Err(DropReason::Malformed);
        }
        let Some(member) = self.member(source) else { return Err(DropReason::UnknownPeer) };
        if member.closed || member.standing == Standing::Detached {
            return Err(DropReason::Stale);
        }
        member.last_heard = now;
        member.heard = true;
        member.rhythm.on_pull(now);
        member.floor = member.floor.max(pull.floor);
        member.standing = if pull.fin { Standing::Finished } else { Standing::Live };
        let first_sent = self.first_sent.unwrap_or(self.began);
        self.round_trip = self.round_trip.or(Some(now.since(first_sent)));
        let mut asked = 0;
        if let Some(demand) = &mut self.demand {
            asked = demand.ask(pull.sbn, u32::from(pull.run), &self.symbols);
        }
        let Some(member) = self.member(source) else { return Err(DropReason::UnknownPeer) };
        member.asked_beyond += u64::from(asked);
        if pull.granted > sent.saturating_add(MAX_PENDING) {
            return Err(DropReason::OverLimit);
        }
        let granted = pull.granted.min(most);
        if in_group && granted > member.granted {
            // Also for symbols sent without its credits: they show its pace.
            member.granted = granted;
        }
        if granted <= sent || (!in_group && granted <= member.granted) {
            if in_group {
                self.raise_floor();
                self.tell(now, source);
                return Ok(()); // it reports what is wanted
            }
            return Err(DropReason::Stale); // already served
        }
        let from = member.granted.max(sent) + 1;
        if let (Some(first), false) = (pull.first, in_group) {
            // Of a pull that was cut short, the first symbols.
            let start = pull.granted.saturating_sub(u32::from(pull.run)) + 1;
            let skipped = from.saturating_sub(start);
            let (from, first) = (from.max(start), first.saturating_add(skipped));
            let request = Request { from, last: granted, sbn: pull.sbn, first: Some(first) };
            if from <= granted && !member.request_directed(request) {
                return Err(DropReason::OverLimit);
            }
        }
        member.granted = granted;
        member.goes_on(now);
        member.passed = None;
        if !in_group && pull.first.is_none() {
            member.request(from, granted, pull.sbn);
        }
        self.fin = pull.fin;
        self.raise_floor();
        Ok(())
    }

    /// Sends one symbol to a receiver that holds up the stream because it does not know how far it is: while it was
    /// passed over, symbols were sent beyond its credits, and it has lost the last of them.
    fn tell(&mut self, now: Time, source: HostId) {
        let (sent, stuck) = (self.sent, self.sendable() == 0);
        let Some(member) = self.member(source) else { return };
        let waited_for = member.standing == Standing::Live && member.passed.is_none();
        let unaware = waited_for && member.granted < sent;
        if unaware && stuck && now.has_reached(member.told_at + TELL_EVERY) {
            member.told_at = now;
            self.push_one_more();
        }
    }

    /// Forgets the blocks that every receiver still served has.
    fn raise_floor(&mut self) {
        let served = |m: &&Member| matches!(m.standing, Standing::Live | Standing::Finished);
        if let Some(floor) = self.members.iter().filter(served).map(|m| m.floor).min() {
            self.symbols.raise_floor(floor);
            if let Some(demand) = &mut self.demand {
                demand.raise_floor(&self.symbols);
            }
        }
    }

    /// Packets that may go out now: in a group as many as every live receiver has asked for
    /// (SCDP §IV-D), while there is something to send. A receiver that sent `fin` is waited for
    /// only as long as its credits last.
    pub(super) fn sendable(&self) -> u32 {
        if !self.has_more() {
            return 0;
        }
        let (mut least, mut least_passed, mut most_finished) = (None, None, None);
        for member in &self.members {
            let so_far = match (member.standing, member.passed) {
                (Standing::Live, None) => &mut least,
                (Standing::Live, Some(_)) => &mut least_passed,
                (Standing::Finished, _) => {
                    most_finished = most_finished.max(Some(member.granted));
                    continue;
                }
                (Standing::Lost | Standing::Detached, _) => continue,
            };
            *so_far = Some(so_far.unwrap_or(u32::MAX).min(member.granted));
        }
        let goes_on = |granted: &u32| *granted > self.sent;
        let granted = least.or(most_finished.filter(goes_on)).or(least_passed).or(most_finished);
        granted.unwrap_or(0).saturating_sub(self.sent)
    }

    /// Whether some block is wanted more of than was sent; one receiver's credits always are for
    /// more.
    pub(super) fn has_more(&self) -> bool {
        self.demand.as_ref().is_none_or(|demand| demand.next().is_some())
    }

    /// The block and ESI of the next packet, and whether it belongs to the initial window. `None`
    /// when nothing may be sent, or the block's ESIs are used up.
    pub(super) fn next(&mut self) -> Option<NextSymbol> {
        if self.sendable() == 0 || self.symbols.floor() >= self.object.source_blocks {
            return None;
        }
        let pushed = self.sent < self.pushed;
        let (number, sbn, esi) = match self.directed().filter(|_| !pushed) {
            Some(request) => {
                let number = request.from.max(self.sent + 1);
                let first = request.first.unwrap_or(0);
                let esi = first.checked_add(number - request.from)?;
                (number, request.sbn, Some(esi).filter(|&esi| esi <= MAX_ESI)?)
            }
            None => {
                let number = self.sent + 1;
                let sbn = match &self.demand {
                    Some(demand) => demand.next()?,
                    None if pushed => self.symbols.pushed_block(&self.object, number),
                    None => self.wanted_block(number)?,
                };
                (number, sbn.max(self.symbols.floor()), self.symbols.next_esi(sbn)?)
            }
        };
        self.sent = number;
        if let Some(demand) = &mut self.demand {
            demand.advance(&self.symbols);
        }
        for member in &mut self.members {
            member.forget_through(number);
        }
        let fin = self.fin && self.sendable() == 0;
        Some(NextSymbol { sbn, esi, number, pushed, fin })
    }

    /// What the receiver wants answered by that number.
    fn wanted_block(&self, number: u32) -> Option<u32> {
        self.members.iter().find_map(|m| m.request_beyond(number - 1)).map(|request| request.sbn)
    }

    /// What the receiver wants next, if it says which symbols.
    fn directed(&self) -> Option<Request> {
        let next = self.members.iter().find_map(|m| m.request_beyond(self.sent));
        next.filter(|request| self.demand.is_none() && request.first.is_some())
    }

    /// Pushes one more symbol: nobody has answered.
    pub(super) fn push_one_more(&mut self) {
        self.pushed = self.sent + 1;
        for member in &mut self.members {
            member.granted = member.granted.max(self.pushed);
        }
        if !self.has_more()
            && let Some(demand) = &mut self.demand
        {
            demand.ask_one_more(&self.symbols);
        }
    }
}

/// A symbol about to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NextSymbol {
    pub(super) sbn: u32,
    pub(super) esi: u32,
    pub(super) number: u32,
    pub(super) pushed: bool,
    pub(super) fin: bool,
}
