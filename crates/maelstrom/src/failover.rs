//! Failover and load sharing between the two appliances of a site (§4.6's future work), without I/O.
//!
//! The addresses on both sides of the link are cut into partitions, each with an engine of its own.
//! Of two appliances that see the same packets each has partitions at home: they inform each other in
//! every hello what they protect, and when one says nothing for a stated time the other protects its
//! partitions too, until it speaks again. Nothing is agreed on: who has what follows from who was
//! heard, so the worst that lost hellos do is that both protect a partition for a while.

use wellspring_core::{Duration, Time};

use crate::auth::{PresharedKey, Sealer, SessionId, Verifier};
use crate::drop_reason::DropReason;
use crate::partitions::Partitions;
use crate::wire::{HELLO_LEN, Hello, Sealed, emit_hello};

/// Hellos in the time after which a silent peer counts as gone: so many are lost before.
const HELLOS_IN_SILENCE: u64 = 5;

/// How a site is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailoverConfig {
    /// Partitions of the site, 1 to `MAX_PARTITIONS`: the same at all appliances of both sites.
    pub partitions: u8,
    /// Whether this is the first of the two, which has the even ones at home. The peer is the other.
    pub first: bool,
    /// How long the peer may say nothing before its partitions are taken.
    pub silence: Duration,
}

/// What there was between the two.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FailoverCounters {
    /// Hellos heard.
    pub hellos: u64,
    /// Hellos dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::COUNT],
    /// Times the peer's partitions were taken.
    pub takeovers: u64,
    /// Times they were given back.
    pub returns: u64,
}

/// One of two appliances that share a site's partitions.
#[derive(Debug)]
pub struct Failover {
    config: FailoverConfig,
    sealer: Sealer,
    verifier: Verifier,
    hello_at: Time,
    peer_gone_at: Time,
    peer_heard: bool,
    /// Whether the peer's partitions are protected here.
    both: bool,
    /// The peer's last hello claimed partitions that are at home here.
    contested: bool,
    /// Counts up whenever partitions of this home must begin anew.
    tenure_home: u64,
    tenure_peer: u64,
    counters: FailoverCounters,
}

impl Failover {
    /// One appliance's part, from `now` on. `site` distinguishes the site from the other one, which has the
    /// same key; both appliances of a site give the same.
    pub fn new(
        key: &PresharedKey,
        site: &[u8],
        session: SessionId,
        config: FailoverConfig,
        now: Time,
    ) -> Self {
        let key = key.for_site(site);
        Failover {
            config,
            sealer: Sealer::new(&key, session),
            verifier: Verifier::new(&key, session),
            hello_at: now,
            peer_gone_at: now + config.silence,
            peer_heard: false,
            both: false,
            contested: false,
            tenure_home: 0,
            tenure_peer: 0,
            counters: FailoverCounters::default(),
        }
    }

    /// What there was.
    pub fn counters(&self) -> &FailoverCounters {
        &self.counters
    }

    /// Whether the peer speaks.
    pub fn peer_heard(&self) -> bool {
        self.peer_heard
    }

    /// What is to be protected here.
    pub fn owned(&self) -> Partitions {
        let all = Partitions::first(self.config.partitions);
        if self.both { all } else { self.home() }
    }

    /// A number for a partition that is protected here: when it changes, the partition's engine must
    /// begin a new session, because another appliance's was heard in between.
    pub fn tenure(&self, partition: u8) -> Option<u64> {
        let home = self.home().has(partition);
        self.owned().has(partition).then_some(if home {
            self.tenure_home
        } else {
            self.tenure_peer
        })
    }

    /// When [`Failover::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Time {
        if !self.both && self.peer_gone_at.is_before(self.hello_at) {
            self.peer_gone_at
        } else {
            self.hello_at
        }
    }

    /// It is that late: a hello that is due is appended to `out`; a peer that was silent for too long
    /// loses its partitions.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Vec<u8>) {
        if now.has_reached(self.peer_gone_at) && !self.both {
            self.take_over();
        }
        if now.has_reached(self.hello_at) {
            self.hello_at =
                now + Duration::from_picos(self.config.silence.as_picos() / HELLOS_IN_SILENCE);
            self.hello(self.owned(), out);
        }
    }

    /// Appends a last hello, after which the peer need not wait.
    pub fn farewell(&mut self, out: &mut Vec<u8>) {
        self.hello(Partitions::NONE, out);
    }

    /// Takes in what the peer may have sent.
    ///
    /// # Errors
    /// Why it is not believed; it was counted.
    pub fn handle_datagram(&mut self, now: Time, datagram: &[u8]) -> Result<(), DropReason> {
        let hello = self.open(datagram).inspect_err(|&why| {
            self.counters.dropped[why as usize] += 1;
        })?;
        self.counters.hellos += 1;
        if hello.claims == Partitions::NONE {
            self.peer_gone_at = now;
            return Ok(());
        }
        self.peer_heard = true;
        self.peer_gone_at = now + self.config.silence;
        if self.both {
            self.both = false;
            self.counters.returns += 1;
        }
        // The peer believed the peer's sessions, which were newer than this end's.
        let contested = hello.claims.overlaps(self.home());
        if self.contested && !contested {
            self.tenure_home += 1;
        }
        self.contested = contested;
        Ok(())
    }

    fn open(&mut self, datagram: &[u8]) -> Result<Hello, DropReason> {
        let sealed = Sealed::parse(datagram)?;
        let mut plain = Vec::new();
        let sealed = sealed.opened(&mut self.verifier, &mut plain)?;
        let hello = sealed.hello()?;
        // Two that do not cut alike cannot share.
        if hello.partitions == self.config.partitions && hello.first != self.config.first {
            Ok(hello)
        } else {
            Err(DropReason::Malformed)
        }
    }

    fn hello(&mut self, claims: Partitions, out: &mut Vec<u8>) {
        let hello = Hello { partitions: self.config.partitions, first: self.config.first, claims };
        out.reserve(HELLO_LEN);
        emit_hello(&mut self.sealer, &hello, out);
    }

    fn take_over(&mut self) {
        self.both = true;
        self.peer_heard = false;
        self.tenure_peer += 1;
        self.counters.takeovers += 1;
    }

    fn home(&self) -> Partitions {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let half = if self.config.first { EVEN } else { !EVEN };
        Partitions::from_bits(Partitions::first(self.config.partitions).bits() & half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::KEY_LEN;
    use proptest::prelude::*;

    const SILENCE: Duration = Duration::from_millis(1_000);

    fn one(first: bool, start: u64, now: Time) -> Failover {
        let key = PresharedKey::new([3; KEY_LEN]);
        let config = FailoverConfig { partitions: 5, first, silence: SILENCE };
        Failover::new(&key, b"site", SessionId { start, random: start }, config, now)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Lets time pass for both; what either says is heard unless it is lost.
    fn pass(pair: [&mut Failover; 2], from: u64, to: u64, lost: [bool; 2]) {
        let [a, b] = pair;
        for now in (from..to).step_by(10) {
            let mut said = [Vec::new(), Vec::new()];
            a.handle_timeout(at(now), &mut said[0]);
            b.handle_timeout(at(now), &mut said[1]);
            let [by_a, by_b] = said;
            if !by_a.is_empty() && !lost[0] {
                b.handle_datagram(at(now), &by_a).expect("believed");
            }
            if !by_b.is_empty() && !lost[1] {
                a.handle_datagram(at(now), &by_b).expect("believed");
            }
        }
    }

    fn owned(failover: &Failover) -> Vec<u8> {
        failover.owned().iter().collect()
    }

    #[test]
    fn each_has_its_own_and_takes_the_others_when_it_is_silent() {
        let (mut a, mut b) = (one(true, 1, at(0)), one(false, 2, at(0)));
        pass([&mut a, &mut b], 0, 5_000, [false; 2]);
        assert_eq!((owned(&a), owned(&b)), (vec![0, 2, 4], vec![1, 3]));
        assert!(a.peer_heard() && b.peer_heard());
        // The second dies: what it has is taken within the silence and a hello's time.
        let mut nothing = Vec::new();
        for now in (5_000..6_100).step_by(10) {
            a.handle_timeout(at(now), &mut nothing);
        }
        assert_eq!(owned(&a), [0, 1, 2, 3, 4]);
        assert!(!a.peer_heard());
        // Another life of it gets them back with its first hello.
        let mut b = one(false, 3, at(7_000));
        pass([&mut a, &mut b], 7_000, 7_020, [false; 2]);
        assert_eq!((owned(&a), owned(&b)), (vec![0, 2, 4], vec![1, 3]));
        assert_eq!((a.counters().takeovers, a.counters().returns), (1, 1));
        // One that says farewell need not be waited for.
        let mut farewell = Vec::new();
        b.farewell(&mut farewell);
        a.handle_datagram(at(7_020), &farewell).expect("believed");
        a.handle_timeout(at(7_020), &mut nothing);
        assert_eq!(owned(&a), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn sessions_begin_anew_where_the_peer_was_believed_in_between() {
        for lost in [[true, true], [true, false], [false, true]] {
            let (mut a, mut b) = (one(true, 1, at(0)), one(false, 2, at(0)));
            pass([&mut a, &mut b], 0, 3_000, [false; 2]);
            let before = (a.tenure(0), b.tenure(1));
            assert_eq!((a.tenure(1), b.tenure(0)), (None, None));
            pass([&mut a, &mut b], 3_000, 6_000, lost);
            // Whoever hears nothing protects all.
            assert_eq!(
                [owned(&a).len(), owned(&b).len()],
                [if lost[1] { 5 } else { 3 }, if lost[0] { 5 } else { 2 },]
            );
            pass([&mut a, &mut b], 6_000, 9_000, [false; 2]);
            assert_eq!((owned(&a), owned(&b)), (vec![0, 2, 4], vec![1, 3]));
            assert_eq!(a.tenure(0) != before.0, lost[0], "b had a's home: {lost:?}");
            assert_eq!(b.tenure(1) != before.1, lost[1], "a had b's home: {lost:?}");
        }
    }

    #[test]
    fn nobody_else_is_a_peer() {
        let mut a = one(true, 1, at(0));
        let mut said = Vec::new();
        a.handle_timeout(at(0), &mut said);
        assert_eq!(said.len(), HELLO_LEN);
        assert_eq!(a.handle_datagram(at(1), &said), Err(DropReason::Reflected));
        // The other site, with the same key.
        let key = PresharedKey::new([3; KEY_LEN]);
        let config = FailoverConfig { partitions: 5, first: false, silence: SILENCE };
        let session = SessionId { start: 9, random: 9 };
        let mut there = Failover::new(&key, b"the other", session, config, at(0));
        said.clear();
        there.handle_timeout(at(0), &mut said);
        assert_eq!(a.handle_datagram(at(1), &said), Err(DropReason::Forged));
        // One that cuts otherwise, and one that takes itself for the first too.
        for config in
            [FailoverConfig { partitions: 4, ..config }, FailoverConfig { first: true, ..config }]
        {
            let mut other = Failover::new(&key, b"site", session, config, at(0));
            said.clear();
            other.handle_timeout(at(0), &mut said);
            assert_eq!(a.handle_datagram(at(1), &said), Err(DropReason::Malformed));
            a = one(true, 1, at(0));
        }
        // Yesterday's hello.
        let mut b = one(false, 2, at(0));
        said.clear();
        b.handle_timeout(at(0), &mut said);
        assert_eq!(a.handle_datagram(at(1), &said), Ok(()));
        assert_eq!(a.handle_datagram(at(900), &said), Err(DropReason::Replayed));
        said.clear();
        a.handle_timeout(at(1_002), &mut said);
        assert_eq!(owned(&a), [0, 1, 2, 3, 4], "a replayed hello does not keep the peer alive");
    }

    proptest! {
        #[test]
        fn garbage_changes_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut a = one(true, 1, at(0));
            prop_assert!(a.handle_datagram(at(1), &bytes).is_err());
            prop_assert!(!a.peer_heard());
        }

        #[test]
        fn no_partition_is_without_an_owner_once_hellos_are_heard_or_missed(
            losses in proptest::collection::vec((any::<bool>(), any::<bool>(), 1_u64..40), 1..12),
        ) {
            let (mut a, mut b) = (one(true, 1, at(0)), one(false, 2, at(0)));
            let mut now = 0;
            for (there, back, steps) in losses {
                let until = now + steps * 100;
                pass([&mut a, &mut b], now, until, [there, back]);
                now = until;
                for partition in 0..5 {
                    prop_assert!(a.tenure(partition).is_some() || b.tenure(partition).is_some());
                }
            }
            pass([&mut a, &mut b], now, now + 500, [false; 2]);
            for partition in 0..5 {
                prop_assert!(a.tenure(partition).is_some() != b.tenure(partition).is_some());
            }
        }
    }
}
