//! Entries of a listing.

use std::fmt;

use std::time::{Duration, SystemTime};

use crate::attributes::Attributes;

/// Time of a file's last modification, since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Modified {
    /// Whole seconds, before 1970 negative.
    pub seconds: i64,
    /// And nanoseconds, below 1,000,000,000.
    pub nanos: u32,
}

impl Modified {
    /// The same for the standard library; `None` beyond what that knows.
    pub fn to_system(self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.seconds.unsigned_abs());
        let whole = match self.seconds {
            0.. => SystemTime::UNIX_EPOCH.checked_add(seconds),
            _ => SystemTime::UNIX_EPOCH.checked_sub(seconds),
        };
        whole?.checked_add(Duration::from_nanos(self.nanos.into()))
    }

    /// What is left of it where times are kept in steps of so many nanoseconds, a part of a second or whole ones.
    #[must_use]
    pub fn in_steps_of(self, nanos: u32) -> Self {
        let seconds = i64::from(nanos / 1_000_000_000);
        if seconds > 1 {
            let past = self.seconds.rem_euclid(seconds);
            return Modified { seconds: self.seconds.saturating_sub(past), nanos: 0 };
        }
        Modified { nanos: self.nanos - self.nanos % nanos.max(1), ..self }
    }
}

/// Why something in a directory is left out of its tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum SkipReason {
    /// A device, a socket or a pipe.
    Special = 1,
    /// Its name cannot be that of an object: it is too long or deep, has a control character or a backslash, or is
    /// not UTF-8.
    Name = 2,
    /// A symbolic link that leads out of the tree.
    LeadsOut = 3,
    /// It cannot be read.
    Unreadable = 4,
    /// Its name begins with a dash, or holds what is invisible or turns the direction of writing. Who fetches says so; no
    /// listing does.
    Odd = 5,
    /// Its name begins with a dot, and the directory is one in which programs look for such names. No listing says so.
    Hidden = 6,
}

impl SkipReason {
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        use SkipReason::*;
        [Special, Name, LeadsOut, Unreadable].into_iter().find(|r| u64::from(*r as u8) == number)
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SkipReason::Special => "is a device, a socket or a pipe",
            SkipReason::Name => "has a name that objects cannot have",
            SkipReason::LeadsOut => "is a link that leads out of the tree",
            SkipReason::Unreadable => "cannot be read",
            SkipReason::Odd => "has a name that begins with a dash, or holds invisible characters",
            SkipReason::Hidden => "begins with a dot, and the directory is your home",
        })
    }
}

/// What an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Its length \[bytes\].
        size: u64,
        /// BLAKE3 digest of its bytes, where the listing has digests.
        digest: Option<[u8; 32]>,
    },
    /// A symbolic link to a place in the tree.
    Link {
        /// As the link has it.
        target: &'a str,
    },
    /// Something that is not part of the tree; its path is for people alone.
    Skipped(SkipReason),
}

/// An entry of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Its path in the tree, components joined by `/`.
    pub path: &'a str,
    /// Permissions, 0 to 0o777.
    pub mode: u16,
    /// Last modification.
    pub modified: Modified,
    /// What it is.
    pub content: Content<'a>,
    /// What else is known of it, if that was asked for.
    pub attributes: Attributes<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_the_steps_of_a_file_system() {
        let of = |step| Modified { seconds: -7, nanos: 987_654_321 }.in_steps_of(step);
        let nanos = [0, 1, 100, 1_000, 1_000_000, 1_000_000_000].map(|step| of(step).nanos);
        assert_eq!(nanos, [987_654_321, 987_654_321, 987_654_300, 987_654_000, 987_000_000, 0]);
        assert_eq!(of(1_000_000_000).seconds, -7);
        assert_eq!(of(2_000_000_000), Modified { seconds: -8, nanos: 0 });
        let even = Modified { seconds: 8, nanos: 5 };
        assert_eq!(even.in_steps_of(2_000_000_000), Modified { seconds: 8, nanos: 0 });
        let first = Modified { seconds: i64::MIN, nanos: 5 };
        assert_eq!(first.in_steps_of(2_000_000_000).seconds, i64::MIN);
    }

    #[test]
    fn times_before_1970_and_at_the_ends_of_what_can_be_said_are_converted_or_refused() {
        let time = |seconds, nanos| Modified { seconds, nanos }.to_system();
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(time(1, 5), Some(epoch + Duration::new(1, 5)));
        assert_eq!(time(-2, 999_999_999), Some(epoch - Duration::new(1, 1)));
        for seconds in [i64::MIN, i64::MAX] {
            // Whichever it is, nothing panics.
            let _ = time(seconds, 999_999_999);
        }
    }
}
