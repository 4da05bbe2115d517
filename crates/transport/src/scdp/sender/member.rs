//! A receiver of a stream, as its sender sees it.

use alloc::collections::VecDeque;
use wellspring_core::{Duration, HostId, Time};

/// Ranges of credits kept apart by block for one receiver; of several senders, whose pulls may carry one credit
/// each, a window of them.
const MAX_RANGES: usize = 256;
const MAX_DIRECTED: usize = 4_096;

/// A range of credits, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) from: u32,
    pub(super) last: u32,
    pub(super) sbn: u32,
    /// The ESI that the credit numbered `from` is for; the others follow. `None`: the sender chooses.
    pub(super) first: Option<u32>,
}

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

/// A receiver without which its group's stream goes on for now: what it takes in that time is compared with
/// what the others take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Passed {
    /// Since when.
    pub(super) since: Time,
    /// What it had granted then.
    pub(super) granted: u32,
    /// What it had asked for beyond the blocks' K then.
    pub(super) asked: u64,
    /// What all others had granted then.
    pub(super) others: u32,
    /// It had fallen silent; otherwise it was slow.
    pub(super) silent: bool,
}

/// Pulls of a receiver over a span, to distinguish a slow link from a host that has no processor at times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rhythm {
    pub(super) began: Time,
    last: Time,
    longest_gap: Duration,
    pulls: u32,
}

/// Pulls that show a rhythm.
const MIN_PULLS: u32 = 4;

/// The longest gap of a steady rhythm: no more than one part in so many of the span, for a host that runs gives
/// signs of life; and so many mean gaps, or one of many parts of the span.
const FEW_PARTS: u64 = 3;
const MEAN_GAPS: u64 = 8;
const PARTS: u64 = 16;

impl Rhythm {
    pub(super) fn new(now: Time) -> Self {
        Rhythm { began: now, last: now, longest_gap: Duration::ZERO, pulls: 0 }
    }

    pub(super) fn on_pull(&mut self, now: Time) {
        self.longest_gap = self.longest_gap.max(now.since(self.last));
        self.last = now;
        self.pulls = self.pulls.saturating_add(1);
    }

    /// Whether pulls have come all the time, as over a slow link. A host that was not run for a while makes good
    /// for it in a burst.
    pub(super) fn is_steady(&self, now: Time) -> bool {
        let gap = self.longest_gap.max(now.since(self.last)).as_micros();
        let span = now.since(self.began).as_micros();
        self.pulls >= MIN_PULLS
            && gap * FEW_PARTS <= span
            && (gap * u64::from(self.pulls) <= span * MEAN_GAPS || gap * PARTS <= span)
    }
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
    /// How long that was when the hold-ups of all were last compared.
    pub(super) held_up_at_look: Duration,
    /// Its pulls since then, or since the stream goes on without them.
    pub(super) rhythm: Rhythm,
    /// The stream goes on without its credits.
    pub(super) passed: Option<Passed>,
    /// When it was last sent a symbol so that it hears how far the stream is.
    pub(super) told_at: Time,
    /// How often its pace was judged and found good enough, and when it may be judged again.
    pub(super) judged: u32,
    pub(super) not_before: Time,
    /// Symbols that were sent because it asked for them beyond a block's K.
    pub(super) asked_beyond: u64,
    /// Already reported as a straggler.
    pub(super) reported: bool,
    /// Closed the session as complete.
    pub(super) closed: bool,
    /// The credits not yet answered, ascending.
    requests: VecDeque<Request>,
}

impl Member {
    /// Whether it has asked for the last symbols, and more of them may be sent.
    pub(super) fn waits_for_the_last(&self, sent: u32) -> bool {
        self.standing == Standing::Finished && !self.closed && self.granted > sent
    }

    pub(super) fn new(now: Time, host: HostId, pushed: u32) -> Self {
        Member {
            host,
            standing: Standing::Live,
            last_heard: now,
            heard: false,
            granted: pushed,
            floor: 0,
            holds_up_since: None,
            held_up_before: Duration::ZERO,
            held_up_at_look: Duration::ZERO,
            rhythm: Rhythm::new(now),
            passed: None,
            told_at: now,
            judged: 0,
            not_before: now,
            asked_beyond: 0,
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

    /// Since when the others have waited for it to say anything at all.
    pub(super) fn silent_since(&self) -> Option<Time> {
        self.holds_up_since.map(|since| since.later_of(self.last_heard))
    }

    /// It holds up the stream no longer.
    pub(super) fn goes_on(&mut self, now: Time) {
        self.held_up_before = self.held_up(now);
        self.holds_up_since = None;
    }

    /// What the next credit beyond `number` is for, that is for anything.
    pub(super) fn request_beyond(&self, number: u32) -> Option<Request> {
        self.requests.iter().find(|request| request.last > number).copied()
    }

    pub(super) fn forget_through(&mut self, number: u32) {
        while self.requests.front().is_some_and(|request| request.last <= number) {
            self.requests.pop_front();
        }
    }

    /// Credits up to `last`, from the one after those known, are for a block.
    pub(super) fn request(&mut self, from: u32, last: u32, sbn: u32) {
        let full = self.requests.len() >= MAX_RANGES;
        match self.requests.back_mut() {
            Some(back) if back.first.is_none() && (back.sbn == sbn || full) => back.last = last,
            _ => self.requests.push_back(Request { from, last, sbn, first: None }),
        }
    }

    /// The newest credits are for symbols that follow each other. Those between them and the credits known are
    /// for nothing: the pull that said for what was lost. False if there are too many ranges.
    pub(super) fn request_directed(&mut self, request: Request) -> bool {
        if self.requests.len() >= MAX_DIRECTED {
            return false;
        }
        self.requests.push_back(request);
        true
    }
}
