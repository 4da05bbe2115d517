//! The pace of pulls on a fabric that trims, corrected where the link's rate was given wrongly.
//!
//! Pulls run at the rate of the host's own link (SCDP §IV-C). Where that is more than what the port in front of the
//! host carries, the excess is trimmed and asked for again, for ever. What arrives whole while others are trimmed
//! is what the port carries.

use wellspring_core::{Duration, Rate, Time};

/// Symbols that came, whole or trimmed, after which the pace is judged at the earliest.
const EPOCH: u32 = 128;

/// The pace is too high if one in so many was trimmed. Hosts that wake late send and ask in bursts, and short queues
/// trim 5 % of those at the right pace.
const TOO_MANY: u32 = 16;

/// The pace rises if fewer than one in so many was trimmed.
const FEW: u32 = 32;

/// The pace rises by one part in so many an epoch: twice as high after 23 epochs. After epochs in a row of which
/// nothing was trimmed, each time by twice as much, up to all of it: what was in the way has gone.
const RISE: u64 = 32;
const MOST_DOUBLINGS: u32 = RISE.ilog2();

/// The pace never falls below one part in so many of the link's rate.
const LEAST: u64 = 1_024;

/// Reductions in a row that change nothing before they are taken back and trimmed symbols count as somebody else's
/// doing, and epochs for which they do.
const FUTILE: u32 = 2;
const INDIFFERENT: u32 = 64;

/// What the pace of pulls is.
#[derive(Debug)]
pub(super) struct Pace {
    link: u64,
    rate: u64,
    /// An epoch lasts at least so long: in a shorter one trims show which hosts the system has run at once, and not what
    /// the port carries.
    least: Duration,
    began: Option<Time>,
    whole: u32,
    trimmed: u32,
    bytes: u64,
    /// Part of the last epoch that was trimmed, and led to a reduction \[1/1,024\].
    reduced_for: u32,
    /// The pace before the reductions in a row that have changed nothing.
    unreduced: u64,
    /// Part that was trimmed when they were taken back \[1/1,024\].
    endured: u32,
    /// Epochs in a row of which nothing was trimmed.
    calm: u32,
    futile: u32,
    indifferent: u32,
}

impl Pace {
    /// The link's rate, judged no more often than after `least`.
    pub(super) fn new(link: Rate, least: Duration) -> Self {
        let link = link.as_bits_per_second();
        Pace {
            link,
            rate: link,
            least,
            began: None,
            whole: 0,
            trimmed: 0,
            bytes: 0,
            reduced_for: 0,
            unreduced: link,
            endured: 0,
            calm: 0,
            futile: 0,
            indifferent: 0,
        }
    }

    /// A symbol that was pulled has come, and takes so many bytes on the link, or what was left of it. Returns
    /// the pace if it changes.
    pub(super) fn on_symbol(&mut self, now: Time, bytes: u64, trimmed: bool) -> Option<Rate> {
        let Some(began) = self.began else {
            self.began = Some(now);
            return None;
        };
        self.trimmed += u32::from(trimmed);
        self.whole += u32::from(!trimmed);
        self.bytes += if trimmed { 0 } else { bytes };
        let span = now.since(began);
        if self.whole + self.trimmed < EPOCH || span < self.least {
            return None;
        }
        let before = self.rate;
        self.judge(span);
        (self.began, self.whole, self.trimmed, self.bytes) = (Some(now), 0, 0, 0);
        if self.rate == before { None } else { Rate::from_bits_per_second(self.rate) }
    }

    fn judge(&mut self, span: Duration) {
        let symbols = u64::from(self.whole) + u64::from(self.trimmed);
        let part = (u64::from(self.trimmed) * 1_024 / symbols) as u32;
        self.indifferent = self.indifferent.saturating_sub(1);
        if part > 2 * self.endured {
            // More than was put up with.
            self.indifferent = 0;
        }
        if part * FEW < 1_024 || (self.indifferent > 0 && part <= self.endured) {
            let rise = (self.rate / RISE + 1) << self.calm.min(MOST_DOUBLINGS);
            self.rate = (self.rate + rise).min(self.link);
        }
        self.calm = if self.trimmed == 0 { self.calm.saturating_add(1) } else { 0 };
        if part * TOO_MANY < 1_024 || self.indifferent > 0 {
            (self.reduced_for, self.futile) = (0, 0);
            return;
        }
        // Fewer pulls, and as much is trimmed: it is not the pulls.
        if self.reduced_for > 0 && part * 2 > self.reduced_for {
            self.futile += 1;
        } else {
            // What helped is not taken back with what did not.
            (self.futile, self.unreduced) = (0, self.rate);
        }
        if self.futile >= FUTILE {
            (self.futile, self.reduced_for, self.indifferent) = (0, 0, INDIFFERENT);
            (self.rate, self.endured) = (self.unreduced, part);
            return;
        }
        let micros = span.as_micros().max(1);
        let carried = self.bytes.saturating_mul(8_000_000) / micros;
        // Of pulls at this pace this part was carried. The bytes of an epoch show less where a host was late.
        let answered = self.rate / 1_024 * u64::from(1_024_u32.saturating_sub(part));
        self.reduced_for = part;
        self.rate = self.rate.min(carried.max(answered)).max(self.link / LEAST).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pace after so many epochs in front of a port of `port` bit/s, and the part of all that was trimmed.
    fn after(pace: &mut Pace, port: u64, epochs: u32) -> (u64, f64) {
        let (mut now, mut owed, mut trimmed) = (Time::ZERO, 0.0_f64, 0);
        for _ in 0..epochs * EPOCH {
            now = now + Duration::from_nanos(1_500 * 8_000_000_000 / pace.rate);
            // What the port carries of the pulls' answers.
            owed += port as f64 / pace.rate as f64;
            let whole = owed >= 1.0 || pace.rate <= port;
            owed = if whole { (owed - 1.0).max(0.0) } else { owed };
            trimmed += u32::from(!whole);
            pace.on_symbol(now, 1_500, !whole);
        }
        (pace.rate, f64::from(trimmed) / f64::from(epochs * EPOCH))
    }

    #[test]
    fn a_link_given_twice_as_fast_as_it_is_costs_a_few_symbols() {
        let mut pace = Pace::new(Rate::from_mbps(2_000), Duration::ZERO);
        let (rate, trimmed) = after(&mut pace, 1_000_000_000, 100);
        assert!((950_000_000..1_070_000_000).contains(&rate), "{rate}");
        assert!(trimmed < 0.07, "{trimmed}");
    }

    #[test]
    fn the_pace_is_the_links_where_nothing_is_trimmed_and_soon_again() {
        let mut pace = Pace::new(Rate::from_mbps(1_000), Duration::ZERO);
        assert_eq!(after(&mut pace, 1_000_000_000, 50), (1_000_000_000, 0.0));
        let (rate, _) = after(&mut pace, 500_000_000, 4);
        assert!(rate < 560_000_000, "{rate}");
        assert_eq!(after(&mut pace, 1_000_000_000, 30).0, 1_000_000_000);
    }

    /// As when a group's packets fill the port for a while: most is trimmed, whatever the pace.
    #[test]
    fn the_pace_is_the_links_again_soon_after_others_have_filled_the_port() {
        let mut pace = Pace::new(Rate::from_mbps(100), Duration::ZERO);
        let mut now = Time::ZERO;
        let mut took = |pace: &mut Pace, symbols: u64, trimmed: fn(u64) -> bool| {
            let began = now;
            for number in 0..symbols {
                now = now + Duration::from_nanos(1_500 * 8_000_000_000 / pace.rate);
                pace.on_symbol(now, 1_500, trimmed(number));
            }
            now.since(began)
        };
        // Three epochs, after which the pulls count as innocent.
        took(&mut pace, 400, |number| number % 8 != 0);
        assert!(pace.rate > 90_000_000, "what changed nothing is taken back: {}", pace.rate);
        // Two epochs more, at whose end the pace is low.
        pace = Pace::new(Rate::from_mbps(100), Duration::ZERO);
        took(&mut pace, 270, |number| number % 8 != 0);
        assert!(pace.rate < 20_000_000, "{}", pace.rate);
        let alone = took(&mut pace, 3_000, |_| false);
        // Most of it are the first six epochs, at a sixtieth of the pace.
        assert!(alone < Duration::from_secs(7), "3,000 symbols in {alone}");
        assert_eq!(pace.rate, 100_000_000);
    }

    /// As when hosts wake late beside a link rate that was given wrongly: the port trims the excess, and bursts.
    #[test]
    fn a_reduction_that_helped_is_not_taken_back_for_trims_that_no_pace_changes() {
        let port = 1_000_000_000;
        let mut pace = Pace::new(Rate::from_mbps(2_000), Duration::ZERO);
        let (mut now, mut owed, mut trimmed) = (Time::ZERO, 0.0_f64, 0);
        let symbols = 200 * EPOCH;
        for number in 0..symbols {
            now = now + Duration::from_nanos(1_500 * 8_000_000_000 / pace.rate);
            owed += port as f64 / pace.rate as f64;
            let whole = owed >= 1.0 || pace.rate <= port;
            owed = if whole { (owed - 1.0).max(0.0) } else { owed };
            let cut = !whole || number % 8 == 0;
            trimmed += u32::from(cut);
            pace.on_symbol(now, 1_500, cut);
        }
        assert!(pace.rate > port / 2 && pace.rate < port / 10 * 11, "{}", pace.rate);
        assert!(f64::from(trimmed) < 0.2 * f64::from(symbols), "{trimmed} of {symbols}");
    }

    /// As when many senders are run by turns: what they send at once overflows the port now and then, whatever the pace.
    #[test]
    fn gusts_of_trims_that_no_pace_changes_leave_most_of_the_pace() {
        let mut pace = Pace::new(Rate::from_mbps(1_000), Duration::from_millis(20));
        let (mut now, mut least) = (Time::ZERO, u64::MAX);
        for number in 0..200_000_u64 {
            now = now + Duration::from_nanos(1_500 * 8_000_000_000 / pace.rate);
            // One part in three of a gust, and little in between.
            let gust = if number / 128 % 4 == 0 { 3 } else { 40 };
            pace.on_symbol(now, 1_500, number % gust == 0);
            least = least.min(pace.rate);
        }
        assert!(least > 500_000_000, "{least}");
    }

    #[test]
    fn trims_that_a_lower_pace_does_not_change_are_not_answered_for_ever() {
        let mut pace = Pace::new(Rate::from_mbps(1_000), Duration::ZERO);
        let mut now = Time::ZERO;
        for number in 0..20_000_u64 {
            now = now + Duration::from_nanos(1_500 * 8_000_000_000 / pace.rate);
            pace.on_symbol(now, 1_500, number % 10 == 0);
        }
        assert!(pace.rate > 700_000_000, "{}", pace.rate);
    }
}
