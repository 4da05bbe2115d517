//! One numbered stream of symbols: to one host, or to a multicast group.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use wellspring_core::{Destination, DropReason, Duration, HostId, Time};
use wellspring_wire::scdp::{Mode, Pull};

use super::demand::Demand;
use super::symbols::SymbolStream;
use crate::scdp::ObjectInfo;

/// Credits beyond these are not believed at all \[packets\].
const MAX_PENDING: u32 = 65_536;
/// Ranges of credits kept apart by block for one receiver.
const MAX_RANGES: usize = 256;

/// Where a receiver of the stream stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Served.
    Live,
    /// Asked for its last symbols (`fin`), or closed as complete.
    Finished,
    /// Gone.
    Lost,
    /// Served by a unicast stream of its own.
    Detached,
}

/// A receiver of the stream.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) host: HostId,
    pub(super) standing: Standing,
    pub(super) last_heard: Time,
    /// Whether any pull has come.
    pub(super) heard: bool,
    /// Highest packet number granted.
    pub(super) granted: u32,
    /// Lowest block it still needs.
    pub(super) floor: u32,
    /// Since when it alone has held up the stream.
    pub(super) holds_up_since: Option<Time>,
    /// How long it has held up the stream before that, in all.
    held_up_before: Duration,
    /// Already reported as a straggler.
    pub(super) reported: bool,
    /// Closed the session as complete.
    pub(super) closed: bool,
    /// `(last number, block)` of the credits not yet answered, ascending.
    requests: VecDeque<(u32, u32)>,
}

impl Member {
    fn new(now: Time, host: HostId, pushed: u32) -> Self {
        Member {
            host,
            standing: Standing::Live,
            last_heard: now,
            heard: false,
            granted: pushed,
            floor: 0,
            holds_up_since: None,
            held_up_before: Duration::ZERO,
            reported: false,
            closed: false,
            requests: VecDeque::new(),
        }
    }

    /// How long it alone has held up the stream, in all.
    pub(super) fn held_up(&self, now: Time) -> Duration {
        let this_time = self.holds_up_since.map_or(Duration::ZERO, |since| now.since(since));
        self.held_up_before + this_time
    }

    /// It holds up the stream no longer.
    fn goes_on(&mut self, now: Time) {
        self.held_up_before = self.held_up(now);
        self.holds_up_since = None;
    }

    /// The block credit `number` is for.
    fn block_for(&self, number: u32) -> Option<u32> {
        self.requests.iter().find(|&&(last, _)| last >= number).map(|&(_, sbn)| sbn)
    }

    fn forget_through(&mut self, number: u32) {
        while self.requests.front().is_some_and(|&(last, _)| last <= number) {
            self.requests.pop_front();
        }
    }

    fn request(&mut self, last: u32, sbn: u32) {
        let full = self.requests.len() >= MAX_RANGES;
        match self.requests.back_mut() {
            Some(back) if back.1 == sbn || full => back.0 = last,
            _ => self.requests.push_back((last, sbn)),
        }
    }
}

/// What a stream is to be.
pub(super) struct StreamPlan {
    pub(super) destination: Destination,
    pub(super) mode: Mode,
    pub(super) epoch: u8,
    pub(super) symbols: SymbolStream,
    /// Symbols pushed unasked \[packets\].
    pub(super) initial_window: u32,
    /// Credits a receiver may have outstanding \[packets\]; what a pull asks for beyond is ignored.
    pub(super) window: u32,
    pub(super) object: ObjectInfo,
}

/// A stream of symbols.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) destination: Destination,
    pub(super) mode: Mode,
    pub(super) epoch: u8,
    pub(super) began: Time,
    pub(super) members: Vec<Member>,
    pub(super) symbols: SymbolStream,
    /// In a group: what it wants. One receiver's credits say that themselves.
    demand: Option<Demand>,
    /// Symbols pushed unasked so far, announced in their options \[packets\].
    pub(super) pushed: u32,
    window: u32,
    object: ObjectInfo,
    /// Packets numbered so far.
    pub(super) sent: u32,
    /// The next symbol answers a `fin` pull.
    pub(super) fin: bool,
}

impl Stream {
    pub(super) fn new(now: Time, plan: StreamPlan, members: &[HostId]) -> Self {
        let StreamPlan { destination, mode, epoch, symbols, initial_window, window, object } = plan;
        let demand = (mode == Mode::OneToMany).then(|| Demand::new(object, &symbols));
        Stream {
            destination,
            mode,
            epoch,
            began: now,
            members: members.iter().map(|&h| Member::new(now, h, initial_window)).collect(),
            symbols,
            demand,
            pushed: initial_window,
            window,
            object,
            sent: 0,
            fin: false,
        }
    }

    pub(super) fn member(&mut self, host: HostId) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.host == host)
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
        member.floor = member.floor.max(pull.floor);
        member.standing = if pull.fin { Standing::Finished } else { Standing::Live };
        if let Some(demand) = &mut self.demand {
            demand.ask(pull.sbn, u32::from(pull.run), &self.symbols);
        }
        let Some(member) = self.member(source) else { return Err(DropReason::UnknownPeer) };
        if pull.granted > sent.saturating_add(MAX_PENDING) {
            return Err(DropReason::OverLimit);
        }
        let granted = pull.granted.min(most);
        if granted <= member.granted.max(sent) {
            if in_group {
                self.raise_floor();
                return Ok(()); // it tells what is wanted
            }
            return Err(DropReason::Stale); // already served
        }
        member.granted = granted;
        member.goes_on(now);
        if !in_group {
            member.request(granted, pull.sbn);
        }
        self.fin = pull.fin;
        self.raise_floor();
        Ok(())
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
        let mut least = None;
        let mut most_finished = 0;
        for member in &self.members {
            match member.standing {
                Standing::Live => {
                    least = Some(least.unwrap_or(u32::MAX).min(member.granted));
                }
                Standing::Finished => most_finished = most_finished.max(member.granted),
                Standing::Lost | Standing::Detached => {}
            }
        }
        least.unwrap_or(most_finished).saturating_sub(self.sent)
    }

    /// Whether some block is wanted more of than was sent; one receiver's credits always are for
    /// more.
    fn has_more(&self) -> bool {
        self.demand.as_ref().is_none_or(|demand| demand.next().is_some())
    }

    /// The block and ESI of the next packet, and whether it belongs to the initial window. `None`
    /// when nothing may be sent, or the block's ESIs are used up.
    pub(super) fn next(&mut self) -> Option<NextSymbol> {
        if self.sendable() == 0 || self.symbols.floor() >= self.object.source_blocks {
            return None;
        }
        let number = self.sent + 1;
        let pushed = number <= self.pushed;
        let sbn = match &self.demand {
            Some(demand) => demand.next()?,
            None if pushed => self.symbols.pushed_block(&self.object, number),
            None => self.wanted_block(number)?,
        };
        let esi = self.symbols.next_esi(sbn)?;
        self.sent = number;
        if let Some(demand) = &mut self.demand {
            demand.advance(&self.symbols);
        }
        for member in &mut self.members {
            member.forget_through(number);
        }
        let sbn = sbn.max(self.symbols.floor());
        let fin = self.fin && self.sendable() == 0;
        Some(NextSymbol { sbn, esi, number, pushed, fin })
    }

    /// What the receiver wants answered by that number.
    fn wanted_block(&self, number: u32) -> Option<u32> {
        self.members.iter().find_map(|m| m.block_for(number))
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

    /// Notes who holds up the others, since when.
    pub(super) fn note_hold_up(&mut self, now: Time) {
        let sent = self.sent;
        let others_wait = self.has_more()
            && self.members.iter().any(|m| m.standing == Standing::Live && m.granted > sent);
        for member in &mut self.members {
            let holds_up =
                others_wait && member.standing == Standing::Live && member.granted <= sent;
            if holds_up {
                member.holds_up_since = member.holds_up_since.or(Some(now));
            } else {
                member.goes_on(now);
            }
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
