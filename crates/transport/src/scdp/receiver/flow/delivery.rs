//! Delivery rate of a sender, reported to the congestion controller.

use wellspring_core::{Duration, Time};

use super::credit::Credit;
use super::{Flow, MAX_IN_FLIGHT, Window};
use crate::congestion::{CongestionController, Delivery};

/// Beyond `max_window`, no more may be in flight than this many bandwidth-delay products: beside others a
/// full share of a queue of a few takes as much.
const MAX_PRODUCTS: f64 = 4.0;

impl Flow {
    /// The congestion controller hears of a credit answered: of its round trip, and of the delivery rate
    /// since it was granted (draft-ietf-ccwg-bbr §4.1: over the longer of the spans in which they were
    /// granted and answered).
    pub(super) fn report_delivery(&mut self, now: Time, credit: &Credit, rtt: Duration) {
        let Window::Controlled(controller) = &mut self.window else { return };
        let answered = now.since(credit.delivered_at);
        // Answers that waited in the socket, for a processor, come all at once.
        let granted = credit.granted_at.since(credit.delivered_granted_at);
        let span = answered.max(granted).max(self.rtt.least().unwrap_or(rtt));
        let delivered = self.delivered - credit.delivered_before;
        let secs = span.as_secs_f64();
        let rate = if secs > 0.0 { delivered as f64 / secs } else { 0.0 };
        self.best_rate.update(now, rate as u64);
        if let Some(least) = self.rtt.least() {
            let product = self.best_rate.get() as f64 * least.as_secs_f64();
            self.most = self.max_window.max((product * MAX_PRODUCTS) as u32).min(MAX_IN_FLIGHT);
        }
        controller.on_delivered(&Delivery {
            now,
            rtt,
            delivered: self.delivered,
            delivered_before: credit.delivered_before,
            rate,
            in_flight: self.in_flight,
            window_limited: self.window_limited,
        });
    }
}
