//! TCP as today's hosts have it: selective acknowledgements, RACK-TLP (RFC 8985), and undone reductions.
//!
//! Of RFC 8985: loss detection by time (§6.2) with a reordering window that follows duplicates (§6.2 step 4), and the
//! tail loss probe (§7). While losses are recovered from, Reno and CUBIC send by proportional rate reduction (RFC 6937),
//! so that lost retransmissions are noticed. Retransmission timer: RFC 6298, with the least timeout of 200 ms that systems
//! have. Everything counts packets.

use std::collections::VecDeque;

use wellspring_core::{Duration, Time};
use wellspring_transport::congestion::Delivery;

use super::control::{Algorithm, Control};
use super::receiver::Ack;
use super::reduction::Reduction;
use super::undo::Undo;

const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Duplicates after which a loss is certain while no reordering was seen (§6.2.1).
const DUPLICATES: u64 = 3;
/// Recoveries for which a wider reordering window holds (§6.2.1).
const WIDE_FOR: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    InFlight,
    Lost,
    Sacked,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    state: State,
    sent: Time,
    again: bool,
    /// Packets delivered when it left, and when the last of them was.
    delivered: u64,
    delivered_at: Time,
}

/// Where the data of a transfer leaves.
#[derive(Debug)]
pub struct Sender {
    control: Control,
    /// Packets that the application has written.
    pub written: u64,
    first: u64,
    segments: VecDeque<Segment>,
    in_flight: u64,
    lost: u64,
    sacked: u64,
    delivered: u64,
    delivered_at: Time,
    /// The newest time of sending of what arrived, and its round trip.
    newest: Option<(Time, Duration)>,
    /// One more than the highest packet that is known to be there.
    highest_there: u64,
    reordering: bool,
    /// Quarters of the least round trip in the reordering window, recoveries left, and the last
    /// packet of the round in which it was widened.
    steps: u32,
    wide_left: u32,
    widened_until: u64,
    least_rtt: Duration,
    smoothed: Option<(Duration, Duration)>,
    back_off: u32,
    recovers_until: Option<u64>,
    /// That recovery is one after a timeout: the window grows in it.
    timed_out: bool,
    /// The packet that the last timeout was about and the controller behind it, unless that has been taken back.
    closed: Option<(u64, Control)>,
    reduction: Option<Reduction>,
    undo: Option<Undo>,
    timer_from: Time,
    probed: bool,
    reorder_at: Option<Time>,
    pace_at: Time,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

impl Sender {
    /// A sender to whom nothing was written.
    pub fn new(algorithm: Algorithm, now: Time) -> Self {
        Sender {
            control: algorithm.start(),
            written: 0,
            first: 0,
            segments: VecDeque::new(),
            in_flight: 0,
            lost: 0,
            sacked: 0,
            delivered: 0,
            delivered_at: now,
            newest: None,
            highest_there: 0,
            reordering: false,
            steps: 1,
            wide_left: 0,
            widened_until: 0,
            least_rtt: Duration::from_secs(100),
            smoothed: None,
            back_off: 0,
            recovers_until: None,
            timed_out: false,
            closed: None,
            reduction: None,
            undo: None,
            timer_from: now,
            probed: false,
            reorder_at: None,
            pace_at: now,
            timeouts: 0,
        }
    }

    /// The congestion window \[packets\].
    pub fn window(&self) -> u32 {
        self.control.window()
    }

    /// Packets sent and not heard of.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn end(&self) -> u64 {
        self.first + self.segments.len() as u64
    }

    /// The next packet to send now, if one may be sent.
    pub fn poll(&mut self, now: Time) -> Option<u64> {
        let full = match &self.reduction {
            Some(reduction) => reduction.is_full(),
            None => self.in_flight >= u64::from(self.control.window()),
        };
        if full || now.is_before(self.pace_at) {
            return None;
        }
        let place = if self.lost > 0 {
            self.segments.iter().position(|segment| segment.state == State::Lost)
        } else {
            (self.end() < self.written).then_some(self.segments.len())
        }?;
        if let Some(rate) = self.control.pacing_rate() {
            // What was not sent in time is not made up for.
            let gap = Duration::from_nanos((1e9 / rate) as u64);
            self.pace_at = self.pace_at.later_of(now) + gap;
        }
        self.transmit(now, place);
        Some(self.first + place as u64)
    }

    fn transmit(&mut self, now: Time, place: usize) {
        if self.in_flight == 0 {
            self.timer_from = now;
            self.delivered_at = self.delivered_at.later_of(now);
        }
        if let Some(reduction) = &mut self.reduction {
            reduction.on_sent();
        }
        let again = place < self.segments.len();
        if again && place == 0 {
            // As Linux has it: what the oldest packet's acknowledgement is waited for has left just now.
            self.timer_from = now;
        }
        let segment = Segment {
            state: State::InFlight,
            sent: now,
            again,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
        };
        if !again {
            self.segments.push_back(segment);
            self.in_flight += 1;
            return;
        }
        match self.segments[place].state {
            State::Lost => {
                self.lost -= 1;
                self.in_flight += 1;
            }
            State::InFlight => {}
            State::Sacked => return,
        }
        self.segments[place] = segment;
        if let Some(undo) = &mut self.undo {
            undo.on_repeat(now);
        }
    }

    /// When [`Sender::on_timer`] has something to do, or [`Sender::poll`] may have.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        let paced = Some(self.pace_at)
            .filter(|at| at.is_after(now) && self.in_flight < u64::from(self.control.window()));
        let timer = (self.in_flight + self.lost > 0).then(|| self.timer_from + self.timeout());
        Time::earliest(paced.into_iter().chain(timer).chain(self.reorder_at))
    }

    /// The time to the tail loss probe, or to the retransmission timeout.
    fn timeout(&self) -> Duration {
        let Some((smoothed, variation)) = self.smoothed else { return FIRST_TIMEOUT };
        let probes = !self.probed && self.recovers_until.is_none() && self.lost == 0;
        if probes {
            return smoothed * 2;
        }
        let timeout = smoothed + (variation * 4).max(LEAST_TIMEOUT);
        (timeout * (1 << self.back_off.min(8))).min(LONGEST_TIMEOUT)
    }

    /// It is that late. The packet to send as a tail loss probe, if one is due.
    pub fn on_timer(&mut self, now: Time) -> Option<u64> {
        if self.reorder_at.is_some_and(|at| now.has_reached(at)) {
            self.detect(now);
        }
        if self.in_flight + self.lost == 0 || now.is_before(self.timer_from + self.timeout()) {
            return None;
        }
        let probes = self.smoothed.is_some()
            && !self.probed
            && self.recovers_until.is_none()
            && self.lost == 0;
        self.timer_from = now;
        if probes {
            self.probed = true;
            let last = self.segments.iter().rposition(|s| s.state == State::InFlight)?;
            self.transmit(now, last);
            return Some(self.first + last as u64);
        }
        self.timeouts += 1;
        self.back_off += 1;
        if self.recovers_until.is_none() {
            self.begin_undo();
        }
        match self.closed {
            Some((first, closed)) if first == self.first => self.control.close_again(closed),
            _ => self.control.on_timeout(now),
        }
        self.closed = Some((self.first, self.control));
        self.timed_out = true;
        self.reduction = None;
        self.recovers_until = Some(self.end());
        for segment in &mut self.segments {
            if segment.state == State::InFlight {
                segment.state = State::Lost;
                self.lost += 1;
                self.in_flight -= 1;
            }
        }
        self.reorder_at = None;
        None
    }

    fn begin_undo(&mut self) {
        self.undo = Some(Undo::new(self.control, self.first, self.repeats_under_way()));
    }

    /// Packets sent again of which nobody knows whether they came.
    fn repeats_under_way(&self) -> u64 {
        let under_way = |s: &&Segment| s.again && s.state == State::InFlight;
        self.segments.iter().filter(under_way).count() as u64
    }

    /// An acknowledgement comes.
    pub fn on_ack(&mut self, now: Time, ack: &Ack) {
        let advances = ack.next > self.first;
        let delivered = self.delivered;
        let in_flight = self.in_flight;
        while self.first < ack.next
            && let Some(segment) = self.segments.pop_front()
        {
            let number = self.first;
            self.first += 1;
            match segment.state {
                State::Sacked => self.sacked -= 1,
                _ => self.deliver(now, number, segment, in_flight),
            }
        }
        for &(start, end) in &ack.blocks {
            for number in start.max(self.first)..end.min(self.end()) {
                let segment = self.segments[(number - self.first) as usize];
                if segment.state != State::Sacked {
                    self.deliver(now, number, segment, in_flight);
                    self.segments[(number - self.first) as usize].state = State::Sacked;
                    self.sacked += 1;
                }
            }
        }
        if let Some(number) = ack.duplicate {
            self.on_duplicate(number);
        }
        if advances {
            (self.timer_from, self.back_off, self.probed) = (now, 0, false);
        }
        let only_late = self.undo_if_spurious(advances, ack.echo);
        if self.recovers_until.is_some_and(|until| self.first >= until) {
            (self.recovers_until, self.timed_out, self.reduction) = (None, false, None);
            self.wide_left = self.wide_left.saturating_sub(1);
            if self.wide_left == 0 {
                self.steps = 1;
            }
        }
        if !only_late {
            self.detect(now);
        }
        let threshold = u64::from(self.control.window());
        if let Some(reduction) = &mut self.reduction {
            let delivered = self.delivered - delivered;
            reduction.on_delivered(delivered, self.in_flight, threshold);
        }
    }

    fn deliver(&mut self, now: Time, number: u64, segment: Segment, in_flight: u64) {
        match segment.state {
            State::Lost => self.lost -= 1,
            _ => self.in_flight -= 1,
        }
        let rtt = now.since(segment.sent);
        if !segment.again {
            self.measure(rtt);
            self.reordering |= number < self.highest_there;
        }
        self.highest_there = self.highest_there.max(number + 1);
        // What came sooner than any round trip is an answer to the first copy.
        if !segment.again || rtt >= self.least_rtt {
            let later = self.newest.is_none_or(|(sent, _)| !segment.sent.is_before(sent));
            if later {
                self.newest = Some((segment.sent, rtt));
            }
        }
        self.delivered += 1;
        let span = now.since(segment.delivered_at).as_secs_f64().max(rtt.as_secs_f64());
        self.delivered_at = now;
        let delivery = Delivery {
            now,
            // Of what was sent again nobody knows which copy came (Karn).
            rtt: if segment.again {
                self.smoothed.map_or(rtt, |(smoothed, _)| smoothed)
            } else {
                rtt
            },
            delivered: self.delivered,
            delivered_before: segment.delivered,
            rate: if span > 0.0 { (self.delivered - segment.delivered) as f64 / span } else { 0.0 },
            in_flight: self.in_flight as u32,
            window_limited: in_flight + 3 >= u64::from(self.control.window()),
        };
        self.control.on_delivered(&delivery, self.recovers_until.is_some() && !self.timed_out);
    }

    fn measure(&mut self, rtt: Duration) {
        self.least_rtt = self.least_rtt.min(rtt);
        let (smoothed, variation) = self.smoothed.unwrap_or((rtt, rtt / 2));
        let off = rtt.saturating_sub(smoothed).max(smoothed.saturating_sub(rtt));
        self.smoothed = Some(((smoothed * 7 + rtt) / 8, (variation * 3 + off) / 4));
    }

    /// What was sent again had arrived: the reordering window is too narrow.
    fn on_duplicate(&mut self, number: u64) {
        self.reordering = true;
        if let Some(undo) = &mut self.undo {
            undo.on_duplicate(number);
        }
        if self.first >= self.widened_until {
            self.steps += 1;
            self.wide_left = WIDE_FOR;
            self.widened_until = self.end();
        }
    }

    /// Takes the reduction back if nothing was lost, as Linux judges. Whether packets turned out to be late rather than lost
    /// while others that were sent again are under way: nothing more is taken for lost then.
    fn undo_if_spurious(&mut self, advances: bool, echo: Time) -> bool {
        let Some(undo) = self.undo else { return false };
        let recovers = self.recovers_until.is_some();
        let original = recovers && advances && undo.is_original(echo);
        let over = self.timed_out || self.recovers_until.is_some_and(|until| self.first >= until);
        if original && !over && self.repeats_under_way() > 0 && !undo.all_were_duplicates() {
            return true;
        }
        if !original && !undo.all_were_duplicates() {
            return false;
        }
        self.control.undo(undo.control);
        (self.undo, self.closed) = (None, None);
        (self.recovers_until, self.timed_out, self.reduction) = (None, false, None);
        for segment in &mut self.segments {
            if segment.state == State::Lost {
                segment.state = State::InFlight;
                self.lost -= 1;
                self.in_flight += 1;
            }
        }
        false
    }

    /// Marks what is lost by now, and says when more may be.
    fn detect(&mut self, now: Time) {
        self.reorder_at = None;
        let Some((newest, rtt)) = self.newest else { return };
        let certain =
            !self.reordering && (self.recovers_until.is_some() || self.sacked >= DUPLICATES);
        let window = match certain {
            true => Duration::ZERO,
            false => {
                let smoothed = self.smoothed.map_or(rtt, |(smoothed, _)| smoothed);
                (self.least_rtt / 4 * u64::from(self.steps)).min(smoothed)
            }
        };
        let mut found = false;
        for segment in &mut self.segments {
            let is_older = segment.sent.is_before(newest);
            if !is_older && !segment.again {
                // What was sent for the first time was sent in order.
                break;
            }
            if !is_older || segment.state != State::InFlight {
                continue;
            }
            let due = segment.sent + rtt + window;
            if now.has_reached(due) {
                segment.state = State::Lost;
                self.lost += 1;
                self.in_flight -= 1;
                found = true;
            } else {
                self.reorder_at = Time::earliest(self.reorder_at.into_iter().chain([due]));
            }
        }
        if found && self.recovers_until.is_none() {
            self.begin_undo();
            // The window of before: what was in flight, and what is lost of it.
            let before = self.in_flight + self.lost;
            self.control.on_lost(now);
            self.recovers_until = Some(self.end());
            // BBR paces by its model, whatever is lost.
            let by_window = !matches!(self.control, Control::Bbr(_));
            self.reduction = by_window.then(|| Reduction::new(before));
        }
    }
}

#[cfg(test)]
mod tests;
