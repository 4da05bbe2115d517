//! A wrapper that panics when an endpoint or its caller breaks the contract of
//! [`Endpoint`](wellspring_core::Endpoint).

use wellspring_core::{Endpoint, Frame, Header, Time, Verdict, Work, WorkDone};

/// Wraps an endpoint and checks every call.
#[derive(Debug)]
pub struct Checked<E> {
    inner: E,
    last: Option<Time>,
    /// The last poll of each kind found nothing, and no input came since.
    dry_work: bool,
    dry_events: bool,
    dry_frames: Option<Time>,
}

impl<E: Endpoint> Checked<E> {
    /// Checks `inner` from now on.
    pub fn new(inner: E) -> Self {
        Checked { inner, last: None, dry_work: false, dry_events: false, dry_frames: None }
    }

    /// The endpoint.
    pub fn inner(&self) -> &E {
        &self.inner
    }

    fn at(&mut self, now: Time) {
        if let Some(last) = self.last {
            assert!(now.has_reached(last), "time went back from {last:?} to {now:?}");
        }
        self.last = Some(now);
    }

    fn input(&mut self, now: Time) {
        self.at(now);
        (self.dry_work, self.dry_events, self.dry_frames) = (false, false, None);
    }
}

impl<E: Endpoint> Endpoint for Checked<E> {
    type Header = E::Header;
    type Command = E::Command;
    type Event = E::Event;
    type CommandError = E::CommandError;

    fn handle_command(&mut self, now: Time, command: E::Command) -> Result<(), E::CommandError> {
        self.input(now);
        self.inner.handle_command(now, command)
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame<E::Header>) -> Verdict {
        self.input(now);
        let verdict = self.inner.handle_frame(now, frame);
        assert!(
            !(frame.trimmed && matches!(verdict, Verdict::Keep(_))),
            "kept the payload of a trimmed frame: {frame:?}"
        );
        verdict
    }

    fn handle_timeout(&mut self, now: Time) {
        let early = self.inner.poll_timeout().is_none_or(|deadline| deadline.is_after(now));
        let was_dry = self.dry_work && self.dry_events && self.dry_frames.is_some();
        self.at(now);
        self.inner.handle_timeout(now);
        if early && was_dry {
            assert!(self.inner.poll_work().is_none(), "an early timeout made work");
            assert!(self.inner.poll_event().is_none(), "an early timeout made an event");
        } else {
            self.input(now);
        }
    }

    fn handle_work_done(&mut self, now: Time, done: WorkDone) {
        self.input(now);
        self.inner.handle_work_done(now, done);
    }

    fn poll_work(&mut self) -> Option<Work> {
        let work = self.inner.poll_work();
        assert!(!(self.dry_work && work.is_some()), "work after the drain: {work:?}");
        self.dry_work = work.is_none();
        work
    }

    fn poll_event(&mut self) -> Option<E::Event> {
        let event = self.inner.poll_event();
        assert!(!(self.dry_events && event.is_some()), "an event after the drain");
        self.dry_events = event.is_none();
        event
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Frame<E::Header>> {
        self.at(now);
        let frame = self.inner.poll_transmit(now);
        match &frame {
            Some(frame) => {
                assert!(self.dry_frames != Some(now), "a frame after the drain: {frame:?}");
                assert!(!frame.trimmed, "an endpoint sends no trimmed frames");
                assert!(frame.header.wire_len() > 0, "a header has bytes");
            }
            None => self.dry_frames = Some(now),
        }
        frame
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.inner.poll_timeout()
    }
}
