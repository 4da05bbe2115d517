//! Stragglers of a group: receivers that the others would wait for (SCDP §IV-D leaves them to policy).
//!
//! Credits do not show a receiver's pace: one that is a little slower than the others holds them up as
//! constantly as one on a hundredth of their link does. So the stream goes on for a moment without the credits
//! of a receiver that alone holds it up, and what it takes meanwhile is compared with what the others take.
//!
//! That costs symbols if the receiver is not slow: a host that had no processor for a while has a socket that holds
//! a window and little more, and one whose disk is late has no room for further blocks. The first is not steady,
//! the second has many blocks open: for both of them the stream waits.

use alloc::vec::Vec;
use wellspring_core::{Duration, HostId, Time};
use wellspring_wire::scdp::Mode;

use super::member::{Member, Passed, Rhythm, Standing};
use super::stream::Stream;
use crate::scdp::{ObjectInfo, StragglerCause, StragglerPolicy};

/// Symbols that the others take beyond their multiple before a receiver counts as slower: windows that had
/// been full are no pace.
const MIN_TAKEN: u32 = 64;

/// How much slower than a straggler a receiver must be to be one when it is judged for the first time: on a busy
/// machine chance makes one host several times as fast as another for a moment.
const BEYOND_DOUBT: u64 = 2;

/// Windows of symbols that were sent of a receiver's incomplete blocks: with more, it is its disk, or the verifying of
/// its blocks, that is late.
const MOST_OPEN: u64 = 2;

/// Symbols sent for one receiver's sake that nobody minds, beside the part that the policy allows.
const MIN_ASKED: u64 = 256;

/// Round trips over which a receiver is judged, at least.
const ROUND_TRIPS: u64 = 4;

/// Round trips for which a receiver that has not said anything is waited for, at least.
const UNHEARD_ROUND_TRIPS: u64 = 3;

/// While nobody has said anything, the round trip is not known, and may be long: a first answer may take that part of
/// what the policy says.
const NOBODY_HEARD: (u64, u64) = (3, 2);

/// Doublings of the time between two judgements of one receiver, at most.
const MAX_JUDGED: u32 = 8;

/// A receiver that is left behind, or would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Straggler {
    pub(super) host: HostId,
    /// Lowest block it still needs.
    pub(super) floor: u32,
    /// How far that lies behind the fastest receiver's \[symbols\].
    pub(super) behind: u64,
    pub(super) cause: StragglerCause,
    pub(super) detach: bool,
}

/// When hold-ups were last compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stragglers {
    looked_at: Time,
}

impl Stragglers {
    pub(super) fn new(now: Time) -> Self {
        Stragglers { looked_at: now }
    }

    /// Finds receivers that are to be left behind, or reported, and passes over those whose pace is in
    /// doubt.
    pub(super) fn find(
        &mut self,
        now: Time,
        stream: &mut Stream,
        object: &ObjectInfo,
        policy: &StragglerPolicy,
    ) -> Vec<Straggler> {
        if stream.mode != Mode::OneToMany {
            return Vec::new();
        }
        stream.note_hold_up(now);
        if policy.detach {
            self.pass_over(now, stream, object, policy);
        }
        let front = stream.members.iter().map(|m| m.floor).max().unwrap_or(0);
        let group = Group {
            now,
            front: object.first_symbol_of_block(front.min(object.source_blocks)),
            floor: stream.symbols.floor(),
            elapsed: now.since(stream.began),
            since_first: stream.first_sent.map(|at| now.since(at)),
            others: stream.least_granted(),
            begun: object.first_symbol_of_block(stream.symbols.horizon().min(object.source_blocks)),
            asked: stream.members.iter().map(|m| m.asked_beyond).sum(),
            members: stream.members.len() as u64,
        };
        let mut found = Vec::new();
        for member in &mut stream.members {
            if !matches!(member.standing, Standing::Live | Standing::Finished) || member.closed {
                continue;
            }
            let behind = group.front.saturating_sub(object.first_symbol_of_block(member.floor));
            // A receiver given up before has come back to find its blocks no longer served.
            let left_behind = member.floor < group.floor;
            let slow = group.costs_too_much(member, behind, policy);
            let slow = slow.filter(|_| policy.detach || !member.reported);
            let cause = if left_behind { Some(StragglerCause::Returned) } else { slow };
            if let Some(cause) = cause {
                member.reported = true;
                let detach = policy.detach || left_behind;
                if detach {
                    member.standing = Standing::Detached;
                }
                let (host, floor) = (member.host, member.floor);
                found.push(Straggler { host, floor, behind, cause, detach });
            }
        }
        found
    }

    /// Lets the stream go on without receivers that have fallen silent, or that alone have held it up in most
    /// of a while though they pull; and with those again that turn out to be fast enough.
    fn pass_over(
        &mut self,
        now: Time,
        stream: &mut Stream,
        object: &ObjectInfo,
        policy: &StragglerPolicy,
    ) {
        let others = stream.least_granted();
        for member in stream.members.iter_mut() {
            let Some(passed) = &mut member.passed else { continue };
            let taken = member.granted.saturating_sub(passed.granted);
            if passed.silent && taken > 0 {
                // It is back, but has not caught up: from now on its pace counts.
                let (granted, asked) = (member.granted, member.asked_beyond);
                *passed = Passed { since: now, granted, asked, others, silent: false };
                member.rhythm = Rhythm::new(now);
            } else if !passed.silent && now.has_reached(passed.since + policy.judge_over * 2) {
                member.passed = None;
                member.goes_on(now);
                member.judged = (member.judged + 1).min(MAX_JUDGED);
                member.not_before = now + policy.judge_over * (1 << member.judged);
            }
        }
        let span = now.since(self.looked_at);
        let due = span >= policy.judge_over;
        let window = u64::from(stream.window) + u64::from(object.symbols_in_block(0));
        let begun =
            object.first_symbol_of_block(stream.symbols.horizon().min(object.source_blocks));
        let mut pass = Vec::new();
        for (index, member) in stream.members.iter_mut().enumerate() {
            if member.standing != Standing::Live || member.passed.is_some() {
                continue;
            }
            let silent =
                member.silent_since().is_some_and(|at| now.has_reached(at + policy.patience));
            let open = begun.saturating_sub(object.first_symbol_of_block(member.floor));
            let held = member.held_up(now).saturating_sub(member.held_up_at_look);
            let slow = due
                && member.rhythm.is_steady(now)
                && open <= window * MOST_OPEN
                && held * 8 >= span * 7
                && now.has_reached(member.not_before);
            if silent || slow {
                pass.push((index, silent));
            }
            if due {
                member.held_up_at_look = member.held_up(now);
                member.rhythm = Rhythm::new(now);
            }
        }
        if due {
            self.looked_at = now;
        }
        for (index, silent) in pass {
            stream.pass(now, index, silent);
        }
    }

    /// When [`Stragglers::find`] is due, for the sake of time passed.
    pub(super) fn deadline(&self, stream: &Stream, policy: &StragglerPolicy) -> Option<Time> {
        if stream.mode != Mode::OneToMany {
            return None;
        }
        let live = stream.members.iter().filter(|m| m.standing == Standing::Live);
        let of_member = |m: &Member| {
            let since = m.waited_for_since(policy).filter(|_| !m.reported);
            let given_up = since.map(|since| since + policy.silent_for);
            if !policy.detach {
                return [given_up, None, None];
            }
            let passed = match m.passed {
                None => {
                    m.silent_since().filter(|_| stream.can_pass(m)).map(|at| at + policy.patience)
                }
                Some(passed) if passed.silent => None,
                Some(passed) => Some(passed.since + policy.judge_over * 2),
            };
            let first_sent = stream.first_sent.filter(|_| !m.heard);
            let unheard = first_sent.map(|at| at + policy.unheard_for);
            [given_up, passed, unheard]
        };
        Time::earliest(live.flat_map(of_member).flatten())
    }
}

/// A group, to compare one of its receivers with.
struct Group {
    now: Time,
    /// First symbol of the fastest receiver's lowest incomplete block.
    front: u64,
    /// Lowest block served.
    floor: u32,
    elapsed: Duration,
    /// How long ago the first symbol went out.
    since_first: Option<Duration>,
    /// What all that are not passed over have granted.
    others: u32,
    /// Source symbols of the blocks that were begun.
    begun: u64,
    /// Symbols asked for beyond the blocks' K, by all.
    asked: u64,
    members: u64,
}

impl Group {
    /// In what way a receiver costs the group more than the policy allows, if it does.
    fn costs_too_much(
        &self,
        member: &Member,
        behind: u64,
        policy: &StragglerPolicy,
    ) -> Option<StragglerCause> {
        let (now, elapsed) = (self.now, self.elapsed);
        let waited = member.waited_for_since(policy).map(|since| now.since(since));
        if let Some(waited) = waited.filter(|&waited| waited >= policy.silent_for) {
            return Some(StragglerCause::HeldUp { waited });
        }
        // Behind alone costs nobody anything: its disk may be late, its credits not.
        let held_up = member.held_up(now);
        // Without it the others would be so many times as fast.
        let multiple = u64::from(policy.relative_rate.max(2));
        let costly = held_up * multiple >= elapsed * (multiple - 1);
        // On a fast link many symbols are a moment in which a host had no processor.
        let lasting = u128::from(behind) * u128::from(elapsed.as_micros())
            >= u128::from(self.front) * u128::from(policy.silent_for.as_micros());
        if costly && lasting && behind >= policy.symbols_behind {
            return Some(StragglerCause::Behind { held_up, elapsed });
        }
        if !policy.detach {
            return None;
        }
        let unheard = self.since_first.filter(|&waited| waited >= policy.unheard_for);
        if let (false, Some(waited)) = (member.heard, unheard) {
            return Some(StragglerCause::Unheard { waited });
        }
        self.is_slower(member, policy).or_else(|| self.is_greedy(member, policy))
    }

    /// Whether the others take a multiple of what a receiver takes that they do not wait for.
    fn is_slower(&self, member: &Member, policy: &StragglerPolicy) -> Option<StragglerCause> {
        let passed = member.passed.filter(|passed| !passed.silent)?;
        // Its credits follow the stream's numbers; what it asks for again it has lost.
        let lost = u32::try_from(member.asked_beyond - passed.asked).unwrap_or(u32::MAX);
        let own = member.granted.saturating_sub(passed.granted).saturating_sub(lost);
        let others = self.others.saturating_sub(passed.others);
        let span = self.now.since(passed.since);
        let doubt = if member.judged == 0 { BEYOND_DOUBT } else { 1 };
        let rate = u64::from(policy.relative_rate) * doubt;
        let multiple = u64::from(own) * rate + u64::from(MIN_TAKEN);
        let slower = policy.relative_rate > 0
            && span >= policy.judge_over
            && member.rhythm.is_steady(self.now)
            && u64::from(others) >= multiple;
        slower.then_some(StragglerCause::Slower { own, others, span })
    }

    /// Whether a receiver alone asks for more than the part of all symbols that one may ask for.
    fn is_greedy(&self, member: &Member, policy: &StragglerPolicy) -> Option<StragglerCause> {
        let (asked, begun) = (member.asked_beyond, self.begun);
        let usual = self.asked.saturating_sub(asked) / self.members.saturating_sub(1).max(1);
        let most = begun * u64::from(policy.may_ask) / 100 + MIN_ASKED;
        (asked > most && asked > usual * 4).then_some(StragglerCause::Greedy { asked, begun })
    }
}

impl Member {
    /// Since when the others have waited for it alone; where it can be detached, for it to say anything.
    fn waited_for_since(&self, policy: &StragglerPolicy) -> Option<Time> {
        if policy.detach { self.silent_since() } else { self.holds_up_since }
    }
}

impl Stream {
    /// The policy, with spans no shorter than a few round trips: a pull that is lost costs one.
    pub(super) fn fit_to_path(&self, policy: StragglerPolicy) -> StragglerPolicy {
        let least = self.round_trip.unwrap_or(Duration::ZERO) * ROUND_TRIPS;
        let unheard_for = match self.round_trip {
            Some(round_trip) => policy.unheard_for.max(round_trip * UNHEARD_ROUND_TRIPS),
            None => policy.unheard_for * NOBODY_HEARD.0 / NOBODY_HEARD.1,
        };
        StragglerPolicy {
            unheard_for,
            judge_over: policy.judge_over.max(least),
            patience: policy.patience.max(least),
            silent_for: policy.silent_for.max(least * 2),
            ..policy
        }
    }

    /// What all receivers have granted that the stream waits for; if none, what those have that wait for the last
    /// symbols.
    fn least_granted(&self) -> u32 {
        let waited_for =
            self.members.iter().filter(|m| m.standing == Standing::Live && m.passed.is_none());
        let finished = self.members.iter().filter(|m| m.standing == Standing::Finished);
        let least = waited_for.map(|m| m.granted).min();
        least.or(finished.map(|m| m.granted).max()).unwrap_or(0)
    }

    /// Whether another receiver is left to go on with.
    fn can_pass(&self, member: &Member) -> bool {
        self.members.iter().any(|m| {
            let goes_on = m.standing == Standing::Live && m.passed.is_none();
            m.host != member.host && (goes_on || m.waits_for_the_last(self.sent))
        })
    }

    /// Goes on without the credits of a receiver. Others that are passed over are judged anew: so far, it has
    /// slowed down those that they are compared with.
    fn pass(&mut self, now: Time, index: usize, silent: bool) {
        if !self.can_pass(&self.members[index]) {
            return;
        }
        let (granted, asked) = (self.members[index].granted, self.members[index].asked_beyond);
        self.members[index].passed = Some(Passed { since: now, granted, asked, others: 0, silent });
        self.members[index].rhythm = Rhythm::new(now);
        let others = self.least_granted();
        for member in &mut self.members {
            if let Some(passed) = &mut member.passed
                && (!passed.silent || passed.since == now)
            {
                let (granted, asked, silent) = (member.granted, member.asked_beyond, passed.silent);
                *passed = Passed { since: now, granted, asked, others, silent };
                member.rhythm = Rhythm::new(now);
            }
        }
    }

    /// Notes who holds up the others, since when.
    pub(super) fn note_hold_up(&mut self, now: Time) {
        let sent = self.sent;
        let others_wait = self.has_more()
            && self.members.iter().any(|m| {
                let waits = m.standing == Standing::Live && m.passed.is_none() && m.granted > sent;
                waits || m.waits_for_the_last(sent)
            });
        for member in &mut self.members {
            let behind = member.standing == Standing::Live && member.granted <= sent;
            // Who is passed over would hold up the others still.
            if behind && (others_wait || member.passed.is_some()) {
                member.holds_up_since = member.holds_up_since.or(Some(now));
            } else {
                member.goes_on(now);
            }
        }
    }
}
