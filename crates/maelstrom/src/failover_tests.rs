//! Tests of failover: who protects what while hellos are heard, lost, forged and late, and how loads move partitions.

use proptest::prelude::*;
use wellspring_core::{Duration, Time};

use super::*;

const SILENCE: Duration = Duration::from_millis(1_000);
const BALANCE: Duration = Duration::from_millis(2_000);

fn key() -> PresharedKey {
    PresharedKey::new([3; KEY_LEN])
}

fn config(number: u8, appliances: u8, partitions: u8) -> FailoverConfig {
    FailoverConfig { partitions, appliances, number, silence: SILENCE, balance: Some(BALANCE) }
}

fn begin(config: FailoverConfig, life: u64, now: Time) -> Failover {
    Failover::new(&key(), b"site", SessionId { start: life, random: life }, config, now)
}

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// The appliances of a site, and the loads of its partitions.
struct Site {
    members: Vec<Option<Failover>>,
    loads: Vec<u32>,
    now: u64,
}

impl Site {
    fn new(appliances: u8, partitions: u8) -> Self {
        let member = |n| Some(begin(config(n, appliances, partitions), u64::from(n) + 1, at(0)));
        Site {
            members: (0..appliances).map(member).collect(),
            loads: vec![0; usize::from(partitions)],
            now: 0,
        }
    }

    /// Lets time pass; what `from` says is heard by `to` unless that is `lost`. Whoever holds a partition protects it.
    fn pass(&mut self, millis: u64, lost: impl Fn(usize, usize) -> bool) {
        for _ in 0..millis / 10 {
            let now = at(self.now);
            for from in 0..self.members.len() {
                let Some(member) = &mut self.members[from] else { continue };
                member.on_running(now, member.owned(), 0);
                for (partition, &load) in (0..).zip(&self.loads) {
                    member.on_load(partition, load);
                }
                let mut said = Vec::new();
                member.handle_timeout(now, &mut said);
                if said.is_empty() {
                    continue;
                }
                for to in (0..self.members.len()).filter(|&to| to != from && !lost(from, to)) {
                    if let Some(member) = &mut self.members[to] {
                        member.handle_datagram(now, from as u8, &said).expect("believed");
                    }
                }
            }
            self.assert_owned();
            self.now += 10;
        }
    }

    fn assert_owned(&self) {
        let all_live = self.members.iter().flatten().count() == self.members.len();
        for partition in 0..self.loads.len() as u8 {
            let has = |member: &Failover| member.tenure(partition).is_some();
            assert!(
                !all_live || self.members.iter().flatten().any(has),
                "at {} ms nobody protects {partition}",
                self.now
            );
        }
    }

    fn hear_all(&mut self, millis: u64) {
        self.pass(millis, |_, _| false);
    }

    fn of(&self, number: usize) -> &Failover {
        self.members[number].as_ref().expect("alive")
    }

    fn owned(&self, number: usize) -> Vec<u8> {
        self.of(number).owned().iter().collect()
    }
}

#[test]
fn each_has_its_own_and_takes_the_others_when_it_is_silent() {
    let mut site = Site::new(2, 5);
    site.hear_all(5_000);
    assert_eq!((site.owned(0), site.owned(1)), (vec![0, 2, 4], vec![1, 3]));
    assert!(site.of(0).is_heard(1) && site.of(1).is_heard(0));
    // The second dies: what it has is taken within the silence.
    site.members[1] = None;
    site.hear_all(1_100);
    assert_eq!(site.owned(0), [0, 1, 2, 3, 4]);
    assert!(!site.of(0).is_heard(1));
    // Another life of it gets them back with its first hello.
    site.members[1] = Some(begin(config(1, 2, 5), 9, at(site.now)));
    site.hear_all(30);
    assert_eq!((site.owned(0), site.owned(1)), (vec![0, 2, 4], vec![1, 3]));
    let counters = site.of(0).counters();
    assert_eq!((counters.takeovers, counters.returns, counters.moved_away), (1, 1, 0));
    // One that says farewell need not be waited for.
    let mut farewell = Vec::new();
    let mut leaving = site.members[1].take().expect("alive");
    leaving.farewell(&mut farewell);
    let now = at(site.now);
    let first = site.members[0].as_mut().expect("alive");
    first.handle_datagram(now, 1, &farewell).expect("believed");
    first.handle_timeout(now, &mut Vec::new());
    assert_eq!(site.owned(0), [0, 1, 2, 3, 4]);
}

#[test]
fn the_first_of_three_dies_and_the_others_share_what_it_had() {
    let mut site = Site::new(3, 6);
    site.loads = vec![500, 100, 10, 300, 10, 10];
    site.hear_all(1_000);
    assert_eq!([0, 1, 2].map(|n| site.owned(n)), [vec![0, 3], vec![1, 4], vec![2, 5]]);
    site.members[0] = None;
    site.hear_all(1_300);
    // The greater load to the one that has less, the other one to the other.
    assert_eq!([1, 2].map(|n| site.owned(n)), [vec![1, 3, 4], vec![0, 2, 5]]);
    assert_eq!([1, 2].map(|n| site.of(n).counters().takeovers), [1, 1]);
    // It makes the assignments again, and its own is not the first one, which is outdated.
    site.members[0] = Some(begin(config(0, 3, 6), 9, at(site.now)));
    site.hear_all(300);
    assert_eq!([0, 1, 2].map(|n| site.owned(n)), [vec![0, 3], vec![1, 4], vec![2, 5]]);
    assert_eq!([1, 2].map(|n| site.of(n).counters().returns), [1, 1]);
    assert_eq!([0, 1, 2].map(|n| site.of(n).owners().to_vec()), [[0, 1, 2, 0, 1, 2]; 3]);
}

#[test]
fn load_moves_partitions_one_at_a_time_and_no_further() {
    let mut site = Site::new(3, 6);
    site.loads = vec![4_000, 100, 100, 4_000, 100, 0];
    site.hear_all(2_300);
    // The second has 200, the third 100: that one takes half of the first's load.
    assert_eq!([0, 1, 2].map(|n| site.owned(n)), [vec![3], vec![1, 4], vec![0, 2, 5]]);
    assert_eq!(site.of(0).counters().moved_away, 1);
    assert_eq!(site.of(2).counters().moved_here, 1);
    site.hear_all(10_000);
    assert_eq!(site.owned(2), [0, 2, 5], "nothing is gained by another move");
    // Loads change, and what moved may move again.
    site.loads = vec![1_000, 0, 3_000, 0, 0, 3_000];
    site.hear_all(10_000);
    let loads =
        [0, 1, 2].map(|n| site.owned(n).iter().map(|&p| site.loads[usize::from(p)]).sum::<u32>());
    assert_eq!(loads.iter().max(), Some(&3_000), "{loads:?}");
    assert_eq!(site.of(0).counters().takeovers, 0);
}

#[test]
fn without_balancing_nothing_moves() {
    let mut site = Site::new(2, 4);
    for (n, member) in (0..).zip(&mut site.members) {
        let config = FailoverConfig { balance: None, ..config(n, 2, 4) };
        *member = Some(begin(config, u64::from(n) + 1, at(0)));
    }
    site.loads = vec![9_000, 0, 9_000, 0];
    site.hear_all(30_000);
    assert_eq!((site.owned(0), site.owned(1)), (vec![0, 2], vec![1, 3]));
}

#[test]
fn sessions_begin_anew_where_another_was_believed_in_between() {
    for lost in [[true, true], [true, false], [false, true]] {
        let mut site = Site::new(2, 5);
        site.hear_all(3_000);
        let before = (site.of(0).tenure(0), site.of(1).tenure(1));
        assert_eq!((site.of(0).tenure(1), site.of(1).tenure(0)), (None, None));
        site.pass(3_000, |from, _| lost[from]);
        // Whoever hears nothing protects all; the second believes the first if only that one is heard.
        let all = [lost[1], lost[0]];
        let second = if all[1] { 5 } else { 0 };
        assert_eq!(
            [site.owned(0).len(), site.owned(1).len()],
            [if all[0] { 5 } else { 3 }, second]
        );
        site.hear_all(3_000);
        assert_eq!((site.owned(0), site.owned(1)), (vec![0, 2, 4], vec![1, 3]));
        assert_eq!(site.of(0).tenure(0) != before.0, lost[0], "the second had it: {lost:?}");
        assert_eq!(site.of(1).tenure(1) != before.1, lost[1], "the first had it: {lost:?}");
    }
}

#[test]
fn a_partition_is_given_up_only_when_its_new_owner_protects_it() {
    let mut site = Site::new(2, 4);
    site.loads = vec![500, 0, 900, 0];
    site.hear_all(1_500);
    let [Some(first), Some(second)] = &mut site.members[..] else { unreachable!("two") };
    // The first decides to move one, and the second cannot yet.
    let (mut now, mut said) = (at(site.now), Vec::new());
    while first.owners() == [0, 1, 0, 1] {
        said.clear();
        now = now + Duration::from_millis(100);
        first.handle_timeout(now, &mut said);
        second.handle_datagram(now, 0, &said).ok();
        said.clear();
        second.handle_timeout(now, &mut said);
        first.handle_datagram(now, 1, &said).ok();
    }
    assert_eq!(first.owners(), [1, 1, 0, 1]);
    assert!(second.owned().has(0) && first.owned().has(0));
    // By a hello in which it claims what it had.
    for _ in 0..3 {
        now = now + Duration::from_millis(200);
        said.clear();
        second.handle_timeout(now, &mut said);
        first.handle_datagram(now, 1, &said).expect("believed");
    }
    assert!(first.owned().has(0), "still");
    second.on_running(now, second.owned(), 0);
    said.clear();
    second.handle_timeout(now, &mut said);
    first.handle_datagram(now, 1, &said).expect("believed");
    assert!(!first.owned().has(0));
}

#[test]
fn the_newest_session_of_a_site_is_known_to_all() {
    let mut site = Site::new(3, 3);
    let now = at(0);
    site.members[2].as_mut().expect("alive").on_running(now, Partitions::NONE, 77);
    site.hear_all(500);
    assert_eq!([0, 1, 2].map(|n| site.of(n).newest_session()), [77; 3]);
}

#[test]
fn nobody_else_is_believed() {
    let mut first = begin(config(0, 2, 5), 1, at(0));
    let mut said = Vec::new();
    first.handle_timeout(at(0), &mut said);
    assert!(said.len() <= MAX_HELLO_LEN);
    assert_eq!(first.handle_datagram(at(1), 0, &said), Err(DropReason::Reflected));
    assert_eq!(first.handle_datagram(at(1), 1, &said), Err(DropReason::Reflected));
    assert_eq!(first.handle_datagram(at(1), 9, &said), Err(DropReason::Foreign));
    // The other site, with the same key.
    let session = SessionId { start: 9, random: 9 };
    let mut there = Failover::new(&key(), b"the other", session, config(1, 2, 5), at(0));
    said.clear();
    there.handle_timeout(at(0), &mut said);
    assert_eq!(first.handle_datagram(at(1), 1, &said), Err(DropReason::Forged));
    // One that cuts otherwise, one of three, and one that takes itself for another.
    for (config, why) in [
        (config(1, 2, 4), DropReason::Malformed),
        (config(1, 3, 5), DropReason::Forged),
        (config(0, 2, 5), DropReason::Forged),
    ] {
        let mut other = begin(config, 9, at(0));
        said.clear();
        other.handle_timeout(at(0), &mut said);
        assert_eq!(first.handle_datagram(at(1), 1, &said), Err(why));
        first = begin(self::config(0, 2, 5), 1, at(0));
    }
    // Yesterday's hello.
    let mut second = begin(config(1, 2, 5), 2, at(0));
    said.clear();
    second.handle_timeout(at(0), &mut said);
    assert_eq!(first.handle_datagram(at(1), 1, &said), Ok(()));
    assert_eq!(first.handle_datagram(at(900), 1, &said), Err(DropReason::Replayed));
    said.clear();
    first.handle_timeout(at(1_002), &mut said);
    let owned: Vec<u8> = first.owned().iter().collect();
    assert_eq!(owned, [0, 1, 2, 3, 4], "a replayed hello does not keep another alive");
}

proptest! {
    #[test]
    fn garbage_changes_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut first = begin(config(0, 2, 5), 1, at(0));
        prop_assert!(first.handle_datagram(at(1), 1, &bytes).is_err());
        prop_assert!(!first.is_heard(1));
    }

    #[test]
    fn what_a_holder_of_the_key_says_neither_panics_nor_leaves_limits(
        bodies in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..400), any::<bool>()), 1..8),
    ) {
        let mut first = begin(config(0, 2, 5), 1, at(0));
        let key = key().for_site(&[&b"site"[..], &[2, 1]].concat());
        for (number, (mut body, near)) in (0..).zip(bodies) {
            if near {
                // As long as it should be, and with the numbers that are compared.
                body.resize(32 + 25, 1);
                body[..7].copy_from_slice(&[5, 2, 1, 0, 0, 0, 1]);
                body[8..15].fill(0);
                body[16] &= 0x7f;
                body[32..37].iter_mut().for_each(|owner| *owner %= 2);
            }
            let mut datagram = vec![crate::wire::VERSION, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            seal_datagram(&key, SessionId { start: 2, random: 2 }, number, &mut datagram, &body);
            let _ = first.handle_datagram(at(number * 300), 1, &datagram);
            first.handle_timeout(at(number * 300), &mut Vec::new());
            prop_assert!(first.owners().iter().all(|&owner| owner < 2));
        }
    }

    /// At no time is a partition without one that protects it while all live, whichever hellos are lost; and once all
    /// are heard again, each has exactly one.
    #[test]
    fn no_partition_is_left_out(
        appliances in 2_u8..5,
        losses in proptest::collection::vec((any::<u16>(), 1_u64..40), 1..12),
        loads in proptest::collection::vec(0_u32..2_000, 6),
    ) {
        let mut site = Site::new(appliances, 6);
        site.loads = loads;
        for (mask, steps) in losses {
            site.pass(steps * 100, |from, to| mask >> (from * 4 + to) & 1 == 1);
        }
        // No move at the moment of the count.
        site.loads.fill(0);
        site.hear_all(3_000);
        for partition in 0..6 {
            let has = site.members.iter().flatten().filter(|m| m.tenure(partition).is_some());
            prop_assert_eq!(has.count(), 1, "{}", partition);
        }
    }
}
