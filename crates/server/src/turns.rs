//! Turns at reading files for their digests: few at one time, one for each address, and in order.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::store::{Fingerprint, HashProgress};

/// Files read at one time; further ones wait their turn.
const MAX_RUNNING: usize = 2;
/// Who has not asked for so long does not wait any more. Clients ask at least once a second.
const WAITS: Duration = Duration::from_secs(5);
/// What nobody has asked about for so long gives its turn to who waits.
const UNASKED: Duration = Duration::from_secs(30);
/// Addresses that wait, at most; others are put off.
const MAX_WAITING: usize = 1_024;

/// Who has a turn, and who waits for one.
#[derive(Default)]
pub(super) struct Turns {
    running: BTreeMap<Fingerprint, Turn>,
    waiting: VecDeque<(IpAddr, Instant)>,
}

struct Turn {
    of: IpAddr,
    progress: HashProgress,
    asked: Instant,
}

/// What becomes of a question for a file.
pub(super) enum Asked {
    /// So many of its bytes are read.
    Runs(u64),
    /// Others are before it.
    Waits,
    /// It has its turn.
    Begins(HashProgress),
}

impl Turns {
    /// An address asks for a file.
    pub(super) fn ask(&mut self, file: Fingerprint, of: IpAddr, now: Instant) -> Asked {
        if let Some(turn) = self.running.get_mut(&file) {
            turn.asked = now;
            return Asked::Runs(turn.progress.done());
        }
        self.waiting.retain(|(_, asked)| now.saturating_duration_since(*asked) < WAITS);
        match self.waiting.iter().position(|(address, _)| *address == of) {
            Some(at) => self.waiting[at].1 = now,
            None if self.waiting.len() < MAX_WAITING => self.waiting.push_back((of, now)),
            None => return Asked::Waits,
        }
        let has_one = |of| self.running.values().any(|turn| turn.of == of);
        let free = MAX_RUNNING.saturating_sub(self.running.len());
        let waiting = self.waiting.iter().map(|(address, _)| *address);
        if !waiting.filter(|address| !has_one(*address)).take(free).any(|next| next == of) {
            self.end_unasked(now);
            return Asked::Waits;
        }
        self.waiting.retain(|(address, _)| *address != of);
        let progress = HashProgress::default();
        self.running.insert(file, Turn { of, progress: progress.clone(), asked: now });
        Asked::Begins(progress)
    }

    /// A file was read, or could not be.
    pub(super) fn end(&mut self, file: &Fingerprint) {
        self.running.remove(file);
    }

    /// All that is read is of use to nobody any more.
    pub(super) fn end_all(&self) {
        self.running.values().for_each(|turn| turn.progress.stop());
    }

    fn end_unasked(&self, now: Instant) {
        let unasked = |turn: &&Turn| now.saturating_duration_since(turn.asked) >= UNASKED;
        self.running.values().filter(unasked).for_each(|turn| turn.progress.stop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of which nothing is read.
    struct Files(tempfile::TempDir);

    impl Files {
        fn one(&self, name: &str) -> Fingerprint {
            let file = std::fs::File::create_new(self.0.path().join(name)).expect("made");
            Fingerprint::of(&file).expect("a file")
        }
    }

    fn address(host: u8) -> IpAddr {
        [192, 0, 2, host].into()
    }

    fn begins(turns: &mut Turns, file: Fingerprint, host: u8, at: Instant) -> bool {
        matches!(turns.ask(file, address(host), at), Asked::Begins(_))
    }

    #[test]
    fn an_address_has_one_turn_and_others_get_theirs_in_order() {
        let files = Files(tempfile::tempdir().expect("temporary directory"));
        let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(|name| files.one(name));
        let (mut turns, now) = (Turns::default(), Instant::now());
        assert!(begins(&mut turns, a, 1, now));
        assert!(!begins(&mut turns, b, 1, now), "a second one of an address");
        assert!(begins(&mut turns, c, 2, now), "it does not keep others waiting");
        assert!(matches!(turns.ask(a, address(3), now), Asked::Runs(0)), "of use to all");
        assert!(!begins(&mut turns, d, 3, now), "all turns are taken");
        assert!(!begins(&mut turns, e, 4, now));
        turns.end(&c);
        assert!(!begins(&mut turns, e, 4, now), "another waits before it");
        assert!(!begins(&mut turns, c, 2, now), "as it does before who had a turn");
        assert!(begins(&mut turns, d, 3, now));
        turns.end(&a);
        assert!(!begins(&mut turns, e, 4, now));
        assert!(begins(&mut turns, b, 1, now), "the first that has waited");
        turns.end(&d);
        assert!(begins(&mut turns, e, 4, now));
    }

    #[test]
    fn who_has_gone_keeps_nobody_waiting() {
        let files = Files(tempfile::tempdir().expect("temporary directory"));
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| files.one(name));
        let (mut turns, began) = (Turns::default(), Instant::now());
        let Asked::Begins(read) = turns.ask(a, address(1), began) else { panic!("no turn") };
        assert!(begins(&mut turns, b, 2, began));
        assert!(!begins(&mut turns, c, 3, began));
        turns.end(&b);
        assert!(begins(&mut turns, d, 4, began + WAITS), "the third one has gone");
        assert!(read.add(1).is_ok());
        assert!(!begins(&mut turns, c, 3, began + UNASKED));
        assert!(read.add(1).is_err(), "the first one has gone");
    }

    #[test]
    fn those_who_wait_are_bounded() {
        let files = Files(tempfile::tempdir().expect("temporary directory"));
        let [a, b, c] = ["a", "b", "c"].map(|name| files.one(name));
        let (mut turns, now) = (Turns::default(), Instant::now());
        assert!(begins(&mut turns, a, 1, now) && begins(&mut turns, b, 2, now));
        for host in 0..5_000_u32 {
            assert!(matches!(turns.ask(c, IpAddr::V4(host.into()), now), Asked::Waits));
        }
        assert_eq!(turns.waiting.len(), MAX_WAITING);
    }
}
