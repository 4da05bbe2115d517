//! Rate limit that depends on the time of day.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::ZonedDateTime;
use jiff::tz::TimeZone;
use wellspring_console::units::{bit_rate, parse_rate};
use wellspring_core::Rate;

/// Windows of a schedule, at most.
const MAX_WINDOWS: usize = 64;
/// Minutes of a day.
const DAY: u16 = 24 * 60;
/// The time is looked at so often, at least: a clock may be set, and a machine may sleep.
const LOOK: Duration = Duration::from_secs(30);

/// Rates by time of day; `None` is no limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Outside of all windows.
    otherwise: Option<Rate>,
    windows: Vec<Window>,
}

/// A time of each day, and the rate in it. One that ends before it begins goes over midnight.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Window {
    /// Minutes of the day.
    from: u16,
    to: u16,
    rate: Option<Rate>,
}

impl Window {
    fn holds(&self, minute: u16) -> bool {
        match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

impl Schedule {
    /// The rate now, by the clock and the time zone of this machine.
    pub fn now(&self) -> Option<Rate> {
        let now = ZonedDateTime::now();
        self.at(now.hour() as u16 * 60 + now.minute() as u16)
    }

    /// Whether there is a limit at any time.
    pub fn has_limit(&self) -> bool {
        self.otherwise.is_some() || self.windows.iter().any(|window| window.rate.is_some())
    }

    /// The rate in that minute of the day; of windows that overlap the first counts.
    fn at(&self, minute: u16) -> Option<Rate> {
        let window = self.windows.iter().find(|window| window.holds(minute));
        window.map_or(self.otherwise, |window| window.rate)
    }

    /// Says so if times of day are those of UTC because the machine's time zone is not known.
    pub fn check_time_zone(&self) {
        if self.windows.is_empty() {
            return;
        }
        if let Err(error) = TimeZone::try_system() {
            tracing::warn!(
                "the time zone is not known ({error}): times of --rate are those of UTC. Set TZ to a zone's name, such as \
                 Europe/Berlin, or make /etc/localtime",
            );
        }
    }

    /// When to ask for the rate again; never if it does not depend on the time.
    pub fn next_look(&self) -> Option<Duration> {
        if self.windows.is_empty() {
            return None;
        }
        let now = ZonedDateTime::now();
        let into_minute = Duration::new(now.second() as u64, now.subsec_nanosecond() as u32);
        Some(LOOK.min(Duration::from_secs(60).saturating_sub(into_minute)))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(';').map(str::trim);
        let otherwise = rate(parts.next().unwrap_or_default())?;
        let windows = parts.map(window).collect::<Result<Vec<_>, _>>()?;
        if windows.len() > MAX_WINDOWS {
            return Err(format!("{} times of day, but at most {MAX_WINDOWS}", windows.len()));
        }
        Ok(Schedule { otherwise, windows })
    }
}

fn rate(text: &str) -> Result<Option<Rate>, String> {
    if text == "none" { Ok(None) } else { parse_rate(text).map(Some) }
}

fn window(text: &str) -> Result<Window, String> {
    let wrong = || format!("`{text}` is no time of day and rate; write 22:00-06:00 1G");
    let (times, of_window) = text.split_once(char::is_whitespace).ok_or_else(wrong)?;
    let (from, to) = times.split_once('-').ok_or_else(wrong)?;
    let (from, to) = (minute(from).ok_or_else(wrong)?, minute(to).ok_or_else(wrong)?);
    if from == to || from == DAY {
        return Err(format!("`{times}` ends when it begins"));
    }
    Ok(Window { from, to, rate: rate(of_window.trim())? })
}

/// Minute of the day: `00:00` to `24:00`.
fn minute(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let two_digits = |text: &str| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u16>().ok()).flatten()
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    let minute = hours * 60 + minutes;
    (minutes < 60 && minute <= DAY).then_some(minute)
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.otherwise))?;
        self.windows.iter().try_for_each(|Window { from, to, rate }| {
            let clock = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
            write!(f, "; {}-{} {}", clock(*from), clock(*to), shown(*rate))
        })
    }
}

/// A rate for people.
pub fn shown(rate: Option<Rate>) -> String {
    rate.map_or("no limit".to_owned(), |rate| bit_rate(rate.as_bits_per_second() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str) -> Schedule {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_rate_changes_with_the_time_of_day() {
        let (slow, fast) = (Some(Rate::from_mbps(100)), Some(Rate::from_mbps(1_000)));
        let night = schedule("100M; 22:00-06:00 1G; 12:30-13:00 none");
        for (clock, rate) in [
            ("00:00", fast),
            ("05:59", fast),
            ("06:00", slow),
            ("12:29", slow),
            ("12:30", None),
            ("12:59", None),
            ("13:00", slow),
            ("21:59", slow),
            ("22:00", fast),
            ("23:59", fast),
        ] {
            assert_eq!(night.at(minute(clock).expect(clock)), rate, "{clock}");
        }
        assert_eq!(night.to_string(), "100 Mbit/s; 22:00-06:00 1.0 Gbit/s; 12:30-13:00 no limit");
        // Of windows that overlap the first counts.
        let both = schedule("none; 08:00-24:00 100M;00:00-24:00  1G");
        assert_eq!((both.at(8 * 60), both.at(0), both.at(DAY - 1)), (slow, fast, slow));
        assert!(
            both.has_limit()
                && night.has_limit()
                && !schedule("none; 08:00-24:00 none").has_limit()
        );
        let always = schedule("100M");
        assert_eq!((always.now(), always.next_look()), (slow, None));
        assert!(both.next_look().is_some_and(|next| next <= LOOK));
    }

    /// Images have no database of zones.
    #[test]
    fn time_zones_are_known_where_the_machine_has_none() {
        let zones = jiff::tz::TimeZoneDatabase::bundled();
        for zone in ["Asia/Tokyo", "Europe/Berlin", "America/New_York"] {
            assert!(zones.get(zone).is_ok(), "{zone}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for wrong in [
            "",
            ";",
            "22:00-06:00 1G",
            "100M;",
            "100M; 1G",
            "100M; 22:00-06:00",
            "100M; 22:00-22:00 1G",
            "100M; 24:00-06:00 1G",
            "100M; 2:00-06:00 1G",
            "100M; 22:60-23:00 1G",
            "100M; 22:00-25:00 1G",
            "100M; 22:00-06:00 fast",
            "100M; +1:00-06:00 1G",
            "100M; 22:00 - 06:00 1G",
        ] {
            assert!(wrong.parse::<Schedule>().is_err(), "{wrong}");
        }
        let many = format!("100M{}", "; 22:00-06:00 1G".repeat(MAX_WINDOWS + 1));
        assert!(many.parse::<Schedule>().is_err());
    }
}
