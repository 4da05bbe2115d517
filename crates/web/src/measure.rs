//! A run measured to its end, a part at a time so that the page stays awake.

use wellspring_core::{Duration, Time};
use wellspring_experiments::live::Live;
use wellspring_experiments::run::Ending;

/// The most intervals of a timeline.
const MAX_INTERVALS: usize = 8_192;
/// The first interval's length; doubled whenever there are too many.
const FIRST_INTERVAL: Duration = Duration::from_micros(10);
/// Events after which a run is broken off.
pub(crate) const MAX_EVENTS: u64 = 30_000_000;

/// What happened in one interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Interval {
    /// Payload that hosts received \[bytes\].
    pub received: u64,
    /// The longest queue of data packets at its end.
    pub queue: u32,
}

/// How a measured run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// As runs end.
    Run(Ending),
    /// It took more than [`MAX_EVENTS`].
    TooLong,
}

/// The run and its timeline.
pub(crate) struct Measure {
    pub run: Box<dyn Live>,
    pub interval: Duration,
    pub timeline: Vec<Interval>,
    pub end: Option<End>,
    received: u64,
}

impl Measure {
    /// Of a run that has not begun.
    pub fn new(run: Box<dyn Live>) -> Self {
        Measure { run, interval: FIRST_INTERVAL, timeline: Vec::new(), end: None, received: 0 }
    }

    /// Goes on for about so many events; true once the run has ended.
    pub fn advance(&mut self, max_events: u64) -> bool {
        let last_event = self.run.counters().events.saturating_add(max_events);
        while self.end.is_none() {
            let events = self.run.counters().events;
            if events >= MAX_EVENTS {
                self.end = Some(End::TooLong);
                self.note();
            } else if events >= last_event {
                return false;
            } else {
                let next = Time::ZERO + self.interval * (self.timeline.len() as u64 + 1);
                let ending = self.run.run_to(next, last_event - events);
                self.end = ending.map(End::Run);
                if ending.is_some() || self.run.now().has_reached(next) {
                    self.note();
                }
            }
        }
        true
    }

    /// Closes an interval.
    fn note(&mut self) {
        let received: u64 = self.run.traffic().received.iter().sum();
        let queue = self.run.longest_queue();
        self.timeline.push(Interval { received: received - self.received, queue });
        self.received = received;
        if self.timeline.len() == MAX_INTERVALS {
            let both = |pair: &[Interval]| Interval {
                received: pair.iter().map(|interval| interval.received).sum(),
                queue: pair.iter().map(|interval| interval.queue).max().unwrap_or(0),
            };
            self.timeline = self.timeline.chunks(2).map(both).collect();
            self.interval = self.interval * 2;
        }
    }
}
