//! Congestion controllers, for a TCP sender or a receiver that grants credits.
//!
//! A controller counts packets, takes the time as an argument, and knows neither protocol nor sockets. Its owner
//! reports what is delivered, lost and marked, and keeps no more packets in flight than
//! [`CongestionController::window`], sent no faster than [`CongestionController::pacing_rate`].

mod bbr;
mod cubic;
mod filter;
mod hystart;
mod slow_start;
mod veno;

use core::fmt;
use core::str::FromStr;
use wellspring_core::{Duration, Time};

pub use bbr::Bbr;
pub use cubic::Cubic;
pub(crate) use filter::WindowedMax;
pub use veno::Veno;

/// A packet that came through.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delivery {
    /// When it arrived.
    pub now: Time,
    /// Its round trip.
    pub rtt: Duration,
    /// Packets delivered so far, this one included.
    pub delivered: u64,
    /// Packets that had been delivered when it was asked for: a round trip ends with the first packet asked
    /// for after its start.
    pub delivered_before: u64,
    /// Delivery rate since then \[packets/s\] (draft-ietf-ccwg-bbr §4.1), 0 if it is not known.
    pub rate: f64,
    /// Packets still in flight.
    pub in_flight: u32,
    /// Whether the window or the pace kept further packets from being asked for; otherwise the application
    /// did, and nothing is to be learnt about how much more the path would take.
    pub window_limited: bool,
}

/// A congestion controller.
pub trait CongestionController {
    /// Packets that may be in flight, 1 or more.
    fn window(&self) -> u32;

    /// The pace at which packets are asked for \[packets/s\]; `None` while nothing is known.
    fn pacing_rate(&self) -> Option<f64>;

    /// A packet came through.
    fn on_delivered(&mut self, delivery: &Delivery);

    /// A packet arrived that was sent unasked, at an unknown time: it measures nothing.
    fn on_pushed(&mut self, now: Time);

    /// A packet was lost. `recovering` if it was sent before the last reduction. True if the window is
    /// reduced.
    fn on_lost(&mut self, now: Time, recovering: bool) -> bool;

    /// A packet that was reported lost has come after all.
    fn on_spurious_loss(&mut self) {}

    /// A packet was marked (ECN) or trimmed: congestion beyond doubt. True if the window is reduced.
    fn on_marked(&mut self, now: Time, recovering: bool) -> bool;

    /// Nothing came through for two timeouts in a row, or more, and this is called for each from the second on: persistent
    /// congestion (RFC 9002 §7.6).
    fn on_persistent_congestion(&mut self, now: Time);

    /// This is one of several paths between the same hosts, which together take one flow's share of a bottleneck
    /// that they have in common: it takes the part `part`, above 0 and up to 1. BBR takes no notice.
    fn set_part(&mut self, _part: f64) {}

    /// What others want of the path is left to them, from now on. CUBIC and BBR take no notice.
    fn yield_to_others(&mut self) {}
}

/// The controllers to choose from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Algorithm {
    /// [`Veno`]: CUBIC that distinguishes random loss from congestion.
    #[default]
    Veno,
    /// [`Cubic`] (RFC 9438).
    Cubic,
    /// [`Bbr`], version 1.
    Bbr,
}

impl Algorithm {
    /// All of them, the default first.
    pub const ALL: [Algorithm; 3] = [Algorithm::Veno, Algorithm::Cubic, Algorithm::Bbr];

    /// As in settings: `veno`, `cubic`, `bbr`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::Veno => "veno",
            Algorithm::Cubic => "cubic",
            Algorithm::Bbr => "bbr",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No congestion controller has that name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such congestion controller: veno, cubic or bbr")
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Algorithm::ALL.into_iter().find(|a| a.as_str() == name).ok_or(UnknownAlgorithm)
    }
}

/// A controller of one of the kinds.
#[expect(clippy::large_enum_variant, reason = "each flow has one, and the largest is the default")]
#[derive(Clone, Copy, Debug)]
pub enum Controller {
    /// See [`Veno`].
    Veno(Veno),
    /// See [`Cubic`].
    Cubic(Cubic),
    /// See [`Bbr`].
    Bbr(Bbr),
}

impl Controller {
    /// A controller of that kind: a window that starts at `initial` packets and never passes `max`.
    pub fn new(algorithm: Algorithm, initial: u32, max: u32) -> Self {
        match algorithm {
            Algorithm::Veno => Controller::Veno(Veno::new(initial, max)),
            Algorithm::Cubic => Controller::Cubic(Cubic::new(initial, max)),
            Algorithm::Bbr => Controller::Bbr(Bbr::new(initial, max)),
        }
    }

    fn inner(&self) -> &dyn CongestionController {
        match self {
            Controller::Veno(veno) => veno,
            Controller::Cubic(cubic) => cubic,
            Controller::Bbr(bbr) => bbr,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn CongestionController {
        match self {
            Controller::Veno(veno) => veno,
            Controller::Cubic(cubic) => cubic,
            Controller::Bbr(bbr) => bbr,
        }
    }
}

impl CongestionController for Controller {
    fn window(&self) -> u32 {
        self.inner().window()
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.inner().pacing_rate()
    }

    fn on_delivered(&mut self, delivery: &Delivery) {
        self.inner_mut().on_delivered(delivery);
    }

    fn on_pushed(&mut self, now: Time) {
        self.inner_mut().on_pushed(now);
    }

    fn on_lost(&mut self, now: Time, recovering: bool) -> bool {
        self.inner_mut().on_lost(now, recovering)
    }

    fn on_spurious_loss(&mut self) {
        self.inner_mut().on_spurious_loss();
    }

    fn on_marked(&mut self, now: Time, recovering: bool) -> bool {
        self.inner_mut().on_marked(now, recovering)
    }

    fn on_persistent_congestion(&mut self, now: Time) {
        self.inner_mut().on_persistent_congestion(now);
    }

    fn set_part(&mut self, part: f64) {
        self.inner_mut().set_part(part);
    }

    fn yield_to_others(&mut self) {
        self.inner_mut().yield_to_others();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        assert_eq!("reno".parse::<Algorithm>(), Err(UnknownAlgorithm));
        assert_eq!(Algorithm::default(), Algorithm::ALL[0]);
    }
}
