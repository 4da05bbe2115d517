//! The sessions of a socket: by cookie, by deadline, and in line for the socket.

use std::collections::{BTreeMap, VecDeque};

use wellspring_core::{Time, TimerQueue};
use wellspring_wire::lttp::{Cookie, parse};

use super::counters::Counters;
use super::outbox::Route;
use super::session::{Job, Session};

/// Sessions by number; numbers are used again.
#[derive(Default)]
pub(super) struct Table {
    sessions: Vec<Option<Session>>,
    free: Vec<u32>,
    by_cookie: BTreeMap<Cookie, u32>,
    timers: TimerQueue,
    /// Who may have something to send, in turns.
    line: VecDeque<u32>,
    /// What threads that may wait are to do.
    pub jobs: Vec<Job>,
}

impl Table {
    /// Takes in a session; one with the cookie of another is let go, and so ends.
    pub(super) fn insert(&mut self, now: Time, session: Session) {
        if self.by_cookie.contains_key(&session.cookie) {
            return;
        }
        let cookie = session.cookie;
        let number = self.free.pop().unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() as u32 - 1
        });
        self.sessions[number as usize] = Some(session);
        self.by_cookie.insert(cookie, number);
        self.settle(now, number);
    }

    /// Lets `change` work on the session of that cookie, then settles it; false if there is none.
    pub(super) fn with(
        &mut self,
        now: Time,
        cookie: Cookie,
        change: impl FnOnce(&mut Session, &mut Vec<Job>),
    ) -> bool {
        let Some(&number) = self.by_cookie.get(&cookie) else { return false };
        if let Some(session) = &mut self.sessions[number as usize] {
            change(session, &mut self.jobs);
        }
        self.settle(now, number);
        true
    }

    /// Takes in a datagram, whosever it is.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        from: Route,
        bytes: &[u8],
        counters: &Counters,
    ) {
        counters.received.add(1);
        let Ok((cookie, datagram)) = parse(bytes) else { return counters.malformed.add(1) };
        let known = self.with(now, cookie, |session, _| {
            session.on_datagram(now, from, &datagram, counters);
        });
        if !known {
            counters.unknown_cookie.add(1);
        }
    }

    /// Passes on deadlines that have come.
    pub(super) fn on_time(&mut self, now: Time) {
        while let Some(number) = self.timers.pop_due(now) {
            if let Some(session) = &mut self.sessions[number as usize] {
                session.on_timeout(now);
            }
            self.settle(now, number);
        }
    }

    fn settle(&mut self, now: Time, number: u32) {
        let Some(session) = &mut self.sessions[number as usize] else { return };
        session.settle(now, &mut self.jobs);
        if !session.in_line {
            session.in_line = true;
            self.line.push_back(number);
        }
    }

    /// How many stand in line.
    pub(super) fn in_line(&self) -> usize {
        self.line.len()
    }

    /// The next in line, with its number: it is out of the line until
    /// [`put_back`](Self::put_back), or [`rest`](Self::rest) lets it wait for its deadline.
    pub(super) fn next_in_line(&mut self) -> Option<(u32, &mut Session)> {
        while let Some(number) = self.line.pop_front() {
            // Checked before it is lent: a loan within a loop is not taken back.
            if self.sessions[number as usize].is_some() {
                return self.sessions[number as usize].as_mut().map(|session| (number, session));
            }
        }
        None
    }

    /// Stands at the end of the line again: it has more.
    pub(super) fn put_back(&mut self, number: u32) {
        self.line.push_back(number);
    }

    /// Has nothing more to send: waits, or is removed if it is over.
    pub(super) fn rest(&mut self, number: u32) {
        let Some(session) = &mut self.sessions[number as usize] else { return };
        session.in_line = false;
        if session.is_over() {
            self.by_cookie.remove(&session.cookie);
            self.timers.set(number, None);
            self.sessions[number as usize] = None;
            self.free.push(number);
        } else {
            self.timers.set(number, session.deadline());
        }
    }

    /// The first deadline.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.next_deadline()
    }
}
