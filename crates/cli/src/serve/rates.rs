//! Limits of what a server sends and receives, as they are at the moment.

use wellspring_core::Rate;

use super::schedule::Schedule;

/// A limit as it is now.
pub struct Scheduled {
    schedule: Option<Schedule>,
    pub now: Option<Rate>,
}

impl Scheduled {
    pub fn new(schedule: Option<&Schedule>) -> Self {
        Scheduled { schedule: schedule.cloned(), now: schedule.and_then(Schedule::now) }
    }

    /// Waits until the schedule says another rate.
    pub async fn changes(&mut self) {
        loop {
            let Some((schedule, next)) =
                self.schedule.as_ref().and_then(|s| Some((s, s.next_look()?)))
            else {
                return std::future::pending().await;
            };
            tokio::time::sleep(next).await;
            let before = std::mem::replace(&mut self.now, schedule.now());
            if self.now != before {
                return;
            }
        }
    }
}

/// The rate at which clients are asked for what they put: that of the link, or less.
pub fn pull_rate(link: Rate, limit: Option<Rate>) -> Rate {
    limit.map_or(link, |limit| limit.min(link))
}

/// A limit in events.
pub fn bits(rate: Option<Rate>) -> Option<u64> {
    rate.map(Rate::as_bits_per_second)
}
