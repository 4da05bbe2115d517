//! Congestion control of simulated TCP senders: Reno here, CUBIC and BBR of `wellspring-transport`.

use wellspring_core::Time;
use wellspring_transport::congestion::{Bbr, CongestionController, Cubic, Delivery};

/// The controllers that the tables compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// RFC 5681's congestion avoidance.
    Reno,
    /// RFC 9438, with HyStart++ (RFC 9406).
    Cubic,
    /// BBR, version 1.
    Bbr,
}

impl Algorithm {
    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Reno => "Reno",
            Algorithm::Cubic => "CUBIC",
            Algorithm::Bbr => "BBR",
        }
    }

    /// The initial window is RFC 6928's.
    pub(super) fn start(self) -> Control {
        const INITIAL: u32 = 10;
        const MOST: u32 = 1 << 16;
        match self {
            Algorithm::Reno => Control::Reno(Reno::new(f64::from(INITIAL))),
            Algorithm::Cubic => Control::Cubic(Cubic::new(INITIAL, MOST)),
            Algorithm::Bbr => Control::Bbr(Bbr::new(INITIAL, MOST)),
        }
    }
}

/// A controller of one of the kinds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Control {
    Reno(Reno),
    Cubic(Cubic),
    Bbr(Bbr),
}

impl Control {
    fn inner(&mut self) -> &mut dyn CongestionController {
        match self {
            Control::Reno(reno) => reno,
            Control::Cubic(cubic) => cubic,
            Control::Bbr(bbr) => bbr,
        }
    }

    pub fn window(&self) -> u32 {
        match self {
            Control::Reno(reno) => reno.window(),
            Control::Cubic(cubic) => cubic.window(),
            Control::Bbr(bbr) => bbr.window(),
        }
    }

    /// The pace, of those that are paced without a queueing discipline that does it for all.
    pub fn pacing_rate(&self) -> Option<f64> {
        match self {
            Control::Bbr(bbr) => bbr.pacing_rate(),
            _ => None,
        }
    }

    /// A packet came through; windows do not grow while losses are recovered from.
    pub fn on_delivered(&mut self, delivery: &Delivery, recovering: bool) {
        let grows = !recovering || matches!(self, Control::Bbr(_));
        let window_limited = delivery.window_limited && grows;
        self.inner().on_delivered(&Delivery { window_limited, ..*delivery });
    }

    pub fn on_lost(&mut self, now: Time) {
        self.inner().on_lost(now, false);
    }

    /// What it was before a reduction that is taken back. Losses reduce nothing of BBR's: its model stays as measured.
    pub fn undo(&mut self, before: Control) {
        match (&mut *self, before) {
            (Control::Reno(now), Control::Reno(before)) => now.raise_to(before),
            (Control::Bbr(_), _) => {}
            _ => *self = before,
        }
    }

    pub fn on_timeout(&mut self, now: Time) {
        self.inner().on_persistent_congestion(now);
    }

    /// The packet times out again that has made it what it was then: the threshold stays, and the window closes (RFC 5681
    /// §3.1). BBR's model stays as measured.
    pub fn close_again(&mut self, closed: Control) {
        if !matches!(self, Control::Bbr(_)) {
            *self = closed;
        }
    }
}

/// RFC 5681's slow start and congestion avoidance, counting packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reno {
    window: f64,
    threshold: f64,
}

impl Reno {
    const LEAST: f64 = 2.0;

    fn new(initial: f64) -> Self {
        Reno { window: initial, threshold: f64::INFINITY }
    }

    /// At least what it was.
    fn raise_to(&mut self, before: Reno) {
        self.window = self.window.max(before.window);
        self.threshold = self.threshold.max(before.threshold);
    }

    fn halve(&mut self) {
        self.threshold = (self.window / 2.0).max(Self::LEAST);
        self.window = self.threshold;
    }
}

impl CongestionController for Reno {
    fn window(&self) -> u32 {
        self.window as u32
    }

    fn pacing_rate(&self) -> Option<f64> {
        None
    }

    fn on_delivered(&mut self, delivery: &Delivery) {
        if delivery.window_limited {
            self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
        }
    }

    fn on_pushed(&mut self, _now: Time) {}

    fn on_lost(&mut self, _now: Time, recovering: bool) -> bool {
        if !recovering {
            self.halve();
        }
        !recovering
    }

    fn on_marked(&mut self, now: Time, recovering: bool) -> bool {
        self.on_lost(now, recovering)
    }

    fn on_persistent_congestion(&mut self, _now: Time) {
        self.halve();
        self.window = 1.0;
    }
}
